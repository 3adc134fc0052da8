"""All queries of stored files; how rows of files come into being is in `uploads.repository`. Only rows in state `stored` are seen here."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import ColumnElement, case, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.db import counts
from sluice.db.moments import ahead, now
from sluice.db.pages import rows_of_page
from sluice.db.schema import IS_STORED, contexts, files, tenants
from sluice.db.types import AnyRow
from sluice.files.record import FileRecord, Quarantined
from sluice.kit.paging import Page, PageRequest

_SHOWN = [files.c[name] for name in FileRecord.__slots__]
_QUARANTINED = [files.c[name] for name in Quarantined.__slots__]

Settled = Literal["kept", "quarantined", "released"]
"""What a later scan did with a file. `released` is one that is infected still, by the threat for which an operator released it."""


async def find(connection: AsyncConnection, tenant_id: str, file_id: str) -> FileRecord | None:
    """Answer one stored file, or None."""
    row = (await connection.execute(select(*_SHOWN).where(*_stored(tenant_id, file_id)))).one_or_none()
    return None if row is None else _value(row)


async def find_any_tenant(connection: AsyncConnection, file_id: str) -> FileRecord | None:
    """Answer one stored file of whichever tenant: for signed links, which name no tenant and were given out to one.

    One in quarantine is not handed out, nor one of a tenant that is suspended.
    """
    is_active = exists().where(tenants.c.tenant_id == files.c.tenant_id, tenants.c.status == "active")
    query = select(*_SHOWN).where(
        files.c.file_id == file_id, files.c.state == "stored", files.c.quarantined_at.is_(None), is_active
    )
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _value(row)


async def list_page(
    connection: AsyncConnection, tenant_id: str, context_key: str | None, uploaded_by: str | None, request: PageRequest
) -> Page[FileRecord]:
    """Answer one page, newest first."""
    wanted: list[ColumnElement[bool]] = [files.c.tenant_id == tenant_id, IS_STORED]
    if context_key is not None:
        wanted.append(files.c.context_key == context_key)
    if uploaded_by is not None:
        wanted.append(files.c.uploaded_by == uploaded_by)
    total = await counts.total(connection, tenant_id, "files", context_key, uploaded_by)
    rows = await rows_of_page(connection, _SHOWN, wanted, request, total)
    return Page(tuple(_value(row) for row in rows), request, total)


async def count_download(connection: AsyncConnection, tenant_id: str, file_id: str, at: datetime) -> FileRecord | None:
    """Count one download URL given out and answer the file, or None: also where the file is in quarantine."""
    statement = (
        update(files)
        .where(*_stored(tenant_id, file_id), files.c.quarantined_at.is_(None))
        .values(download_count=files.c.download_count + 1, last_downloaded_at=at)
        .returning(*_SHOWN)
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _value(row)


async def mark_deleted(connection: AsyncConnection, tenant_id: str, file_id: str, purge_after: timedelta) -> bool:
    """Hide the file, free its bytes of the context's quota, and let its object be purged after `purge_after`."""
    statement = (
        update(files)
        .where(*_stored(tenant_id, file_id))
        .values(state="deleted", due_at=ahead(purge_after))
        .returning(files.c.context_id, files.c.size_bytes)
    )
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return False
    await connection.execute(
        update(contexts)
        .where(contexts.c.context_id == row.context_id)
        .values(storage_used_bytes=contexts.c.storage_used_bytes - row.size_bytes)
    )
    return True


async def stale_verdicts(connection: AsyncConnection, edition: str, most: int, *, only: str = "") -> list[FileRecord]:
    """Answer stored files that were last scanned by another edition, oldest verdict first; with `only`, editions that begin so.

    Files that were never scanned, that are in quarantine, or that are put off, are none of them. Editions are few, and each is one
    descent of an index, so nothing left to do costs next to nothing, however many files there are.
    """
    found: list[AnyRow] = []
    at: str | None = only
    while at := await _next_edition(connection, at, only):
        if at != edition:
            found += await _oldest_of(connection, at, most)
    found.sort(key=lambda row: row.scanned_at)
    return [FileRecord(**{name: row._mapping[name] for name in FileRecord.__slots__}) for row in found[:most]]  # noqa: SLF001  (as below)


async def claim_rescan(connection: AsyncConnection, file_id: str, edition: str, lease: timedelta) -> bool:
    """Claim a stored file to be scanned by `edition`, for so long; answer whether it was there to be had, and not scanned by it meanwhile."""
    statement = (
        update(files)
        .where(files.c.file_id == file_id, files.c.scanned_with != edition, *_may_be_rescanned())
        .values(rescan_at=ahead(lease))
        .returning(files.c.file_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def put_off_rescan(connection: AsyncConnection, file_id: str, pause: timedelta) -> None:
    """Give a claimed file back unscanned: it is due again after the pause."""
    await connection.execute(update(files).where(files.c.file_id == file_id).values(rescan_at=ahead(pause)))


async def settle_rescan(
    connection: AsyncConnection, file_id: str, edition: str, at: datetime, *, again_after: timedelta | None, threat: str | None
) -> Settled | None:
    """Note a later scan of a stored file, and put it in quarantine for a threat that it was not released for; answer None for one that was deleted meanwhile."""
    released = case((files.c.threat == threat, files.c.quarantined_at), else_=at)
    mark = {} if threat is None else {"quarantined_at": released, "threat": threat}
    statement = (
        update(files)
        .where(files.c.file_id == file_id, files.c.state == "stored")
        .values(scanned_with=edition, scanned_at=at, rescan_at=None if again_after is None else ahead(again_after), **mark)
        .returning(files.c.quarantined_at)
    )
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    return "kept" if threat is None else "quarantined" if row.quarantined_at is not None else "released"


async def list_quarantined(connection: AsyncConnection, tenant_id: str | None, after: str, most: int) -> list[Quarantined]:
    """Answer files in quarantine, of a tenant or of all, by their ids: at most `most` of those behind `after`."""
    wanted: list[ColumnElement[bool]] = [files.c.quarantined_at.is_not(None), files.c.state == "stored", files.c.file_id > after]
    if tenant_id is not None:
        wanted.append(files.c.tenant_id == tenant_id)
    query = select(*_QUARANTINED).where(*wanted).order_by(files.c.file_id).limit(most)
    return [Quarantined(**row._mapping) for row in (await connection.execute(query)).all()]  # noqa: SLF001  (as below)


async def release(connection: AsyncConnection, file_id: str) -> str | None:
    """Let a file in quarantine be handed out again, and answer whose it is; None when it is not there."""
    statement = (
        update(files)
        .where(files.c.file_id == file_id, files.c.state == "stored", files.c.quarantined_at.is_not(None))
        .values(quarantined_at=None)
        .returning(files.c.tenant_id)
    )
    tenant_id: str | None = (await connection.execute(statement)).scalar_one_or_none()
    return tenant_id


async def _next_edition(connection: AsyncConnection, after: str | None, only: str) -> str | None:
    query = select(func.min(files.c.scanned_with)).where(files.c.state == "stored", files.c.scanned_with > after)
    found: str | None = (await connection.execute(query)).scalar_one()
    return found if found is not None and found.startswith(only) else None


async def _oldest_of(connection: AsyncConnection, edition: str, most: int) -> Sequence[AnyRow]:
    query = select(*_SHOWN, files.c.scanned_at).where(files.c.scanned_with == edition, *_may_be_rescanned())
    return (await connection.execute(query.order_by(files.c.scanned_at).limit(most))).all()


def _may_be_rescanned() -> tuple[ColumnElement[bool], ...]:
    not_put_off = or_(files.c.rescan_at.is_(None), files.c.rescan_at <= now())
    return files.c.state == "stored", files.c.quarantined_at.is_(None), not_put_off


def _stored(tenant_id: str, file_id: str) -> tuple[ColumnElement[bool], ...]:
    return files.c.tenant_id == tenant_id, files.c.file_id == file_id, files.c.state == "stored"


def _value(row: AnyRow) -> FileRecord:
    return FileRecord(**row._mapping)  # noqa: SLF001  (SQLAlchemy's documented name)
