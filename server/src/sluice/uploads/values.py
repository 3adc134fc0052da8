"""The values that pass from step to step of an upload: rules, facts, snapshot, decision.

They are frozen and know no engine.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, Self

from sluice.access import Principal, UploadPermit
from sluice.buckets import Bucket
from sluice.contexts import Context, RateLimit
from sluice.contexts.external_checks import ExternalCheck, IfUnavailable
from sluice.contexts.policies import (
    ALL_ENFORCED,
    NO_POLICIES,
    CheckModes,
    Mode,
    Policies,
    check_modes_of,
    policies_of,
)
from sluice.contexts.sanitising import Sanitise, sanitise_of
from sluice.errors import FileRejected, LimitExceeded
from sluice.hash_lists import ListedHash
from sluice.hash_lists.entry import NO_ENTRIES, ListedAlgorithms, choose
from sluice.scanner import EngineVersion, SingleResult, version_of
from sluice.tenants import Plan
from sluice.uploads.examined import ExamineFact
from sluice.uploads.names import FileName, plain_extension
from sluice.uploads.reasons import EXTERNAL, LIMIT_REASONS, WORDS, Reason, stored_reason
from sluice_inspect.check_results import CheckFinding, CheckResult, parse_results
from sluice_inspect.document_kinds import KindState
from sluice_inspect.report import Report
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.unpack import RuleMatch

# No file has such an extension: an empty list would allow all.
_NO_EXTENSION: Final = (".",)


@dataclass(frozen=True, slots=True)
class ExternalRule:
    """An external check as one upload was judged by it. `address` is the beginning of the SHA-256 of its URL."""

    name: str
    mode: Mode
    if_unavailable: IfUnavailable
    address: str

    @classmethod
    def of(cls, check: ExternalCheck) -> Self:
        """Return the rule of a context's external check."""
        return cls(check.name, check.mode, check.if_unavailable, hashlib.sha256(check.url.encode()).hexdigest()[:16])

    @property
    def check(self) -> str:
        """Name of the check in reports."""
        return f"{EXTERNAL}.{self.name}"

    @property
    def without_answer(self) -> IfUnavailable:
        """What happens to a file without an answer. A check in report mode changes no outcome, also by its silence."""
        return "accept" if self.mode is Mode.REPORT else self.if_unavailable


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a context as one upload was judged by them; a decision can be replayed with them.

    Sizes are in bytes.
    """

    version: int
    allowed_extensions: tuple[str, ...]
    max_bytes: int
    reject_blank: bool
    reject_corrupt: bool
    scan: bool
    rate: RateLimit | None
    quota_bytes: int | None
    check_modes: CheckModes = ALL_ENFORCED
    policies: Policies = NO_POLICIES
    external_checks: tuple[ExternalRule, ...] = ()
    sanitise: Sanitise | None = None
    kind: str | None = None
    """Digest of the kind of document that files are compared with; None if they are not."""

    @classmethod
    def of(cls, context: Context) -> Self:
        """Return the rules of `context`."""
        kind = context.document_kind
        return cls(
            version=context.rules_version,
            allowed_extensions=tuple(plain_extension(extension) for extension in context.allowed_extensions),
            max_bytes=context.max_bytes,
            reject_blank=context.reject_blank_files,
            reject_corrupt=context.reject_corrupt_files,
            scan=context.scan_for_viruses,
            rate=context.upload_rate_limit,
            quota_bytes=context.quota_bytes,
            check_modes=context.check_modes,
            policies=context.policies,
            external_checks=tuple(map(ExternalRule.of, context.external_checks)),
            sanitise=context.sanitise,
            kind=None if kind is None or not kind.is_ready or context.policies.asked_kind is None else kind.digest,
        )

    def narrowed(self, permit: UploadPermit) -> Self:
        """Return the stricter of these rules and the limits of an upload token."""
        extensions = tuple(plain_extension(extension) for extension in permit.allowed_extensions)
        if not extensions:
            extensions = self.allowed_extensions
        elif self.allowed_extensions:
            extensions = tuple(each for each in extensions if each in self.allowed_extensions) or _NO_EXTENSION
        max_bytes = self.max_bytes if permit.max_bytes is None else min(self.max_bytes, permit.max_bytes)
        return replace(self, allowed_extensions=extensions, max_bytes=max_bytes)

    def to_json(self) -> dict[str, Any]:
        """Return the rules for the decision log."""
        # Without `asdict`, which copies every value in depth.
        plain: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        if self.external_checks:
            plain["external_checks"] = [asdict(each) for each in self.external_checks]
        else:
            del plain["external_checks"]
        if self.sanitise is not None:
            plain["sanitise"] = self.sanitise.to_json()
        else:
            del plain["sanitise"]
        if self.kind is None:
            del plain["kind"]
        return plain | {
            "rate": None if self.rate is None else asdict(self.rate),
            "check_modes": {} if self.check_modes is ALL_ENFORCED else self.check_modes.to_json(),
            "policies": {} if self.policies is NO_POLICIES else self.policies.to_json(),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Return the rules that `to_json` wrote, now or in an earlier release."""
        rate = raw["rate"]
        return cls(
            version=raw["version"],
            allowed_extensions=tuple(raw["allowed_extensions"]),
            max_bytes=raw["max_bytes"],
            reject_blank=raw["reject_blank"],
            reject_corrupt=raw["reject_corrupt"],
            scan=raw["scan"],
            rate=None if rate is None else RateLimit(**rate),
            quota_bytes=raw["quota_bytes"],
            check_modes=check_modes_of(raw.get("check_modes")),
            policies=policies_of(raw.get("policies")),
            external_checks=tuple(
                ExternalRule(**{**each, "mode": Mode(each["mode"])}) for each in raw.get("external_checks", ())
            ),
            sanitise=sanitise_of(raw.get("sanitise")),
            kind=raw.get("kind"),
        )


@dataclass(frozen=True, slots=True)
class RateFact:
    """The rate limit as the upload found it. `retry_after` (seconds) is None if a place was claimed."""

    remaining: int
    retry_after: float | None


@dataclass(frozen=True, slots=True)
class PlanFact:
    """Stored files of the tenant in this month, and the most its plan allows; `resets_in` is in seconds."""

    used: int
    limit: int
    resets_in: float


@dataclass(frozen=True, slots=True)
class ScanFact:
    """The result of the scanner. An unavailable scanner is no fact but an error.

    `member` is the address of the daemon that said so, empty where there is none; `cached` tells a verdict that was
    given earlier on the same bytes; `flags` name what is no threat and yet worth knowing; `each` is what every one of
    several scanners said; `rules` are the rules of the operator that match; `quarantines` is that of `Infected`.
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
    each: tuple[SingleResult, ...] = ()
    rules: tuple[RuleMatch, ...] = ()
    quarantines: bool = False

    @property
    def engine_version(self) -> str:
        """The engine, its signatures and our rules, as a file's row names them: `clamd 1.4.6/27500+2`."""
        return str(version_of(self.each) if self.each else EngineVersion(self.engine, self.signatures))


@dataclass(frozen=True, slots=True)
class HashListFact:
    """The entries of hash lists that the file and its members were found on.

    `members` says how many members were compared, None if none were; `why`, why not all that are packed in the file.
    `is_stopped`: the walk through the file ended early, so that members in it may be denied.
    """

    entries: tuple[ListedHash, ...] = ()
    members: int | None = None
    why: str = ""
    is_stopped: bool = False

    @property
    def own(self) -> ListedHash | None:
        """The entry that decides about the file itself."""
        return choose([entry for entry in self.entries if not entry.member])

    @property
    def denied_member(self) -> ListedHash | None:
        """The first entry that denies a member."""
        return next((entry for entry in self.entries if entry.member and entry.list == "deny"), None)

    @property
    def is_allowed(self) -> bool:
        """Whether the file needs no malware scan."""
        return self.own is not None and self.own.list == "allow"

    def to_json(self) -> dict[str, Any]:
        """Return the fact for the decision log."""
        return {
            "entries": [asdict(entry) for entry in self.entries],
            "members": self.members,
            "why": self.why,
            "is_stopped": self.is_stopped,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Return the fact that `to_json` wrote."""
        return cls(
            tuple(ListedHash(**_known(ListedHash, entry)) for entry in raw["entries"]),
            raw["members"],
            raw["why"],
            raw.get("is_stopped", False),
        )


@dataclass(frozen=True, slots=True)
class ExternalFact:
    """What an external check said. Without an answer `verdict` is None, and `why` is one sentence.

    `sentence` is for the sender, `code` and `details` are for the tenant's own users.
    """

    name: str
    verdict: Literal["accept", "reject", "quarantine"] | None
    ms: float
    sentence: str = ""
    code: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True, slots=True)
class SentFailure:
    """A check that what was sent fails, without being rejected for it."""

    reason: Reason
    detail: str
    mode: Mode
    check: str


@dataclass(frozen=True, slots=True)
class SanitisedFact:
    """What was taken out of a file, and what was sent: all other facts are those of the file without it.

    `why` is empty, or says why the file could not be sanitised: then all facts are those of what was sent. So they are
    if `stored_file_id` is there: the decision is on the original of that file. `original_file_id` is that of the
    original, if it is kept.
    """

    sent_sha256: str
    sent_size_bytes: int
    removed: tuple[str, ...] = ()
    why: str = ""
    sent_failures: tuple[SentFailure, ...] = ()
    original_file_id: str | None = None
    stored_file_id: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether the facts are those of the file without what was taken out."""
        return not self.why and self.stored_file_id is None


@dataclass(frozen=True, slots=True)
class TextFact:
    """What was found in the text of a document, by the policy `text`. Nothing of the text is in it.

    `why` says why there is no text: `format`, `damaged`, `encrypted` or `too_complex`. `found` are the names of what
    the policy searches and the text contains. `age_days` is that of the newest date behind a label, None without one.
    `is_cut`: there is more text than is read. `ocr_pages` counts the pictures and pages that were read by OCR.
    """

    why: str = ""
    found: tuple[str, ...] = ()
    words: int = 0
    languages: tuple[str, ...] = ()
    age_days: int | None = None
    identifiers: Mapping[str, int] = field(default_factory=dict)
    is_cut: bool = False
    ocr_pages: int = 0


@dataclass(frozen=True, slots=True)
class KindFact:
    """How alike a document is to the examples of its context, by the policy `document_kind`.

    `examples` is `ready`, or says why nothing is compared: `few`, `alike` or `different`. `kind` is the digest of what
    the examples have in common. `why` says why there is no text, as in `TextFact`; with less than a few different
    `words`, `similarity` is None, too. `shares` and `lacks` are words of the examples, never others.
    """

    examples: KindState
    kind: str | None = None
    why: str = ""
    words: int = 0
    similarity: int | None = None
    shares: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one upload that were measured so far; None is not measured yet.

    Whether it breaks a rule is decided in `rules`.
    """

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
    duplicate_of: str | None = None
    """Id of a stored file of the context with the same bytes, empty if there is none; None if there was no search."""
    is_whole: bool = True
    """Whether all bytes of the file came; otherwise `size_bytes` are those that came before it was rejected."""
    listed: HashListFact | None = None
    """What hash lists say of the file; None if they were not asked."""
    external: tuple[ExternalFact, ...] = ()
    """What the external checks said, of those that were asked."""
    sanitised: SanitisedFact | None = None
    """What was taken out before it is stored; None if that was not tried."""
    text: TextFact | None = None
    """What was found in its text; None if that was not read."""
    kind: KindFact | None = None
    """How alike it is to the examples of the context; None if it was not compared."""

    @property
    def report(self) -> Report | None:
        """The report of the file check, if there is one."""
        return None if self.examined is None else self.examined.report

    @property
    def content_type(self) -> str:
        """The detected type of the content, not the claimed one."""
        report = self.report
        return "application/octet-stream" if report is None else report.content_type

    @property
    def sent_sha256(self) -> str | None:
        """Digest of the bytes that were sent; None while they are still coming."""
        return self.sha256 if self.sanitised is None else self.sanitised.sent_sha256

    def to_json(self) -> dict[str, Any]:
        """Return the facts for the decision log."""
        # Every fact is flat, so no deep copy is needed.
        plain: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        for name in ("rate", "plan", "examined", "scanned"):
            fact = plain[name]
            plain[name] = None if fact is None else {inner: getattr(fact, inner) for inner in fact.__slots__}
        if self.examined is not None:
            del plain["examined"]["checks"]
            if self.examined.checks:
                plain["examined"]["checks"] = [each.to_json() for each in self.examined.checks]
        if self.examined is not None and self.examined.report is not None:
            plain["examined"]["report"] = self.examined.report.to_json()
        if self.scanned is not None:
            for name in ("each", "rules"):
                del plain["scanned"][name]
                if parts := getattr(self.scanned, name):
                    plain["scanned"][name] = [asdict(one) for one in parts]
            if not self.scanned.quarantines:
                del plain["scanned"]["quarantines"]
        rare = {
            "external": [asdict(one) for one in self.external],
            "listed": self.listed and self.listed.to_json(),
            "sanitised": self.sanitised and asdict(self.sanitised),
            "text": self.text and asdict(self.text),
            "kind": self.kind and asdict(self.kind),
        }
        for name, fact in rare.items():
            if fact:
                plain[name] = fact
            else:
                del plain[name]
        return plain

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Return the facts that `to_json` wrote, now, in an earlier release, or in the next one during an upgrade."""
        rate, plan, examined, scanned = (raw.get(name) for name in ("rate", "plan", "examined", "scanned"))
        return cls(
            filename=raw["filename"],
            extension=raw["extension"],
            size_bytes=raw["size_bytes"],
            sha256=raw.get("sha256"),
            rate=None if rate is None else RateFact(**_known(RateFact, rate)),
            plan=None if plan is None else PlanFact(**_known(PlanFact, plan)),
            quota_used_bytes=raw.get("quota_used_bytes"),
            examined=None if examined is None else _stored_examination(examined),
            scanned=None if scanned is None else _stored_scan(scanned),
            duplicate_of=raw.get("duplicate_of"),
            is_whole=raw.get("is_whole", raw.get("sha256") is not None),
            listed=None if raw.get("listed") is None else HashListFact.from_json(raw["listed"]),
            external=tuple(ExternalFact(**_known(ExternalFact, one)) for one in raw.get("external", ())),
            sanitised=None if raw.get("sanitised") is None else _stored_sanitising(raw["sanitised"]),
            text=None if raw.get("text") is None else _stored_text(raw["text"]),
            kind=None if raw.get("kind") is None else _stored_kind(raw["kind"]),
        )


def _known(kind: type, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a stored value that this release knows: the next one may have written others."""
    return {name: value for name, value in stored.items() if name in kind.__slots__}  # type: ignore[attr-defined]


def _stored_sanitising(sanitised: Mapping[str, Any]) -> SanitisedFact:
    known = _known(SanitisedFact, sanitised)
    failures = tuple(
        SentFailure(reason, each["detail"], Mode(each["mode"]), each["check"])
        for each in known.get("sent_failures", ())
        if (reason := stored_reason(each["reason"])) is not None
    )
    return SanitisedFact(**{**known, "removed": tuple(known["removed"]), "sent_failures": failures})


def _stored_text(text: Mapping[str, Any]) -> TextFact:
    known = _known(TextFact, text)
    return TextFact(**{**known, "found": tuple(known["found"]), "languages": tuple(known["languages"])})


def _stored_kind(kind: Mapping[str, Any]) -> KindFact:
    known = _known(KindFact, kind)
    return KindFact(**{**known, "shares": tuple(known["shares"]), "lacks": tuple(known["lacks"])})


def _stored_scan(scanned: Mapping[str, Any]) -> ScanFact:
    each = tuple(SingleResult(**_known(SingleResult, one)) for one in scanned.get("each", ()))
    rules = tuple(RuleMatch(**_known(RuleMatch, one)) for one in scanned.get("rules", ()))
    known = _known(ScanFact, scanned)
    return ScanFact(**{**known, "flags": tuple(scanned.get("flags", ())), "each": each, "rules": rules})


def _stored_examination(examined: Mapping[str, Any]) -> ExamineFact:
    known = [
        _known(CheckResult, each) | {"findings": [_known(CheckFinding, finding) for finding in each["findings"]]}
        for each in examined.get("checks", [])
    ]
    checks = parse_results(known)
    return ExamineFact(**{**_known(ExamineFact, examined), "report": _stored_report(examined), "checks": checks})


def _stored_report(examined: Mapping[str, Any]) -> Report | None:
    raw = examined["report"]
    return None if raw is None else Report.from_stored(raw)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A check that an upload fails. It is rejected if `mode` says so.

    `detail` says what was measured, `found` and `expected` say it for programs; `retry_after` (seconds) and `limit`
    belong to limits that pass with time.
    """

    reason: Reason
    detail: str
    retry_after: float | None = None
    limit: int | None = None
    found: object = None
    expected: object = None
    mode: Mode = Mode.ENFORCE
    external_check: str | None = None
    """Name of the check in reports, if it is not that of the reason: an external one, one in Python, or `hash_list`."""

    @property
    def check(self) -> str:
        """Name of the check, as in `rules.CHECKS`; `external.NAME` of an external one, `python.NAME` if in Python."""
        return self.external_check or WORDS[self.reason].check

    @property
    def counted_as(self) -> str:
        """Name of the check in metrics: without the name of an external one, which a tenant chooses."""
        return EXTERNAL if self.check.startswith(f"{EXTERNAL}.") else self.check

    def to_error(self) -> FileRejected | LimitExceeded:
        """Return the error that the caller sees: the words and exactly one reason code."""
        error = LimitExceeded if self.reason in LIMIT_REASONS else FileRejected
        words = WORDS[self.reason]
        return error(words.message, [self.reason.value], retry_after=self.retry_after, limit=self.limit)


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of a context's quota and its tenant's plan at `at`, by the database's clock."""

    stored_bytes: int
    plan_uploads: int
    """Uploads that count in the month of `at`."""
    at: datetime

    @property
    def seconds_to_next_month(self) -> float:
        """Seconds until the next calendar month in UTC, by which plans count."""
        at = self.at.astimezone(UTC)
        following = datetime(at.year + at.month // 12, at.month % 12 + 1, 1, tzinfo=UTC)
        return (following - at).total_seconds()


@dataclass(frozen=True, slots=True)
class ContextSnapshot:
    """A context as one statement read it: its rules, its bucket (None: the platform's store), its tenant's plan, and
    their use.
    """

    context: Context
    rules: Rules
    bucket: Bucket | None
    plan: Plan
    usage: Usage
    hash_algorithms: ListedAlgorithms = NO_ENTRIES
    """Of the digests on hash lists of the tenant and of the installation; empty if there are no entries."""

    def narrowed(self, permit: UploadPermit | None) -> Self:
        """Return the context as the holder of an upload token may use it; None is any other caller."""
        return self if permit is None else replace(self, rules=self.rules.narrowed(permit))

    def has_versions_of(self, other: Self) -> bool:
        """Return whether context, bucket, plan and the kinds of hash lists are of the same versions.

        How much of them is used may differ.
        """
        return (
            self.context.rules_version == other.context.rules_version
            and self.context.status == other.context.status
            and self.bucket == other.bucket
            and self.plan == other.plan
            and self.hash_algorithms == other.hash_algorithms
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to judge a resumable upload: `report_id` is that of its decision.

    Its file can be reserved only as long as no other attempt has taken the upload over.
    """

    upload_id: str
    report_id: str


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """The whole form of an upload, received and sealed, before any check of the content."""

    name: FileName
    sealed: Sealed
    metadata: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions that an upload was judged by; the reserving statement requires the same.

    A bucket's id is in `PendingFile`.
    """

    plan: Plan
    rules_version: int
    bucket_changed_at: datetime | None
    key_changed_at: datetime | None
    hash_algorithms: ListedAlgorithms = NO_ENTRIES


# The outcome of an upload. `undecided`: a part of the service was unavailable, and nothing was stored.
VerdictOutcome = Literal["accepted", "rejected", "quarantined", "undecided"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on one upload; `decisions.record.DecisionRecord` is the row that is logged."""

    report_id: str
    tenant_id: str
    file_id: str | None
    context_key: str
    rules: Rules
    facts: Facts
    outcome: VerdictOutcome
    rejection: Rejection | None
    """The failure that gave the outcome: of a rejected upload and one that goes into quarantine."""
    failures: tuple[Rejection, ...]
    """Every check that the facts fail, also those that only report it."""
    detail: str
    actor: Principal
    created_at: datetime
    duration_ms: int
    all_checks: bool
    """Whether the checks after the first failure were made too."""


@dataclass(frozen=True, slots=True)
class ObjectLocation:
    """The reserved place of a file: its id, and its object's key with the bucket's base path."""

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
    """The engine version that scanned it; None if no scan was asked for."""
    is_unique: bool
    """Whether the context accepts no second file with the same bytes."""
    versions: Versions
    attempt: Attempt | None = None
    """The attempt of the resumable upload that it comes from, None of any other."""
    sanitised_file_id: str | None = None
    """Of an original that is kept, the file that was made of it."""

    @classmethod
    def of(
        cls,
        location: ObjectLocation,
        decision: Decision,
        file: ReceivedFile,
        snapshot: ContextSnapshot,
        *,
        lease: timedelta,
        attempt: Attempt | None,
    ) -> Self:
        """Return the file of an accepted upload, which is to be stored at `location`."""
        context, bucket, facts = snapshot.context, snapshot.bucket, decision.facts
        return cls(
            file_id=location.file_id,
            tenant_id=context.tenant_id,
            context_id=context.context_id,
            context_key=context.context_key,
            name=file.name,
            content_type=facts.content_type,
            size_bytes=file.sealed.size,
            sha256=file.sealed.sha256.hex(),
            storage_config_id=None if bucket is None else bucket.config_id,
            object_key=location.object_key,
            uploader=decision.actor,
            metadata=file.metadata,
            counts=facts.plan is not None,
            report_id=decision.report_id,
            created_at=decision.created_at,
            lease=lease,
            scanned_with=None if facts.scanned is None else facts.scanned.engine_version,
            is_unique=decision.rules.policies.refuse_duplicates,
            versions=Versions(
                plan=snapshot.plan,
                rules_version=context.rules_version,
                bucket_changed_at=None if bucket is None else bucket.updated_at,
                key_changed_at=decision.actor.key_changed_at,
                hash_algorithms=snapshot.hash_algorithms,
            ),
            attempt=attempt,
        )


@dataclass(frozen=True, slots=True)
class Stored:
    """The upload was accepted."""

    file_id: str
    report_id: str
    outcome: VerdictOutcome
    original_filename: str
    content_type: str
    size_bytes: int
    context_key: str
    metadata: Mapping[str, object]
    rate: RateFact | None
    rate_limit: RateLimit | None
    is_replayed: bool = False
    """Whether an earlier request stored it, and got this response first."""
