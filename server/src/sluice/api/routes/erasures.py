"""The endpoints of erasures: all files and names of a person, with a signed list of what was done."""

from datetime import datetime
from typing import Annotated, Self

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field, model_validator

from sluice import errors
from sluice.api.documented import BODY, SCOPED, responses
from sluice.api.parameters import ByCaller, Caller, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.envelope import PLAIN, Envelope, RequestBody, ResponseBody
from sluice.api.schemas.jobs import METADATA_NAME, METADATA_VALUE, MOST_PAIRS
from sluice.erasures.subject import ErasureSubject
from sluice.jobs import Job, JobState

router = APIRouter(prefix="/api/v1/erasures", tags=["Erasures"], route_class=GuardedRoute)

_Text = Annotated[str, Field(min_length=1, max_length=255), PLAIN]
_Pairs = dict[
    Annotated[str, Field(min_length=1, max_length=METADATA_NAME), PLAIN],
    Annotated[str, Field(min_length=1, max_length=METADATA_VALUE), PLAIN],
]


class CreateErasure(RequestBody):
    """Whose files and names are erased: exactly one of the fields."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"uploaded_by": "sluice|user-17"}]})

    uploaded_by: _Text | None = Field(
        None, description="Id of a user, or of an API key or upload token, that uploaded the files."
    )
    end_user: _Text | None = Field(None, description="The end user that upload tokens name.")
    metadata: Annotated[_Pairs, Field(min_length=1, max_length=MOST_PAIRS)] | None = Field(
        None, description="Names with their values as text: the files whose metadata have all of them."
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if [self.uploaded_by, self.end_user, self.metadata].count(None) != 2:  # noqa: PLR2004  (of three)
            raise ValueError("expected exactly one of uploaded_by, end_user and metadata")
        return self

    def to_subject(self) -> ErasureSubject:
        """Return the person."""
        return ErasureSubject(self.uploaded_by, self.end_user, tuple((self.metadata or {}).items()))


class ErasureOut(ResponseBody):
    """The progress of an erasure, or its outcome. Once it is done, it contains no name."""

    job_id: str
    status: JobState
    files_erased: int = Field(description="Files that were deleted; when it is done their objects are gone.")
    files_held: int = Field(description="Files that a legal hold keeps, with their names.")
    error: str | None = Field(description="Why it failed, null otherwise.")
    created_at: datetime
    ended_at: datetime | None = Field(description="When it ended, UTC; null until then.")

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return an erasure as it is shown."""
        return cls(
            job_id=job.job_id,
            status=job.state,
            files_erased=job.done,
            files_held=job.skipped,
            error=job.error,
            created_at=job.created_at,
            ended_at=job.ended_at,
        )


class ErasureReceiptOut(ResponseBody):
    """One page of the signed list of what an erasure did."""

    receipt: str = Field(description="A JWS in its compact form, signed with Ed25519 (RFC 9864).")
    page: int = Field(description="Which page this is.")
    pages: int = Field(description="How many pages there are, of 1,000 files each.")


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
