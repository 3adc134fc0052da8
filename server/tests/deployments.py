"""Make deployments for the setups: SQLite with a local store, PostgreSQL with a local store, PostgreSQL with S3.

Running a service is in `tests.service`.
"""

import secrets
from pathlib import Path

import pytest

from tests.db.migrated import Migrated
from tests.servers.postgres import Postgres
from tests.servers.radosgw import RadosGateway
from tests.service import Deployment


class Deployments:
    """Make fresh deployments of a setup, each with its own folder and its own database with the current schema."""

    def __init__(self, request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> None:
        self._request = request
        self._migrated: Migrated = request.getfixturevalue("migrated")
        self._folders = folders

    def fresh(self, setup: str, *, clamd: str | None = None) -> Deployment:
        """Make a deployment of a setup; `postgres-s3` uses the scanner of the fixture `clamd`, if there is one.

        A server that begins with clamd probes it, which takes clamd 0.2 s of processor time.
        """
        folder = self._folders.mktemp(setup)
        if setup == "sqlite-local":
            return self._embedded(folder)
        return self._on_postgres(folder) if setup == "postgres-local" else self._production(folder, clamd)

    def _embedded(self, folder: Path) -> Deployment:
        return Deployment(
            "sqlite-local", folder, self._migrated.sqlite(folder / "data", "sluice.db"), {"SCANNER": "builtin"}
        )

    def _on_postgres(self, folder: Path) -> Deployment:
        url, owner = self._two_roles()
        return Deployment(
            "postgres-local", folder, url, {"SCANNER": "builtin", "MIGRATION_DATABASE_URL": owner}, owner_url=owner
        )

    def _production(self, folder: Path, clamd: str | None) -> Deployment:
        gateway: RadosGateway = self._request.getfixturevalue("gateway")
        url, owner = self._two_roles()
        scanner = {"SCANNER": "builtin"}
        if clamd is not None:
            scanner = {"SCANNER": "clamd", "CLAMD": self._request.getfixturevalue(clamd)}
        settings = {
            **scanner,
            "BUCKET_ENDPOINT_HOSTS": gateway.endpoint.removeprefix("http://"),
            "MIGRATION_DATABASE_URL": owner,
        }
        bucket = gateway.create_bucket(f"test-{secrets.token_hex(8)}")
        return Deployment("postgres-s3", folder, url, settings, gateway, bucket, owner)

    def _two_roles(self) -> tuple[str, str]:
        """Create a database and return its URL for the service's role and for its owner."""
        postgres: Postgres = self._request.getfixturevalue("postgres")
        owner = self._migrated.postgres(postgres).replace("+asyncpg", "")
        return postgres.for_service(owner), owner
