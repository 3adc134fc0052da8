"""The lifecycle of a file on both databases: every change, and quota that is released exactly once."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest
from sqlalchemy import delete, insert, select, update

from sluice.access import Principal, Scope, operator
from sluice.audit import AuditAction
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import audit_events, contexts, events, files, hash_entries, metadata, plan_usage
from sluice.db.sql import Connection
from sluice.errors import FileHeld, SecondReviewerNeeded
from sluice.files import lifecycle
from sluice.files.lifecycle import Change, FileState
from sluice.files.record import RetentionRule, ReviewDecision
from sluice.uploads.repository import record
from sluice.uploads.values import Decision, Facts, Rules
from tests.db.rows import NOW, add_file, add_tenant
from tests.files.test_transitions import ALLOWED, EVERY
from tests.rows import each_row
from tests.uploads.rows import pending


async def _record(database: Database) -> None:
    rules = Rules(1, (), 1, reject_blank=False, reject_corrupt=False, scan=False, rate=None, quota_bytes=None)
    actor = Principal("ten_1", "user", "user", frozenset({Scope.UPLOAD}), "jwt")
    facts = Facts("a.txt", "txt", 3, "0" * 64)
    names: dict[str, Any] = {"report_id": "rep_1", "tenant_id": "ten_1", "file_id": "f1", "context_key": "a"}
    verdict: dict[str, Any] = {"outcome": "accepted", "rejection": None, "failures": (), "detail": "", "duration_ms": 1}
    decision = Decision(**names, **verdict, rules=rules, facts=facts, actor=actor, created_at=NOW, all_checks=False)
    file = replace(pending(1, timedelta(hours=1)), file_id="f1")
    await record(database, decision, file, None)


def _by(tenant_id: str = "ten_1", action: str = "file.deleted") -> AuditAction:
    return AuditAction(operator(tenant_id, "anna"), action)


async def _review(connection: Connection, decision: ReviewDecision) -> object:
    """Decide on the file, which is put into quarantine first if it is stored."""
    await connection.execute(update(files).where(files.c.state == "stored").values(quarantined_at=NOW))
    options: dict[str, Any] = {"comment": "x", "at": NOW, "purge_after": timedelta(days=1), "two_persons": False}
    return await lifecycle.review(connection, _by(), "f1", decision, **options)


def _within(change: Callable[[Connection], Awaitable[object]]) -> Callable[[Database], Awaitable[None]]:
    async def run(database: Database) -> None:
        async with database.transaction(ALL_TENANTS) as connection:
            await change(connection)

    return run


CHANGES: Final = {
    Change.RECORD: _record,
    Change.RELEASE: _within(lambda connection: lifecycle.release(connection, "ten_1", "f1")),
    Change.FENCE: _within(lambda connection: lifecycle.fence(connection, "ten_1", "f1")),
    Change.DELETE: _within(lambda connection: lifecycle.delete(connection, _by(), "f1", NOW, timedelta(days=1))),
    Change.EXPIRE: _within(lambda connection: lifecycle.expire(connection, "ten_1", "f1")),
    Change.REFUSE: _within(lambda connection: _review(connection, "refuse")),
    Change.RESTORE: _within(lambda connection: lifecycle.restore(connection, _by(), "f1", NOW)),
    Change.BEGIN_PURGE: _within(lambda connection: lifecycle.begin_purges(connection, timedelta(hours=1), 10)),
    Change.PURGE: _within(lambda connection: lifecycle.purge(connection, [("ten_1", "f1")])),
}


async def _begin(database: Database, state: FileState) -> None:
    """Add a file of one byte in that state, which counts in the plan's month while it is live, and another file of ten
    bytes, to an empty database. A file that has ended is due to be purged.
    """
    async with database.transaction(ALL_TENANTS) as connection:
        for table in reversed(metadata.sorted_tables):
            await connection.execute(delete(table))
    await add_tenant(database, "ten_1", "a")
    await add_file(database, "ten_1", "f1", state=state)
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(update(contexts).values(storage_used_bytes=11))
        await connection.execute(update(files).values(plan_month="2026-01", lease_until=NOW))
        if state in {FileState.GONE, FileState.DELETED, FileState.PURGING}:
            await connection.execute(update(files).values(due_at=NOW))
        await connection.execute(insert(plan_usage).values(tenant_id="ten_1", month="2026-01", uploads=2))


async def _state(database: Database) -> tuple[str | None, int, int]:
    """Return the state of the file, the bytes of the context's quota and the uploads of the plan's month."""
    async with database.reading(ALL_TENANTS) as connection:
        state = (await connection.execute(select(files.c.state))).scalar_one_or_none()
        used = (await connection.execute(select(contexts.c.storage_used_bytes))).scalar_one()
        uploads = (await connection.execute(select(plan_usage.c.uploads))).scalar_one()
    return state, used, uploads


@each_row(("state", "change"), EVERY)
async def test_both_databases_apply_a_change_exactly_once(tables: Database, state: FileState, change: Change) -> None:
    await _begin(tables, state)
    for _ in range(2):  # the second time it finds another state
        await CHANGES[change](tables)
    after = ALLOWED.get((state, change), state)
    live = {FileState.PENDING, FileState.STORED}
    frees_bytes = (state in live) - (after in live)
    frees_plan = frees_bytes == 1 and state is FileState.PENDING
    assert await _state(tables) == (after, 11 - frees_bytes, 2 - frees_plan)


@each_row("held", ["files", "contexts"])
@each_row("change", [change for change, one in lifecycle.TRANSITIONS.items() if one.spares_held])
async def test_nothing_deletes_or_purges_a_held_file(tables: Database, change: Change, held: str) -> None:
    (state,) = lifecycle.TRANSITIONS[change].sources
    await _begin(tables, state)
    async with tables.transaction(ALL_TENANTS) as connection:
        if held == "files":
            assert await lifecycle.hold(connection, _by(), "f1", "Case 7", NOW)
        else:
            assert await lifecycle.hold_context(connection, _by(), "a", "Case 7", NOW)
    with suppress(FileHeld):
        await CHANGES[change](tables)
    assert await _state(tables) == (state, 11, 2)


async def test_file_that_is_denied_since_is_restored_into_quarantine_unless_it_was_released(tables: Database) -> None:
    by, digest = _by(action="file.restored"), "ab" * 32
    entry = {"tenant_id": "ten_1", "digest": bytes.fromhex(digest), "list": "deny", "created_at": NOW}

    async def quarantined() -> bool:
        async with tables.reading(ALL_TENANTS) as connection:
            return (await connection.execute(select(files.c.quarantined_at))).scalar_one() is not None

    for restore in (lifecycle.restore, lambda *given: lifecycle.restore_all(given[0], given[1], [given[2]], given[3])):
        await _begin(tables, FileState.DELETED)
        async with tables.transaction(ALL_TENANTS) as connection:
            await connection.execute(insert(hash_entries).values(entry | {"added_by_id": "a", "added_by_name": "a"}))
            await connection.execute(update(files).values(sha256=digest))
            await restore(connection, by, "f1", NOW)
        assert await quarantined()
        async with tables.transaction(ALL_TENANTS) as connection:
            await connection.execute(update(files).values(quarantined_at=None, state="deleted"))
            await restore(connection, by, "f1", NOW)
        assert not await quarantined()


async def test_each_transition_writes_its_audit_entry_and_its_event(tables: Database) -> None:
    await _begin(tables, FileState.STORED)
    changes = (Change.DELETE, Change.RESTORE, Change.EXPIRE, Change.RESTORE, Change.REFUSE, Change.BEGIN_PURGE)
    for change in changes:
        if change is Change.BEGIN_PURGE:
            async with tables.transaction(ALL_TENANTS) as connection:
                await connection.execute(update(files).values(due_at=NOW))
        await CHANGES[change](tables)
    await CHANGES[Change.PURGE](tables)
    async with tables.reading(ALL_TENANTS) as connection:
        types_written = (await connection.execute(select(events.c.type).order_by(events.c.event_id))).scalars().all()
        entries = select(audit_events.c.actor_id, audit_events.c.reason).order_by(audit_events.c.event_id)
        done = [tuple(row) for row in (await connection.execute(entries)).all()]
    types = ["deleted", "restored", "deleted", "restored", "refused", "purged"]
    assert types_written == [f"file.{word}" for word in types]
    anna, worker = ("command|anna", None), ("worker", None)
    assert done == [anna, anna, worker, anna, ("command|anna", "x"), worker]


async def test_a_context_that_was_changed_expires_no_file_by_its_old_rule(tables: Database) -> None:
    await _begin(tables, FileState.STORED)
    rule = RetentionRule("ten_1", "ten_1-a", "a", 1, 1, "stored", None, NOW, None, NOW + timedelta(days=2))
    async with tables.transaction(ALL_TENANTS) as connection:
        await connection.execute(update(contexts).values(rules_version=2))
    with pytest.raises(lifecycle.RuleChanged):
        async with tables.transaction(ALL_TENANTS) as connection:
            await lifecycle.expire_all(connection, rule, ["f1"], timedelta(0))
    assert await _state(tables) == ("stored", 11, 2)
    async with tables.transaction(ALL_TENANTS) as connection:
        assert await lifecycle.expire_all(connection, replace(rule, rules_version=2), ["f1"], timedelta(0)) == 1
    assert await _state(tables) == ("deleted", 10, 2)


async def test_another_tenant_cannot_delete_a_file(tables: Database) -> None:
    await _begin(tables, FileState.STORED)
    async with tables.transaction(ALL_TENANTS) as connection:
        assert not await lifecycle.delete(connection, _by("ten_2"), "f1", NOW, timedelta(0))
    assert (await _state(tables))[0] == "stored"


async def test_one_person_deletes_no_file_in_quarantine_where_two_decide(tables: Database) -> None:
    await _begin(tables, FileState.STORED)
    async with tables.transaction(ALL_TENANTS) as connection:
        await connection.execute(update(files).where(files.c.file_id == "f1").values(quarantined_at=NOW))
        with pytest.raises(SecondReviewerNeeded):
            await lifecycle.delete(connection, _by(), "f1", NOW, timedelta(0), two_persons=True)
        left = {"f1": "second_reviewer_needed", "f9": "not_found"}
        ended = await lifecycle.delete_all(connection, _by(), [*left], NOW, timedelta(0), two_persons=True)
        assert ended == (0, left)
        assert await lifecycle.delete(connection, _by(), "f1", NOW, timedelta(0))


@each_row(("threat", "again"), [("Eicar", "released"), ("Other", "quarantined"), (None, "kept")])
async def test_a_release_from_quarantine_is_for_one_threat(tables: Database, threat: str | None, again: str) -> None:
    await _begin(tables, FileState.STORED)
    async with tables.transaction(ALL_TENANTS) as connection:

        async def scan(found: str | None) -> str | None:
            rescan = lifecycle.record_rescan
            return await rescan(connection, "ten_1", "f1", "clamd", NOW, again_after=None, threat=found)

        assert [await scan("Eicar") for _ in range(2)] == ["quarantined"] * 2
        options: dict[str, Any] = {"comment": "x", "at": NOW, "purge_after": timedelta(0), "two_persons": False}
        for outcome in ("released", None):
            assert await lifecycle.review(connection, _by(), "f1", "release", **options) == outcome
        assert await scan(threat) == again
        await lifecycle.delete(connection, _by(), "f1", NOW, timedelta(0))
        assert await scan("Eicar") is None
