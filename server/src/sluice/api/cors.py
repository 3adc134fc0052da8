"""The headers of CORS (the Fetch standard): which page may read which response.

They are added to every response, however early it is made, and only for listed origins: never `*`, and never with
cookies, which nothing here reads.
"""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from sluice.cors.service import Cors

_METHODS: Final = "GET, HEAD, POST, PATCH, DELETE, OPTIONS"
_SENT: Final = (
    "Authorization, Content-Type, Tus-Resumable, Upload-Length, Upload-Offset, Upload-Metadata, Upload-Checksum, "
    "Upload-Complete, Upload-Concat, Upload-Draft-Interop-Version, X-HTTP-Method-Override, X-Requested-With, "
    "X-Request-ID, Idempotency-Key"
)
_READ: Final = (
    "Location, Tus-Resumable, Tus-Version, Tus-Extension, Tus-Max-Size, Tus-Checksum-Algorithm, Upload-Offset, "
    "Upload-Length, Upload-Expires, Upload-Complete, Upload-Limit, Retry-After, RateLimit-Limit, RateLimit-Remaining, "
    "RateLimit-Reset, Request-Id, Sluice-File-Id, Sluice-Report-Id, Idempotent-Replayed, Warning"
)
_PREFLIGHT_SECONDS: Final = "7200"
_API: Final = "/api/v1/"
REFUSED: Final = "refused_preflight"
"""The state of a request that is a preflight of an origin that no tenant lists: it need not be looked up again."""

HeaderPairs = Iterable[tuple[bytes, bytes]]


def origin_of(headers: HeaderPairs) -> str | None:
    """Return the origin that a browser names, None if it names none or several."""
    found = [value for name, value in headers if name == b"origin"]
    return found[0].decode("latin-1") if len(found) == 1 else None


def is_shared(path: str) -> bool:
    """Return whether pages of other origins may call a path at all."""
    return path.startswith(_API)


def readable(origin: str) -> list[tuple[bytes, bytes]]:
    """Return the headers with which a page of `origin` may read a response."""
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _READ.encode()),
        (b"vary", b"Origin"),
    ]


async def preflight_response(scope: Scope, cors: Cors) -> Response | None:
    """Return the response to a preflight request; None if it is not one, or if no tenant or token lists its origin.

    A preflight names no credential, so the response to the request itself may still be without the headers.
    """
    if scope["method"] != "OPTIONS":
        return None
    origin = origin_of(scope["headers"])
    if origin is None or not is_shared(scope["path"]):
        return None
    if "access-control-request-method" not in Headers(scope=scope):
        return None
    if not await cors.allows(origin, None):
        scope["state"][REFUSED] = True
        return None
    headers = {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": _METHODS,
        "Access-Control-Allow-Headers": _SENT,
        "Access-Control-Max-Age": _PREFLIGHT_SECONDS,
        "Vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
    }
    return Response(status_code=HTTPStatus.NO_CONTENT, headers=headers)
