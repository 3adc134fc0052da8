"""Named users: their list, invitations, roles and ends; and what a user does with passkeys of its own."""

from typing import Final

from starlette.responses import Response

from sluice.console.pages.keys import page_request
from sluice.console.pages.login import ceremony_response, read_credential
from sluice.console.visit import Visit, address_of, delete_cookie, redirect
from sluice.errors import Invalid, NotFound, SluiceError
from sluice.kit.clock import utc_now
from sluice.observe.log import log
from sluice.sessions import Role
from sluice.sessions.user import USER_PREFIX
from sluice.users import PasskeyRefused
from sluice.users.service import Invitation

_STATUSES: Final = ("active", "disabled")
_HINTS: Final = {
    Role.VIEWER: "sees files, reports, contexts and jobs",
    Role.REVIEWER: "decides on files in quarantine, too",
    Role.ADMIN: "everything, also users and keys",
}


async def show_list(visit: Visit) -> Response:
    """Show the users."""
    page = await visit.services.users.list_page(visit.tenant_id, page_request(visit))
    return visit.page("users/list.html", page=page, now=utc_now(), roles=list(Role), is_user=_is_user(visit))


async def show_new(visit: Visit) -> Response:
    """Show the form of an invitation."""
    form = visit.form or {"role": Role.VIEWER.value}
    return visit.page("users/new.html", hints=_HINTS, form=form, errors=())


async def invite(visit: Visit) -> Response:
    """Invite a person and show the link, this once."""
    try:
        invitation = await visit.services.users.invite(
            visit.by("console_user.invited"), visit.sent("name"), _role(visit)
        )
    except SluiceError as error:
        return visit.page("users/new.html", status=422, hints=_HINTS, form=visit.form, errors=error.errors)
    return _show_link(visit, invitation)


async def invite_again(visit: Visit) -> Response:
    """Show a new link for a user, this once."""
    by, user_id = visit.by("console_user.invited"), visit.request.path_params["user_id"]
    return _show_link(visit, await visit.services.users.invite_again(by, user_id))


def _show_link(visit: Visit, invitation: Invitation) -> Response:
    site = visit.services.users.site
    host = visit.services.public_url if site is None else site.origin
    return visit.page("users/invited.html", user=invitation.user, link=f"{host}/console/join/{invitation.text}")


async def change(visit: Visit) -> Response:
    """Give a user another role, or disable or enable it."""
    by, user_id = visit.by("console_user.changed"), visit.request.path_params["user_id"]
    if "role" in visit.form:
        await visit.services.users.set_role(by, user_id, _role(visit))
    else:
        status = visit.sent("status")
        if status not in _STATUSES:
            raise Invalid("status: expected 'active' or 'disabled'")
        await visit.services.users.set_status(by, user_id, status)
    return redirect("/console/users")


async def end_sessions(visit: Visit) -> Response:
    """End the sessions of a user."""
    user_id = visit.request.path_params["user_id"]
    await visit.services.users.end_sessions(visit.by("console_user.sessions_ended"), user_id)
    return redirect("/console/users")


async def remove(visit: Visit) -> Response:
    """Ask whether to remove a user, and do it."""
    user_id = visit.request.path_params["user_id"]
    if visit.sent("sure") != "yes":
        return visit.page("users/remove.html", user=await visit.services.users.get(visit.tenant_id, user_id))
    await visit.services.users.remove(visit.by("console_user.removed"), user_id)
    return redirect("/console/users")


async def show_account(visit: Visit) -> Response:
    """Show the passkeys of the user who is signed in."""
    if not _is_user(visit):
        raise NotFound
    passkeys = await visit.services.users.list_passkeys(visit.tenant_id, visit.principal.actor_id)
    refused = visit.asked("notice") == "refused"
    return visit.page("users/account.html", status=403 if refused else 200, passkeys=passkeys, refused=refused)


async def begin_passkey(visit: Visit) -> Response:
    """Return what another passkey of the user is made of."""
    user = await visit.services.users.get(visit.tenant_id, visit.principal.actor_id)
    return ceremony_response(
        visit.services, await visit.services.users.begin_registration(user, address_of(visit.request))
    )


async def add_passkey(visit: Visit) -> Response:
    """Keep another passkey of the user."""
    browser, credential = await read_credential(visit.request)
    try:
        await visit.services.users.add_passkey(visit.by("console_user.passkey_added"), browser, credential)
    except PasskeyRefused as fault:
        log.info("sign_in_refused", why=str(fault))
        response = redirect("/console/account?notice=refused")
    else:
        response = redirect("/console/account")
    delete_cookie(response, visit.services, "passkey")
    return response


def _is_user(visit: Visit) -> bool:
    return visit.principal.actor_id.startswith(USER_PREFIX)


def _role(visit: Visit) -> Role:
    try:
        return Role(visit.sent("role"))
    except ValueError as fault:
        raise Invalid("role: expected 'viewer', 'reviewer' or 'admin'") from fault
