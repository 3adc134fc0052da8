"""All queries of idempotency keys; what a query means is decided in `uploads.idempotency`."""

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import ColumnElement, and_, delete, select, tuple_, update

from sluice.db.database import Database
from sluice.db.schema import files, idempotency_keys
from sluice.db.sql import Connection, now, now_plus
from sluice.db.statement import Statement
from sluice.idempotency_keys.key_claim import EarlierUpload, KeyClaim

_KEPT: Final = timedelta(hours=24)
_COLUMNS: Final = idempotency_keys.c


_INSERT: Final = """
INSERT INTO idempotency_keys (tenant_id, key_hash, fingerprint, report_id, lease_until, expires_at)
VALUES (:tenant_id, :key_hash, :fingerprint, :report_id, {lease_until}, {expires_at})
ON CONFLICT (tenant_id, key_hash) DO NOTHING
RETURNING key_hash
"""
_ADD: Final = Statement(
    postgres=_INSERT.format(
        lease_until="clock_timestamp() + :lease_seconds::float8 * interval '1 second'",
        expires_at="clock_timestamp() + :kept_seconds::float8 * interval '1 second'",
    ),
    sqlite=[
        _INSERT.format(
            lease_until="strftime('%Y-%m-%d %H:%M:%f000', 'now', :lease_seconds || ' seconds')",
            expires_at="strftime('%Y-%m-%d %H:%M:%f000', 'now', :kept_seconds || ' seconds')",
        )
    ],
)


async def add(database: Database, claim: KeyClaim) -> bool:
    """Insert the row of a key, in a transaction of its own; return False if there is one."""
    values = {
        "tenant_id": claim.tenant_id,
        "key_hash": claim.key_hash,
        "fingerprint": claim.fingerprint,
        "report_id": claim.report_id,
        "lease_seconds": claim.lease.total_seconds(),
        "kept_seconds": _KEPT.total_seconds(),
    }
    return await database.commit(_ADD, values) is not None


async def is_known(connection: Connection, tenant_id: str, key_hash: str) -> bool:
    """Return whether an upload had the key, and the key is still kept."""
    known = (_COLUMNS.tenant_id == tenant_id, _COLUMNS.key_hash == key_hash, _COLUMNS.expires_at > now())
    return (await connection.execute(select(_COLUMNS.key_hash).where(*known))).one_or_none() is not None


async def lock(connection: Connection, claim: KeyClaim) -> EarlierUpload | None:
    """Return the upload that has the key, and keep others from changing the row until the transaction ends."""
    query = (
        select(
            _COLUMNS.fingerprint,
            _COLUMNS.report_id,
            _COLUMNS.lease_until.is_not(None) & (_COLUMNS.lease_until > now()),
            _COLUMNS.expires_at <= now(),
            files.c.state,
        )
        .outerjoin(files, and_(files.c.tenant_id == _COLUMNS.tenant_id, files.c.file_id == _COLUMNS.file_id))
        .where(_COLUMNS.tenant_id == claim.tenant_id, _COLUMNS.key_hash == claim.key_hash)
        .with_for_update(of=idempotency_keys)
    )
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else EarlierUpload(*row)


async def take_over(connection: Connection, claim: KeyClaim) -> None:
    """Give the key, whose row is locked, to another upload."""
    statement = update(idempotency_keys).where(
        _COLUMNS.tenant_id == claim.tenant_id, _COLUMNS.key_hash == claim.key_hash
    )
    taken = {"fingerprint": claim.fingerprint, "report_id": claim.report_id, "file_id": None}
    moments = {"lease_until": now_plus(claim.lease), "expires_at": now_plus(_KEPT)}
    await connection.execute(statement.values(**taken, **moments))


async def hold(connection: Connection, claim: KeyClaim, file_id: str) -> bool:
    """Name the file that the transaction reserves; return False if another upload has the key now."""
    statement = update(idempotency_keys).where(*_is_held_by(claim))
    held = statement.values(file_id=file_id, lease_until=now_plus(claim.lease)).returning(_COLUMNS.key_hash)
    return (await connection.execute(held)).one_or_none() is not None


async def release(connection: Connection, claim: KeyClaim) -> None:
    """End the lease of an upload that failed; a no-op if another upload has the key now."""
    await connection.execute(update(idempotency_keys).where(*_is_held_by(claim)).values(lease_until=None))


async def delete_expired(connection: Connection, before: datetime, limit: int) -> int:
    """Delete keys that were to be kept until `before`, at most `limit`; return how many."""
    old = select(_COLUMNS.tenant_id, _COLUMNS.key_hash).where(_COLUMNS.expires_at < before).limit(limit)
    owned = [(row.tenant_id, row.key_hash) for row in (await connection.execute(old)).all()]
    if owned:
        is_old = tuple_(_COLUMNS.tenant_id, _COLUMNS.key_hash).in_(owned)
        # Once more by its age: it may have been taken over in between.
        await connection.execute(delete(idempotency_keys).where(is_old, _COLUMNS.expires_at < before))
    return len(owned)


def _is_held_by(claim: KeyClaim) -> tuple[ColumnElement[bool], ...]:
    return (
        _COLUMNS.tenant_id == claim.tenant_id,
        _COLUMNS.key_hash == claim.key_hash,
        _COLUMNS.report_id == claim.report_id,
    )
