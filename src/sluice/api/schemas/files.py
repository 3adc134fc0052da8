"""Bodies of the file endpoints. The upload's form is read as a stream in `api.upload_form`; only its documentation is here."""

from datetime import datetime
from typing import Any, Final, Literal

from sluice.api.schemas.envelope import Metadata, ResponseBody


class Uploaded(ResponseBody):
    """A file that passed every check and is stored."""

    file_id: str
    original_filename: str
    content_type: str
    size_bytes: int
    context_key: str
    metadata: Metadata


class FileItem(Uploaded):
    """A file as it stands in a list."""

    uploaded_by: str
    uploaded_by_name: str
    download_count: int
    last_downloaded_at: datetime | None
    created_at: datetime


class FileMetadata(Uploaded):
    """What is known of one file. `checksum` is `sha256:<hex digest>`."""

    checksum: str
    download_count: int
    last_downloaded_at: datetime | None


class DownloadUrl(ResponseBody):
    """A link that hands the file out for a limited time, without credentials."""

    file_id: str
    download_url: str
    expires_in_seconds: int
    original_filename: str
    content_type: str


class FileDeleted(ResponseBody):
    """A file was deleted."""

    file_id: str
    deleted: Literal[True] = True


UPLOAD_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "context"],
                    "properties": {
                        # `format` for generators of OpenAPI 3.0 age, `contentMediaType` as 3.1 says it: both are needed in practice.
                        "file": {
                            "type": "string",
                            "format": "binary",
                            "contentMediaType": "application/octet-stream",
                            "description": "The file. Its name's last extension counts.",
                        },
                        "context": {"type": "string", "description": "A context_key.", "examples": ["claims"]},
                        "metadata": {
                            "type": "string",
                            "description": "A JSON object of at most 4,096 bytes.",
                            "examples": ['{"claim": "2026-0042"}'],
                        },
                    },
                },
            }
        },
    }
}
"""The documented form: fields may come in any order."""
