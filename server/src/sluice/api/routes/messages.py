"""The catalogues of the sender's sentences. Public: they hold no tenant's data."""

import json
import zlib
from functools import cache
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from sluice import errors
from sluice.api.documented import OPEN, responses
from sluice.api.route import GuardedRoute
from sluice.api.schemas.envelope import Envelope, ResponseBody
from sluice.errors import NotFound
from sluice.kit.etag import names_etag
from sluice.messages import DEFAULT_LOCALE, LOCALES, PARAMETERS, ParameterType, catalogue_of

router = APIRouter(prefix="/api/v1/messages", tags=["Messages"], route_class=GuardedRoute)

_CACHE_CONTROL: Final = "public, max-age=3600"


class LocaleItem(ResponseBody):
    """A locale that has a catalogue."""

    locale: str = Field(description="Its tag (BCP 47).")
    language: str = Field(description="The name of the language in itself.")
    default: bool = Field(description="Whether it is used where no other suits the request.")


class CatalogueOut(ResponseBody):
    """The sentences of one locale. `docs/messages.md` describes how they are put into words."""

    locale: str = Field(description="The locale.")
    language: str = Field(description="The name of the language in itself.")
    messages: dict[str, str] = Field(description="Sentences by key (`report.message_key`), in ICU MessageFormat.")
    page: dict[str, str] = Field(
        description="The words of the upload page and of `<sluice-upload>`, in ICU MessageFormat."
    )
    parameters: dict[str, str] = Field(
        description=f"What the value of each parameter is, by its name: {', '.join(ParameterType)}."
    )
    formats: dict[str, str] = Field(
        description="Kinds of file by their English names. Those not listed are the same in every language."
    )
    units: dict[str, str] = Field(description="Sizes and times by unit, in ICU MessageFormat.")


@router.get("", responses=responses(*OPEN))
async def list_locales() -> Envelope[list[LocaleItem]]:
    """List the locales that have a catalogue."""
    items = [
        LocaleItem(locale=locale, language=catalogue_of(locale).language, default=locale == DEFAULT_LOCALE)
        for locale in LOCALES
    ]
    return Envelope(message="Locales listed", data=items)


@router.get(
    "/{locale}",
    response_model=Envelope[CatalogueOut],
    responses=responses(*OPEN, errors.NotFound)
    | {304: {"description": "The catalogue still has the `ETag` of `If-None-Match`."}},
)
async def get_messages(
    locale: Annotated[str, Path(description="One of the listed locales, such as `de`.")],
    request: Request,
    response: Response,
) -> Envelope[CatalogueOut] | Response:
    """Read the sentences of a locale, for applications that show them in words of their own."""
    if locale not in LOCALES:
        raise NotFound(errors=[f"locale: expected one of {', '.join(LOCALES)}"])
    body, etag = _catalogue(locale)
    headers = {"ETag": etag, "Cache-Control": _CACHE_CONTROL}
    if names_etag(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return Envelope(message="Messages found", data=body)


@cache
def _catalogue(locale: str) -> tuple[CatalogueOut, str]:
    """Return the catalogue with its entity tag: a weak one, since the time in the envelope differs."""
    body = CatalogueOut(
        **catalogue_of(locale).to_json(), parameters={name: kind.value for name, kind in PARAMETERS.items()}
    )
    checksum = zlib.crc32(json.dumps(body.model_dump(mode="json")).encode())
    return body, f'W/"{locale}-{checksum:08x}"'
