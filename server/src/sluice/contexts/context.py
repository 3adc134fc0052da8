"""The value of a context. What may be done with one is in `service`, how it is kept in `repository`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from sluice.contexts.branding import Branding
from sluice.contexts.external_checks import ExternalCheck
from sluice.contexts.policies import ALL_ENFORCED, NO_POLICIES, CheckModes, Policies
from sluice.contexts.sanitising import Sanitise
from sluice_inspect.document_kinds import DocumentKind

BYTES_PER_MB: Final = 1_048_576

Status = Literal["active", "inactive"]
# From when the days of the retention are counted.
RetentionStart = Literal["stored", "last_downloaded"]


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `max_uploads` in any window of `window_seconds`."""

    max_uploads: int
    window_seconds: int


@dataclass(frozen=True, slots=True)
class Context:
    """One context of one tenant. Sizes named `_mb` are in units of 1,048,576 bytes.

    `retention_days` None keeps its files for ever; `held_at` is not None while all of them are under a legal hold.
    """

    context_id: str
    tenant_id: str
    context_key: str
    display_name: str
    description: str | None
    allowed_extensions: tuple[str, ...]
    max_file_size_mb: int
    storage_path_template: str
    reject_blank_files: bool
    reject_corrupt_files: bool
    scan_for_viruses: bool
    upload_rate_limit: RateLimit | None
    storage_quota_mb: int | None
    storage_used_bytes: int
    status: Status
    metadata: Mapping[str, object]
    storage_config_id: str | None
    rules_version: int
    created_at: datetime
    updated_at: datetime | None
    check_modes: CheckModes = ALL_ENFORCED
    policies: Policies = NO_POLICIES
    retention_days: int | None = None
    retention_starts: RetentionStart = "stored"
    held_at: datetime | None = None
    held_by: str | None = None
    hold_reason: str | None = None
    page_name: str | None = None
    page_sentence: str | None = None
    page_color: str | None = None
    page_logo: str | None = None
    external_checks: tuple[ExternalCheck, ...] = ()
    sanitise: Sanitise | None = None
    document_kind: DocumentKind | None = None
    """What its examples have in common; None without examples."""

    @property
    def branding(self) -> Branding:
        """What the upload page shows of who asks for the files."""
        return Branding(self.page_name, self.page_sentence, self.page_color, self.page_logo)

    @property
    def max_bytes(self) -> int:
        """Largest file in bytes."""
        return self.max_file_size_mb * BYTES_PER_MB

    @property
    def quota_bytes(self) -> int | None:
        """Most stored bytes; None is unlimited."""
        return None if self.storage_quota_mb is None else self.storage_quota_mb * BYTES_PER_MB
