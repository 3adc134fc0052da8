"""Common to every request: an id, security headers, metrics, and an envelope for every exception."""

from collections.abc import Iterable, Mapping
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sluice.api.cors import REFUSED, is_shared, origin_of, preflight_response, readable
from sluice.api.error_responses import render
from sluice.cors.service import Cors
from sluice.db.database import DatabaseUnavailable
from sluice.errors import NotFound, ServiceUnavailable, SluiceError
from sluice.kit.ids import new_id
from sluice.observe.log import log
from sluice.observe.metrics import count_request
from sluice.observe.traces import RequestSpan
from sluice.uploads.content_links import PATH as CONTENT_PATH

SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
_SECURITY: Final = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_DOWNLOADS: Final = "/api/v1/downloads/"
_ENDING_IN_CREDENTIALS: Final = ("/u/", f"{CONTENT_PATH}/")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})
_UNKNOWN: Final = "unknown"
_CLIENT_CLOSED: Final = 499  # nginx's number for a client that did not wait for its response; HTTP has no status for it


class ResponseBroken(Exception):
    """The rest of a body whose head is sent cannot be had: the connection is closed. The log has the cause."""


class Guards:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; other kinds of connection pass unchanged."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = new_id("req")
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        scope.setdefault("state", {})["request_id"] = request_id
        method = scope["method"] if scope["method"] in _METHODS else _UNKNOWN
        span, began, status = RequestSpan(method, scope["headers"]), perf_counter(), 0

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _guarded(await _shared(scope, message["headers"]), request_id)
            await send(message)

        try:
            download_host = getattr(scope["app"].state, "download_host", None)
            if download_host is not None:
                _require_host(scope, download_host)
            cors = _cors(scope)
            preflight = None if cors is None else await preflight_response(scope, cors)
            await (preflight or self._app)(scope, receive, send_guarded)
        except SluiceError as error:
            await render(error, Request(scope))(scope, receive, send_guarded)
        except DatabaseUnavailable:
            await render(ServiceUnavailable("database"), Request(scope))(scope, receive, send_guarded)
        except ResponseBroken:
            raise  # to the connection
        except Exception:
            # The only place where an unexpected error is caught: the log gets all of it, the caller none.
            log.exception("unexpected_error", method=scope["method"], path=_without_credential(scope["path"]))
            if status:
                raise
            await render(SluiceError(), Request(scope))(scope, receive, send_guarded)
        finally:
            # The route writes itself into the scope. Paths without one are not counted by name: anybody can invent
            # them.
            route = getattr(scope.get("route"), "path_format", _UNKNOWN)
            count_request(method, route, status or _CLIENT_CLOSED, perf_counter() - began)
            span.end(route, status or _CLIENT_CLOSED)


def _without_credential(path: str) -> str:
    prefix = next((prefix for prefix in _ENDING_IN_CREDENTIALS if path.startswith(prefix)), None)
    return path if prefix is None else f"{prefix}…"


def _cors(scope: Scope) -> Cors | None:
    """Return who knows the allowed origins; None in a process that serves no tenant."""
    cors: Cors | None = getattr(getattr(scope.get("app"), "state", None), "cors", None)
    return cors


async def _shared(scope: Scope, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers, with those of CORS if the page that asks may read the response."""
    pairs, origin, cors = list(headers), origin_of(scope["headers"]), _cors(scope)
    if origin is None or cors is None or not is_shared(scope["path"]):
        return pairs
    state = scope["state"]
    if REFUSED in state or any(name == b"access-control-allow-origin" for name, _ in pairs):
        return pairs  # of a preflight
    may_read = await cors.allows(origin, state.get("principal"), tenant_id=state.get("file_tenant_id"))
    return [*pairs, *readable(origin)] if may_read else pairs


def _guarded(headers: Iterable[tuple[bytes, bytes]], request_id: str) -> list[tuple[bytes, bytes]]:
    """Return the headers with the request's id and every security header that was not set otherwise."""
    guarded = [pair for pair in headers if pair[0] != b"request-id"]
    names = {name for name, _ in guarded}
    return [*guarded, (b"request-id", request_id.encode()), *[pair for pair in _SECURITY if pair[0] not in names]]


def _require_host(scope: Scope, download_host: str) -> None:
    """Raise `NotFound` unless this is a download asked of `download_host`, or anything else asked of another host.

    A browser that is made to show a stored file, whatever the headers say, then shows it where no credential is ever
    sent.
    """
    named: bytes = next((value for name, value in scope["headers"] if name == b"host"), b"")
    try:
        host = urlsplit(f"//{named.decode('latin-1')}").hostname  # without the port, which a proxy may have changed
    except ValueError:
        host = None
    if ((host or "").removesuffix(".") == download_host) != scope["path"].startswith(_DOWNLOADS):
        raise NotFound
