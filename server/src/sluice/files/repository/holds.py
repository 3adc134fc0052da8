"""Legal holds on files and contexts."""

from collections.abc import Collection

from sqlalchemy import case, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.db.schema import IS_STORED, contexts, files
from sluice.db.sql import now
from sluice.files.record import Hold
from sluice.files.repository.rows import is_free, is_in_free_context


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
