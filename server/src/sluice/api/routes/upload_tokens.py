"""Upload token endpoints."""

from fastapi import APIRouter

from sluice import errors
from sluice.api.documented import BODY, SCOPED, responses
from sluice.api.parameters import REFUSES_UNKNOWN, ByCaller, Caller, PageParameters, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.envelope import Envelope, PagedEnvelope, pagination_of
from sluice.api.schemas.upload_tokens import (
    CreateUploadToken,
    UploadTokenCreated,
    UploadTokenItem,
    UploadTokenOut,
    UploadTokenRevoked,
)

router = APIRouter(prefix="/api/v1/upload-tokens", tags=["Upload tokens"], route_class=GuardedRoute)


@router.post("", status_code=201, responses=responses(*SCOPED, *BODY, errors.NotFound, errors.ContextInactive))
async def create_upload_token(
    body: CreateUploadToken, by: ByCaller, services: Services
) -> Envelope[UploadTokenCreated]:
    """Create a token with which a page or an app can upload a few files into one context, and do nothing else.

    The token itself is shown in this response and never again.
    """
    issued = await services.upload_tokens.create(by, body.draft())
    api = f"{services.public_url}/api/v1"
    created = UploadTokenCreated.of(
        issued,
        upload_url=f"{api}/files/upload",
        tus_url=f"{api}/uploads",
        form_url=f"{services.public_url}/u/{issued.text}",
    )
    return Envelope(message="Upload token created", data=created)


@router.get("", responses=responses(*SCOPED, errors.Invalid), dependencies=[REFUSES_UNKNOWN])
async def list_upload_tokens(
    principal: Caller, services: Services, request: PageParameters
) -> PagedEnvelope[UploadTokenItem]:
    """List the tenant's upload tokens, newest first."""
    page = await services.upload_tokens.list_page(principal.tenant_id, request)
    items = [UploadTokenItem.of(token, services.upload_tokens.now()) for token in page.items]
    return PagedEnvelope(message="Upload tokens listed", data=items, pagination=pagination_of(page))


@router.get("/{token_id}", responses=responses(*SCOPED, errors.NotFound))
async def get_upload_token(token_id: str, principal: Caller, services: Services) -> Envelope[UploadTokenOut]:
    """Read one upload token, without its secret, with the outcomes of its uploads."""
    tokens = services.upload_tokens
    token = await tokens.get(principal.tenant_id, token_id)
    uploads = await tokens.list_uploads(principal.tenant_id, token_id)
    shown = UploadTokenOut.with_files(token, tokens.now(), list(uploads))
    return Envelope(message="Upload token found", data=shown)


@router.delete("/{token_id}", responses=responses(*SCOPED, errors.NotFound))
async def revoke_upload_token(token_id: str, by: ByCaller, services: Services) -> Envelope[UploadTokenRevoked]:
    """Revoke an upload token, for ever and at once. Files that were stored with it stay."""
    await services.upload_tokens.revoke(by, token_id)
    return Envelope(message="Upload token revoked", data=UploadTokenRevoked(token_id=token_id))
