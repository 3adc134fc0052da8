"""The endpoints of erasures: all files and names of a person, with a signed list of what was done."""

from typing import Annotated

from fastapi import APIRouter, Query

from sluice import errors
from sluice.api.documented import BODY, SCOPED, responses
from sluice.api.parameters import ByCaller, Caller, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.envelope import Envelope
from sluice.api.schemas.erasures import CreateErasure, ErasureOut, ErasureReceiptOut

router = APIRouter(prefix="/api/v1/erasures", tags=["Erasures"], route_class=GuardedRoute)

_MOST_PAGES = 100_000


@router.post("", status_code=202, responses=responses(*SCOPED, *BODY, errors.TooManyJobs))
async def create_erasure(body: CreateErasure, by: ByCaller, services: Services) -> Envelope[ErasureOut]:
    """Begin to erase a person: delete and purge its files at once, and blank its names wherever they are kept.

    Nothing of it can be undone. What a legal hold protects is kept, and is on the list.
    """
    return Envelope(message="Erasure begun", data=ErasureOut.of(await services.erasures.create(by, body.to_subject())))


@router.get("/{job_id}", responses=responses(*SCOPED, errors.NotFound))
async def get_erasure(job_id: str, principal: Caller, services: Services) -> Envelope[ErasureOut]:
    """Read one erasure: how far it is, or how it ended."""
    return Envelope(
        message="Erasure found", data=ErasureOut.of(await services.erasures.get(principal.tenant_id, job_id))
    )


@router.get("/{job_id}/receipt", responses=responses(*SCOPED, errors.NotFound, errors.Invalid, errors.ErasureUnderWay))
async def get_erasure_receipt(
    job_id: str,
    principal: Caller,
    services: Services,
    page: Annotated[int, Query(ge=1, le=_MOST_PAGES, description="Which page of the list.")] = 1,
) -> Envelope[ErasureReceiptOut]:
    """Get the signed list of what an erasure erased and what a hold kept. Kept for 30 days, as its job is."""
    found = await services.erasures.receipt(principal.tenant_id, job_id, page)
    return Envelope(
        message="Receipt signed", data=ErasureReceiptOut(receipt=found.receipt, page=found.page, pages=found.pages)
    )
