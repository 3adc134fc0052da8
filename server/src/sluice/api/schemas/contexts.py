"""Bodies of the file context endpoints."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field

from sluice.api.schemas.envelope import (
    NOT_BLANK,
    PLAIN,
    PLAIN_LINES,
    Metadata,
    RequestBody,
    ResponseBody,
    UpdateBody,
    is_none,
    without_defaults,
)
from sluice.api.schemas.holds import HoldOut
from sluice.contexts import Context, RateLimit
from sluice.contexts.branding import clean_color, clean_logo
from sluice.contexts.context import RetentionStart
from sluice.contexts.external_checks import MOST_CHECKS, ExternalCheckDraft, IfUnavailable
from sluice.contexts.policies import ALL_ENFORCED, NO_POLICIES, CheckModes, Mode, Policies
from sluice.contexts.sanitising import IfSigned, OfOriginal, Removal, Sanitise
from sluice.contexts.service import Draft
from sluice.contexts.templates import DEFAULT_TEMPLATE, BadTemplate, validate


def _extension(text: str) -> str:
    parts = text.removeprefix(".").split(".")
    if not all(part and part == part.strip() and "/" not in part and "\\" not in part for part in parts):
        raise ValueError("expected one extension such as 'pdf' or 'tar.gz': what follows a dot of a name")
    return text


def _template(text: str) -> str:
    try:
        validate(text)
    except BadTemplate as fault:
        raise ValueError(str(fault)) from fault
    return text


Extension = Annotated[str, Field(min_length=1, max_length=33), PLAIN, AfterValidator(_extension)]
Extensions = Annotated[
    list[Extension], Field(max_length=500, description="Empty allows all.", examples=[["pdf", "png"]])
]
Template = Annotated[str, Field(max_length=500), AfterValidator(_template)]
DisplayName = Annotated[str, Field(min_length=1, max_length=255, examples=["Claims"]), PLAIN]
Description = Annotated[str, Field(max_length=1000), PLAIN_LINES]
MaxFileSize = Annotated[int, Field(ge=1, le=500, description="Megabytes of 1,048,576 bytes.")]
Quota = Annotated[int, Field(ge=1, le=10_485_760, description="Megabytes of 1,048,576 bytes; null is unlimited.")]
RetentionDays = Annotated[
    int, Field(ge=1, le=36_500, description="Days after which files are deleted; null keeps them for ever.")
]
_RETENTION_STARTS: Final = (
    "From when the days count: `stored`, the upload of the file, or `last_downloaded`, when a download URL was last "
    "handed out, or else the upload."
)
BucketId = Annotated[
    str, Field(max_length=64, description="A bucket's config_id; null uses the tenant's default bucket."), PLAIN
]
PageName = Annotated[
    str,
    Field(min_length=1, max_length=100, description="Who asks for the files, as the upload page shows it."),
    PLAIN,
    NOT_BLANK,
]
PageSentence = Annotated[
    str,
    Field(min_length=1, max_length=300, description="What is asked for, above the form of the upload page."),
    PLAIN,
    NOT_BLANK,
]
PageColor = Annotated[
    str,
    Field(max_length=7, description="The colour of buttons on the upload page, as `#rrggbb`.", examples=["#1f6feb"]),
    AfterValidator(clean_color),
]
PageLogo = Annotated[
    str,
    Field(
        max_length=40_000,
        description="A PNG file in base64, at most 24,576 bytes and 1,024 pixels on each side, on the upload page.",
    ),
    AfterValidator(clean_logo),
]


_CHECK_MODES: Final = (
    "How `reject_corrupt_files` (`integrity`), `reject_blank_files` (`blank`) and `scan_for_viruses` (`malware`) act "
    "where they are true: `enforce`, `quarantine` or `report`."
)
_POLICIES: Final = "Further rules, each with a mode: `off`, `report`, `quarantine` or `enforce`."
_EXTERNAL_CHECKS: Final = "URLs that are asked, at the same time, about each file that nothing else rejected."
_SANITISE: Final = "What is taken out of every file before it is stored; null stores files as they are sent."


def _named_once(checks: list[ExternalCheckDraft]) -> list[ExternalCheckDraft]:
    if len({check.name for check in checks}) < len(checks):
        raise ValueError("expected each name once")
    return checks


ExternalChecks = Annotated[list[ExternalCheckDraft], Field(max_length=MOST_CHECKS), AfterValidator(_named_once)]


class UploadRateLimit(RequestBody):
    """At most `max_uploads` in any window of `window_seconds`."""

    max_uploads: Annotated[int, Field(ge=1, le=10_000)]
    window_seconds: Annotated[int, Field(ge=1, le=3600)]


class CreateContext(RequestBody):
    """A context to be created."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "context_key": "claims",
                    "display_name": "Claims",
                    "allowed_extensions": ["pdf", "png", "jpg"],
                    "max_file_size_mb": 20,
                    "upload_rate_limit": {"max_uploads": 100, "window_seconds": 60},
                }
            ]
        }
    )

    context_key: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[a-z][a-z0-9_]*$", examples=["claims"])]
    display_name: DisplayName
    description: Description | None = None
    allowed_extensions: Extensions = Field(default_factory=list)
    max_file_size_mb: MaxFileSize = 10
    storage_path_template: Template | None = None
    reject_blank_files: bool = True
    reject_corrupt_files: bool = True
    scan_for_viruses: bool = True
    upload_rate_limit: UploadRateLimit | None = None
    storage_quota_mb: Quota | None = None
    metadata: Metadata | None = None
    storage_config_id: BucketId | None = None
    check_modes: CheckModes | None = Field(None, description=_CHECK_MODES)
    policies: Policies | None = Field(None, description=_POLICIES)
    retention_days: RetentionDays | None = None
    retention_starts: RetentionStart = Field("stored", description=_RETENTION_STARTS)
    page_name: PageName | None = None
    page_sentence: PageSentence | None = None
    page_color: PageColor | None = None
    page_logo: PageLogo | None = None
    external_checks: ExternalChecks = Field(default_factory=list, description=_EXTERNAL_CHECKS)
    sanitise: Sanitise | None = Field(None, description=_SANITISE)

    def draft(self) -> Draft:
        """Return the context with its defaults filled in."""
        return Draft(
            context_key=self.context_key,
            display_name=self.display_name,
            description=self.description,
            allowed_extensions=tuple(self.allowed_extensions),
            max_file_size_mb=self.max_file_size_mb,
            storage_path_template=self.storage_path_template or DEFAULT_TEMPLATE,
            reject_blank_files=self.reject_blank_files,
            reject_corrupt_files=self.reject_corrupt_files,
            scan_for_viruses=self.scan_for_viruses,
            upload_rate_limit=_rate(self.upload_rate_limit),
            storage_quota_mb=self.storage_quota_mb,
            metadata=self.metadata or {},
            storage_config_id=self.storage_config_id or None,
            check_modes=self.check_modes or ALL_ENFORCED,
            policies=self.policies or NO_POLICIES,
            retention_days=self.retention_days,
            retention_starts=self.retention_starts,
            page_name=self.page_name,
            page_sentence=self.page_sentence,
            page_color=self.page_color,
            page_logo=self.page_logo,
            external_checks=tuple(self.external_checks),
            sanitise=self.sanitise,
        )


class RuleChanges(UpdateBody):
    """Rules of a context to be changed; those not sent stay as they are."""

    allowed_extensions: Extensions = Field(default_factory=list)
    max_file_size_mb: MaxFileSize = 10
    reject_blank_files: bool = True
    reject_corrupt_files: bool = True
    scan_for_viruses: bool = True
    upload_rate_limit: UploadRateLimit | None = None
    storage_quota_mb: Quota | None = None
    check_modes: CheckModes | None = Field(None, description=f"{_CHECK_MODES} Replaces all of them.")
    policies: Policies | None = Field(None, description=f"{_POLICIES} Replaces all of them; null removes them.")
    external_checks: ExternalChecks = Field(
        default_factory=list,
        description=f"{_EXTERNAL_CHECKS} Replaces all of them; one with a known name keeps its secret.",
    )

    def changes(self) -> Mapping[str, Any]:
        """Return the fields that were sent, as the service takes them."""
        sent: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        if "check_modes" in sent:
            sent["check_modes"] = self.check_modes or ALL_ENFORCED
        if "policies" in sent:
            sent["policies"] = self.policies or NO_POLICIES
        if "external_checks" in sent:
            sent["external_checks"] = tuple(self.external_checks)
        if "upload_rate_limit" in sent:
            sent["upload_rate_limit"] = _rate(self.upload_rate_limit)
        return sent


class UpdateContext(RuleChanges):
    """Fields of a context to be changed; those not sent stay as they are."""

    model_config = ConfigDict(json_schema_extra=without_defaults({"max_file_size_mb": 50, "storage_quota_mb": 1024}))

    display_name: DisplayName = ""
    description: Description | None = None
    storage_path_template: Template | None = None
    metadata: Metadata | None = None
    storage_config_id: BucketId | None = Field(
        None, description="An empty string or null resets to the tenant's default bucket."
    )
    status: Literal["active", "inactive"] = "active"
    retention_days: RetentionDays | None = None
    retention_starts: RetentionStart = Field("stored", description=_RETENTION_STARTS)
    page_name: PageName | None = None
    page_sentence: PageSentence | None = None
    page_color: PageColor | None = None
    page_logo: PageLogo | None = None
    sanitise: Sanitise | None = Field(None, description=_SANITISE)

    def changes(self) -> Mapping[str, Any]:
        """Return the fields that were sent, as the service takes them."""
        sent = dict(super().changes())
        if "storage_path_template" in sent:
            sent["storage_path_template"] = self.storage_path_template or DEFAULT_TEMPLATE
        if "metadata" in sent:
            sent["metadata"] = self.metadata or {}
        if "storage_config_id" in sent:
            sent["storage_config_id"] = self.storage_config_id or None
        return sent


def _shown_if_set(description: str) -> Any:
    return Field(None, exclude_if=is_none, description=f"{description} Left out if it is null.")


class RateLimitOut(ResponseBody):
    """The rate limit of a context."""

    max_uploads: int
    window_seconds: int


class ExternalCheckOut(ResponseBody):
    """An external check of a context."""

    name: str
    url: str = Field(description="Where it is asked.")
    mode: Mode
    if_unavailable: IfUnavailable = Field(description="What happens to a file without an answer.")
    timeout_seconds: int = Field(description="Longest wait for the whole answer, in seconds.")
    secret: str | None = Field(
        None,
        exclude_if=is_none,
        description="The secret that signs the questions, in the response to the request that made it and never again.",
    )


class SanitiseOut(ResponseBody):
    """What is taken out of every file of a context."""

    remove: list[Removal] = Field(description="What is taken out.")
    original: OfOriginal = Field(description="What happens to what was sent.")
    signed: IfSigned = Field(description="What happens to a document whose signature this would break.")


class ContextItem(ResponseBody):
    """A context in a list."""

    context_id: str
    context_key: str
    display_name: str
    description: str | None
    status: Literal["active", "inactive"]
    allowed_extensions: list[str]
    max_file_size_mb: int
    reject_blank_files: bool
    reject_corrupt_files: bool
    scan_for_viruses: bool
    upload_rate_limit: RateLimitOut | None
    storage_quota_mb: int | None
    storage_used_bytes: int | None


class ContextOut(ContextItem):
    """A whole context."""

    tenant_id: str
    storage_path_template: str
    metadata: Metadata
    storage_config_id: str | None
    check_modes: CheckModes = Field(
        description=f"{_CHECK_MODES} Left out if all are enforced.", exclude_if=lambda modes: modes == ALL_ENFORCED
    )
    policies: Policies = Field(
        description=f"{_POLICIES} Left out if there are none.", exclude_if=lambda policies: policies == NO_POLICIES
    )
    retention_days: int | None = Field(
        None, exclude_if=is_none, description="Days after which files are deleted. Left out if they are kept for ever."
    )
    retention_starts: RetentionStart | None = Field(
        None, exclude_if=is_none, description=f"{_RETENTION_STARTS} Left out without `retention_days`."
    )
    page_name: str | None = _shown_if_set("Who asks for the files, as the upload page shows it.")
    page_sentence: str | None = _shown_if_set("What is asked for, above the form of the upload page.")
    page_color: str | None = _shown_if_set("The colour of buttons on the upload page.")
    page_logo: str | None = _shown_if_set("The logo on the upload page: a PNG file in base64.")
    external_checks: list[ExternalCheckOut] = Field(
        default_factory=list,
        exclude_if=lambda checks: not checks,
        description=f"{_EXTERNAL_CHECKS} Left out if there are none, and for callers without the scope `admin`.",
    )
    sanitise: SanitiseOut | None = _shown_if_set("What is taken out of every file before it is stored.")
    hold: HoldOut | None = Field(
        None, exclude_if=is_none, description="The legal hold on all files of the context. Left out if there is none."
    )

    @classmethod
    def of(cls, context: Context, *, to_admin: bool = True) -> Self:
        """Return the context as it is shown."""
        shown = cls.model_validate(context)
        if not to_admin:  # their URLs may lead into the tenant's own network, or hold a credential
            shown.external_checks = []
        if context.retention_days is None:
            shown.retention_starts = None
        if context.held_at is not None:
            shown.hold = HoldOut(
                on="context", held_at=context.held_at, held_by=context.held_by or "", reason=context.hold_reason or ""
            )
        return shown


def _rate(sent: UploadRateLimit | None) -> RateLimit | None:
    return None if sent is None else RateLimit(sent.max_uploads, sent.window_seconds)
