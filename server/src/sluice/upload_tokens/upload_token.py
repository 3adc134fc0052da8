"""The value of an upload token as it is stored: never its secret. Its text is in `api_keys.secret`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sluice.access import UploadPermit

TokenStatus = Literal["active", "spent", "expired", "revoked"]
Method = Literal["form", "tus"]
# What a request does: it begins an upload, is asked for its credential once more, or continues an upload.
TokenUse = Literal["begin", "again", "continue"]


@dataclass(frozen=True, slots=True)
class UploadToken:
    """One token of one tenant. `token_prefix` is safe to show.

    `page_sentence` is shown on the upload page instead of the context's. `max_file_size_bytes` None and empty
    `allowed_extensions` leave it to the context. `files_claimed` counts the files that are stored, and those that are
    about to be.
    """

    token_id: str
    tenant_id: str
    token_prefix: str
    mode: Literal["live", "test"]
    context_key: str
    max_files: int
    max_file_size_bytes: int | None
    allowed_extensions: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    methods: tuple[Method, ...]
    end_user: str | None
    metadata: Mapping[str, object]
    redirect_ok: str | None
    redirect_error: str | None
    files_claimed: int
    attempts: int
    created_by: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    page_sentence: str | None = None

    @property
    def most_attempts(self) -> int:
        """The maximum number of uploads that may begin with the token, whatever their outcome."""
        return 5 * self.max_files + 5

    @property
    def permit(self) -> UploadPermit:
        """The permission of the token's holder."""
        return UploadPermit(
            token_id=self.token_id,
            context_key=self.context_key,
            max_bytes=self.max_file_size_bytes,
            allowed_extensions=self.allowed_extensions,
            metadata=self.metadata,
            allowed_origins=self.allowed_origins,
            end_user=self.end_user,
            made_by=self.created_by,
        )

    def status_at(self, moment: datetime) -> TokenStatus:
        """Return what the token is good for; only an active one can begin an upload."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at <= moment:
            return "expired"
        is_spent = self.files_claimed >= self.max_files or self.attempts >= self.most_attempts
        return "spent" if is_spent else "active"


@dataclass(frozen=True, slots=True)
class TokenUpload:
    """The outcome of one upload with a token. `file_id` is None unless the file was stored."""

    report_id: str
    file_id: str | None
    outcome: str
    created_at: datetime
