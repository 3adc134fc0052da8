"""What holds for every request: one id, one set of headers, and no exception that leaves bare."""

from collections.abc import Mapping
from typing import Final

import structlog
from starlette.datastructures import MutableHeaders
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
                headers = MutableHeaders(scope=message)
                headers["Request-Id"] = request_id
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
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
