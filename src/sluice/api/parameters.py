"""Parameters that several endpoints share. All are coroutines: FastAPI would send plain functions to a thread each."""

import re
from typing import Annotated, Final

from fastapi import Depends, Path, Query
from pydantic import BeforeValidator
from pydantic_core import PydanticKnownError

from sluice.access import Principal
from sluice.api.route import caller, deed
from sluice.api.services import ApiServices, services
from sluice.errors import NotFound
from sluice.kit.paging import PageRequest
from sluice.trail import Deed

_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)

Caller = Annotated[Principal, Depends(caller)]
ByCaller = Annotated[Deed, Depends(deed)]
Services = Annotated[ApiServices, Depends(services)]


def _digits(value: object) -> object:
    if isinstance(value, str) and not _INTEGER.fullmatch(value):
        raise PydanticKnownError("int_parsing")
    return value


DIGITS: Final = BeforeValidator(_digits)
"""Behind a `Query`: an integer in the one form that all readers share: the library also takes `1_0`, `+1`, ` 1`, `1.0` and `01`."""


async def _page(
    page: Annotated[int, Query(ge=1, description="Number of the page, from 1."), DIGITS] = 1,
    page_size: Annotated[int, Query(ge=1, le=100, description="Items per page."), DIGITS] = 20,
) -> PageRequest:
    return PageRequest(page, page_size)


async def _own_tenant(tenant_id: Annotated[str, Path(description="The caller's own tenant.")], principal: Caller) -> str:
    """Another tenant's path answers as an unknown one does."""
    if tenant_id != principal.tenant_id:
        raise NotFound
    return tenant_id


PageParameters = Annotated[PageRequest, Depends(_page)]


async def _own_deed(by: ByCaller, _tenant_id: Annotated[str, Depends(_own_tenant)]) -> Deed:
    return by


OwnTenant = Annotated[str, Depends(_own_tenant)]
ByOwnTenant = Annotated[Deed, Depends(_own_deed)]
