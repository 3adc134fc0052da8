"""The values that pass from stage to stage of an upload: rules, facts, the arrival, the verdict. They are frozen and know no engine."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from sluice.access import Principal
from sluice.buckets import Bucket
from sluice.contexts import Context, RateLimit
from sluice.engines.scanner import Edition
from sluice.formats.verdict import Report
from sluice.kit.sealed import Sealed
from sluice.tenants import Plan
from sluice.uploads.names import FileName, plain_extension
from sluice.uploads.reasons import Reason

Mode = Literal["store", "validate"]
"""`validate` judges and records the decision, but stores nothing."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a context as one upload met them: what a decision can be replayed with. Sizes are in bytes."""

    version: int
    allowed_extensions: tuple[str, ...]
    max_bytes: int
    reject_blank: bool
    reject_corrupt: bool
    scan: bool
    rate: RateLimit | None
    quota_bytes: int | None

    @classmethod
    def of(cls, context: Context) -> Self:
        """Answer the rules of `context`."""
        return cls(
            version=context.rules_version,
            allowed_extensions=tuple(plain_extension(extension) for extension in context.allowed_extensions),
            max_bytes=context.max_bytes,
            reject_blank=context.reject_blank_files,
            reject_corrupt=context.reject_corrupt_files,
            scan=context.scan_for_viruses,
            rate=context.upload_rate_limit,
            quota_bytes=context.quota_bytes,
        )

    def to_json(self) -> dict[str, Any]:
        """Answer the rules for the decision log."""
        # `asdict` would copy each value in depth.
        plain: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        return plain | {"rate": None if self.rate is None else asdict(self.rate)}


@dataclass(frozen=True, slots=True)
class RateFact:
    """The rate limit as the upload found it. `retry_after` (seconds) is None when a place was had."""

    remaining: int
    retry_after: float | None


@dataclass(frozen=True, slots=True)
class PlanFact:
    """Stored files of the tenant in this month, and the most its plan allows; `resets_in` is in seconds."""

    used: int
    limit: int
    resets_in: float


@dataclass(frozen=True, slots=True)
class ExamineFact:
    """What the checker said: a report, or how it ended without one."""

    report: Report | None
    died: bool
    overran: str | None
    detail: str
    ms: float


@dataclass(frozen=True, slots=True)
class ScanFact:
    """What the scanner said. `outcome` is `clean`, `infected` or `incomplete`: an absent scanner is no fact but a fault.

    `member` is the address of the daemon that said so, empty where there is none; `cached` tells a verdict that was given earlier on the
    same bytes; `flags` name what is no threat and yet worth knowing.
    """

    outcome: Literal["clean", "infected", "incomplete"]
    threat: str | None
    detail: str
    engine: str
    signatures: str
    ms: float
    member: str = ""
    cached: bool = False
    flags: tuple[str, ...] = ()

    @property
    def edition(self) -> str:
        """The engine, its signatures and our rules, as a file's row names them: `clamd 1.4.6/27500+2`."""
        return str(Edition(self.engine, self.signatures))


@dataclass(frozen=True, slots=True)
class Facts:
    """All that was measured of one upload so far; None is not measured yet. What is wrong with it is decided in `decide`."""

    filename: str
    extension: str
    size_bytes: int
    sha256: str | None = None
    """Hex digest; None while bytes are still coming."""
    rate: RateFact | None = None
    plan: PlanFact | None = None
    quota_used_bytes: int | None = None
    """Stored bytes of the context, without this file."""
    examined: ExamineFact | None = None
    scanned: ScanFact | None = None

    @property
    def content_type(self) -> str:
        """What the content is, not what the client claimed."""
        report = None if self.examined is None else self.examined.report
        return "application/octet-stream" if report is None else report.content_type

    def to_json(self) -> dict[str, Any]:
        """Answer the facts for the decision log."""
        # Every fact is flat: `asdict` would copy each value in depth.
        plain: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        for name in ("rate", "plan", "examined", "scanned"):
            fact = plain[name]
            plain[name] = None if fact is None else {inner: getattr(fact, inner) for inner in fact.__slots__}
        if self.examined is not None and self.examined.report is not None:
            plain["examined"]["report"] = self.examined.report.to_json()
        return plain


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why an upload is refused; `detail` says what was measured. `retry_after` (seconds) and `limit` are for limits that time heals."""

    reason: Reason
    detail: str
    retry_after: float | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What the database said of a context in one look: its rules and use, its bucket (None: the platform's store), its tenant's plan."""

    context: Context
    rules: Rules
    bucket: Bucket | None
    plan: Plan
    plan_uploads: int
    """Uploads that count in the month of the look."""
    present: datetime
    """The moment of the look by the database's clock, which says what month it is."""
    at: datetime
    """The same by this process's own clock, which says how old the look is."""
    remembered: bool = False
    """Seen for an earlier upload: nothing may be answered on it before it is confirmed."""

    def same_as(self, other: Self) -> bool:
        """Tell whether context, bucket and plan are of the same editions. How much is used may differ."""
        return (
            self.context.rules_version == other.context.rules_version
            and self.context.status == other.context.status
            and self.bucket == other.bucket
            and self.plan == other.plan
        )


@dataclass(frozen=True, slots=True)
class Arrival:
    """A whole upload, received and sealed, before any check of its content. Its look may be as old as its body was long."""

    principal: Principal
    look: Look
    name: FileName
    sealed: Sealed
    metadata: Mapping[str, object]

    @property
    def context(self) -> Context:
        """The context whose rules hold for this upload: as it was when its name came."""
        return self.look.context

    @property
    def remembered(self) -> bool:
        """Whether caller or context are as they were a moment ago, not as they were found by this request."""
        return self.look.remembered or self.principal.remembered


@dataclass(frozen=True, slots=True)
class Seen:
    """The editions of what an upload was judged by; reserving asks for the same. A bucket's id is in `PendingFile`."""

    plan: Plan
    rules_version: int
    bucket_changed_at: datetime | None
    key_changed_at: datetime | None
    remembered: bool
    """Whether any of them was only remembered."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One row of the decision log."""

    report_id: str
    tenant_id: str
    file_id: str | None
    context_key: str
    mode: Mode
    rules: Rules
    facts: Facts
    rejection: Rejection | None
    actor: Principal
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a file will be, once it may be there: its id, and its object's key with the bucket's base path."""

    file_id: str
    object_key: str


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A file that is about to be stored: its row exists before its object, so that every object can be found."""

    file_id: str
    tenant_id: str
    context_id: str
    context_key: str
    name: FileName
    content_type: str
    size_bytes: int
    sha256: str
    storage_config_id: str | None
    object_key: str
    uploader: Principal
    metadata: Mapping[str, object]
    counts: bool
    """Whether it counts against the plan, in the month in which its row is written."""
    report_id: str
    created_at: datetime
    lease: timedelta
    """So long it may stay pending, from the moment at which its row is written."""
    scanned_with: str | None
    """The edition that scanned it; None where no scan was asked for."""
    seen: Seen


@dataclass(frozen=True, slots=True)
class Stored:
    """The upload was accepted; in mode `validate`, `file_id` is None and nothing was stored."""

    file_id: str | None
    report_id: str
    original_filename: str
    content_type: str
    size_bytes: int
    context_key: str
    metadata: Mapping[str, object]
    rate: RateFact | None
