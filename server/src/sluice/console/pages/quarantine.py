"""Files in quarantine: what a later scan found a threat in, or a policy put there, and the decisions of reviewers."""

from typing import Final

from starlette.responses import Response

from sluice.api.routes.downloads import preview_response
from sluice.api.routes.quarantine import protected_archive
from sluice.api.schemas.reports import full_report
from sluice.console.pages.history import history_of, report_of
from sluice.console.visit import PAGE_SIZE, Visit, redirect
from sluice.errors import NotFound, ServiceUnavailable
from sluice.files import FileFilter, Quarantined
from sluice.files.record import ReviewDecision
from sluice.files.service import MOST_SEARCHED
from sluice.kit.paging import PageRequest

_BYTES_SHOWN: Final = 512
_BYTES_PER_LINE: Final = 16
_CONTEXTS_SHOWN: Final = PageRequest(1, 100)


async def show_list(visit: Visit) -> Response:
    """Show the files in quarantine, the oldest upload first."""
    context_key = visit.asked("context")
    found = await visit.services.quarantine.list_some(visit.tenant_id, context_key, visit.asked("after"), PAGE_SIZE + 1)
    wanted = FileFilter(context_key=context_key, status="quarantined")
    counted = await visit.services.files.search(visit.tenant_id, wanted, "created_at", PageRequest(1, 1))
    contexts = await visit.services.contexts.list_page(visit.tenant_id, None, _CONTEXTS_SHOWN)
    return visit.page(
        "quarantine/list.html",
        files=found[:PAGE_SIZE],
        has_more=len(found) > PAGE_SIZE,
        total=counted.page.total,
        at_least=counted.page.total >= MOST_SEARCHED,
        contexts=contexts.items,
        two_persons=visit.services.quarantine.needs_two_persons,
    )


async def show(visit: Visit) -> Response:
    """Show one file in quarantine: its report, its first bytes as numbers, and what can be decided."""
    file = await _file(visit)
    report = await report_of(visit, file.report_id)
    try:
        shown = hex_lines(await visit.services.files.first_bytes(visit.tenant_id, file.file_id, _BYTES_SHOWN))
    except (NotFound, ServiceUnavailable):
        shown = None
    return visit.page(
        "quarantine/show.html",
        file=file,
        report=None if report is None else full_report(report, None),
        history=await history_of(visit, file, report, quarantined=file),
        lines=shown,
        two_persons=visit.services.quarantine.needs_two_persons,
    )


def hex_lines(content: bytes) -> list[tuple[str, str, str]]:
    """Return offset, bytes as numbers, and bytes as text, of each line; what is not ASCII is a dot."""
    lines = []
    for start in range(0, len(content), _BYTES_PER_LINE):
        part = content[start : start + _BYTES_PER_LINE]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)  # noqa: PLR2004  (ASCII)
        lines.append((f"{start:08x}", part.hex(" "), text))
    return lines


async def release(visit: Visit) -> Response:
    """Make a file available again; before that, ask, and for a comment."""
    return await _decide(visit, "release")


async def refuse(visit: Visit) -> Response:
    """Delete a file; before that, ask, and for a comment."""
    return await _decide(visit, "refuse")


async def _decide(visit: Visit, decision: ReviewDecision) -> Response:
    file = await _file(visit)
    if visit.sent("sure") != "yes":
        two_persons = visit.services.quarantine.needs_two_persons
        return visit.page("quarantine/decide.html", file=file, decision=decision, two_persons=two_persons)
    action = {"release": "file.released", "refuse": "file.refused"}[decision]
    outcome = await visit.services.quarantine.review(visit.by(action), file.file_id, decision, visit.why("comment"))
    if outcome == "awaits_second":
        return redirect(f"/console/quarantine/{file.file_id}?notice=awaits_second")
    return redirect(f"/console/quarantine?notice={outcome}")


async def rescan(visit: Visit) -> Response:
    """Let the worker scan a file again; it stays in quarantine."""
    file = await _file(visit)
    await visit.services.quarantine.ask_rescan(visit.by("file.rescan_asked"), file.file_id, visit.why("comment"))
    return redirect(f"/console/quarantine/{file.file_id}?notice=rescan_asked")


async def download(visit: Visit) -> Response:
    """Download a file as an archive with a password, so that nothing opens it by mistake."""
    by = visit.by("file.quarantine_downloaded")
    return await protected_archive(by, visit.request.path_params["file_id"], visit.services)


async def preview(visit: Visit) -> Response:
    """Send a picture of what a file shows: nothing of the file but pixels."""
    file_id = visit.request.path_params["file_id"]
    png = await visit.services.previews.open(visit.by("file.quarantine_previewed"), file_id, 1200, is_quarantined=True)
    return preview_response(png)


async def _file(visit: Visit) -> Quarantined:
    file = await visit.services.files.quarantine_of(visit.tenant_id, visit.request.path_params["file_id"])
    if file is None:
        raise NotFound
    return file
