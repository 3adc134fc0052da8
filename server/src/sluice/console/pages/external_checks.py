"""The external checks of a context: the form for them, and their secrets, which are shown once."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from starlette.responses import Response

from sluice.api.schemas.contexts import UpdateContext
from sluice.console.visit import Visit, problems_of, redirect
from sluice.contexts import Context
from sluice.contexts.external_checks import MOST_CHECKS, ExternalCheck
from sluice.errors import NotFound, SluiceError

IF_UNAVAILABLE_WORDS: Final = {
    "refuse": "the upload gets 503",
    "quarantine": "the file goes into quarantine",
    "accept": "the file is stored, and its report says so",
}
_FIELDS: Final = ("name", "url", "mode", "if_unavailable", "timeout_seconds")
_NUMBERS: Final = range(1, MOST_CHECKS + 1)


async def show(visit: Visit) -> Response:
    """Show the form for the checks of a context."""
    context = await _context(visit)
    form = {
        f"{field}_{number}": str(value)
        for number, check in enumerate(context.external_checks, 1)
        for field, value in check.public.items()
    }
    return _form(visit, context, form)


def _form(visit: Visit, context: Context, form: Mapping[str, str], errors: Sequence[str] = ()) -> Response:
    return visit.page(
        "external_checks/edit.html",
        status=422 if errors else 200,
        context=context,
        form=form,
        errors=errors,
        numbers=_NUMBERS,
        if_unavailable_words=IF_UNAVAILABLE_WORDS,
    )


async def save(visit: Visit) -> Response:
    """Save the form, and show the secrets of new checks, this once."""
    context = await _context(visit)
    try:
        body = UpdateContext.model_validate({"external_checks": _sent_checks(visit)})
        by = visit.by("context.changed")
        changed = await visit.services.contexts.change(by, context.context_key, body.changes())
    except ValidationError as fault:
        return _form(visit, context, visit.form, problems_of(fault))
    except NotFound:
        raise
    except SluiceError as error:
        return _form(visit, context, visit.form, error.errors)
    made = [check for check in changed.external_checks if check.secret is not None]
    if made:
        return _secrets(visit, context, made)
    return redirect(f"/console/contexts/{context.context_key}")


async def rotate(visit: Visit) -> Response:
    """Give a check a new secret and show it, this once; before that, ask."""
    context, name = await _context(visit), visit.sent("name")
    if visit.sent("sure") != "yes":
        return visit.page("external_checks/rotate.html", context=context, name=name)
    by = visit.by("context.check_secret_rotated")
    check = await visit.services.contexts.rotate_check_secret(by, context.context_key, name)
    return _secrets(visit, context, [check])


def _secrets(visit: Visit, context: Context, checks: Sequence[ExternalCheck]) -> Response:
    return visit.page("external_checks/secrets.html", context=context, checks=checks)


async def _context(visit: Visit) -> Context:
    return await visit.services.contexts.get(visit.tenant_id, visit.request.path_params["context_key"])


def _sent_checks(visit: Visit) -> list[dict[str, Any]]:
    """Return the checks of the form as the API takes them; one without a name and a URL is none."""
    rows = [{field: visit.sent(f"{field}_{number}") for field in _FIELDS} for number in _NUMBERS]
    checks: list[dict[str, Any]] = [dict(row) for row in rows if row["name"] or row["url"]]
    for check in checks:
        seconds = check["timeout_seconds"]
        if seconds.isascii() and seconds.isdecimal() and len(seconds) < 6:  # noqa: PLR2004  (others are explained)
            check["timeout_seconds"] = int(seconds)
    return checks
