"""Rejected uploads: groups of them, the list of reports, and one report with what was expected and found."""

from datetime import date, datetime, timedelta
from typing import Final

from starlette.responses import Response

from sluice.api.schemas.reports import full_report
from sluice.console.visit import Visit
from sluice.decisions import DecisionFilter
from sluice.kit.clock import utc_now
from sluice.kit.paging import PageRequest, SliceRequest
from sluice.uploads.reasons import Reason
from sluice.uploads.reports import MOST_LISTED

_DAYS: Final = 14
_GROUPS_SHOWN: Final = 50
_KEYS_NAMED: Final = PageRequest(1, 100)
_CONTEXTS_SHOWN: Final = PageRequest(1, 100)
_OUTCOMES: Final = ("accepted", "rejected", "quarantined", "undecided")


async def show_groups(visit: Visit) -> Response:
    """Show the rejections of the last days by context, reason, extension and uploader."""
    today = utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    wanted = DecisionFilter(
        context_key=visit.asked("context"),
        reason=_reason(visit),
        since=today - timedelta(days=_DAYS - 1),
        only_failed=True,
    )
    statistics = await visit.services.reports.statistics(visit.tenant_id, wanted)
    groups = statistics.groups()
    days = [today.date() - timedelta(days=back) for back in reversed(range(_DAYS))]
    contexts = await visit.services.contexts.list_page(visit.tenant_id, None, _CONTEXTS_SHOWN)
    keys = await visit.services.api_keys.list_page(visit.tenant_id, None, _KEYS_NAMED)
    return visit.page(
        "rejections/groups.html",
        statistics=statistics,
        names={key.api_key_id: key.name for key in keys.items},
        groups=groups[:_GROUPS_SHOWN],
        more=max(0, len(groups) - _GROUPS_SHOWN),
        days=days,
        contexts=contexts.items,
        reasons=list(Reason),
    )


async def show_list(visit: Visit) -> Response:
    """Show reports, newest first."""
    outcome = visit.asked("outcome")
    search, since = visit.asked("q"), _day(visit)
    wanted = DecisionFilter(
        context_key=visit.asked("context"),
        outcome=outcome if outcome in _OUTCOMES else None,
        reason=_reason(visit),
        actor_id=visit.asked("uploaded_by"),
        filename=search,
        since=since,
        until=None if since is None else since + timedelta(days=1, milliseconds=-1),
    )
    found = await visit.services.reports.list_slice(visit.tenant_id, wanted, visit.slice_request())
    total = await visit.services.reports.count(visit.tenant_id, wanted)
    contexts = await visit.services.contexts.list_page(visit.tenant_id, None, _CONTEXTS_SHOWN)
    return visit.page(
        "rejections/list.html",
        found=found,
        total=total,
        more=total >= MOST_LISTED,
        contexts=contexts.items,
        reasons=list(Reason),
        outcomes=_OUTCOMES,
        is_filtered=wanted != DecisionFilter(),
    )


async def show(visit: Visit) -> Response:
    """Show one report."""
    verdict = await visit.services.reports.get(visit.tenant_id, visit.request.path_params["report_id"])
    same = DecisionFilter(context_key=verdict.context_key, reason=verdict.reason, only_failed=True)
    others = (
        await visit.services.reports.list_slice(visit.tenant_id, same, SliceRequest(6))
        if verdict.reason is not None
        else None
    )
    return visit.page(
        "rejections/show.html",
        report=full_report(verdict, visit.request.headers.get("accept-language")),
        others=[other for other in others.items if other.report_id != verdict.report_id][:5] if others else [],
    )


def _day(visit: Visit) -> datetime | None:
    try:
        return datetime.fromisoformat(f"{date.fromisoformat(visit.asked('day') or '')}T00:00:00+00:00")
    except ValueError:
        return None


def _reason(visit: Visit) -> str | None:
    reason = visit.asked("reason")
    return reason if reason in set(Reason) else None
