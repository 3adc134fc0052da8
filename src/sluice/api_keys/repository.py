"""All queries of API keys; what a query means is decided in `service`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, bindparam, column, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.api_keys.api_key import ApiKey
from sluice.db.database import Database
from sluice.db.hot import Hot
from sluice.db.schema import api_keys, tenants
from sluice.db.types import Fields
from sluice.kit.paging import Page, PageRequest

_SHOWN = [column for column in api_keys.c if column.name != "secret_hash"]


_PREFIX = bindparam("key_prefix", type_=api_keys.c.key_prefix.type)
_TENANT_STATUS = tenants.c.status.label("tenant_status")
_GIVEN = func.presented_key(_PREFIX).table_valued(*(column(c.name, c.type) for c in (*api_keys.c, _TENANT_STATUS)))
_PRESENTED = Hot(
    # A key tells whose it is only when it was found, so row level security is passed by a function of the owner's (migration 0007).
    postgres=select(*_GIVEN.c),
    sqlite=[
        select(*api_keys.c, _TENANT_STATUS)
        .join(tenants, tenants.c.tenant_id == api_keys.c.tenant_id)
        .where(api_keys.c.key_prefix == _PREFIX)
    ],
    nobody=True,
)


async def find_presented(database: Database, key_prefix: str) -> tuple[ApiKey, bytes, str] | None:
    """Answer the key with this prefix, its stored hash, and its tenant's status; None when there is none."""
    row = await database.fetch(_PRESENTED, {"key_prefix": key_prefix})
    return None if row is None else (_value(row), row["secret_hash"], row["tenant_status"])


async def find(connection: AsyncConnection, tenant_id: str, api_key_id: str) -> ApiKey | None:
    """Answer one key, or None."""
    query = select(*_SHOWN).where(api_keys.c.tenant_id == tenant_id, api_keys.c.api_key_id == api_key_id)
    row = (await connection.execute(query)).mappings().one_or_none()
    return None if row is None else _value(row)


async def list_page(connection: AsyncConnection, tenant_id: str, status: str | None, request: PageRequest) -> Page[ApiKey]:
    """Answer one page, newest first."""
    wanted: list[ColumnElement[bool]] = [api_keys.c.tenant_id == tenant_id]
    if status is not None:
        wanted.append(api_keys.c.status == status)
    total = (await connection.execute(select(func.count()).select_from(api_keys).where(*wanted))).scalar_one()
    if request.offset >= total:
        return Page((), request, total)
    query = select(*_SHOWN).where(*wanted).order_by(api_keys.c.api_key_id.desc()).offset(request.offset).limit(request.page_size)
    rows = (await connection.execute(query)).mappings().all()
    return Page(tuple(_value(row) for row in rows), request, total)


async def add(connection: AsyncConnection, key: ApiKey, secret_hash: bytes) -> None:
    """Insert one key."""
    await connection.execute(
        insert(api_keys).values(
            api_key_id=key.api_key_id,
            tenant_id=key.tenant_id,
            key_prefix=key.key_prefix,
            secret_hash=secret_hash,
            mode=key.mode,
            name=key.name,
            scopes=list(key.scopes),
            status=key.status,
            metadata=dict(key.metadata),
            created_at=key.created_at,
            expires_at=key.expires_at,
        )
    )


async def change(connection: AsyncConnection, tenant_id: str, api_key_id: str, values: Mapping[str, Any]) -> ApiKey | None:
    """Write `values` unless the key is revoked, and answer the changed key; None when nothing matched."""
    statement = (
        update(api_keys)
        .where(api_keys.c.tenant_id == tenant_id, api_keys.c.api_key_id == api_key_id, api_keys.c.status != "revoked")
        .values(**values)
        .returning(*_SHOWN)
    )
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else _value(row)


async def write_last_used(connection: AsyncConnection, used: Mapping[str, datetime]) -> None:
    """Write when keys were last used, by id, in one batch."""
    statement = update(api_keys).where(api_keys.c.api_key_id == bindparam("id")).values(last_used_at=bindparam("at"))
    await connection.execute(statement, [{"id": key_id, "at": moment} for key_id, moment in used.items()])


def _value(row: Fields) -> ApiKey:
    fields = {name: value for name, value in row.items() if name in ApiKey.__slots__}
    return ApiKey(**fields | {"scopes": tuple(fields["scopes"])})
