"""Signed receipts, and the public keys that verify them."""

from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import Field

from sluice import errors
from sluice.api.documented import SCOPED, responses
from sluice.api.parameters import Caller, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.envelope import Envelope, ResponseBody
from sluice.receipts.service import PUBLIC_KEYS

router = APIRouter(prefix="/api/v1", tags=["Receipts"], route_class=GuardedRoute)
keys_router = APIRouter(tags=["Public keys"])


class ReceiptOut(ResponseBody):
    """A signed receipt."""

    receipt: str = Field(description="A JWS in its compact form, signed with Ed25519 (RFC 9864).")
    keys_path: Literal["/.well-known/sluice-receipts.json"] = Field(
        PUBLIC_KEYS, description="Where the public keys are, below the address of the service."
    )


class PublicKey(ResponseBody):
    """A public key as a JSON Web Key (RFC 8037)."""

    kty: Literal["OKP"] = Field(description="An octet key pair.")
    crv: Literal["Ed25519"] = Field(description="The curve.")
    alg: Literal["Ed25519"] = Field(description="The algorithm.")
    use: Literal["sig"] = Field(description="It signs.")
    kid: str = Field(description="The thumbprint of the key (RFC 7638).")
    x: str = Field(description="The public key, in base64url.")


class PublicKeys(ResponseBody):
    """A JSON Web Key Set: every key that has signed receipts, the newest first."""

    keys: list[PublicKey] = Field(description="The keys.")


@router.get("/files/{file_id}/receipt", responses=responses(*SCOPED, errors.NotFound))
async def get_receipt(file_id: str, principal: Caller, services: Services) -> Envelope[ReceiptOut]:
    """Get a signed receipt of a stored file: its hash, size and type, and how it was judged, by what and when."""
    receipt = await services.receipts.of_file(principal.tenant_id, file_id)
    return Envelope(message="Receipt signed", data=ReceiptOut(receipt=receipt))


@keys_router.get(PUBLIC_KEYS, response_model=PublicKeys)
async def receipt_keys(response: Response, services: Services) -> dict[str, Any]:
    """List the public keys that verify receipts, old ones too. No credential is needed."""
    response.headers["Cache-Control"] = "public, max-age=300"
    return services.receipts.public_keys()
