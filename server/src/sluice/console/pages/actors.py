"""One person, API key or upload token: what it uploaded, what was rejected of that, and what else it did."""

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from sluice.access import Scope
from sluice.api_keys.api_key import ApiKey
from sluice.audit import AuditFilter
from sluice.console.filters import NOTHING, Period, read_period
from sluice.console.pages.audit import links_of
from sluice.console.visit import Visit
from sluice.decisions import DecisionFilter
from sluice.errors import Invalid, NotFound
from sluice.files import FileFilter
from sluice.kit.clock import utc_now
from sluice.kit.paging import SliceRequest
from sluice.kit.text import is_plain
from sluice.upload_tokens.upload_token import UploadToken
from sluice.uploads.reports import MOST_LISTED

_SHOWN: Final = SliceRequest(5)


async def show(visit: Visit) -> Response:
    """Show the newest files, rejections and actions of who has the id of the address, within its period."""
    actor_id, services, tenant_id = visit.asked("id"), visit.services, visit.tenant_id
    if actor_id is None or not is_plain(actor_id):
        raise NotFound
    problems: Sequence[str] = ()
    period = Period()
    try:
        period = read_period(visit, utc_now())
    except Invalid as fault:
        problems = fault.errors
    files = rejected = entries = NOTHING
    number: int | None = None
    sent = DecisionFilter(
        actor_id=actor_id,
        outcome="rejected",
        since=period.since,
        until=period.until,
        # Decisions by actor are in an index for upload tokens alone.
        among_newest=None if actor_id.startswith("utk_") else MOST_LISTED,
    )
    stored = FileFilter(uploaded_by=actor_id, created_after=period.since, created_before=period.before)
    if not problems:
        rejected = await services.reports.list_slice(tenant_id, sent, _SHOWN)
    if not problems and visit.allows(Scope.METADATA):
        files = await services.files.list_slice(tenant_id, stored, _SHOWN)
        number = await services.files.count_found(tenant_id, stored)
    if not problems and visit.allows(Scope.ADMIN):
        did = AuditFilter(actor_id, since=period.since, before=period.before)
        entries = await services.audit.list_slice(tenant_id, did, _SHOWN)
    key = await _key(visit, actor_id)
    token = await _token(visit, actor_id)
    names = [
        *(file.uploaded_by_name for file in files.items),
        *(report.actor_name for report in rejected.items),
        *(entry.actor_name for entry in entries.items),
    ]
    return visit.page(
        "actors/show.html",
        status=422 if problems else 200,
        actor_id=actor_id,
        name=next(filter(None, [key.name if key else None, token.end_user if token else None, *names]), actor_id),
        key=key,
        token=token,
        token_status=token.status_at(services.upload_tokens.now()) if token else "",
        files=files,
        number=number,
        rejected=rejected,
        entries=entries,
        links=await links_of(visit, entries.items),
        problems=problems,
    )


async def _key(visit: Visit, actor_id: str) -> ApiKey | None:
    if not actor_id.startswith("key_") or not visit.allows(Scope.ADMIN):
        return None
    try:
        return await visit.services.api_keys.get(visit.tenant_id, actor_id)
    except NotFound:
        return None


async def _token(visit: Visit, actor_id: str) -> UploadToken | None:
    if not actor_id.startswith("utk_") or not visit.allows(Scope.ADMIN):
        return None
    try:
        return await visit.services.upload_tokens.get(visit.tenant_id, actor_id)
    except NotFound:
        return None
