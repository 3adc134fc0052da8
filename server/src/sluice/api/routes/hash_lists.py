"""The endpoints of hash lists: files that are denied, and files that need no malware scan."""

from dataclasses import asdict
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request

from sluice import errors
from sluice.api.documented import BODY, SCOPED, responses
from sluice.api.parameters import REFUSES_UNKNOWN, ByCaller, Caller, PageParameters, Services
from sluice.api.route import GuardedRoute, read_body, require_uncompressed
from sluice.api.schemas.envelope import Envelope, PagedEnvelope, pagination_of
from sluice.api.schemas.hash_lists import (
    AddHashes,
    HashAdded,
    HashEntryOut,
    HashesAdded,
    HashesImported,
    HashRemoved,
)
from sluice.api.schemas.jobs import JobOut
from sluice.hash_lists import EntryFilter, HashList
from sluice.hash_lists.entry import EXPECTED_DIGEST, Algorithm, parse_digest

router = APIRouter(prefix="/api/v1/hash-lists", tags=["Hash lists"], route_class=GuardedRoute)

MOST_IMPORTED_BYTES: Final = 2 * 1024**3  # ten million lines with reasons
_CSV_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {
            "text/csv": {
                "schema": {"type": "string"},
                "example": "digest,list,reason,expires_at\n44d88612fea8a8f36de82e1278abb02f,deny,INC-42,\n",
            }
        },
    }
}


@router.post("", status_code=201, responses=responses(*SCOPED, *BODY))
async def add_hashes(body: AddHashes, by: ByCaller, services: Services) -> Envelope[HashesAdded]:
    """Add up to 1,000 entries. Uploads that begin from now on are judged by them."""
    entries = await services.hash_lists.add(by, [entry.to_draft() for entry in body.entries])
    denied = [entry.digest.hex() for entry in entries if entry.list == "deny" and entry.algorithm == "sha256"]
    stored = await services.files.count_by_sha256(by.tenant_id, denied)
    added = [HashAdded.of_added(entry, stored) for entry in entries]
    return Envelope(message="Hash list entries added", data=HashesAdded(entries=added))


@router.get("", responses=responses(*SCOPED, errors.Invalid), dependencies=[REFUSES_UNKNOWN])
async def list_hashes(
    principal: Caller,
    services: Services,
    request: PageParameters,
    *,
    on: Annotated[HashList | None, Query(alias="list", description="Only entries of this list.")] = None,
    algorithm: Annotated[Algorithm | None, Query(description="Only digests of this algorithm.")] = None,
    digest: Annotated[str | None, Query(max_length=80, description="Only the entry with this digest.")] = None,
    added_by: Annotated[
        str | None, Query(max_length=255, description="Only entries of this API key or user, by its ID.")
    ] = None,
) -> PagedEnvelope[HashEntryOut]:
    """List the tenant's entries, newest first. `algorithm` and `added_by` compare the newest 100,000."""
    raw = None if digest is None else parse_digest(digest)
    if digest is not None and raw is None:
        raise errors.Invalid(f"digest: expected {EXPECTED_DIGEST}")
    page = await services.hash_lists.list_page(principal.tenant_id, EntryFilter(on, algorithm, raw, added_by), request)
    items = [HashEntryOut.of(entry) for entry in page.items]
    return PagedEnvelope(message="Hash list entries listed", data=items, pagination=pagination_of(page))


@router.post(
    "/import",
    openapi_extra=_CSV_BODY,
    responses=responses(*SCOPED, *BODY, errors.ImportStopped, errors.ImportInterrupted),
)
async def import_hashes(
    request: Request,
    by: ByCaller,
    services: Services,
    on: Annotated[HashList, Query(alias="list", description="The list of lines that name none.")] = "deny",
) -> Envelope[HashesImported]:
    """Add the entries of a CSV with the columns digest, list, reason and expires_at; all but the first may be missing.

    The entries of each 1,000 lines are written together while the body comes in. A line that is wrong ends the import;
    the response says which one, and which lines were applied; one whose time has passed is skipped. The same file may
    be sent again.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "text/csv":
        raise errors.UnsupportedBody("text/csv")
    require_uncompressed(request)
    done = await services.hash_lists.import_csv(by, read_body(request, MOST_IMPORTED_BYTES), default_list=on)
    return Envelope(message="Hash list entries imported", data=HashesImported(**asdict(done)))


@router.post("/{digest}/quarantine", status_code=201, responses=responses(*SCOPED, errors.NotFound, errors.TooManyJobs))
async def quarantine_denied_files(digest: str, by: ByCaller, services: Services) -> Envelope[JobOut]:
    """Begin a job that puts the stored files with a denied SHA-256 into quarantine."""
    entry = await services.hash_lists.get_denied(by.tenant_id, digest)
    return Envelope(message="Job created", data=JobOut.of(await services.jobs.quarantine(by, entry)))


@router.delete("/{digest}", responses=responses(*SCOPED, errors.NotFound))
async def remove_hash(digest: str, by: ByCaller, services: Services) -> Envelope[HashRemoved]:
    """Remove an entry. Files that it denied stay rejected, or in quarantine."""
    removed = await services.hash_lists.remove(by, digest)
    return Envelope(message="Hash list entry removed", data=HashRemoved(digest=removed))
