"""Bodies of the job endpoints, and of the requests that begin a job."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from sluice.api.schemas.envelope import PLAIN, RequestBody, ResponseBody
from sluice.api.schemas.moment import Moment
from sluice.files import FileFilter
from sluice.files.lifecycle import Refusal
from sluice.files.record import FileStatus
from sluice.jobs import ExportFormat, Job, JobKind, JobState

_MOST_IDS: Final = 1000
_MOST_FILES: Final = 1_000_000
SHA256: Final = r"^(sha256:)?[0-9A-Fa-f]{64}$"
METADATA_NAME: Final = 100
METADATA_VALUE: Final = 200
MOST_PAIRS: Final = 5


_Text = Annotated[str, Field(min_length=1, max_length=255), PLAIN]
_Pairs = dict[
    Annotated[str, Field(min_length=1, max_length=METADATA_NAME), PLAIN],
    Annotated[str, Field(max_length=METADATA_VALUE), PLAIN],
]


class FileQuery(RequestBody):
    """A filter of files, as the parameters of `GET /api/v1/files`. At least one field."""

    context: _Text | None = None
    uploaded_by: _Text | None = None
    filename: _Text | None = None
    sha256: Annotated[str, Field(pattern=SHA256)] | None = None
    content_type: _Text | None = None
    created_after: Moment | None = None
    created_before: Moment | None = None
    min_size: Annotated[int, Field(ge=0, le=2**40)] | None = None
    status: FileStatus | None = None
    metadata: Annotated[_Pairs, Field(max_length=MOST_PAIRS, description="Names with their values as text.")] | None = (
        None
    )

    def to_filter(self) -> FileFilter:
        """Return the filter of it."""
        return FileFilter(
            context_key=self.context,
            uploaded_by=self.uploaded_by,
            sha256=None if self.sha256 is None else self.sha256.removeprefix("sha256:").lower(),
            filename=self.filename,
            content_type=self.content_type,
            created_after=self.created_after,
            created_before=self.created_before,
            min_size=self.min_size,
            status=self.status,
            metadata=tuple((self.metadata or {}).items()),
        )


class ChosenFiles(RequestBody):
    """Files to be deleted or restored: by their ids, or by a filter with the most that may be."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"file_ids": ["file_01kah3z5wbfq2tzv6y8n4c1d9k"]},
                {"filter": {"context": "claims", "metadata": {"claim": "C-7"}}, "max_files": 100},
            ]
        }
    )

    file_ids: (
        Annotated[
            list[Annotated[str, Field(min_length=1, max_length=64), PLAIN]], Field(min_length=1, max_length=_MOST_IDS)
        ]
        | None
    ) = None
    filter: FileQuery | None = None
    max_files: (
        Annotated[
            int,
            Field(ge=1, le=_MOST_FILES, description="With a filter: the job ends when it has changed this many."),
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.file_ids is None) == (self.filter is None):
            raise ValueError("expected either file_ids or filter")
        if (self.filter is None) != (self.max_files is None):
            raise ValueError("expected max_files with a filter, and with nothing else")
        if self.filter is not None and self.filter.to_filter() == FileFilter():
            raise ValueError("expected at least one field in filter")
        return self


class ExportRequest(RequestBody):
    """Whose metadata are exported, and how."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"filter": {"context": "claims"}, "format": "csv"}]})

    filter: FileQuery | None = Field(default=None, description="Without it, all files.")
    format: ExportFormat = Field(default="ndjson", description="`ndjson`: a JSON object on each line; or `csv`.")


class RefusedFile(ResponseBody):
    """A file that a job left as it was."""

    file_id: str
    reason: Refusal = Field(
        description=(
            "`not_found`: unknown, of another tenant, gone; `not_deleted`; `storage_quota_exceeded`; `held`;"
            " `second_reviewer_needed`: in quarantine, where two persons have to refuse it."
        )
    )


class ExportOut(ResponseBody):
    """The output of an export."""

    format: ExportFormat
    size_bytes: int
    expires_at: datetime = Field(description="From then on it cannot be downloaded.")


class ExportDownload(ResponseBody):
    """A link that downloads what an export wrote."""

    job_id: str
    download_url: str
    expires_in_seconds: int
    format: ExportFormat
    size_bytes: int


class JobOut(ResponseBody):
    """A job: work on many files that continues after the response."""

    job_id: str
    kind: JobKind
    status: JobState = Field(
        description="`waiting` for a worker, `running`; `done`, `failed` and `cancelled` are for good."
    )
    total: int | None = Field(description="How many files the job covers; null: too many to count.")
    done: int = Field(description="Files that were changed, or exported, so far.")
    skipped: int = Field(description="Files that were left as they were.")
    refused: list[RefusedFile] = Field(description="The first 100 of these.")
    export: ExportOut | None = Field(description="What was written, once an export is done and until it expires.")
    error: str | None = Field(description="Why it failed, null otherwise.")
    params: dict[str, Any] = Field(description="What was asked for.")
    created_by: str = Field(description="API key ID or user ID.")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return a job as it is shown."""
        names = ("job_id", "kind", "total", "done", "skipped", "error", "created_at", "started_at", "ended_at")
        return cls(
            **{name: getattr(job, name) for name in names},
            status=job.state,
            refused=[RefusedFile(file_id=file_id, reason=reason) for file_id, reason in job.refused],
            export=None if job.export is None else ExportOut.model_validate(job.export),
            params=dict(job.params),
            created_by=job.actor_id,
        )


class JobCancelled(ResponseBody):
    """A job was cancelled; what it had done stays done."""

    job_id: str
    status: Literal["cancelled"] = "cancelled"
    done: int
