"""The history of a file: its upload, what its row says, and what the audit log says was done to it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sluice.access import Scope
from sluice.audit import AuditFilter
from sluice.console.templating import show_words
from sluice.console.visit import Visit
from sluice.errors import NotFound
from sluice.files import Quarantined
from sluice.files.record import DeletedFileRow, FileRecord, LastScan, Life
from sluice.kit.paging import SliceRequest
from sluice.uploads.reasons import Reason
from sluice.uploads.report import VerdictReport

_SHOWN: Final = SliceRequest(50)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An event in the life of a file. `actor_id` is None if the service did it, `path` leads to more about it.

    `actions` are the audit actions that record the same: their entries, which say more, replace this one.
    """

    at: datetime
    what: str
    actor_id: str | None = None
    actor_name: str = ""
    reason: str = ""
    path: str = ""
    refused: bool = False
    actions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """The entries of a file, newest first; `has_more`: the audit log has older ones that are not among them."""

    file_id: str
    entries: Sequence[HistoryEntry]
    has_more: bool


async def report_of(visit: Visit, report_id: str) -> VerdictReport | None:
    """Return the report of the upload of a file; None if it is gone: reports are kept for a limited time."""
    try:
        return await visit.services.reports.get(visit.tenant_id, report_id)
    except NotFound:
        return None


async def history_of(
    visit: Visit,
    file: FileRecord | DeletedFileRow | Quarantined,
    report: VerdictReport | None,
    *,
    quarantined: Quarantined | None = None,
    life: Life | None = None,
    scan: LastScan | None = None,
) -> History:
    """Return what was done to a file. The entries of the audit log are for users who may read it."""
    known = [*_uploaded(file, report), *_quarantined(quarantined, report), *_kept(file, life)]
    if quarantined is not None and visit.allows(Scope.REVIEW):
        known += _reviewed(quarantined)
    scanned_at = scan.scanned_at if scan is not None else None if quarantined is None else quarantined.scanned_at
    if scanned_at is not None and scanned_at != file.created_at:
        known.append(HistoryEntry(scanned_at, "Scanned again", reason="" if scan is None else scan_words(scan)))
    if not visit.allows(Scope.ADMIN):
        return History(file.file_id, _newest_first(known), has_more=False)
    wanted = AuditFilter(target=file.file_id)
    found = await visit.services.audit.list_slice(visit.tenant_id, wanted, _SHOWN)
    recorded = {entry.action for entry in found.items if entry.outcome == "done"}
    audited = [
        HistoryEntry(
            entry.created_at,
            show_words(entry.action.removeprefix("file.")),
            entry.actor_id,
            entry.actor_name,
            entry.reason or "",
            refused=entry.outcome == "refused",
        )
        for entry in found.items
    ]
    others = [entry for entry in known if recorded.isdisjoint(entry.actions)]
    return History(file.file_id, _newest_first([*audited, *others]), has_more=found.has_older)


def scan_words(scan: LastScan) -> str:
    """Return what came out of a later scan of a file."""
    if not scan.is_rescan:  # its decision is no longer kept
        return ""
    if scan.reason is None:
        return "Nothing was found"
    if scan.threat is not None and scan.reason == Reason.VIRUS_DETECTED:
        return f"Found: {scan.threat}"
    return f"{show_words(scan.reason)}: {scan.detail}"


def _newest_first(entries: Sequence[HistoryEntry]) -> Sequence[HistoryEntry]:
    return sorted(entries, key=lambda entry: entry.at, reverse=True)


def _uploaded(file: FileRecord | DeletedFileRow | Quarantined, report: VerdictReport | None) -> Iterator[HistoryEntry]:
    if report is not None:
        yield HistoryEntry(report.created_at, "Stored, in quarantine" if report.outcome == "quarantined" else "Stored")
        judged = show_words(report.outcome if report.reason is None else f"{report.outcome}: {report.reason.value}")
        yield HistoryEntry(report.created_at, "Judged", reason=judged, path=f"/console/reports/{report.report_id}")
    yield HistoryEntry(file.created_at, "Uploaded", file.uploaded_by, file.uploaded_by_name)


def _quarantined(quarantined: Quarantined | None, report: VerdictReport | None) -> Iterator[HistoryEntry]:
    if quarantined is None or (report is not None and report.created_at == quarantined.quarantined_at):
        return  # it was put there by its upload
    why = quarantined.threat or (quarantined.reason and show_words(quarantined.reason)) or ""
    yield HistoryEntry(quarantined.quarantined_at, "Quarantined", reason=why, actions=("file.quarantined",))


def _reviewed(quarantined: Quarantined) -> Iterator[HistoryEntry]:
    at, by, decision = quarantined.reviewed_at, quarantined.reviewed_by, quarantined.review_decision
    if at is not None and by is not None and decision is not None:
        what = {"release": "Release asked", "refuse": "Refusal asked"}[decision]
        yield HistoryEntry(at, what, by, by, actions=("file.release_asked", "file.refusal_asked"))


def _kept(file: FileRecord | DeletedFileRow | Quarantined, life: Life | None) -> Iterator[HistoryEntry]:
    hold = None if life is None else life.hold
    if hold is not None:
        what, actions = ("Held", ("file.held",)) if hold.on == "file" else ("Context held", ())
        yield HistoryEntry(hold.held_at, what, hold.held_by, hold.held_by, hold.reason, actions=actions)
    if isinstance(file, FileRecord) and file.last_downloaded_at is not None:
        yield HistoryEntry(file.last_downloaded_at, "Downloaded last", actions=("file.linked",))
    if isinstance(file, DeletedFileRow):
        if file.held_at is not None and file.held_by is not None:
            reason = file.hold_reason or ""
            yield HistoryEntry(file.held_at, "Held", file.held_by, file.held_by, reason, actions=("file.held",))
        yield HistoryEntry(file.deleted_at, "Deleted", actions=("file.deleted", "file.expired", "file.refused"))
