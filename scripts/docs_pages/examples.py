"""Values for the examples of the API reference: one per field, and a body for each change. Tests send what is written here."""

from collections.abc import Mapping
from typing import Any, Final

from docs_pages.schemas import Schema

VALUES: Final[Mapping[str, Any]] = {
    "access_key_id": "AKIA…MPLE",
    "allowed_extensions": ["pdf", "png", "jpg"],
    "api_key": "sl_live_4fZk81QmTzYc_…",
    "api_key_id": "key_01kg8p3w6hf4ys0k2m7vqd9c5x",
    "base_path": "intake",
    "checksum": "sha256:6ae8a75555209fd6c44157c0aed8016e763ff435a19cf186f76863140143ff72",
    "config_id": "bkt_01kg8p5m1cen3r9wzq4xt8b7dy",
    "content_type": "image/png",
    "context_id": "ctx_01kg8p2r9be2ntqv3z5kxhm8wa",
    "context_key": "claims",
    "created_at": "2026-01-31T12:00:00Z",
    "default_bucket": "example-archive",
    "deleted": True,
    "description": None,
    "display_name": "Claims",
    "download_count": 1,
    "download_url": "http://127.0.0.1:8000/api/v1/downloads/file_01kg8p7t4df8hb6cxy2wns0vqz?expires=1769861100&signature=…",
    "expires_at": None,
    "expires_in_seconds": 300,
    "file_id": "file_01kg8p7t4df8hb6cxy2wns0vqz",
    "is_active": True,
    "is_default": True,
    "key_prefix": "sl_live_4fZk81QmTzYc",
    "last_downloaded_at": "2026-01-31T12:00:00Z",
    "last_used_at": None,
    "max_file_size_mb": 20,
    "max_uploads": 100,
    "message": "",
    "metadata": {},
    "name": "archive",
    "original_filename": "dent.png",
    "page": 1,
    "page_size": 20,
    "provider": "objstore_s3",
    "region": "eu-central-1",
    "reject_blank_files": True,
    "reject_corrupt_files": True,
    "scan_for_viruses": True,
    "scopes": ["upload", "metadata"],
    "size_bytes": 48213,
    "storage_config_id": None,
    "storage_path_template": "{tenant_id}/{context_key}/{yyyy}/{mm}/{file_id}{extension}",
    "storage_quota_mb": None,
    "storage_used_bytes": 48213,
    "tenant_id": "ten_01kg8p1z7gebjvk4s6dq0rwx3m",
    "timestamp": "2026-01-31T12:00:00Z",
    "total": 1,
    "total_pages": 1,
    "updated_at": None,
    "uploaded_by": "key_01kg8p3w6hf4ys0k2m7vqd9c5x",
    "uploaded_by_name": "intake form",
    "window_seconds": 60,
}
"""By the name of the field, wherever it stands."""

IN_SCHEMA: Final[Mapping[str, Mapping[str, Any]]] = {
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
    "ContextItem": {"status": "active"},
    "ContextOut": {"status": "active"},
    "KeyCreated": {"name": "intake form"},
    "KeyItem": {"name": "intake form", "status": "active"},
    "KeyOut": {"name": "intake form", "status": "active"},
    "KeyRevoked": {"status": "revoked"},
    "Uploaded": {"metadata": {"claim": "2026-0042"}},
    "FileItem": {"metadata": {"claim": "2026-0042"}},
    "FileMetadata": {"metadata": {"claim": "2026-0042"}},
}
"""Where one name means different things."""

CHANGES: Final[Mapping[str, Mapping[str, Any]]] = {
    "UpdateContext": {"max_file_size_mb": 50, "storage_quota_mb": 1024},
    "UpdateBucket": {"name": "archive-eu"},
    "UpdateKey": {"status": "disabled"},
}
"""Bodies of requests whose schema has no example of its own."""

MESSAGES: Final[Mapping[tuple[str, str], str]] = {
    ("post", "/api/v1/contexts"): "Context created",
    ("get", "/api/v1/contexts"): "Contexts listed",
    ("get", "/api/v1/contexts/{context_key}"): "Context found",
    ("patch", "/api/v1/contexts/{context_key}"): "Context updated",
    ("post", "/api/v1/files/upload"): "File uploaded",
    ("get", "/api/v1/files"): "Files listed",
    ("get", "/api/v1/files/{file_id}"): "Download URL generated",
    ("get", "/api/v1/files/{file_id}/metadata"): "File metadata found",
    ("delete", "/api/v1/files/{file_id}"): "File deleted",
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
    ("delete", "/api/v1/api-keys/{api_key_id}"): "API key revoked",
    ("get", "/api/v1/audit"): "Audit trail listed",
}
"""The envelope's message of each success."""


_CHANGED: Final[Mapping[str, Any]] = {"updated_at": "2026-01-31T12:00:00Z"}

ANSWERS: Final[Mapping[tuple[str, str], Mapping[str, Any]]] = {
    ("post", "/api/v1/contexts"): {"storage_used_bytes": 0},
    ("patch", "/api/v1/tenants/{tenant_id}/storage-configs/{config_id}"): _CHANGED,
    ("post", "/api/v1/tenants/{tenant_id}/storage-configs/{config_id}/set-default"): {**_CHANGED, "name": "archive-eu"},
    ("patch", "/api/v1/api-keys/{api_key_id}"): _CHANGED,
}
"""What an operation answers otherwise than the field usually shows."""


def example_of(schema: Schema, schemas: Mapping[str, Schema]) -> Any:
    """Answer a value of the shape `schema`; `schemas` are the document's named ones."""
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
    return {field: _value(field, inner, own, schemas) for field, inner in schema["properties"].items()}


def _value(field: str, schema: Schema, own: Mapping[str, Any], schemas: Mapping[str, Schema]) -> Any:
    if field in own:
        return own[field]
    if field in VALUES:
        return VALUES[field]
    return schema["const"] if "const" in schema else example_of(schema, schemas)
