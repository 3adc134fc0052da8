"""Bodies of the endpoints of legal holds, which the views of files and contexts show too."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from sluice.api.schemas.envelope import NOT_BLANK, PLAIN_LINES, RequestBody, ResponseBody


class SetHold(RequestBody):
    """A legal hold to be set."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "Case 2026-17"}]})

    reason: Annotated[
        str,
        Field(min_length=1, max_length=1000, description="Why; the audit log and the metadata show it."),
        PLAIN_LINES,
        NOT_BLANK,
    ]


class HoldOut(ResponseBody):
    """A legal hold: while it stands, nothing deletes or purges the file."""

    on: Literal["file", "context"] = Field(description="Whether the file itself is held, or all files of its context.")
    held_at: datetime = Field(description="Since when.")
    held_by: str = Field(description="API key ID or user ID of who set it.")
    reason: str = Field(description="Why.")


class FileHold(ResponseBody):
    """Whether a file has a legal hold of its own."""

    file_id: str
    held: bool = Field(description="Whether it has one now. That of its context is another.")


class ContextHold(ResponseBody):
    """Whether a context has a legal hold."""

    context_key: str
    held: bool = Field(description="Whether all its files are held now. Single files may have holds of their own.")
