"""The examples of a context: what its policy on kinds of documents compares files with."""

from collections.abc import Mapping, Sequence
from typing import Final

from starlette.responses import Response

from sluice.api.routes.upload import read_example
from sluice.console.visit import Visit, redirect, uploader_of
from sluice.errors import NotFound, SluiceError, Unauthenticated
from sluice_inspect.document_kinds import EXAMPLES_LEAST, EXAMPLES_MOST, KindState

_WORDS_SHOWN: Final = 20
_STATES: Final[Mapping[KindState, str]] = {
    "ready": "Files are compared with them",
    "few": "At least three are needed",
    "alike": "They are copies of fewer than three documents",
    "different": "They have too little in common",
}


async def show(visit: Visit) -> Response:
    """Show the examples of a context, with the form for more."""
    return await _show(visit)


async def _show(visit: Visit, errors: Sequence[str] = ()) -> Response:
    found = await visit.services.examples.list(visit.tenant_id, _key_of(visit))
    return visit.page(
        "examples/list.html",
        status=422 if errors else 200,
        context=found.context,
        examples=found.examples,
        kind=found.kind,
        state=_STATES[found.kind.state],
        words=found.kind.words[:_WORDS_SHOWN],
        cohesion=round(100 * found.kind.base),
        least=EXAMPLES_LEAST,
        most=EXAMPLES_MOST,
        errors=errors,
    )


async def add(visit: Visit) -> Response:
    """Read a file, and add what is kept of it as an example."""
    key, by = _key_of(visit), visit.by("context.example_added")
    try:
        draft = await read_example(visit.request, *uploader_of(visit, visit.principal), key)
        await visit.services.examples.add(by, key, draft)
    except (NotFound, Unauthenticated):
        raise
    except SluiceError as error:
        return await _show(visit, [error.message, *error.errors] if error.report is not None else error.errors)
    return redirect(f"/console/contexts/{key}/examples")


async def remove(visit: Visit) -> Response:
    """Remove an example."""
    key = _key_of(visit)
    await visit.services.examples.remove(visit.by("context.example_removed"), key, visit.sent("example_id"))
    return redirect(f"/console/contexts/{key}/examples")


def _key_of(visit: Visit) -> str:
    key: str = visit.request.path_params["context_key"]
    return key
