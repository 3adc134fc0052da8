"""All queries of tenants."""

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.db.schema import tenants
from sluice.db.sql import AnyRow
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


async def set_status(connection: AsyncConnection, tenant_id: str, status: str) -> Tenant | None:
    """Write the status and return the changed tenant, or None."""
    statement = update(tenants).where(tenants.c.tenant_id == tenant_id).values(status=status).returning(tenants)
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _value(row)


def _value(row: AnyRow) -> Tenant:
    return Tenant(**row._mapping)  # noqa: SLF001  (SQLAlchemy's documented name)
