"""The lifecycle of a file on both databases: every change, and quota that is released exactly once."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest
from sqlalchemy import insert, select, update

from sluice.access import Principal, Scope
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import contexts, files, plan_usage
from sluice.db.sql import Connection
from sluice.files import lifecycle
from sluice.files.lifecycle import Change, FileState
from sluice.uploads.repository import record
from sluice.uploads.values import Decision, Facts, Rules
from tests.db.conftest import tables  # noqa: F401  (a fixture)
from tests.db.rows import NOW, add_file, add_tenant
from tests.files.test_transitions import ALLOWED, EVERY
from tests.uploads.rows import pending


async def _record(database: Database) -> None:
    rules = Rules(1, (), 1, reject_blank=False, reject_corrupt=False, scan=False, rate=None, quota_bytes=None)
    actor = Principal("ten_1", "user", "user", frozenset({Scope.UPLOAD}), "jwt")
    facts = Facts("a.txt", "txt", 3, "0" * 64)
    decision = Decision(
        "rep_1", "ten_1", "f1", "a", rules, facts, "accepted", None, "", actor, NOW, duration_ms=1, all_checks=False
    )
    file = replace(pending(1, timedelta(hours=1)), file_id="f1")
    await record(database, decision, file, None)


def _within(change: Callable[[Connection], Awaitable[object]]) -> Callable[[Database], Awaitable[None]]:
    async def run(database: Database) -> None:
        async with database.transaction(ALL_TENANTS) as connection:
            await change(connection)

    return run


CHANGES: Final = {
    Change.RECORD: _record,
    Change.RELEASE: _within(lambda connection: lifecycle.release(connection, "ten_1", "f1")),
    Change.FENCE: _within(lambda connection: lifecycle.fence(connection, "ten_1", "f1")),
    Change.DELETE: _within(lambda connection: lifecycle.delete(connection, "ten_1", "f1", timedelta(days=1))),
    Change.EXPIRE: _within(lambda connection: lifecycle.expire(connection, "ten_1", "f1")),
    Change.PURGE: _within(lambda connection: lifecycle.purge(connection, [("ten_1", "f1")])),
}


async def _begin(database: Database, state: FileState) -> None:
    """Add a file of one byte in that state, which counts in the plan's month while it is live, and another file of ten
    bytes.
    """
    await add_tenant(database, "ten_1", "a")
    await add_file(database, "ten_1", "f1", state=state)
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(update(contexts).values(storage_used_bytes=11))
        await connection.execute(update(files).values(plan_month="2026-01", lease_until=NOW))
        await connection.execute(insert(plan_usage).values(tenant_id="ten_1", month="2026-01", uploads=2))


async def _state(database: Database) -> tuple[str | None, int, int]:
    """Return the state of the file, the bytes of the context's quota and the uploads of the plan's month."""
    async with database.reading(ALL_TENANTS) as connection:
        state = (await connection.execute(select(files.c.state))).scalar_one_or_none()
        used = (await connection.execute(select(contexts.c.storage_used_bytes))).scalar_one()
        uploads = (await connection.execute(select(plan_usage.c.uploads))).scalar_one()
    return state, used, uploads


@pytest.mark.parametrize(("state", "change"), EVERY)
async def test_both_databases_apply_a_change_and_release_quota_exactly_once(
    tables: Database,  # noqa: F811  (the fixture)
    state: FileState,
    change: Change,
) -> None:
    await _begin(tables, state)
    for _ in range(2):  # the second time it finds another state
        await CHANGES[change](tables)
    after = ALLOWED.get((state, change), state)
    frees_bytes = after != state and change not in {Change.RECORD, Change.PURGE}
    frees_plan = frees_bytes and state is FileState.PENDING
    assert await _state(tables) == (after, 11 - frees_bytes, 2 - frees_plan)


async def test_another_tenant_cannot_delete_a_file(tables: Database) -> None:  # noqa: F811  (the fixture)
    await _begin(tables, FileState.STORED)
    async with tables.transaction(ALL_TENANTS) as connection:
        assert not await lifecycle.delete(connection, "ten_2", "f1", timedelta(0))
    assert (await _state(tables))[0] == "stored"


@pytest.mark.parametrize(("threat", "again"), [("Eicar", "released"), ("Other", "quarantined"), (None, "kept")])
async def test_a_release_from_quarantine_is_for_one_threat(
    tables: Database,  # noqa: F811  (the fixture)
    threat: str | None,
    again: str,
) -> None:
    await _begin(tables, FileState.STORED)
    async with tables.transaction(ALL_TENANTS) as connection:

        async def scan(found: str | None) -> str | None:
            return await lifecycle.record_rescan(
                connection, "ten_1", "f1", "clamd", NOW, again_after=None, threat=found
            )

        assert await scan("Eicar") == "quarantined"
        assert await scan("Eicar") == "quarantined"
        assert await lifecycle.release_from_quarantine(connection, "f1") == "ten_1"
        assert await lifecycle.release_from_quarantine(connection, "f1") is None
        assert await scan(threat) == again
        await lifecycle.delete(connection, "ten_1", "f1", timedelta(0))
        assert await scan("Eicar") is None
