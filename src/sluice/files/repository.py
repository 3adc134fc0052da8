"""All queries of stored files; how rows of files come into being is in `uploads.repository`. Only rows in state `stored` are seen here."""

from datetime import datetime

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.db.schema import contexts, files
from sluice.db.types import AnyRow
from sluice.files.record import FileRecord
from sluice.kit.paging import Page, PageRequest

_SHOWN = [files.c[name] for name in FileRecord.__slots__]


async def find(connection: AsyncConnection, tenant_id: str, file_id: str) -> FileRecord | None:
    """Answer one stored file, or None."""
    row = (await connection.execute(select(*_SHOWN).where(*_stored(tenant_id, file_id)))).one_or_none()
    return None if row is None else _value(row)


async def find_any_tenant(connection: AsyncConnection, file_id: str) -> FileRecord | None:
    """Answer one stored file of whichever tenant: for signed links, which name no tenant and were given out to one."""
    query = select(*_SHOWN).where(files.c.file_id == file_id, files.c.state == "stored")
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _value(row)


async def list_page(
    connection: AsyncConnection, tenant_id: str, context_key: str | None, uploaded_by: str | None, request: PageRequest
) -> Page[FileRecord]:
    """Answer one page, newest first."""
    wanted: list[ColumnElement[bool]] = [files.c.tenant_id == tenant_id, files.c.state == "stored"]
    if context_key is not None:
        wanted.append(files.c.context_key == context_key)
    if uploaded_by is not None:
        wanted.append(files.c.uploaded_by == uploaded_by)
    total = (await connection.execute(select(func.count()).select_from(files).where(*wanted))).scalar_one()
    if request.offset >= total:
        return Page((), request, total)
    query = select(*_SHOWN).where(*wanted).order_by(files.c.file_id.desc()).offset(request.offset).limit(request.page_size)
    rows = (await connection.execute(query)).all()
    return Page(tuple(_value(row) for row in rows), request, total)


async def count_download(connection: AsyncConnection, tenant_id: str, file_id: str, at: datetime) -> FileRecord | None:
    """Count one download URL given out and answer the file, or None."""
    statement = (
        update(files)
        .where(*_stored(tenant_id, file_id))
        .values(download_count=files.c.download_count + 1, last_downloaded_at=at)
        .returning(*_SHOWN)
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _value(row)


async def mark_deleted(connection: AsyncConnection, tenant_id: str, file_id: str, due_at: datetime) -> bool:
    """Hide the file, free its bytes of the context's quota, and let its object be purged from `due_at` on."""
    statement = (
        update(files)
        .where(*_stored(tenant_id, file_id))
        .values(state="deleted", due_at=due_at)
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


def _stored(tenant_id: str, file_id: str) -> tuple[ColumnElement[bool], ...]:
    return files.c.tenant_id == tenant_id, files.c.file_id == file_id, files.c.state == "stored"


def _value(row: AnyRow) -> FileRecord:
    return FileRecord(**row._mapping)  # noqa: SLF001  (SQLAlchemy's documented name)
