"""A migrated database with a tenant, on each engine."""

import pytest

from sluice.db.database import Database
from tests.db.conftest import tables as empty_tables  # noqa: F401  (a fixture)
from tests.db.rows import add_tenant


@pytest.fixture
async def tables(empty_tables: Database) -> Database:  # noqa: F811  (the fixture)
    await add_tenant(empty_tables, "ten_1")
    return empty_tables
