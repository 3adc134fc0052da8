"""Signing in with a one-time link or at the OIDC issuer, and signing out."""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sluice.api.authenticate import Authenticator
from sluice.console.templating import Templates
from sluice.console.visit import HEADERS, Visit, address_of, cookie_name, delete_cookie, read_form, redirect, set_cookie
from sluice.errors import NotFound, ServiceUnavailable, Unauthenticated
from sluice.identity import InvalidToken, IssuerUnavailable, SignInAttempt
from sluice.observe.log import log
from sluice.services import Services
from sluice.sessions import Session
from sluice.sessions.service import LINK_LIFE, SESSION_LIFE, IssuedSession
from sluice.sessions.session import new_secret
from sluice.users import PasskeyRefused
from sluice.users.passkeys import CHALLENGE_SECONDS
from sluice.users.service import Ceremony

_ATTEMPT_SECONDS: Final = 600
_ATTEMPT: Final = re.compile(r"([\w-]{43})\.([\w-]{43})\.([\w-]{43})", re.ASCII)


async def show(request: Request, templates: Templates) -> Response:
    """Show how to sign in."""
    return _login(request, templates)


async def open_link(request: Request, templates: Templates) -> Response:
    """Bind a link to this browser and ask whether to sign in.

    A GET request never signs in: programs that scan the links in messages send it too.
    """
    services: Services = request.app.state.services
    link = request.path_params["link"]
    if request.method == "HEAD":
        return _login(request, templates)
    try:
        opened = await services.sessions.open_link(link, request.cookies.get(cookie_name(services, "login")))
        tenant = await services.tenants.get(opened.link.tenant_id)
    except Unauthenticated:
        return _login(request, templates, refused="link")
    response = _page(templates, "login_confirm.html", link=opened.link, tenant=tenant, path=request.url.path)
    set_cookie(response, services, "login", opened.browser, seconds=int(LINK_LIFE.total_seconds()))
    return response


async def sign_in(request: Request, templates: Templates) -> Response:
    """Use the link up and begin a new session; one that this browser had before ends."""
    services: Services = request.app.state.services
    try:
        issued = await services.sessions.sign_in(
            request.path_params["link"], request.cookies.get(cookie_name(services, "login"), "")
        )
    except Unauthenticated:
        return _login(request, templates, refused="link")
    response = await _signed_in(request, issued)
    delete_cookie(response, services, "login")
    return response


async def _signed_in(request: Request, issued: IssuedSession) -> Response:
    """Return the way into the console, with the cookie of a new session; the earlier one of this browser ends."""
    services: Services = request.app.state.services
    earlier = request.cookies.get(cookie_name(services, "session"))
    if earlier is not None and (session := await services.sessions.find(earlier)) is not None:
        await services.sessions.end(session)
    response = redirect("/console")
    set_cookie(response, services, "session", issued.text, seconds=int(SESSION_LIFE.total_seconds()))
    return response


async def begin_passkey(request: Request, _templates: Templates) -> Response:
    """Return what a passkey has to sign, for the script of the sign-in page."""
    services: Services = request.app.state.services
    return ceremony_response(services, await services.users.begin_sign_in(address_of(request)))


async def finish_passkey(request: Request, templates: Templates) -> Response:
    """Begin the session of the user whose passkey signed."""
    services: Services = request.app.state.services
    browser, credential = await read_credential(request)
    try:
        issued = await services.users.sign_in(browser, credential, request.state.request_id)
    except (PasskeyRefused, Unauthenticated) as fault:
        log.info("sign_in_refused", why=str(fault))
        response = _login(request, templates, refused="passkey")
    else:
        response = await _signed_in(request, issued)
    delete_cookie(response, services, "passkey")
    return response


async def show_invitation(request: Request, templates: Templates) -> Response:
    """Show who is invited. Nothing is used up: programs that scan the links in messages send this request too."""
    services: Services = request.app.state.services
    try:
        user = await services.users.find_invited(request.path_params["invitation"])
    except Unauthenticated:
        return _login(request, templates, refused="invitation")
    tenant = await services.tenants.get(user.tenant_id)
    return _page(templates, "join.html", user=user, tenant=tenant, path=request.url.path, site=services.users.site)


async def begin_joining(request: Request, _templates: Templates) -> Response:
    """Return what the passkey of an invited user is made of."""
    services: Services = request.app.state.services
    user = await services.users.find_invited(request.path_params["invitation"])
    return ceremony_response(services, await services.users.begin_registration(user, address_of(request)))


async def join(request: Request, templates: Templates) -> Response:
    """Use an invitation up: keep the passkey and begin the session."""
    services: Services = request.app.state.services
    browser, credential = await read_credential(request)
    try:
        issued = await services.users.join(
            request.path_params["invitation"], browser, credential, request.state.request_id
        )
    except Unauthenticated:
        response = _login(request, templates, refused="invitation")
    except PasskeyRefused as fault:
        log.info("sign_in_refused", why=str(fault))
        response = _login(request, templates, refused="passkey")
    else:
        response = await _signed_in(request, issued)
    delete_cookie(response, services, "passkey")
    return response


def ceremony_response(services: Services, ceremony: Ceremony) -> Response:
    """Return the options for a script, with what binds them to this browser in a cookie."""
    response = Response(ceremony.options, media_type="application/json", headers=dict(HEADERS))
    set_cookie(response, services, "passkey", ceremony.browser, seconds=CHALLENGE_SECONDS)
    return response


async def read_credential(request: Request) -> tuple[str, str]:
    """Return the browser's text of a ceremony, and the credential in the form that ends it."""
    services: Services = request.app.state.services
    fields = dict(await read_form(request))
    return request.cookies.get(cookie_name(services, "passkey"), ""), fields.get("credential", "")


async def begin_oidc(request: Request, _templates: Templates) -> Response:
    """Send the browser to the issuer, with what binds its response to this browser in a cookie."""
    services: Services = request.app.state.services
    if services.sign_in is None:
        raise NotFound
    attempt = SignInAttempt(new_secret(), new_secret(), new_secret())
    try:
        address = await services.sign_in.address(attempt, _redirect_uri(services))
    except IssuerUnavailable as fault:
        log.warning("issuer_unavailable", why=str(fault))
        raise ServiceUnavailable("identity provider") from fault
    response = redirect(address)
    kept = f"{attempt.state}.{attempt.nonce}.{attempt.verifier}"
    set_cookie(response, services, "oidc", kept, seconds=_ATTEMPT_SECONDS)
    return response


async def finish_oidc(request: Request, templates: Templates) -> Response:
    """Begin the session of who comes back from the issuer; any response that is not to this browser is refused."""
    services: Services = request.app.state.services
    if services.sign_in is None:
        raise NotFound
    kept = _ATTEMPT.fullmatch(request.cookies.get(cookie_name(services, "oidc"), ""))
    returned = dict(request.query_params)
    try:
        if kept is None or request.method == "HEAD" or len(returned) != len(request.query_params.multi_items()):
            raise InvalidToken("this browser did not ask for it")  # noqa: TRY301  (refused as every wrong response)
        claims = await services.sign_in.finish(SignInAttempt(*kept.groups()), _redirect_uri(services), returned)
        authenticator: Authenticator = request.app.state.authenticator
        caller = (await authenticator.caller_of(claims)).value
        issued = await services.sessions.begin(caller, request.state.request_id)
    except InvalidToken as fault:
        log.info("sign_in_refused", why=str(fault))
        response = _login(request, templates, refused="oidc")
    except Unauthenticated:
        response = _login(request, templates, refused="rights")
    except IssuerUnavailable as fault:
        log.warning("issuer_unavailable", why=str(fault))
        raise ServiceUnavailable("identity provider") from fault
    else:
        response = await _signed_in(request, issued)
    delete_cookie(response, services, "oidc")
    return response


def _redirect_uri(services: Services) -> str:
    return f"{services.public_url}/console/oidc/callback"


async def logout(visit: Visit) -> Response:
    """End the session, in this browser and in the database."""
    session: Session = visit.session
    await visit.services.sessions.end(session, visit.request.state.request_id)
    response = redirect("/console/login")
    delete_cookie(response, visit.services, "session")
    response.headers["Clear-Site-Data"] = '"cache", "storage"'
    return response


def _login(request: Request, templates: Templates, *, refused: str = "") -> Response:
    services: Services = request.app.state.services
    return _page(
        templates,
        "login.html",
        status=403 if refused else 200,
        refused=refused,
        has_issuer=services.sign_in is not None,
        site=services.users.site,
    )


def _page(templates: Templates, name: str, *, status: int = 200, **values: object) -> Response:
    html = templates.get_template(name).render(values)
    return HTMLResponse(html, status, headers=dict(HEADERS))
