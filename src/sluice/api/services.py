"""The services as the endpoints see them: one frozen bundle on the app, filled by `wiring`. No service lives here."""

from dataclasses import dataclass
from pathlib import Path

from fastapi import Request

from sluice.api_keys.service import ApiKeys
from sluice.buckets.service import Buckets
from sluice.contexts.service import Contexts
from sluice.files.links import LinkSigner
from sluice.files.service import Files
from sluice.trail.service import Trail
from sluice.uploads.pipeline import Pipeline
from sluice.uploads.slots import TenantSlots


@dataclass(frozen=True, slots=True)
class UploadDesk:
    """What the upload endpoint needs besides the pipeline: turns, the spool's place and size, and whether objects are kept on this machine."""

    slots: TenantSlots
    spool_folder: Path
    spool_memory_bytes: int
    kept_here: bool


@dataclass(frozen=True, slots=True)
class ApiServices:
    """All that endpoints call."""

    contexts: Contexts
    files: Files
    buckets: Buckets
    api_keys: ApiKeys
    pipeline: Pipeline
    signer: LinkSigner
    trail: Trail
    upload_desk: UploadDesk


async def services(request: Request) -> ApiServices:
    """Answer the services, as a dependency of the endpoints."""
    bundle: ApiServices = request.app.state.services
    return bundle
