"""All queries of the `files` table, but for the two statements on the path of every upload (`uploads.sql_*`).

Which state changes exist is in `lifecycle`; this module writes them. What requests may see is in `service`.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    String,
    and_,
    case,
    cast,
    delete,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.db import counts
from sluice.db.schema import IS_STORED, contexts, files, plan_usage, tenants, upload_tokens
from sluice.db.sql import AnyRow, load_page, load_slice, now, now_plus, rows_of
from sluice.files.record import (
    DeletedFile,
    DueFiles,
    FileFilter,
    FileRecord,
    Hold,
    Life,
    Quarantined,
    RetentionRule,
    Review,
)
from sluice.kit.ids import first_id
from sluice.kit.paging import Page, PageRequest, Slice, SliceRequest

_SHOWN = [files.c[name] for name in FileRecord.__slots__]
_DELETED = [files.c[name] for name in DeletedFile.__slots__]
_QUARANTINED = [files.c[name] for name in Quarantined.__slots__]
# What events tell of a file.
_TOLD = (files.c.file_id, files.c.context_key, files.c.original_filename, files.c.size_bytes)
_ERASED = "erased"  # as in `erasures.subject`
_BLANK: dict[str, Any] = {
    "uploaded_by": _ERASED,
    "uploaded_by_name": _ERASED,
    "original_filename": _ERASED,
    "metadata": {},
}
_WAIT_FOR_PURGE = ("gone", "deleted", "purging")
_IS_DUE_TO_PURGE = and_(files.c.state.in_(_WAIT_FOR_PURGE), files.c.due_at <= now())
# As a literal: with a parameter in its place, no planner would know that the index of deleted files holds every such row.
_IS_DELETED: ColumnElement[bool] = files.c.state == literal_column("'deleted'", String)
_LEASE_IS_OVER = and_(files.c.state == "pending", files.c.lease_until <= now())

BYTES_PER_MB = 1_048_576
NAMES_SEARCHED = 10_000  # files, the newest ones, in which a name is looked for

WorkQueue = Literal["leases", "purge", "test_files"]
# What waits for the worker: in which states a row of each queue is, and since when it is due.
_QUEUES = {
    "leases": (("pending",), files.c.lease_until),
    "purge": (_WAIT_FOR_PURGE, files.c.due_at),
    "test_files": (("stored",), files.c.due_at),
}


# --- What requests see: stored files of one tenant


async def find(connection: AsyncConnection, tenant_id: str, file_id: str) -> FileRecord | None:
    """Return one stored file, or None."""
    row = (await connection.execute(select(*_SHOWN).where(*_stored(tenant_id, file_id)))).one_or_none()
    return None if row is None else _record(row)


async def find_any_tenant(connection: AsyncConnection, file_id: str) -> FileRecord | None:
    """Return one stored file of any tenant, for signed links, which name none.

    None also in quarantine, or if the tenant is suspended.
    """
    is_active = exists().where(tenants.c.tenant_id == files.c.tenant_id, tenants.c.status == "active")
    query = select(*_SHOWN).where(
        files.c.file_id == file_id, files.c.state == "stored", files.c.quarantined_at.is_(None), is_active
    )
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _record(row)


async def list_page(
    connection: AsyncConnection, tenant_id: str, context_key: str | None, uploaded_by: str | None, request: PageRequest
) -> Page[FileRecord]:
    """Return one page, newest first."""
    conditions: list[ColumnElement[bool]] = [IS_STORED]
    if context_key is not None:
        conditions.append(files.c.context_key == context_key)
    if uploaded_by is not None:
        conditions.append(files.c.uploaded_by == uploaded_by)
    total = await counts.total(connection, tenant_id, "files", context_key, uploaded_by)
    rows = await load_page(connection, tenant_id, _SHOWN, conditions, request, total=total)
    return Page(tuple(_record(row) for row in rows), request, total)


async def list_slice(
    connection: AsyncConnection, tenant_id: str, wanted: FileFilter, request: SliceRequest
) -> Slice[FileRecord]:
    """Return some of the files that meet `wanted`, newest first."""
    conditions: list[ColumnElement[bool]] = [IS_STORED]
    if wanted.context_key is not None:
        conditions.append(files.c.context_key == wanted.context_key)
    if wanted.uploaded_by is not None:
        conditions.append(files.c.uploaded_by == wanted.uploaded_by)
    if wanted.sha256 is not None:
        conditions.append(files.c.sha256 == wanted.sha256)
    if wanted.filename is not None:
        # Names are in no index: so many of the newest files are read, however many there are.
        newest = (
            select(files.c.file_id)
            .where(files.c.tenant_id == tenant_id, *conditions)
            .order_by(files.c.file_id.desc())
            .offset(NAMES_SEARCHED)
            .limit(1)
        )
        conditions.append(files.c.file_id > func.coalesce(newest.scalar_subquery(), ""))
        name = func.lower(files.c.original_filename)
        conditions.append(name.contains(wanted.filename.lower(), autoescape=True))
    found = await load_slice(connection, tenant_id, _SHOWN, conditions, request)
    return Slice(tuple(_record(row) for row in found.items), found.has_newer, found.has_older)


async def count(connection: AsyncConnection, tenant_id: str, context_key: str | None, uploaded_by: str | None) -> int:
    """Return how many files a tenant has stored, of a context and of an uploader (None: any)."""
    return await counts.total(connection, tenant_id, "files", context_key, uploaded_by)


async def find_report_id(connection: AsyncConnection, tenant_id: str, file_id: str) -> str | None:
    """Return the id of the report of a stored file's upload; None if there is no such file."""
    query = select(files.c.report_id).where(*_stored(tenant_id, file_id))
    return (await connection.execute(query)).scalar_one_or_none()


async def find_quarantine_mark(connection: AsyncConnection, tenant_id: str, file_id: str) -> Quarantined | None:
    """Return since when a file is in quarantine, and why; None if it is not."""
    query = select(*_QUARANTINED).where(*_stored(tenant_id, file_id), files.c.quarantined_at.is_not(None))
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else Quarantined(**row._mapping)  # noqa: SLF001  (as below)


async def find_context_key(connection: AsyncConnection, tenant_id: str, file_id: str) -> str | None:
    """Return the key of the context of a file in any state, or None."""
    query = select(files.c.context_key).where(files.c.tenant_id == tenant_id, files.c.file_id == file_id)
    found: str | None = (await connection.execute(query)).scalar_one_or_none()
    return found


async def find_life(connection: AsyncConnection, tenant_id: str, file_id: str) -> Life | None:
    """Return how long a stored file is kept, and the hold on it; None if there is no such file."""
    names = ("held_at", "held_by", "hold_reason")
    query = (
        select(
            files.c.due_at,
            files.c.created_at,
            files.c.last_downloaded_at,
            contexts.c.retention_days,
            contexts.c.retention_starts,
            *(files.c[name] for name in names),
            *(contexts.c[name].label(f"context_{name}") for name in names),
        )
        .join(contexts, and_(contexts.c.tenant_id == files.c.tenant_id, contexts.c.context_id == files.c.context_id))
        .where(*_stored(tenant_id, file_id))
    )
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    if row.held_at is not None:
        return Life(None, Hold("file", row.held_at, row.held_by, row.hold_reason))
    if row.context_held_at is not None:
        return Life(None, Hold("context", row.context_held_at, row.context_held_by, row.context_hold_reason))
    ends = [] if row.due_at is None else [row.due_at]
    if row.retention_days is not None:
        used_at = row.last_downloaded_at if row.retention_starts == "last_downloaded" else None
        ends.append(max(row.created_at, used_at or row.created_at) + timedelta(days=row.retention_days))
    return Life(min(ends, default=None), None)


async def list_deleted(
    connection: AsyncConnection, tenant_id: str, context_key: str | None, request: SliceRequest
) -> Slice[DeletedFile]:
    """Return some deleted files that are not purged yet, of one context or of all, the newest uploads first."""
    conditions: list[ColumnElement[bool]] = [_IS_DELETED]
    if context_key is not None:
        conditions.append(files.c.context_key == context_key)
    found = await load_slice(connection, tenant_id, _DELETED, conditions, request)
    return Slice(tuple(DeletedFile(**row._mapping) for row in found.items), found.has_newer, found.has_older)  # noqa: SLF001  (as below)


async def find_deleted(connection: AsyncConnection, tenant_id: str, file_id: str) -> DeletedFile | None:
    """Return a deleted file that is not purged yet, or None."""
    query = select(*_DELETED).where(files.c.tenant_id == tenant_id, files.c.file_id == file_id, _IS_DELETED)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else DeletedFile(**row._mapping)  # noqa: SLF001  (as below)


async def count_download(connection: AsyncConnection, tenant_id: str, file_id: str, at: datetime) -> FileRecord | None:
    """Count one issued download URL and return the file; None if there is none, or it is in quarantine."""
    statement = (
        update(files)
        .where(*_stored(tenant_id, file_id), files.c.quarantined_at.is_(None))
        .values(download_count=files.c.download_count + 1, last_downloaded_at=at)
        .returning(*_SHOWN)
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _record(row)


# --- Changes of state: called by `lifecycle` and by uploads


async def add_pending(connection: AsyncConnection, values: Mapping[str, Any], lease: timedelta) -> None:
    """Insert the row of a file whose object does not exist yet."""
    row = {**values, "state": "pending", "download_count": 0, "lease_until": now_plus(lease)}
    await connection.execute(insert(files).values(row))


async def end_life(
    connection: AsyncConnection,
    tenant_id: str,
    file_ids: Collection[str],
    sources: Collection[str],
    target: str,
    *,
    purge_after: timedelta | None,
    conditions: Collection[ColumnElement[bool]] = (),
) -> Sequence[AnyRow]:
    """Move those of the files that are in one of `sources` and meet the conditions to `target`.

    They are to be purged after `purge_after`, None: when their lease ends. Return what they reserved and what events
    tell of them.
    """
    statement = (
        update(files)
        .where(files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids), files.c.state.in_(sources), *conditions)
        .values(
            state=target,
            lease_until=None,
            due_at=files.c.lease_until if purge_after is None else now_plus(purge_after),
            restored_due_at=files.c.due_at,
            review_decision=None,
            reviewed_by=None,
            reviewed_at=None,
        )
        .returning(files.c.context_id, files.c.plan_month, files.c.upload_token_id, *_TOLD)
    )
    return (await connection.execute(statement)).all()


def is_free() -> ColumnElement[bool]:
    """Return the condition that a file has no hold of its own."""
    return files.c.held_at.is_(None)


def is_in_free_context() -> ColumnElement[bool]:
    """Return the condition that the context of a file has no hold."""
    held = select(contexts.c.context_id).where(
        contexts.c.tenant_id == files.c.tenant_id, contexts.c.held_at.is_not(None)
    )
    return files.c.context_id.not_in(held)


def is_in_quarantine() -> ColumnElement[bool]:
    """Return the condition that a file is in quarantine."""
    return files.c.quarantined_at.is_not(None)


def is_over(rule: RetentionRule) -> Sequence[ColumnElement[bool]]:
    """Return the conditions that the time of a file is over by a rule."""
    unused = or_(files.c.last_downloaded_at.is_(None), files.c.last_downloaded_at <= rule.since)
    return [files.c.created_at <= rule.since, *([unused] if rule.retention_starts == "last_downloaded" else [])]


async def release_quota(
    connection: AsyncConnection,
    tenant_id: str,
    context_id: str,
    size_bytes: int,
    conditions: Collection[ColumnElement[bool]] = (),
) -> bool:
    """Free bytes of a context's quota; return whether the context meets the conditions."""
    statement = (
        update(contexts)
        .where(contexts.c.tenant_id == tenant_id, contexts.c.context_id == context_id, *conditions)
        .values(storage_used_bytes=contexts.c.storage_used_bytes - size_bytes)
        .returning(contexts.c.context_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


def context_is_free(rules_version: int | None = None) -> Sequence[ColumnElement[bool]]:
    """Return the conditions that a context has no hold, and that it has this version."""
    conditions = [contexts.c.held_at.is_(None)]
    return conditions if rules_version is None else [*conditions, contexts.c.rules_version == rules_version]


async def release_plan(connection: AsyncConnection, tenant_id: str, month: str) -> None:
    """Free one upload of the plan in `month`."""
    await connection.execute(
        update(plan_usage)
        .where(plan_usage.c.tenant_id == tenant_id, plan_usage.c.month == month)
        .values(uploads=plan_usage.c.uploads - 1)
    )


async def lock_states(connection: AsyncConnection, tenant_id: str, file_ids: Collection[str]) -> Sequence[AnyRow]:
    """Return state, context and size of those of the files that exist; until the commit none of them changes."""
    query = select(files.c.file_id, files.c.state, files.c.context_id, files.c.size_bytes)
    owned = (files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids))
    return (await connection.execute(query.where(*owned).order_by(files.c.file_id).with_for_update())).all()


async def restore(
    connection: AsyncConnection, tenant_id: str, file_ids: Collection[str], sources: Collection[str], target: str
) -> Sequence[AnyRow]:
    """Move those of the files that are in one of `sources` to `target`, with the end of life that each had before.

    Return what events tell of them and their contexts.
    """
    statement = (
        update(files)
        .where(files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids), files.c.state.in_(sources))
        .values(state=target, due_at=files.c.restored_due_at, restored_due_at=None)
        .returning(files.c.context_id, *_TOLD)
    )
    return (await connection.execute(statement)).all()


async def lock_room(connection: AsyncConnection, tenant_id: str, context_id: str) -> int:
    """Return how many bytes of a context's quota are free; until the commit nobody else takes or frees any."""
    columns = contexts.c
    room = cast(columns.storage_quota_mb, BigInteger) * BYTES_PER_MB - columns.storage_used_bytes
    query = select(room).where(columns.tenant_id == tenant_id, columns.context_id == context_id)
    return max(0, (await connection.execute(query.with_for_update())).scalar_one_or_none() or 0)


async def claim_quota(connection: AsyncConnection, tenant_id: str, context_id: str, size_bytes: int) -> bool:
    """Take bytes from a context's quota; return False if they do not fit."""
    columns = contexts.c
    room = cast(columns.storage_quota_mb, BigInteger) * BYTES_PER_MB
    statement = (
        update(contexts)
        .where(
            columns.tenant_id == tenant_id,
            columns.context_id == context_id,
            or_(columns.storage_quota_mb.is_(None), columns.storage_used_bytes + size_bytes <= room),
        )
        .values(storage_used_bytes=columns.storage_used_bytes + size_bytes)
        .returning(columns.context_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def release_token(connection: AsyncConnection, tenant_id: str, token_id: str) -> None:
    """Free one of the files that an upload token may store."""
    await connection.execute(
        update(upload_tokens)
        .where(upload_tokens.c.tenant_id == tenant_id, upload_tokens.c.token_id == token_id)
        .values(files_claimed=upload_tokens.c.files_claimed - 1)
    )


async def delete_rows(
    connection: AsyncConnection, owned: Collection[tuple[str, str]], sources: Collection[str]
) -> Sequence[AnyRow]:
    """Delete the rows of those of the files (each a tenant and an id) that are in one of `sources`, and return them."""
    statement = delete(files).where(*rows_of(files, owned), files.c.state.in_(sources))
    told = (files.c.tenant_id, files.c.state, *_TOLD)
    return (await connection.execute(statement.returning(*told))).all()


async def switch_bucket(
    connection: AsyncConnection, tenant_id: str, file_id: str, old: str | None, new: str | None, *, key: str
) -> bool:
    """Point a stored file at its copy in another bucket; return False if it was deleted or moved meanwhile."""
    statement = (
        update(files)
        .where(*_stored(tenant_id, file_id), _in_bucket(old))
        .values(storage_config_id=new, object_key=key)
        .returning(files.c.file_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


# --- Legal holds


async def set_hold(
    connection: AsyncConnection, tenant_id: str, file_id: str, states: Collection[str], hold: Hold
) -> bool:
    """Hold a file that is in one of `states`, or replace its hold; return whether there is one."""
    statement = (
        update(files)
        .where(files.c.tenant_id == tenant_id, files.c.file_id == file_id, files.c.state.in_(states))
        .values(held_at=hold.held_at, held_by=hold.held_by, hold_reason=hold.reason)
        .returning(files.c.file_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def clear_hold(connection: AsyncConnection, tenant_id: str, file_id: str, states: Collection[str]) -> bool | None:
    """End the hold on a file that is in one of `states`.

    Return whether it had one, None if there is no such file.
    """
    own = (files.c.tenant_id == tenant_id, files.c.file_id == file_id, files.c.state.in_(states))
    statement = update(files).where(*own, files.c.held_at.is_not(None))
    statement = statement.values(held_at=None, held_by=None, hold_reason=None)
    if (await connection.execute(statement.returning(files.c.file_id))).one_or_none() is not None:
        return True
    found = (await connection.execute(select(files.c.file_id).where(*own))).one_or_none()
    return None if found is None else False


async def set_context_hold(connection: AsyncConnection, tenant_id: str, context_key: str, hold: Hold) -> bool:
    """Hold all files of a context, or replace its hold; return whether there is such a context."""
    statement = (
        update(contexts)
        .where(contexts.c.tenant_id == tenant_id, contexts.c.context_key == context_key)
        .values(held_at=hold.held_at, held_by=hold.held_by, hold_reason=hold.reason)
        .returning(contexts.c.context_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def clear_context_hold(connection: AsyncConnection, tenant_id: str, context_key: str) -> bool | None:
    """End the hold on a context; return whether it had one, None if there is no such context.

    The worker looks at once for files whose time is over.
    """
    own = (contexts.c.tenant_id == tenant_id, contexts.c.context_key == context_key)
    due_at = case((contexts.c.retention_days.is_(None), None), else_=now())
    statement = (
        update(contexts)
        .where(*own, contexts.c.held_at.is_not(None))
        .values(held_at=None, held_by=None, hold_reason=None, retention_due_at=due_at, retention_after=None)
        .returning(contexts.c.context_id)
    )
    if (await connection.execute(statement)).one_or_none() is not None:
        return True
    found = (await connection.execute(select(contexts.c.context_id).where(*own))).one_or_none()
    return None if found is None else False


async def is_held(connection: AsyncConnection, tenant_id: str, file_id: str, sources: Collection[str]) -> bool:
    """Return whether a file in one of `sources` has a hold of its own."""
    query = select(files.c.file_id).where(
        files.c.tenant_id == tenant_id,
        files.c.file_id == file_id,
        files.c.state.in_(sources),
        files.c.held_at.is_not(None),
    )
    return (await connection.execute(query)).one_or_none() is not None


async def find_free(connection: AsyncConnection, tenant_id: str, limit: int) -> list[str]:
    """Return ids of stored files of a tenant that are not held, at most `limit`."""
    free = (files.c.tenant_id == tenant_id, IS_STORED, is_free(), is_in_free_context())
    return list((await connection.execute(select(files.c.file_id).where(*free).limit(limit))).scalars().all())


async def has_hold(connection: AsyncConnection, tenant_id: str) -> bool:
    """Return whether a file or a context of a tenant is held."""
    for table in (files, contexts):
        query = select(table.c.tenant_id).where(table.c.tenant_id == tenant_id, table.c.held_at.is_not(None)).limit(1)
        if (await connection.execute(query)).one_or_none() is not None:
            return True
    return False


async def purge_at_once(connection: AsyncConnection, tenant_id: str) -> None:
    """Let the objects of a tenant's deleted files be purged now, but those of held files."""
    later = (files.c.tenant_id == tenant_id, files.c.state == "deleted", files.c.due_at > now())
    await connection.execute(update(files).where(*later, is_free(), is_in_free_context()).values(due_at=now()))


# --- What is due for the worker


async def erase_filenames(
    connection: AsyncConnection, tenant_id: str, file_ids: Collection[str], states: Collection[str]
) -> None:
    """Blank the names of those of the files that are in one of `states` and not held."""
    free = (files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids), files.c.state.in_(states))
    statement = update(files).where(*free, is_free(), is_in_free_context())
    await connection.execute(statement.values(original_filename=_ERASED))


async def forget_names(
    connection: AsyncConnection, tenant_id: str, file_ids: Collection[str], states: Collection[str]
) -> None:
    """Blank the names and metadata of those of the files that are in one of `states`, whose objects are being purged."""
    waiting = (files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids), files.c.state.in_(states))
    await connection.execute(update(files).where(*waiting).values(_BLANK))


async def erase_names(
    connection: AsyncConnection, tenant_id: str, file_ids: Collection[str], sources: Collection[str], target: str
) -> Sequence[AnyRow]:
    """Move those of the files that are in one of `sources` and not held to `target`, due to be purged now, without
    names and metadata. Return their ids and contexts.
    """
    free = (files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids), files.c.state.in_(sources))
    # Not before: counts and search of stored files follow these columns as they were.
    statement = (
        update(files)
        .where(*free, is_free(), is_in_free_context())
        .values(**_BLANK, state=target, due_at=now())
        .returning(files.c.file_id, files.c.context_id)
    )
    return (await connection.execute(statement)).all()


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
    is_context_held = exists().where(
        contexts.c.tenant_id == files.c.tenant_id,
        contexts.c.context_id == files.c.context_id,
        contexts.c.held_at.is_not(None),
    )
    is_over = (
        files.c.state == "stored",
        files.c.due_at <= now(),
        files.c.held_at.is_(None),
        ~is_context_held,
        files.c.file_id.not_in(failed),
    )
    query = select(files.c.tenant_id, files.c.file_id).where(*is_over)
    return (await connection.execute(query.order_by(files.c.due_at).limit(limit))).all()


async def lock_due_purges(connection: AsyncConnection, limit: int) -> Sequence[AnyRow]:
    """Lock files whose object is due to be deleted, the longest due first, and return them with `held_at`.

    Any number of workers may: each row goes to one of them.
    """
    names = ("file_id", "tenant_id", "context_id", "storage_config_id", "object_key", "state", "held_at")
    due = (
        select(*(files.c[name] for name in names))
        .where(_IS_DUE_TO_PURGE)
        .order_by(files.c.due_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return (await connection.execute(due)).all()


async def lock_held_contexts(
    connection: AsyncConnection, owned: Collection[tuple[str, str]]
) -> Collection[tuple[str, str]]:
    """Return those of the contexts (each a tenant and an id) that are held; until the commit none of them changes."""
    locked = (
        select(contexts.c.tenant_id, contexts.c.context_id, contexts.c.held_at)
        .where(tuple_(contexts.c.tenant_id, contexts.c.context_id).in_(list(owned)))
        .order_by(contexts.c.context_id)
        .with_for_update(read=True)
    )
    rows = (await connection.execute(locked)).all()
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
    state = case((files.c.state == source, target), else_=files.c.state)
    statement = update(files).where(*rows_of(files, owned)).values(state=state, due_at=now_plus(again_after))
    await connection.execute(statement)


async def claim_retention(connection: AsyncConnection, lease: timedelta) -> RetentionRule | None:
    """Claim a context whose files are due to be looked through; another worker gets it again after the lease."""
    columns = contexts.c
    due = (
        select(columns.tenant_id, columns.context_id)
        .where(columns.retention_due_at <= now())
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
    return RetentionRule(**(await connection.execute(statement)).one()._mapping)  # noqa: SLF001  (as below)


async def find_due_files(connection: AsyncConnection, rule: RetentionRule, after: str, limit: int) -> DueFiles:
    """Look through the next files of a context behind the id `after` that are old enough, at most `limit`.

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
        select(files.c.file_id, and_(is_free(), *is_over(rule)).label("is_due"))
        .join(window, window.c.file_id == files.c.file_id)
        .where(files.c.tenant_id == rule.tenant_id)
        .order_by(files.c.file_id)
    )
    rows = (await connection.execute(query)).all()
    last = rows[-1].file_id if len(rows) == limit else None
    return DueFiles(tuple(row.file_id for row in rows if row.is_due), last)


async def note_retention(
    connection: AsyncConnection, rule: RetentionRule, after: str | None, pause: timedelta | None
) -> None:
    """Write up to which id a context was looked through, and after which pause that goes on; None: never.

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
    query = select(since, now()).where(files.c.state.in_(states), since <= now()).order_by(since)
    return [present - due for due, present in (await connection.execute(query.limit(limit))).all()]


# --- Later scans and quarantine


async def find_stale_verdicts(
    connection: AsyncConnection, engine: str, limit: int, *, prefix: str = ""
) -> list[FileRecord]:
    """Return stored files last scanned by another engine version (beginning with `prefix`), oldest verdict first.

    Files that were never scanned, are in quarantine, or are postponed are left out. Versions are few, and each is one
    descent of an index, so the query is cheap however many files there are.
    """
    found: list[AnyRow] = []
    version: str | None = prefix
    while version := await _next_version(connection, version, prefix):
        if version != engine:
            query = select(*_SHOWN, files.c.scanned_at).where(files.c.scanned_with == version, *_may_be_rescanned())
            found += (await connection.execute(query.order_by(files.c.scanned_at).limit(limit))).all()
    found.sort(key=lambda row: row.scanned_at)
    shown = FileRecord.__slots__
    return [FileRecord(**{name: getattr(row, name) for name in shown}) for row in found[:limit]]


async def find_asked_rescans(connection: AsyncConnection, limit: int) -> list[FileRecord]:
    """Return files in quarantine that a reviewer wants to be scanned, those who wait longest first."""
    asked = (files.c.quarantined_at.is_not(None), files.c.rescan_at <= now(), files.c.state == "stored")
    query = select(*_SHOWN).where(*asked).order_by(files.c.rescan_at).limit(limit)
    return [_record(row) for row in (await connection.execute(query)).all()]


async def claim_rescan(
    connection: AsyncConnection, tenant_id: str, file_id: str, engine: str, lease: timedelta
) -> bool:
    """Claim a stored file for a scan by `engine`; return whether it was neither claimed nor scanned meanwhile.

    A file in quarantine is claimed if a reviewer wants it to be scanned, whatever scanned it last.
    """
    is_stale = and_(files.c.scanned_with != engine, *_may_be_rescanned())
    is_asked = and_(files.c.quarantined_at.is_not(None), files.c.rescan_at <= now())
    statement = (
        update(files)
        .where(*_stored(tenant_id, file_id), or_(is_stale, is_asked))
        .values(rescan_at=now_plus(lease))
        .returning(files.c.file_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def postpone_rescan(connection: AsyncConnection, tenant_id: str, file_id: str, pause: timedelta) -> None:
    """Return a claimed file unscanned: it is due again after the pause."""
    claimed = (files.c.tenant_id == tenant_id, files.c.file_id == file_id)
    await connection.execute(update(files).where(*claimed).values(rescan_at=now_plus(pause)))


async def write_verdict(
    connection: AsyncConnection,
    tenant_id: str,
    file_id: str,
    engine: str,
    at: datetime,
    *,
    again_after: timedelta | None,
    threat: str | None,
    is_clean: bool,
) -> AnyRow | None:
    """Write the verdict of a later scan.

    Return the file with `quarantined_at`, which is not None if it is in quarantine; None if it is no longer stored.
    """
    mark: dict[str, ColumnElement[Any] | str | None] = {}
    if threat is not None:
        # The threat outlives a release from quarantine, which is for this threat alone.
        is_known = or_(is_in_quarantine(), files.c.threat == threat)
        mark = {"quarantined_at": case((is_known, files.c.quarantined_at), else_=at), "threat": threat}
    elif is_clean:
        mark = {"threat": case((is_in_quarantine(), None), else_=files.c.threat)}
    statement = (
        update(files)
        .where(*_stored(tenant_id, file_id))
        .values(
            scanned_with=engine,
            scanned_at=at,
            # In quarantine it would be a reviewer's wish.
            rescan_at=None
            if again_after is None or threat is not None
            else case((is_in_quarantine(), None), else_=now_plus(again_after)),
            **mark,
        )
        .returning(files.c.quarantined_at, files.c.download_count, *_TOLD)
    )
    return (await connection.execute(statement)).one_or_none()


async def find_tenant(connection: AsyncConnection, file_id: str) -> str | None:
    """Return the tenant of a file, for an operator, who names the file alone; None if there is no such file."""
    query = select(files.c.tenant_id).where(files.c.file_id == file_id)
    return (await connection.execute(query)).scalar_one_or_none()


async def lock_quarantined(connection: AsyncConnection, tenant_id: str, file_id: str) -> AnyRow | None:
    """Lock a file in quarantine and return what the first of two reviewers decided; None if it is not in quarantine."""
    columns = (files.c.review_decision, files.c.reviewed_by)
    query = select(*columns).where(*_stored(tenant_id, file_id), is_in_quarantine())
    return (await connection.execute(query.with_for_update())).one_or_none()


async def note_review(connection: AsyncConnection, tenant_id: str, file_id: str, review: Review) -> None:
    """Write what the first of two reviewers decided on a file in quarantine."""
    values = {name: getattr(review, name) for name in Review.__slots__}
    await connection.execute(update(files).where(*_stored(tenant_id, file_id)).values(values))


async def clear_quarantine(connection: AsyncConnection, tenant_id: str, file_id: str) -> AnyRow | None:
    """Take a file out of quarantine; return what events tell of it, None if it was not in quarantine."""
    statement = (
        update(files)
        .where(*_stored(tenant_id, file_id), is_in_quarantine())
        .values(quarantined_at=None, rescan_at=None, review_decision=None, reviewed_by=None, reviewed_at=None)
        .returning(*_TOLD)
    )
    return (await connection.execute(statement)).one_or_none()


async def ask_rescan(connection: AsyncConnection, tenant_id: str, file_id: str) -> bool:
    """Let the worker scan a file in quarantine; return whether it is in quarantine."""
    statement = (
        update(files)
        .where(*_stored(tenant_id, file_id), is_in_quarantine())
        .values(rescan_at=now())
        .returning(files.c.file_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def list_quarantined(
    connection: AsyncConnection, tenant_id: str | None, context_key: str | None, after: str, limit: int
) -> list[Quarantined]:
    """Return files in quarantine whose id comes after `after`, in the order of ids.

    They are of one tenant or of all, and of one context or of all.
    """
    conditions: list[ColumnElement[bool]] = [is_in_quarantine(), files.c.state == "stored", files.c.file_id > after]
    if tenant_id is not None:
        conditions.append(files.c.tenant_id == tenant_id)
    if context_key is not None:
        conditions.append(files.c.context_key == context_key)
    query = select(*_QUARANTINED).where(*conditions).order_by(files.c.file_id).limit(limit)
    return [Quarantined(**row._mapping) for row in (await connection.execute(query)).all()]  # noqa: SLF001  (as below)


# --- Store audit and moves between buckets


async def list_stored(connection: AsyncConnection, after: str, limit: int) -> list[FileRecord]:
    """Return stored files of all tenants whose id comes after `after`, in the order of ids."""
    query = select(*_SHOWN).where(files.c.state == "stored", files.c.file_id > after)
    return [_record(row) for row in (await connection.execute(query.order_by(files.c.file_id).limit(limit))).all()]


async def list_stored_in(
    connection: AsyncConnection, tenant_id: str, config_id: str | None, after: str, limit: int
) -> list[FileRecord]:
    """Return a tenant's stored files in a bucket (None: the platform's) with ids after `after`, in their order."""
    query = select(*_SHOWN).where(
        files.c.tenant_id == tenant_id, IS_STORED, files.c.file_id > after, _in_bucket(config_id)
    )
    return [_record(row) for row in (await connection.execute(query.order_by(files.c.file_id).limit(limit))).all()]


async def list_states(connection: AsyncConnection, tenant_id: str, file_ids: Collection[str]) -> Mapping[str, str]:
    """Return the states of those of the files that exist, by their ids."""
    query = select(files.c.file_id, files.c.state)
    owned = (files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids))
    return {row.file_id: row.state for row in (await connection.execute(query.where(*owned))).all()}


async def list_by_ids(connection: AsyncConnection, tenant_id: str, file_ids: Collection[str]) -> Sequence[AnyRow]:
    """Return those of the files that are stored, in the order of ids, with `quarantined_at`."""
    conditions = (files.c.tenant_id == tenant_id, IS_STORED, files.c.file_id.in_(file_ids))
    query = select(*_SHOWN, files.c.quarantined_at).where(*conditions).order_by(files.c.file_id)
    return (await connection.execute(query)).all()


async def is_stored(connection: AsyncConnection, tenant_id: str, file_id: str) -> bool:
    """Return whether the file is stored at this moment."""
    query = select(files.c.file_id).where(*_stored(tenant_id, file_id))
    return (await connection.execute(query)).one_or_none() is not None


async def object_keys(connection: AsyncConnection, file_ids: Sequence[str]) -> dict[str, str]:
    """Return the object keys of those of the files that have a row, in any state."""
    query = select(files.c.file_id, files.c.object_key).where(files.c.file_id.in_(file_ids))
    return {row.file_id: row.object_key for row in (await connection.execute(query)).all()}


async def find_overdue(connection: AsyncConnection, limit: int) -> Sequence[AnyRow]:
    """Return files that wait for the worker: a lease is over, or an object is due to be purged."""
    query = select(files.c.tenant_id, files.c.file_id, files.c.state).where(or_(_LEASE_IS_OVER, _IS_DUE_TO_PURGE))
    return (await connection.execute(query.limit(limit))).all()


async def find_wrong_quotas(connection: AsyncConnection) -> Sequence[AnyRow]:
    """Return contexts whose `storage_used_bytes` is not the sum of their stored and pending files (`counted`)."""
    live = and_(
        files.c.tenant_id == contexts.c.tenant_id,
        files.c.context_id == contexts.c.context_id,
        files.c.state.in_(("stored", "pending")),
    )
    counted = func.coalesce(func.sum(files.c.size_bytes), 0)
    query = (
        select(contexts.c.tenant_id, contexts.c.context_id, contexts.c.storage_used_bytes, counted.label("counted"))
        .outerjoin(files, live)
        .group_by(contexts.c.tenant_id, contexts.c.context_id, contexts.c.storage_used_bytes)
        .having(counted != contexts.c.storage_used_bytes)
    )
    return (await connection.execute(query)).all()


async def _next_version(connection: AsyncConnection, after: str | None, prefix: str) -> str | None:
    query = select(func.min(files.c.scanned_with)).where(files.c.state == "stored", files.c.scanned_with > after)
    found: str | None = (await connection.execute(query)).scalar_one()
    return found if found is not None and found.startswith(prefix) else None


def _may_be_rescanned() -> tuple[ColumnElement[bool], ...]:
    is_free = or_(files.c.rescan_at.is_(None), files.c.rescan_at <= now())
    return files.c.state == "stored", files.c.quarantined_at.is_(None), is_free


def _stored(tenant_id: str, file_id: str) -> tuple[ColumnElement[bool], ...]:
    return files.c.tenant_id == tenant_id, files.c.file_id == file_id, files.c.state == "stored"


def _in_bucket(config_id: str | None) -> ColumnElement[bool]:
    return files.c.storage_config_id.is_(None) if config_id is None else files.c.storage_config_id == config_id


def _record(row: AnyRow) -> FileRecord:
    return FileRecord(**row._mapping)  # noqa: SLF001  (SQLAlchemy's documented name)
