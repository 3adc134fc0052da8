"""Hash lists: the entries of the tenant, new ones, an import of pasted lines, and the stored files that one denies."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from starlette.responses import Response

from sluice.api.schemas.hash_lists import NewHash
from sluice.console.pages.keys import page_request
from sluice.console.visit import Visit, problems_of, redirect
from sluice.errors import SluiceError
from sluice.hash_lists import EntryFilter, HashList
from sluice.hash_lists.entry import ALGORITHMS, EXPECTED_DIGEST, LISTS, parse_digest

_LISTS: Final = tuple(reversed(LISTS))  # those that deny first: they are most


async def show_list(visit: Visit) -> Response:
    """Show the entries; of a single one, how many stored files it denies."""
    asked, problems = visit.asked("digest"), list[str]()
    digest = parse_digest(asked) if asked else None
    if asked and digest is None:
        problems.append(f"digest: expected {EXPECTED_DIGEST}")
    on = next((each for each in LISTS if each == visit.asked("list")), None)
    algorithm = next((each for each in ALGORITHMS.values() if each == visit.asked("algorithm")), None)
    wanted = EntryFilter(on, algorithm, digest, visit.asked("added_by") or None)
    page = await visit.services.hash_lists.list_page(visit.tenant_id, wanted, page_request(visit))
    stored: Mapping[str, int] = {}
    if digest is not None and not problems:
        stored = await visit.services.files.count_by_sha256(visit.tenant_id, [digest.hex()])
    return visit.page(
        "hashes/list.html",
        page=page,
        stored=stored,
        lists=_LISTS,
        algorithms=list(ALGORITHMS.values()),
        problems=problems,
    )


async def show_new(visit: Visit) -> Response:
    """Show the forms for one entry, and for many."""
    return _form(visit)


def _form(visit: Visit, errors: Sequence[str] = ()) -> Response:
    return visit.page("hashes/new.html", status=422 if errors else 200, form=visit.form, errors=errors, lists=_LISTS)


async def add(visit: Visit) -> Response:
    """Add one entry."""
    body: dict[str, Any] = {"digest": visit.sent("digest"), "list": visit.sent("list") or "deny"}
    body |= {name: visit.sent(name) or None for name in ("reason", "expires_at")}
    try:
        draft = NewHash.model_validate(body).to_draft()
        await visit.services.hash_lists.add(visit.by("hash_entry.added"), [draft])
    except ValidationError as fault:
        return _form(visit, problems_of(fault))
    except SluiceError as error:
        return _form(visit, error.errors)
    return redirect(f"/console/hashes?digest={draft.digest.hex()}")


async def import_lines(visit: Visit) -> Response:
    """Add the entries of pasted lines."""

    async def lines() -> AsyncIterator[bytes]:
        yield visit.sent("lines").encode()

    on: HashList = "allow" if visit.sent("list") == "allow" else "deny"
    try:
        await visit.services.hash_lists.import_csv(visit.by("hash_list.imported"), lines(), default_list=on)
    except SluiceError as error:
        return _form(visit, error.errors)
    return redirect("/console/hashes")


async def remove(visit: Visit) -> Response:
    """Remove one entry."""
    await visit.services.hash_lists.remove(visit.by("hash_entry.removed"), visit.request.path_params["digest"])
    return redirect("/console/hashes")


async def quarantine(visit: Visit) -> Response:
    """Begin a job that puts the stored files with a denied SHA-256 into quarantine."""
    entry = await visit.services.hash_lists.get_denied(visit.tenant_id, visit.request.path_params["digest"])
    job = await visit.services.jobs.quarantine(visit.by("job.created"), entry)
    return redirect(f"/console/jobs/{job.job_id}")
