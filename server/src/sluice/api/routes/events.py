"""The event feed: events in their order, as pages, with a long poll, or as server-sent events."""

import json
from collections.abc import AsyncIterator, Collection
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Self

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.responses import StreamingResponse

from sluice import errors
from sluice.access import ROUTE_SCOPES
from sluice.api.documented import SCOPED, responses
from sluice.api.parameters import DIGITS, Caller, Services
from sluice.api.route import GuardedRoute, authorize
from sluice.api.schemas.envelope import Envelope, ResponseBody
from sluice.db.database import DatabaseUnavailable
from sluice.errors import Invalid, SluiceError
from sluice.events.catalogue import TYPES, Event
from sluice.events.record import StoredEvent
from sluice.events.service import EventFeed

router = APIRouter(prefix="/api/v1/events", tags=["Events"], route_class=GuardedRoute)


class EventOut(ResponseBody):
    """One event, as the feed and webhooks send it."""

    id: str = Field(description="Id of the event; a delivery that is repeated has the same one.")
    type: str = Field(description="Type of the event; `docs/events.md` lists them.")
    timestamp: datetime = Field(description="When it happened, UTC.")
    api_version: str = Field(description="The version of `data`.")
    tenant_id: str
    sequence: int = Field(description="Counts the tenant's events in their order, without a gap.")
    data: dict[str, Any] = Field(description="What happened; each type has a schema of its own.")

    @classmethod
    def of(cls, event: StoredEvent) -> Self:
        """Return the event as it is sent."""
        return cls.model_validate(event.to_json())


_PARAMETERS: Final = frozenset({"after", "type", "limit", "wait"})
_STREAM: Final = "text/event-stream"
_STREAM_BATCH: Final = 100
# The longest silence of a stream; the caller's credential is checked again after each.
_STREAM_SECONDS: Final = 15.0
_EXAMPLE_IDS: Final = ("evt_01kah3z5wc7rm2v9x4t8n6b1qy", "ten_01kg8p1z7gebjvk4s6dq0rwx3m")
_EXAMPLE_MOMENT: Final = datetime(2026, 11, 20, 11, tzinfo=UTC)
_HEADERS: Final = {
    "webhook-id": "The event's id, the same for each attempt.",
    "webhook-timestamp": "When this attempt was sent, in seconds since 1970.",
    "webhook-signature": "`v1,` and the signature by Standard Webhooks, one for each secret.",
}
_STREAMED: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Events in their order; with `Accept: text/event-stream`, a stream of them that does not end.",
        "content": {_STREAM: {"schema": {"type": "string"}}},
    }
}


@router.get("", response_model=Envelope[list[EventOut]], responses=responses(*SCOPED, errors.Invalid) | _STREAMED)
async def list_events(
    request: Request,
    principal: Caller,
    services: Services,
    *,
    after: Annotated[str | None, Query(description="Only events after this one.")] = None,
    type: Annotated[  # noqa: A002  (the parameter's name)
        list[str] | None, Query(description="Only events of this type; may be repeated.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="Maximum number of events."), DIGITS] = 100,
    wait: Annotated[int, Query(ge=0, le=30, description="Seconds to wait for an event if there is none."), DIGITS] = 0,
) -> Envelope[list[EventOut]] | Response:
    """Read the tenant's events of the last 30 days in their order, from the oldest, or from the first after `after`.

    With `Accept: text/event-stream` they come as server-sent events, from the present on unless `Last-Event-ID` or
    `after` names an event.
    """
    unknown = sorted(request.query_params.keys() - _PARAMETERS)
    types = frozenset(type or ())
    problems = [f"{name}: unknown parameter" for name in unknown]
    problems += [f"type: no events are of the type {one[:100]!r}" for one in sorted(types - TYPES.keys())]
    if problems:
        raise Invalid(*problems)
    feed, tenant_id = services.events, principal.tenant_id
    if _STREAM in request.headers.get("accept", ""):
        last_id = request.headers.get("last-event-id") or after
        position = await (feed.last_position(tenant_id) if last_id is None else feed.position_of(tenant_id, last_id))
        feed.take_place(tenant_id)
        stream = _stream(request, feed, tenant_id, position, types)
        return StreamingResponse(stream, media_type=_STREAM, headers={"X-Accel-Buffering": "no"})
    position = 0 if after is None else await feed.position_of(tenant_id, after)
    found = await feed.read(tenant_id, position, types, limit)
    if not found and wait:
        feed.take_place(tenant_id)
        try:
            found = await feed.wait(tenant_id, position, types, limit, seconds=wait)
        finally:
            feed.leave_place(tenant_id)
    if wait:  # the credential may have ended meanwhile
        await authorize(request, ROUTE_SCOPES["GET", router.prefix], again=True)
    return Envelope(message="Events listed", data=[EventOut.of(event) for event in found])


async def _stream(
    request: Request, feed: EventFeed, tenant_id: str, position: int, types: Collection[str]
) -> AsyncIterator[str]:
    """Yield server-sent events until the service drains, the caller's credential ends, or the client leaves."""
    try:
        yield ": events follow\n\n"
        while not feed.is_draining:
            events = await feed.wait(tenant_id, position, types, _STREAM_BATCH, seconds=_STREAM_SECONDS)
            await authorize(request, ROUTE_SCOPES["GET", router.prefix], again=True)
            yield "".join(map(_server_sent, events)) or ": no event\n\n"
            if events:
                position = events[-1].sequence
    except (SluiceError, DatabaseUnavailable):
        return  # the response has begun, so the client can only learn of it by connecting again
    finally:
        feed.leave_place(tenant_id)


def _server_sent(event: StoredEvent) -> str:
    return f"id: {event.event_id}\nevent: {event.type}\ndata: {json.dumps(event.to_json())}\n\n"


def webhooks() -> dict[str, Any]:
    """Return the section `webhooks` of the OpenAPI document: what is sent for each type, with an example."""
    return {name: {"post": _operation(event)} for name, event in TYPES.items()}


def _operation(event: type[Event]) -> dict[str, Any]:
    example = StoredEvent(*_EXAMPLE_IDS, event.type, _EXAMPLE_MOMENT, event.example, 18233).to_json()
    properties = {"type": {"const": event.type}, "data": event.model_json_schema()}
    sent = {"allOf": [{"$ref": "#/components/schemas/EventOut"}, {"properties": properties}]}
    parameters = [
        {"name": name, "in": "header", "required": True, "schema": {"type": "string"}, "description": meaning}
        for name, meaning in _HEADERS.items()
    ]
    return {
        "summary": event.type,
        "description": " ".join((event.__doc__ or "").split()),
        "operationId": f"webhook_{event.type.replace('.', '_')}",
        "tags": ["Webhooks"],
        "security": [],
        "parameters": parameters,
        "requestBody": {"required": True, "content": {"application/json": {"schema": sent, "example": example}}},
        "responses": {"2XX": {"description": "The event was taken; every other response is a failure."}},
    }
