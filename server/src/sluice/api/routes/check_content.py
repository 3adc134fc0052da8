"""The bytes of an upload for the external checks that are asked about it. The link is the credential."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from sluice.api.error_responses import render
from sluice.api.guards import ResponseBroken
from sluice.api.parameters import Services
from sluice.api.route import GuardedRoute, keep_place
from sluice.api.routes.downloads import span_of
from sluice.errors import NotFound, RangeUnsatisfiable
from sluice.kit.disposition import attachment
from sluice.uploads.content_links import PATH, LinkBroken

router = APIRouter(prefix=PATH, route_class=GuardedRoute, include_in_schema=False)


@router.api_route("/{token}", methods=["GET", "HEAD"])
async def check_content(request: Request, token: str, services: Services) -> Response:
    """Send the sealed bytes behind a link that lives as long as its question, whole or a single range of them."""
    async with AsyncExitStack() as stack:
        content = await stack.enter_async_context(services.content_links.open(token))
        info = content.info
        keep_place(request, info.tenant_id, is_guest=True)
        etag = f'"{info.sha256}"'
        headers = {
            "Content-Type": "application/octet-stream",  # a stranger's file is never shown as a page of this origin
            "Content-Disposition": attachment("content"),
            "Content-Security-Policy": "sandbox; default-src 'none'",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Accept-Ranges": "bytes",
            "ETag": etag,
        }
        try:
            span = span_of(request, info.size, etag)
        except RangeUnsatisfiable as fault:
            refusal = render(fault)
            refusal.headers["Content-Range"] = f"bytes */{info.size}"
            return refusal
        headers["Content-Length"] = str(span.length)
        if span.partial:
            headers["Content-Range"] = f"bytes {span.start}-{span.start + span.length - 1}/{info.size}"
        status = 206 if span.partial else 200
        if request.method == "HEAD":
            return Response(status_code=status, headers=headers)
        pieces = content.read(span.start, span.length)
        try:
            first = await anext(pieces, b"")
        except LinkBroken as fault:
            raise NotFound from fault
        held = stack.pop_all()  # until the last byte is sent

    async def body() -> AsyncIterator[bytes]:
        async with held:
            yield first
            try:
                async for piece in pieces:
                    yield piece
            except LinkBroken as fault:
                raise ResponseBroken from fault

    return StreamingResponse(body(), status_code=status, headers=headers)
