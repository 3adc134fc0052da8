"""Words of the API reference that the schemas do not hold: what each field means, and which errors stand behind a status."""

from collections.abc import Mapping
from typing import Final

from sluice import errors
from sluice.errors import SluiceError

FIELDS: Final[Mapping[str, str]] = {
    "access_key_id": "In replies masked: the first and last four characters.",
    "allowed_extensions": "Compared without their dot and without case. Empty allows all.",
    "api_key": "The key itself. It is shown in this reply only.",
    "api_key_id": "Identifier of the key.",
    "base_path": "Key prefix of every object written, without slashes at its ends. Fixed after creation.",
    "checksum": "`sha256:` and the hex digest of the stored bytes.",
    "config_id": "Identifier of the bucket configuration.",
    "content_type": "What the content is, not what the client claimed.",
    "context_id": "Identifier of the context.",
    "context_key": "The name by which uploads are sent here. Fixed after creation.",
    "created_at": "UTC.",
    "default_bucket": "Name of the bucket at the provider. Fixed after creation.",
    "deleted": "Says that it is done.",
    "description": "For people.",
    "display_name": "For people.",
    "download_count": "How many download URLs were given out.",
    "download_url": "Pre-signed: it needs no credential.",
    "endpoint_url": "Another S3 service. Only hosts on the operator's list are taken.",
    "expires_at": "UTC; null means never.",
    "expires_in_days": "Null means never.",
    "expires_in_seconds": "How long the URL works.",
    "file_id": "Identifier of the file.",
    "is_active": "An inactive bucket takes no uploads; its files can still be downloaded.",
    "is_default": "Exactly one bucket of a tenant is the default.",
    "key_prefix": "The part of the key that is safe to show.",
    "last_downloaded_at": "When the last download URL was given out, UTC.",
    "last_used_at": "UTC; written a few seconds after the use.",
    "max_file_size_mb": "Megabytes of 1,048,576 bytes.",
    "max_uploads": "At most this many uploads pass the rule in any window.",
    "metadata": "Free-form. A change replaces all of it.",
    "mode": "Files of a `test` key count against no plan and are removed after a day.",
    "name": "A label.",
    "original_filename": "The name that was sent: its last path part, in Unicode NFC.",
    "page": "Number of the page, from 1.",
    "page_size": "Items per page.",
    "provider": "Kind of the store.",
    "region": "Region of the bucket.",
    "reject_blank_files": "Refuse files in which a reader would see nothing.",
    "reject_corrupt_files": "Refuse files that are damaged, unsafe, or of another kind than their name says.",
    "scan_for_viruses": "Refuse files in which the scanner names a threat, or which it could not scan completely.",
    "scopes": "What the key may do. A caller cannot grant a scope that it lacks.",
    "secret_access_key": "Encrypted at rest, never returned.",
    "set_as_default": "Make this bucket the default. A tenant's first bucket always becomes it.",
    "size_bytes": "Size of the stored bytes.",
    "status": "State. `revoked` can never be undone.",
    "storage_config_id": "The bucket that uploads go to; null is the tenant's default bucket.",
    "storage_path_template": "Literal text and `{tenant_id}` `{context_key}` `{file_id}` `{yyyy}` `{mm}` `{dd}` `{extension}` `{sha256}`.",
    "storage_quota_mb": "Most stored megabytes of 1,048,576 bytes; null is unlimited.",
    "storage_used_bytes": "Bytes of the stored files, and of uploads that are just being stored.",
    "tenant_id": "The tenant that owns it.",
    "total": "Items on all pages.",
    "total_pages": "0 when there is no item.",
    "updated_at": "UTC; null until the first change.",
    "upload_rate_limit": "Null means no limit.",
    "uploaded_by": "API key ID or user ID.",
    "uploaded_by_name": "Name of the key or the user at the time of the upload.",
    "window_seconds": "Length of the sliding window.",
}
"""What a field means, by its name."""

_OF_A_FILE: Final = {"context_key": "The context that the file was uploaded into.", "metadata": "What was sent with the upload."}
_OF_A_BUCKET: Final = {"name": "A label, unique within the tenant."}

IN_SCHEMA: Final[Mapping[str, Mapping[str, str]]] = {
    "Uploaded": _OF_A_FILE,
    "FileItem": _OF_A_FILE,
    "FileMetadata": _OF_A_FILE,
    "BucketOut": _OF_A_BUCKET,
    "CreateContext": {"metadata": "Free-form."},
    "CreateKey": {"metadata": "Free-form."},
    "ContextOut": {"status": "An inactive context takes no uploads.", "metadata": "Free-form."},
    "KeyOut": {"metadata": "Free-form."},
    "ContextItem": {"status": "An inactive context takes no uploads."},
    "UpdateContext": {"status": "An inactive context takes no uploads."},
    "AddBucket": _OF_A_BUCKET | {"access_key_id": "Access key of the bucket."},
    "UpdateBucket": {
        "name": "A label, unique within the tenant.",
        "access_key_id": "Changes together with `secret_access_key`: send both.",
        "secret_access_key": "Changes together with `access_key_id`: send both.",
        "is_active": "An inactive bucket takes no uploads. The default bucket cannot be made inactive.",
    },
}
"""Where one name means different things."""

_BUCKETS: Final = "/api/v1/tenants/{tenant_id}/storage-configs"

CONFLICTS: Final[Mapping[tuple[str, str], tuple[type[SluiceError], ...]]] = {
    ("post", "/api/v1/contexts"): (errors.ContextExists, errors.BucketInactive),
    ("patch", "/api/v1/contexts/{context_key}"): (errors.BucketInactive,),
    ("post", "/api/v1/files/upload"): (errors.ContextInactive, errors.BucketInactive),
    ("post", _BUCKETS): (errors.BucketExists,),
    ("patch", f"{_BUCKETS}/{{config_id}}"): (errors.BucketExists, errors.DefaultBucketNeeded),
    ("post", f"{_BUCKETS}/{{config_id}}/set-default"): (errors.BucketInactive,),
    ("delete", f"{_BUCKETS}/{{config_id}}"): (errors.BucketBound,),
    ("patch", "/api/v1/api-keys/{api_key_id}"): (errors.KeyRevoked,),
}
"""What 409 means on each endpoint."""

NOTES: Final[Mapping[tuple[str, str], str]] = {
    ("post", "/api/v1/files/upload"): (
        "The fields may come in any order. Where the context has a rate limit, the reply carries `RateLimit-Limit`,"
        " `RateLimit-Remaining` and `RateLimit-Reset` (seconds). [The way of an upload](../way-of-an-upload.md) tells what happens"
        " in between, [the reason codes](../reasons.md) why a file was refused."
    ),
    ("get", "/api/v1/files/{file_id}"): (
        "Each call counts as one download. A URL of the local store stops working when the file is deleted; a URL of a bucket works until it expires."
    ),
    ("delete", "/api/v1/files/{file_id}"): (
        "The file is gone for every later call, and its bytes leave the quota at once. Its object is removed by the worker after"
        " [`SLUICE_PURGE_AFTER_DAYS`](../settings.md#worker-and-retention)."
    ),
    ("delete", f"{_BUCKETS}/{{config_id}}"): (
        "Where live files were stored in the bucket, the message says how many. They now resolve to the default bucket."
    ),
}
"""What a reader of one endpoint should know besides."""

ONLY_UPLOADS: Final = frozenset({errors.FileRejected, errors.LimitExceeded})
ONLY_LINKS: Final = frozenset({errors.LinkRefused, errors.RangeUnsatisfiable})
