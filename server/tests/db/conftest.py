"""Databases of each kind: empty, or with the current schema."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest

from sluice.db.database import Database
from tests.db.migrated import Migrated


@pytest.fixture(params=["sqlite", "postgresql"])
async def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Callable[[], Database]]:
    """A function that makes empty databases, all of one kind."""
    server = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    numbers = itertools.count(1)
    async with AsyncExitStack() as opened:

        def make() -> Database:
            url = f"sqlite:///{tmp_path / f'test-{next(numbers)}.db'}" if server is None else server.createdb()
            database = Database(url)
            opened.push_async_callback(database.aclose)
            return database

        yield make


@pytest.fixture
def database(new_database: Callable[[], Database]) -> Database:
    return new_database()


@pytest.fixture(params=["sqlite", "postgresql"])
async def tables(request: pytest.FixtureRequest, migrated: Migrated, tmp_path: Path) -> AsyncIterator[Database]:
    on_file = request.param == "sqlite"
    url = migrated.sqlite(tmp_path) if on_file else migrated.postgres(request.getfixturevalue("postgres"))
    async with aclosing(Database(url)) as database:
        yield database
