"""All queries of tenants."""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Table, delete, func, insert, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.db import schema
from sluice.db.schema import api_keys, files, resumable_uploads, tenants
from sluice.db.sql import AnyRow, now
from sluice.tenants.tenant import Tenant


async def find(connection: AsyncConnection, tenant_id: str) -> Tenant | None:
    """Return one tenant, or None."""
    row = (await connection.execute(select(tenants).where(tenants.c.tenant_id == tenant_id))).one_or_none()
    return None if row is None else _value(row)


async def list_all(connection: AsyncConnection) -> tuple[Tenant, ...]:
    """Return every tenant, oldest first."""
    rows = (await connection.execute(select(tenants).order_by(tenants.c.tenant_id))).all()
    return tuple(_value(row) for row in rows)


async def count(connection: AsyncConnection) -> int:
    """Return how many tenants there are."""
    return (await connection.execute(select(func.count()).select_from(tenants))).scalar_one()


async def add(connection: AsyncConnection, tenant: Tenant) -> None:
    """Insert one tenant; a constraint refuses it (`Conflict`) when the id is taken."""
    await connection.execute(
        insert(tenants).values(
            tenant_id=tenant.tenant_id,
            name=tenant.name,
            plan=tenant.plan,
            status=tenant.status,
            created_at=tenant.created_at,
        )
    )


async def change(connection: AsyncConnection, tenant_id: str, values: Mapping[str, Any]) -> Tenant | None:
    """Write the values and return the changed tenant, None if there is none, or it was deleted."""
    is_left = (tenants.c.tenant_id == tenant_id, tenants.c.status != "deleted")
    statement = update(tenants).where(*is_left).values(values).returning(tenants)
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _value(row)


# What a tenant has besides its files, in an order in which nothing refers to what is gone. Its audit log stays as long
# as audit logs do, its jobs as jobs do, its keys without names and secrets, and its counts until triggers have brought
# them to zero.
_THINGS: Final[tuple[Table, ...]] = (
    schema.upload_tokens,
    schema.cors_origins,
    schema.hash_entries,
    schema.hash_entry_counts,
    schema.console_links,
    schema.console_sessions,
    schema.console_passkeys,
    schema.console_users,
    schema.idempotency_keys,
    schema.webhook_deliveries,
    schema.webhook_endpoints,
    schema.event_levels,
    schema.events,
    schema.event_counters,
    schema.decisions,
    schema.rejection_marks,
    schema.context_examples,
    schema.contexts,
    schema.bucket_outages,
    schema.default_buckets,
    schema.storage_configs,
    schema.plan_usage,
    schema.usage_days,
    schema.usage_deltas,
    schema.file_metadata,
    schema.erased_files,
)


async def delete_things(connection: AsyncConnection, tenant_id: str, limit: int) -> int:
    """Delete up to `limit` rows of what a tenant has besides its files; return how many, 0 if nothing is left."""
    for table in _THINGS:
        own = table.c.tenant_id == tenant_id
        key = tuple_(*table.primary_key)
        some = select(*table.primary_key).where(own).limit(limit)
        gone = await connection.execute(delete(table).where(own, key.in_(some)).returning(table.c.tenant_id))
        deleted = len(gone.all())
        if deleted:
            return deleted
    return 0


async def empty_keys(connection: AsyncConnection, tenant_id: str) -> None:
    """Revoke all keys of a tenant, and forget their names and secrets.

    Their rows stay: the service's role has no right to delete one, and the audit log names them.
    """
    values = {"status": "revoked", "name": "", "secret_hash": bytes(32), "scopes": [], "metadata": {}}
    await connection.execute(update(api_keys).where(api_keys.c.tenant_id == tenant_id).values(values))


async def end_resumable_uploads(connection: AsyncConnection, tenant_id: str) -> None:
    """Let the worker end the resumable uploads of a tenant now."""
    is_open = (resumable_uploads.c.tenant_id == tenant_id, resumable_uploads.c.expires_at > now())
    await connection.execute(update(resumable_uploads).where(*is_open).values(expires_at=now(), due_at=now()))


async def has_objects(connection: AsyncConnection, tenant_id: str) -> bool:
    """Return whether anything of a tenant is still in a store: files in any state, parts of uploads."""
    for table in (files, resumable_uploads):
        query = select(table.c.tenant_id).where(table.c.tenant_id == tenant_id).limit(1)
        if (await connection.execute(query)).one_or_none() is not None:
            return True
    return False


def _value(row: AnyRow) -> Tenant:
    return Tenant(**row._mapping)  # noqa: SLF001  (SQLAlchemy's documented name)
