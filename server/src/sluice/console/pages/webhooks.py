"""Webhooks: the endpoints to which events are sent, their secrets, which are shown once, and the deliveries to them."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from pydantic import ValidationError
from starlette.responses import Response

from sluice.api.schemas.webhooks import CreateEndpoint, RecoverEvents, UpdateEndpoint
from sluice.console.pages.keys import page_request
from sluice.console.visit import Visit, problems_of, redirect
from sluice.errors import NotFound, SluiceError
from sluice.events.catalogue import TYPES, EndpointTest
from sluice.kit.clock import utc_now
from sluice.kit.paging import PageRequest
from sluice.webhooks.endpoint import ALL_EVENTS, Endpoint
from sluice.webhooks.service import MOST_ENDPOINTS, IssuedEndpoint

_NEWEST: Final = PageRequest(1, 100)
_STATES: Final = ("pending", "delivered", "failed")
_EVENTS: Final = sorted(set(TYPES) - {EndpointTest.type})
_MINUTES: Final = "%Y-%m-%dT%H:%M"


async def show_list(visit: Visit) -> Response:
    """Show all endpoints, and how many of the newest deliveries each took."""
    endpoints = await visit.services.webhooks.list_all(visit.tenant_id)
    taken: dict[str, tuple[int, int]] = {}
    for endpoint in endpoints:
        newest = await visit.services.webhooks.list_deliveries(visit.tenant_id, endpoint.endpoint_id, None, _NEWEST)
        tried = [delivery for delivery in newest.items if delivery.attempts]
        taken[endpoint.endpoint_id] = (sum(delivery.state == "delivered" for delivery in tried), len(tried))
    return visit.page("webhooks/list.html", endpoints=endpoints, taken=taken, most=MOST_ENDPOINTS)


async def show_new(visit: Visit) -> Response:
    """Show the form for a new endpoint."""
    return _form(visit, None, {"event.*": "on"})


def _form(visit: Visit, endpoint: Endpoint | None, form: Mapping[str, str], errors: Sequence[str] = ()) -> Response:
    status = 422 if errors else 200
    return visit.page(
        "webhooks/edit.html", status=status, endpoint=endpoint, form=form, errors=errors, event_types=_EVENTS
    )


async def create(visit: Visit) -> Response:
    """Create an endpoint and show its secret, this once."""
    try:
        wanted = CreateEndpoint.model_validate(_body(visit))
        issued = await visit.services.webhooks.create(visit.by("webhook_endpoint.created"), wanted.draft())
    except ValidationError as fault:
        return _form(visit, None, visit.form, problems_of(fault))
    except SluiceError as error:
        return _form(visit, None, visit.form, error.errors)
    return _secret(visit, issued)


def _secret(visit: Visit, issued: IssuedEndpoint, *, is_new: bool = True) -> Response:
    return visit.page("webhooks/secret.html", endpoint=issued.endpoint, secret=issued.secret, is_new=is_new)


async def show(visit: Visit) -> Response:
    """Show one endpoint and the deliveries to it."""
    return await _show(visit)


async def _show(visit: Visit, errors: Sequence[str] = ()) -> Response:
    endpoint, state = await _endpoint(visit), visit.asked("state")
    page = await visit.services.webhooks.list_deliveries(
        visit.tenant_id, endpoint.endpoint_id, state if state in _STATES else None, page_request(visit)
    )
    now = utc_now()
    return visit.page(
        "webhooks/show.html",
        status=422 if errors else 200,
        endpoint=endpoint,
        page=page,
        states=_STATES,
        errors=errors,
        since=visit.sent("since") or (now - timedelta(days=1)).strftime(_MINUTES),
        until=visit.sent("until") or now.strftime(_MINUTES),
    )


async def _endpoint(visit: Visit) -> Endpoint:
    return await visit.services.webhooks.get(visit.tenant_id, visit.request.path_params["endpoint_id"])


async def show_editor(visit: Visit) -> Response:
    """Show the form of an endpoint."""
    endpoint = await _endpoint(visit)
    form = {
        "url": endpoint.url,
        "description": endpoint.description or "",
        "contexts": " ".join(endpoint.context_keys),
        "status": endpoint.status,
    }
    return _form(visit, endpoint, form | {f"event.{name}": "on" for name in endpoint.event_types})


async def change(visit: Visit) -> Response:
    """Save the form of an endpoint."""
    endpoint = await _endpoint(visit)
    try:
        wanted = UpdateEndpoint.model_validate(_body(visit) | {"status": visit.sent("status")})
        by = visit.by("webhook_endpoint.changed")
        await visit.services.webhooks.change(by, endpoint.endpoint_id, wanted.changes())
    except ValidationError as fault:
        return _form(visit, endpoint, visit.form, problems_of(fault))
    except NotFound:
        raise
    except SluiceError as error:
        return _form(visit, endpoint, visit.form, error.errors)
    return redirect(f"/console/webhooks/{endpoint.endpoint_id}?notice=saved")


async def rotate(visit: Visit) -> Response:
    """Give an endpoint a new secret and show it, this once; before that, ask."""
    endpoint = await _endpoint(visit)
    if visit.sent("sure") != "yes":
        return visit.page("webhooks/rotate.html", endpoint=endpoint)
    by = visit.by("webhook_endpoint.secret_rotated")
    return _secret(visit, await visit.services.webhooks.rotate_secret(by, endpoint.endpoint_id), is_new=False)


async def test(visit: Visit) -> Response:
    """Send a test event."""
    endpoint = await _endpoint(visit)
    try:
        await visit.services.webhooks.test(visit.by("webhook_endpoint.tested"), endpoint.endpoint_id)
    except NotFound:
        raise
    except SluiceError as error:
        return await _show(visit, error.errors)
    return redirect(f"/console/webhooks/{endpoint.endpoint_id}?notice=tested")


async def redeliver(visit: Visit) -> Response:
    """Restart a delivery."""
    endpoint = await _endpoint(visit)
    by = visit.by("webhook_delivery.redelivered")
    try:
        await visit.services.webhooks.redeliver(by, visit.sent("delivery_id"))
    except NotFound:
        return await _show(visit, ["The event of this delivery is older than 30 days, and gone."])
    return redirect(f"/console/webhooks/{endpoint.endpoint_id}?notice=redelivered")


async def recover(visit: Visit) -> Response:
    """Deliver the events of a time that the endpoint wants and did not take."""
    endpoint = await _endpoint(visit)
    try:
        wanted = RecoverEvents.model_validate({name: f"{visit.sent(name)}Z" for name in ("since", "until")})
        by = visit.by("webhook_endpoint.recovered")
        number = await visit.services.webhooks.recover(by, endpoint.endpoint_id, wanted.since, wanted.until)
    except ValidationError as fault:
        return await _show(visit, problems_of(fault))
    except NotFound:
        raise
    except SluiceError as error:
        return await _show(visit, error.errors)
    return redirect(f"/console/webhooks/{endpoint.endpoint_id}?notice=recovered&number={number}")


async def delete(visit: Visit) -> Response:
    """Delete an endpoint and forget its secret; before that, ask."""
    endpoint = await _endpoint(visit)
    if visit.sent("sure") != "yes":
        return visit.page("webhooks/delete.html", endpoint=endpoint)
    await visit.services.webhooks.delete(visit.by("webhook_endpoint.deleted"), endpoint.endpoint_id)
    return redirect("/console/webhooks?notice=deleted")


def _body(visit: Visit) -> dict[str, Any]:
    """Return the fields of the form as the API takes them."""
    chosen = [name for name in (ALL_EVENTS, *_EVENTS) if visit.sent(f"event.{name}")]
    return {
        "url": visit.sent("url"),
        "events": [ALL_EVENTS] if ALL_EVENTS in chosen else chosen,
        "contexts": visit.sent("contexts").replace(",", " ").split(),
        "description": visit.sent("description") or None,
    }
