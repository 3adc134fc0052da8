"""Bodies of the endpoints of resumable uploads. The verdict on one is the body of an upload by form."""

from datetime import datetime
from typing import Literal, Self

from pydantic import Field

from sluice.api.schemas.envelope import ResponseBody
from sluice.resumable.resumable_upload import ResumableUpload


class ResumableUploadOut(ResponseBody):
    """A resumable upload as it is now."""

    upload_id: str
    state: Literal["open", "judging", "stored", "rejected"] = Field(
        description="`open`: bytes are missing, or the verdict could not be taken yet."
    )
    offset: int = Field(description="Bytes that are acknowledged; the last one is with the verdict.")
    length: int
    context: str
    original_filename: str
    expires_at: datetime
    file_id: str | None = Field(description="Null unless the file is stored.")
    report_id: str | None = Field(description="Null while there is no verdict.")

    @classmethod
    def of(cls, upload: ResumableUpload) -> Self:
        """Return the response that shows an upload."""
        is_stored, has_verdict = upload.state == "stored", upload.state in {"stored", "rejected"}
        return cls.model_validate(
            {
                "upload_id": upload.upload_id,
                "state": upload.state.value,
                "offset": upload.offset,
                "length": upload.length,
                "context": upload.context_key,
                "original_filename": upload.filename,
                "expires_at": upload.expires_at,
                "file_id": upload.file_id if is_stored else None,
                "report_id": upload.report_id if has_verdict else None,
            }
        )
