"""The audit log: who changed what."""

from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Final, get_args

from starlette.responses import Response

from sluice.access import AUDITED_ROUTES
from sluice.audit import AuditEntry, AuditFilter, Outcome
from sluice.audit.service import MOST_LISTED
from sluice.console.filters import NOTHING, export_csv, read_choice, read_period
from sluice.console.templating import query
from sluice.console.visit import Visit
from sluice.errors import Invalid, NotFound
from sluice.kit.clock import utc_now

_COLUMNS: Final = (
    "created_at",
    "actor_id",
    "actor_name",
    "via",
    "action",
    "target",
    "outcome",
    "error",
    "reason",
    "request_id",
)
_MORE_ACTIONS: Final = (
    *("console_user.invited", "console_user.joined", "console_user.changed", "console_user.passkey_added"),
    *("console_user.removed", "console_user.sessions_ended"),
    *("bucket.probed", "console.link_created", "console.signed_in", "console.signed_out"),
    *("erasure.completed", "file.erased", "file.quarantined", "tenant.changed", "tenant.suspended", "tenant.resumed"),
    *("file.release_asked", "file.refusal_asked", "file.expired", "file.purged"),
    *("rejections.reviewed", "rejections.muted", "rejections.reopened"),
)
ACTIONS: Final = sorted({audited.action for audited in AUDITED_ROUTES.values()} | set(_MORE_ACTIONS))
_OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)


async def show_list(visit: Visit) -> Response:
    """Show entries, newest first."""
    problems: Sequence[str] = ()
    found, total, wanted = NOTHING, 0, AuditFilter()
    try:
        wanted = _filter(visit)
        found = await visit.services.audit.list_slice(visit.tenant_id, wanted, visit.slice_request())
        total = await visit.services.audit.count(visit.tenant_id, wanted)
    except Invalid as fault:
        problems = fault.errors
    return visit.page(
        "audit/list.html",
        status=422 if problems else 200,
        found=found,
        total=total,
        more=wanted != AuditFilter(wanted.actor_id, wanted.action) and total >= MOST_LISTED,
        is_compared=wanted.outcome is not None or wanted.reason is not None,
        links=await links_of(visit, found.items),
        actions=ACTIONS,
        outcomes=_OUTCOMES,
        problems=problems,
    )


async def export(visit: Visit) -> Response:
    """Send the entries that the list shows as CSV, at most 100,000."""
    wanted = _filter(visit)
    return export_csv(
        "audit.csv",
        _COLUMNS,
        lambda request: visit.services.audit.list_slice(visit.tenant_id, wanted, request),
        lambda entry: entry.event_id,
        lambda entry: [getattr(entry, name) for name in _COLUMNS],
    )


def _filter(visit: Visit) -> AuditFilter:
    period = read_period(visit, utc_now())
    outcome = read_choice(visit, "outcome", _OUTCOMES)
    return AuditFilter(
        actor_id=visit.asked("actor"),
        action=visit.asked("action"),
        since=period.since,
        before=period.before,
        outcome=next((each for each in _OUTCOMES if each == outcome), None),
        reason=visit.asked("reason"),
        target=visit.asked("target"),
    )


async def links_of(visit: Visit, entries: Sequence[AuditEntry]) -> Mapping[str, str]:
    """Return the pages of the things that entries are about, by their ids; a thing that is gone has none."""
    services, tenant_id = visit.services, visit.tenant_id
    contexts = {entry.target for entry in entries if entry.target and entry.action.startswith("context.")}
    targets = {entry.target for entry in entries if entry.target} - contexts
    links = {
        key: f"/console/contexts/{key}" for key in contexts if await _exists(services.contexts.get(tenant_id, key))
    }
    files = await services.files.existing(tenant_id, _of_kind(targets, "file_"))
    links |= {file_id: f"/console/files/{file_id}" for file_id in files}
    reports = await services.reports.existing(tenant_id, _of_kind(targets, "rep_"))
    links |= {report_id: f"/console/reports/{report_id}" for report_id in reports}
    for job_id in _of_kind(targets, "job_"):
        if await _exists(services.jobs.get(tenant_id, job_id)):
            links[job_id] = f"/console/jobs/{job_id}"
    if buckets := _of_kind(targets, "bkt_"):
        known = {bucket.config_id for bucket in await services.buckets.list_all(tenant_id)}
        links |= {config_id: f"/console/buckets/{config_id}" for config_id in buckets if config_id in known}
    if endpoints := _of_kind(targets, "whk_"):
        known = {endpoint.endpoint_id for endpoint in await services.webhooks.list_all(tenant_id)}
        links |= {endpoint_id: f"/console/webhooks/{endpoint_id}" for endpoint_id in endpoints if endpoint_id in known}
    for actor_id in _of_kind(targets, "key_"):
        if await _exists(services.api_keys.get(tenant_id, actor_id)):
            links[actor_id] = f"/console/actor{query((), id=actor_id)}"
    for actor_id in _of_kind(targets, "utk_"):
        if await _exists(services.upload_tokens.get(tenant_id, actor_id)):
            links[actor_id] = f"/console/actor{query((), id=actor_id)}"
    return links


def _of_kind(targets: Collection[str], prefix: str) -> Sequence[str]:
    return [target for target in targets if target.startswith(prefix)]


async def _exists(found: Awaitable[object]) -> bool:
    try:
        await found
    except NotFound:
        return False
    return True
