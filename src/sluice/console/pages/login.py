"""Signing in with a one-time link, and signing out."""

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sluice.api.services import ApiServices
from sluice.console.templating import Templates
from sluice.console.visit import HEADERS, Visit, cookie_name, delete_cookie, redirect, set_cookie
from sluice.errors import Unauthenticated
from sluice.sessions import Session
from sluice.sessions.service import LINK_LIFE, SESSION_LIFE


async def show(_request: Request, templates: Templates) -> Response:
    """Show how to sign in."""
    return _page(templates, "login.html", refused=False)


async def open_link(request: Request, templates: Templates) -> Response:
    """Bind a link to this browser and ask whether to sign in.

    Nobody is signed in by GET: programs that look at links in messages open them too.
    """
    services: ApiServices = request.app.state.services
    link = request.path_params["link"]
    if request.method == "HEAD":
        return _page(templates, "login.html", refused=False)
    try:
        opened = await services.sessions.open_link(link, request.cookies.get(cookie_name(services, "login")))
        tenant = await services.tenants.get(opened.link.tenant_id)
    except Unauthenticated:
        return _page(templates, "login.html", refused=True, status=403)
    response = _page(templates, "login_confirm.html", link=opened.link, tenant=tenant, path=request.url.path)
    set_cookie(response, services, "login", opened.browser, seconds=int(LINK_LIFE.total_seconds()))
    return response


async def sign_in(request: Request, templates: Templates) -> Response:
    """Use the link up and begin a new session; one that this browser had before ends."""
    services: ApiServices = request.app.state.services
    try:
        issued = await services.sessions.sign_in(
            request.path_params["link"], request.cookies.get(cookie_name(services, "login"), "")
        )
    except Unauthenticated:
        return _page(templates, "login.html", refused=True, status=403)
    earlier = request.cookies.get(cookie_name(services, "session"))
    if earlier is not None and (session := await services.sessions.find(earlier)) is not None:
        await services.sessions.end(session)
    response = redirect("/console")
    set_cookie(response, services, "session", issued.text, seconds=int(SESSION_LIFE.total_seconds()))
    delete_cookie(response, services, "login")
    return response


async def logout(visit: Visit) -> Response:
    """End the session, in this browser and in the database."""
    session: Session = visit.session
    await visit.services.sessions.end(session, visit.request.state.request_id)
    response = redirect("/console/login")
    delete_cookie(response, visit.services, "session")
    response.headers["Clear-Site-Data"] = '"cache", "storage"'
    return response


def _page(templates: Templates, name: str, *, status: int = 200, **values: object) -> Response:
    html = templates.get_template(name).render(values)
    return HTMLResponse(html, status, headers=dict(HEADERS))
