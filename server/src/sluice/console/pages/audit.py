"""The audit log: who changed what."""

from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import Response, StreamingResponse

from sluice.access import AUDITED_ROUTES
from sluice.console.visit import HEADERS, Visit
from sluice.kit.paging import SliceRequest
from sluice.kit.spreadsheet import csv_line

_BATCH: Final = 500
_MOST_EXPORTED: Final = 100_000
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
    *("console.link_created", "console.signed_in", "console.signed_out"),
    *("file.release_asked", "file.refusal_asked", "file.expired", "file.purged"),
    *("rejections.reviewed", "rejections.muted", "rejections.reopened"),
)
ACTIONS: Final = sorted({audited.action for audited in AUDITED_ROUTES.values()} | set(_MORE_ACTIONS))


async def show_list(visit: Visit) -> Response:
    """Show entries, newest first."""
    actor, action = visit.asked("actor"), visit.asked("action")
    found = await visit.services.audit.list_slice(visit.tenant_id, actor, action, visit.slice_request())
    total = await visit.services.audit.count(visit.tenant_id, actor, action)
    return visit.page("audit/list.html", found=found, total=total, actions=ACTIONS)


async def export(visit: Visit) -> Response:
    """Send the entries that the list shows as CSV, at most 100,000."""
    headers = dict(HEADERS) | {"Content-Disposition": 'attachment; filename="audit.csv"'}
    return StreamingResponse(_rows(visit), media_type="text/csv", headers=headers)


async def _rows(visit: Visit) -> AsyncIterator[str]:
    yield csv_line(_COLUMNS)
    before = None
    for _ in range(_MOST_EXPORTED // _BATCH):
        found = await visit.services.audit.list_slice(
            visit.tenant_id, visit.asked("actor"), visit.asked("action"), SliceRequest(_BATCH, before=before)
        )
        yield "".join(csv_line([getattr(entry, name) for name in _COLUMNS]) for entry in found.items)
        if not found.has_older:
            return
        before = found.items[-1].event_id
