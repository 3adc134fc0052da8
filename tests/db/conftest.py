"""Databases of each kind: empty, or with the current schema."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from sluice.db.database import Database
from tests.db.migrated import Migrated


@pytest.fixture(params=["sqlite", "postgresql"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    on_file = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'test.db'}" if on_file else request.getfixturevalue("postgres").createdb()
    async with aclosing(Database(url)) as database:
        yield database


@pytest.fixture(params=["sqlite", "postgresql"])
async def tables(request: pytest.FixtureRequest, migrated: Migrated, tmp_path: Path) -> AsyncIterator[Database]:
    on_file = request.param == "sqlite"
    url = migrated.sqlite(tmp_path) if on_file else migrated.postgres(request.getfixturevalue("postgres"))
    async with aclosing(Database(url)) as database:
        yield database
