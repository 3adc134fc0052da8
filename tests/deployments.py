"""Makes the places that services run on: the embedded one, one with PostgreSQL, and that of production. Running a service lives in `tests.gate`."""

import secrets
from pathlib import Path

import pytest

from tests.gate import Place
from tests.servers.postgres import Postgres
from tests.servers.radosgw import RadosGateway


class Places:
    """Makes fresh places of a setup, each with a database and a folder of its own."""

    def __init__(self, request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> None:
        self._request = request
        self._folders = folders

    def fresh(self, setup: str, *, clamd: str = "clamd_address") -> Place:
        """Make a place: `sqlite-local`, `postgres-local`, or `postgres-s3`, which has the scanner of the fixture `clamd`."""
        folder = self._folders.mktemp(setup)
        if setup == "sqlite-local":
            return self._embedded(folder)
        return self._on_postgres(folder) if setup == "postgres-local" else self._production(folder, clamd)

    def _embedded(self, folder: Path) -> Place:
        return Place("sqlite-local", folder, f"sqlite:///{folder / 'data' / 'sluice.db'}", {"SCANNER": "builtin"})

    def _on_postgres(self, folder: Path) -> Place:
        url, owner = self._two_roles()
        return Place("postgres-local", folder, url, {"SCANNER": "builtin", "MIGRATION_DATABASE_URL": owner}, owner_url=owner)

    def _production(self, folder: Path, clamd: str) -> Place:
        gateway: RadosGateway = self._request.getfixturevalue("gateway")
        url, owner = self._two_roles()
        settings = {
            "SCANNER": "clamd",
            "CLAMD": self._request.getfixturevalue(clamd),
            "BUCKET_ENDPOINT_HOSTS": gateway.endpoint.removeprefix("http://"),
            "MIGRATION_DATABASE_URL": owner,
        }
        bucket = gateway.create_bucket(f"test-{secrets.token_hex(8)}")
        return Place("postgres-s3", folder, url, settings, gateway, bucket, owner)

    def _two_roles(self) -> tuple[str, str]:
        """Make a database and answer its URL for the service's role and for its owner."""
        postgres: Postgres = self._request.getfixturevalue("postgres")
        owner = postgres.createdb().replace("+asyncpg", "")
        return postgres.for_service(owner), owner
