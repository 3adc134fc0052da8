"""The services of a server as one frozen value: wiring makes it, endpoints and the console call it."""

from dataclasses import dataclass

from sluice.api_keys.service import ApiKeys
from sluice.audit.service import AuditLog
from sluice.buckets.service import Buckets
from sluice.contexts.service import Contexts
from sluice.cors.service import Cors
from sluice.erasures.service import Erasures
from sluice.events.service import EventFeed
from sluice.examples.service import Examples
from sluice.files.links import LinkSigner
from sluice.files.service import Files, Quarantine
from sluice.hash_lists.service import HashLists
from sluice.identity import SignInFlow
from sluice.jobs.service import Jobs
from sluice.previews import Previews
from sluice.receipts.service import Receipts
from sluice.resumable.service import ResumableUploads
from sluice.sessions.service import Sessions
from sluice.tenants.service import Tenants
from sluice.upload_tokens.service import UploadTokens
from sluice.uploads.content_links import ContentLinks
from sluice.uploads.reports import Reports
from sluice.uploads.upload import Uploads
from sluice.usage.service import UsageReader
from sluice.users.service import Users
from sluice.webhooks.service import Webhooks


@dataclass(frozen=True, slots=True)
class Services:
    """The services that endpoints call. `public_url` is where clients reach the service.

    `ietf_uploads`: resumable uploads are spoken as the IETF's draft has them, too.
    """

    contexts: Contexts
    examples: Examples
    files: Files
    jobs: Jobs
    buckets: Buckets
    api_keys: ApiKeys
    uploads: Uploads
    reports: Reports
    signer: LinkSigner
    audit: AuditLog
    upload_tokens: UploadTokens
    cors: Cors
    hash_lists: HashLists
    resumable: ResumableUploads
    events: EventFeed
    tenants: Tenants
    quarantine: Quarantine
    sessions: Sessions
    users: Users
    webhooks: Webhooks
    usage: UsageReader
    receipts: Receipts
    erasures: Erasures
    content_links: ContentLinks
    previews: Previews
    sign_in: SignInFlow | None
    public_url: str
    ietf_uploads: bool
