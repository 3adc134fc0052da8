"""How requests and uploads are counted: which outcome an error is, which route a path belongs to. The numbers are in `observe.metrics`."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, Final, ParamSpec

from starlette.responses import Response
from starlette.types import Scope

from sluice.db.database import DatabaseAway
from sluice.errors import FileRejected, LimitExceeded, SluiceError, Unavailable
from sluice.observe.metrics import REQUEST_SECONDS, REQUESTS, UPLOADS, UPLOADS_UNDER_WAY
from sluice.observe.stages import staged
from sluice.observe.traces import RequestSpan

P = ParamSpec("P")
Upload = Callable[P, Coroutine[Any, Any, Response]]

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})
_UNKNOWN: Final = "unknown"
_SERVER_FAULT: Final = 500
_GONE: Final = 499
"""What nginx writes of a client that did not wait for its answer; no status of HTTP."""


class RequestCount:
    """One request, from its head to the end of its answer. `status` is set when the answer begins."""

    def __init__(self, scope: Scope) -> None:
        self.status = _GONE
        self._scope = scope
        self._method = scope["method"] if scope["method"] in _METHODS else _UNKNOWN
        self._span = RequestSpan(self._method, scope["headers"])
        self._began = perf_counter()

    def end(self) -> None:
        """Count it."""
        # The route writes itself into the scope; a path that no route knows is anybody's invention.
        route = getattr(self._scope.get("route"), "path_format", _UNKNOWN)
        REQUESTS.labels(self._method, route, str(self.status)).inc()
        REQUEST_SECONDS.labels(self._method, route).observe(perf_counter() - self._began)
        self._span.end(route, self.status)


def counted_upload(endpoint: Upload[P]) -> Upload[P]:
    """Count what becomes of each upload that `endpoint` takes in, however it ends."""
    whole = staged("upload")(endpoint)

    @functools.wraps(endpoint)
    async def counted(*args: P.args, **kwargs: P.kwargs) -> Response:
        outcome, reason = "stored", ""
        UPLOADS_UNDER_WAY.inc()
        try:
            return await whole(*args, **kwargs)
        except BaseException as fault:
            outcome, reason = _what_became(fault)
            raise
        finally:
            UPLOADS_UNDER_WAY.dec()
            UPLOADS.labels("store", outcome, reason).inc()

    return counted


def _what_became(fault: BaseException) -> tuple[str, str]:
    """Answer outcome and reason of an upload that ended in `fault`."""
    match fault:
        case FileRejected() | LimitExceeded():
            return "rejected", fault.errors[0]
        case Unavailable():
            return "failed", fault.part.replace(" ", "_")
        case DatabaseAway():
            return "failed", "database"
        case SluiceError():
            return "refused" if fault.status < _SERVER_FAULT else "failed", fault.code
        case asyncio.CancelledError():
            return "cut_off", ""
    return "failed", SluiceError.code
