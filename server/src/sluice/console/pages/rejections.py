"""Rejected uploads: groups of them, the list of reports, and one report with what was expected and found."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from starlette.responses import Response

from sluice.api.schemas.reports import full_report
from sluice.console.filters import NOTHING, export_csv, read_choice, read_period
from sluice.console.templating import query
from sluice.console.visit import Visit, redirect
from sluice.decisions import LINK_UPLOADERS, DecisionFilter, MarkState
from sluice.errors import Invalid
from sluice.kit.clock import utc_now
from sluice.kit.paging import PageRequest, SliceRequest
from sluice.uploads.reasons import Reason
from sluice.uploads.report import VerdictReport
from sluice.uploads.reports import MOST_LISTED
from sluice.uploads.statistics import RejectionGroup, RejectionGroups

_DAYS: Final = 14
_GROUPS_SHOWN: Final = 50
_KEYS_NAMED: Final = PageRequest(1, 100)
_CONTEXTS_SHOWN: Final = PageRequest(1, 100)
_REPORT_ID: Final = re.compile(r"rep_[0-9a-z]{26}")
# What a form asks for: the action for the audit log, and the state of the group.
_MARKS: Final[Mapping[str, tuple[str, MarkState | None]]] = {
    "reviewed": ("rejections.reviewed", "reviewed"),
    "muted": ("rejections.muted", "muted"),
    "open": ("rejections.reopened", None),
}
_LANGUAGES: Final = {
    "en": "English",
    "de": "Deutsch",
    "fr": "Français",
    "es": "Español",
    "it": "Italiano",
    "nl": "Nederlands",
    "pl": "Polski",
    "pt": "Português",
    "ja": "日本語",
    "zh-Hans": "简体中文",
    "ar": "العربية",
    "he": "עברית",
    "tr": "Türkçe",
    "uk": "українська",
    "ko": "한국어",
    "hi": "हिन्दी",
}
_OUTCOMES: Final = ("accepted", "rejected", "quarantined", "undecided")
_COLUMNS: Final = (
    "report_id",
    "created_at",
    "outcome",
    "reason",
    "context_key",
    "original_filename",
    "size_bytes",
    "file_id",
    "uploaded_by",
    "uploaded_by_name",
    "duration_ms",
)


async def show_groups(visit: Visit) -> Response:
    """Show the rejections of the last days by context, reason, extension and uploader."""
    found = await _groups(visit)
    asked = visit.asked("state")
    states: dict[str, Sequence[RejectionGroup]] = {
        "open": found.in_state(None),
        "reviewed": found.in_state("reviewed"),
        "muted": found.in_state("muted"),
    }
    shown = asked if asked is not None and asked in states else "open"
    groups = states[shown][:_GROUPS_SHOWN]
    await visit.services.reports.name_newest(visit.tenant_id, groups)
    today = utc_now().date()
    contexts = await visit.services.contexts.list_page(visit.tenant_id, None, _CONTEXTS_SHOWN)
    keys = await visit.services.api_keys.list_page(visit.tenant_id, None, _KEYS_NAMED)
    return visit.page(
        "rejections/groups.html",
        found=found,
        names={key.api_key_id: key.name for key in keys.items},
        state=shown,
        numbers={name: len(each) for name, each in states.items()},
        groups=groups,
        days=[today - timedelta(days=back) for back in reversed(range(_DAYS))],
        contexts=contexts.items,
        reasons=list(Reason),
        link_uploaders=LINK_UPLOADERS,
    )


async def _groups(visit: Visit) -> RejectionGroups:
    today = utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    since = today - timedelta(days=_DAYS - 1)
    actor_id = visit.asked("uploaded_by")
    wanted = DecisionFilter(visit.asked("context"), reason=_reason(visit), actor_id=actor_id, since=since)
    return await visit.services.reports.groups(visit.tenant_id, wanted)


async def mark(visit: Visit) -> Response:
    """Mark the chosen groups as reviewed or muted, or open them again.

    A field `group` names a group and the newest report that the user has seen of it.
    """
    state = visit.sent("state")
    if state not in _MARKS:
        raise Invalid(f"state: expected one of {', '.join(_MARKS)}")
    known = {group.key.group_id for group in (await _groups(visit)).groups}
    seen = {}
    for name, value in visit.fields:
        group_id, _, report_id = value.partition(" ")
        if name == "group" and group_id in known and _REPORT_ID.fullmatch(report_id):
            seen[group_id] = report_id
    kept = [(name, visit.asked(name)) for name in ("context", "reason", "uploaded_by", "state")]
    if not seen:
        return redirect(f"/console/rejections{query(kept, notice='none_chosen')}")
    action, to_state = _MARKS[state]
    await visit.services.reports.mark(visit.by(action), seen, to_state)
    return redirect(f"/console/rejections{query(kept, notice=state, marked=len(seen))}")


async def show_list(visit: Visit) -> Response:
    """Show reports, newest first."""
    problems: Sequence[str] = ()
    found, total, wanted = NOTHING, 0, DecisionFilter()
    try:
        wanted = _filter(visit)
        found = await visit.services.reports.list_slice(visit.tenant_id, wanted, visit.slice_request())
        total = await visit.services.reports.count(visit.tenant_id, wanted)
    except Invalid as fault:
        problems = fault.errors
    contexts = await visit.services.contexts.list_page(visit.tenant_id, None, _CONTEXTS_SHOWN)
    return visit.page(
        "rejections/list.html",
        status=422 if problems else 200,
        found=found,
        total=total,
        more=total >= MOST_LISTED,
        contexts=contexts.items,
        reasons=list(Reason),
        outcomes=_OUTCOMES,
        is_filtered=wanted != DecisionFilter(),
        problems=problems,
    )


async def export(visit: Visit) -> Response:
    """Send the reports that the list shows as CSV, at most 100,000."""
    wanted = _filter(visit)
    return export_csv(
        "reports.csv",
        _COLUMNS,
        lambda request: visit.services.reports.list_slice(visit.tenant_id, wanted, request),
        lambda report: report.report_id,
        _cells,
    )


def _cells(report: VerdictReport) -> Sequence[object]:
    reason = None if report.reason is None else report.reason.value
    about = (report.report_id, report.created_at, report.outcome, reason, report.context_key)
    file = (report.facts.filename, report.facts.size_bytes, report.file_id)
    return (*about, *file, report.actor_id, report.actor_name, report.duration_ms)


def _filter(visit: Visit) -> DecisionFilter:
    period = read_period(visit, utc_now())
    return DecisionFilter(
        context_key=visit.asked("context"),
        outcome=read_choice(visit, "outcome", _OUTCOMES),
        reason=read_choice(visit, "reason", list(Reason)),
        actor_id=visit.asked("uploaded_by"),
        filename=visit.asked("q"),
        since=period.since,
        until=period.until,
    )


async def show(visit: Visit) -> Response:
    """Show one report."""
    verdict = await visit.services.reports.get(visit.tenant_id, visit.request.path_params["report_id"])
    listed = () if verdict.facts.listed is None else verdict.facts.listed.entries
    same = DecisionFilter(context_key=verdict.context_key, reason=verdict.reason, only_failed=True)
    others = (
        await visit.services.reports.list_slice(visit.tenant_id, same, SliceRequest(6))
        if verdict.reason is not None
        else None
    )
    return visit.page(
        "rejections/show.html",
        report=full_report(
            verdict, _language(visit), await visit.services.hash_lists.find_all(visit.tenant_id, listed)
        ),
        languages=_LANGUAGES,
        others=[other for other in others.items if other.report_id != verdict.report_id][:5] if others else [],
    )


def _language(visit: Visit) -> str | None:
    """Return the language that was chosen for the sender, or those of the user's browser."""
    asked = visit.asked("language")
    return asked if asked in _LANGUAGES else visit.request.headers.get("accept-language")


def _reason(visit: Visit) -> str | None:
    reason = visit.asked("reason")
    return reason if reason in set(Reason) else None
