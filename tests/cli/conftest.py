"""Fixtures of the command tests: a fresh folder, and one that was set up."""

from pathlib import Path
from typing import Any

import pytest

from sluice.db.database import Database
from sluice.tenants.service import Tenants
from tests.cli.commands import Sluice, sluice_in


@pytest.fixture
def sluice(tmp_path: Path) -> Sluice:
    """The command in a folder where nothing was set up."""
    return sluice_in(tmp_path / "fresh")


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sluice, dict[str, Any]]:
    """The command in a folder that `init` set up, and what it printed. Tests add tenants to it and change none of others."""
    sluice = sluice_in(tmp_path_factory.mktemp("cli"))
    ended = sluice("init", "--json")
    assert ended.code == 0, ended.err
    return sluice, ended.json


@pytest.fixture
def ready(first: tuple[Sluice, dict[str, Any]]) -> Sluice:
    return first[0]


@pytest.fixture
async def tenant_id(ready: Sluice) -> str:
    """A fresh tenant."""
    database = Database(f"sqlite:///{ready.data_dir / 'sluice.db'}")
    try:
        return (await Tenants(database).create("Weir & Sons", "free")).tenant_id
    finally:
        await database.aclose()
