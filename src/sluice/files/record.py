"""The values of stored files. What may be done with them is in `service`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
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
    """Which stored files are listed; None is any. `filename` is a part of the name, looked for in the newest files.

    `metadata` are names with their values as text; `created_after` is the first moment and `created_before` the first
    one too late, by the moment at which the bytes of a file were complete.
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


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One file that cannot be downloaded, because a later scan found a threat in it.

    `threat` is None in rows older than schema 0005.
    """

    file_id: str
    tenant_id: str
    context_key: str
    original_filename: str
    size_bytes: int
    sha256: str
    threat: str | None
    scanned_with: str
    quarantined_at: datetime
