"""The route class of the API: who is asking and what for is judged before a byte of the body is read; then the body is read strictly."""

from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from sluice.access import AUDITED_ROUTES, ROUTE_SCOPES, SIGNED_ROUTES, Audited, Principal, Scope
from sluice.api.authenticate import Authenticator
from sluice.api.bodies import require_json, require_uncoded
from sluice.api.services import ApiServices
from sluice.errors import BodyTooLarge, Invalid, Malformed, NotFound, ScopeMissing
from sluice.kit.failpoints import reach
from sluice.kit.strict_json import NotStrictJson, read_json
from sluice.trail import Deed

JSON_BODY_BYTES: Final = 64 * 1024

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class GuardedRoute(APIRoute):
    """A route that asks for the scope of the table in `access`. One that the table misses cannot be made."""

    def get_route_handler(self) -> Handler:
        """Wrap FastAPI's handler: authenticate, require the scope, read the JSON body, only then go on."""
        inner = super().get_route_handler()
        routes = {(method, self.path_format) for method in self.methods or ()}
        if routes <= SIGNED_ROUTES:
            return inner
        (route,) = routes
        scope, audited = ROUTE_SCOPES[route], AUDITED_ROUTES.get(route)
        takes_json = self.body_field is not None

        async def handle(request: Request) -> Response:
            try:
                await admitted(request, scope)
                if any("\0" in value for value in request.path_params.values()):
                    # No id of ours holds a NUL, and PostgreSQL cannot even be asked for one.
                    raise NotFound
                response = await inner(await _read(request) if takes_json else request)
            except ScopeMissing:
                await _note_refusal(request, audited)
                raise
            if audited is not None:
                reach("answer.made")
            return response

        return handle


async def admitted(request: Request, scope: Scope | None, *, presume: bool = False) -> Principal:
    """Answer who is asking, if they hold `scope`; raises `Unauthenticated`, `ScopeMissing`, `TooManyRequests`.

    With `presume`, the answer may be `remembered` (see `Principal`).
    """
    authenticator: Authenticator = request.app.state.authenticator
    principal: Principal = await authenticator.principal_of(request, presume=presume)
    request.state.principal = principal
    structlog.contextvars.bind_contextvars(tenant_id=principal.tenant_id)
    if scope is not None and not principal.allows(scope):
        raise ScopeMissing(scope.value)
    return principal


async def _note_refusal(request: Request, audited: Audited | None) -> None:
    if audited is not None:
        services: ApiServices = request.app.state.services
        await services.trail.refused(await deed(request), request.path_params.get(audited.target), ScopeMissing.code)


async def caller(request: Request) -> Principal:
    """Answer who is asking, as a dependency of the endpoints."""
    principal: Principal = request.state.principal
    return principal


async def deed(request: Request) -> Deed:
    """Answer what the caller sets out to do, as a dependency of the endpoints that `AUDITED_ROUTES` names."""
    audited = AUDITED_ROUTES[request.method, request.scope["route"].path_format]
    return Deed(request.state.principal, audited.action, request.state.request_id)


class _ReadRequest(Request):
    """A request whose JSON body was read and judged already."""

    def __init__(self, request: Request, raw: bytes, value: object) -> None:
        super().__init__(request.scope, request.receive)
        self._raw = raw
        self._value = value

    async def body(self) -> bytes:
        return self._raw

    async def json(self) -> Any:
        return self._value


async def _read(request: Request) -> Request:
    declared = request.headers.get("content-length")
    if declared is not None and int(declared) > JSON_BODY_BYTES:
        raise BodyTooLarge(JSON_BODY_BYTES)
    raw = b""
    try:
        async for chunk in request.stream():
            raw += chunk
            if len(raw) > JSON_BODY_BYTES:
                raise BodyTooLarge(JSON_BODY_BYTES)
    except ClientDisconnect as fault:
        raise Malformed(errors=["body: ended before its announced length"]) from fault
    if not raw.strip():
        raise Invalid("body: expected a JSON object, found nothing")
    require_json(request)
    require_uncoded(request)
    try:
        return _ReadRequest(request, raw, read_json(raw))
    except NotStrictJson as fault:
        raise Invalid(f"body: {fault}") from fault
