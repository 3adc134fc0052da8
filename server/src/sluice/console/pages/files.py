"""Files: the list with its filters, one file with its report, download links, legal holds, deleting and restoring."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from pydantic import ValidationError
from starlette.responses import Response

from sluice.access import Scope
from sluice.api.routes.downloads import preview_response
from sluice.api.schemas.jobs import FileQuery
from sluice.api.schemas.reports import full_report
from sluice.console.filters import NOTHING, export_csv, read_choice, read_pairs, read_period, read_size
from sluice.console.pages.history import history_of, report_of, scan_words
from sluice.console.templating import query
from sluice.console.visit import HEADERS, Visit, problems_of, redirect
from sluice.errors import FileHeld, Invalid, NoRoomToRestore, NotFound
from sluice.files import FileFilter, FileRecord
from sluice.files.record import FileStatus
from sluice.files.service import MOST_SEARCHED
from sluice.kit.clock import utc_now
from sluice.kit.paging import PageRequest
from sluice.uploads.reasons import Reason

_FILE_ID: Final = re.compile(r"file_[0-9a-z]{26}")
_SHA256: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.IGNORECASE)
_STATES: Final[Mapping[str, FileStatus]] = {"available": "stored", "quarantined": "quarantined"}
_LINK_LIVES: Final = (300, 900, 3600)
_MOST_DELETED: Final = 50
_CONTEXTS_SHOWN: Final = PageRequest(1, 100)
_COLUMNS: Final = (
    "file_id",
    "original_filename",
    "content_type",
    "size_bytes",
    "context_key",
    "uploaded_by",
    "uploaded_by_name",
    "sha256",
    "created_at",
    "download_count",
    "last_downloaded_at",
)


async def show_list(visit: Visit) -> Response:
    """Show files, newest first. An id that is searched for leads to its file."""
    search = visit.asked("q")
    if search is not None and _FILE_ID.fullmatch(search):
        return redirect(f"/console/files/{search}")
    problems: Sequence[str] = ()
    found, total, wanted = NOTHING, 0, FileFilter()
    try:
        wanted = list_filter(visit, utc_now())
        found = await visit.services.files.list_slice(visit.tenant_id, wanted, visit.slice_request())
        total = await visit.services.files.count_found(visit.tenant_id, wanted)
    except Invalid as fault:
        problems = fault.errors
    marks = await visit.services.files.marks_of(visit.tenant_id, [file.file_id for file in found.items])
    contexts = await visit.services.contexts.list_page(visit.tenant_id, None, _CONTEXTS_SHOWN)
    return visit.page(
        "files/list.html",
        status=422 if problems else 200,
        found=found,
        marks=marks,
        total=total,
        more=wanted != FileFilter(wanted.context_key, wanted.uploaded_by) and total >= MOST_SEARCHED,
        contexts=contexts.items,
        reasons=list(Reason),
        is_filtered=wanted != FileFilter(),
        by_name=wanted.filename is not None,
        by_reason=wanted.reason is not None,
        problems=problems,
    )


async def export(visit: Visit) -> Response:
    """Send the files that the list shows as CSV, at most 100,000."""
    wanted = list_filter(visit, utc_now())
    return export_csv(
        "files.csv",
        _COLUMNS,
        lambda request: visit.services.files.list_slice(visit.tenant_id, wanted, request),
        lambda file: file.file_id,
        lambda file: [getattr(file, name) for name in _COLUMNS],
    )


def list_filter(visit: Visit, now: datetime) -> FileFilter:
    """Return the filter of the address, whose times ago are counted back from `now`. Raise `Invalid`."""
    search = visit.asked("q")
    by_hash = None if search is None else _SHA256.fullmatch(search.strip())
    period, state = read_period(visit, now), read_choice(visit, "state", _STATES)
    return FileFilter(
        context_key=visit.asked("context"),
        uploaded_by=visit.asked("uploaded_by"),
        sha256=None if by_hash is None else by_hash[1].lower(),
        filename=search if by_hash is None else None,
        created_after=period.since,
        created_before=period.before,
        status=None if state is None else _STATES[state],
        reason=read_choice(visit, "reason", list(Reason)),
    )


def job_filter(visit: Visit, until: datetime, *, required: bool = True) -> FileFilter:
    """Return the filter of the address for a job on all files that match it and were stored before `until`.

    In addition to those of the list it may have a type, a size and metadata. Raise `Invalid` for a wrong value, and
    without a filter, which would match all files of a tenant.
    """
    body = {
        "content_type": visit.asked("type"),
        "min_size": read_size(visit, "min_size"),
        "metadata": read_pairs(visit.asked("metadata") or "") or None,
    }
    try:
        more = FileQuery.model_validate(body).to_filter()
    except ValidationError as fault:
        raise Invalid(*problems_of(fault)) from fault
    wanted = replace(
        list_filter(visit, until), content_type=more.content_type, min_size=more.min_size, metadata=more.metadata
    )
    if required and wanted == FileFilter():
        raise Invalid("context: choose which files, by context, uploader or name")
    return replace(wanted, created_before=min(until, wanted.created_before or until))


async def show(visit: Visit) -> Response:
    """Show one file; of a deleted one, how it is restored."""
    try:
        return await _show(visit)
    except NotFound:
        deleted = await visit.services.files.get_deleted(visit.tenant_id, visit.request.path_params["file_id"])
        history = await history_of(visit, deleted, await report_of(visit, deleted.report_id))
        return visit.page("files/show_deleted.html", status=404, file=deleted, history=history)


async def show_deleted(visit: Visit) -> Response:
    """Show deleted files that can be restored, the last deletions first."""
    context_key = visit.asked("context")
    found = await visit.services.files.list_deleted(visit.tenant_id, context_key, visit.slice_request())
    contexts = await visit.services.contexts.list_page(visit.tenant_id, None, _CONTEXTS_SHOWN)
    total = await visit.services.files.count_deleted(visit.tenant_id, context_key)
    return visit.page(
        "files/deleted.html", found=found, total=total, more=total >= MOST_SEARCHED, contexts=contexts.items
    )


async def link(visit: Visit) -> Response:
    """Make a download link and show it. The link is made for this user: it is in the audit log."""
    seconds = visit.sent("expires_in")
    if seconds not in map(str, _LINK_LIVES):
        raise Invalid("expires_in: expected one of the listed times")
    made = await visit.services.files.link(visit.by("file.linked"), visit.request.path_params["file_id"], int(seconds))
    return await _show(visit, download=made)


async def _show(visit: Visit, download: object = None) -> Response:
    file = await visit.services.files.get(visit.tenant_id, visit.request.path_params["file_id"])
    quarantined = await visit.services.files.quarantine_of(visit.tenant_id, file.file_id)
    buckets = await visit.services.buckets.list_all(visit.tenant_id) if visit.allows(Scope.ADMIN) else ()
    life = await visit.services.files.life_of(visit.tenant_id, file.file_id)
    report_id = await visit.services.files.report_id_of(visit.tenant_id, file.file_id)
    scan = await visit.services.files.last_scan(visit.tenant_id, file.file_id)
    report = await report_of(visit, report_id)
    return visit.page(
        "files/show.html",
        file=file,
        quarantined=quarantined,
        life=life,
        bucket=next((bucket for bucket in buckets if bucket.config_id == file.storage_config_id), None),
        report=None if report is None else full_report(report, None),
        scan=scan,
        found=scan_words(scan),
        history=await history_of(visit, file, report, quarantined=quarantined, life=life, scan=scan),
        download=download,
        lives=_LINK_LIVES,
    )


async def preview(visit: Visit) -> Response:
    """Send a picture of what a file shows."""
    file_id = visit.request.path_params["file_id"]
    png = await visit.services.previews.open(visit.by("file.previewed"), file_id, 1200, is_quarantined=False)
    return preview_response(png)


async def receipt(visit: Visit) -> Response:
    """Send the signed receipt of a file, which states what was checked and stored."""
    file_id = visit.request.path_params["file_id"]
    signed = await visit.services.receipts.of_file(visit.tenant_id, file_id)
    headers = dict(HEADERS) | {"Content-Disposition": f'attachment; filename="{file_id}.jws"'}
    return Response(signed, media_type="application/jose", headers=headers)


async def delete(visit: Visit) -> Response:
    """Delete the chosen files; before that, ask."""
    chosen = [value for name, value in visit.fields if name == "file_id"][:_MOST_DELETED]
    if not chosen:
        raise Invalid("file_id: choose the files to delete")
    if visit.sent("sure") != "yes":
        files: list[FileRecord] = [await visit.services.files.get(visit.tenant_id, file_id) for file_id in chosen]
        return visit.page("files/delete.html", files=files)
    deleted = []
    for file_id in chosen:
        try:
            await visit.services.files.delete(visit.by("file.deleted"), file_id)
            deleted.append(file_id)
        except (NotFound, FileHeld):  # another user was faster, or holds it
            continue
    kept = len(chosen) - len(deleted)
    return redirect(f"/console/files{query([('notice', 'deleted'), ('kept', kept or None)], undo=' '.join(deleted))}")


async def restore(visit: Visit) -> Response:
    """Restore the chosen files: one, those of a list, or those that were just deleted."""
    chosen = [value for name, value in visit.fields if name == "file_id"][:_MOST_DELETED]
    if not chosen:
        raise Invalid("file_id: choose the files to restore")
    restored, full = 0, 0
    for file_id in chosen:
        try:
            await visit.services.files.restore(visit.by("file.restored"), file_id)
            restored += 1
        except NotFound:  # its purge has begun
            continue
        except NoRoomToRestore:
            full += 1
    if len(chosen) == 1 and restored:
        return redirect(f"/console/files/{chosen[0]}?notice=restored")
    outcome = {"notice": "restored", "restored": restored, "full": full, "gone": len(chosen) - restored - full}
    return redirect(f"/console/files/deleted{query(outcome)}")


async def rescan(visit: Visit) -> Response:
    """Let the worker scan a file again."""
    file_id = visit.request.path_params["file_id"]
    await visit.services.files.ask_rescan(visit.by("file.rescan_asked"), file_id, visit.why("comment"))
    return redirect(f"/console/files/{file_id}?notice=rescan_asked")


async def hold(visit: Visit) -> Response:
    """Put a legal hold on a file, stored or deleted."""
    file_id = visit.request.path_params["file_id"]
    await visit.services.files.hold(visit.by("file.held"), file_id, visit.why("reason"))
    return redirect(f"/console/files/{file_id}?notice=held")


async def unhold(visit: Visit) -> Response:
    """End the hold on a file."""
    file_id = visit.request.path_params["file_id"]
    await visit.services.files.unhold(visit.by("file.unheld"), file_id)
    return redirect(f"/console/files/{file_id}?notice=unheld")
