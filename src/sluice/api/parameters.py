"""Parameters that several endpoints share. All are coroutines: FastAPI would send plain functions to a thread each."""

from typing import Annotated

from fastapi import Depends, Path, Query

from sluice.access import Principal
from sluice.api.route import caller
from sluice.api.services import ApiServices, services
from sluice.errors import NotFound
from sluice.kit.paging import PageRequest

Caller = Annotated[Principal, Depends(caller)]
Services = Annotated[ApiServices, Depends(services)]


async def _page(
    page: Annotated[int, Query(ge=1, description="Number of the page, from 1.")] = 1,
    page_size: Annotated[int, Query(ge=1, le=100, description="Items per page.")] = 20,
) -> PageRequest:
    return PageRequest(page, page_size)


async def _own_tenant(tenant_id: Annotated[str, Path(description="The caller's own tenant.")], principal: Caller) -> str:
    """Another tenant's path answers as an unknown one does."""
    if tenant_id != principal.tenant_id:
        raise NotFound
    return tenant_id


PageParameters = Annotated[PageRequest, Depends(_page)]
OwnTenant = Annotated[str, Depends(_own_tenant)]
