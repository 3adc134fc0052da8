"""One request to the console: who is signed in, what was sent, and how a page is made for them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Final
from urllib.parse import parse_qsl

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from sluice.access import Principal, Scope
from sluice.api.error_responses import describe
from sluice.api.route import read_body
from sluice.audit import AuditAction
from sluice.console.templating import Templates
from sluice.errors import Invalid, Malformed, Unauthenticated
from sluice.kit.paging import SliceRequest
from sluice.kit.read_through_cache import Cached
from sluice.kit.text import is_plain
from sluice.services import Services
from sluice.sessions import Session
from sluice.uploads.snapshot import ReadPrincipal
from sluice.usage import MOST_COUNTED, Backlog

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Without any referrer, browsers send forms with the origin `null`.
    "Referrer-Policy": "same-origin",
}
FORM_BYTES: Final = 64 * 1024
_MOST_FIELDS: Final = 200
PAGE_SIZE: Final = 50
_MOST_WORDS: Final = 1000
_NOTICES: Final = frozenset({"notice", "undo", "kept", "marked", "restored", "full", "gone", "number"})
_PLACE_IN_LIST: Final = frozenset({"before", "after", "page"}) | _NOTICES
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """A line of the navigation: its group, where it leads, and who sees it. `also` are other paths of the same page."""

    group: str
    label: str
    path: str
    scopes: tuple[Scope, ...]  # one of them is enough
    also: tuple[str, ...] = ()

    def is_visible_to(self, principal: Principal) -> bool:
        """Return whether a user may see the page."""
        return any(principal.allows(scope) for scope in self.scopes)

    def is_at(self, path: str) -> bool:
        """Return whether a path is this page or one below it."""
        return any(path == each or path.startswith(f"{each}/") for each in (self.path, *self.also))


NAVIGATION: Final[Sequence[NavigationEntry]] = (
    NavigationEntry("", "Overview", "/console/overview", (Scope.METADATA,)),
    NavigationEntry("Uploads", "Files", "/console/files", (Scope.METADATA,)),
    NavigationEntry(
        "Uploads", "Rejections", "/console/rejections", (Scope.METADATA, Scope.REVIEW), ("/console/reports",)
    ),
    NavigationEntry("Uploads", "Quarantine", "/console/quarantine", (Scope.REVIEW,)),
    NavigationEntry("Uploads", "Jobs", "/console/jobs", (Scope.METADATA,), ("/console/erasures",)),
    NavigationEntry("Setup", "Contexts", "/console/contexts", (Scope.METADATA,)),
    NavigationEntry("Setup", "Buckets", "/console/buckets", (Scope.ADMIN,)),
    NavigationEntry("Setup", "Keys", "/console/keys", (Scope.ADMIN,), ("/console/tokens",)),
    NavigationEntry("Setup", "Users", "/console/users", (Scope.ADMIN,)),
    NavigationEntry("Setup", "Integrate", "/console/integrate", (Scope.METADATA,)),
    NavigationEntry("Setup", "Hash lists", "/console/hashes", (Scope.METADATA,)),
    NavigationEntry("Setup", "Webhooks", "/console/webhooks", (Scope.ADMIN,)),
    NavigationEntry("Record", "Audit", "/console/audit", (Scope.ADMIN,)),
)


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a form was not carried out, for the page that shows the form again, whose address is `path`."""

    title: str
    problems: Sequence[str]
    path: str


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of a user who is signed in, and may do what it asks for. `form` has the last value of each field.

    `failed` says why a form was not carried out, when a page shows it again.
    """

    request: Request
    services: Services
    templates: Templates
    session: Session
    principal: Principal
    form: Mapping[str, str]
    fields: Sequence[tuple[str, str]]
    backlog: Backlog
    failed: Failed | None = None

    @property
    def shows_moments(self) -> bool:
        """Whether pages show times as moments, and not as a time ago: as the user's cookie says."""
        return self.request.cookies.get(cookie_name(self.services, "times")) == "absolute"

    @property
    def filters(self) -> Mapping[str, str]:
        """The values of the address that filter a list, without the place in it and what happened last."""
        return {name: value for name, value in self.request.query_params.items() if name not in _PLACE_IN_LIST}

    @property
    def tenant_id(self) -> str:
        """The tenant whose things are shown."""
        return self.principal.tenant_id

    def by(self, action: str) -> AuditAction:
        """Return what the user is about to do, for the audit log."""
        return AuditAction(self.principal, action, self.request.state.request_id)

    def allows(self, scope: Scope) -> bool:
        """Return whether the user has a scope."""
        return self.principal.allows(scope)

    def asked(self, name: str) -> str | None:
        """Return a value of the address, None if it is missing or empty."""
        return self.request.query_params.get(name) or None

    def sent(self, name: str) -> str:
        """Return a field of the form without the blanks around it; empty if it is missing."""
        return self.form.get(name, "").strip()

    def has_sent(self, name: str, value: str) -> bool:
        """Return whether a field of the form has this value among others, as ticked boxes of one name have."""
        return (name, value) in self.fields

    def why(self, name: str) -> str:
        """Return a field that says why, for the audit log. Raise `Invalid`."""
        text = self.sent(name)
        if not text or len(text) > _MOST_WORDS or not is_plain(text, lines=True):
            raise Invalid(f"{name}: expected 1 to {_MOST_WORDS} characters that say why")
        return text

    def slice_request(self) -> SliceRequest:
        """Return which rows of a list are asked for."""
        return SliceRequest(PAGE_SIZE, before=self.asked("before"), after=self.asked("after"))

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Return a page of the console."""
        visible = [entry for entry in NAVIGATION if entry.is_visible_to(self.principal)]
        shown = {
            "visit": self,
            "navigation": [(group, list(entries)) for group, entries in groupby(visible, attrgetter("group"))],
            "waiting": {
                "Quarantine": self.backlog.quarantined,
                "Jobs": self.backlog.active_jobs,
                "Webhooks": self.backlog.failing_endpoints,
            },
            "most_counted": MOST_COUNTED,
            "path": self.request.url.path if self.failed is None else self.failed.path,
            "asked": dict(self.request.query_params),
            "filters": self.filters,
            "shows_moments": self.shows_moments,
            "notice": None,
        }
        html = self.templates.get_template(template).render(shown | values)
        return HTMLResponse(html, status, headers=dict(HEADERS))


def uploader_of(visit: Visit, principal: Principal) -> tuple[Cached[Principal], ReadPrincipal]:
    """Return the caller of an upload from a page, and how it is read again: it may upload while the session lasts."""

    async def read_again(_since: float) -> Cached[Principal]:
        read_at = time.monotonic()
        if await visit.services.sessions.is_over(visit.session):
            raise Unauthenticated
        return Cached(principal, read_at)

    return Cached(principal, time.monotonic()), read_again


def problems_of(fault: ValidationError) -> Sequence[str]:
    """Return what is wrong with the fields of a form, in sentences that begin with the field."""
    return describe([{**problem, "loc": ("body", *problem["loc"])} for problem in fault.errors()])


def address_of(request: Request) -> str:
    """Return the address of the browser; empty if it is unknown."""
    return request.client.host if request.client else ""


def redirect(path: str) -> Response:
    """Return a redirect that the browser follows with GET."""
    return RedirectResponse(path, 303, headers=dict(HEADERS))


async def read_form(request: Request) -> list[tuple[str, str]]:
    """Return the fields of a form; raise `BodyTooLarge` or `Malformed`."""
    raw = b"".join([chunk async for chunk in read_body(request, FORM_BYTES)])
    try:
        text = raw.decode("ascii")
        # Browsers send line ends of text areas as CRLF.
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError as fault:
        raise Malformed(errors=["body: expected fields of a form"]) from fault
    return [(name, value.replace("\r\n", "\n")) for name, value in pairs]


def is_same_origin(request: Request, services: Services) -> bool:
    """Return whether a page of this console sent the request.

    Each browser of today names the relation in `Sec-Fetch-Site`; `Origin` is compared too where it is sent. A request
    with neither is from no browser that could be trusted.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is not None:
        host = request.headers.get("host", "")
        return host != "" and origin.lower() in {f"{scheme}://{host}".lower() for scheme in _schemes(request, services)}
    return site is not None


def _schemes(request: Request, services: Services) -> set[str]:
    """Return the schemes by which a browser may have reached this host.

    A proxy that ends TLS need not say so: the public address does. Browsers on this machine may go round the proxy.
    """
    seen = request.url.scheme  # of the connection, or of `X-Forwarded-Proto` from a trusted proxy
    if not is_https(services):
        return {seen}
    return {"https", seen} if request.url.hostname in _LOOPBACK else {"https"}


def is_https(services: Services) -> bool:
    """Return whether browsers reach the service over https."""
    return services.public_url.startswith("https://")


def may_carry_sessions(request: Request, services: Services) -> bool:
    """Return whether a cookie is safe here: over https, or between a browser and a server on one machine."""
    return is_https(services) or request.url.hostname in _LOOPBACK


def cookie_name(services: Services, kind: str) -> str:
    """Return the name of a cookie: with the prefix that binds it to this host and https where there is https."""
    return f"__Host-sluice_{kind}" if is_https(services) else f"sluice_{kind}"


def set_cookie(response: Response, services: Services, kind: str, value: str, *, seconds: int) -> None:
    """Give the browser a cookie that no script reads and no other site sends."""
    response.set_cookie(
        cookie_name(services, kind),
        value,
        max_age=seconds,
        path="/",  # as the prefix `__Host-` requires; besides, it replaces a cookie that somebody else set there
        secure=is_https(services),
        httponly=True,
        samesite="lax",
    )


def delete_cookie(response: Response, services: Services, kind: str) -> None:
    """Take a cookie from the browser."""
    set_cookie(response, services, kind, "", seconds=0)
