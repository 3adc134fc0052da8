"""All queries of the audit, over all tenants, and of moving files between buckets. What they are for is in `audit` and `moving`."""

from collections.abc import Sequence

from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.db.moments import now
from sluice.db.schema import IS_STORED, contexts, default_buckets, files, storage_configs, tenants
from sluice.db.types import AnyRow


async def stored_after(connection: AsyncConnection, file_id: str, most: int) -> Sequence[AnyRow]:
    """Answer stored files whose id comes after `file_id`, in the order of ids."""
    query = (
        select(
            files.c.file_id, files.c.tenant_id, files.c.storage_config_id, files.c.object_key, files.c.size_bytes, files.c.sha256
        )
        .where(files.c.state == "stored", files.c.file_id > file_id)
        .order_by(files.c.file_id)
        .limit(most)
    )
    return (await connection.execute(query)).all()


async def still_stored(connection: AsyncConnection, file_id: str) -> bool:
    """Answer whether the file is stored at this moment."""
    query = select(files.c.file_id).where(files.c.file_id == file_id, files.c.state == "stored")
    return (await connection.execute(query)).one_or_none() is not None


async def keys_of(connection: AsyncConnection, file_ids: Sequence[str]) -> dict[str, str]:
    """Answer the object keys of those of the files that have a row, in whatever state."""
    query = select(files.c.file_id, files.c.object_key).where(files.c.file_id.in_(file_ids))
    return {row.file_id: row.object_key for row in (await connection.execute(query)).all()}


async def buckets_after(connection: AsyncConnection, config_id: str, most: int) -> Sequence[AnyRow]:
    """Answer tenant and id of buckets whose id comes after `config_id`, in the order of ids."""
    query = select(storage_configs.c.tenant_id, storage_configs.c.config_id).where(storage_configs.c.config_id > config_id)
    return (await connection.execute(query.order_by(storage_configs.c.config_id).limit(most))).all()


async def miscounted(connection: AsyncConnection) -> Sequence[AnyRow]:
    """Answer contexts whose `storage_used_bytes` is not the sum of their stored and pending files (`counted`)."""
    live = and_(files.c.context_id == contexts.c.context_id, files.c.state.in_(("stored", "pending")))
    counted = func.coalesce(func.sum(files.c.size_bytes), 0)
    query = (
        select(contexts.c.tenant_id, contexts.c.context_id, contexts.c.storage_used_bytes, counted.label("counted"))
        .outerjoin(files, live)
        .group_by(contexts.c.tenant_id, contexts.c.context_id, contexts.c.storage_used_bytes)
        .having(counted != contexts.c.storage_used_bytes)
    )
    return (await connection.execute(query)).all()


async def tenants_after(connection: AsyncConnection, tenant_id: str, most: int) -> Sequence[str]:
    """Answer ids of tenants that come after `tenant_id`, in the order of ids."""
    query = select(tenants.c.tenant_id).where(tenants.c.tenant_id > tenant_id).order_by(tenants.c.tenant_id).limit(most)
    return (await connection.execute(query)).scalars().all()


async def unsettled(connection: AsyncConnection, most: int) -> Sequence[AnyRow]:
    """Answer files that wait for the worker: a lease is over, or an object is due to be removed."""
    lease_over = and_(files.c.state == "pending", files.c.lease_until <= now())
    due = and_(files.c.state.in_(("gone", "deleted")), files.c.due_at <= now())
    query = select(files.c.tenant_id, files.c.file_id, files.c.state).where(or_(lease_over, due)).limit(most)
    return (await connection.execute(query)).all()


async def without_default(connection: AsyncConnection) -> Sequence[AnyRow]:
    """Answer tenants that have buckets and no default among them."""
    query = (
        select(storage_configs.c.tenant_id)
        .outerjoin(default_buckets, default_buckets.c.tenant_id == storage_configs.c.tenant_id)
        .where(default_buckets.c.config_id.is_(None))
        .distinct()
    )
    return (await connection.execute(query)).all()


async def stored_in(connection: AsyncConnection, tenant_id: str, config_id: str | None, after: str, most: int) -> Sequence[AnyRow]:
    """Answer a tenant's stored files in a bucket (None: the platform's store) whose id comes after `after`, in the order of ids."""
    query = (
        select(
            files.c.file_id,
            files.c.storage_config_id,
            files.c.object_key,
            files.c.size_bytes,
            files.c.sha256,
            files.c.content_type,
        )
        .where(files.c.tenant_id == tenant_id, IS_STORED, files.c.file_id > after)
        .where(files.c.storage_config_id.is_(None) if config_id is None else files.c.storage_config_id == config_id)
        .order_by(files.c.file_id)
        .limit(most)
    )
    return (await connection.execute(query)).all()


async def switch(connection: AsyncConnection, file_id: str, old: str | None, new: str | None, key: str) -> bool:
    """Let a stored file be in another bucket from now on; False when it was deleted, or moved by another, meanwhile."""
    here = files.c.storage_config_id.is_(None) if old is None else files.c.storage_config_id == old
    statement = (
        update(files)
        .where(files.c.file_id == file_id, files.c.state == "stored", here)
        .values(storage_config_id=new, object_key=key)
        .returning(files.c.file_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None
