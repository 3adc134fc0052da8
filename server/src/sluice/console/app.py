"""The routes of the console: the scope that each page requires, and what holds for every request."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import structlog
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from sluice.access import Principal, Scope
from sluice.api.error_responses import render
from sluice.api.guards import Guards
from sluice.api.route import ListGate, keep_place
from sluice.audit import AuditAction
from sluice.console.assets import serve_asset
from sluice.console.pages import (
    actors,
    audit,
    buckets,
    contexts,
    erasures,
    examples,
    external_checks,
    files,
    find,
    hashes,
    integrate,
    jobs,
    keys,
    login,
    overview,
    preferences,
    quarantine,
    rejections,
    users,
    webhooks,
)
from sluice.console.templating import Templates, make_environment, query
from sluice.console.visit import (
    HEADERS,
    Failed,
    Visit,
    cookie_name,
    is_same_origin,
    may_carry_sessions,
    read_form,
    redirect,
)
from sluice.db.database import DatabaseUnavailable
from sluice.errors import (
    CrossOrigin,
    HttpsNeeded,
    MethodNotAllowed,
    NotFound,
    ScopeMissing,
    ServiceUnavailable,
    SluiceError,
    Unauthenticated,
)
from sluice.observe.log import log
from sluice.services import Services
from sluice.sessions import Session
from sluice.usage import Backlog

Handler = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Screen:
    """A page, or a form that it sends: who may use it, and the audit action of a form that changes something.

    `again` is the path of the page that has the form: it is shown with the reason, and what was typed, when the form is
    not carried out.
    """

    method: str
    path: str
    scope: Scope | tuple[Scope, ...] | None  # of several, one is enough
    handle: Handler
    action: str | None = None
    reads_form: bool = True  # otherwise the page reads the body itself
    again: str | None = None

    @property
    def scopes(self) -> tuple[Scope | None, ...]:
        """The scopes of which one is enough."""
        return self.scope if isinstance(self.scope, tuple) else (self.scope,)

    def is_open_to(self, principal: Principal) -> bool:
        """Return whether a user may use it."""
        return any(principal.allows(scope) for scope in self.scopes)


# A reviewer sees what was found in the files that come into quarantine.
_REPORTS: Final = (Scope.METADATA, Scope.REVIEW)

# Every page of a signed-in user. None is any user.
PAGES: Final[Sequence[Screen]] = (
    Screen("GET", "/console", None, overview.home),
    Screen("POST", "/console/logout", None, login.logout, "console.signed_out"),
    Screen("POST", "/console/times", None, preferences.choose_times),
    Screen("GET", "/console/actor", _REPORTS, actors.show),
    Screen("GET", "/console/find", _REPORTS, find.show),
    Screen("GET", "/console/overview", Scope.METADATA, overview.show),
    Screen("GET", "/console/files", Scope.METADATA, files.show_list),
    Screen("GET", "/console/files.csv", Scope.METADATA, files.export),
    Screen("POST", "/console/files/delete", Scope.DELETE, files.delete, "file.deleted", again="/console/files"),
    Screen("GET", "/console/files/deleted", Scope.METADATA, files.show_deleted),
    Screen(
        "POST", "/console/files/restore", Scope.DELETE, files.restore, "file.restored", again="/console/files/deleted"
    ),
    Screen("GET", "/console/files/all", Scope.DELETE, jobs.show_all),
    Screen("POST", "/console/files/all", Scope.DELETE, jobs.begin_all, "job.created", again="/console/files/all"),
    Screen("POST", "/console/files/export", Scope.METADATA, jobs.export_all, "job.created", again="/console/files"),
    Screen("GET", "/console/files/{file_id}", Scope.METADATA, files.show),
    Screen(
        "POST",
        "/console/files/{file_id}/rescan",
        Scope.REVIEW,
        files.rescan,
        "file.rescan_asked",
        again="/console/files/{file_id}",
    ),
    Screen("GET", "/console/files/{file_id}/receipt", Scope.METADATA, files.receipt),
    Screen("GET", "/console/files/{file_id}/preview", Scope.DOWNLOAD, files.preview, "file.previewed"),
    Screen(
        "POST",
        "/console/files/{file_id}/link",
        Scope.DOWNLOAD,
        files.link,
        "file.linked",
        again="/console/files/{file_id}",
    ),
    Screen(
        "POST", "/console/files/{file_id}/hold", Scope.ADMIN, files.hold, "file.held", again="/console/files/{file_id}"
    ),
    Screen(
        "POST",
        "/console/files/{file_id}/unhold",
        Scope.ADMIN,
        files.unhold,
        "file.unheld",
        again="/console/files/{file_id}",
    ),
    Screen("GET", "/console/rejections", _REPORTS, rejections.show_groups),
    Screen(
        "POST", "/console/rejections", Scope.REVIEW, rejections.mark, "rejections.reviewed", again="/console/rejections"
    ),
    Screen("GET", "/console/reports", _REPORTS, rejections.show_list),
    Screen("GET", "/console/reports.csv", _REPORTS, rejections.export),
    Screen("GET", "/console/reports/{report_id}", _REPORTS, rejections.show),
    Screen("GET", "/console/jobs", Scope.METADATA, jobs.show_list),
    Screen("GET", "/console/jobs/new", Scope.METADATA, jobs.show_new),
    Screen("POST", "/console/jobs/new", Scope.METADATA, jobs.export_all, "job.created", again="/console/jobs/new"),
    Screen("GET", "/console/erasures/new", Scope.ADMIN, erasures.show_new),
    Screen("POST", "/console/erasures/new", Scope.ADMIN, erasures.begin, "erasure.created"),
    Screen("GET", "/console/jobs/{job_id}/receipt", Scope.ADMIN, erasures.receipt),
    Screen("GET", "/console/jobs/{job_id}", Scope.METADATA, jobs.show),
    Screen(
        "POST",
        "/console/jobs/{job_id}/cancel",
        Scope.DELETE,
        jobs.cancel,
        "job.cancelled",
        again="/console/jobs/{job_id}",
    ),
    Screen(
        "POST", "/console/jobs/{job_id}/link", Scope.METADATA, jobs.link, "job.linked", again="/console/jobs/{job_id}"
    ),
    Screen("GET", "/console/quarantine", Scope.REVIEW, quarantine.show_list),
    Screen("GET", "/console/quarantine/{file_id}", Scope.REVIEW, quarantine.show),
    Screen(
        "GET",
        "/console/quarantine/{file_id}/preview",
        Scope.REVIEW,
        quarantine.preview,
        "file.quarantine_previewed",
    ),
    Screen(
        "POST",
        "/console/quarantine/{file_id}/release",
        Scope.REVIEW,
        quarantine.release,
        "file.released",
        again="/console/quarantine/{file_id}",
    ),
    Screen(
        "POST",
        "/console/quarantine/{file_id}/refuse",
        Scope.REVIEW,
        quarantine.refuse,
        "file.refused",
        again="/console/quarantine/{file_id}",
    ),
    Screen(
        "POST",
        "/console/quarantine/{file_id}/download",
        Scope.REVIEW,
        quarantine.download,
        "file.quarantine_downloaded",
        again="/console/quarantine/{file_id}",
    ),
    Screen(
        "POST",
        "/console/quarantine/{file_id}/rescan",
        Scope.REVIEW,
        quarantine.rescan,
        "file.rescan_asked",
        again="/console/quarantine/{file_id}",
    ),
    Screen("GET", "/console/contexts", Scope.METADATA, contexts.show_list),
    Screen("GET", "/console/contexts/new", Scope.ADMIN, contexts.show_new),
    Screen("POST", "/console/contexts/new", Scope.ADMIN, contexts.create, "context.created"),
    Screen("GET", "/console/contexts/{context_key}", Scope.METADATA, contexts.show),
    Screen("GET", "/console/contexts/{context_key}/edit", Scope.ADMIN, contexts.show_editor),
    Screen("POST", "/console/contexts/{context_key}/edit", Scope.ADMIN, contexts.change, "context.changed"),
    Screen("GET", "/console/contexts/{context_key}/checks", Scope.ADMIN, external_checks.show),
    Screen("POST", "/console/contexts/{context_key}/checks", Scope.ADMIN, external_checks.save, "context.changed"),
    Screen(
        "POST",
        "/console/contexts/{context_key}/checks/rotate",
        Scope.ADMIN,
        external_checks.rotate,
        "context.check_secret_rotated",
        again="/console/contexts/{context_key}/checks",
    ),
    Screen("GET", "/console/contexts/{context_key}/examples", Scope.METADATA, examples.show),
    Screen(
        "POST",
        "/console/contexts/{context_key}/examples",
        Scope.ADMIN,
        examples.add,
        "context.example_added",
        reads_form=False,
    ),
    Screen(
        "POST",
        "/console/contexts/{context_key}/examples/remove",
        Scope.ADMIN,
        examples.remove,
        "context.example_removed",
        again="/console/contexts/{context_key}/examples",
    ),
    Screen("POST", "/console/contexts/{context_key}/try", Scope.UPLOAD, contexts.try_file, reads_form=False),
    Screen(
        "POST",
        "/console/contexts/{context_key}/hold",
        Scope.ADMIN,
        contexts.hold,
        "context.held",
        again="/console/contexts/{context_key}",
    ),
    Screen(
        "POST",
        "/console/contexts/{context_key}/unhold",
        Scope.ADMIN,
        contexts.unhold,
        "context.unheld",
        again="/console/contexts/{context_key}",
    ),
    Screen("GET", "/console/buckets", Scope.ADMIN, buckets.show_list),
    Screen("GET", "/console/buckets/new", Scope.ADMIN, buckets.show_new),
    Screen("POST", "/console/buckets/new", Scope.ADMIN, buckets.add, "bucket.added"),
    Screen("GET", "/console/buckets/{config_id}", Scope.ADMIN, buckets.show),
    Screen("POST", "/console/buckets/{config_id}/default", Scope.ADMIN, buckets.make_default, "bucket.made_default"),
    Screen(
        "POST",
        "/console/buckets/{config_id}/probe",
        Scope.ADMIN,
        buckets.probe,
        "bucket.probed",
        again="/console/buckets/{config_id}",
    ),
    Screen("POST", "/console/buckets/{config_id}/change", Scope.ADMIN, buckets.change, "bucket.changed"),
    Screen("POST", "/console/buckets/{config_id}/delete", Scope.ADMIN, buckets.delete, "bucket.deleted"),
    Screen("GET", "/console/keys", Scope.ADMIN, keys.show_list),
    Screen("GET", "/console/keys/new", Scope.ADMIN, keys.show_new),
    Screen("POST", "/console/keys/new", Scope.ADMIN, keys.create, "api_key.created"),
    Screen("GET", "/console/keys/{api_key_id}", Scope.ADMIN, keys.show),
    Screen("GET", "/console/keys/{api_key_id}/rotate", Scope.ADMIN, keys.show_rotate),
    Screen("POST", "/console/keys/{api_key_id}/rotate", Scope.ADMIN, keys.rotate, "api_key.rotated"),
    Screen(
        "POST",
        "/console/keys/{api_key_id}/status",
        Scope.ADMIN,
        keys.change_status,
        "api_key.changed",
        again="/console/keys",
    ),
    Screen("GET", "/console/tokens", Scope.ADMIN, keys.show_tokens),
    Screen("GET", "/console/tokens/new", Scope.ADMIN, keys.show_new_token),
    Screen("POST", "/console/tokens/new", Scope.ADMIN, keys.create_token, "upload_token.created"),
    Screen(
        "POST",
        "/console/tokens/{token_id}/revoke",
        Scope.ADMIN,
        keys.revoke_token,
        "upload_token.revoked",
        again="/console/tokens",
    ),
    Screen("GET", "/console/integrate", Scope.METADATA, integrate.show),
    Screen("POST", "/console/integrate", Scope.UPLOAD, integrate.send_test, again="/console/integrate"),
    Screen("GET", "/console/hashes", Scope.METADATA, hashes.show_list),
    Screen("GET", "/console/hashes/new", Scope.ADMIN, hashes.show_new),
    Screen("POST", "/console/hashes/new", Scope.ADMIN, hashes.add, "hash_entry.added"),
    Screen("POST", "/console/hashes/import", Scope.ADMIN, hashes.import_lines, "hash_list.imported"),
    Screen(
        "POST",
        "/console/hashes/{digest}/remove",
        Scope.ADMIN,
        hashes.remove,
        "hash_entry.removed",
        again="/console/hashes",
    ),
    Screen(
        "POST",
        "/console/hashes/{digest}/quarantine",
        Scope.ADMIN,
        hashes.quarantine,
        "job.created",
        again="/console/hashes",
    ),
    Screen("GET", "/console/webhooks", Scope.ADMIN, webhooks.show_list),
    Screen("GET", "/console/webhooks/new", Scope.ADMIN, webhooks.show_new),
    Screen("POST", "/console/webhooks/new", Scope.ADMIN, webhooks.create, "webhook_endpoint.created"),
    Screen("GET", "/console/webhooks/{endpoint_id}", Scope.ADMIN, webhooks.show),
    Screen("GET", "/console/webhooks/{endpoint_id}/edit", Scope.ADMIN, webhooks.show_editor),
    Screen("POST", "/console/webhooks/{endpoint_id}/edit", Scope.ADMIN, webhooks.change, "webhook_endpoint.changed"),
    Screen(
        "POST",
        "/console/webhooks/{endpoint_id}/rotate",
        Scope.ADMIN,
        webhooks.rotate,
        "webhook_endpoint.secret_rotated",
        again="/console/webhooks/{endpoint_id}",
    ),
    Screen("POST", "/console/webhooks/{endpoint_id}/test", Scope.ADMIN, webhooks.test, "webhook_endpoint.tested"),
    Screen(
        "POST",
        "/console/webhooks/{endpoint_id}/recover",
        Scope.ADMIN,
        webhooks.recover,
        "webhook_endpoint.recovered",
    ),
    Screen(
        "POST",
        "/console/webhooks/{endpoint_id}/redeliver",
        Scope.ADMIN,
        webhooks.redeliver,
        "webhook_delivery.redelivered",
        again="/console/webhooks/{endpoint_id}",
    ),
    Screen("POST", "/console/webhooks/{endpoint_id}/delete", Scope.ADMIN, webhooks.delete, "webhook_endpoint.deleted"),
    Screen("GET", "/console/users", Scope.ADMIN, users.show_list),
    Screen("GET", "/console/users/new", Scope.ADMIN, users.show_new),
    Screen("POST", "/console/users/new", Scope.ADMIN, users.invite, "console_user.invited"),
    Screen(
        "POST",
        "/console/users/{user_id}/invite",
        Scope.ADMIN,
        users.invite_again,
        "console_user.invited",
        again="/console/users",
    ),
    Screen(
        "POST",
        "/console/users/{user_id}/change",
        Scope.ADMIN,
        users.change,
        "console_user.changed",
        again="/console/users",
    ),
    Screen(
        "POST",
        "/console/users/{user_id}/sessions",
        Scope.ADMIN,
        users.end_sessions,
        "console_user.sessions_ended",
        again="/console/users",
    ),
    Screen(
        "POST",
        "/console/users/{user_id}/remove",
        Scope.ADMIN,
        users.remove,
        "console_user.removed",
        again="/console/users",
    ),
    Screen("GET", "/console/account", None, users.show_account),
    Screen("POST", "/console/account/options", None, users.begin_passkey),
    Screen(
        "POST", "/console/account/passkeys", None, users.add_passkey, "console_user.passkey_added", reads_form=False
    ),
    Screen("GET", "/console/audit", Scope.ADMIN, audit.show_list),
    Screen("GET", "/console/audit.csv", Scope.ADMIN, audit.export),
)

# Pages of a browser that is not signed in yet
OPEN_PAGES: Final[Sequence[tuple[str, str, Callable[[Request, Templates], Awaitable[Response]]]]] = (
    ("GET", "/console/login", login.show),
    ("POST", "/console/passkey/options", login.begin_passkey),
    ("POST", "/console/passkey", login.finish_passkey),
    ("GET", "/console/join/{invitation}", login.show_invitation),
    ("POST", "/console/join/{invitation}/options", login.begin_joining),
    ("POST", "/console/join/{invitation}", login.join),
    ("GET", "/console/oidc", login.begin_oidc),
    ("GET", "/console/oidc/callback", login.finish_oidc),
    ("GET", "/console/login/{link}", login.open_link),
    ("POST", "/console/login/{link}", login.sign_in),
)


def entry_route(path: str) -> BaseRoute:
    """Return the route of `/`, which leads browsers to `path`; to other clients there is nothing."""
    return _route("/", partial(_lead_in, path=path), make_environment(), ["GET"])


def console_routes() -> Sequence[BaseRoute]:
    """Return the routes of the console."""
    templates = make_environment()
    routes: list[BaseRoute] = []
    for path in dict.fromkeys(page.path for page in PAGES):
        pages = {page.method: page for page in PAGES if page.path == path}
        serve = partial(_serve_page, pages=pages, templates=templates)
        again = pages["POST"].again if "GET" not in pages else None
        routes.append(_route(path, serve, templates, list(pages), again=again))
    for path in dict.fromkeys(path for _method, path, _handle in OPEN_PAGES):
        handlers = {method: handle for method, each, handle in OPEN_PAGES if each == path}
        routes.append(
            _route(path, partial(_serve_open, handlers=handlers, templates=templates), templates, list(handlers))
        )
    routes.append(_route("/console/static/{name}", serve_asset, templates, ["GET"]))
    routes.append(_route("/console/{rest:path}", _unknown, templates, ["GET", "POST"]))
    return routes


def _route(
    path: str,
    serve: Callable[[Request], Awaitable[Response]],
    templates: Templates,
    methods: Sequence[str],
    *,
    again: str | None = None,
) -> Route:
    """Return a route around which `Guards` are, and whose errors are pages.

    `again` is the path of the page that has the form of this route: who loads the address of a form is led there.
    """
    allowed = {*methods, "HEAD"} if "GET" in methods else set(methods)

    async def app(scope: AsgiScope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        scope["route"] = route
        try:
            if request.method in allowed:
                response = await serve(request)
            elif request.method == "GET" and again is not None:
                response = redirect(f"{again.format(**request.path_params)}{query(request.query_params)}")
            else:
                raise MethodNotAllowed  # noqa: TRY301  (shown as every error)
        except SluiceError as error:
            response = _error_page(request, templates, error)
        except DatabaseUnavailable:
            response = _error_page(request, templates, ServiceUnavailable("database"))
        except Exception:  # noqa: BLE001  (the log gets all of it, the caller a page without details)
            # The path of the route, since that of the request may hold the secret of a link or an invitation.
            log.exception("unexpected_error", method=scope["method"], path=path)
            response = _error_page(request, templates, SluiceError())
        await response(scope, receive, send)

    guarded: ASGIApp = Guards(app)
    route = Route(path, guarded)
    return route


async def _serve_page(request: Request, *, pages: dict[str, Screen], templates: Templates) -> Response:
    page = pages["GET" if request.method == "HEAD" else request.method]
    services: Services = request.app.state.services
    if page.method == "POST" and not is_same_origin(request, services):
        return _error_page(request, templates, CrossOrigin())
    if any("\0" in value for value in request.path_params.values()):
        raise NotFound
    if not may_carry_sessions(request, services):
        raise HttpsNeeded
    session = await _find_session(request, services)
    if session is None:
        if page.method == "GET" and request.headers.get("sec-fetch-mode", "navigate") == "navigate":
            return redirect("/console/login")
        return _error_page(request, templates, Unauthenticated())
    principal = session.principal
    structlog.contextvars.bind_contextvars(tenant_id=principal.tenant_id)
    keep_place(request, principal.tenant_id)
    fields = await read_form(request) if page.method == "POST" and page.reads_form else []
    if not page.is_open_to(principal):
        if page.action is not None:
            await services.audit.refused(
                AuditAction(principal, page.action, request.state.request_id),
                next(iter(request.path_params.values()), None),
                ScopeMissing.code,
            )
        raise ScopeMissing(" or ".join(scope.value for scope in page.scopes if scope is not None))
    gate: ListGate = request.app.state.list_gate
    async with gate.hold(principal.tenant_id):
        backlog = request.state.backlog = await services.usage.backlog(principal.tenant_id)
        visit = Visit(request, services, templates, session, principal, dict(fields), fields, backlog)
        try:
            return await page.handle(visit)
        except (NotFound, Unauthenticated):
            raise
        except SluiceError as error:
            again = None if page.again is None else _page_at(page.again)
            if again is None or not again.is_open_to(principal):
                raise
            return await _show_again(visit, again, error)


def _page_at(path: str) -> Screen:
    return next(page for page in PAGES if (page.method, page.path) == ("GET", path))


async def _show_again(visit: Visit, page: Screen, error: SluiceError) -> Response:
    """Return the page that has a form which was not carried out, with the reason and what was typed."""
    path = page.path.format(**visit.request.path_params)
    response = await page.handle(replace(visit, failed=Failed(error.message, error.errors, path)))
    response.status_code = error.status
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(max(1, round(error.retry_after)))
    return response


async def _serve_open(request: Request, *, handlers: dict[str, Any], templates: Templates) -> Response:
    services: Services = request.app.state.services
    if not may_carry_sessions(request, services):
        raise HttpsNeeded
    if request.method == "POST" and not is_same_origin(request, services):
        raise CrossOrigin
    response: Response = await handlers["GET" if request.method == "HEAD" else request.method](request, templates)
    return response


async def _lead_in(request: Request, *, path: str) -> Response:
    if "text/html" not in request.headers.get("accept", ""):
        return render(NotFound(), request)
    return RedirectResponse(path, 303)


async def _find_session(request: Request, services: Services) -> Session | None:
    """Return the session of the browser; errors are then pages with the navigation."""
    text = request.cookies.get(cookie_name(services, "session"))
    request.state.session = None if text is None else await services.sessions.find(text)
    session: Session | None = request.state.session
    return session


async def _unknown(request: Request) -> Response:
    services: Services = request.app.state.services
    if may_carry_sessions(request, services):
        await _find_session(request, services)
    raise NotFound


def _error_page(request: Request, templates: Templates, error: SluiceError) -> Response:
    session: Session | None = getattr(request.state, "session", None)
    shown = {"error": error, "request_id": request.state.request_id}
    if session is None or error.status == Unauthenticated.status:
        html = templates.get_template("error_alone.html").render(shown)
        response: Response = HTMLResponse(html, error.status, headers=dict(HEADERS))
    else:
        backlog = getattr(request.state, "backlog", Backlog(0, 0, 0))  # unknown if the error came before it
        visit = Visit(request, request.app.state.services, templates, session, session.principal, {}, [], backlog)
        response = visit.page("error.html", status=error.status, **shown)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(max(1, round(error.retry_after)))
    return response
