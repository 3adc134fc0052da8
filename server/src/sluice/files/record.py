"""The values of stored files. What may be done with them is in `service`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

FileStatus = Literal["stored", "quarantined"]
FileOrder = Literal["-created_at", "created_at", "-size_bytes", "size_bytes"]


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file of one tenant. `sha256` is hex; `storage_config_id` None is the platform's own store."""

    file_id: str
    tenant_id: str
    context_id: str
    context_key: str
    state: str
    original_filename: str
    content_type: str
    size_bytes: int
    sha256: str
    storage_config_id: str | None
    object_key: str
    uploaded_by: str
    uploaded_by_name: str
    metadata: Mapping[str, object]
    download_count: int
    last_downloaded_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class FileFilter:
    """A filter of stored files; None matches any. `filename` is a part of the name, searched in the newest files.

    `metadata` are names with their values as text; `created_after` is the first moment and `created_before` the first
    one too late, by the moment at which the bytes of a file were complete. `contexts` are those that a key is limited
    to, empty if to none. `reason` is why the upload of a file was put into quarantine, as long as its report is kept.
    """

    context_key: str | None = None
    uploaded_by: str | None = None
    sha256: str | None = None
    filename: str | None = None
    content_type: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    min_size: int | None = None
    status: FileStatus | None = None
    metadata: tuple[tuple[str, str], ...] = ()
    contexts: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class FileMarks:
    """What of a stored file a list shows beside its name; `due_at` is its own end, not that of its context."""

    quarantined_at: datetime | None
    held_at: datetime | None
    due_at: datetime | None


@dataclass(frozen=True, slots=True)
class Hold:
    """A legal hold on a file, its own or that of its context: who set it (the actor's id), when and why."""

    on: Literal["file", "context"]
    held_at: datetime
    held_by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Life:
    """The retention of a file: until `expires_at` (None: for ever, or as long as it is held), and the hold on it."""

    expires_at: datetime | None
    hold: Hold | None


@dataclass(frozen=True, slots=True)
class DeletedFileRow:
    """A deleted file that can be restored until `due_at`, when its purge begins, or for as long as it is held.

    One that was refused in quarantine (`quarantined_at`) is restored into quarantine.
    """

    file_id: str
    tenant_id: str
    context_key: str
    original_filename: str
    content_type: str
    size_bytes: int
    sha256: str
    uploaded_by: str
    uploaded_by_name: str
    report_id: str
    created_at: datetime
    deleted_at: datetime
    due_at: datetime
    quarantined_at: datetime | None
    held_at: datetime | None
    held_by: str | None
    hold_reason: str | None

    @property
    def place(self) -> str:
        """Its place in the list of deleted files, which a page continues from."""
        return f"{self.deleted_at.isoformat()}~{self.file_id}"


@dataclass(frozen=True, slots=True)
class RetentionPreview:
    """How many files a rule would delete: at once, and in the `days` to come as well.

    `at_least`: the oldest `looked_through` files were looked through, and there are more.
    """

    now: int
    soon: int
    days: int
    looked_through: int
    at_least: bool


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """How long the files of a context are kept, as the worker claimed it at the moment `present`.

    `retention_after` is the id up to which it has looked, `retention_due_at` the end of its lease; the rule is that of
    this version of the context.
    """

    tenant_id: str
    context_id: str
    context_key: str
    rules_version: int
    retention_days: int | None
    retention_starts: str
    retention_after: str | None
    retention_due_at: datetime
    held_at: datetime | None
    present: datetime

    @property
    def since(self) -> datetime:
        """The moment until which a file was stored, or asked for last, whose time is over now."""
        return self.present - timedelta(days=self.retention_days or 0)


@dataclass(frozen=True, slots=True)
class DueFiles:
    """Some files of a context that have expired, and the last id that was examined; None: there are no more."""

    file_ids: tuple[str, ...]
    last: str | None


ReviewDecision = Literal["release", "refuse"]


@dataclass(frozen=True, slots=True)
class Review:
    """The decision of the first of two reviewers on a file in quarantine."""

    review_decision: ReviewDecision
    reviewed_by: str
    reviewed_at: datetime


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One file that cannot be downloaded: a later scan found a threat in it, or a check put it there.

    `threat` is None in the second case, and in rows older than schema 0005; `reason` and `detail` are those of the
    check at the upload, None if it passed or its report is gone. `review_decision` is what the first of two reviewers
    decided, `rescan_at` when a reviewer asked for a scan. `sanitised_file_id` is the file that was made of this one.
    """

    file_id: str
    tenant_id: str
    context_key: str
    original_filename: str
    size_bytes: int
    sha256: str
    created_at: datetime
    threat: str | None
    scanned_with: str | None
    scanned_at: datetime | None
    quarantined_at: datetime
    uploaded_by: str
    uploaded_by_name: str
    report_id: str
    content_type: str
    rescan_at: datetime | None
    review_decision: ReviewDecision | None
    reviewed_by: str | None
    reviewed_at: datetime | None
    sanitised_file_id: str | None
    reason: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class LastScan:
    """The last scan of a stored file, and since when a reviewer wants another one.

    `threat` is what the last scan that found something has named; the file was released from quarantine for it, or is
    there. Of a later scan than that of the upload, `reason` says why it is not clean, as long as its decision is kept.
    """

    scanned_at: datetime | None
    scanned_with: str | None
    threat: str | None
    rescan_asked_at: datetime | None
    is_rescan: bool = False
    reason: str | None = None
    detail: str = ""


def metadata_text(value: object) -> str | None:
    """Return a value of a file's metadata as the search compares it; None: it compares none of this type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None
