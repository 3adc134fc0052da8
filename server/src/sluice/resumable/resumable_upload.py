"""The value of a resumable upload as its row has it, and its states.

              append                       settle: accepted
             ┌──────┐                     ┌─────────────────▶ STORED
             │      ▼      begin_judging  │ settle: rejected
    create ─▶ OPEN ───────────────────▶ JUDGING ────────────▶ REJECTED
             │   ▲                        │
             │   └────────────────────────┘ settle: no verdict (a part of the service was unavailable)
             │
             └─▶ CANCELLED (by the client), or its time is over: no row

Each change is one conditional update. `received` never decreases. The outcome of an attempt to judge is never noted by
the attempt itself: `settle` reads it from the decision log, where the file and its decision were committed together. So
a crash between the two changes nothing (docs/decisions/0031).
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class UploadState(StrEnum):
    """The states of a resumable upload's row."""

    OPEN = "open"
    JUDGING = "judging"
    STORED = "stored"
    REJECTED = "rejected"
    CANCELLED = "cancelled"

    @property
    def waits(self) -> bool:
        """Whether the upload still waits for bytes or its verdict."""
        return self in {UploadState.OPEN, UploadState.JUDGING}


@dataclass(frozen=True, slots=True)
class NewUpload:
    """The announcement of an upload whose bytes follow. `metadata` is the text of a JSON object.

    `sent_metadata` is the header `Upload-Metadata` as it came.
    """

    tenant_id: str
    actor_id: str
    via: str
    context_key: str
    filename: str
    metadata: str | None
    sent_metadata: str | None
    length: int


@dataclass(frozen=True, slots=True)
class ResumableUpload:
    """One upload of one credential (`via`, `actor_id`). `length` and `received` are in bytes.

    `generation` is that of the request that may append. `report_id` is that of the attempt to judge it, `file_id` the
    row of its file, once reserved.
    """

    upload_id: str
    tenant_id: str
    actor_id: str
    via: str
    context_key: str
    filename: str
    metadata: str | None
    sent_metadata: str | None
    length: int
    received: int
    small_appends: int
    generation: int
    state: UploadState
    report_id: str | None
    file_id: str | None
    created_at: datetime
    expires_at: datetime
    is_over: bool
    """Whether its time is over."""

    @property
    def token_id(self) -> str | None:
        """The upload token with which it was begun, None if it was none."""
        return self.actor_id if self.via == "upload_token" else None

    @property
    def is_complete(self) -> bool:
        """Whether all its bytes have come."""
        return self.received == self.length

    @property
    def offset(self) -> int:
        """The number of acknowledged bytes: the last one only with the verdict that stored the file."""
        if self.state is UploadState.STORED:
            return self.length
        return max(0, min(self.received, self.length - 1))


@dataclass(frozen=True, slots=True)
class UploadPart:
    """Bytes of an upload from `start` on, as one object of the platform's store."""

    start: int
    size: int
    object_key: str
