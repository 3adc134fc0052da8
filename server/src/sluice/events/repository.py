"""All queries of events but their writing, which is in `outbox`: numbering, reading in order, deleting by age.

An event has no number while its transaction is open. `number` gives numbers to committed ones only, under a lock of the
tenant's counter: so a reader that saw a number has seen all smaller ones (docs/decisions/0032).
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import BigInteger, ColumnElement, Integer, bindparam, delete, exists, func, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from sluice.db.schema import event_counters, events
from sluice.db.sql import AnyRow, Connection, rows_of
from sluice.events.record import StoredEvent
from sluice.kit.failpoints import failpoint
from sluice.kit.ids import first_id

_IS_UNNUMBERED = events.c.sequence.is_(None)
ANY_UNNUMBERED = exists().where(_IS_UNNUMBERED)
_SHOWN = [events.c[name] for name in StoredEvent.__slots__]
_IS_OWN = events.c.tenant_id == bindparam("its_tenant_id")
_IS_COUNTER = event_counters.c.tenant_id == bindparam("its_tenant_id")
_LAST = bindparam("its_last", type_=BigInteger)
_WAITING = (
    select(events.c.event_id)
    .where(_IS_OWN, _IS_UNNUMBERED)
    .order_by(events.c.event_id)
    .limit(bindparam("most", type_=Integer))
    .subquery()
)
_PLACE = select(_WAITING.c.event_id, func.row_number().over(order_by=_WAITING.c.event_id).label("number")).subquery(
    "places"
)
_NUMBER = update(events).where(_IS_OWN, events.c.event_id == _PLACE.c.event_id).values(sequence=_LAST + _PLACE.c.number)
_COUNT_ON = update(event_counters).where(_IS_COUNTER).values(last_sequence=_LAST)
_LOCK_COUNTER = select(event_counters.c.last_sequence).where(_IS_COUNTER).with_for_update()


async def next_unnumbered_tenant(connection: Connection, after: str) -> str | None:
    """Return the first tenant after `after`, in the order of ids, with events that have no number; None: no more."""
    query = select(func.min(events.c.tenant_id)).where(_IS_UNNUMBERED, events.c.tenant_id > after)
    found: str | None = (await connection.execute(query)).scalar_one()
    return found


async def has_unnumbered(connection: Connection, tenant_id: str) -> bool:
    """Return whether an event of the tenant has no number."""
    query = select(events.c.event_id).where(events.c.tenant_id == tenant_id, _IS_UNNUMBERED).limit(1)
    return (await connection.execute(query)).one_or_none() is not None


async def number(connection: Connection, tenant_id: str, limit: int) -> int:
    """Assign numbers to the tenant's committed events without one, oldest first, at most `limit`; return how many.

    The counter is locked until the transaction ends: numbers become visible in their order.
    """
    last = await _lock_counter(connection, tenant_id)
    values = {"its_tenant_id": tenant_id, "its_last": last, "most": limit}
    numbered = (await connection.execute(_NUMBER, values)).rowcount
    if numbered:
        await connection.execute(_COUNT_ON, {"its_tenant_id": tenant_id, "its_last": last + numbered})
        failpoint("events.numbered")
    return numbered


async def _lock_counter(connection: Connection, tenant_id: str) -> int:
    its = {"its_tenant_id": tenant_id}
    last: int | None = (await connection.execute(_LOCK_COUNTER, its)).scalar_one_or_none()
    if last is not None:
        return last
    upsert = (sqlite_insert if connection.dialect.name == "sqlite" else postgres_insert)(event_counters)
    first = upsert.values(tenant_id=tenant_id, last_sequence=0).on_conflict_do_nothing(index_elements=["tenant_id"])
    await connection.execute(first)
    locked: int = (await connection.execute(_LOCK_COUNTER, its)).scalar_one()
    return locked


async def last_sequence(connection: Connection, tenant_id: str) -> int:
    """Return the number of the tenant's last event, 0 if none has one."""
    query = select(event_counters.c.last_sequence).where(event_counters.c.tenant_id == tenant_id)
    return int((await connection.execute(query)).scalar_one_or_none() or 0)


async def find(connection: Connection, tenant_id: str, event_id: str) -> StoredEvent | None:
    """Return one numbered event, or None."""
    query = select(*_SHOWN).where(
        events.c.tenant_id == tenant_id, events.c.event_id == event_id, events.c.sequence.is_not(None)
    )
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _value(row)


async def list_after(
    connection: Connection, tenant_id: str, sequence: int, types: Collection[str], limit: int
) -> Sequence[StoredEvent]:
    """Return events with a number above `sequence`, in order, at most `limit`: those of `types`, or all if empty."""
    wanted: list[ColumnElement[bool]] = [events.c.tenant_id == tenant_id, events.c.sequence > sequence]
    if types:
        wanted.append(events.c.type.in_(sorted(types)))
    query = select(*_SHOWN).where(*wanted).order_by(events.c.sequence).limit(limit)
    return [_value(row) for row in (await connection.execute(query)).all()]


async def delete_old(connection: Connection, before: datetime, limit: int) -> int:
    """Delete events written before `before`, oldest first, at most `limit`; return how many."""
    old = select(events.c.tenant_id, events.c.event_id).where(
        events.c.event_id < first_id("evt", before), events.c.sequence.is_not(None)
    )
    found = (await connection.execute(old.order_by(events.c.event_id).limit(limit))).all()
    owned = [(row.tenant_id, row.event_id) for row in found]
    statement = delete(events).where(*rows_of(events, owned)).returning(events.c.event_id)
    return len((await connection.execute(statement)).all()) if owned else 0


def _value(row: AnyRow) -> StoredEvent:
    return StoredEvent(**row._mapping)  # noqa: SLF001  (SQLAlchemy's documented name)
