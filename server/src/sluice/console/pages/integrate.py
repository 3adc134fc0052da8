"""Instructions for sending files into a context: code with the real address of the service."""

from typing import Final

from starlette.responses import Response

from sluice.console.visit import Visit
from sluice.contexts import Context
from sluice.kit.paging import PageRequest

_CONTEXTS_SHOWN: Final = PageRequest(1, 100)


async def show(visit: Visit) -> Response:
    """Show the code for one context, by default the newest."""
    contexts = (await visit.services.contexts.list_page(visit.tenant_id, "active", _CONTEXTS_SHOWN)).items
    asked = visit.asked("context")
    context: Context | None = next((each for each in contexts if each.context_key == asked), None)
    if context is None and asked is not None:
        context = await visit.services.contexts.get(visit.tenant_id, asked)
    return visit.page(
        "integrate/show.html",
        contexts=contexts,
        context=context or (contexts[0] if contexts else None),
        url=visit.services.public_url,
    )
