"""Bodies of the endpoints of the quarantine."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field

from sluice.api.schemas.envelope import NOT_BLANK, PLAIN_LINES, RequestBody, ResponseBody
from sluice.files import Quarantined
from sluice.files.lifecycle import ReviewOutcome


class ReviewComment(RequestBody):
    """What a reviewer says to a decision."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"comment": "False alarm, confirmed with the vendor"}]})

    comment: Annotated[
        str, Field(min_length=1, max_length=1000, description="Why; the audit log shows it."), PLAIN_LINES, NOT_BLANK
    ]


class FirstReview(ResponseBody):
    """What the first of two reviewers decided."""

    decision: Literal["release", "refuse"]
    reviewed_by: str = Field(description="API key ID or user ID.")
    reviewed_at: datetime


class QuarantinedFile(ResponseBody):
    """A stored file that nobody can download."""

    file_id: str
    context_key: str
    original_filename: str
    content_type: str
    size_bytes: int
    sha256: str
    uploaded_by: str
    report_id: str
    quarantined_at: datetime = Field(description="Since when.")
    threat: str | None = Field(
        description="What a later scan found. Null if it found nothing, or the upload failed a check that is in "
        "quarantine mode: its report has the reason."
    )
    scanned_with: str | None = Field(description="The engine of the last scan; null if there was none.")
    scanned_at: datetime | None = Field(description="When it was scanned last.")
    rescan_asked: bool = Field(description="Whether a reviewer wants it scanned, and the worker has not done it yet.")
    first_review: FirstReview | None = Field(description="What the first of two reviewers decided; null if none has.")

    @classmethod
    def of(cls, file: Quarantined) -> Self:
        """Return the file as it is shown."""
        first = None
        if file.review_decision is not None and file.reviewed_by is not None and file.reviewed_at is not None:
            first = FirstReview(
                decision=file.review_decision, reviewed_by=file.reviewed_by, reviewed_at=file.reviewed_at
            )
        return cls(
            **{name: getattr(file, name) for name in _SAME},
            rescan_asked=file.rescan_at is not None,
            first_review=first,
        )


_SAME = (
    "file_id",
    "context_key",
    "original_filename",
    "content_type",
    "size_bytes",
    "sha256",
    "uploaded_by",
    "report_id",
    "quarantined_at",
    "threat",
    "scanned_with",
    "scanned_at",
)


class Reviewed(ResponseBody):
    """What became of a file that a reviewer decided on."""

    file_id: str
    outcome: ReviewOutcome = Field(
        description="`awaits_second`: nothing has changed until another person decides the same."
    )


class RescanAsked(ResponseBody):
    """A file in quarantine is scanned again by the worker."""

    file_id: str
    rescan_asked: Literal[True] = True
