"""Bodies of the file endpoints. The form of an upload is read in `routes.upload`; only its schema is here."""

from datetime import datetime
from typing import Any, Final, Literal, Self

from pydantic import Field

from sluice.api.schemas.envelope import Metadata, ResponseBody, is_none
from sluice.api.schemas.holds import HoldOut
from sluice.uploads.values import Stored


class Uploaded(ResponseBody):
    """A file that passed every check and is stored."""

    file_id: str
    original_filename: str
    content_type: str
    size_bytes: int
    context_key: str
    metadata: Metadata


class UploadOut(Uploaded):
    """A file that was accepted, and the report of its acceptance."""

    report_id: str = Field(description="Id of the report, for `GET /api/v1/reports/{report_id}`.")
    outcome: Literal["quarantined"] | None = Field(
        None,
        exclude_if=is_none,
        description="Only for a file in quarantine: it cannot be downloaded until a reviewer releases it.",
    )

    @classmethod
    def of(cls, stored: Stored) -> Self:
        """Return the response to an upload that was accepted."""
        return cls(
            file_id=stored.file_id,
            original_filename=stored.original_filename,
            content_type=stored.content_type,
            size_bytes=stored.size_bytes,
            context_key=stored.context_key,
            metadata=dict(stored.metadata),
            report_id=stored.report_id,
            outcome="quarantined" if stored.outcome == "quarantined" else None,
        )


class UploadedByToken(ResponseBody):
    """A file that was sent with an upload token and accepted."""

    file_id: str
    original_filename: str
    content_type: str
    size_bytes: int
    report_id: str


class FileItem(Uploaded):
    """A file in a list."""

    uploaded_by: str
    uploaded_by_name: str
    download_count: int
    last_downloaded_at: datetime | None
    created_at: datetime


class FileMetadata(Uploaded):
    """The metadata of one file. `checksum` is `sha256:<hex digest>`."""

    checksum: str
    download_count: int
    last_downloaded_at: datetime | None
    expires_at: datetime | None = Field(
        None,
        exclude_if=is_none,
        description="When the worker deletes the file, UTC. Left out if it is kept for ever, or held.",
    )
    hold: HoldOut | None = Field(
        None, exclude_if=is_none, description="The legal hold on the file. Left out if there is none."
    )


class DownloadUrl(ResponseBody):
    """A link that hands the file out for a limited time, without credentials."""

    file_id: str
    download_url: str
    expires_in_seconds: int
    original_filename: str
    content_type: str


class PreviewUrl(ResponseBody):
    """A link to a picture of what a file shows, without credentials."""

    file_id: str
    preview_url: str = Field(description="A PNG, for an element `img`.")
    size: int = Field(description="Pixels of its longer side at most.")
    expires_in_seconds: int


class DeletedFile(ResponseBody):
    """A file was deleted."""

    file_id: str
    deleted: Literal[True] = True


class RestoredFile(ResponseBody):
    """A deleted file is stored again."""

    file_id: str
    restored: Literal[True] = True


UPLOAD_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "context"],
                    "properties": {
                        # `format` for generators of OpenAPI 3.0 age, `contentMediaType` as 3.1 says it: both are needed
                        # in practice.
                        "file": {
                            "type": "string",
                            "format": "binary",
                            "contentMediaType": "application/octet-stream",
                            "description": "The file. Its name's last extension counts.",
                        },
                        "context": {
                            "type": "string",
                            "description": "A context_key. An upload token names its own.",
                            "examples": ["claims"],
                        },
                        "metadata": {
                            "type": "string",
                            # Without an example: the form of `/docs` would fill it in, and it would be stored.
                            "description": 'A JSON object of at most 4,096 bytes, such as `{"claim": "2026-0042"}`.',
                        },
                    },
                },
            }
        },
    }
}
"""The documented form: fields may come in any order."""
