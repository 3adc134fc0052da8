"""Imports of hash lists on a database, without HTTP."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from pydantic import ValidationError

from sluice.api.schemas.hash_lists import NewHash
from sluice.db.database import Database
from sluice.errors import ImportStopped, Invalid, TooManyRequests
from sluice.hash_lists import service
from sluice.hash_lists.service import EntryDraft, HashLists, Imported
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


async def test_moment_beyond_the_years_of_utc_is_refused_and_named(lists: HashLists) -> None:
    with pytest.raises(ImportStopped) as stopped:
        await import_lines(lists, f"{'a' * 64},deny,,9999-12-31T23:59:59-12:00")
    assert stopped.value.errors[0].startswith("line 1: expected a moment such as 2026-01-31T12:00:00Z, found '9999-12-")
    with pytest.raises(ValidationError, match="expires_at"):
        NewHash(digest="a" * 64, expires_at="9999-12-31T23:59:59-12:00")


async def test_tenant_has_no_more_entries_than_it_may(lists: HashLists, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MOST_OF_TENANT", 2)
    found = "found 3 entries of the tenant, expected at most 2"
    with pytest.raises(ImportStopped) as stopped:
        await import_lines(lists, "a" * 64, "b" * 64, "c" * 64)
    assert stopped.value.errors == (f"lines 1 to 3: {found}", "Nothing of the file was applied")
    assert (await import_lines(lists, "a" * 64, "b" * 64)).added == 2
    with pytest.raises(Invalid) as invalid:
        await lists.add(BY, [EntryDraft(bytes(32))])
    assert invalid.value.errors == (f"entries: {found}",)
    assert (await import_lines(lists, "a" * 64, "b" * 64)).changed == 2


async def test_second_import_of_a_tenant_is_refused_while_the_first_is_under_way(lists: HashLists) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        with pytest.raises(TooManyRequests):
            await import_lines(lists, "b" * 64)
        yield b"a" * 64

    assert (await lists.import_csv(BY, chunks())).added == 1
    assert (await import_lines(lists, "b" * 64)).added == 1
