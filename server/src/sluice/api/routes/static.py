"""The files that pages load, also those of other origins: without data of tenants, and the same for every caller."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from sluice.api.pages.assets import Asset, asset, words
from sluice.api.pages.colors import color_style
from sluice.api.shared_answer import SharedResponse
from sluice.errors import NotFound
from sluice.kit.etag import names_etag
from sluice.messages import negotiate

router = APIRouter(prefix="/static", include_in_schema=False)

_ASK_AGAIN: Final = "public, max-age=3600"
_NEVER_CHANGES: Final = "public, max-age=31536000, immutable"
_FOR_EVERY_PAGE: Final = {"Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"}


@router.get("/words.json")
async def element_words(request: Request, lang: Annotated[str | None, Query()] = None) -> Response:
    """Return the words of `<sluice-upload>` in the language that suits best."""
    response = _response_of(request, words(negotiate(lang or request.headers.get("accept-language"))))
    response.headers["Vary"] = "Accept-Language"
    return response


@router.get("/colors/{name}.css")
async def color_of_page(request: Request, name: str) -> Response:
    """Return the style sheet of a colour, `rrggbb`, which the upload pages of contexts have."""
    found = color_style(name)
    if found is None:
        raise NotFound
    return _response_of(request, found)


@router.get("/{name}")
async def static_file(request: Request, name: str) -> Response:
    """Return one of the files; under `?v=` and its version it may be kept for good."""
    found = asset(name)
    if found is None:
        raise NotFound
    return _response_of(request, found)


def _response_of(request: Request, found: Asset) -> Response:
    etag = f'"{found.version}"'
    is_exact = request.query_params.get("v") == found.version
    headers = _FOR_EVERY_PAGE | {"ETag": etag, "Cache-Control": _NEVER_CHANGES if is_exact else _ASK_AGAIN}
    if names_etag(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    return SharedResponse(found.content, media_type=found.media_type, headers=headers)
