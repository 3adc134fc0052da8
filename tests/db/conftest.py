"""An empty database of each kind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sluice.db.database import Database


@pytest.fixture(params=["sqlite", "postgresql"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    on_file = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'test.db'}" if on_file else request.getfixturevalue("postgres").createdb()
    database = Database(url)
    yield database
    await database.aclose()
