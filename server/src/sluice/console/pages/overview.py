"""The overview of a tenant: its uploads of the last days, and what needs attention."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from starlette.responses import Response

from sluice.access import Scope
from sluice.api_keys.api_key import ApiKey
from sluice.console.visit import Visit, redirect
from sluice.contexts import Context
from sluice.kit.clock import utc_now
from sluice.kit.health import EngineHealth, EngineState
from sluice.kit.paging import PageRequest
from sluice.uploads.statistics import UploadSums
from sluice.usage import MOST_COUNTED

RANGES: Final = (1, 7, 14, 30)
_DEFAULT_RANGE: Final = 14
_EXPIRING: Final = timedelta(days=14)
_FIRST_HUNDRED: Final = PageRequest(1, 100)
_NEARLY_FULL: Final = 80  # percent of a quota
_FULL: Final = 95
# The top of the axis of a chart is one of these times a power of ten, so that its half is a round number, too.
_TOPS: Final = (2, 4, 6, 8, 10, 12, 16, 20, 24, 30, 40, 50, 60, 80, 100)


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
        return "bad" if self.percent >= _FULL else "warn" if self.percent >= _NEARLY_FULL else "good"


@dataclass(frozen=True, slots=True)
class Need:
    """Something that waits for the user: where it is settled, how urgent it is, and since or until when."""

    level: str
    path: str
    text: str
    since: datetime | None = None
    until: datetime | None = None


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
    sums = UploadSums.of(total, by_day, today, days, measured)
    return visit.page(
        "overview.html",
        needs=[each async for each in _needs(visit, healths if is_admin else (), quotas, expiring)],
        top=axis_top(max((of.total for _day, of in sums.days), default=0)),
        days=days,
        ranges=RANGES,
        since=since,
        sums=sums,
        quotas=sorted(quotas, key=lambda quota: -quota.percent)[:6],
        contexts=contexts,
        healths=healths if is_admin else [],
        stored=await visit.services.files.count(visit.tenant_id),
        used_bytes=sum(context.storage_used_bytes for context in contexts),
        buckets=await visit.services.buckets.list_all(visit.tenant_id) if is_admin else (),
        limits=(await visit.services.usage.plan(visit.tenant_id)).limits,
    )


async def _needs(
    visit: Visit, healths: Sequence[EngineHealth], quotas: Sequence[Quota], expiring: Sequence[ApiKey]
) -> AsyncIterator[Need]:
    for health in healths:
        if health.state is not EngineState.UP:
            level = "bad" if health.state is EngineState.DOWN else "warn"
            yield Need(level, "#engines", f"{health.kind.capitalize()} {health.name} is {health.state.value}")
    if visit.allows(Scope.ADMIN) and visit.backlog.failing_endpoints:
        for endpoint in await visit.services.webhooks.list_all(visit.tenant_id):
            path = f"/console/webhooks/{endpoint.endpoint_id}"
            if endpoint.disabled_reason is not None:
                yield Need("bad", path, f"The webhook {endpoint.url} was disabled: {endpoint.disabled_reason}")
            elif endpoint.failing_since is not None and endpoint.status == "active":
                yield Need("warn", path, f"The webhook {endpoint.url} fails", since=endpoint.failing_since)
    if visit.allows(Scope.REVIEW) and (number := visit.backlog.quarantined):
        files = "A file waits" if number == 1 else f"{number:,}{'+' * (number == MOST_COUNTED)} files wait"
        yield Need("warn", "/console/quarantine", f"{files} in quarantine for a decision")
    for quota in quotas:
        if quota.level != "good":
            path = f"/console/contexts/{quota.context.context_key}"
            yield Need(quota.level, path, f"{quota.context.display_name}: {quota.percent} % of the quota is used")
    for key in expiring:
        yield Need("warn", "/console/keys", f"The key {key.name} expires", until=key.expires_at)


def axis_top(most: int) -> int:
    """Return the number at the top of the axis of a chart, whose half is a round number, too."""
    power: int = 10 ** max(0, len(str(most)) - 2)
    return next(top * power for top in _TOPS if top * power >= most)
