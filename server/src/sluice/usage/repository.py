"""All queries of usage: sums by day, context and kind, and the deltas that are not yet added to them.

Triggers write a delta in the transaction that stores a file, logs a rejection or hands out a link, as `db.counts` has
it for lists. So every number is exact whatever crashes, and no upload waits for another's sum.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import (
    and_,
    exists,
    func,
    insert,
    or_,
    select,
    union_all,
)

from sluice.db.deltas import Deltas, add_up
from sluice.db.schema import contexts, files, jobs, plan_usage, tenants, usage_days, usage_deltas, webhook_endpoints
from sluice.db.sql import AnyRow, Connection, load_now, month
from sluice.usage.record import MOST_COUNTED, Backlog, Grouping, UsageRow

UPLOAD: Final = "upload"
DOWNLOAD: Final = "download"
_REJECTED: Final = "rejected:"  # and the reason code
_KEY: Final = ("tenant_id", "day", "context_key", "kind")
_NUMBERS: Final = ("number", "bytes")
_DELTAS: Final = Deltas(usage_deltas, _KEY, _NUMBERS)
ANY_DELTA: Final = exists(select(usage_deltas.c.delta_id))


async def load(
    connection: Connection, tenant_id: str, first: str, last: str, grouping: Grouping | None
) -> tuple[UsageRow, ...]:
    """Return the usage from the day `first` to `last`, in the order of the groups; one row without `grouping`."""
    column = {"day": "day", "context": "context_key"}.get(grouping or "")
    both = union_all(
        *(
            select(table.c.day, table.c.context_key, table.c.kind, table.c.number, table.c.bytes).where(
                table.c.tenant_id == tenant_id, table.c.day.between(first, last)
            )
            for table in (usage_days, usage_deltas)
        )
    ).subquery()
    groups = [both.c.kind] if column is None else [both.c[column], both.c.kind]
    sums = (func.sum(both.c.number).label("number"), func.sum(both.c.bytes).label("bytes"))
    rows = (await connection.execute(select(*groups, *sums).group_by(*groups))).all()
    found: dict[str, list[AnyRow]] = defaultdict(list)
    for row in rows:
        found["" if column is None else getattr(row, column)].append(row)
    if column is None:
        found.setdefault("", [])
    return tuple(_usage(key, found[key]) for key in sorted(found))


async def add_uploads(connection: Connection, tenant_id: str, day: str, context_key: str, number: int) -> None:
    """Add uploads of a day that have no file: those that a demo writes into the past."""
    row = {"tenant_id": tenant_id, "day": day, "context_key": context_key, "kind": UPLOAD, "number": number, "bytes": 0}
    await connection.execute(insert(usage_deltas).values(row))


async def fold(connection: Connection, limit: int) -> int:
    """Move the oldest deltas, at most `limit`, into the sums; return how many. Any number of workers may."""
    deltas = await _DELTAS.take(connection, limit)
    found = sorted(deltas, key=lambda delta: tuple(getattr(delta, name) for name in _KEY))
    if found:
        rows = [{name: getattr(delta, name) for name in (*_KEY, *_NUMBERS)} for delta in found]
        await add_up(connection, usage_days, _NUMBERS, rows)
    return sum(delta.deltas for delta in deltas)


async def load_plan(connection: Connection, tenant_id: str) -> Mapping[str, Any] | None:
    """Return the tenant's plan and what is used of each limit, with the present moment; None without such a tenant."""
    uploads = select(plan_usage.c.uploads).where(
        and_(plan_usage.c.tenant_id == tenant_id, plan_usage.c.month == month())
    )
    stored = select(func.sum(contexts.c.storage_used_bytes)).where(contexts.c.tenant_id == tenant_id)
    endpoints = select(func.count(webhook_endpoints.c.endpoint_id)).where(webhook_endpoints.c.tenant_id == tenant_id)
    active = select(func.count(jobs.c.job_id)).where(
        jobs.c.tenant_id == tenant_id, jobs.c.state.in_(("waiting", "running"))
    )
    query = select(
        tenants.c.plan,
        func.coalesce(uploads.scalar_subquery(), 0).label("uploads_per_month"),
        func.coalesce(stored.scalar_subquery(), 0).label("storage_bytes"),
        endpoints.scalar_subquery().label("webhook_endpoints"),
        active.scalar_subquery().label("active_jobs"),
    ).where(tenants.c.tenant_id == tenant_id)
    row = (await connection.execute(query)).mappings().one_or_none()
    return None if row is None else {**row, "now": await load_now(connection)}


async def load_backlog(connection: Connection, tenant_id: str) -> Backlog:
    """Return what waits for an action in the tenant."""
    waiting = (
        select(files.c.file_id).where(
            files.c.tenant_id == tenant_id, files.c.state == "stored", files.c.quarantined_at.is_not(None)
        ),
        select(webhook_endpoints.c.endpoint_id).where(
            webhook_endpoints.c.tenant_id == tenant_id,
            or_(
                webhook_endpoints.c.disabled_reason.is_not(None),
                and_(webhook_endpoints.c.status == "active", webhook_endpoints.c.failing_since.is_not(None)),
            ),
        ),
        select(jobs.c.job_id).where(jobs.c.tenant_id == tenant_id, jobs.c.state.in_(("waiting", "running"))),
    )
    bounded = [query.limit(MOST_COUNTED).subquery() for query in waiting]
    numbers = [select(func.count()).select_from(each).scalar_subquery() for each in bounded]
    return Backlog(*(await connection.execute(select(*numbers))).one())


def _usage(key: str, rows: list[AnyRow]) -> UsageRow:
    numbers = {row.kind: int(row.number) for row in rows}
    rejections = {kind.removeprefix(_REJECTED): numbers[kind] for kind in sorted(numbers) if kind.startswith(_REJECTED)}
    stored = sum(int(row.bytes) for row in rows if row.kind == UPLOAD)
    return UsageRow(
        key,
        numbers.get(UPLOAD, 0),
        stored,
        numbers.get(DOWNLOAD, 0),
        rejections,
        numbers.get("quarantined", 0),
        numbers.get("undecided", 0),
    )
