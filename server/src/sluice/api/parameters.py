"""Dependencies of endpoints: the caller, the services, pages, numbers, moments, and the parameters that exist.

All are coroutines: FastAPI would run plain functions in a thread each.
"""

import re
from datetime import date
from typing import Annotated, Final

from fastapi import Depends, Path, Query, Request, Response, params
from fastapi.dependencies.utils import get_flat_params
from pydantic import BeforeValidator
from pydantic_core import PydanticKnownError

from sluice import services as bundle
from sluice.access import Principal
from sluice.api.route import audit_action, caller
from sluice.audit import AuditAction
from sluice.errors import Invalid, NotFound
from sluice.kit.paging import PageRequest

_UNPRINTABLE: Final = re.compile(r"[^A-Za-z0-9_.-]", re.ASCII)
_SHOWN_NAMES: Final = 5
_SHOWN_LETTERS: Final = 40
_SEARCHES: Final = frozenset({"list_files"})  # routes with parameters that begin with `METADATA`
_ISO_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)


async def _services(request: Request) -> bundle.Services:
    found: bundle.Services = request.app.state.services
    return found


Caller = Annotated[Principal, Depends(caller)]
ByCaller = Annotated[AuditAction, Depends(audit_action)]
Services = Annotated[bundle.Services, Depends(_services)]


def _digits(value: object) -> object:
    if isinstance(value, str) and not _INTEGER.fullmatch(value):
        raise PydanticKnownError("int_parsing")
    return value


# Behind a `Query`: an integer in the one form that all readers share. Pydantic also accepts `1_0`, `+1`, ` 1`, `1.0`
# and `01`.
DIGITS: Final = BeforeValidator(_digits)


def _day(value: object) -> object:
    if isinstance(value, str) and not _ISO_DAY.fullmatch(value):
        raise ValueError("expected a day such as 2026-01-31")
    return value


Day = Annotated[date, BeforeValidator(_day)]
METADATA: Final = "metadata."  # what parameters about a name in the metadata of files begin with


def _unknown(request: Request) -> list[str]:
    """Return the names of query parameters that the route does not have."""
    route = request.scope["route"]
    known = {field.alias for field in get_flat_params(route.dependant) if isinstance(field.field_info, params.Query)}
    takes_metadata = route.name in _SEARCHES
    return sorted(
        name
        for name in request.query_params
        if name not in known and not (takes_metadata and name.startswith(METADATA))
    )


async def _warn_of_unknown(request: Request, response: Response) -> None:
    unknown = _unknown(request)
    if unknown:
        named = ", ".join(_UNPRINTABLE.sub("?", name)[:_SHOWN_LETTERS] for name in unknown[:_SHOWN_NAMES])
        add_warning(response, f"Unknown query parameters were ignored: {named}")


async def _refuse_unknown(request: Request) -> None:
    unknown = _unknown(request)
    if unknown:
        raise Invalid(*(f"{name[:_SHOWN_LETTERS]}: unknown parameter" for name in unknown[:_SHOWN_NAMES]))


def add_warning(response: Response, words: str) -> None:
    """Add a `Warning` header with a hint for the developer of the client (RFC 7234 section 5.5, code 299)."""
    response.headers.append("Warning", f'299 sluice "{words}"')


# On the lists of the contract, which ignores them; and on all later ones.
WARNS_OF_UNKNOWN: Final = Depends(_warn_of_unknown)
REFUSES_UNKNOWN: Final = Depends(_refuse_unknown)


async def _page(
    page: Annotated[int, Query(ge=1, description="Number of the page, from 1."), DIGITS] = 1,
    page_size: Annotated[int, Query(ge=1, le=100, description="Items per page."), DIGITS] = 20,
) -> PageRequest:
    return PageRequest(page, page_size)


async def _own_tenant(
    tenant_id: Annotated[str, Path(description="The caller's own tenant.")], principal: Caller
) -> str:
    # The path of another tenant has the same response as an unknown one.
    if tenant_id != principal.tenant_id:
        raise NotFound
    return tenant_id


PageParameters = Annotated[PageRequest, Depends(_page)]


async def _own_action(by: ByCaller, _tenant_id: Annotated[str, Depends(_own_tenant)]) -> AuditAction:
    return by


OwnTenant = Annotated[str, Depends(_own_tenant)]
ByOwnTenant = Annotated[AuditAction, Depends(_own_action)]
