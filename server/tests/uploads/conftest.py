"""A migrated database with a tenant and a context, on each engine."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from sluice.db.database import Database
from tests.db.migrated import Migrated
from tests.uploads.rows import prepare


@pytest.fixture(params=["sqlite", "postgresql"])
async def database(request: pytest.FixtureRequest, migrated: Migrated, tmp_path: Path) -> AsyncIterator[Database]:
    on_file = request.param == "sqlite"
    url = migrated.sqlite(tmp_path) if on_file else migrated.postgres(request.getfixturevalue("postgres"))
    async with aclosing(Database(url)) as database:
        await prepare(database)
        yield database
