"""The search field of every page: an id leads to what it names, other texts to all that match."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from starlette.responses import Response

from sluice.access import Scope
from sluice.api_keys.api_key import ApiKey
from sluice.console.templating import query
from sluice.console.visit import Visit, redirect
from sluice.contexts import Context
from sluice.decisions import DecisionFilter
from sluice.errors import NotFound
from sluice.files import FileFilter
from sluice.kit.paging import PageRequest, SliceRequest

# Anywhere in what is sent: a sender's text has the id of the report within a sentence.
_ID: Final = re.compile(r"(?<![0-9a-z_])(file|rep|job|whk|bkt|key|utk)_[0-9a-z]{26}(?![0-9a-z_])")
_SHA256: Final = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])", re.IGNORECASE)
_PLACES: Final[Mapping[str, tuple[str, tuple[Scope, ...]]]] = {
    "file": ("/console/files/", (Scope.METADATA,)),
    "rep": ("/console/reports/", (Scope.METADATA, Scope.REVIEW)),
    "job": ("/console/jobs/", (Scope.METADATA,)),
    "whk": ("/console/webhooks/", (Scope.ADMIN,)),
    "bkt": ("/console/buckets/", (Scope.ADMIN,)),
}
_SHOWN: Final = SliceRequest(5)
_COMPARED: Final = PageRequest(1, 100)
_MOST: Final = 255


async def show(visit: Visit) -> Response:
    """Lead to what an id, a hash or the key of a context names, or show what matches."""
    asked = (visit.asked("q") or "").strip()[:_MOST]
    found = _ID.search(asked)
    if found is not None and found[1] in _PLACES:
        path, scopes = _PLACES[found[1]]
        if any(visit.allows(scope) for scope in scopes):
            return redirect(f"{path}{found[0]}")
        if found[1] == "file":
            return redirect(f"/console/quarantine/{found[0]}")
    by_hash = _SHA256.search(asked)
    if by_hash is not None and visit.allows(Scope.METADATA):
        return redirect(f"/console/files{query((), q=by_hash[0].lower())}")
    text = asked if found is None else found[0]
    if text and visit.allows(Scope.METADATA) and await _is_context(visit, text):
        return redirect(f"/console/contexts/{text}")
    return await _matches(visit, text)


async def _matches(visit: Visit, text: str) -> Response:
    services, tenant_id = visit.services, visit.tenant_id
    contexts: Sequence[Context] = ()
    keys: Sequence[ApiKey] = ()
    files = uploaded = None
    by_name, by_uploader = FileFilter(filename=text), FileFilter(uploaded_by=text)
    if text and visit.allows(Scope.METADATA):
        listed = await services.contexts.list_page(tenant_id, None, _COMPARED)
        contexts = [each for each in listed.items if _contains(text, each.context_key, each.display_name)]
        files = await services.files.list_slice(tenant_id, by_name, _SHOWN)
        uploaded = await services.files.list_slice(tenant_id, by_uploader, _SHOWN)
    if text and visit.allows(Scope.ADMIN):
        known = await services.api_keys.list_page(tenant_id, None, _COMPARED)
        keys = [each for each in known.items if _contains(text, each.name, each.api_key_id, each.key_prefix)]
    reports = await services.reports.list_slice(tenant_id, DecisionFilter(filename=text), _SHOWN) if text else None
    sent = await services.reports.list_slice(tenant_id, DecisionFilter(actor_id=text), _SHOWN) if text else None
    return visit.page(
        "find.html",
        text=text,
        contexts=contexts,
        keys=keys,
        files=files,
        uploaded=uploaded,
        reports=reports,
        sent=sent,
        has_matches=bool(
            contexts or keys or any(each is not None and each.items for each in (files, uploaded, reports, sent))
        ),
    )


async def _is_context(visit: Visit, text: str) -> bool:
    try:
        await visit.services.contexts.get(visit.tenant_id, text)
    except NotFound:
        return False
    return True


def _contains(text: str, *values: str) -> bool:
    return any(text.casefold() in value.casefold() for value in values)
