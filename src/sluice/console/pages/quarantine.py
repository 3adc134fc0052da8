"""Files in quarantine: what a later scan found a threat in, or a policy put there."""

from typing import Final

from starlette.responses import Response

from sluice.console.visit import Visit, redirect
from sluice.errors import Invalid, NotFound
from sluice.kit.text import is_plain

_MOST_SHOWN: Final = 200
_COMMENT_MAX: Final = 1000


async def show_list(visit: Visit) -> Response:
    """Show the files in quarantine, the oldest upload first."""
    found = []
    async for file in visit.services.quarantine.files(visit.tenant_id):
        found.append(file)
        if len(found) > _MOST_SHOWN:
            break
    return visit.page("quarantine/list.html", files=found[:_MOST_SHOWN], more=len(found) > _MOST_SHOWN)


async def release(visit: Visit) -> Response:
    """Make a file available again; before that, ask, and for a comment."""
    file_id = visit.request.path_params["file_id"]
    mark = await visit.services.files.quarantine_of(visit.tenant_id, file_id)
    if mark is None:
        raise NotFound
    if visit.sent("sure") != "yes":
        return visit.page("quarantine/release.html", file=mark)
    comment = visit.sent("comment")
    if not comment or len(comment) > _COMMENT_MAX or not is_plain(comment, lines=True):
        raise Invalid(f"comment: expected 1 to {_COMMENT_MAX} characters that say why")
    await visit.services.quarantine.review(visit.by("file.released"), file_id, "release", comment)
    return redirect("/console/quarantine")
