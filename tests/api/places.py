"""Makes the places that services run on: the embedded setup and the production one. Running a service there lives in `tests.gate`."""

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
        """Make a place; the production one has the scanner of the fixture `clamd`."""
        folder = self._folders.mktemp(setup)
        return self._embedded(folder) if setup == "sqlite-local" else self._production(folder, clamd)

    def _embedded(self, folder: Path) -> Place:
        return Place("sqlite-local", folder, f"sqlite:///{folder / 'data' / 'sluice.db'}", {"SCANNER": "builtin"})

    def _production(self, folder: Path, clamd: str) -> Place:
        gateway: RadosGateway = self._request.getfixturevalue("gateway")
        postgres: Postgres = self._request.getfixturevalue("postgres")
        settings = {
            "SCANNER": "clamd",
            "CLAMD": self._request.getfixturevalue(clamd),
            "BUCKET_ENDPOINT_HOSTS": gateway.endpoint.removeprefix("http://"),
        }
        owner = postgres.createdb().replace("+asyncpg", "")
        url, settings["MIGRATION_DATABASE_URL"] = postgres.for_service(owner), owner
        bucket = gateway.create_bucket(f"test-{secrets.token_hex(8)}")
        return Place("postgres-s3", folder, url, settings, gateway, bucket, owner)
