"""Jobs: the list, one with its progress, cancelling one, and beginning one on all files that match a filter."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, get_args

from starlette.responses import Response

from sluice.access import Scope
from sluice.console.pages.files import job_filter, list_filter
from sluice.console.visit import Visit, redirect
from sluice.erasures.service import pages_of
from sluice.errors import Invalid, ScopeMissing
from sluice.files import FileFilter
from sluice.files.search import FoundFiles
from sluice.jobs import BulkKind, ExportFormat, Job, JobKind, JobState
from sluice.jobs.job import KINDS, filter_from_json
from sluice.kit.clock import utc_now
from sluice.kit.paging import PageRequest

_PAGE_SIZE: Final = 50
_FIRST_TEN: Final = PageRequest(1, 10)
_CONTEXTS_SHOWN: Final = PageRequest(1, 100)
_MOST_PAGES: Final = 200
_LINK_LIVES: Final = 900
_MOST_FILES: Final = 1_000_000
_MOST_DIGITS: Final = 12
_STATES: Final[tuple[JobState, ...]] = get_args(JobState)
_SHOWN_KINDS: Final[tuple[JobKind, ...]] = tuple(kind for kind in get_args(JobKind) if kind != "tenant_delete")
_BULK: Final[dict[str, BulkKind]] = {"delete": "bulk_delete", "restore": "bulk_restore"}


async def show_list(visit: Visit) -> Response:
    """Show the jobs of the last 30 days, newest first."""
    asked = visit.asked("page") or "1"
    number = min(int(asked), _MOST_PAGES) if asked.isdecimal() and len(asked) < 6 else 1  # noqa: PLR2004
    state: JobState | None = next((each for each in _STATES if each == visit.asked("state")), None)
    kind: JobKind | None = next((each for each in _SHOWN_KINDS if each == visit.asked("kind")), None)
    request = PageRequest(max(1, number), _PAGE_SIZE)
    page = await visit.services.jobs.list_page(visit.tenant_id, state, kind, request)
    return visit.page("jobs/list.html", page=page, states=_STATES, kinds=_SHOWN_KINDS)


async def show(visit: Visit) -> Response:
    """Show one job: how far it is, what it left as it was, and what can be done next."""
    return await _show(visit)


async def _show(visit: Visit, link: object = None) -> Response:
    job = await visit.services.jobs.get(visit.tenant_id, visit.request.path_params["job_id"])
    kept = job.params.get("filter")
    return visit.page(
        "jobs/show.html",
        job=job,
        is_active=job.ended_at is None,
        percent=_percent(job),
        filter=None if kept is None else _shown_filter(filter_from_json(kept)),
        receipt_pages=pages_of(job) if job.kind == "erasure" and job.state == "done" else 0,
        may_cancel=job.ended_at is None and visit.allows(KINDS[job.kind]) and visit.allows(Scope.DELETE),
        link=link,
    )


def _percent(job: Job) -> float | None:
    """Return how much of a job is done, in percent; None if its files were not counted."""
    if job.state == "done":
        return 100.0
    return None if not job.total else min(100.0, round(100 * (job.done + job.skipped) / job.total, 1))


def _shown_filter(wanted: FileFilter) -> list[tuple[str, str]]:
    shown = {name: getattr(wanted, name) for name in FileFilter.__slots__ if name != "metadata"}
    lines = [
        (name, f"{value:%Y-%m-%d %H:%M:%S} UTC" if isinstance(value, datetime) else str(value))
        for name, value in shown.items()
        if value not in (None, ())
    ]
    return [*lines, *((f"metadata {name}", value) for name, value in wanted.metadata)]


async def cancel(visit: Visit) -> Response:
    """Cancel a job that has not ended. Who may not begin its kind may not end it."""
    job = await visit.services.jobs.get(visit.tenant_id, visit.request.path_params["job_id"])
    if not visit.allows(KINDS[job.kind]):
        raise ScopeMissing(KINDS[job.kind].value)
    await visit.services.jobs.cancel(visit.by("job.cancelled"), job.job_id)
    return redirect(f"/console/jobs/{job.job_id}")


async def link(visit: Visit) -> Response:
    """Make a link that downloads what an export wrote, and show it."""
    made = await visit.services.jobs.link(visit.by("job.linked"), visit.request.path_params["job_id"], _LINK_LIVES)
    return await _show(visit, made)


async def show_new(visit: Visit) -> Response:
    """Show the form that chooses files for a job; with a filter, their number, the newest, and what can be done."""
    problems: Sequence[str] = ()
    found: FoundFiles | None = None
    total, now = None, utc_now()
    if visit.filters:
        try:
            wanted = job_filter(visit, now)
            found = await visit.services.files.search(visit.tenant_id, wanted, "-created_at", _FIRST_TEN)
            total = await _count(visit, now)
        except Invalid as fault:
            problems = fault.errors
    contexts = await visit.services.contexts.list_page(visit.tenant_id, None, _CONTEXTS_SHOWN)
    return visit.page(
        "jobs/new.html",
        status=422 if problems else 200,
        form=visit.filters,
        found=found,
        total=total,
        contexts=contexts.items,
        problems=problems,
        errors=problems,
    )


async def show_all(visit: Visit) -> Response:
    """Ask before all files that match a filter are deleted or restored: how many they are is to be typed."""
    action, now = _bulk_action(visit.asked("action")), utc_now()
    job_filter(visit, now)  # which requires one
    total = await _count(visit, now) if action == "delete" else None
    return await _ask(visit, action, now, total)


def _bulk_action(action: str | None) -> str:
    if action not in _BULK:
        raise Invalid(f"action: expected one of {', '.join(_BULK)}")
    return action


async def _ask(visit: Visit, action: str, until: datetime, total: int | None, errors: tuple[str, ...] = ()) -> Response:
    return visit.page(
        "jobs/all.html",
        status=422 if errors else 200,
        action=action,
        filter=_shown_filter(job_filter(visit, until)),
        until=until.isoformat(),
        total=total,
        word=_word(action, total),
        errors=errors,
    )


async def _count(visit: Visit, until: datetime) -> int | None:
    """Return how many stored files match the filter of the address, None if they are too many to be counted."""
    wanted, listed = job_filter(visit, until), list_filter(visit, until)
    by_context_and_uploader = FileFilter(listed.context_key, listed.uploaded_by)
    if listed == by_context_and_uploader and wanted == replace(listed, created_before=until):
        return await visit.services.files.count(visit.tenant_id, listed.context_key, listed.uploaded_by)
    return await visit.services.jobs.count(visit.tenant_id, wanted)


def _word(action: str, total: int | None) -> str:
    """Return what the user has to type: the number of files, or the action if the number is unknown or too large."""
    return action if total is None or total > _MOST_FILES else str(total)


async def begin_all(visit: Visit) -> Response:
    """Begin the job on all files that match the filter of the address and were stored when the page asked.

    It changes no more files than the page said.
    """
    action, until = _bulk_action(visit.asked("action")), _moment(visit.sent("until"))
    shown = visit.sent("total")
    total = int(shown) if shown.isdecimal() and shown.isascii() and len(shown) <= _MOST_DIGITS else None
    word = _word(action, total)
    if visit.sent("typed").replace(",", "").lower() != word:
        return await _ask(visit, action, until, total, (f"typed: expected {word}",))
    most = min(total or _MOST_FILES, _MOST_FILES)
    wanted = job_filter(visit, until)
    job = await visit.services.jobs.change_found(visit.by("job.created"), _BULK[action], wanted, most)
    return redirect(f"/console/jobs/{job.job_id}")


async def export_all(visit: Visit) -> Response:
    """Begin a job that exports the metadata of all files that match the filter of the address."""
    kind: ExportFormat = "ndjson" if visit.sent("format") == "ndjson" else "csv"
    job = await visit.services.jobs.export(visit.by("job.created"), job_filter(visit, utc_now(), required=False), kind)
    return redirect(f"/console/jobs/{job.job_id}")


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as fault:
        raise Invalid("until: expected the moment at which the page asked") from fault
    if moment.tzinfo is None or moment > utc_now():
        raise Invalid("until: expected the moment at which the page asked")
    return moment
