"""What holds for every request: one id, one set of headers, and no exception that leaves bare."""

from collections.abc import Iterable, Mapping
from typing import Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sluice.api.counting import RequestCount
from sluice.api.origins import require_host
from sluice.api.render import render
from sluice.errors import SluiceError
from sluice.kit.ids import new_id
from sluice.observe.log import log

SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}

_SECURITY: Final = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


class Guards:
    """The outermost layer of the app."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; other kinds of connection pass untouched."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = new_id("req")
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        scope.setdefault("state", {})["request_id"] = request_id
        started = False
        count = RequestCount(scope)

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                count.status = message["status"]
                message["headers"] = _guarded(message["headers"], request_id)
            await send(message)

        try:
            download_host = getattr(scope["app"].state, "download_host", None)
            if download_host is not None:
                require_host(scope, download_host)
            await self._app(scope, receive, send_guarded)
        except SluiceError as error:
            await render(error)(scope, receive, send_guarded)
        except Exception:
            # The only place where an unexpected fault is caught: the log gets all of it, the caller none.
            log.exception("unexpected_fault", method=scope["method"], path=scope["path"])
            if started:
                raise
            await render(SluiceError())(scope, receive, send_guarded)
        finally:
            count.end()


def _guarded(headers: Iterable[tuple[bytes, bytes]], request_id: str) -> list[tuple[bytes, bytes]]:
    """Answer an answer's headers, names in lower case as ASGI has them, with the request's id and what was not said otherwise."""
    said = [pair for pair in headers if pair[0] != b"request-id"]
    names = {name for name, _ in said}
    return [*said, (b"request-id", request_id.encode()), *(pair for pair in _SECURITY if pair[0] not in names)]
