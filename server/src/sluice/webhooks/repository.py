"""All queries of webhook endpoints and deliveries; what a query means is decided in `service`.

An endpoint is delivered to by one worker at a time: the one that holds its lease. Each event has at most one delivery
to each endpoint.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Float, and_, bindparam, delete, exists, func, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from sluice.db.schema import event_counters, events, tenants, webhook_deliveries, webhook_endpoints
from sluice.db.sql import AnyRow, Connection, Fields, load_page, now, now_plus, rows_of
from sluice.events.record import StoredEvent
from sluice.kit.ids import first_id, new_id
from sluice.kit.paging import Page, PageRequest
from sluice.webhooks.endpoint import Delivery, Endpoint

_ENDPOINT = [webhook_endpoints.c[name] for name in Endpoint.__slots__]
_DELIVERY = [webhook_deliveries.c[name] for name in Delivery.__slots__]
_columns = webhook_deliveries.c
_IS_DUE = and_(_columns.state == "pending", _columns.due_at <= now())
_NOTED = (
    *("state", "attempts", "attempted_at", "response_status", "response_headers", "response_body", "error"),
    "duration_ms",
)
_AT_ONCE = {"state": "pending", "attempts": 0, "due_at": now()}


# --- Endpoints


async def lock_tenant(connection: Connection, tenant_id: str) -> None:
    """Hold the tenant's row until the transaction ends, so that its endpoints are counted and added together."""
    query = select(tenants.c.tenant_id).where(tenants.c.tenant_id == tenant_id)
    await connection.execute(query.with_for_update(key_share=True))  # new rows of the tenant do not wait


async def list_all(connection: Connection, tenant_id: str) -> Sequence[Endpoint]:
    """Return the tenant's endpoints, oldest first."""
    query = select(*_ENDPOINT).where(webhook_endpoints.c.tenant_id == tenant_id)
    rows = (await connection.execute(query.order_by(webhook_endpoints.c.endpoint_id))).mappings().all()
    return [_endpoint(row) for row in rows]


async def find(connection: Connection, tenant_id: str, endpoint_id: str) -> Endpoint | None:
    """Return one endpoint, or None."""
    query = select(*_ENDPOINT).where(*_is_endpoint(tenant_id, endpoint_id))
    row = (await connection.execute(query)).mappings().one_or_none()
    return None if row is None else _endpoint(row)


async def add(connection: Connection, endpoint: Endpoint) -> None:
    """Insert one endpoint."""
    row = {name: getattr(endpoint, name) for name in Endpoint.__slots__}
    lists = {name: list(row[name]) for name in ("event_types", "context_keys")}
    await connection.execute(insert(webhook_endpoints).values(row | lists))


async def change(
    connection: Connection, tenant_id: str, endpoint_id: str, values: Mapping[str, Any]
) -> Endpoint | None:
    """Write `values` and return the changed endpoint, or None."""
    statement = update(webhook_endpoints).where(*_is_endpoint(tenant_id, endpoint_id)).values(**values)
    row = (await connection.execute(statement.returning(*_ENDPOINT))).mappings().one_or_none()
    return None if row is None else _endpoint(row)


async def remove(connection: Connection, tenant_id: str, endpoint_id: str) -> bool:
    """Delete one endpoint; return whether it was there. Its deliveries go with their age."""
    statement = delete(webhook_endpoints).where(*_is_endpoint(tenant_id, endpoint_id))
    found = await connection.execute(statement.returning(webhook_endpoints.c.endpoint_id))
    return found.one_or_none() is not None


async def list_of_all_tenants(connection: Connection, after: str, limit: int) -> Sequence[Endpoint]:
    """Return endpoints of all tenants by id, those after `after`, for the rotation of the keys that seal secrets."""
    query = select(*_ENDPOINT).where(webhook_endpoints.c.endpoint_id > after)
    rows = (await connection.execute(query.order_by(webhook_endpoints.c.endpoint_id).limit(limit))).mappings().all()
    return [_endpoint(row) for row in rows]


# --- Deliveries, as the API shows them


async def list_deliveries(
    connection: Connection, tenant_id: str, endpoint_id: str, state: str | None, request: PageRequest
) -> Page[Delivery]:
    """Return one page of an endpoint's deliveries, newest first, of all or those in a state."""
    wanted: list[ColumnElement[bool]] = [_columns.endpoint_id == endpoint_id]
    if state is not None:
        wanted.append(_columns.state == state)
    counted = select(func.count()).select_from(webhook_deliveries).where(_columns.tenant_id == tenant_id, *wanted)
    total = int((await connection.execute(counted)).scalar_one())
    rows = await load_page(connection, tenant_id, _DELIVERY, wanted, request, total=total)
    return Page(tuple(_delivery(row) for row in rows), request, total)


async def redeliver(connection: Connection, tenant_id: str, delivery_id: str) -> Delivery | None:
    """Restart a delivery, and return it; None if its endpoint or its event is gone."""
    has_endpoint = exists().where(
        webhook_endpoints.c.tenant_id == tenant_id, webhook_endpoints.c.endpoint_id == _columns.endpoint_id
    )
    has_event = exists().where(events.c.tenant_id == tenant_id, events.c.event_id == _columns.event_id)
    statement = (
        update(webhook_deliveries)
        .where(_columns.tenant_id == tenant_id, _columns.delivery_id == delivery_id, has_endpoint, has_event)
        .values(**_AT_ONCE)
        .returning(*_DELIVERY)
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _delivery(row)


async def events_between(
    connection: Connection, tenant_id: str, between: tuple[datetime, datetime], after: int, limit: int
) -> Sequence[StoredEvent]:
    """Return events written from the first moment until before the second, numbered above `after`, in order."""
    columns = events.c
    query = select(*(columns[name] for name in StoredEvent.__slots__)).where(
        columns.tenant_id == tenant_id,
        columns.sequence > after,
        columns.event_id >= first_id("evt", between[0]),
        columns.event_id < first_id("evt", between[1]),
    )
    rows = (await connection.execute(query.order_by(columns.sequence).limit(limit))).all()
    return [StoredEvent(**row._mapping) for row in rows]  # noqa: SLF001  (SQLAlchemy's documented name)


# --- What the worker does


async def find_endpoints_with_work(connection: Connection, limit: int) -> Sequence[tuple[str, str]]:
    """Return tenant and id of active endpoints without a lease that have something to send.

    The first endpoint of each tenant comes first, then the second of each, and so on; endpoints of one tenant, and of
    one position, are ordered by when they were last served.
    """
    columns = webhook_endpoints.c
    has_due = exists().where(
        _columns.tenant_id == columns.tenant_id, _columns.endpoint_id == columns.endpoint_id, _IS_DUE
    )
    order = (columns.lease_until.asc().nulls_first(), columns.endpoint_id)
    place = func.row_number().over(partition_by=columns.tenant_id, order_by=order)
    query = (
        select(columns.tenant_id, columns.endpoint_id)
        .outerjoin(event_counters, event_counters.c.tenant_id == columns.tenant_id)
        .where(
            columns.status == "active",
            or_(columns.lease_until.is_(None), columns.lease_until <= now()),
            or_(event_counters.c.last_sequence > columns.sequence, has_due),
        )
        .order_by(place, *order)
        .limit(limit)
    )
    return [(row.tenant_id, row.endpoint_id) for row in (await connection.execute(query)).all()]


async def claim(connection: Connection, tenant_id: str, endpoint_id: str, lease: timedelta) -> Endpoint | None:
    """Take the lease of an active endpoint, and return it; None if another worker has it."""
    columns = webhook_endpoints.c
    statement = (
        update(webhook_endpoints)
        .where(
            *_is_endpoint(tenant_id, endpoint_id),
            columns.status == "active",
            or_(columns.lease_until.is_(None), columns.lease_until <= now()),
        )
        .values(lease_until=now_plus(lease))
        .returning(*_ENDPOINT)
    )
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else _endpoint(row)


async def renew(connection: Connection, endpoint: Endpoint, lease: timedelta) -> bool:
    """Extend a lease; return False if the endpoint was changed, disabled or deleted meanwhile."""
    columns = webhook_endpoints.c
    statement = (
        update(webhook_endpoints)
        .where(
            *_is_endpoint(endpoint.tenant_id, endpoint.endpoint_id),
            columns.status == "active",
            columns.updated_at.is_not_distinct_from(endpoint.updated_at),
        )
        .values(lease_until=now_plus(lease))
        .returning(columns.endpoint_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def release(connection: Connection, tenant_id: str, endpoint_id: str) -> None:
    """End a lease now; its end tells when the endpoint was last served."""
    statement = update(webhook_endpoints).where(*_is_endpoint(tenant_id, endpoint_id)).values(lease_until=now())
    await connection.execute(statement)


async def add_deliveries(
    connection: Connection, endpoint: Endpoint, sent: Sequence[StoredEvent], *, again: bool = False
) -> int:
    """Insert a delivery of each event, and return how many are to be made.

    An event that has one keeps it; with `again`, a failed one is restarted.
    """
    if not sent:
        return 0
    upsert = (sqlite_insert if connection.dialect.name == "sqlite" else postgres_insert)(webhook_deliveries)
    rows = [
        {
            "delivery_id": new_id("dlv"),
            "tenant_id": endpoint.tenant_id,
            "endpoint_id": endpoint.endpoint_id,
            "event_id": event.event_id,
            "event_type": event.type,
            "created_at": event.created_at,
        }
        for event in sent
    ]
    statement = upsert.values([row | _AT_ONCE for row in rows])
    keys = ["endpoint_id", "event_id"]
    if again:
        statement = statement.on_conflict_do_update(
            index_elements=keys,
            set_=_AT_ONCE,
            where=and_(_columns.tenant_id == endpoint.tenant_id, _columns.state == "failed"),
        )
    else:
        statement = statement.on_conflict_do_nothing(index_elements=keys)
    return len((await connection.execute(statement.returning(_columns.delivery_id))).all())


async def move_on(connection: Connection, endpoint: Endpoint, sequence: int) -> None:
    """Note that all events up to a number have their deliveries."""
    statement = update(webhook_endpoints).where(*_is_endpoint(endpoint.tenant_id, endpoint.endpoint_id))
    await connection.execute(statement.values(sequence=sequence))


async def due_deliveries(
    connection: Connection, endpoint: Endpoint, limit: int
) -> Sequence[tuple[Delivery, StoredEvent]]:
    """Return what is due to an endpoint with its events, longest due first. Events of 30 days ago are gone."""
    columns = [events.c[name].label(f"event_{name}") for name in StoredEvent.__slots__ if name != "event_id"]
    query = (
        select(*_DELIVERY, *(column.label(f"of_{column.name}") for column in columns))
        .join(events, and_(events.c.tenant_id == endpoint.tenant_id, events.c.event_id == _columns.event_id))
        .where(_columns.tenant_id == endpoint.tenant_id, _columns.endpoint_id == endpoint.endpoint_id, _IS_DUE)
        .order_by(_columns.due_at, _columns.delivery_id)
        .limit(limit)
    )
    return [(_delivery(row), _sent_event(row)) for row in (await connection.execute(query)).all()]


async def note_attempts(connection: Connection, tenant_id: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the results of attempts, in one batch: each row has the columns, and `wait_seconds` before the next one.

    None: there is no next one.
    """
    named: dict[str, Any] = {name: bindparam(f"new_{name}") for name in _NOTED}
    statement = (
        update(webhook_deliveries)
        .where(_columns.tenant_id == tenant_id, _columns.delivery_id == bindparam("its_id"))
        .values(**named, due_at=now_plus(bindparam("wait_seconds", type_=Float)))
    )
    values = [
        {f"new_{name}": row[name] for name in _NOTED}
        | {"its_id": row["delivery_id"], "wait_seconds": row["wait_seconds"]}
        for row in rows
    ]
    await connection.execute(statement, values)


async def note_health(connection: Connection, endpoint: Endpoint, failing_since: datetime | None) -> None:
    """Write since when all deliveries to an endpoint fail; None: the last one did not."""
    statement = update(webhook_endpoints).where(*_is_endpoint(endpoint.tenant_id, endpoint.endpoint_id))
    await connection.execute(statement.values(failing_since=failing_since))


async def disable(connection: Connection, endpoint: Endpoint, reason: str, at: datetime) -> bool:
    """Disable an active endpoint; return whether it was active."""
    statement = (
        update(webhook_endpoints)
        .where(*_is_endpoint(endpoint.tenant_id, endpoint.endpoint_id), webhook_endpoints.c.status == "active")
        .values(status="disabled", disabled_reason=reason, updated_at=at, lease_until=None)
        .returning(webhook_endpoints.c.endpoint_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def delete_old_deliveries(connection: Connection, before: datetime, limit: int) -> int:
    """Delete deliveries that were made before `before`, at most `limit`; return how many."""
    old = select(_columns.tenant_id, _columns.delivery_id).where(_columns.delivery_id < first_id("dlv", before))
    found = (await connection.execute(old.order_by(_columns.delivery_id).limit(limit))).all()
    owned = [(row.tenant_id, row.delivery_id) for row in found]
    statement = delete(webhook_deliveries).where(*rows_of(webhook_deliveries, owned)).returning(_columns.delivery_id)
    return len((await connection.execute(statement)).all()) if owned else 0


def _is_endpoint(tenant_id: str, endpoint_id: str) -> tuple[ColumnElement[bool], ...]:
    return webhook_endpoints.c.tenant_id == tenant_id, webhook_endpoints.c.endpoint_id == endpoint_id


def _endpoint(row: Fields) -> Endpoint:
    lists: dict[str, Collection[str]] = {name: tuple(row[name]) for name in ("event_types", "context_keys")}
    return Endpoint(**{name: row[name] for name in Endpoint.__slots__} | lists)


def _delivery(row: AnyRow) -> Delivery:
    return Delivery(**{name: getattr(row, name) for name in Delivery.__slots__})


def _sent_event(row: AnyRow) -> StoredEvent:
    named = {name: getattr(row, f"of_event_{name}") for name in StoredEvent.__slots__ if name != "event_id"}
    return StoredEvent(event_id=row.event_id, **named)
