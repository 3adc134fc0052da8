"""The one hot route past the framework: an upload goes from the guards straight to its endpoint. The framework still documents it.

Ten layers of FastAPI's and Starlette's take longer than the checks of a small file (docs/performance.md). None of them has anything to do
for this route: it reads its body itself, has no parameters, and answers one kind of response. Errors, headers and admission are those
of every other route.
"""

from typing import Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from sluice.access import ROUTE_SCOPES
from sluice.api.guards import Guards
from sluice.api.render import render
from sluice.api.route import admitted
from sluice.api.routes.upload import PATH, router, upload_file
from sluice.db.database import DatabaseAway
from sluice.errors import Unavailable

_ROUTE: Final = ("POST", PATH)
(_DECLARED,) = router.routes
"""The route as the framework knows it, under whose path requests are counted."""


class ExpressApp(FastAPI):
    """FastAPI's application with a way of its own for uploads."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or (scope["method"], scope["path"]) != _ROUTE:
            await super().__call__(scope, receive, send)
            return
        scope["app"], scope["route"] = self, _DECLARED
        await _GUARDED(scope, receive, send)


async def _upload(scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope, receive, send)
    try:
        principal = await admitted(request, ROUTE_SCOPES[_ROUTE], presume=True)
        response = await upload_file(request, principal, request.app.state.services)
    except DatabaseAway:
        response = render(Unavailable("database"))
    await response(scope, receive, send)


_GUARDED: Final = Guards(_upload)
