"""API key endpoints."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query

from sluice import errors
from sluice.api.documented import BODY, SCOPED, responses
from sluice.api.parameters import ByCaller, Caller, PageParameters, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.api_keys import (
    CreateKey,
    KeyCreated,
    KeyItem,
    KeyOut,
    KeyRotated,
    RevokedKey,
    RotateKey,
    Status,
    UpdateKey,
)
from sluice.api.schemas.envelope import Envelope, PagedEnvelope, pagination_of
from sluice.api_keys.service import require_grantable

router = APIRouter(prefix="/api/v1/api-keys", tags=["API keys"], route_class=GuardedRoute)


@router.post("", status_code=201, responses=responses(*SCOPED, *BODY))
async def create_api_key(body: CreateKey, by: ByCaller, services: Services) -> Envelope[KeyCreated]:
    """Create an API key. The key itself is shown in this response and never again.

    It can be limited to contexts, to networks from which it is used, and to a number of requests in a minute. A key
    that is limited creates only keys that are limited at least as it is.
    """
    require_grantable(by.principal, body.scopes)
    issued = await services.api_keys.create(
        by,
        body.name,
        body.scopes,
        mode=body.mode,
        expires_in_days=body.expires_in_days,
        metadata=body.metadata,
        limits=body.limits(),
    )
    created = KeyCreated(
        api_key_id=issued.key.api_key_id,
        api_key=issued.text,
        name=issued.key.name,
        scopes=list(issued.key.scopes),
        expires_at=issued.key.expires_at,
        contexts=list(issued.key.contexts),
        allowed_networks=list(issued.key.allowed_networks),
        rate_per_minute=issued.key.rate_per_minute,
    )
    return Envelope(message="API key created", data=created)


@router.get("", responses=responses(*SCOPED, errors.Invalid))
async def list_api_keys(
    principal: Caller,
    services: Services,
    request: PageParameters,
    status: Annotated[Status | None, Query(description="Only keys in this state.")] = None,
) -> PagedEnvelope[KeyItem]:
    """List the tenant's API keys, newest first."""
    page = await services.api_keys.list_page(principal.tenant_id, status, request)
    items = [KeyItem.model_validate(key) for key in page.items]
    return PagedEnvelope(message="API keys listed", data=items, pagination=pagination_of(page))


@router.get("/{api_key_id}", responses=responses(*SCOPED, errors.NotFound))
async def get_api_key(api_key_id: str, principal: Caller, services: Services) -> Envelope[KeyOut]:
    """Read one API key, without its secret."""
    key = await services.api_keys.get(principal.tenant_id, api_key_id)
    return Envelope(message="API key found", data=KeyOut.model_validate(key))


@router.patch("/{api_key_id}", responses=responses(*SCOPED, *BODY, errors.NotFound, errors.KeyRevoked))
async def update_api_key(api_key_id: str, body: UpdateKey, by: ByCaller, services: Services) -> Envelope[KeyOut]:
    """Change name, scopes, status, metadata or limits. A revoked key can never be changed again."""
    require_grantable(by.principal, body.scopes)
    key = await services.api_keys.change(by, api_key_id, body.changes())
    return Envelope(message="API key updated", data=KeyOut.model_validate(key))


@router.post(
    "/{api_key_id}/rotate",
    responses=responses(*SCOPED, *BODY, errors.NotFound, errors.KeyRevoked, errors.RotationOverlaps),
)
async def rotate_api_key(api_key_id: str, body: RotateKey, by: ByCaller, services: Services) -> Envelope[KeyRotated]:
    """Give an API key a new text, shown in this response and never again. Its id, scopes and limits stay.

    The present text is good too for `overlap_seconds`; one of an earlier rotation ends at once.
    """
    overlap = timedelta(seconds=body.overlap_seconds)
    issued = await services.api_keys.rotate(by, api_key_id, overlap, expires_in_days=body.expires_in_days)
    rotated = KeyRotated(
        api_key_id=issued.key.api_key_id,
        api_key=issued.text,
        key_prefix=issued.key.key_prefix,
        expires_at=issued.key.expires_at,
        previous_expires_at=issued.key.previous_expires_at,
    )
    return Envelope(message="API key rotated", data=rotated)


@router.delete("/{api_key_id}", responses=responses(*SCOPED, errors.NotFound))
async def revoke_api_key(api_key_id: str, by: ByCaller, services: Services) -> Envelope[RevokedKey]:
    """Revoke an API key, for ever and at once."""
    key = await services.api_keys.revoke(by, api_key_id)
    return Envelope(message="API key revoked", data=RevokedKey(api_key_id=key.api_key_id))
