"""What endpoints depend on: the caller, the services, pages and numbers.

All are coroutines: FastAPI would run plain functions in a thread each.
"""

import re
from typing import Annotated, Final

from fastapi import Depends, Path, Query
from pydantic import BeforeValidator
from pydantic_core import PydanticKnownError

from sluice.access import Principal
from sluice.api.route import audit_action, caller
from sluice.api.services import ApiServices, services
from sluice.audit import AuditAction
from sluice.errors import NotFound
from sluice.kit.paging import PageRequest

_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)

Caller = Annotated[Principal, Depends(caller)]
ByCaller = Annotated[AuditAction, Depends(audit_action)]
Services = Annotated[ApiServices, Depends(services)]


def _digits(value: object) -> object:
    if isinstance(value, str) and not _INTEGER.fullmatch(value):
        raise PydanticKnownError("int_parsing")
    return value


# Behind a `Query`: an integer in the one form that all readers share. Pydantic also accepts `1_0`, `+1`, ` 1`, `1.0`
# and `01`.
DIGITS: Final = BeforeValidator(_digits)


async def _page(
    page: Annotated[int, Query(ge=1, description="Number of the page, from 1."), DIGITS] = 1,
    page_size: Annotated[int, Query(ge=1, le=100, description="Items per page."), DIGITS] = 20,
) -> PageRequest:
    return PageRequest(page, page_size)


async def _own_tenant(
    tenant_id: Annotated[str, Path(description="The caller's own tenant.")], principal: Caller
) -> str:
    # The path of another tenant is answered as an unknown one is.
    if tenant_id != principal.tenant_id:
        raise NotFound
    return tenant_id


PageParameters = Annotated[PageRequest, Depends(_page)]


async def _own_action(by: ByCaller, _tenant_id: Annotated[str, Depends(_own_tenant)]) -> AuditAction:
    return by


OwnTenant = Annotated[str, Depends(_own_tenant)]
ByOwnTenant = Annotated[AuditAction, Depends(_own_action)]
