"""Stored and deleted files, as requests, jobs and the store audit read them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, func, literal, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.db import counts
from sluice.db.schema import IS_DELETED, IS_STORED, contexts, files, tenants
from sluice.db.sql import AnyRow, Moment, load_page, load_slice
from sluice.files.record import DeletedFileRow, FileFilter, FileMarks, FileRecord, Hold, Life
from sluice.files.repository.rows import SHOWN, is_in_bucket, is_in_quarantine, record_of, stored_row
from sluice.files.search import MOST_SEARCHED, has_reason, period
from sluice.kit.paging import Page, PageRequest, Slice, SliceRequest

_DELETED = [files.c[name] for name in DeletedFileRow.__slots__]
NAMES_SEARCHED = 10_000  # files, the newest ones, in which a name is searched


async def find(connection: AsyncConnection, tenant_id: str, file_id: str) -> FileRecord | None:
    """Return one stored file, or None."""
    row = (await connection.execute(select(*SHOWN).where(*stored_row(tenant_id, file_id)))).one_or_none()
    return None if row is None else record_of(row)


async def find_context_key(connection: AsyncConnection, tenant_id: str, file_id: str) -> str | None:
    """Return the key of the context of a file in any state, or None."""
    query = select(files.c.context_key).where(files.c.tenant_id == tenant_id, files.c.file_id == file_id)
    found: str | None = (await connection.execute(query)).scalar_one_or_none()
    return found


async def find_any_tenant(connection: AsyncConnection, file_id: str) -> FileRecord | None:
    """Return one stored file of any tenant, for signed links, which name none.

    None also in quarantine, or if the tenant is suspended.
    """
    is_active = exists().where(tenants.c.tenant_id == files.c.tenant_id, tenants.c.status == "active")
    query = select(*SHOWN).where(
        files.c.file_id == file_id, files.c.state == "stored", files.c.quarantined_at.is_(None), is_active
    )
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else record_of(row)


async def find_tenant(connection: AsyncConnection, file_id: str) -> str | None:
    """Return the tenant of a file, for an operator, who names the file alone; None if there is no such file."""
    query = select(files.c.tenant_id).where(files.c.file_id == file_id)
    return (await connection.execute(query)).scalar_one_or_none()


async def newest_id(connection: AsyncConnection, tenant_id: str) -> str | None:
    """Return the highest id of the tenant's files, of which the server with the fastest clock made the last."""
    found: str | None = await connection.scalar(select(func.max(files.c.file_id)).where(files.c.tenant_id == tenant_id))
    return found


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
    rows = await load_page(connection, tenant_id, SHOWN, conditions, request, total=total)
    return Page(tuple(record_of(row) for row in rows), request, total)


async def list_slice(
    connection: AsyncConnection, tenant_id: str, wanted: FileFilter, request: SliceRequest
) -> Slice[FileRecord]:
    """Return some of the files that meet `wanted`, newest first."""
    found = await load_slice(connection, tenant_id, SHOWN, _conditions(tenant_id, wanted), request)
    return Slice(tuple(record_of(row) for row in found.items), found.has_newer, found.has_older)


async def count_found(connection: AsyncConnection, tenant_id: str, wanted: FileFilter) -> int:
    """Return how many files meet `wanted`: by context and uploader all of them, otherwise counted to `MOST_SEARCHED`.

    It is the number of the list that `list_slice` returns a part of.
    """
    if wanted == FileFilter(wanted.context_key, wanted.uploaded_by):
        return await count(connection, tenant_id, wanted.context_key, wanted.uploaded_by)
    ids = select(files.c.file_id).where(files.c.tenant_id == tenant_id, *_conditions(tenant_id, wanted))
    counted = ids.limit(MOST_SEARCHED).subquery()
    return int((await connection.execute(select(func.count()).select_from(counted))).scalar_one())


def _conditions(tenant_id: str, wanted: FileFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [IS_STORED, *period(files.c.file_id, wanted)]
    if wanted.context_key is not None:
        conditions.append(files.c.context_key == wanted.context_key)
    if wanted.uploaded_by is not None:
        conditions.append(files.c.uploaded_by == wanted.uploaded_by)
    if wanted.sha256 is not None:
        conditions.append(files.c.sha256 == wanted.sha256)
    if wanted.status == "quarantined":
        conditions.append(is_in_quarantine())
    elif wanted.status == "stored":
        conditions.append(~is_in_quarantine())
    if wanted.reason is not None:
        conditions.append(has_reason(tenant_id, wanted.reason))
    if wanted.filename is not None:
        # Names are in no index: only this many of the newest files are read.
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
    return conditions


async def find_marks(connection: AsyncConnection, tenant_id: str, file_ids: Collection[str]) -> Mapping[str, FileMarks]:
    """Return the marks of stored files, by id; one that is held by its context has that moment."""
    held = func.coalesce(files.c.held_at, contexts.c.held_at).label("held_at")
    query = (
        select(files.c.file_id, files.c.quarantined_at, held, files.c.due_at)
        .join(contexts, and_(contexts.c.tenant_id == files.c.tenant_id, contexts.c.context_id == files.c.context_id))
        .where(files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids), IS_STORED)
    )
    rows = (await connection.execute(query)).all()
    return {row.file_id: FileMarks(row.quarantined_at, row.held_at, row.due_at) for row in rows}


async def count(connection: AsyncConnection, tenant_id: str, context_key: str | None, uploaded_by: str | None) -> int:
    """Return how many files a tenant has stored, of a context and of an uploader (None: any)."""
    return await counts.total(connection, tenant_id, "files", context_key, uploaded_by)


async def find_report_id(connection: AsyncConnection, tenant_id: str, file_id: str) -> str | None:
    """Return the id of the report of a stored file's upload; None if there is no such file."""
    query = select(files.c.report_id).where(*stored_row(tenant_id, file_id))
    return (await connection.execute(query)).scalar_one_or_none()


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
        .where(*stored_row(tenant_id, file_id))
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
) -> Slice[DeletedFileRow]:
    """Return some deleted files that are not purged yet, of one context or of all, the last deletions first.

    `before` and `after` of the request are places of files (`DeletedFileRow.place`).
    """
    place = tuple_(files.c.deleted_at, files.c.file_id)
    query = select(*_DELETED).where(*_deleted(tenant_id, context_key)).limit(request.size + 1)
    if request.after is not None:
        query = query.where(place > _place(request.after)).order_by(files.c.deleted_at, files.c.file_id)
    else:
        query = query if request.before is None else query.where(place < _place(request.before))
        query = query.order_by(files.c.deleted_at.desc(), files.c.file_id.desc())
    found = (await connection.execute(query)).all()
    rows = [DeletedFileRow(**row._mapping) for row in found[: request.size]]  # noqa: SLF001  (documented)
    has_more = len(found) > request.size
    if request.after is not None:
        return Slice(tuple(reversed(rows)), has_newer=has_more, has_older=True)
    return Slice(tuple(rows), has_newer=request.before is not None, has_older=has_more)


async def count_deleted(connection: AsyncConnection, tenant_id: str, context_key: str | None) -> int:
    """Return how many deleted files are not purged yet, of one context or of all, counted to `MOST_SEARCHED`."""
    counted = select(files.c.file_id).where(*_deleted(tenant_id, context_key)).limit(MOST_SEARCHED).subquery()
    return int((await connection.execute(select(func.count()).select_from(counted))).scalar_one())


def _deleted(tenant_id: str, context_key: str | None) -> tuple[ColumnElement[bool], ...]:
    deleted = (files.c.tenant_id == tenant_id, IS_DELETED)
    return deleted if context_key is None else (*deleted, files.c.context_key == context_key)


def _place(text: str) -> ColumnElement[Any]:
    deleted_at, _, file_id = text.partition("~")
    return tuple_(literal(datetime.fromisoformat(deleted_at), Moment()), literal(file_id))


async def find_deleted(connection: AsyncConnection, tenant_id: str, file_id: str) -> DeletedFileRow | None:
    """Return a deleted file that is not purged yet, or None."""
    query = select(*_DELETED).where(files.c.tenant_id == tenant_id, files.c.file_id == file_id, IS_DELETED)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else DeletedFileRow(**row._mapping)  # noqa: SLF001  (SQLAlchemy's documented name)


async def count_download(connection: AsyncConnection, tenant_id: str, file_id: str, at: datetime) -> FileRecord | None:
    """Count one issued download URL and return the file; None if there is none, or it is in quarantine."""
    statement = (
        update(files)
        .where(*stored_row(tenant_id, file_id), files.c.quarantined_at.is_(None))
        .values(download_count=files.c.download_count + 1, last_downloaded_at=at)
        .returning(*SHOWN)
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else record_of(row)


async def list_by_ids(connection: AsyncConnection, tenant_id: str, file_ids: Collection[str]) -> Sequence[AnyRow]:
    """Return those of the files that are stored, in the order of ids, with `quarantined_at`."""
    conditions = (files.c.tenant_id == tenant_id, IS_STORED, files.c.file_id.in_(file_ids))
    query = select(*SHOWN, files.c.quarantined_at).where(*conditions).order_by(files.c.file_id)
    return (await connection.execute(query)).all()


async def list_states(connection: AsyncConnection, tenant_id: str, file_ids: Collection[str]) -> Mapping[str, str]:
    """Return the states of those of the files that exist, by their ids."""
    query = select(files.c.file_id, files.c.state)
    owned = (files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids))
    return {row.file_id: row.state for row in (await connection.execute(query.where(*owned))).all()}


async def find_quarantined(connection: AsyncConnection, tenant_id: str, file_ids: Collection[str]) -> Sequence[str]:
    """Return those of the files that are in quarantine."""
    query = select(files.c.file_id).where(files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids))
    query = query.where(files.c.state == "stored", is_in_quarantine())
    return (await connection.execute(query)).scalars().all()


async def is_stored(connection: AsyncConnection, tenant_id: str, file_id: str) -> bool:
    """Return whether the file is stored at this moment."""
    query = select(files.c.file_id).where(*stored_row(tenant_id, file_id))
    return (await connection.execute(query)).one_or_none() is not None


async def list_stored(connection: AsyncConnection, after: str, limit: int) -> list[FileRecord]:
    """Return stored files of all tenants whose id comes after `after`, in the order of ids."""
    query = select(*SHOWN).where(files.c.state == "stored", files.c.file_id > after)
    return [record_of(row) for row in (await connection.execute(query.order_by(files.c.file_id).limit(limit))).all()]


async def list_stored_in(
    connection: AsyncConnection, tenant_id: str, config_id: str | None, after: str, limit: int
) -> list[FileRecord]:
    """Return a tenant's stored files in a bucket (None: the platform's) with ids after `after`, in their order."""
    query = select(*SHOWN).where(
        files.c.tenant_id == tenant_id, IS_STORED, files.c.file_id > after, is_in_bucket(config_id)
    )
    return [record_of(row) for row in (await connection.execute(query.order_by(files.c.file_id).limit(limit))).all()]


async def object_keys(connection: AsyncConnection, file_ids: Sequence[str]) -> dict[str, str]:
    """Return the object keys of those of the files that have a row, in any state."""
    query = select(files.c.file_id, files.c.object_key).where(files.c.file_id.in_(file_ids))
    return {row.file_id: row.object_key for row in (await connection.execute(query)).all()}


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
