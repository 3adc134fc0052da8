"""Queries of the worker over several nouns: which jobs have work, and events that no request causes, of limits that
were crossed, keys that expire soon, buckets that fail.

What was announced last is kept in `event_levels`, and written in the transaction of the event.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Exists,
    Integer,
    and_,
    case,
    cast,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from sluice.db import counts
from sluice.db.schema import (
    api_keys,
    bucket_outages,
    contexts,
    decisions,
    event_levels,
    plan_usage,
    tenants,
)
from sluice.db.sql import AnyRow, Connection, month, now, now_plus
from sluice.events import repository as event_rows
from sluice.files import repository as file_rows
from sluice.hash_lists import repository as hash_rows
from sluice.jobs import repository as job_rows
from sluice.kit.ids import first_id
from sluice.resumable import repository as resumable_rows
from sluice.usage import repository as usage_rows

SubjectType = Literal["quota", "plan", "key"]
_BYTES_PER_MB = 1_048_576
_IS_OUTAGE_DUE = bucket_outages.c.check_at <= now()
# By the name of the job: whether it has a row to work on.
_DUE: Final[Mapping[str, Exists]] = {
    "fence_expired_leases": file_rows.ANY_EXPIRED_LEASE,
    "expire_test_files": file_rows.ANY_EXPIRED_TEST_FILE,
    "expire_by_retention": file_rows.ANY_DUE_RETENTION,
    "purge_objects": file_rows.ANY_DUE_PURGE,
    "end_resumable_uploads": resumable_rows.ANY_DUE,
    "sweep_exports": job_rows.ANY_EXPORT_TO_SWEEP,
    "delete_expired_hashes": hash_rows.ANY_EXPIRED,
    "fold_counts": counts.ANY_DELTA,
    "fold_usage": usage_rows.ANY_DELTA,
    "watch_buckets": exists().where(_IS_OUTAGE_DUE),
    "number_events": event_rows.ANY_UNNUMBERED,
}
FOUND_BY_ROWS: Final = frozenset(_DUE)
"""The jobs that `find_due` finds."""
_FIND_DUE: Final = select(*(is_due.label(name) for name, is_due in _DUE.items()))


@dataclass(frozen=True, slots=True)
class Announcement:
    """The subject of an announcement: a context's quota, a month of a plan, or a key."""

    tenant_id: str
    subject_type: SubjectType
    subject_id: str


async def find_due(connection: Connection) -> frozenset[str]:
    """Return the names of the jobs that have a row to work on."""
    found = (await connection.execute(_FIND_DUE)).one()
    return frozenset(name for name, is_due in zip(_DUE, found, strict=True) if is_due)


async def find_changed_quotas(connection: Connection, refused_since: datetime, limit: int) -> Sequence[AnyRow]:
    """Return contexts whose quota is used to another level than was announced, with `level` and `announced`.

    A quota is used to 100 % also if it is to 95 %, and an upload was refused for it since `refused_since`.
    """
    columns = contexts.c
    used, quota = columns.storage_used_bytes, cast(columns.storage_quota_mb, BigInteger) * _BYTES_PER_MB
    was_refused = exists().where(
        decisions.c.tenant_id == columns.tenant_id,
        decisions.c.reason == "storage_quota_exceeded",
        decisions.c.report_id >= first_id("rep", refused_since),
        decisions.c.context_key == columns.context_key,
    )
    level = case(
        (quota.is_(None), 0),
        (used >= quota, 100),
        (and_(used * 100 >= quota * 95, was_refused), 100),
        (used * 100 >= quota * 95, 95),
        (used * 100 >= quota * 80, 80),
        else_=0,
    )
    announced = _announced("quota", columns.tenant_id, columns.context_id)
    query = select(
        columns.tenant_id,
        columns.context_id,
        columns.context_key,
        columns.storage_used_bytes,
        quota.label("quota_bytes"),
        level.label("level"),
        announced.label("announced"),
    ).where(or_(columns.storage_quota_mb.is_not(None), announced > 0), level != announced)
    return (await connection.execute(query.limit(limit))).all()


async def find_changed_plans(connection: Connection, uploads_per_month: int, limit: int) -> Sequence[AnyRow]:
    """Return the tenants of the free plan that use it this month to another level than was announced."""
    columns = plan_usage.c
    level = case(
        (columns.uploads >= uploads_per_month, 100), (columns.uploads * 100 >= uploads_per_month * 80, 80), else_=0
    )
    announced = _announced("plan", columns.tenant_id, columns.month)
    query = (
        select(
            columns.tenant_id,
            columns.month,
            columns.uploads,
            level.label("level"),
            announced.label("announced"),
        )
        .join(tenants, tenants.c.tenant_id == columns.tenant_id)
        .where(tenants.c.plan == "free", columns.month == month(), level != announced)
    )
    return (await connection.execute(query.limit(limit))).all()


async def find_expiring_keys(connection: Connection, within: timedelta, limit: int) -> Sequence[AnyRow]:
    """Return active keys that expire soon and were not announced."""
    columns = api_keys.c
    query = select(
        columns.tenant_id, columns.api_key_id, columns.name, columns.key_prefix, columns.scopes, columns.expires_at
    ).where(
        columns.status == "active",
        columns.expires_at > now(),
        columns.expires_at <= now_plus(within),
        _announced("key", columns.tenant_id, columns.api_key_id) == 0,
    )
    return (await connection.execute(query.limit(limit))).all()


async def announce(connection: Connection, subject: Announcement, announced: int, level: int) -> bool:
    """Write that a level is announced; return False if another worker did so first."""
    upsert = (sqlite_insert if connection.dialect.name == "sqlite" else postgres_insert)(event_levels)
    named = {"tenant_id": subject.tenant_id, "subject_type": subject.subject_type, "subject_id": subject.subject_id}
    statement = upsert.values(**named, level=level).on_conflict_do_update(
        index_elements=list(named),
        set_={"level": level},
        where=and_(event_levels.c.tenant_id == subject.tenant_id, event_levels.c.level == announced),
    )
    return (await connection.execute(statement.returning(event_levels.c.level))).one_or_none() is not None


async def claim_outages(connection: Connection, again_after: timedelta, limit: int) -> Sequence[AnyRow]:
    """Claim buckets that failed and are due to be tried, with how long they have failed and worked, in seconds."""
    columns = bucket_outages.c
    due = select(columns.tenant_id, columns.config_id).where(_IS_OUTAGE_DUE).limit(limit)
    found = (await connection.execute(due.with_for_update(skip_locked=True))).all()
    claimed = []
    for row in found:
        statement = (
            update(bucket_outages)
            .where(columns.tenant_id == row.tenant_id, columns.config_id == row.config_id)
            .values(check_at=now_plus(again_after))
        )
        claimed.append((await connection.execute(statement.returning(*columns))).one())
    return claimed


async def change_outage(
    connection: Connection, tenant_id: str, config_id: str, values: dict[str, datetime | None]
) -> bool:
    """Write what is known of a bucket that failed; return whether it is still listed."""
    columns = bucket_outages.c
    statement = update(bucket_outages).where(columns.tenant_id == tenant_id, columns.config_id == config_id)
    return (await connection.execute(statement.values(**values).returning(columns.config_id))).one_or_none() is not None


async def end_outage(connection: Connection, tenant_id: str, config_id: str) -> bool:
    """Forget that a bucket failed; return whether it was listed."""
    columns = bucket_outages.c
    statement = delete(bucket_outages).where(columns.tenant_id == tenant_id, columns.config_id == config_id)
    return (await connection.execute(statement.returning(columns.config_id))).one_or_none() is not None


def _announced(kind: SubjectType, tenant_id: ColumnElement[str], subject_id: ColumnElement[str]) -> ColumnElement[int]:
    found = select(event_levels.c.level).where(
        event_levels.c.tenant_id == tenant_id,
        event_levels.c.subject_type == kind,
        event_levels.c.subject_id == subject_id,
    )
    return func.coalesce(found.scalar_subquery(), literal(0, Integer))
