"""All queries of allowed origins; those of an upload token are written by `upload_tokens.repository`."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, insert, or_, select

from sluice.db.schema import cors_origins
from sluice.db.sql import Connection

_OF_TENANT = ""  # in place of a token's id


async def is_listed_anywhere(connection: Connection, origin: str, at: datetime) -> bool:
    """Return whether any tenant or any of its tokens lists the origin."""
    columns = cors_origins.c
    query = (
        select(columns.origin)
        .where(columns.origin == origin, or_(columns.expires_at.is_(None), columns.expires_at > at))
        .limit(1)
    )
    return (await connection.execute(query)).one_or_none() is not None


async def list_of_tenant(connection: Connection, tenant_id: str) -> Sequence[str]:
    """Return the tenant's own origins, in order."""
    columns = cors_origins.c
    query = select(columns.origin).where(columns.tenant_id == tenant_id, columns.token_id == _OF_TENANT)
    return sorted((await connection.execute(query)).scalars().all())


async def replace(connection: Connection, tenant_id: str, origins: Sequence[str]) -> None:
    """Make these the tenant's own origins."""
    columns = cors_origins.c
    await connection.execute(delete(cors_origins).where(columns.tenant_id == tenant_id, columns.token_id == _OF_TENANT))
    rows = [{"tenant_id": tenant_id, "token_id": _OF_TENANT, "origin": origin} for origin in origins]
    if rows:
        await connection.execute(insert(cors_origins), rows)
