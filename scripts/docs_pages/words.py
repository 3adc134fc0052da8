"""Texts of the API reference that the schemas lack: the meaning of each field, and the errors behind a status."""

from collections.abc import Mapping
from typing import Final

from sluice import errors
from sluice.errors import SluiceError

# The meaning of a field, by its name.
FIELDS: Final[Mapping[str, str]] = {
    "endpoint_id": "Id of the webhook endpoint.",
    "delivery_id": "Id of the delivery.",
    "access_key_id": "In replies masked: the first and last four characters.",
    "allowed_extensions": "Compared without their dot and without case. Empty allows all.",
    "api_key": "The key itself. It is shown in this reply only.",
    "api_key_id": "Identifier of the key.",
    "base_path": "Key prefix of every object written, without slashes at its ends. Fixed after creation.",
    "blank": "How `reject_blank_files` acts where it is true.",
    "checks": "Every check that the rules name, in order.",
    "checksum": "`sha256:` and the hex digest of the stored bytes.",
    "code": "The reason code.",
    "check_name": "Name of the external check.",
    "config_id": "Identifier of the bucket configuration.",
    "content_type": "Type of the content, not what the client claimed.",
    "context_id": "Identifier of the context.",
    "context_key": "The name that uploads refer to. Fixed after creation.",
    "created_at": "UTC.",
    "default_bucket": "Name of the bucket at the provider. Fixed after creation.",
    "deleted": "Always true.",
    "description": "Free text.",
    "digest": "SHA-256, SHA-1 or MD5 in hexadecimal digits.",
    "display_name": "Name to display.",
    "download_count": "Number of download URLs that were handed out.",
    "download_url": "Pre-signed: it needs no credential.",
    "duration_ms": "Milliseconds from the head of the request to the verdict.",
    "endpoint_url": "Another S3 service. Only hosts on the operator's list are accepted.",
    "engines": "Versions of what judged the file.",
    "expected": "What the rules ask for.",
    "expires_at": "UTC; null means never.",
    "expires_in_days": "Null means never.",
    "expires_in_seconds": "How long the URL works.",
    "file": "The file itself.",
    "example_id": "Identifier of the example.",
    "file_id": "Identifier of the file.",
    "found": "What was measured.",
    "integrity": "How `reject_corrupt_files` acts where it is true.",
    "is_active": "An inactive bucket takes no uploads; its files can still be downloaded.",
    "is_default": "Exactly one bucket of a tenant is the default.",
    "job_id": "Identifier of the job.",
    "key_prefix": "The part of the key that is safe to show.",
    "last_downloaded_at": "When the last download URL was handed out, UTC.",
    "last_used_at": "UTC; written a few seconds after the use.",
    "malware": "How `scan_for_viruses` acts where it is true.",
    "max_file_size_mb": "Megabytes of 1,048,576 bytes.",
    "max_uploads": "At most this many uploads pass the rule in any window.",
    "metadata": "Free-form. A change replaces all of it.",
    "mode": "Files of a `test` key count against no plan and are removed after a day.",
    "name": "A label.",
    "original_filename": "The name that was sent: its last path part, in Unicode NFC.",
    "outcome": "The result.",
    "page": "Number of the page, from 1.",
    "page_size": "Items per page.",
    "provider": "Type of the store.",
    "region": "Region of the bucket.",
    "reject_blank_files": "Reject files in which a reader would see nothing.",
    "reject_corrupt_files": "Reject files that are damaged, unsafe, or of another format than their name claims.",
    "report_id": "Identifier of the report, as the response to the upload and its header `Sluice-Report-Id` give it.",
    "retryable": "Whether the same file may pass later.",
    "rules_version": "Version of the context's rules; each change of the context makes a new one.",
    "scan_for_viruses": "Reject files in which the scanner finds a threat, or which it could not scan completely.",
    "scopes": "What the key may do. A caller cannot grant a scope that it lacks.",
    "secret_access_key": "Encrypted at rest, never returned.",
    "set_as_default": "Make this bucket the default. A tenant's first bucket always becomes it.",
    "sha256": "Hash of the bytes, in hex; null if not all of them came.",
    "size_bytes": "Size of the stored bytes.",
    "status": "State. `revoked` is final.",
    "storage_config_id": "The bucket that uploads go to; null is the tenant's default bucket.",
    "storage_path_template": (
        "Literal text and `{tenant_id}` `{context_key}` `{file_id}` `{yyyy}` `{mm}` `{dd}` `{extension}` `{sha256}`."
    ),
    "storage_quota_mb": "Limit on stored megabytes of 1,048,576 bytes; null is unlimited.",
    "storage_used_bytes": "Bytes of the stored files, and of uploads that are being stored.",
    "tenant_id": "The tenant that owns it.",
    "token_id": "Identifier of the upload token.",
    "token_prefix": "The beginning of the token, safe to show.",
    "total": "Items on all pages.",
    "total_pages": "0 when there is no item.",
    "updated_at": "UTC; null until the first change.",
    "upload_rate_limit": "Null means no limit.",
    "upload_id": "Identifier of the upload, as `Location` ends.",
    "uploaded_by": "API key ID or user ID.",
    "uploaded_by_name": "Name of the key or the user at the time of the upload.",
    "window_seconds": "Length of the sliding window.",
}


def meaning_of(field: str) -> str:
    """Return the meaning of a field whose schema has no description. Exit if it has none here either."""
    if field not in FIELDS:
        raise SystemExit(f"The field {field} has no description in its model, and none in scripts/docs_pages/words.py.")
    return FIELDS[field]


_OF_A_FILE: Final = {
    "context_key": "The context that the file was uploaded into.",
    "metadata": "What was sent with the upload.",
}
_OF_A_TOKEN: Final = {
    "context": "The context_key of the one context that it uploads into.",
    "expires_at": "UTC. From then on it is no credential.",
    "max_files": "How many files can be stored with it.",
    "files_stored": "Files that are stored, and those that are being stored.",
    "status": "`spent`: all files are stored, or too many uploads began. Only an `active` token uploads.",
    "end_user": "Who holds it, as the tenant names them.",
    "created_by": "API key ID or user ID.",
    "max_file_size_bytes": "Null: as the context.",
    "allowed_origins": "The origins whose pages may use it.",
    "methods": "How files may be sent.",
    "redirect_ok": "For plain HTML forms.",
    "redirect_error": "For plain HTML forms.",
}
_OF_AN_ENDPOINT: Final[Mapping[str, str]] = {
    "endpoint_id": "Id of the endpoint.",
    "url": "Where events are sent.",
    "events": 'Types of the events that are sent, or `["*"]`.',
    "contexts": "Only events of these contexts are sent, and those of none; empty: of every context.",
    "description": "A note for people.",
    "status": "Nothing is sent to a disabled endpoint.",
}
_OF_A_BUCKET: Final = {"name": "A label, unique within the tenant."}

# Names with different meanings, by schema.
IN_SCHEMA: Final[Mapping[str, Mapping[str, str]]] = {
    "Uploaded": _OF_A_FILE,
    "FileItem": _OF_A_FILE,
    "FileMetadata": _OF_A_FILE,
    "BucketOut": _OF_A_BUCKET,
    "CreateContext": {"metadata": "Free-form."},
    "CreateKey": {"metadata": "Free-form."},
    "ContextOut": {"status": "An inactive context takes no uploads.", "metadata": "Free-form."},
    "KeyOut": {
        "metadata": "Free-form.",
    },
    "UploadTokenCreated": _OF_A_TOKEN | {"token": "The token itself. It is shown in this reply only."},
    "UploadTokenItem": _OF_A_TOKEN,
    "UploadTokenOut": _OF_A_TOKEN
    | {
        "allowed_extensions": "Compared without their dot and without case. Empty: as the context.",
        "metadata": "Added to that of each file; wins over it.",
        "files": "The outcomes of the uploads with it, oldest first.",
    },
    "ResumableUploadOut": {
        "length": "Size of the whole file, in bytes.",
        "context": "The context_key.",
        "expires_at": "UTC. Until then the bytes wait for the rest.",
    },
    "CorsOut": {"allowed_origins": "The origins whose pages may read responses to the tenant's keys."},
    **dict.fromkeys(("EndpointOut", "EndpointSecret", "CreateEndpoint", "UpdateEndpoint"), _OF_AN_ENDPOINT),
    "EndpointDeleted": {"endpoint_id": "Id of the endpoint.", "deleted": "It is gone, with its secret."},
    "TestSent": {"endpoint_id": "Id of the endpoint.", "event_type": "The type of the event."},
    "Recovered": {"endpoint_id": "Id of the endpoint."},
    "EventOut": {"tenant_id": "The tenant."},
    "DeliveryOut": {
        "delivery_id": "Id of the delivery.",
        "endpoint_id": "Id of the endpoint.",
        "event_id": "Id of the event; the receiver gets it as `webhook-id`.",
        "event_type": "Type of the event.",
        "attempts": "How often it was sent.",
        "next_attempt_at": "When it is sent next; null if it is not.",
        "created_at": "When the event happened.",
        "attempted_at": "When it was sent last.",
        "duration_ms": "How long the last attempt took.",
    },
    "JobOut": {
        "kind": "What it does.",
        "created_at": "When it was asked for, UTC.",
        "started_at": "When a worker began; null until then.",
        "ended_at": "When it ended; null until then.",
    },
    "UsageOut": {"first_day": "UTC.", "last_day": "UTC.", "total": "Of the whole period."},
    "LimitOut": {"name": "What is limited.", "used": "How much of it is used now."},
    "PlanOut": {"plan": "`free` has a monthly limit of uploads.", "limits": "Every limit of the tenant."},
    "JobCancelled": {"status": "It does no more.", "done": "Files that it had changed."},
    "FileQuery": {
        "context": "The context_key.",
        "uploaded_by": "API key ID or user ID.",
        "filename": "A part of the name.",
        "sha256": "Hex digits, as in `checksum`.",
        "content_type": "Type of the content.",
        "created_after": "The first moment.",
        "created_before": "The first moment that is too late.",
        "min_size": "Fewest bytes.",
        "status": "`stored`: that can be downloaded; `quarantined`: that cannot.",
    },
    "ExportOut": {"format": "`ndjson` or `csv`."},
    "ExportDownload": {"format": "`ndjson` or `csv`."},
    "ChosenFiles": {
        "file_ids": "Ids of the files; either these or a filter.",
        "filter": "Which files, as the parameters of `GET /api/v1/files` say it, with at least one field.",
    },
    "UploadTokenRevoked": {"status": "It can never be used again."},
    "RestoredFile": {"restored": "Always true."},
    "RescanAsked": {"rescan_asked": "Always true."},
    "FirstReview": {"decision": "What it was.", "reviewed_at": "When."},
    "Reviewed": {"outcome": "`awaits_second`: nothing has changed until another person decides the same."},
    "ContextItem": {"status": "An inactive context takes no uploads."},
    "UpdateContext": {"status": "An inactive context takes no uploads."},
    "AddBucket": {"access_key_id": "Access key of the bucket."},
    "UpdateBucket": {
        "name": "A label, unique within the tenant.",
        "access_key_id": "Changes together with `secret_access_key`: send both.",
        "secret_access_key": "Changes together with `access_key_id`: send both.",
        "is_active": "An inactive bucket takes no uploads. The default bucket cannot be made inactive.",
    },
}

_BUCKETS: Final = "/api/v1/tenants/{tenant_id}/storage-configs"

# The meaning of 409 on each endpoint.
CONFLICTS: Final[Mapping[tuple[str, str], tuple[type[SluiceError], ...]]] = {
    ("post", "/api/v1/contexts"): (errors.ContextExists, errors.BucketInactive),
    ("patch", "/api/v1/contexts/{context_key}"): (errors.BucketInactive,),
    ("delete", "/api/v1/files/{file_id}"): (errors.FileHeld, errors.SecondReviewerNeeded),
    ("post", "/api/v1/quarantine/{file_id}/release"): (errors.SecondReviewerNeeded,),
    ("post", "/api/v1/quarantine/{file_id}/refuse"): (errors.FileHeld, errors.SecondReviewerNeeded),
    ("post", "/api/v1/contexts/{context_key}/examples"): (errors.ContextInactive,),
    ("post", "/api/v1/files/upload"): (errors.ContextInactive, errors.BucketInactive, errors.IdempotencyKeyInUse),
    ("post", "/api/v1/files/validate"): (errors.ContextInactive,),
    ("post", "/api/v1/upload-tokens"): (errors.ContextInactive,),
    ("post", "/api/v1/uploads"): (errors.ContextInactive, errors.BucketInactive),
    ("patch", "/api/v1/uploads/{upload_id}"): (errors.UploadTakenOver, errors.ContextInactive, errors.BucketInactive),
    ("delete", "/api/v1/uploads/{upload_id}"): (errors.UploadFinished,),
    ("post", _BUCKETS): (errors.BucketExists,),
    ("patch", f"{_BUCKETS}/{{config_id}}"): (errors.BucketExists, errors.DefaultBucketNeeded),
    ("post", f"{_BUCKETS}/{{config_id}}/set-default"): (errors.BucketInactive,),
    ("delete", f"{_BUCKETS}/{{config_id}}"): (errors.BucketBound,),
    ("patch", "/api/v1/api-keys/{api_key_id}"): (errors.KeyRevoked,),
    ("post", "/api/v1/api-keys/{api_key_id}/rotate"): (errors.KeyRevoked, errors.RotationOverlaps),
    ("post", "/api/v1/files/bulk-delete"): (errors.TooManyJobs,),
    ("post", "/api/v1/erasures"): (errors.TooManyJobs,),
    ("get", "/api/v1/erasures/{job_id}/receipt"): (errors.ErasureUnderWay,),
    ("post", "/api/v1/files/bulk-restore"): (errors.TooManyJobs,),
    ("post", "/api/v1/files/export"): (errors.TooManyJobs,),
    ("post", "/api/v1/jobs/{job_id}/cancel"): (errors.JobEnded,),
    ("post", "/api/v1/hash-lists/import"): (errors.ImportStopped, errors.ImportInterrupted),
    ("post", "/api/v1/hash-lists/{digest}/quarantine"): (errors.TooManyJobs,),
    ("post", "/api/v1/webhook-endpoints"): (errors.TooManyEndpoints,),
    ("post", "/api/v1/webhook-endpoints/{endpoint_id}/test"): (errors.EndpointDisabled,),
    ("post", "/api/v1/webhook-endpoints/{endpoint_id}/recover"): (errors.EndpointDisabled,),
}

# Further notes on one endpoint.
NOTES: Final[Mapping[tuple[str, str], str]] = {
    ("post", "/api/v1/files/upload"): (
        "The fields may come in any order. Where the context has a rate limit, the reply carries `RateLimit-Limit`,"
        "`RateLimit-Remaining` and `RateLimit-Reset` (seconds). [The way of an upload](../way-of-an-upload.md) "
        "describes what"
        " happens in between, [the reason codes](../reasons.md) why a file was rejected, [retries](../uploads.md#retries)"
        " what `Idempotency-Key` does. A key that was sent with something else gets 422 with the code"
        " [`idempotency_key_reused`](../errors.md#idempotency_key_reused)."
    ),
    ("get", "/api/v1/files/{file_id}"): (
        "Each call counts as one download. A URL of the local store stops working when the file is deleted; a URL of "
        "a bucket works until it expires."
    ),
    ("get", "/api/v1/files/{file_id}/preview"): "[Previews](../previews.md) says what is drawn of which format.",
    ("get", "/api/v1/quarantine/{file_id}/preview"): "[Previews](../previews.md) says what is drawn of which format.",
    ("get", "/api/v1/files"): "[Searching files](../files.md) says what is compared with how many files.",
    ("post", "/api/v1/files/bulk-delete"): "[Jobs](../jobs.md) says what a job does, and when it ends.",
    ("post", "/api/v1/files/bulk-restore"): "[Jobs](../jobs.md#restoring-many-files) has the rules.",
    ("post", "/api/v1/files/export"): "[Jobs](../jobs.md#exporting-metadata) describes what is written.",
    ("delete", "/api/v1/files/{file_id}"): (
        "Every later call gets 404, and the quota is freed at once. The worker removes the object after"
        " [`SLUICE_PURGE_AFTER_DAYS`](../settings.md#decide-how-long-data-are-kept)."
    ),
    ("post", "/api/v1/files/{file_id}/restore"): (
        "A file that is stored already stays as it is, with 200. A purged one gets 404. [The life of a "
        "file](../lifecycle.md) has the rules."
    ),
    ("put", "/api/v1/files/{file_id}/hold"): "[The life of a file](../lifecycle.md#legal-holds) has the rules.",
    ("put", "/api/v1/contexts/{context_key}/hold"): "[The life of a file](../lifecycle.md#legal-holds) has the rules.",
    (
        "get",
        "/api/v1/files/{file_id}/receipt",
    ): "[Receipts](../receipts.md) says what one states, and how to verify it.",
    ("post", "/api/v1/erasures"): "[The life of a file](../lifecycle.md#erasing-a-person) says what is erased.",
    ("get", "/api/v1/quarantine/{file_id}/download"): (
        "[The life of a file](../lifecycle.md#quarantine) says how to open the archive."
    ),
    ("get", "/api/v1/quarantine"): "[The life of a file](../lifecycle.md#quarantine) describes reviews.",
    ("get", "/api/v1/messages/{locale}"): (
        "The example shows a part. [The sender's sentences](../messages.md) describes the format and has every sentence. "
        "The response may be kept for an hour; with its `ETag` in `If-None-Match`, an unchanged catalogue gets 304. An "
        "unknown locale gets 404, and `errors` names the known ones."
    ),
    ("get", "/api/v1/events"): "[Events and webhooks](../events.md) describes the feed and every type of event.",
    ("post", "/api/v1/hash-lists"): "[Deny files by their hash](../how-to/hash-lists.md) says what an entry does.",
    ("post", "/api/v1/webhook-endpoints"): "[Events and webhooks](../events.md) shows how a signature is verified.",
    ("post", "/api/v1/upload-tokens"): "[Uploading from a page](../uploads.md) shows how a token is used.",
    ("post", "/api/v1/uploads"): "[Uploading from a page](../uploads.md#resumable-uploads) shows whole uploads.",
    ("patch", "/api/v1/uploads/{upload_id}"): "A request with which bytes are still missing gets 204 without a body.",
    ("delete", f"{_BUCKETS}/{{config_id}}"): (
        "If the bucket held files, the message has their number. They now resolve to the default bucket."
    ),
}

ONLY_UPLOADS: Final = frozenset(
    {errors.FileRejected, errors.LimitExceeded, errors.UploadComplete, errors.UploadLengthInconsistent}
)
ONLY_LINKS: Final = frozenset({errors.LinkRefused, errors.PreconditionFailed, errors.RangeUnsatisfiable})
ONLY_RESTORES: Final = frozenset({errors.NoRoomToRestore})
ONLY_CONSOLE: Final = frozenset({errors.CrossOrigin, errors.HttpsNeeded})
