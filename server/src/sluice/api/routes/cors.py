"""CORS endpoints: the origins that a tenant allows."""

from fastapi import APIRouter

from sluice.api.documented import BODY, SCOPED, responses
from sluice.api.parameters import ByCaller, Caller, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.cors import CorsOut, ReplaceCors
from sluice.api.schemas.envelope import Envelope

router = APIRouter(prefix="/api/v1/cors", tags=["CORS"], route_class=GuardedRoute)


@router.get("", responses=responses(*SCOPED))
async def get_cors(principal: Caller, services: Services) -> Envelope[CorsOut]:
    """Read the origins whose pages may call the API with the tenant's keys."""
    origins = await services.cors.get(principal.tenant_id)
    return Envelope(message="Allowed origins found", data=CorsOut(allowed_origins=list(origins)))


@router.put("", responses=responses(*SCOPED, *BODY))
async def replace_cors(body: ReplaceCors, by: ByCaller, services: Services) -> Envelope[CorsOut]:
    """Replace the origins whose pages may call the API with the tenant's keys.

    Upload tokens have origins of their own.
    """
    origins = await services.cors.replace(by, body.allowed_origins)
    return Envelope(message="Allowed origins replaced", data=CorsOut(allowed_origins=list(origins)))
