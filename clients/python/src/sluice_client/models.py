"""The responses of the service, and the fields of bodies that have many.

Words such as statuses, outcomes and reason codes are plain strings, and unknown fields are ignored: a service that is
newer than the client may send words and fields that this version does not know.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict


class Model(BaseModel):
    """The base of all responses: they do not change."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class ContextRules(TypedDict, total=False):
    """The rules of a context."""

    allowed_extensions: Sequence[str]
    max_file_size_mb: int
    reject_blank_files: bool
    reject_corrupt_files: bool
    scan_for_viruses: bool
    upload_rate_limit: Mapping[str, int] | None
    storage_quota_mb: int | None
    check_modes: Mapping[str, str] | None
    policies: Mapping[str, Any] | None
    external_checks: Sequence[Mapping[str, Any]]


class NewContext(ContextRules, total=False):
    """What a new context may have besides its key and its name."""

    description: str | None
    storage_path_template: str | None
    metadata: Mapping[str, Any] | None
    storage_config_id: str | None
    retention_days: int | None
    retention_starts: str
    page_name: str | None
    page_sentence: str | None
    page_color: str | None
    page_logo: str | None
    sanitise: Mapping[str, Any] | None


class ContextChanges(NewContext, total=False):
    """What can be changed of a context. What is left out stays; None resets what may be null."""

    display_name: str
    status: str


class ApiKeyChanges(TypedDict, total=False):
    """What can be changed of an API key."""

    name: str
    scopes: Sequence[str]
    status: str
    metadata: Mapping[str, Any] | None
    contexts: Sequence[str] | None
    allowed_networks: Sequence[str] | None
    rate_per_minute: int | None


class BucketChanges(TypedDict, total=False):
    """What can be changed of a bucket."""

    name: str
    access_key_id: str
    secret_access_key: str
    account_key: str
    sas_token: str
    directory_id: str
    client_id: str
    client_secret: str
    service_account_key: str
    is_active: bool


class BucketSettings(TypedDict, total=False):
    """The settings of a bucket at its provider: `objstore_s3` if none is named, `azure_blob` or `gcs`."""

    provider: str
    endpoint_url: str | None
    # S3; the key pair also for an HMAC key of Google
    region: str
    access_key_id: str
    secret_access_key: str
    # Azure
    account: str
    account_key: str
    sas_token: str
    directory_id: str
    client_id: str
    client_secret: str
    # Google
    service_account_key: str


class WebhookEndpointChanges(TypedDict, total=False):
    """What can be changed of a webhook endpoint."""

    url: str
    events: Sequence[str]
    contexts: Sequence[str]
    description: str | None
    status: str


class UploadTokenLimits(TypedDict, total=False):
    """What an upload token may have besides its context."""

    expires_in: int
    max_files: int
    max_file_size_bytes: int | None
    allowed_extensions: Sequence[str]
    allowed_origins: Sequence[str]
    methods: Sequence[str]
    end_user: str | None
    metadata: Mapping[str, Any] | None
    redirect_ok: str | None
    redirect_error: str | None
    page_sentence: str | None


class FileFilter(TypedDict, total=False):
    """Which files: all conditions must hold. `metadata` names fields and their exact values."""

    context: str
    uploaded_by: str
    filename: str
    sha256: str
    content_type: str
    created_after: datetime
    created_before: datetime
    min_size: int
    status: str
    metadata: Mapping[str, str]


class RateLimit(Model):
    """The rate limit of a context."""

    max_uploads: int
    window_seconds: int


class ContextItem(Model):
    """A context in a list."""

    context_id: str
    context_key: str
    display_name: str
    description: str | None
    status: str
    allowed_extensions: list[str]
    max_file_size_mb: int
    reject_blank_files: bool
    reject_corrupt_files: bool
    scan_for_viruses: bool
    upload_rate_limit: RateLimit | None
    storage_quota_mb: int | None
    storage_used_bytes: int | None


class Hold(Model):
    """A legal hold: while it stands, nothing deletes or purges the file."""

    on: str
    held_at: datetime
    held_by: str
    reason: str


class ExternalCheck(Model):
    """An external check of a context. The response to the request that makes its secret has it, no other one."""

    name: str
    url: str
    mode: str
    if_unavailable: str
    timeout_seconds: int
    secret: str | None = None


class Sanitise(Model):
    """What is taken out of every file of a context, and what happens to a document whose signature this would break."""

    remove: list[str]
    original: str
    signed: str


class Context(ContextItem):
    """A whole context."""

    tenant_id: str
    storage_path_template: str
    metadata: dict[str, Any]
    storage_config_id: str | None
    check_modes: dict[str, str] = {}
    policies: dict[str, Any] = {}
    retention_days: int | None = None
    retention_starts: str | None = None
    page_name: str | None = None
    page_sentence: str | None = None
    page_color: str | None = None
    page_logo: str | None = None
    hold: Hold | None = None
    external_checks: list[ExternalCheck] = []
    sanitise: Sanitise | None = None


class ContextHold(Model):
    """Whether a context has a legal hold."""

    context_key: str
    held: bool


class ReplaySample(Model):
    """One of the uploads that a group counts."""

    report_id: str
    filename: str
    size_bytes: int


class ReplayGroup(Model):
    """Uploads with the same reason code, the most frequent first."""

    reason: str
    count: int
    samples: list[ReplaySample]


class ReplayCause(Model):
    """The reasons why uploads could not be judged."""

    code: str
    detail: str
    count: int


class ReplayUnknown(Model):
    """The uploads whose outcome is unknown, because a fact was not measured."""

    count: int
    because: list[ReplayCause]


class Example(Model):
    """An example of what a context expects, by the file that it was read from."""

    example_id: str
    filename: str
    sha256: str
    size_bytes: int
    content_type: str
    created_at: datetime


class DocumentKind(Model):
    """What examples have in common. `state` is `ready`, or why nothing is compared: `few`, `alike`, `different`."""

    state: str
    digest: str | None
    cohesion: int
    words: list[str]


class Examples(Model):
    """The examples of a context, the oldest first."""

    examples: list[Example]
    kind: DocumentKind
    rules_version: int


class ExampleAdded(Model):
    """The example that was added, and what all have in common now."""

    example: Example
    examples: int
    kind: DocumentKind
    rules_version: int


class Replay(Model):
    """The outcome that earlier uploads would have had."""

    since: datetime
    judged: int
    unchanged: int
    would_reject: list[ReplayGroup]
    would_accept: list[ReplayGroup]
    would_quarantine: list[ReplayGroup]
    other_reason: list[ReplayGroup]
    unknown: ReplayUnknown
    truncated: bool


class UploadedFile(Model):
    """A file that was accepted, and the report of its acceptance."""

    file_id: str
    original_filename: str
    content_type: str
    size_bytes: int
    context_key: str
    metadata: dict[str, Any]
    report_id: str
    outcome: str | None = None


class SenderReport(Model):
    """The part of a report that the sender of a file may read."""

    report_id: str
    outcome: str
    reason: str | None
    retryable: bool
    advice: str | None
    message: str
    message_key: str
    params: dict[str, Any]
    locale: str


class ReportedFile(Model):
    """The file that a report is about. A hash is missing if not all of its bytes came."""

    file_id: str | None
    original_filename: str
    size_bytes: int
    sha256: str | None
    content_type: str


class Check(Model):
    """One check of a report."""

    name: str
    outcome: str
    mode: str
    code: str | None = None
    found: Any = None
    expected: Any = None
    detail: str | None = None
    retryable: bool | None = None
    doc_url: str | None = None


class Scanner(Model):
    """What one of several engines said of the file."""

    engine: str
    signatures: str
    outcome: str
    ms: float
    required: bool


class YaraRule(Model):
    """A YARA rule of the operator that matches the file, or something that is packed in it."""

    rule: str
    file: str
    severity: str
    meta: dict[str, Any]


class Sanitised(Model):
    """What was taken out of the file before it is stored, and what was sent. All else is about the file without it."""

    removed: list[str]
    sent_sha256: str
    sent_size_bytes: int
    original_file_id: str | None = None


class ExternalResult(Model):
    """What an external check said of the file; `verdict` is None if it gave no answer."""

    name: str
    verdict: str | None
    sentence: str
    code: str | None
    details: dict[str, Any]
    why: str
    ms: float


class Listed(Model):
    """An entry of a hash list that the file, or a file in it, was found on."""

    digest: str
    algorithm: str
    list: str
    owner: str
    reason: str | None
    member: str | None = None
    added_by: str | None = None
    added_by_name: str | None = None
    expires_at: datetime | None = None


class TextFacts(Model):
    """What the policy `text` found in the text of a file; `why` says why there is none."""

    why: str
    words: int
    languages: list[str]
    found: list[str]
    age_days: int | None
    identifiers: dict[str, int]
    is_cut: bool
    ocr_pages: int = 0


class ComparedFacts(Model):
    """How alike a file is to the examples of its context, whose words `shares` and `lacks` are."""

    examples: str
    kind: str | None
    why: str
    words: int
    similarity: int | None
    shares: list[str]
    lacks: list[str]


class FullReport(SenderReport):
    """The whole report on an upload."""

    file: ReportedFile
    context_key: str
    uploaded_by: str | None
    uploaded_by_name: str | None
    rules_version: int
    engines: dict[str, str]
    duration_ms: int | None
    mode: str
    flags: list[str]
    facts: dict[str, Any]
    checks: list[Check]
    created_at: datetime
    scanners: list[Scanner] | None = None
    yara_rules: list[YaraRule] | None = None
    external_checks: list[ExternalResult] | None = None
    hash_lists: list[Listed] | None = None
    members_compared: int | None = None
    members_missed: str | None = None
    sanitised: Sanitised | None = None
    text: TextFacts | None = None
    kind: ComparedFacts | None = None


class Validated(Model):
    """The result of a dry run."""

    report: FullReport | SenderReport


class File(Model):
    """A file in a list."""

    file_id: str
    original_filename: str
    content_type: str
    size_bytes: int
    context_key: str
    metadata: dict[str, Any]
    uploaded_by: str
    uploaded_by_name: str
    download_count: int
    last_downloaded_at: datetime | None
    created_at: datetime


class DownloadUrl(Model):
    """A link that hands the file out for a limited time, without credentials."""

    file_id: str
    download_url: str
    expires_in_seconds: int
    original_filename: str
    content_type: str


class PreviewUrl(Model):
    """A link to a picture of what a file shows, without credentials."""

    file_id: str
    preview_url: str
    size: int
    expires_in_seconds: int


class DeletedFile(Model):
    """A file was deleted."""

    file_id: str
    deleted: bool = True


class FileMetadata(Model):
    """The metadata of one file. `checksum` is `sha256:<hex digest>`."""

    file_id: str
    original_filename: str
    content_type: str
    size_bytes: int
    context_key: str
    metadata: dict[str, Any]
    checksum: str
    download_count: int
    last_downloaded_at: datetime | None
    expires_at: datetime | None = None
    hold: Hold | None = None


class RestoredFile(Model):
    """A deleted file is stored again."""

    file_id: str
    restored: bool = True


class FileHold(Model):
    """Whether a file has a legal hold of its own."""

    file_id: str
    held: bool


class RefusedFile(Model):
    """A file that a job left as it was."""

    file_id: str
    reason: str


class Export(Model):
    """The output of an export."""

    format: str
    size_bytes: int
    expires_at: datetime


class Job(Model):
    """A job: work on many files that continues after the response."""

    job_id: str
    kind: str
    status: str
    total: int | None
    done: int
    skipped: int
    refused: list[RefusedFile]
    export: Export | None
    error: str | None
    params: dict[str, Any]
    created_by: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class ExportDownload(Model):
    """A link that downloads what an export wrote."""

    job_id: str
    download_url: str
    expires_in_seconds: int
    format: str
    size_bytes: int


class JobCancelled(Model):
    """A job was cancelled; what it had done stays done."""

    job_id: str
    status: str = "cancelled"
    done: int


class Erasure(Model):
    """The progress of an erasure, or its outcome. Once it is done, it contains no name."""

    job_id: str
    status: str
    files_erased: int
    files_held: int
    error: str | None
    created_at: datetime
    ended_at: datetime | None


class ErasureReceipt(Model):
    """One page of the signed list of what an erasure did."""

    receipt: str
    page: int
    pages: int


class Receipt(Model):
    """A signed receipt."""

    receipt: str
    keys_path: str = "/.well-known/sluice-receipts.json"


class FirstReview(Model):
    """The decision of the first of two reviewers."""

    decision: str
    reviewed_by: str
    reviewed_at: datetime


class QuarantinedFile(Model):
    """A stored file that cannot be downloaded."""

    file_id: str
    context_key: str
    original_filename: str
    content_type: str
    size_bytes: int
    sha256: str
    uploaded_by: str
    report_id: str
    quarantined_at: datetime
    reason: str | None = None
    detail: str | None = None
    threat: str | None
    scanned_with: str | None
    scanned_at: datetime | None
    rescan_asked: bool
    first_review: FirstReview | None
    sanitised_file_id: str | None = None


class Reviewed(Model):
    """The state of a file after the decision of a reviewer."""

    file_id: str
    outcome: str


class RescanAsked(Model):
    """A file in quarantine is scanned again by the worker."""

    file_id: str
    rescan_asked: bool = True


class Bucket(Model):
    """A bucket, its access key masked, its secret absent."""

    config_id: str
    tenant_id: str
    name: str
    provider: str = "objstore_s3"
    access_key_id: str | None
    region: str | None
    settings: dict[str, str] = {}
    default_bucket: str
    base_path: str
    is_active: bool
    is_default: bool
    created_at: datetime
    updated_at: datetime | None


class BucketDeleted(Model):
    """A bucket was forgotten; its objects were not touched."""

    config_id: str
    deleted: bool = True


class ApiKeyCreated(Model):
    """A new key. `api_key` is shown here and never again."""

    api_key_id: str
    api_key: str
    name: str
    scopes: list[str]
    expires_at: datetime | None
    contexts: list[str] = []
    allowed_networks: list[str] = []
    rate_per_minute: int | None = None


class ApiKeyRotated(Model):
    """A key with a new text. `api_key` is shown here and never again; the one before is good until then."""

    api_key_id: str
    api_key: str
    key_prefix: str
    expires_at: datetime | None
    previous_expires_at: datetime | None


class ApiKeyItem(Model):
    """A key in a list."""

    api_key_id: str
    name: str
    key_prefix: str
    scopes: list[str]
    status: str
    created_at: datetime
    last_used_at: datetime | None


class ApiKey(ApiKeyItem):
    """A whole key, without its secret."""

    tenant_id: str
    expires_at: datetime | None
    metadata: dict[str, Any]
    updated_at: datetime | None
    contexts: list[str]
    allowed_networks: list[str]
    rate_per_minute: int | None
    previous_expires_at: datetime | None


class ApiKeyRevoked(Model):
    """A key was revoked, for ever."""

    api_key_id: str
    status: str = "revoked"


class UploadTokenCreated(Model):
    """A new upload token. `token` is shown here and never again."""

    token_id: str
    token: str
    upload_url: str
    tus_url: str
    form_url: str
    expires_at: datetime
    max_files: int
    files_stored: int
    status: str


class UploadTokenItem(Model):
    """An upload token in a list."""

    token_id: str
    token_prefix: str
    context: str
    status: str
    expires_at: datetime
    max_files: int
    files_stored: int
    attempts: int
    end_user: str | None
    created_by: str
    created_at: datetime


class TokenFile(Model):
    """The outcome of one upload with a token."""

    file_id: str | None
    report_id: str
    outcome: str
    created_at: datetime


class UploadToken(UploadTokenItem):
    """A whole upload token, without its secret."""

    max_file_size_bytes: int | None
    allowed_extensions: list[str]
    allowed_origins: list[str]
    methods: list[str]
    metadata: dict[str, Any]
    redirect_ok: str | None
    redirect_error: str | None
    page_sentence: str | None = None
    files: list[TokenFile]


class UploadTokenRevoked(Model):
    """An upload token was revoked, for ever."""

    token_id: str
    status: str = "revoked"


class Cors(Model):
    """The origins whose pages may call the API with the tenant's keys."""

    allowed_origins: list[str]


class Event(Model):
    """One event, as the feed and webhooks send it."""

    id: str
    type: str
    timestamp: datetime
    api_version: str
    tenant_id: str
    sequence: int
    data: dict[str, Any]


class HashEntry(Model):
    """An entry of the tenant's hash lists."""

    digest: str
    algorithm: str
    list: str
    reason: str | None
    added_by: str
    added_by_name: str
    created_at: datetime
    expires_at: datetime | None


class HashAdded(HashEntry):
    """An entry that was added, and the stored files that it denies."""

    stored_files: int | None = None
    quarantine_path: str | None = None


class HashesAdded(Model):
    """The entries as they are now."""

    entries: list[HashAdded]


class HashRemoved(Model):
    """An entry was removed."""

    digest: str
    removed: bool = True


class WebhookEndpoint(Model):
    """A webhook endpoint, without its secret."""

    endpoint_id: str
    url: str
    events: list[str]
    contexts: list[str]
    description: str | None
    status: str
    disabled_reason: str | None
    failing_since: datetime | None
    old_secret_until: datetime | None
    created_at: datetime
    updated_at: datetime | None


class WebhookEndpointSecret(WebhookEndpoint):
    """A webhook endpoint with its secret, which is shown here and never again."""

    secret: str


class WebhookEndpointDeleted(Model):
    """A webhook endpoint was deleted."""

    endpoint_id: str
    deleted: bool = True


class WebhookTestSent(Model):
    """A test event is on its way."""

    endpoint_id: str
    event_type: str = "endpoint.test"


class WebhookEventsRecovered(Model):
    """The number of deliveries that were restarted."""

    endpoint_id: str
    deliveries: int


class WebhookDelivery(Model):
    """One event on its way to one endpoint, and the response of the last attempt."""

    delivery_id: str
    endpoint_id: str
    event_id: str
    event_type: str
    status: str
    attempts: int
    next_attempt_at: datetime | None
    created_at: datetime
    attempted_at: datetime | None
    response_status: int | None
    response_headers: list[str] | None
    response_body: str | None
    error: str | None
    duration_ms: int | None


class UsageSums(Model):
    """The usage of a time."""

    uploads: int
    bytes_stored: int
    downloads: int
    rejections: dict[str, int]


class UsageGroup(UsageSums):
    """The usage of a day or a context."""

    key: str


class Usage(Model):
    """The usage of a period, and of its parts."""

    first_day: date
    last_day: date
    total: UsageSums
    groups: list[UsageGroup]


class Limit(Model):
    """One limit, and what is used of it."""

    name: str
    used: int
    limit: int | None
    resets_at: datetime | None


class Plan(Model):
    """The plan of the tenant."""

    plan: str
    limits: list[Limit]


class AuditEntry(Model):
    """One entry of the audit log."""

    event_id: str
    action: str
    target: str | None
    actor_id: str
    actor_name: str
    via: str
    outcome: str
    error: str | None
    request_id: str | None
    created_at: datetime
    reason: str | None = None


class Locale(Model):
    """A locale that has a catalogue."""

    locale: str
    language: str
    default: bool


class MessageCatalogue(Model):
    """The sentences of one locale. `docs/messages.md` describes how they are put into words."""

    locale: str
    language: str
    messages: dict[str, str]
    page: dict[str, str]
    parameters: dict[str, str]
    formats: dict[str, str]
    units: dict[str, str]


class Alive(Model):
    """The process serves."""

    status: str = "up"


class Engine(Model):
    """One engine: `degraded` works but wants a person's attention, `down` cannot serve."""

    kind: str
    name: str
    state: str
    version: str
    detail: str
    limits: dict[str, int | str]


class Ready(Model):
    """The worst state among the engines, and every engine for those who know the metrics token."""

    status: str
    engines: list[Engine] | None = None


class PublicKey(Model):
    """A public key as a JSON Web Key (RFC 8037)."""

    kty: str
    crv: str
    alg: str
    use: str
    kid: str
    x: str


class PublicKeys(Model):
    """A JSON Web Key Set: every key that has signed receipts, the newest first."""

    keys: list[PublicKey]


class ResumableUpload(Model):
    """A resumable upload as it is now."""

    upload_id: str
    state: str
    offset: int
    length: int
    context: str
    original_filename: str
    expires_at: datetime
    file_id: str | None
    report_id: str | None
