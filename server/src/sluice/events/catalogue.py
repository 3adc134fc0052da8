"""The types of events: when each is sent, and what its `data` holds.

A new type is a class here and in `TYPES`, and a call of `outbox.add` in the transaction of the change. Its schema and
example are in the OpenAPI document (`webhooks`) and on the page of events (docs/events.md). No event names a threat.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

API_VERSION: Final = "v1"


class Event(BaseModel):
    """An event. The docstring of each type says when it is sent; the fields are the `data` of the event."""

    model_config = ConfigDict(frozen=True)
    type: ClassVar[str]
    example: ClassVar[Mapping[str, Any]]


_REPORT_EXAMPLE: Final = {
    "object": "report",
    "report_id": "rep_01kah3z5w8e1xsbn7h3mv2q4rt",
    "context_key": "claims",
    "original_filename": "scan.pdf",
    "size_bytes": 18233,
    "uploaded_by": "utk_01kah3y0c2f7h9v1x4m6k8q3zp",
    "end_user": "user-42",
}
_FILE_EXAMPLE: Final = {
    "object": "file",
    "file_id": "file_01kah3z5wbfq2tzv6y8n4c1d9k",
    "context_key": "claims",
    "original_filename": "scan.pdf",
    "size_bytes": 18233,
}


class _ReportEvent(Event):
    object: Literal["report"] = "report"
    report_id: str = Field(description="Id of the verdict report.")
    context_key: str
    original_filename: str
    size_bytes: int
    uploaded_by: str = Field(description="Id of the API key, the upload token or the user.")
    end_user: str | None = Field(description="The end user that an upload token names; null for other callers.")


class _StoredEvent(_ReportEvent):
    file_id: str
    content_type: str = Field(description="What the content is.")
    checksum: str = Field(description="`sha256:` and the hex digest of the content.")
    metadata: dict[str, Any] = Field(description="The metadata of the file.")


class FileStored(_StoredEvent):
    """An upload passed every check and was stored."""

    type = "file.stored"
    example = {
        **_REPORT_EXAMPLE,
        "file_id": "file_01kah3z5wbfq2tzv6y8n4c1d9k",
        "content_type": "application/pdf",
        "checksum": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "metadata": {"claim": "C-7"},
        "outcome": "accepted",
    }
    outcome: Literal["accepted"] = "accepted"


class FileQuarantined(_StoredEvent):
    """An upload failed a check that its context has in quarantine mode: it was stored, and cannot be downloaded."""

    type = "file.quarantined"
    example = {**FileStored.example, "outcome": "quarantined", "reason": "active_content"}
    outcome: Literal["quarantined"] = "quarantined"
    reason: str = Field(description="The reason code.")


class FileRejectedEvent(_ReportEvent):
    """An upload broke a rule of its context, and nothing was stored."""

    type = "file.rejected"
    example = {**_REPORT_EXAMPLE, "outcome": "rejected", "reason": "type_mismatch", "retryable": False}
    outcome: Literal["rejected"] = "rejected"
    reason: str = Field(description="The reason code.")
    retryable: bool = Field(description="Whether the same file may pass later.")


class _FileEvent(Event):
    object: Literal["file"] = "file"
    file_id: str
    context_key: str
    original_filename: str
    size_bytes: int


class FileDeleted(_FileEvent):
    """A stored file was deleted, or its time was over: the retention of its context, or the day of a test key's file.

    Its object is purged later.
    """

    type = "file.deleted"
    example = _FILE_EXAMPLE


class FileRestored(_FileEvent):
    """A deleted file is stored again: it was restored before its object was purged."""

    type = "file.restored"
    example = _FILE_EXAMPLE


class FileReleased(_FileEvent):
    """A reviewer released a file from quarantine: it can be downloaded."""

    type = "file.released"
    example = _FILE_EXAMPLE


class FileRefused(_FileEvent):
    """A reviewer refused a file in quarantine: it is deleted. Its object is purged later."""

    type = "file.refused"
    example = _FILE_EXAMPLE


class FileQuarantineDownloaded(_FileEvent):
    """A reviewer downloaded a file in quarantine, as an archive with a password."""

    type = "file.quarantine_downloaded"
    example = {**_FILE_EXAMPLE, "downloaded_by": "key_01kah3v7p4d8s2w6r9n1b5t3xm"}
    downloaded_by: str = Field(description="Id of the API key or the user.")


class FilePurged(_FileEvent):
    """The object of a deleted file was removed from its bucket: nothing of the file is left but its report."""

    type = "file.purged"
    example = _FILE_EXAMPLE


class FileRecalled(_FileEvent):
    """A later scan found a threat in a stored file, or a hash list denies it: it is in quarantine now.

    It may have been downloaded before.
    """

    type = "file.recalled"
    example = {**_FILE_EXAMPLE, "download_count": 2}
    download_count: int = Field(description="How many download links were given out before.")


class ContextUpdated(Event):
    """The rules or other fields of a context were changed."""

    type = "context.updated"
    example = {"object": "context", "context_key": "claims", "changed": ["max_file_size_mb"], "rules_version": 4}
    object: Literal["context"] = "context"
    context_key: str
    changed: tuple[str, ...] = Field(description="The names of the fields.")
    rules_version: int


class _KeyEvent(Event):
    object: Literal["api_key"] = "api_key"
    api_key_id: str
    name: str
    key_prefix: str
    scopes: tuple[str, ...]
    expires_at: datetime | None


_KEY_EXAMPLE: Final = {
    "object": "api_key",
    "api_key_id": "key_01kah3v7p4d8s2w6r9n1b5t3xm",
    "name": "intake",
    "key_prefix": "sl_live_k3J9dQ2mX7aB",
    "scopes": ["upload"],
    "expires_at": "2026-11-27T11:00:00Z",
}


class ApiKeyCreated(_KeyEvent):
    """An API key was created."""

    type = "api_key.created"
    example = _KEY_EXAMPLE


class ApiKeyRevoked(_KeyEvent):
    """An API key was revoked, for ever."""

    type = "api_key.revoked"
    example = _KEY_EXAMPLE


class ApiKeyExpiring(_KeyEvent):
    """An active API key expires within seven days."""

    type = "api_key.expiring"
    example = _KEY_EXAMPLE


class _QuotaEvent(Event):
    object: Literal["context"] = "context"
    context_key: str
    used_bytes: int
    quota_bytes: int
    percent: int = Field(description="The level that was crossed.")


class QuotaWarning(_QuotaEvent):
    """The files of a context use 80 or 95 % of its quota: once for each crossing."""

    type = "context.quota_warning"
    example = {
        "object": "context",
        "context_key": "claims",
        "used_bytes": 838_860_800,
        "quota_bytes": 1_048_576_000,
        "percent": 80,
    }


class QuotaReached(_QuotaEvent):
    """The quota of a context is used up, or at 95 % an upload was refused for it: once for each crossing."""

    type = "context.quota_reached"
    example = {**QuotaWarning.example, "used_bytes": 1_048_576_000, "percent": 100}


class _PlanEvent(Event):
    object: Literal["tenant"] = "tenant"
    month: str = Field(description="The calendar month, UTC.")
    uploads: int
    limit: int
    percent: int = Field(description="The level that was crossed.")


class PlanWarning(_PlanEvent):
    """80 % of the month's uploads of the plan are used."""

    type = "tenant.plan_warning"
    example = {"object": "tenant", "month": "2026-11", "uploads": 400, "limit": 500, "percent": 80}


class PlanReached(_PlanEvent):
    """All uploads that the plan allows in this month are used."""

    type = "tenant.plan_reached"
    example = {**PlanWarning.example, "uploads": 500, "percent": 100}


class _BucketEvent(Event):
    object: Literal["bucket"] = "bucket"
    config_id: str
    failing_since: datetime


class BucketUnreachable(_BucketEvent):
    """A bucket has failed for a minute: uploads into it get 503."""

    type = "bucket.unreachable"
    example = {
        "object": "bucket",
        "config_id": "bkt_01kah3t2m5c7x9z1v4b6n8q0ws",
        "failing_since": "2026-11-20T11:00:00Z",
    }


class BucketRecovered(_BucketEvent):
    """A bucket that was unreachable has worked for a minute."""

    type = "bucket.recovered"
    example = BucketUnreachable.example


class UploadExpired(Event):
    """A resumable upload was not finished in time: it ended, and its parts are deleted.

    An upload token that expires has no event: the time was known when it was created.
    """

    type = "upload.expired"
    example = {
        "object": "upload",
        "upload_id": "upl_01kah3x8b2d6f0h4k8m1p5r9tv",
        "context_key": "claims",
        "original_filename": "scan.pdf",
        "size_bytes": 18233,
        "received_bytes": 8192,
        "uploaded_by": "utk_01kah3y0c2f7h9v1x4m6k8q3zp",
    }
    object: Literal["upload"] = "upload"
    upload_id: str
    context_key: str
    original_filename: str
    size_bytes: int
    received_bytes: int = Field(description="How much of it had come.")
    uploaded_by: str = Field(description="Id of the API key, the upload token or the user.")


class UploadTokenSpent(Event):
    """The last file of an upload token was claimed: no upload can begin with it.

    If that last upload fails, the token can be used again, and this event is sent again with its next last file.
    """

    type = "upload_token.spent"
    example = {
        "object": "upload_token",
        "token_id": "utk_01kah3y0c2f7h9v1x4m6k8q3zp",
        "context_key": "claims",
        "max_files": 3,
        "end_user": "user-42",
    }
    object: Literal["upload_token"] = "upload_token"
    token_id: str
    context_key: str
    max_files: int
    end_user: str | None


_ENDPOINT_EXAMPLE: Final = {
    "object": "webhook_endpoint",
    "endpoint_id": "whk_01kah4d6t1n8q3x5b7c9v2m4rs",
    "url": "https://app.example.com/hooks/sluice",
}


class ErasureCompleted(Event):
    """An erasure is done: nothing of the person is left but what a legal hold keeps. Its receipt can be had."""

    type = "erasure.completed"
    example = {"object": "erasure", "erasure_id": "job_01kah3z5wj7n4q2t8v1x6z9b3d", "files_erased": 12, "files_held": 1}
    object: Literal["erasure"] = "erasure"
    erasure_id: str = Field(description="Id of its job.")
    files_erased: int
    files_held: int = Field(description="Files that a legal hold keeps.")


class _EndpointEvent(Event):
    object: Literal["webhook_endpoint"] = "webhook_endpoint"
    endpoint_id: str
    url: str


class EndpointTest(_EndpointEvent):
    """Somebody asked for a test of a webhook endpoint. Only that endpoint gets it, whatever events it asks for."""

    type = "endpoint.test"
    example = _ENDPOINT_EXAMPLE


class EndpointDisabledEvent(_EndpointEvent):
    """A webhook endpoint was disabled: it responded with 410, or every delivery had failed for five days."""

    type = "endpoint.disabled"
    example = {**_ENDPOINT_EXAMPLE, "reason": "failing"}
    reason: Literal["gone", "failing"]


TYPES: Final[Mapping[str, type[Event]]] = MappingProxyType(
    {
        event.type: event
        for event in (
            FileStored,
            FileRejectedEvent,
            FileQuarantined,
            FileDeleted,
            FileRestored,
            FileReleased,
            FileRefused,
            FileQuarantineDownloaded,
            FilePurged,
            FileRecalled,
            ContextUpdated,
            ApiKeyCreated,
            ApiKeyRevoked,
            ApiKeyExpiring,
            UploadTokenSpent,
            UploadExpired,
            QuotaWarning,
            QuotaReached,
            PlanWarning,
            PlanReached,
            BucketUnreachable,
            BucketRecovered,
            ErasureCompleted,
            EndpointTest,
            EndpointDisabledEvent,
        )
    }
)
