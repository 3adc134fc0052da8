"""The outbox: an event is a row that the transaction of the change writes, so both are committed or neither is.

Called by code that commits a change of a tenant's resources:

    async with database.transaction(tenant_id) as connection:
        ...                                                           # the change
        await outbox.add(connection, tenant_id, FileDeleted(...))     # its event

The statements of the upload path write the row themselves, from the values of `row_of`.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from sqlalchemy import bindparam, insert, select

from sluice.db.schema import events
from sluice.db.sql import Connection, elements
from sluice.events.catalogue import Event
from sluice.kit.clock import utc_now
from sluice.kit.failpoints import failpoint
from sluice.kit.ids import new_id

_HAPPENED: Final = elements("happened").c.value
_ADD: Final = insert(events).from_select(
    ["event_id", "tenant_id", "type", "data", "created_at"],
    select(
        *(_HAPPENED[place].as_string() for place in range(3)),
        _HAPPENED[3].as_json(),
        bindparam("moment", type_=events.c.created_at.type),
    ),
)


async def add(connection: Connection, tenant_id: str, event: Event, at: datetime | None = None) -> None:
    """Write one event of the tenant, which happened `at` (default: now)."""
    await add_all(connection, [(tenant_id, event)], at)


async def add_all(connection: Connection, happened: Iterable[tuple[str, Event]], at: datetime | None = None) -> None:
    """Write events, each with its tenant; none is no error."""
    rows = [(new_id("evt"), tenant_id, event.type, event.model_dump(mode="json")) for tenant_id, event in happened]
    if rows:
        await connection.execute(_ADD, {"happened": rows, "moment": at or utc_now()})
        failpoint("event.written")


def row_of(event: Event) -> dict[str, Any]:
    """Return the values of an event for a statement of the upload path; tenant and moment are those of the decision.

    `event_data` is JSON already.
    """
    return {"event_id": new_id("evt"), "event_type": event.type, "event_data": event.model_dump_json()}
