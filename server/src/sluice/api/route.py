"""The route class of the API: the caller is authenticated and authorized before a byte of the body is read, then JSON
is read strictly.
"""

import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final

import structlog
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from sluice.access import (
    AUDITED_ROUTES,
    CONTEXT_ROUTES,
    PUBLIC_ROUTES,
    ROUTE_SCOPES,
    SIGNED_ROUTES,
    TOKEN_ROUTES,
    WAITING_ROUTES,
    Audited,
    Principal,
    Route,
    Scope,
)
from sluice.api.authenticate import Authenticator
from sluice.api_keys.limits import require_context, take_request
from sluice.audit import AuditAction
from sluice.errors import (
    BodyTooLarge,
    Invalid,
    KeyLimited,
    Malformed,
    NotFound,
    ScopeMissing,
    TooManyRequests,
    UnsupportedBody,
)
from sluice.kit.failpoints import failpoint
from sluice.kit.read_through_cache import Cached
from sluice.kit.strict_json import NotStrictJson, read_json
from sluice.services import Services
from sluice.upload_tokens.upload_token import Method
from sluice_inspect.sandbox.fair_queue import FairQueue

JSON_BODY_BYTES: Final = 64 * 1024
_LONG_BODIES: Final = MappingProxyType({("POST", "/api/v1/hash-lists"): 1024**2})  # a thousand entries with reasons
_BLANKS: Final = " \t"
_CHARSET: Final = re.compile(r";[ \t]*charset[ \t]*=([^;]*)", re.IGNORECASE)

_LISTS_AT_ONCE: Final = 4  # for one tenant, in one process: each blocks others for as long as its page is rendered
_LIST_WAIT_SECONDS: Final = 5.0

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ListGate:
    """A fair limit per tenant on the lists that are read at once, so that they do not slow down other tenants."""

    def __init__(self, wait_seconds: float = _LIST_WAIT_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self._queue: FairQueue[str, None, bool] = FairQueue(self._acquire)

    @asynccontextmanager
    async def hold(self, tenant_id: str) -> AsyncIterator[None]:
        """Hold a place while a list is read; raise `TooManyRequests` if none is free in time."""
        try:
            place = await self._queue.get(tenant_id, None, timeout=self._wait_seconds)
        except TimeoutError as fault:
            raise TooManyRequests(errors=["Too many lists of this tenant are read at once"]) from fault
        try:
            yield
        finally:
            self._queue.put_back(tenant_id, place)

    def _acquire(self, tenant_id: str, _request: None) -> bool | None:
        return True if self._queue.held.get(tenant_id, 0) < _LISTS_AT_ONCE else None


class GuardedRoute(APIRoute):
    """A route that requires the scope listed for it in `access`. A route that is not listed cannot be made."""

    def get_route_handler(self) -> Handler:
        """Wrap FastAPI's handler: authenticate, require the scope, read the JSON body, and only then call it."""
        inner = super().get_route_handler()
        routes = {(method, self.path_format) for method in self.methods or ()}
        if routes <= SIGNED_ROUTES | TOKEN_ROUTES | PUBLIC_ROUTES:
            return inner
        (route,) = routes
        scope, audited = ROUTE_SCOPES[route], AUDITED_ROUTES.get(route)
        takes_json, most_bytes = self.body_field is not None, _LONG_BODIES.get(route, JSON_BODY_BYTES)
        is_list = route[0] == "GET" and not self.param_convertors and route not in WAITING_ROUTES

        async def handle(request: Request) -> Response:
            try:
                principal = (await authorize(request, scope)).value
                if any("\0" in value for value in request.path_params.values()):
                    raise NotFound  # no id of ours holds a NUL, and PostgreSQL refuses to be asked for one
                if principal.limits.contexts:
                    await _keep_to_contexts(request, principal, route)
                if is_list:
                    gate: ListGate = request.app.state.list_gate
                    async with gate.hold(principal.tenant_id):
                        return await inner(request)
                response = await inner(await _read_json(request, most_bytes) if takes_json else request)
            except (ScopeMissing, KeyLimited) as refused:
                await _log_refusal(request, audited, refused.code)
                raise
            if audited is not None:
                failpoint("response.made")
            return response

        return handle


async def authorize(
    request: Request,
    scope: Scope | None,
    *,
    since: float | None = None,
    again: bool = False,
    takes_tokens: Method | None = None,
    continues: bool = False,
) -> Cached[Principal]:
    """Return who is asking, if they hold `scope`; raise `Unauthenticated`, `ScopeMissing` or `TooManyRequests`.

    What is known of the caller may have been read at `since` (monotonic clock) or later; by default it is read now.
    `again`: the request was authorized before. An upload token is a credential only if the route `takes_tokens` for a
    method of sending; `continues`: also an expired one, for its own uploads.

    A request with a key counts in the key's rate unless it `continues` an upload. Raise `KeyLimited` for a key that may
    not be used from the client's address.
    """
    authenticator: Authenticator = request.app.state.authenticator
    authenticated = await authenticator.authenticate(
        request, since=since, again=again, takes_tokens=takes_tokens, continues=continues
    )
    principal = authenticated.value
    request.state.principal = principal
    structlog.contextvars.bind_contextvars(tenant_id=principal.tenant_id)
    if not again:
        keep_place(request, principal.tenant_id, is_guest=principal.permit is not None)
    if scope is not None and not principal.allows(scope):
        raise ScopeMissing(scope.value)
    if principal.key_id is not None and principal.limits.rate_per_minute is not None and not (again or continues):
        limiter = request.app.state.services.uploads.limiter
        try:
            await take_request(limiter, principal.key_id, principal.limits)
        except TooManyRequests:
            if since is None:
                raise
            return await authorize(request, scope)  # a refusal is never based on a cached row
    return authenticated


def keep_place(request: Request, tenant_id: str, *, is_guest: bool = False) -> None:
    """Keep the connection open until this request of a tenant or a guest has its response; raise `TooManyRequests`.

    Until then it is the first to be closed for a new one.
    """
    keep: Callable[..., None] | None = getattr(request.state, "keep_place", None)  # absent without a connection
    if keep is not None:
        keep(tenant_id, is_guest=is_guest)


async def caller(request: Request) -> Principal:
    """Return who is asking, as a dependency of the endpoints."""
    principal: Principal = request.state.principal
    return principal


async def audit_action(request: Request) -> AuditAction:
    """Return what the caller is about to do, as a dependency of the endpoints that `AUDITED_ROUTES` lists."""
    audited = AUDITED_ROUTES[request.method, request.scope["route"].path_format]
    return AuditAction(request.state.principal, audited.action, request.state.request_id)


async def _keep_to_contexts(request: Request, principal: Principal, route: Route) -> None:
    """Raise `KeyLimited` or `NotFound` unless the path is one for a key that is limited to some contexts."""
    if route not in CONTEXT_ROUTES:
        raise KeyLimited("context: this request is about the whole tenant, and the key is limited to contexts")
    services: Services = request.app.state.services
    tenant_id, named, allowed = principal.tenant_id, request.path_params, principal.limits.contexts
    is_allowed = True
    if "context_key" in named:
        require_context(principal, named["context_key"])
    elif "file_id" in named:
        is_allowed = await services.files.context_of(tenant_id, named["file_id"]) in allowed
    elif "report_id" in named:
        is_allowed = (await services.reports.get(tenant_id, named["report_id"])).context_key in allowed
    elif "token_id" in named:
        is_allowed = (await services.upload_tokens.get(tenant_id, named["token_id"])).context_key in allowed
    elif "job_id" in named:  # each of its own jobs is of a context that it might use when it began the job
        job = await services.jobs.get(tenant_id, named["job_id"])
        is_allowed = (job.via, job.actor_id) == (principal.via, principal.actor_id)
    if not is_allowed:
        raise NotFound


async def _log_refusal(request: Request, audited: Audited | None, code: str) -> None:
    if audited is not None and hasattr(request.state, "principal"):
        services: Services = request.app.state.services
        target = request.path_params.get(audited.target)
        await services.audit.refused(await audit_action(request), target, code)


class _JsonRequest(Request):
    """A request whose JSON body was read already."""

    def __init__(self, request: Request, raw: bytes, value: object) -> None:
        super().__init__(request.scope, request.receive)
        self._raw = raw
        self._value = value

    async def body(self) -> bytes:
        return self._raw

    async def json(self) -> Any:
        return self._value


async def read_body(request: Request, most_bytes: int) -> AsyncIterator[bytes]:
    """Yield the chunks of a body; raise `BodyTooLarge`, before a byte if its length is declared, or `Malformed`.

    How fast the chunks must come is the business of `http1`.
    """
    received = 0
    declared = request.headers.get("content-length")
    if declared is not None and int(declared) > most_bytes:
        raise BodyTooLarge(most_bytes)
    try:
        async for chunk in request.stream():
            received += len(chunk)
            if received > most_bytes:
                raise BodyTooLarge(most_bytes)
            yield chunk
    except ClientDisconnect as fault:
        raise Malformed(errors=["body: ended before its announced length"]) from fault


async def _read_json(request: Request, most_bytes: int) -> Request:
    raw = b"".join([chunk async for chunk in read_body(request, most_bytes)])
    if not raw.strip():
        raise Invalid("body: expected a JSON object, found nothing")
    _require_json_type(request)
    require_uncompressed(request)
    try:
        return _JsonRequest(request, raw, read_json(raw))
    except NotStrictJson as fault:
        raise Invalid(f"body: {fault}") from fault


def require_uncompressed(request: Request) -> None:
    """Raise `UnsupportedBody` for a compressed body: nothing here decompresses it, and a proxy before us may (RFC 9110
    section 8.4).
    """
    coding = ",".join(request.headers.getlist("content-encoding")).strip(_BLANKS).lower()
    if coding not in {"", "identity"}:
        raise UnsupportedBody("none", field="Content-Encoding")


def _require_json_type(request: Request) -> None:
    """Raise `UnsupportedBody` unless Content-Type is JSON, in UTF-8 where it names a charset (RFC 8259 sections 8.1
    and 11).
    """
    media_type, semicolon, rest = request.headers.get("content-type", "").partition(";")
    media_type = media_type.strip(_BLANKS).lower()
    if media_type != "application/json" and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise UnsupportedBody("application/json")
    charsets = {charset.strip(_BLANKS).strip('"').lower() for charset in _CHARSET.findall(semicolon + rest)}
    if charsets - {"utf-8", "utf8"}:
        raise UnsupportedBody("application/json in UTF-8")
