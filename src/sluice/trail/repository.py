"""All queries of the audit trail: it is added to and read, and forgotten by age. Nothing changes an entry; the database refuses that."""

from datetime import datetime

from sqlalchemy import delete, insert, select

from sluice.db import counts
from sluice.db.pages import rows_of_page
from sluice.db.schema import audit_events
from sluice.db.types import AnyRow, Connection
from sluice.kit.failpoints import reach
from sluice.kit.paging import Page, PageRequest
from sluice.trail.event import Deed, Event


async def add(connection: Connection, event: Event) -> None:
    """Insert one entry."""
    await connection.execute(insert(audit_events).values({name: getattr(event, name) for name in Event.__slots__}))


async def note(connection: Connection, deed: Deed, target: str, at: datetime) -> None:
    """Insert that `deed` was done to `target`, in the transaction that does it: after a crash both are there or neither is."""
    await add(connection, deed.event(target, at))
    reach("deed.noted")


async def list_page(
    connection: Connection, tenant_id: str, actor_id: str | None, action: str | None, request: PageRequest
) -> Page[Event]:
    """Answer one page, newest first."""
    wanted = [audit_events.c.tenant_id == tenant_id]
    if actor_id is not None:
        wanted.append(audit_events.c.actor_id == actor_id)
    if action is not None:
        wanted.append(audit_events.c.action == action)
    total = await counts.total(connection, tenant_id, "audit_events", actor_id, action)
    rows = await rows_of_page(connection, list(audit_events.c), wanted, request, total)
    return Page(tuple(_value(row) for row in rows), request, total)


async def forget(connection: Connection, before: datetime, most: int) -> int:
    """Remove the oldest entries made before `before`, at most `most`; answer how many."""
    old = select(audit_events.c.event_id).where(audit_events.c.created_at < before).limit(most)
    statement = delete(audit_events).where(audit_events.c.event_id.in_(old)).returning(audit_events.c.event_id)
    return len((await connection.execute(statement)).all())


def _value(row: AnyRow) -> Event:
    return Event(**row._mapping)  # noqa: SLF001  (SQLAlchemy's documented name)
