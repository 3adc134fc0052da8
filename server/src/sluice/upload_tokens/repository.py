"""All queries of upload tokens; what a query means is decided in `service`.

One of a token's files is claimed by `uploads.repository`, and freed by `files.repository`.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import delete, func, insert, select, tuple_, update

from sluice.access import KeyLimits
from sluice.db.database import Database
from sluice.db.schema import api_keys, cors_origins, decisions, upload_tokens
from sluice.db.sql import Connection, Fields, load_page, rows_of
from sluice.db.statement import Statement
from sluice.decisions.record import NOT_UPLOADS
from sluice.kit.paging import Page, PageRequest
from sluice.upload_tokens.upload_token import TokenUpload, UploadToken

_SHOWN = [column for column in upload_tokens.c if column.name != "secret_hash"]

# The columns of a token, the status of its tenant, and what the API key that made it is limited to.
_PRESENTED: Final = Statement(
    # Only the found row says whose it is, so a function of the owner's bypasses row level security (`db.triggers`).
    postgres="""
        SELECT token_id, tenant_id, secret_hash, token_prefix, mode, context_key, max_files, max_file_size_bytes,
               allowed_extensions, allowed_origins, methods, end_user, metadata, redirect_ok, redirect_error,
               files_claimed, attempts, created_by, created_at, expires_at, revoked_at, page_sentence, tenant_status,
               key_contexts, key_rate_per_minute
          FROM presented_upload_token(:token_prefix)
    """,
    sqlite=[
        """
        SELECT upload_tokens.*, tenants.status AS tenant_status, api_keys.context_keys AS key_contexts,
               api_keys.rate_per_minute AS key_rate_per_minute
          FROM upload_tokens
          JOIN tenants ON tenants.tenant_id = upload_tokens.tenant_id
          LEFT JOIN api_keys
                 ON api_keys.tenant_id = upload_tokens.tenant_id AND api_keys.api_key_id = upload_tokens.created_by
         WHERE token_prefix = :token_prefix
        """
    ],
    types={column.name: column.type for column in upload_tokens.c} | {"key_contexts": api_keys.c.context_keys.type},
    needs_tenant=False,
)

# So long after a token is over, pages of its origins may read that it is: a browser shows them no 401 otherwise.
_READABLE_AFTERWARDS: Final = timedelta(hours=2)

# A token, its stored hash, its tenant's status, and what the key that made it is limited to
Presented = tuple[UploadToken, bytes, str, KeyLimits]


async def find_presented(database: Database, token_prefix: str) -> Presented | None:
    """Return the token with this prefix, its hash, its tenant's status, and its maker's limits; None if there is none.

    A token is used by others than its maker, so by which networks that is limited does not matter.
    """
    row = await database.fetch(_PRESENTED, {"token_prefix": token_prefix})
    if row is None:
        return None
    limits = KeyLimits(tuple(row["key_contexts"] or ()), rate_per_minute=row["key_rate_per_minute"])
    return _value(row), row["secret_hash"], row["tenant_status"], limits


async def claim_attempt(connection: Connection, tenant_id: str, token_id: str, at: datetime) -> bool:
    """Count an upload that begins; return whether the token is good for one."""
    columns = upload_tokens.c
    statement = (
        update(upload_tokens)
        .where(
            columns.tenant_id == tenant_id,
            columns.token_id == token_id,
            columns.revoked_at.is_(None),
            columns.expires_at > at,
            columns.files_claimed < columns.max_files,
            columns.attempts < 5 * columns.max_files + 5,  # as `UploadToken.most_attempts`
        )
        .values(attempts=columns.attempts + 1)
        .returning(columns.token_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def return_attempt(connection: Connection, tenant_id: str, token_id: str) -> None:
    """Take back that an upload was counted."""
    columns = upload_tokens.c
    own = (columns.tenant_id == tenant_id, columns.token_id == token_id, columns.attempts > 0)
    await connection.execute(update(upload_tokens).where(*own).values(attempts=columns.attempts - 1))


async def lock(connection: Connection, tenant_id: str, token_id: str) -> UploadToken | None:
    """Return one token, or None, and lock its row until the transaction ends."""
    query = select(*_SHOWN).where(upload_tokens.c.tenant_id == tenant_id, upload_tokens.c.token_id == token_id)
    row = (await connection.execute(query.with_for_update())).mappings().one_or_none()
    return None if row is None else _value(row)


async def count_verdicts(connection: Connection, tenant_id: str, token_id: str) -> int:
    """Return how many uploads with a token were judged; those that could not be are not counted."""
    columns = decisions.c
    is_upload = (columns.tenant_id == tenant_id, columns.actor_id == token_id, columns.mode.not_in(NOT_UPLOADS))
    query = select(func.count()).where(*is_upload, columns.outcome != "undecided")
    return int((await connection.execute(query)).scalar_one())


async def find(connection: Connection, tenant_id: str, token_id: str) -> UploadToken | None:
    """Return one token, or None."""
    query = select(*_SHOWN).where(upload_tokens.c.tenant_id == tenant_id, upload_tokens.c.token_id == token_id)
    row = (await connection.execute(query)).mappings().one_or_none()
    return None if row is None else _value(row)


async def list_page(connection: Connection, tenant_id: str, request: PageRequest) -> Page[UploadToken]:
    """Return one page, newest first."""
    counted = select(func.count()).select_from(upload_tokens).where(upload_tokens.c.tenant_id == tenant_id)
    total = int((await connection.execute(counted)).scalar_one())
    rows = await load_page(connection, tenant_id, _SHOWN, [], request, total=total)
    return Page(tuple(_value(row._mapping) for row in rows), request, total)  # noqa: SLF001  (documented)


async def list_uploads(connection: Connection, tenant_id: str, token_id: str) -> Sequence[TokenUpload]:
    """Return the outcomes of the uploads with a token, oldest first."""
    columns = decisions.c
    query = (
        select(columns.report_id, columns.file_id, columns.outcome, columns.created_at, columns.actor)
        .where(columns.tenant_id == tenant_id, columns.actor_id == token_id, columns.mode.not_in(NOT_UPLOADS))
        .order_by(columns.report_id)
    )
    rows = (await connection.execute(query)).all()
    # An issuer may name a user as it likes, also like a token.
    of_token = [row for row in rows if row.actor.get("via") == "upload_token"]
    return [TokenUpload(row.report_id, row.file_id, row.outcome, row.created_at) for row in of_token]


async def add(connection: Connection, token: UploadToken, secret_hash: bytes) -> None:
    """Insert one token, and its origins."""
    row: dict[str, Any] = {name: getattr(token, name) for name in UploadToken.__slots__}
    lists = {name: list(row[name]) for name in ("allowed_extensions", "allowed_origins", "methods")}
    values = row | lists | {"metadata": dict(token.metadata), "secret_hash": secret_hash}
    await connection.execute(insert(upload_tokens).values(values))
    origins = [
        {
            "tenant_id": token.tenant_id,
            "token_id": token.token_id,
            "origin": origin,
            "expires_at": token.expires_at + _READABLE_AFTERWARDS,
        }
        for origin in token.allowed_origins
    ]
    if origins:
        await connection.execute(insert(cors_origins), origins)


async def revoke(connection: Connection, tenant_id: str, token_id: str, at: datetime) -> bool:
    """Revoke a token; return False if there is none that was not revoked before."""
    columns = upload_tokens.c
    statement = (
        update(upload_tokens)
        .where(columns.tenant_id == tenant_id, columns.token_id == token_id, columns.revoked_at.is_(None))
        .values(revoked_at=at)
        .returning(columns.token_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def delete_expired(connection: Connection, before: datetime, limit: int) -> int:
    """Delete tokens that expired before `before`, at most `limit`, and their origins; return how many."""
    columns = upload_tokens.c
    old = select(columns.tenant_id, columns.token_id).where(columns.expires_at < before).limit(limit)
    owned = [(row.tenant_id, row.token_id) for row in (await connection.execute(old)).all()]
    if owned:
        is_theirs = tuple_(cors_origins.c.tenant_id, cors_origins.c.token_id).in_(owned)
        await connection.execute(delete(cors_origins).where(is_theirs))
        await connection.execute(delete(upload_tokens).where(*rows_of(upload_tokens, owned)))
    return len(owned)


def _value(row: Fields) -> UploadToken:
    fields = {name: value for name, value in row.items() if name in UploadToken.__slots__}
    lists = {name: tuple(fields[name]) for name in ("allowed_extensions", "allowed_origins", "methods")}
    return UploadToken(**fields | lists)
