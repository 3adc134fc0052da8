"""All queries of API keys; what a query means is decided in `service`."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, bindparam, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.api_keys.api_key import ApiKey
from sluice.api_keys.secret import IssuedKey
from sluice.db.database import Database
from sluice.db.schema import api_keys, contexts, event_levels
from sluice.db.sql import Fields
from sluice.db.statement import Statement
from sluice.kit.paging import Page, PageRequest

_SHOWN = [
    *(column for column in api_keys.c if column.name in ApiKey.__slots__),
    api_keys.c.context_keys.label("contexts"),
]


# The columns of a key, and the status of its tenant. By its previous text a key is found with the hash and the end of
# that text.
_PRESENTED: Final = Statement(
    # Only the found row says whose key it is, so a function of the owner's bypasses row level security (`db.triggers`).
    postgres="""
        SELECT api_key_id, tenant_id, secret_hash, key_prefix, mode, name, scopes, status, metadata,
               created_at, updated_at, expires_at, last_used_at, context_keys AS contexts, allowed_networks,
               rate_per_minute, tenant_status
          FROM presented_api_key(:key_prefix)
    """,
    sqlite=[
        """
        SELECT api_key_id, api_keys.tenant_id, key_prefix, mode, api_keys.name, scopes, api_keys.status, metadata,
               CASE key_prefix WHEN :key_prefix THEN secret_hash ELSE previous_secret_hash END AS secret_hash,
               CASE key_prefix WHEN :key_prefix THEN expires_at ELSE previous_expires_at END AS expires_at,
               api_keys.created_at, updated_at, last_used_at, context_keys AS contexts, allowed_networks,
               rate_per_minute, tenants.status AS tenant_status
          FROM api_keys JOIN tenants ON tenants.tenant_id = api_keys.tenant_id
         WHERE key_prefix = :key_prefix OR previous_prefix = :key_prefix
        """
    ],
    types={column.name: column.type for column in api_keys.c} | {"contexts": api_keys.c.context_keys.type},
    needs_tenant=False,
)


_NO_ROW: Final[Mapping[str, Any]] = dict.fromkeys(column.name for column in api_keys.c) | {
    "scopes": [],
    "metadata": {},
    "contexts": [],
}

Presented = tuple[ApiKey, bytes, str]  # a key, its stored hash, and its tenant's status


async def find_presented(database: Database, key_prefix: str) -> Presented | None:
    """Return the key with this prefix, its stored hash, and its tenant's status; None when there is none."""
    row = await database.fetch(_PRESENTED, {"key_prefix": key_prefix})
    key = _value(row or _NO_ROW)  # also for an unknown key, so that its refusal takes as long
    return None if row is None else (key, row["secret_hash"], row["tenant_status"])


async def find(connection: AsyncConnection, tenant_id: str, api_key_id: str, *, locked: bool = False) -> ApiKey | None:
    """Return one key, or None; `locked` until the end of the transaction."""
    query = select(*_SHOWN).where(api_keys.c.tenant_id == tenant_id, api_keys.c.api_key_id == api_key_id)
    row = (await connection.execute(query.with_for_update() if locked else query)).mappings().one_or_none()
    return None if row is None else _value(row)


async def list_page(
    connection: AsyncConnection, tenant_id: str, status: str | None, request: PageRequest
) -> Page[ApiKey]:
    """Return one page, newest first."""
    wanted: list[ColumnElement[bool]] = [api_keys.c.tenant_id == tenant_id]
    if status is not None:
        wanted.append(api_keys.c.status == status)
    total = (await connection.execute(select(func.count()).select_from(api_keys).where(*wanted))).scalar_one()
    if request.offset >= total:
        return Page((), request, total)
    query = (
        select(*_SHOWN)
        .where(*wanted)
        .order_by(api_keys.c.api_key_id.desc())
        .offset(request.offset)
        .limit(request.page_size)
    )
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
            context_keys=list(key.contexts) or None,
            allowed_networks=list(key.allowed_networks) or None,
            rate_per_minute=key.rate_per_minute,
        )
    )


async def rotate(
    connection: AsyncConnection,
    tenant_id: str,
    api_key_id: str,
    issued: IssuedKey,
    *,
    previous_expires_at: datetime | None,
    values: Mapping[str, Any],
) -> ApiKey | None:
    """Give a key a new text unless it is revoked, and return it; None when nothing matched.

    Its present text becomes the previous one, until that moment; None ends it at once. That the key expires is
    announced again.
    """
    columns, keeps = api_keys.c, previous_expires_at is not None
    announced = (event_levels.c.tenant_id == tenant_id, event_levels.c.subject_id == api_key_id)
    await connection.execute(delete(event_levels).where(*announced, event_levels.c.subject_type == "key"))
    texts = {
        "key_prefix": issued.key_prefix,
        "secret_hash": issued.secret_hash,
        "previous_prefix": columns.key_prefix if keeps else None,
        "previous_secret_hash": columns.secret_hash if keeps else None,
        "previous_expires_at": previous_expires_at,
    }
    return await change(connection, tenant_id, api_key_id, {**values, **texts})


async def list_unknown_contexts(
    connection: AsyncConnection, tenant_id: str, context_keys: Collection[str]
) -> Sequence[str]:
    """Return those of the keys that no context has."""
    query = select(contexts.c.context_key).where(
        contexts.c.tenant_id == tenant_id, contexts.c.context_key.in_(context_keys)
    )
    known = set((await connection.execute(query)).scalars())
    return [key for key in context_keys if key not in known]


async def change(
    connection: AsyncConnection, tenant_id: str, api_key_id: str, values: Mapping[str, Any]
) -> ApiKey | None:
    """Write `values` unless the key is revoked, and return the changed key; None when nothing matched."""
    statement = (
        update(api_keys)
        .where(api_keys.c.tenant_id == tenant_id, api_keys.c.api_key_id == api_key_id, api_keys.c.status != "revoked")
        .values(**values)
        .returning(*_SHOWN)
    )
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else _value(row)


async def write_last_used(connection: AsyncConnection, used: Mapping[tuple[str, str], datetime]) -> None:
    """Write when keys were last used, each named by its tenant and its id, in one batch."""
    is_key = (api_keys.c.tenant_id == bindparam("tenant"), api_keys.c.api_key_id == bindparam("id"))
    statement = update(api_keys).where(*is_key).values(last_used_at=bindparam("at"))
    rows = [{"tenant": tenant_id, "id": key_id, "at": moment} for (tenant_id, key_id), moment in used.items()]
    await connection.execute(statement, rows)


def _value(row: Fields) -> ApiKey:
    fields = {name: value for name, value in row.items() if name in ApiKey.__slots__}
    lists = {name: tuple(fields[name] or ()) for name in ("scopes", "contexts", "allowed_networks")}
    return ApiKey(**fields | lists)
