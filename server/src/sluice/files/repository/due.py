"""Queries for the worker: leases that are over, files of test keys, purges, retention."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Literal

from sqlalchemy import ColumnElement, Float, Integer, and_, bindparam, case, exists, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.db.schema import IS_STORED, contexts, files
from sluice.db.sql import AnyRow, Moment, now, now_plus, rows_listed, rows_of
from sluice.files.record import DueFiles, RetentionRule
from sluice.files.repository.rows import is_free
from sluice.kit.ids import first_id

_WAIT_FOR_PURGE = ("gone", "deleted", "purging")
_IS_DUE_TO_PURGE = and_(files.c.state.in_(_WAIT_FOR_PURGE), files.c.due_at <= now())
_LEASE_IS_OVER = and_(files.c.state == "pending", files.c.lease_until <= now())
_IS_OVER_AS_TEST = and_(
    files.c.state == "stored",
    files.c.due_at <= now(),
    files.c.held_at.is_(None),
    ~exists().where(
        contexts.c.tenant_id == files.c.tenant_id,
        contexts.c.context_id == files.c.context_id,
        contexts.c.held_at.is_not(None),
    ),
)
_RETENTION_IS_DUE = contexts.c.retention_due_at <= now()
# For the worker: whether any row is due.
ANY_EXPIRED_LEASE = exists().where(_LEASE_IS_OVER)
ANY_EXPIRED_TEST_FILE = exists().where(_IS_OVER_AS_TEST)
ANY_DUE_PURGE = exists().where(_IS_DUE_TO_PURGE)
ANY_DUE_RETENTION = exists().where(_RETENTION_IS_DUE)
WorkQueue = Literal["leases", "purge", "test_files"]
# What waits for the worker: in which states a row of each queue is, and since when it is due.
_QUEUES = {
    "leases": (("pending",), files.c.lease_until),
    "purge": (_WAIT_FOR_PURGE, files.c.due_at),
    "test_files": (("stored",), files.c.due_at),
}
_DUE_PURGES = (
    select(
        files.c.file_id,
        files.c.tenant_id,
        files.c.context_id,
        files.c.storage_config_id,
        files.c.object_key,
        files.c.state,
        files.c.held_at,
    )
    .where(files.c.state == bindparam("its_state"), files.c.due_at <= now())
    .order_by(files.c.due_at)
    .limit(bindparam("most", type_=Integer))
    .with_for_update(skip_locked=True)
)
_CONTEXTS = (
    select(contexts.c.tenant_id, contexts.c.context_id, contexts.c.held_at)
    .where(*rows_listed(contexts, "owned"))
    .order_by(contexts.c.context_id)
    .with_for_update(read=True)
)
_BEGIN_PURGES = (
    update(files)
    .where(*rows_listed(files, "owned"))
    .values(
        state=case((files.c.state == bindparam("its_source"), bindparam("its_target")), else_=files.c.state),
        due_at=now_plus(bindparam("its_seconds", type_=Float)),
    )
)


async def expired_leases(connection: AsyncConnection, limit: int, *, failed: Collection[str] = ()) -> Sequence[AnyRow]:
    """Return tenant and id of pending files whose lease is over, oldest first, without the `failed` ones."""
    query = select(files.c.tenant_id, files.c.file_id).where(_LEASE_IS_OVER, files.c.file_id.not_in(failed))
    return (await connection.execute(query.order_by(files.c.lease_until).limit(limit))).all()


async def expired_test_files(
    connection: AsyncConnection, limit: int, *, failed: Collection[str] = ()
) -> Sequence[AnyRow]:
    """Return tenant and id of stored files whose time is over, oldest first, without held and `failed` ones.

    Only files of test keys have such a time.
    """
    query = select(files.c.tenant_id, files.c.file_id).where(_IS_OVER_AS_TEST, files.c.file_id.not_in(failed))
    return (await connection.execute(query.order_by(files.c.due_at).limit(limit))).all()


async def lock_due_purges(connection: AsyncConnection, limit: int) -> Sequence[AnyRow]:
    """Lock files whose object is due to be deleted, of each state the longest due first; return them with `held_at`.

    Any number of workers may: each row goes to one of them.
    """
    found: list[AnyRow] = []
    # A state at a time: the index then has the rows in order, and nothing sorts all that wait.
    for state in _WAIT_FOR_PURGE:
        if len(found) < limit:
            found += await connection.execute(_DUE_PURGES, {"its_state": state, "most": limit - len(found)})
    return found


async def lock_held_contexts(
    connection: AsyncConnection, owned: Collection[tuple[str, str]]
) -> Collection[tuple[str, str]]:
    """Return those of the contexts (each a tenant and an id) that are held; until the commit none of them changes."""
    rows = (await connection.execute(_CONTEXTS, {"owned": [*owned]})).all()
    return {(row.tenant_id, row.context_id) for row in rows if row.held_at is not None}


async def put_off_purges(connection: AsyncConnection, owned: Collection[tuple[str, str]], until: timedelta) -> None:
    """Let files (each a tenant and an id) be due to be purged again after `until`."""
    await connection.execute(update(files).where(*rows_of(files, owned)).values(due_at=now_plus(until)))


async def begin_purges(
    connection: AsyncConnection,
    owned: Collection[tuple[str, str]],
    source: str,
    target: str,
    again_after: timedelta,
) -> None:
    """Move those of the files (each a tenant and an id) that are `source` to `target`.

    All that are not purged are due again after `again_after`.
    """
    values = {"owned": [*owned], "its_source": source, "its_target": target, "its_seconds": again_after.total_seconds()}
    await connection.execute(_BEGIN_PURGES, values)


async def claim_retention(connection: AsyncConnection, lease: timedelta) -> RetentionRule | None:
    """Claim a context whose files are due to be looked through; another worker gets it again after the lease."""
    columns = contexts.c
    due = (
        select(columns.tenant_id, columns.context_id)
        .where(_RETENTION_IS_DUE)
        .order_by(columns.retention_due_at)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    found = (await connection.execute(due)).one_or_none()
    if found is None:
        return None
    statement = (
        update(contexts)
        .where(columns.tenant_id == found.tenant_id, columns.context_id == found.context_id)
        .values(retention_due_at=now_plus(lease))
        .returning(*(columns[name] for name in RetentionRule.__slots__ if name in columns), now().label("present"))
    )
    return RetentionRule(**(await connection.execute(statement)).one()._mapping)  # noqa: SLF001  (documented)


def is_over(retention_starts: str) -> Sequence[ColumnElement[bool]]:
    """Return the conditions that the time of a file is over by a rule of that kind, whose `since` is a parameter."""
    since = bindparam("since", type_=Moment())
    unused = or_(files.c.last_downloaded_at.is_(None), files.c.last_downloaded_at <= since)
    return [files.c.created_at <= since, *([unused] if retention_starts == "last_downloaded" else [])]


async def find_due_files(connection: AsyncConnection, rule: RetentionRule, after: str, limit: int) -> DueFiles:
    """Examine the next files of a context after the id `after` that are old enough, at most `limit`.

    Return those whose time is over and that have no hold of their own.
    """
    window = (
        select(files.c.file_id)
        .where(
            files.c.tenant_id == rule.tenant_id,
            files.c.context_key == rule.context_key,
            IS_STORED,
            files.c.file_id > after,
            files.c.file_id < first_id("file", rule.since),
        )
        .order_by(files.c.file_id)
        .limit(limit)
        .subquery()
    )
    query = (
        select(files.c.file_id, and_(is_free(), *is_over(rule.retention_starts)).label("is_due"))
        .join(window, window.c.file_id == files.c.file_id)
        .where(files.c.tenant_id == rule.tenant_id)
        .order_by(files.c.file_id)
    )
    rows = (await connection.execute(query, {"since": rule.since})).all()
    last = rows[-1].file_id if len(rows) == limit else None
    return DueFiles(tuple(row.file_id for row in rows if row.is_due), last)


async def note_retention(
    connection: AsyncConnection, rule: RetentionRule, after: str | None, pause: timedelta | None
) -> None:
    """Record up to which id a context was examined, and after which pause to continue; None: never.

    A context whose retention was changed, or whose hold ended, meanwhile is left as that made it.
    """
    statement = (
        update(contexts)
        .where(
            contexts.c.tenant_id == rule.tenant_id,
            contexts.c.context_id == rule.context_id,
            contexts.c.retention_due_at == rule.retention_due_at,
        )
        .values(retention_after=after, retention_due_at=None if pause is None else now_plus(pause))
    )
    await connection.execute(statement)


async def load_waiting_times(connection: AsyncConnection, queue: WorkQueue, limit: int) -> Sequence[timedelta]:
    """Return for how long the rows of `queue` are due, the oldest first.

    Reads only the indexes of leases and due rows.
    """
    states, since = _QUEUES[queue]
    found: list[timedelta] = []
    for state in states:  # of each the first: the index has them in order
        query = select(since, now()).where(files.c.state == state, since <= now()).order_by(since).limit(limit)
        found += [present - due for due, present in await connection.execute(query)]
    return sorted(found, reverse=True)[:limit]


async def find_overdue(connection: AsyncConnection, limit: int) -> Sequence[AnyRow]:
    """Return files that wait for the worker: a lease is over, or an object is due to be purged."""
    query = select(files.c.tenant_id, files.c.file_id, files.c.state).where(or_(_LEASE_IS_OVER, _IS_DUE_TO_PURGE))
    return (await connection.execute(query.limit(limit))).all()
