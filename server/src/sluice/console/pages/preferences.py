"""How pages look for one user, kept in a cookie of the browser."""

from typing import Final
from urllib.parse import urlsplit

from starlette.responses import Response

from sluice.console.visit import Visit, redirect, set_cookie

_YEAR: Final = 365 * 24 * 3600


async def choose_times(visit: Visit) -> Response:
    """Show times as moments from now on, or as a time ago again, and lead back to the page of the form."""
    page = urlsplit(visit.request.headers.get("referer", ""))
    # Only the path is used, so that it leads to no other site.
    is_own = page.path == "/console" or page.path.startswith("/console/")
    response = redirect(page._replace(scheme="", netloc="", fragment="").geturl() if is_own else "/console")
    choice = "absolute" if visit.sent("times") == "absolute" else "relative"
    set_cookie(response, visit.services, "times", choice, seconds=_YEAR)
    return response
