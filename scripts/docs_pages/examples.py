"""Values for the examples of the API reference: one per field, and a body for each change. Tests send them."""

from collections.abc import Mapping
from typing import Any, Final

from docs_pages.schemas import Schema

# By the name of the field, on every page.
VALUES: Final[Mapping[str, Any]] = {
    "access_key_id": "AKIA…MPLE",
    "allowed_extensions": ["pdf", "png", "jpg"],
    "api_key": "sl_live_4fZk81QmTzYc_…",
    "api_key_id": "key_01kg8p3w6hf4ys0k2m7vqd9c5x",
    "base_path": "intake",
    "check_modes": {"integrity": "enforce", "blank": "enforce", "malware": "enforce"},
    "check_name": "invoices",
    "checksum": "sha256:6ae8a75555209fd6c44157c0aed8016e763ff435a19cf186f76863140143ff72",
    "config_id": "bkt_01kg8p5m1cen3r9wzq4xt8b7dy",
    "content_type": "image/png",
    "context_id": "ctx_01kg8p2r9be2ntqv3z5kxhm8wa",
    "context_key": "claims",
    "created_at": "2026-01-31T12:00:00Z",
    "default_bucket": "example-archive",
    "deleted": True,
    "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "delivery_id": "dlv_01kg8pb5x2f7q9m4t6w8z1c3ry",
    "description": None,
    "display_name": "Claims",
    "download_count": 1,
    "download_url": (
        "http://127.0.0.1:8000/api/v1/downloads/file_01kg8p7t4df8hb6cxy2wns0vqz?expires=1769861100&signature=…"
    ),
    "example_id": "exm_01kg8pd2m6q9t1sw3k7n5v2x8b",
    "endpoint_id": "whk_01kg8pa3k7n5v2x8b4m6q9t1sw",
    "expires_at": None,
    "expires_in_seconds": 300,
    "format": "ndjson",
    "file_id": "file_01kg8p7t4df8hb6cxy2wns0vqz",
    "is_active": True,
    "is_default": True,
    "key_prefix": "sl_live_4fZk81QmTzYc",
    "size": 200,
    "preview_url": (
        "http://127.0.0.1:8000/api/v1/downloads/file_01kg8p7t4df8hb6cxy2wns0vqz/preview"
        "?expires=1769861100&size=200&signature=…"
    ),
    "last_downloaded_at": "2026-01-31T12:00:00Z",
    "last_used_at": None,
    "locale": "de",
    "max_file_size_mb": 20,
    "max_uploads": 100,
    "message": "",
    "metadata": {},
    "name": "archive",
    "original_filename": "dent.png",
    "page": 1,
    "page_size": 20,
    "policies": {},
    "provider": "objstore_s3",
    "keys_path": "/.well-known/sluice-receipts.json",
    "receipt": "eyJhbGciOiJFZERTQSIs….eyJjb250ZXh0X2tleSI6….QjF2c1pL…",
    "region": "eu-central-1",
    "reject_blank_files": True,
    "reject_corrupt_files": True,
    "report_id": "rep_01kg8p7t4ee1x8m5vq0zhb3r6s",
    "scan_for_viruses": True,
    "scopes": ["upload", "metadata"],
    "size_bytes": 48213,
    "storage_config_id": None,
    "storage_path_template": "{tenant_id}/{context_key}/{yyyy}/{mm}/{file_id}{extension}",
    "storage_quota_mb": None,
    "storage_used_bytes": 48213,
    "tenant_id": "ten_01kg8p1z7gebjvk4s6dq0rwx3m",
    "timestamp": "2026-01-31T12:00:00Z",
    "token_id": "utk_01kg8pa4d0eknr7v2x9tqz6m5w",
    "token_prefix": "ut_live_9mQx27RbTzKe",
    "total": 1,
    "total_pages": 1,
    "updated_at": None,
    "job_id": "job_01kg8pb9d4h6k8n0q2s5v7x9zb",
    "upload_id": "upl_01kg8pb8w2f0q9t3y6z5n4m1xc",
    "uploaded_by": "key_01kg8p3w6hf4ys0k2m7vqd9c5x",
    "uploaded_by_name": "intake form",
    "window_seconds": 60,
}

_SENDER_REPORT: Final[Mapping[str, Any]] = {
    "report_id": VALUES["report_id"],
    "outcome": "accepted",
    "reason": None,
    "retryable": False,
    "advice": None,
    "message": "Thank you, this file has arrived.",
    "message_key": "accepted.plain",
    "params": {},
    "locale": "en",
}
_CHECKS: Final = [
    "extension",
    "size",
    "rate",
    "plan",
    "quota",
    "integrity.type",
    "integrity.structure",
    "integrity.archive",
    "integrity.image",
    "integrity.polyglot",
    "blank",
    "malware",
    "storage",
]
_FULL_REPORT: Final[Mapping[str, Any]] = {
    **_SENDER_REPORT,
    "file": {
        "file_id": VALUES["file_id"],
        "original_filename": "dent.png",
        "size_bytes": 48213,
        "sha256": VALUES["checksum"].removeprefix("sha256:"),
        "content_type": "image/png",
    },
    "context_key": "claims",
    "uploaded_by": VALUES["uploaded_by"],
    "uploaded_by_name": VALUES["uploaded_by_name"],
    "rules_version": 2,
    "engines": {"sluice": "0.1.0", "scanner": "clamd 1.4.3/27501"},
    "duration_ms": 41,
    "mode": "first_failure",
    "flags": [],
    "facts": {"width": 64, "height": 48, "pixels": 3072, "frames": 1, "animated": False, "flags_complete": True},
    "checks": [{"name": name, "outcome": "pass", "mode": "enforce"} for name in _CHECKS],
    "created_at": "2026-01-31T12:00:00Z",
}
_DRY_RUN: Final[Mapping[str, Any]] = {
    **_FULL_REPORT,
    "message": "This file would be accepted. It was only checked and not kept.",
    "message_key": "accepted.validated",
    "file": {**_FULL_REPORT["file"], "file_id": None},
    "mode": "all_checks",
    "checks": [
        {**check, "outcome": "not_run" if check["name"] in {"rate", "storage"} else "pass"}
        for check in _FULL_REPORT["checks"]
    ],
}

_REPLAY_SAMPLE: Final = {
    "report_id": "rep_01kg8p7t4e0qsm5r9cz1hk3xwd",
    "filename": "report-2025.pdf",
    "size_bytes": 4210332,
}

_USAGE: Final[Mapping[str, Any]] = {
    "uploads": 12,
    "bytes_stored": 578556,
    "downloads": 3,
    "rejections": {"blank_document": 2},
}
_UPLOAD_TOKEN: Final[Mapping[str, Any]] = {
    "context": "claims",
    "status": "active",
    "expires_at": "2026-01-31T12:15:00Z",
    "max_files": 3,
    "files_stored": 1,
    "attempts": 1,
    "end_user": "user-42",
    "created_by": "key_01kg8p3w6hf4ys0k2m7vqd9c5x",
}

# Names with different meanings, by schema.
_ENDPOINT: Final[Mapping[str, Any]] = {
    "endpoint_id": "whk_01kg8pa3k7n5v2x8b4m6q9t1sw",
    "url": "https://app.example.com/hooks/sluice",
    "events": ["file.stored", "file.rejected"],
    "contexts": ["claims"],
    "description": "claims intake",
    "status": "active",
    "disabled_reason": None,
    "failing_since": None,
    "old_secret_until": None,
    "updated_at": None,
    "secret": "whsec_…",
    "deliveries": 12,
}
_EXAMPLE: Final = {
    "example_id": VALUES["example_id"],
    "filename": "invoice.pdf",
    "sha256": VALUES["digest"],
    "size_bytes": 48_213,
    "content_type": "application/pdf",
    "created_at": VALUES["created_at"],
}
_KIND: Final = {"state": "ready", "digest": "6a2f4c1d9e8b7035", "cohesion": 41, "words": ["invoice", "vat", "total"]}
_HASH: Final[Mapping[str, Any]] = {
    "digest": VALUES["digest"],
    "algorithm": "sha256",
    "list": "deny",
    "reason": "INC-42",
    "added_by": "key_01kg8p3w6hf4ys0k2m7vqd9c5x",
    "added_by_name": "intake form",
    "expires_at": None,
    "stored_files": 0,
}
IN_SCHEMA: Final[Mapping[str, Mapping[str, Any]]] = {
    **dict.fromkeys(("EndpointOut", "EndpointSecret", "EndpointDeleted", "TestSent", "Recovered"), _ENDPOINT),
    **dict.fromkeys(("HashEntryOut", "HashAdded"), _HASH),
    "ExamplesOut": {"examples": [_EXAMPLE], "kind": _KIND, "rules_version": 5},
    "ExampleAdded": {"example": _EXAMPLE, "examples": 4, "kind": _KIND, "rules_version": 5},
    "HashRemoved": {"digest": _HASH["digest"], "removed": True},
    "HashesImported": {
        "import_id": "imp_01kg8pc1m4d8s2w6r9n1b5t3xq",
        "lines": 250000,
        "added": 249998,
        "changed": 2,
        "skipped": 0,
    },
    "DeliveryOut": {
        "delivery_id": "dlv_01kg8pb5x2f7q9m4t6w8z1c3ry",
        "endpoint_id": "whk_01kg8pa3k7n5v2x8b4m6q9t1sw",
        "event_id": "evt_01kg8p7t4ff2b9q6w3m8x5c1ry",
        "event_type": "file.stored",
        "status": "pending",
        "attempts": 1,
        "next_attempt_at": "2026-01-31T12:00:20Z",
        "attempted_at": "2026-01-31T12:00:15Z",
        "response_status": None,
        "response_headers": [],
        "response_body": "",
        "error": "no response within 15 s",
        "duration_ms": 15003,
    },
    "EventOut": {
        "id": "evt_01kg8p7t4ff2b9q6w3m8x5c1ry",
        "type": "file.deleted",
        "timestamp": "2026-01-31T12:00:00Z",
        "api_version": "v1",
        "sequence": 18233,
        "data": {
            "object": "file",
            "file_id": "file_01kg8p7t4df8hb6cxy2wns0vqz",
            "context_key": "claims",
            "original_filename": "dent.png",
            "size_bytes": 48213,
        },
    },
    "AuditItem": {
        "event_id": "aud_01kg8p9b2sf3mw7n5rhq1xkc8d",
        "action": "file.linked",
        "target": "file_01kg8p7t4df8hb6cxy2wns0vqz",
        "actor_id": "key_01kg8p3w6hf4ys0k2m7vqd9c5x",
        "actor_name": "intake form",
        "via": "api_key",
        "outcome": "done",
        "error": None,
        "request_id": "req_01kg8p9b2re8taz3vd6q0gwy4h",
    },
    "FileHold": {"held": True},
    "ContextHold": {"held": True},
    "QuarantinedFile": {
        "quarantined_at": "2026-01-31T12:00:00Z",
        "sha256": VALUES["checksum"].removeprefix("sha256:"),
        "reason": "virus_detected",
        "detail": None,
        "threat": "Win.Test.EICAR_HDB-1",
        "scanned_with": "clamd 1.4.3/27501",
        "scanned_at": "2026-01-31T12:00:00Z",
        "rescan_asked": False,
        "first_review": None,
    },
    "Reviewed": {"outcome": "released"},
    "RescanAsked": {"rescan_asked": True},
    "RestoredFile": {"restored": True},
    "ContextItem": {"status": "active"},
    "ContextOut": {"status": "active"},
    "ReplayOut": {
        "since": "2026-01-24T12:00:00Z",
        "judged": 1204,
        "unchanged": 1180,
        "would_reject": [{"reason": "too_many_pages", "count": 18, "samples": [_REPLAY_SAMPLE]}],
        "would_accept": [],
        "would_quarantine": [],
        "other_reason": [],
        "unknown": {
            "count": 6,
            "because": [
                {
                    "code": "not_received",
                    "detail": "The file was rejected before all of its bytes had come.",
                    "count": 6,
                }
            ],
        },
        "truncated": False,
    },
    "CatalogueOut": {
        "language": "Deutsch",
        "messages": {
            "file_too_large.limit": (
                "Diese Datei hat {size}; höchstens {max_size} werden angenommen. Bitte senden Sie eine kleinere."
            )
        },
        "page": {"choose_one": "Datei auswählen"},
        "parameters": {"size": "bytes", "max_size": "bytes"},
        "formats": {"ZIP archive": "ZIP-Archiv"},
        "units": {"megabyte": "{count}\u00a0MB"},
    },
    "LocaleItem": {"locale": "en", "language": "English", "default": True},
    "KeyCreated": {"name": "intake form", "contexts": [], "allowed_networks": [], "rate_per_minute": None},
    "ExternalCheckOut": {
        "name": "invoices",
        "url": "https://checks.example.com/invoices",
        "mode": "enforce",
        "if_unavailable": "refuse",
        "timeout_seconds": 10,
        "secret": "whsec_…",
    },
    "KeyItem": {"name": "intake form", "status": "active"},
    "KeyOut": {
        "name": "intake form",
        "status": "active",
        "contexts": [],
        "allowed_networks": [],
        "rate_per_minute": None,
        "previous_expires_at": None,
    },
    "KeyRotated": {"previous_expires_at": "2026-02-01T12:00:00Z"},
    "RevokedKey": {"status": "revoked"},
    "FullReport": _FULL_REPORT,
    "SenderReport": _SENDER_REPORT,
    "Validated": {"report": _DRY_RUN},
    "UploadTokenCreated": {
        "token": "ut_live_9mQx27RbTzKe_…",
        "upload_url": "http://127.0.0.1:8000/api/v1/files/upload",
        "tus_url": "http://127.0.0.1:8000/api/v1/uploads",
        "form_url": "http://127.0.0.1:8000/u/ut_live_9mQx27RbTzKe_…",
        "expires_at": "2026-01-31T12:15:00Z",
        "max_files": 3,
        "files_stored": 0,
        "status": "active",
    },
    "UploadTokenItem": _UPLOAD_TOKEN,
    "UploadTokenOut": {
        **_UPLOAD_TOKEN,
        "max_file_size_bytes": None,
        "allowed_extensions": ["pdf"],
        "allowed_origins": [],
        "methods": ["form", "tus"],
        "metadata": {"claim": "C-7"},
        "redirect_ok": None,
        "redirect_error": None,
        "page_sentence": "Please send us the documents for claim C-7.",
    },
    "ResumableUploadOut": {
        "state": "open",
        "offset": 0,
        "length": 48213,
        "context": "claims",
        "expires_at": "2026-02-01T12:00:00Z",
        "file_id": None,
        "report_id": None,
    },
    "UploadTokenRevoked": {"status": "revoked"},
    "JobOut": {
        "kind": "bulk_delete",
        "status": "done",
        "total": 4000,
        "done": 4000,
        "skipped": 0,
        "error": None,
        "refused": [],
        "export": None,
        "params": {
            "filter": {"context_key": "claims", "created_before": "2026-01-31T12:00:00+00:00"},
            "max_files": 5000,
        },
        "created_by": "key_01kah3v7p4d8s2w6r9n1b5t3xm",
        "started_at": "2026-01-31T12:00:01Z",
        "ended_at": "2026-01-31T12:00:09Z",
    },
    "ErasureOut": {"status": "waiting", "files_erased": 0, "files_held": 0, "error": None, "ended_at": None},
    "ErasureReceiptOut": {"page": 1, "pages": 1},
    "UsageOut": {"first_day": "2026-01-01", "last_day": "2026-01-31", "total": _USAGE, "groups": []},
    "UsageSums": _USAGE,
    "UsageGroup": {"key": "claims", **_USAGE},
    "LimitOut": {"name": "uploads_per_month", "used": 12, "limit": None, "resets_at": "2026-02-01T00:00:00Z"},
    "PlanOut": {"plan": "unlimited"},
    "JobCancelled": {"status": "cancelled", "done": 1250},
    "CorsOut": {"allowed_origins": ["https://tools.example.com"]},
    "TokenFile": {"outcome": "accepted"},
    "UploadOut": {"metadata": {"claim": "2026-0042"}},
    "Uploaded": {"metadata": {"claim": "2026-0042"}},
    "FileItem": {"metadata": {"claim": "2026-0042"}},
    "FileMetadata": {"metadata": {"claim": "2026-0042"}},
}

# The headers that an operation requires.
SENT_HEADERS: Final[Mapping[str, str]] = {
    "Tus-Resumable": "1.0.0",
    "Upload-Length": "48213",
    "Upload-Metadata": "context Y2xhaW1z,filename ZGVudC5wbmc=,metadata eyJjbGFpbSI6ICIyMDI2LTAwNDIifQ==",
    "Upload-Offset": "0",
}

# Fields that a response has only in a case that the example is not.
LEFT_OUT: Final = frozenset(
    {
        ("BucketOut", "settings"),
        ("FullReport", "scanners"),
        ("FullReport", "yara_rules"),
        ("FullReport", "external_checks"),
        ("FullReport", "sanitised"),
        ("FullReport", "text"),
        ("FullReport", "kind"),
        ("SanitisedOut", "original_file_id"),
        ("QuarantinedFile", "sanitised_file_id"),
        ("ContextOut", "external_checks"),
        ("ContextOut", "sanitise"),
        ("HashAdded", "quarantine_path"),
        *(("FullReport", name) for name in ("hash_lists", "members_compared", "members_missed")),
        ("UploadOut", "outcome"),
        ("AuditItem", "reason"),
        ("FileMetadata", "expires_at"),
        ("FileMetadata", "hold"),
        *(("ContextOut", name) for name in ("check_modes", "policies", "retention_days", "retention_starts", "hold")),
        *(("ContextOut", f"page_{name}") for name in ("name", "sentence", "color", "logo")),
    }
)

# The envelope's message of each success.
MESSAGES: Final[Mapping[tuple[str, str], str]] = {
    ("post", "/api/v1/contexts"): "Context created",
    ("get", "/api/v1/contexts"): "Contexts listed",
    ("get", "/api/v1/contexts/{context_key}"): "Context found",
    (
        "post",
        "/api/v1/contexts/{context_key}/external-checks/{check_name}/rotate-secret",
    ): "Secret of the external check rotated",
    ("patch", "/api/v1/contexts/{context_key}"): "Context updated",
    ("get", "/api/v1/contexts/{context_key}/examples"): "Examples listed",
    ("post", "/api/v1/contexts/{context_key}/examples"): "Example added",
    ("delete", "/api/v1/contexts/{context_key}/examples/{example_id}"): "Example removed",
    ("post", "/api/v1/contexts/{context_key}/replay"): "Change replayed; nothing was changed",
    ("post", "/api/v1/files/upload"): "File uploaded",
    ("post", "/api/v1/files/validate"): "File checked; nothing was stored",
    ("get", "/api/v1/reports"): "Reports listed",
    ("get", "/api/v1/reports/{report_id}"): "Report found",
    ("get", "/api/v1/files"): "Files listed",
    ("get", "/api/v1/files/{file_id}"): "Download URL generated",
    ("get", "/api/v1/files/{file_id}/metadata"): "File metadata found",
    ("get", "/api/v1/files/{file_id}/preview"): "Preview URL generated",
    ("get", "/api/v1/files/{file_id}/receipt"): "Receipt signed",
    ("delete", "/api/v1/files/{file_id}"): "File deleted",
    ("post", "/api/v1/files/bulk-delete"): "Job created",
    ("post", "/api/v1/erasures"): "Erasure begun",
    ("get", "/api/v1/erasures/{job_id}"): "Erasure found",
    ("get", "/api/v1/erasures/{job_id}/receipt"): "Receipt signed",
    ("post", "/api/v1/files/bulk-restore"): "Job created",
    ("post", "/api/v1/files/export"): "Job created",
    ("get", "/api/v1/jobs/{job_id}/download"): "Download URL generated",
    ("get", "/api/v1/jobs"): "Jobs listed",
    ("get", "/api/v1/jobs/{job_id}"): "Job found",
    ("post", "/api/v1/jobs/{job_id}/cancel"): "Job cancelled",
    ("post", "/api/v1/files/{file_id}/restore"): "File restored",
    ("put", "/api/v1/files/{file_id}/hold"): "File held",
    ("delete", "/api/v1/files/{file_id}/hold"): "File hold ended",
    ("put", "/api/v1/contexts/{context_key}/hold"): "Context held",
    ("delete", "/api/v1/contexts/{context_key}/hold"): "Context hold ended",
    ("get", "/api/v1/quarantine"): "Quarantine listed",
    ("post", "/api/v1/quarantine/{file_id}/release"): "File released",
    ("post", "/api/v1/quarantine/{file_id}/refuse"): "File refused",
    ("post", "/api/v1/quarantine/{file_id}/rescan"): "File will be scanned",
    ("post", "/api/v1/tenants/{tenant_id}/storage-configs"): "Storage bucket added",
    ("get", "/api/v1/tenants/{tenant_id}/storage-configs"): "Storage buckets listed",
    ("get", "/api/v1/tenants/{tenant_id}/storage-configs/{config_id}"): "Storage bucket found",
    ("patch", "/api/v1/tenants/{tenant_id}/storage-configs/{config_id}"): "Storage bucket updated",
    ("post", "/api/v1/tenants/{tenant_id}/storage-configs/{config_id}/set-default"): "Default storage bucket set",
    ("delete", "/api/v1/tenants/{tenant_id}/storage-configs/{config_id}"): "Storage bucket deleted",
    ("post", "/api/v1/api-keys"): "API key created",
    ("get", "/api/v1/api-keys"): "API keys listed",
    ("get", "/api/v1/api-keys/{api_key_id}"): "API key found",
    ("patch", "/api/v1/api-keys/{api_key_id}"): "API key updated",
    ("post", "/api/v1/api-keys/{api_key_id}/rotate"): "API key rotated",
    ("delete", "/api/v1/api-keys/{api_key_id}"): "API key revoked",
    ("post", "/api/v1/upload-tokens"): "Upload token created",
    ("get", "/api/v1/upload-tokens"): "Upload tokens listed",
    ("get", "/api/v1/upload-tokens/{token_id}"): "Upload token found",
    ("delete", "/api/v1/upload-tokens/{token_id}"): "Upload token revoked",
    ("post", "/api/v1/uploads"): "Upload created",
    ("get", "/api/v1/uploads/{upload_id}"): "Upload found",
    ("patch", "/api/v1/uploads/{upload_id}"): "File uploaded",
    ("get", "/api/v1/cors"): "Allowed origins found",
    ("put", "/api/v1/cors"): "Allowed origins replaced",
    ("get", "/api/v1/hash-lists"): "Hash list entries listed",
    ("post", "/api/v1/hash-lists"): "Hash list entries added",
    ("post", "/api/v1/hash-lists/import"): "Hash list entries imported",
    ("delete", "/api/v1/hash-lists/{digest}"): "Hash list entry removed",
    ("post", "/api/v1/hash-lists/{digest}/quarantine"): "Job created",
    ("get", "/api/v1/events"): "Events listed",
    ("post", "/api/v1/webhook-endpoints"): "Webhook endpoint created",
    ("get", "/api/v1/webhook-endpoints"): "Webhook endpoints listed",
    ("get", "/api/v1/webhook-endpoints/{endpoint_id}"): "Webhook endpoint found",
    ("patch", "/api/v1/webhook-endpoints/{endpoint_id}"): "Webhook endpoint updated",
    ("delete", "/api/v1/webhook-endpoints/{endpoint_id}"): "Webhook endpoint deleted",
    ("post", "/api/v1/webhook-endpoints/{endpoint_id}/rotate-secret"): "Webhook secret rotated",
    ("post", "/api/v1/webhook-endpoints/{endpoint_id}/test"): "Test event sent",
    ("post", "/api/v1/webhook-endpoints/{endpoint_id}/recover"): "Deliveries restarted",
    ("get", "/api/v1/webhook-endpoints/{endpoint_id}/deliveries"): "Webhook deliveries listed",
    ("post", "/api/v1/webhook-deliveries/{delivery_id}/redeliver"): "Delivery restarted",
    ("get", "/api/v1/usage"): "Usage found",
    ("get", "/api/v1/plan"): "Plan found",
    ("get", "/api/v1/audit"): "Audit trail listed",
    ("get", "/api/v1/messages"): "Locales listed",
    ("get", "/api/v1/messages/{locale}"): "Messages found",
}


_CHANGED: Final[Mapping[str, Any]] = {"updated_at": "2026-01-31T12:00:00Z"}

_BEGUN: Final[Mapping[str, Any]] = {
    "status": "waiting",
    "total": 1,
    "done": 0,
    "params": {"file_ids": ["file_01kah3z5wbfq2tzv6y8n4c1d9k"]},
    "started_at": None,
    "ended_at": None,
}

# Values of one operation that differ from the usual one.
ANSWERS: Final[Mapping[tuple[str, str], Mapping[str, Any]]] = {
    ("post", "/api/v1/contexts"): {"storage_used_bytes": 0},
    ("delete", "/api/v1/files/{file_id}/hold"): {"held": False},
    ("delete", "/api/v1/contexts/{context_key}/hold"): {"held": False},
    ("post", "/api/v1/quarantine/{file_id}/refuse"): {"outcome": "refused"},
    ("patch", "/api/v1/tenants/{tenant_id}/storage-configs/{config_id}"): _CHANGED,
    ("post", "/api/v1/tenants/{tenant_id}/storage-configs/{config_id}/set-default"): {**_CHANGED, "name": "archive-eu"},
    ("post", "/api/v1/files/bulk-delete"): _BEGUN,
    ("post", "/api/v1/files/bulk-restore"): {**_BEGUN, "kind": "bulk_restore"},
    ("post", "/api/v1/hash-lists"): {"entries": [{**_HASH, "created_at": VALUES["created_at"]}]},
    ("post", "/api/v1/hash-lists/{digest}/quarantine"): {
        **_BEGUN,
        "kind": "bulk_quarantine",
        "params": {
            "digest": _HASH["digest"],
            "list": "deny",
            "reason": "INC-42",
            "of_installation": False,
            "member": "",
        },
    },
    ("post", "/api/v1/files/export"): {
        **_BEGUN,
        "kind": "export",
        "total": 1200,
        "params": {"filter": {"context_key": "claims"}, "format": "ndjson"},
    },
    ("get", "/api/v1/jobs/{job_id}/download"): {
        "download_url": "http://127.0.0.1:8000/api/v1/downloads/job_01kg8pc3k7n5v2x8b4m6q9t1sw?expires=1769861100&signature=…"
    },
    ("patch", "/api/v1/api-keys/{api_key_id}"): _CHANGED,
    ("patch", "/api/v1/webhook-endpoints/{endpoint_id}"): {**_CHANGED, "events": ["*"]},
    ("post", "/api/v1/webhook-endpoints/{endpoint_id}/rotate-secret"): {**_CHANGED, "events": ["*"]},
    ("post", "/api/v1/webhook-deliveries/{delivery_id}/redeliver"): {"attempts": 0},
}


def example_of(schema: Schema, schemas: Mapping[str, Schema]) -> Any:
    """Return a value of the shape `schema`; `schemas` are the document's named ones."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _object_of(schemas[name], name, schemas)
    if schema.get("type") == "array":
        return [example_of(schema["items"], schemas)]
    if "anyOf" in schema:
        return example_of(schema["anyOf"][0], schemas)
    raise SystemExit(f"scripts/docs_pages/examples.py: no example for {schema}")


def _object_of(schema: Schema, name: str, schemas: Mapping[str, Schema]) -> dict[str, Any]:
    own = IN_SCHEMA.get(name, {})
    return {
        field: _value(field, inner, own, schemas)
        for field, inner in schema["properties"].items()
        if (name, field) not in LEFT_OUT
    }


def _value(field: str, schema: Schema, own: Mapping[str, Any], schemas: Mapping[str, Schema]) -> Any:
    if field in own:
        return own[field]
    if field in VALUES:
        return VALUES[field]
    return schema["const"] if "const" in schema else example_of(schema, schemas)
