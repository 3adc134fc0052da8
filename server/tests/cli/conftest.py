"""Fixtures of the command tests: an empty folder, an initialized one, and a client of a service."""

from pathlib import Path
from typing import Any

import pytest

from sluice.db.database import Database
from sluice.tenants.service import Tenants
from tests.cli.commands import Sluice, sluice_in
from tests.service import ApiClient, Service


@pytest.fixture
def sluice(tmp_path: Path) -> Sluice:
    """The command in a folder without any data."""
    return sluice_in(tmp_path / "empty")


@pytest.fixture
def client(sqlite_local: Service) -> ApiClient:
    """A client of a new tenant of a running service."""
    return sqlite_local.new_client()


@pytest.fixture(scope="session")
def initialized(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sluice, dict[str, Any]]:
    """The command in a folder set up by `init`, and the output of `init`.

    Tests may add tenants; they must not change existing ones.
    """
    sluice = sluice_in(tmp_path_factory.mktemp("cli"))
    result = sluice("init", "--json")
    assert result.code == 0, result.err
    return sluice, result.json


@pytest.fixture
def ready(initialized: tuple[Sluice, dict[str, Any]]) -> Sluice:
    return initialized[0]


@pytest.fixture
async def tenant_id(ready: Sluice) -> str:
    """The id of a new tenant."""
    database = Database(f"sqlite:///{ready.data_dir / 'sluice.db'}")
    try:
        return (await Tenants(database).create("Weir & Sons", "free")).tenant_id
    finally:
        await database.aclose()
