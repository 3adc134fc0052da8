"""Webhook endpoints of a tenant, and the deliveries to them."""

from typing import Annotated

from fastapi import APIRouter, Query

from sluice import errors
from sluice.api.documented import BODY, SCOPED, responses
from sluice.api.parameters import REFUSES_UNKNOWN, ByCaller, Caller, PageParameters, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.envelope import Envelope, PagedEnvelope, pagination_of
from sluice.api.schemas.webhooks import (
    CreateEndpoint,
    DeliveryOut,
    EndpointDeleted,
    EndpointOut,
    EndpointSecret,
    Recovered,
    RecoverEvents,
    TestSent,
    UpdateEndpoint,
)
from sluice.webhooks.endpoint import DeliveryState

router = APIRouter(prefix="/api/v1", tags=["Webhooks"], route_class=GuardedRoute)

_ENDPOINTS = "/webhook-endpoints"
_ENDPOINT = "/webhook-endpoints/{endpoint_id}"


@router.post(_ENDPOINTS, status_code=201, responses=responses(*SCOPED, *BODY, errors.TooManyEndpoints))
async def create_webhook_endpoint(body: CreateEndpoint, by: ByCaller, services: Services) -> Envelope[EndpointSecret]:
    """Create an endpoint to which events are sent. Its secret is shown in this response and never again."""
    issued = await services.webhooks.create(by, body.draft())
    return Envelope(message="Webhook endpoint created", data=EndpointSecret.of(issued))


@router.get(_ENDPOINTS, responses=responses(*SCOPED))
async def list_webhook_endpoints(principal: Caller, services: Services) -> Envelope[list[EndpointOut]]:
    """List the tenant's webhook endpoints, oldest first: at most 10."""
    found = await services.webhooks.list_all(principal.tenant_id)
    return Envelope(message="Webhook endpoints listed", data=[EndpointOut.model_validate(one) for one in found])


@router.get(_ENDPOINT, responses=responses(*SCOPED, errors.NotFound))
async def get_webhook_endpoint(endpoint_id: str, principal: Caller, services: Services) -> Envelope[EndpointOut]:
    """Read one webhook endpoint, without its secret."""
    endpoint = await services.webhooks.get(principal.tenant_id, endpoint_id)
    return Envelope(message="Webhook endpoint found", data=EndpointOut.model_validate(endpoint))


@router.patch(_ENDPOINT, responses=responses(*SCOPED, *BODY, errors.NotFound))
async def update_webhook_endpoint(
    endpoint_id: str, body: UpdateEndpoint, by: ByCaller, services: Services
) -> Envelope[EndpointOut]:
    """Change a webhook endpoint. One that is made active again gets what happens from then on."""
    endpoint = await services.webhooks.change(by, endpoint_id, body.changes())
    return Envelope(message="Webhook endpoint updated", data=EndpointOut.model_validate(endpoint))


@router.delete(_ENDPOINT, responses=responses(*SCOPED, errors.NotFound))
async def delete_webhook_endpoint(endpoint_id: str, by: ByCaller, services: Services) -> Envelope[EndpointDeleted]:
    """Delete a webhook endpoint and forget its secret. Nothing more is sent to it."""
    await services.webhooks.delete(by, endpoint_id)
    return Envelope(message="Webhook endpoint deleted", data=EndpointDeleted(endpoint_id=endpoint_id))


@router.post(f"{_ENDPOINT}/rotate-secret", responses=responses(*SCOPED, errors.NotFound))
async def rotate_webhook_secret(endpoint_id: str, by: ByCaller, services: Services) -> Envelope[EndpointSecret]:
    """Give a webhook endpoint a new secret. For 24 hours deliveries are signed with the old one too."""
    issued = await services.webhooks.rotate_secret(by, endpoint_id)
    return Envelope(message="Webhook secret rotated", data=EndpointSecret.of(issued))


@router.post(f"{_ENDPOINT}/test", responses=responses(*SCOPED, errors.NotFound, errors.EndpointDisabled))
async def test_webhook_endpoint(endpoint_id: str, by: ByCaller, services: Services) -> Envelope[TestSent]:
    """Send an event of the type `endpoint.test` to one endpoint, whatever events it asks for."""
    await services.webhooks.test(by, endpoint_id)
    return Envelope(message="Test event sent", data=TestSent(endpoint_id=endpoint_id))


@router.post(f"{_ENDPOINT}/recover", responses=responses(*SCOPED, *BODY, errors.NotFound, errors.EndpointDisabled))
async def recover_webhook_events(
    endpoint_id: str, body: RecoverEvents, by: ByCaller, services: Services
) -> Envelope[Recovered]:
    """Deliver the events of a time that the endpoint asks for and did not take."""
    number = await services.webhooks.recover(by, endpoint_id, body.since, body.until)
    return Envelope(message="Deliveries restarted", data=Recovered(endpoint_id=endpoint_id, deliveries=number))


@router.get(
    f"{_ENDPOINT}/deliveries",
    responses=responses(*SCOPED, errors.NotFound, errors.Invalid),
    dependencies=[REFUSES_UNKNOWN],
)
async def list_webhook_deliveries(
    endpoint_id: str,
    principal: Caller,
    services: Services,
    request: PageParameters,
    status: Annotated[DeliveryState | None, Query(description="Only deliveries in this state.")] = None,
) -> PagedEnvelope[DeliveryOut]:
    """List the deliveries to a webhook endpoint, newest first."""
    page = await services.webhooks.list_deliveries(principal.tenant_id, endpoint_id, status, request)
    items = [DeliveryOut.model_validate(one) for one in page.items]
    return PagedEnvelope(message="Webhook deliveries listed", data=items, pagination=pagination_of(page))


@router.post("/webhook-deliveries/{delivery_id}/redeliver", responses=responses(*SCOPED, errors.NotFound))
async def redeliver_webhook(delivery_id: str, by: ByCaller, services: Services) -> Envelope[DeliveryOut]:
    """Restart a delivery, whatever its state."""
    delivery = await services.webhooks.redeliver(by, delivery_id)
    return Envelope(message="Delivery restarted", data=DeliveryOut.model_validate(delivery))
