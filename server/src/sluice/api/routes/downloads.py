"""Signed links that the service serves itself: those of the local store, and those of files that a browser shows.

The signature is the credential and is checked before the database.
"""

import re
import time
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from sluice.api.error_responses import render
from sluice.api.guards import ResponseBroken
from sluice.api.parameters import Services
from sluice.api.route import GuardedRoute, keep_place
from sluice.errors import LinkRefused, NotFound, PreconditionFailed, RangeUnsatisfiable, ServiceUnavailable
from sluice.files import FileRecord
from sluice.files.links import INLINE
from sluice.kit.disposition import attachment, inline
from sluice.kit.etag import is_match, names_etag
from sluice.observe.log import log
from sluice.storage import ObjectChanged, StoreError
from sluice_inspect.sandbox.previews import PreviewSide

router = APIRouter(prefix="/api/v1/downloads", route_class=GuardedRoute, include_in_schema=False)

_EXPORT_TYPES: Final = {"ndjson": "application/x-ndjson; charset=utf-8", "csv": "text/csv; charset=utf-8"}
# The sizes of a preview as queries have them.
PreviewSize = Literal["200", "1200"]
PREVIEW_SIDES: Final[Mapping[PreviewSize, PreviewSide]] = MappingProxyType({"200": 200, "1200": 1200})
_RANGE: Final = re.compile(r"bytes=([0-9]*)-([0-9]*)")


@dataclass(frozen=True, slots=True)
class Span:
    """The requested bytes; `partial` if a range was given."""

    start: int
    length: int
    partial: bool


@router.api_route("/{file_id}", methods=["GET", "HEAD"])
async def download(
    *,
    request: Request,
    file_id: str,
    services: Services,
    expires: Annotated[str, Query()] = "",
    signature: Annotated[str, Query()] = "",
    disposition: Annotated[str | None, Query()] = None,
) -> Response:
    """Send one file, as an attachment or to be shown, whole or a single range of it (RFC 9110 section 14)."""
    is_inline = disposition == INLINE
    is_signed = services.signer.verify(file_id, expires, signature, time.time(), inline=is_inline)
    if not is_signed or disposition not in {None, INLINE}:
        raise LinkRefused
    if file_id.startswith("job_") and not is_inline:
        return await _export(request, file_id, services)
    file, store = await services.files.open_signed(file_id)
    request.state.file_tenant_id = file.tenant_id  # whose origins may read the response
    keep_place(request, file.tenant_id, is_guest=True)
    etag = f'"{file.sha256}"'
    headers = _headers(file, etag)
    if is_inline:
        headers |= _inline_headers(file, await services.cors.origins_of(file.tenant_id))
    _require_match(request, etag)
    if names_etag(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    try:
        span = span_of(request, file.size_bytes, etag)
    except RangeUnsatisfiable as fault:
        refusal = render(fault)
        refusal.headers["Content-Range"] = (
            f"bytes */{file.size_bytes}"  # so that a client can ask again (RFC 9110 section 15.5.17)
        )
        return refusal
    headers["Content-Length"] = str(span.length)
    if span.partial:
        headers["Content-Range"] = f"bytes {span.start}-{span.start + span.length - 1}/{file.size_bytes}"
    status = 206 if span.partial else 200
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    chunks = store.read(file.object_key, start=span.start, length=span.length, expected_size=file.size_bytes)
    body = await begun(chunks, file_id)
    return StreamingResponse(body, status_code=status, headers=headers)


@router.get("/{file_id}/preview")
async def show_preview(
    *,
    request: Request,
    file_id: str,
    services: Services,
    size: Annotated[PreviewSize, Query()] = "200",
    expires: Annotated[str, Query()] = "",
    signature: Annotated[str, Query()] = "",
) -> Response:
    """Send the preview of one file."""
    side = PREVIEW_SIDES[size]
    if not services.signer.verify_preview(file_id, side, expires, signature, time.time()):
        raise LinkRefused
    file, png = await services.previews.open_signed(file_id, side)
    request.state.file_tenant_id = file.tenant_id  # whose origins may read the response
    keep_place(request, file.tenant_id, is_guest=True)
    origins = await services.cors.origins_of(file.tenant_id)
    return preview_response(png, is_cross_origin=bool(origins))


def preview_response(png: bytes, *, is_cross_origin: bool = False) -> Response:
    """Return a preview, which a browser shows."""
    headers = {
        "Content-Disposition": inline("preview.png"),
        "Content-Security-Policy": "sandbox; default-src 'none'; img-src 'self'; frame-ancestors 'none'",
        "Cross-Origin-Resource-Policy": "cross-origin" if is_cross_origin else "same-origin",
    }
    return Response(png, media_type="image/png", headers=headers)


async def _export(request: Request, job_id: str, services: Services) -> Response:
    """Send what an export job wrote, as one attachment."""
    job, export, store = await services.jobs.open_signed(job_id)
    request.state.file_tenant_id = job.tenant_id  # whose origins may read the response
    keep_place(request, job.tenant_id)
    _require_match(request, None)
    headers = {
        "Content-Type": _EXPORT_TYPES[export.format],
        "Content-Disposition": attachment(f"files-{job_id}.{export.format}"),
        "Content-Length": str(export.size_bytes),
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    if request.method == "HEAD":
        return Response(headers=headers)

    async def parts() -> AsyncIterator[bytes]:
        for key, size in export.parts:
            async for chunk in store.read(key, expected_size=size):
                yield chunk

    return StreamingResponse(await begun(parts(), job_id), headers=headers)


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


def _inline_headers(file: FileRecord, origins: Collection[str]) -> dict[str, str]:
    """Return what lets a browser show the file: at its own address, and on pages of the tenant's `origins`."""
    # No sandbox allows scripts. A browser starts no viewer of PDFs in one, and its player loads a recording only with
    # the origin that it comes from.
    sandbox = "sandbox; " if file.content_type.startswith("image/") else "sandbox allow-same-origin; "
    if file.content_type == "application/pdf":
        sandbox = ""
    # The document that a browser makes around a picture or a recording loads it, with styles of its own.
    sources = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; base-uri 'none'"
    ancestors = " ".join(sorted(origins)) or "'none'"
    return {
        "Content-Disposition": inline(file.original_filename),
        "Content-Security-Policy": f"{sandbox}{sources}; form-action 'none'; frame-ancestors {ancestors}",
        # An image request has no Origin header: a site with the link may show it if any origin may read the file.
        "Cross-Origin-Resource-Policy": "cross-origin" if origins else "same-origin",
    }


def _require_match(request: Request, etag: str | None) -> None:
    """Raise `PreconditionFailed` if an If-Match header does not name the file's `etag`; an export has none."""
    lines = request.headers.getlist("if-match")
    if lines and not is_match(", ".join(lines), etag):
        raise PreconditionFailed


def span_of(request: Request, size: int, etag: str) -> Span:
    """Return the bytes that a Range header asks for.

    Several ranges, other units and a changed If-Range get the whole file.
    """
    match = _RANGE.fullmatch(request.headers.get("range", ""))
    if_range = request.headers.get("if-range")
    if match is None or match.group() == "bytes=-" or (if_range is not None and if_range != etag):
        return Span(0, size, partial=False)
    first, last = match.groups()
    # The position of a byte may have any number of digits, and `int` reads 4,300 at most.
    start = Decimal(first) if first else max(Decimal(0), size - Decimal(last))
    end = min(Decimal(last), Decimal(size - 1)) if first and last else Decimal(size - 1)
    if first and last and Decimal(last) < Decimal(first):
        return Span(0, size, partial=False)
    if start >= size or (not first and Decimal(last) == 0):
        raise RangeUnsatisfiable
    return Span(int(start), int(end - start) + 1, partial=True)


async def begun(chunks: AsyncIterator[bytes], target: str) -> AsyncIterator[bytes]:
    """Read the first chunk before the status is sent, so that a missing or changed object is a 404 and an unavailable
    store a 503. What fails later ends the connection. `target` names the file or job in the log.
    """
    try:
        first = await anext(chunks, b"")
    except KeyError as fault:
        raise NotFound from fault
    except ObjectChanged as fault:
        log.warning("download_broken", target=target, why=str(fault))
        raise NotFound from fault
    except StoreError as fault:
        raise ServiceUnavailable(fault.part) from fault

    async def rest() -> AsyncIterator[bytes]:
        yield first
        try:
            async for chunk in chunks:
                yield chunk
        except (KeyError, StoreError) as fault:
            why = str(fault) if isinstance(fault, StoreError) else "The object is gone."
            log.warning("download_broken", target=target, why=why)
            raise ResponseBroken from fault

    return rest()
