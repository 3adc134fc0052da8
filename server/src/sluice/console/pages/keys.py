"""API keys and upload tokens: their lists, new ones and new texts, which are shown once, and how they end."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from pydantic import ValidationError
from starlette.responses import Response

from sluice.access import Scope
from sluice.api.schemas.api_keys import CreateKey, RotateKey
from sluice.api.schemas.upload_tokens import CreateUploadToken
from sluice.api_keys.service import require_grantable
from sluice.console.filters import read_duration
from sluice.console.visit import Visit, problems_of, redirect
from sluice.decisions import DecisionFilter
from sluice.errors import Invalid, NotFound, SluiceError
from sluice.kit.paging import PageRequest, SliceRequest
from sluice.uploads.report import VerdictReport
from sluice.uploads.reports import MOST_LISTED

_PAGE_SIZE: Final = 50
_CONTEXTS_SHOWN: Final = PageRequest(1, 100)
_STATUSES: Final = ("active", "disabled", "revoked")
_NUMBER_DIGITS: Final = 6
_UPLOADS_SHOWN: Final = SliceRequest(100)


def page_request(visit: Visit) -> PageRequest:
    """Return the numbered page that is asked for: these lists are short."""
    asked = visit.asked("page") or "1"
    return PageRequest(int(asked) if asked.isdecimal() and 0 < len(asked) < _NUMBER_DIGITS else 1, _PAGE_SIZE)


async def show_list(visit: Visit) -> Response:
    """Show the API keys."""
    status = visit.asked("status")
    page = await visit.services.api_keys.list_page(
        visit.tenant_id, status if status in _STATUSES else None, page_request(visit)
    )
    return visit.page("keys/list.html", page=page, statuses=_STATUSES)


async def show(visit: Visit) -> Response:
    """Show one key: what it may do, and the last uploads with it."""
    key = await visit.services.api_keys.get(visit.tenant_id, visit.request.path_params["api_key_id"])
    # Uploads of API keys are in no index by their key: one more would cost each of them.
    sent = DecisionFilter(actor_id=key.api_key_id, among_newest=MOST_LISTED)
    found = await visit.services.reports.list_slice(visit.tenant_id, sent, _UPLOADS_SHOWN)
    return visit.page(
        "keys/show.html",
        key=key,
        uploads=[(report, _response_status(report)) for report in found.items],
        has_more=found.has_older,
        searched=MOST_LISTED,
    )


def _response_status(report: VerdictReport) -> str:
    """Return the HTTP status of the response to an upload, or its class where the report tells no more."""
    if report.outcome == "undecided":
        return "5xx"
    if report.outcome == "rejected":
        return "4xx" if report.rejection is None else str(report.rejection.to_error().status)
    return "201"


async def show_new(visit: Visit) -> Response:
    """Show the form for a new key."""
    return visit.page("keys/new.html", scopes=list(Scope), form={}, errors=())


async def show_rotate(visit: Visit) -> Response:
    """Show the form for a new text of a key."""
    key = await visit.services.api_keys.get(visit.tenant_id, visit.request.path_params["api_key_id"])
    return visit.page("keys/rotate.html", key=key, form={"overlap_seconds": "1 d"}, errors=())


async def rotate(visit: Visit) -> Response:
    """Give a key a new text and show it, this once."""
    key_id = visit.request.path_params["api_key_id"]
    body: dict[str, Any] = {}
    if visit.sent("expires_in_days"):
        body["expires_in_days"] = _number(visit.sent("expires_in_days"))
    try:
        body["overlap_seconds"] = read_duration(visit, "overlap_seconds", "overlap_seconds")
        wanted = RotateKey.model_validate(body)
        issued = await visit.services.api_keys.rotate(
            visit.by("api_key.rotated"),
            key_id,
            timedelta(seconds=wanted.overlap_seconds),
            expires_in_days=wanted.expires_in_days,
        )
    except NotFound:
        raise
    except (ValidationError, SluiceError) as fault:
        key = await visit.services.api_keys.get(visit.tenant_id, key_id)
        return visit.page("keys/rotate.html", status=422, key=key, form=visit.form, errors=_problems(fault))
    return visit.page("keys/created.html", issued=issued)


async def create(visit: Visit) -> Response:
    """Create a key and show it, this once."""
    scopes = [scope.value for scope in Scope if visit.sent(f"scope.{scope.value}")]
    body: dict[str, Any] = {"name": visit.sent("name"), "scopes": scopes, "mode": visit.sent("mode") or "live"}
    if visit.sent("expires_in_days"):
        body["expires_in_days"] = _number(visit.sent("expires_in_days"))
    for name in ("contexts", "allowed_networks"):
        body[name] = visit.sent(name).replace(",", " ").split()
    if visit.sent("rate_per_minute"):
        body["rate_per_minute"] = _number(visit.sent("rate_per_minute"))
    try:
        wanted = CreateKey.model_validate(body)
        require_grantable(visit.principal, wanted.scopes)
        issued = await visit.services.api_keys.create(
            visit.by("api_key.created"),
            wanted.name,
            wanted.scopes,
            mode=wanted.mode,
            expires_in_days=wanted.expires_in_days,
            limits=wanted.limits(),
        )
    except (ValidationError, SluiceError) as fault:
        return visit.page("keys/new.html", status=422, scopes=list(Scope), form=visit.form, errors=_problems(fault))
    return visit.page("keys/created.html", issued=issued)


async def change_status(visit: Visit) -> Response:
    """Disable, enable or revoke a key."""
    status = visit.sent("status")
    if status not in _STATUSES:
        raise Invalid("status: expected 'active', 'disabled' or 'revoked'")
    key_id = visit.request.path_params["api_key_id"]
    if status == "revoked" and visit.sent("sure") != "yes":
        key = await visit.services.api_keys.get(visit.tenant_id, key_id)
        return visit.page("keys/revoke.html", key=key)
    await visit.services.api_keys.change(visit.by("api_key.changed"), key_id, {"status": status})
    return redirect("/console/keys")


async def show_tokens(visit: Visit) -> Response:
    """Show the upload tokens."""
    page = await visit.services.upload_tokens.list_page(visit.tenant_id, page_request(visit))
    return visit.page("keys/tokens.html", page=page, now=visit.services.upload_tokens.now())


async def show_new_token(visit: Visit) -> Response:
    """Show the form for a new upload token."""
    return await _token_form(visit)


async def _token_form(visit: Visit, errors: Sequence[str] = ()) -> Response:
    contexts = await visit.services.contexts.list_page(visit.tenant_id, "active", _CONTEXTS_SHOWN)
    return visit.page(
        "keys/new_token.html",
        status=422 if errors else 200,
        contexts=contexts.items,
        form=visit.form or {"context": visit.asked("context") or "", "expires_in": "15 min", "max_files": "1"},
        errors=errors,
    )


async def create_token(visit: Visit) -> Response:
    """Create an upload token and show it, this once."""
    body: dict[str, Any] = {
        "context": visit.sent("context"),
        "max_files": _number(visit.sent("max_files")),
        "allowed_extensions": visit.sent("allowed_extensions").replace(",", " ").split(),
        "allowed_origins": visit.sent("allowed_origins").split(),
        "end_user": visit.sent("end_user") or None,
    }
    try:
        body["expires_in"] = read_duration(visit, "expires_in", "expires_in")
        wanted = CreateUploadToken.model_validate(body)
        issued = await visit.services.upload_tokens.create(visit.by("upload_token.created"), wanted.draft())
    except ValidationError as fault:
        return await _token_form(visit, _problems(fault))
    except NotFound:
        return await _token_form(visit, ["context: there is no such context"])
    except SluiceError as error:
        return await _token_form(visit, error.errors)
    return visit.page(
        "keys/token_created.html", issued=issued, upload_url=f"{visit.services.public_url}/api/v1/files/upload"
    )


async def revoke_token(visit: Visit) -> Response:
    """Revoke an upload token."""
    await visit.services.upload_tokens.revoke(visit.by("upload_token.revoked"), visit.request.path_params["token_id"])
    return redirect("/console/tokens")


def _problems(fault: ValidationError | SluiceError) -> Sequence[str]:
    if isinstance(fault, SluiceError):
        return fault.errors
    return problems_of(fault)


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else text  # noqa: PLR2004
