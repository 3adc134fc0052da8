"""The endpoints of verdict reports: what was checked and found of every upload."""

from typing import Annotated

from fastapi import APIRouter, Header, Query

from sluice import errors
from sluice.api.documented import SCOPED, responses
from sluice.api.parameters import REFUSES_UNKNOWN, Caller, PageParameters, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.envelope import Envelope, PagedEnvelope, pagination_of
from sluice.api.schemas.moment import Moment
from sluice.api.schemas.reports import FullReport, full_report
from sluice.api_keys.limits import context_of_list
from sluice.decisions import DecisionFilter
from sluice.uploads.reasons import Reason
from sluice.uploads.values import VerdictOutcome

router = APIRouter(prefix="/api/v1/reports", tags=["Reports"], route_class=GuardedRoute)

Language = Annotated[str | None, Header(alias="Accept-Language", description="Language of the sender's sentence.")]


@router.get("", responses=responses(*SCOPED, errors.Invalid), dependencies=[REFUSES_UNKNOWN])
async def list_reports(
    *,
    principal: Caller,
    services: Services,
    request: PageParameters,
    context: Annotated[str | None, Query(description="Only uploads into this context_key.")] = None,
    outcome: Annotated[VerdictOutcome | None, Query(description="Only uploads with this outcome.")] = None,
    reason: Annotated[Reason | None, Query(description="Only uploads with this reason code.")] = None,
    uploaded_by: Annotated[str | None, Query(description="Only uploads of this API key ID or user ID.")] = None,
    filename: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=255,
            description="Only files whose name contains this, among the newest 10,000 reports that meet the rest.",
        ),
    ] = None,
    since: Annotated[Moment | None, Query(description="Only uploads at this moment or later.")] = None,
    until: Annotated[Moment | None, Query(description="Only uploads at this moment or earlier.")] = None,
    language: Language = None,
) -> PagedEnvelope[FullReport]:
    """List the reports of the tenant's uploads, newest first. `total` counts to 10,000."""
    of_context = context_of_list(principal, context)
    wanted = DecisionFilter(of_context, outcome, reason, uploaded_by, filename, since, until)
    page = await services.reports.list_page(principal.tenant_id, wanted, request)
    items = [full_report(report, language) for report in page.items]
    return PagedEnvelope(message="Reports listed", data=items, pagination=pagination_of(page))


@router.get("/{report_id}", responses=responses(*SCOPED, errors.NotFound))
async def get_report(
    report_id: str, principal: Caller, services: Services, language: Language = None
) -> Envelope[FullReport]:
    """Read the report of one upload."""
    report = await services.reports.get(principal.tenant_id, report_id)
    listed = report.facts.listed
    entries = await services.hash_lists.find_all(principal.tenant_id, () if listed is None else listed.entries)
    return Envelope(message="Report found", data=full_report(report, language, entries))
