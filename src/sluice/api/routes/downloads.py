"""Signed links of the local store: served by the service itself. The signature is the credential and is checked before the database."""

import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from sluice.api.parameters import Services
from sluice.api.render import render
from sluice.api.route import GuardedRoute
from sluice.engines.storage import ObjectStore, StoreFault
from sluice.errors import LinkRefused, NotFound, RangeUnsatisfiable, Unavailable
from sluice.files import FileRecord
from sluice.kit.disposition import attachment

router = APIRouter(prefix="/api/v1/downloads", route_class=GuardedRoute, include_in_schema=False)

_RANGE: Final = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes that are asked for; `partial` when a range said so."""

    start: int
    length: int
    partial: bool


@router.api_route("/{file_id}", methods=["GET", "HEAD"])
async def download(
    request: Request,
    file_id: str,
    services: Services,
    expires: Annotated[str, Query()] = "",
    signature: Annotated[str, Query()] = "",
) -> Response:
    """Hand out one file, as an attachment, whole or a single range of it (RFC 9110 section 14)."""
    if not services.signer.verify(file_id, expires, signature, time.time()):
        raise LinkRefused
    file, store = await services.files.open_signed(file_id)
    etag = f'"{file.sha256}"'
    headers = _headers(file, etag)
    if _names(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    try:
        span = span_of(request, file.size_bytes, etag)
    except RangeUnsatisfiable as fault:
        refusal = render(fault)
        refusal.headers["Content-Range"] = f"bytes */{file.size_bytes}"  # so that a client can ask again (RFC 9110 section 15.5.17)
        return refusal
    headers["Content-Length"] = str(span.length)
    if span.partial:
        headers["Content-Range"] = f"bytes {span.start}-{span.start + span.length - 1}/{file.size_bytes}"
    status = 206 if span.partial else 200
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    body = await _opened(store, file, span)
    return StreamingResponse(body, status_code=status, headers=headers)


def _headers(file: FileRecord, etag: str) -> dict[str, str]:
    return {
        "Content-Type": file.content_type,
        "Content-Disposition": attachment(file.original_filename),
        # A stranger's file must never run as a page of this origin, whatever a browser makes of it.
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Accept-Ranges": "bytes",
        "ETag": etag,
    }


def _names(header: str | None, etag: str) -> bool:
    return header is not None and (header.strip() == "*" or etag in {part.strip().removeprefix("W/") for part in header.split(",")})


def span_of(request: Request, size: int, etag: str) -> Span:
    """Answer what a Range header asks for. Several ranges, other units and a changed If-Range are answered with the whole file."""
    match = _RANGE.fullmatch(request.headers.get("range", ""))
    if_range = request.headers.get("if-range")
    if match is None or match.group() == "bytes=-" or (if_range is not None and if_range != etag):
        return Span(0, size, partial=False)
    first, last = match.groups()
    start = int(first) if first else max(0, size - int(last))
    end = min(int(last), size - 1) if first and last else size - 1
    if first and last and int(last) < int(first):
        return Span(0, size, partial=False)
    if start >= size or (not first and int(last) == 0):
        raise RangeUnsatisfiable
    return Span(start, end - start + 1, partial=True)


async def _opened(store: ObjectStore, file: FileRecord, span: Span) -> AsyncIterator[bytes]:
    """Read the first chunk before the status is sent, so that a missing object is a 404 and a store that is away a 503."""
    chunks = aiter(store.read(file.object_key, start=span.start, length=span.length))
    try:
        first = await anext(chunks, b"")
    except KeyError as fault:
        raise NotFound from fault
    except StoreFault as fault:
        raise Unavailable("storage") from fault

    async def rest() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    return rest()
