"""Files in quarantine: what a later scan found a threat in, or a policy put there."""

from typing import Final

from starlette.responses import Response

from sluice.console.visit import Visit, redirect
from sluice.errors import NotFound

_MOST_SHOWN: Final = 200


async def show_list(visit: Visit) -> Response:
    """Show the files in quarantine, the oldest upload first."""
    found = []
    async for file in visit.services.quarantine.files(visit.tenant_id):
        found.append(file)
        if len(found) > _MOST_SHOWN:
            break
    return visit.page("quarantine/list.html", files=found[:_MOST_SHOWN], more=len(found) > _MOST_SHOWN)


async def release(visit: Visit) -> Response:
    """Make a file available again; before that, ask."""
    file_id = visit.request.path_params["file_id"]
    mark = await visit.services.files.quarantine_of(visit.tenant_id, file_id)
    if mark is None:  # also one of another tenant, which the release itself would not notice
        raise NotFound
    if visit.sent("sure") != "yes":
        return visit.page("quarantine/release.html", file=mark)
    await visit.services.quarantine.release(file_id, lambda _tenant_id: visit.by("file.released"))
    return redirect("/console/quarantine")
