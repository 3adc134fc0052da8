"""All queries of the audit log. Entries are appended, read, and deleted by age; the database refuses to change one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, bindparam, delete, func, insert, select

from sluice.audit.entry import AuditAction, AuditChange, AuditEntry, AuditFilter, shown_target
from sluice.db import counts
from sluice.db.schema import audit_changes, audit_events
from sluice.db.sql import AnyRow, Connection, elements, load_page, load_slice, rows_of
from sluice.kit.failpoints import failpoint
from sluice.kit.ids import first_id, new_id
from sluice.kit.paging import Page, PageRequest, Slice, SliceRequest

MOST_LISTED: Final = 10_000  # what a total counts to where no sum is kept
MOST_COMPARED: Final = 10_000  # entries, the newest ones, whose outcome and reason are compared

# Entries that differ in their id and their target alone: one statement adds them three times as fast as one for each.
_ALIKE: Final = [name for name in AuditEntry.__slots__ if name not in {"event_id", "target"}]
_DONE_TO: Final = elements("done_to").c.value
_APPEND_ALL: Final = insert(audit_events).from_select(
    ["event_id", "target", *_ALIKE],
    select(
        _DONE_TO[0].as_string(),
        _DONE_TO[1].as_string(),
        *(bindparam(f"its_{name}", type_=audit_events.c[name].type) for name in _ALIKE),
    ),
)


async def add(connection: Connection, entry: AuditEntry) -> None:
    """Insert one entry."""
    await connection.execute(insert(audit_events).values({name: getattr(entry, name) for name in AuditEntry.__slots__}))


async def append(connection: Connection, by: AuditAction, target: str, at: datetime, reason: str | None = None) -> str:
    """Insert that `by` was done to `target`, in the transaction that does it: after a crash both are there, or
    neither. Return the id of the entry.
    """
    entry = by.entry(target, at, reason=reason)
    await add(connection, entry)
    failpoint("audit.appended")
    return entry.event_id


async def add_change(
    connection: Connection, tenant_id: str, event_id: str, target: str, fields: Mapping[str, tuple[Any, Any]]
) -> None:
    """Insert the old and the new value of each field that an appended entry is about. They must hold no secret."""
    row = {"tenant_id": tenant_id, "event_id": event_id, "target": target}
    await connection.execute(
        insert(audit_changes).values(row | {"changes": {name: list(fields[name]) for name in fields}})
    )


async def list_changes(
    connection: Connection, tenant_id: str, target: str, actions: Sequence[str], limit: int
) -> Sequence[AuditChange]:
    """Return what was done last to `target`, of these actions, newest first."""
    changed, event = audit_changes.c, audit_events.c
    query = (
        select(
            event.event_id,
            event.actor_id,
            event.actor_name,
            event.action,
            event.created_at,
            event.reason,
            changed.changes,
        )
        .join_from(audit_changes, audit_events, event.event_id == changed.event_id)
        .where(
            changed.tenant_id == tenant_id,
            changed.target == target,
            event.tenant_id == tenant_id,
            event.action.in_(actions),
        )
        .order_by(changed.event_id.desc())
        .limit(limit)
    )
    rows = (await connection.execute(query)).all()
    return [
        AuditChange(*row[:-1], fields={name: (before, after) for name, (before, after) in row.changes.items()})
        for row in rows
    ]


async def append_all(connection: Connection, by: AuditAction, targets: Sequence[str], at: datetime) -> None:
    """Insert that `by` was done to several targets, as `append` does; none is no error."""
    if targets:
        alike = by.entry(None, at)
        values = {f"its_{name}": getattr(alike, name) for name in _ALIKE}
        rows = [(new_id("aud"), shown_target(target)) for target in targets]
        await connection.execute(_APPEND_ALL, values | {"done_to": rows})
        failpoint("audit.appended")


async def list_page(
    connection: Connection, tenant_id: str, actor_id: str | None, action: str | None, request: PageRequest
) -> Page[AuditEntry]:
    """Return one page, newest first."""
    wanted: list[ColumnElement[bool]] = []
    if actor_id is not None:
        wanted.append(audit_events.c.actor_id == actor_id)
    if action is not None:
        wanted.append(audit_events.c.action == action)
    total = await counts.total(connection, tenant_id, "audit_events", actor_id, action)
    rows = await load_page(connection, tenant_id, list(audit_events.c), wanted, request, total=total)
    return Page(tuple(_value(row) for row in rows), request, total)


async def list_slice(
    connection: Connection, tenant_id: str, wanted: AuditFilter, request: SliceRequest
) -> Slice[AuditEntry]:
    """Return some entries that meet `wanted`, newest first."""
    found = await load_slice(connection, tenant_id, list(audit_events.c), _conditions(tenant_id, wanted), request)
    return Slice(tuple(_value(row) for row in found.items), found.has_newer, found.has_older)


async def count(connection: Connection, tenant_id: str, wanted: AuditFilter) -> int:
    """Return how many entries meet `wanted`: by actor and action all of them, otherwise counted to `MOST_LISTED`."""
    if wanted == AuditFilter(wanted.actor_id, wanted.action):
        return await counts.total(connection, tenant_id, "audit_events", wanted.actor_id, wanted.action)
    ids = select(audit_events.c.event_id).where(audit_events.c.tenant_id == tenant_id, *_conditions(tenant_id, wanted))
    counted = ids.limit(MOST_LISTED).subquery()
    return int((await connection.execute(select(func.count()).select_from(counted))).scalar_one())


def _conditions(tenant_id: str, wanted: AuditFilter) -> list[ColumnElement[bool]]:
    columns = audit_events.c
    conditions: list[ColumnElement[bool]] = []
    if wanted.actor_id is not None:
        conditions.append(columns.actor_id == wanted.actor_id)
    if wanted.action is not None:
        conditions.append(columns.action == wanted.action)
    if wanted.target is not None:
        conditions.append(columns.target == wanted.target)
    # By the id, which begins with its moment: so the indexes of the list serve the period too.
    if wanted.since is not None:
        conditions.append(columns.event_id >= first_id("aud", wanted.since))
    if wanted.before is not None:
        conditions.append(columns.event_id < first_id("aud", wanted.before))
    if wanted.outcome is not None or wanted.reason is not None:
        # They are in no index: only this many of the newest entries are read.
        ids = select(columns.event_id).where(columns.tenant_id == tenant_id, *conditions)
        newest = ids.order_by(columns.event_id.desc()).offset(MOST_COMPARED).limit(1).scalar_subquery()
        conditions.append(columns.event_id > func.coalesce(newest, ""))
    if wanted.outcome is not None:
        conditions.append(columns.outcome == wanted.outcome)
    if wanted.reason is not None:
        conditions.append(func.lower(columns.reason).contains(wanted.reason.lower(), autoescape=True))
    return conditions


async def forget(connection: Connection, before: datetime, most: int) -> int:
    """Delete the oldest entries made before `before`, at most `most`; return how many."""
    old = select(audit_events.c.tenant_id, audit_events.c.event_id).where(audit_events.c.created_at < before)
    owned = [(row.tenant_id, row.event_id) for row in (await connection.execute(old.limit(most))).all()]
    if owned:
        await connection.execute(delete(audit_changes).where(*rows_of(audit_changes, owned)))
    statement = delete(audit_events).where(*rows_of(audit_events, owned)).returning(audit_events.c.event_id)
    return len((await connection.execute(statement)).all()) if owned else 0


def _value(row: AnyRow) -> AuditEntry:
    return AuditEntry(**row._mapping)  # noqa: SLF001  (SQLAlchemy's documented name)
