"""The erasure of a person: what it would do, its beginning, and its receipt. Its progress is the page of its job."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from starlette.responses import Response

from sluice.api.routes.erasures import CreateErasure
from sluice.console.filters import read_pairs
from sluice.console.visit import HEADERS, Visit, problems_of, redirect
from sluice.erasures.service import MOST_COMPARED, MOST_COUNTED, MOST_TOKENS, ErasurePreview
from sluice.erasures.subject import ErasureSubject
from sluice.errors import Invalid, NotFound, SluiceError

_WORD: Final = "erase"
_MOST_DIGITS: Final = 6


async def show_new(visit: Visit) -> Response:
    """Ask whose files and names are erased; once the address says it, show what would be erased, and ask to confirm."""
    asked = {name: visit.asked(name) or "" for name in ("uploaded_by", "end_user", "metadata")}
    return await _show_new(visit, asked)


async def _show_new(visit: Visit, asked: Mapping[str, str], errors: Sequence[str] = ()) -> Response:
    preview: ErasurePreview | None = None
    if any(asked.values()):
        try:
            preview = await visit.services.erasures.preview(visit.tenant_id, _subject(asked))
        except Invalid as fault:
            errors = fault.errors
    return visit.page(
        "erasures/new.html",
        status=422 if errors else 200,
        form=asked,
        preview=preview,
        most=MOST_COUNTED,
        compared=MOST_COMPARED,
        most_tokens=MOST_TOKENS,
        word=_WORD,
        errors=errors,
    )


def _subject(asked: Mapping[str, str]) -> ErasureSubject:
    body: dict[str, Any] = {name: asked[name].strip() or None for name in ("uploaded_by", "end_user")}
    body["metadata"] = read_pairs(asked["metadata"]) or None
    try:
        return CreateErasure.model_validate(body).to_subject()
    except ValidationError as fault:
        problems = problems_of(fault)
        raise Invalid(*problems) from fault


async def begin(visit: Visit) -> Response:
    """Begin the erasure that the page showed, once its word is typed."""
    asked = {name: visit.sent(name) for name in ("uploaded_by", "end_user", "metadata")}
    if visit.sent("typed").lower() != _WORD:
        return await _show_new(visit, asked, [f"typed: expected {_WORD}"])
    try:
        job = await visit.services.erasures.create(visit.by("erasure.created"), _subject(asked))
    except SluiceError as error:
        return await _show_new(visit, asked, error.errors)
    return redirect(f"/console/jobs/{job.job_id}")


async def receipt(visit: Visit) -> Response:
    """Send a page of the signed list of what an erasure erased and what a hold kept."""
    job_id, asked = visit.request.path_params["job_id"], visit.asked("page") or "1"
    if not asked.isascii() or not asked.isdecimal() or len(asked) > _MOST_DIGITS or int(asked) == 0:
        raise NotFound
    found = await visit.services.erasures.receipt(visit.tenant_id, job_id, int(asked))
    name = job_id if found.pages == 1 else f"{job_id}-{found.page}"
    headers = dict(HEADERS) | {"Content-Disposition": f'attachment; filename="{name}.jws"'}
    return Response(found.receipt, media_type="application/jose", headers=headers)
