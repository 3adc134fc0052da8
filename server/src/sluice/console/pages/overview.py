"""The overview of a tenant: its uploads of the last days, and what needs attention."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from starlette.responses import Response

from sluice.access import Scope
from sluice.api_keys.api_key import ApiKey
from sluice.console.visit import Visit, redirect
from sluice.contexts import Context
from sluice.kit.clock import utc_now
from sluice.kit.paging import PageRequest
from sluice.uploads.statistics import UploadSums

RANGES: Final = (1, 7, 14, 30)
_DEFAULT_RANGE: Final = 14
_EXPIRING: Final = timedelta(days=14)
_FIRST_HUNDRED: Final = PageRequest(1, 100)


@dataclass(frozen=True, slots=True)
class Quota:
    """The use of a context's quota."""

    context: Context
    used_bytes: int
    most_bytes: int

    @property
    def percent(self) -> int:
        """The used share, from 0 to 100."""
        return min(100, round(100 * self.used_bytes / self.most_bytes))

    @property
    def level(self) -> str:
        """Its urgency."""
        return "bad" if self.percent >= 95 else "warn" if self.percent >= 80 else "good"  # noqa: PLR2004


async def home(visit: Visit) -> Response:
    """Lead to the first page that the user may see."""
    return redirect("/console/overview" if visit.allows(Scope.METADATA) else "/console/quarantine")


async def show(visit: Visit) -> Response:
    """Show the overview of the last days."""
    asked = visit.asked("days")
    days = int(asked) if asked is not None and asked in map(str, RANGES) else _DEFAULT_RANGE
    today = utc_now().date()
    since = utc_now().replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=days - 1)
    total, by_day = await visit.services.usage.load(visit.tenant_id, since.date(), today, "day")
    measured = await visit.services.reports.durations(visit.tenant_id, since)
    contexts = (await visit.services.contexts.list_page(visit.tenant_id, None, _FIRST_HUNDRED)).items
    quotas = [
        Quota(context, context.storage_used_bytes, context.quota_bytes)
        for context in contexts
        if context.quota_bytes is not None
    ]
    healths = await visit.request.app.state.recent_healths()
    is_admin = visit.allows(Scope.ADMIN)
    expiring: list[ApiKey] = []
    if is_admin:
        keys = (await visit.services.api_keys.list_page(visit.tenant_id, "active", _FIRST_HUNDRED)).items
        soon, now = utc_now() + _EXPIRING, utc_now()
        expiring = [key for key in keys if key.expires_at is not None and now < key.expires_at < soon]
    return visit.page(
        "overview.html",
        days=days,
        ranges=RANGES,
        since=since,
        sums=UploadSums.of(total, by_day, today, days, measured),
        quotas=sorted(quotas, key=lambda quota: -quota.percent)[:6],
        contexts=contexts,
        healths=healths if is_admin else [],
        stored=await visit.services.files.count(visit.tenant_id),
        used_bytes=sum(context.storage_used_bytes for context in contexts),
        buckets=await visit.services.buckets.list_all(visit.tenant_id) if is_admin else (),
        expiring=expiring,
        limits=(await visit.services.usage.plan(visit.tenant_id)).limits,
    )
