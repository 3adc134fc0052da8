"""Imports of hash lists on a database, without HTTP."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from sluice.db.database import Database
from sluice.hash_lists.service import HashLists, Imported
from tests.db.migrated import Migrated
from tests.db.rows import add_tenant
from tests.operator_action import operator_action

BY = operator_action("ten_1")


@pytest.fixture
async def lists(migrated: Migrated, tmp_path: Path) -> AsyncIterator[HashLists]:
    async with aclosing(Database(migrated.sqlite(tmp_path))) as database:
        await add_tenant(database, "ten_1", "a")
        yield HashLists(database)


async def import_lines(lists: HashLists, *lines: str) -> Imported:
    async def chunks() -> AsyncIterator[bytes]:
        yield "\n".join(lines).encode()

    return await lists.import_csv(BY, chunks())


async def test_lines_whose_time_has_passed_are_counted_and_skipped(lists: HashLists) -> None:
    done = await import_lines(lists, f"{'a' * 64},deny,,2020-01-01", "b" * 64, f"{'c' * 64},deny,,2020-01-01T00:00:00Z")
    assert (done.lines, done.added, done.changed, done.skipped) == (3, 1, 0, 2)
