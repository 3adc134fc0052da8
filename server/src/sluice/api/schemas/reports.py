"""Bodies of verdict reports, and who sees how much of one.

Callers with the scope `metadata` see all but threat names and the thresholds of heuristics. Callers who may only upload
see what the sender of the file may know.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic import Field

from sluice.access import Principal, Scope
from sluice.api.schemas.envelope import ResponseBody, is_none
from sluice.contexts.policies import Mode
from sluice.hash_lists import HashEntry, HashList
from sluice.hash_lists.entry import Algorithm
from sluice.messages import Sentence, negotiate, render
from sluice.scanner.protocol import SingleOutcome
from sluice.uploads.reasons import WORDS, Advice, Reason
from sluice.uploads.report import VerdictReport
from sluice.uploads.rules import CheckOutcome, CheckResult
from sluice.uploads.sentences import sentence_for
from sluice.uploads.values import Facts, VerdictOutcome
from sluice_inspect.document_kinds import KindState
from sluice_inspect.sandbox.sanitising import Removed
from sluice_inspect.sandbox.unpack import Severity

# Details that name a threat, a threshold of a heuristic, or how a checker ended: said in general words instead.
_GENERAL: Final[Mapping[Reason, str]] = {
    Reason.VIRUS_DETECTED: "the scanner found a threat",
    Reason.SCAN_INCOMPLETE: "the scanner could not look at all of the file",
    Reason.BLANK_DOCUMENT: "a reader would see nothing in the file",
    Reason.UNPROCESSABLE_FILE: "the checker ended unexpectedly on this file",
    Reason.VALIDATION_LIMITS_EXCEEDED: "checking the file takes more than the limits of the service allow",
    Reason.ARCHIVE_BOMB: "the archive unpacks to more than the limits of the service allow",
    Reason.IMAGE_TOO_LARGE: "the image has more pixels or frames than the limits of the service allow",
}


NO_ENTRIES: Final[Mapping[str, HashEntry]] = MappingProxyType({})


class SenderReport(ResponseBody):
    """The part of a report that the sender of a file may read."""

    report_id: str = Field(description="Id of the report, for questions to support.")
    outcome: VerdictOutcome = Field(description="The outcome of the upload.")
    reason: Reason | None = Field(description="The reason code; null if the file was accepted or could not be judged.")
    retryable: bool = Field(description="Whether the same file may pass later.")
    advice: Advice | None = Field(description="What the sender can do.")
    message: str = Field(description="A sentence for the sender, in the language that `Accept-Language` asks for.")
    message_key: str = Field(description="Key of the sentence in the catalogues of `/api/v1/messages/{locale}`.")
    params: dict[str, Any] = Field(description="The values in the sentence, as measured.")
    locale: str = Field(description="Language of the sentence.")


class CheckOut(ResponseBody):
    """One check of a report."""

    name: str = Field(description="Name of the check; it never changes.", examples=["integrity.type"])
    outcome: CheckOutcome
    mode: Mode
    code: Reason | None = Field(None, exclude_if=is_none, description="The reason code of a failure.")
    found: Any = Field(None, exclude_if=is_none, description="What was measured.")
    expected: Any = Field(None, exclude_if=is_none, description="What the rules ask for.")
    detail: str | None = Field(None, exclude_if=is_none, description="What is wrong, and where.")
    retryable: bool | None = Field(None, exclude_if=is_none)
    doc_url: str | None = Field(None, exclude_if=is_none, description="Where the reason is explained.")


class ScannerOut(ResponseBody):
    """What one of several engines said of the file."""

    engine: str = Field(description="The engine, as in `SLUICE_SCANNER`.", examples=["icap:av"])
    signatures: str = Field(description="The version of its signatures; empty if it states none.")
    outcome: SingleOutcome
    ms: float = Field(description="How long it took, in milliseconds.")
    required: bool = Field(description="Whether a file is clean only if this engine says so.")


class YaraRuleOut(ResponseBody):
    """A YARA rule of the operator that matches the file, or something that is packed in it."""

    rule: str = Field(description="Name of the rule.", examples=["Invoice_Lure"])
    file: str = Field(description="Its file, within `SLUICE_YARA_RULES`.", examples=["mail/lures.yar"])
    severity: Severity = Field(description="What follows from a match.")
    meta: dict[str, str | int | bool] = Field(
        description="Metadata of the rule, at most 8 values of 200 characters.", examples=[{"author": "soc"}]
    )


class ListedOut(ResponseBody):
    """An entry of a hash list that the file, or a file in it, was found on."""

    digest: str = Field(description="In hexadecimal digits.")
    algorithm: Algorithm = Field(description="Of the digest.")
    list: HashList = Field(description="`deny` or `allow`.")
    owner: Literal["tenant", "installation"] = Field(description="Whose list it is.")
    reason: str | None = Field(description="Why it was added.")
    member: str | None = Field(None, exclude_if=is_none, description="The name of the file in it.")
    added_by: str | None = Field(
        None, exclude_if=is_none, description="Who added it; in the report on its own, while the entry is there."
    )
    added_by_name: str | None = Field(None, exclude_if=is_none, description="The name of it.")
    expires_at: datetime | None = Field(None, exclude_if=is_none, description="Until when it holds.")


class ExternalResultOut(ResponseBody):
    """What an external check said of the file."""

    name: str
    verdict: Literal["accept", "reject", "quarantine"] | None = Field(description="Null if it gave no answer.")
    sentence: str = Field(description="Its sentence for the sender.")
    code: str | None
    details: dict[str, Any] = Field(description="What it adds for the tenant's own users.")
    why: str = Field(description="Why there is no answer; empty if there is one.")
    ms: float = Field(description="How long it took, in milliseconds.")


class SanitisedOut(ResponseBody):
    """What was taken out of the file before it is stored, and what was sent."""

    removed: list[Removed] = Field(description="What was taken out; empty if nothing had to be.")
    sent_sha256: str = Field(description="The hash of what was sent.")
    sent_size_bytes: int = Field(description="The size of what was sent.")
    original_file_id: str | None = Field(
        None, exclude_if=is_none, description="What was sent, as a file in quarantine. Left out if it was not kept."
    )


class TextOut(ResponseBody):
    """What the policy `text` found in the text of the file, and nothing of the text itself."""

    why: str = Field(
        description="Why there is no text: `format`, `damaged`, `encrypted` or `too_complex`; empty if it was read."
    )
    words: int = Field(description="How many words it has; none in a scan.")
    languages: list[str] = Field(description="Its languages, the most frequent first; empty if they are not known.")
    found: list[str] = Field(description="The names of what the policy searches that are in it.")
    age_days: int | None = Field(description="Days since the newest date behind a label; null if none was found.")
    identifiers: dict[str, int] = Field(description="How many numbers of each kind that the policy names are in it.")
    is_cut: bool = Field(
        description="Whether it has more text than was read: more than 1,000,000 characters, or more pages than OCR "
        "reads."
    )
    ocr_pages: int = Field(
        0,
        exclude_if=lambda pages: not pages,
        description="How many pictures and scanned pages were read by OCR. Left out if none were.",
    )


class ComparedOut(ResponseBody):
    """How alike the file is to the examples of the context. All words in it are words of the examples."""

    examples: KindState = Field(
        description="`ready`, or why it was compared with nothing: `few` examples, `alike` or `different` ones."
    )
    kind: str | None = Field(description="What the examples have in common, by its digest.")
    why: str = Field(description="Why there is no text, as in `text`; empty if it was read.")
    words: int = Field(description="How many different words it has, of at most 2,000.")
    similarity: int | None = Field(
        description="100 is what three in four of the examples have to the others; null if it was not compared."
    )
    shares: list[str] = Field(description="Words that it shares with at least half of the examples.")
    lacks: list[str] = Field(description="Words of at least half of the examples that it lacks.")


class ReportedFile(ResponseBody):
    """The file that a report is about. A hash is missing if not all of its bytes came."""

    file_id: str | None
    original_filename: str
    size_bytes: int
    sha256: str | None
    content_type: str


class FullReport(SenderReport):
    """The whole report on an upload."""

    file: ReportedFile
    context_key: str
    uploaded_by: str | None
    uploaded_by_name: str | None
    rules_version: int
    engines: dict[str, str]
    scanners: list[ScannerOut] | None = Field(
        None, exclude_if=is_none, description="What each engine said, if several scanned the file."
    )
    yara_rules: list[YaraRuleOut] | None = Field(
        None, exclude_if=is_none, description="The operator's YARA rules that match, at most 20, if any do."
    )
    hash_lists: list[ListedOut] | None = Field(
        None, exclude_if=is_none, description="The entries of hash lists that were found, if there are any lists."
    )
    members_compared: int | None = Field(
        None, exclude_if=is_none, description="How many files in it were compared with hash lists."
    )
    members_missed: str | None = Field(
        None, exclude_if=is_none, description="Why not all files in it were compared with hash lists."
    )
    external_checks: list[ExternalResultOut] | None = Field(
        None, exclude_if=is_none, description="What the external checks said of the file, if they were asked."
    )
    sanitised: SanitisedOut | None = Field(
        None,
        exclude_if=is_none,
        description="What was taken out of the file, if its context sanitises and it could be done. All else in the "
        "report is about the file without it.",
    )
    text: TextOut | None = Field(
        None, exclude_if=is_none, description="What was found in its text, if the policy `text` had it read."
    )
    kind: ComparedOut | None = Field(
        None,
        exclude_if=is_none,
        description="How alike it is to the examples of the context, if the policy `document_kind` had it compared.",
    )
    duration_ms: int | None
    mode: Literal["first_failure", "all_checks"] = Field(
        description="Whether the checks after the first failure were made too."
    )
    flags: list[str] = Field(
        description="What the file has that many receivers do not want; `docs/facts.md` lists them."
    )
    facts: dict[str, Any] = Field(description="What was measured of the content; `docs/facts.md` lists it.")
    checks: list[CheckOut]
    created_at: datetime


class Validated(ResponseBody):
    """The result of a dry run."""

    report: dict[str, Any] = Field(
        description="The report: a `FullReport` for callers with the scope `metadata`, else a `SenderReport`.",
    )


def sees_all(principal: Principal | None) -> bool:
    """Return whether the caller sees whole reports."""
    return principal is not None and principal.allows(Scope.METADATA)


def report_body(report: VerdictReport, principal: Principal | None, accept_language: str | None) -> dict[str, Any]:
    """Return as much of a report as the caller may see, as JSON."""
    if sees_all(principal):
        return full_report(report, accept_language).model_dump(mode="json")
    return SenderReport(**_for_sender(report, accept_language)).model_dump(mode="json")


def _scanners(facts: Facts) -> list[ScannerOut] | None:
    if facts.scanned is None or not facts.scanned.each:
        return None
    return [
        ScannerOut(
            engine=one.engine,
            signatures=one.signatures,
            outcome=one.outcome,
            ms=round(one.ms, 1),
            required=one.is_required,
        )
        for one in facts.scanned.each
    ]


def _yara_rules(facts: Facts) -> list[YaraRuleOut] | None:
    if facts.scanned is None or not facts.scanned.rules:
        return None
    return [
        YaraRuleOut(rule=each.rule, file=each.file, severity=each.severity, meta=dict(each.meta))
        for each in facts.scanned.rules
    ]


def _listed(facts: Facts, entries: Mapping[str, HashEntry]) -> list[ListedOut] | None:
    if facts.listed is None:
        return None
    found = []
    for one in facts.listed.entries:
        entry = entries.get(one.digest)
        by_tenant = entry is not None and not one.of_installation  # a tenant does not see who operates the service
        found.append(
            ListedOut(
                digest=one.digest,
                algorithm=one.algorithm,
                list=one.list,
                owner="installation" if one.of_installation else "tenant",
                reason=one.reason,
                member=one.member or None,
                added_by=entry.added_by_id if entry is not None and by_tenant else None,
                added_by_name=entry.added_by_name if entry is not None and by_tenant else None,
                expires_at=None if entry is None else entry.expires_at,
            )
        )
    return found


def _sanitised(facts: Facts) -> SanitisedOut | None:
    fact = facts.sanitised
    if fact is None or not fact.is_done:
        return None
    removed: Any = list(fact.removed)
    return SanitisedOut(
        removed=removed,
        sent_sha256=fact.sent_sha256,
        sent_size_bytes=fact.sent_size_bytes,
        original_file_id=fact.original_file_id,
    )


def _findings_to_report(facts: Facts) -> list[str]:
    """Return what checks in Python found that rejects no file, as `check.finding`."""
    results = () if facts.examined is None else facts.examined.checks
    return [f"{each.check}.{found.name}" for each in results for found in each.findings if found.severity == "report"]


def full_report(
    report: VerdictReport, accept_language: str | None, entries: Mapping[str, HashEntry] = NO_ENTRIES
) -> FullReport:
    """Return the whole report. `entries` are those of hash lists that it names, as they are now, by their digests."""
    facts, rules = report.facts, report.rules
    inspected = facts.report
    engines = dict(report.engines)
    if "signatures" in engines:  # as operators read it: `clamd 1.4.6/27500`
        engines["scanner"] = f"{engines.get('scanner', '')}/{engines.pop('signatures')}".rstrip("/")
    return FullReport(
        **_for_sender(report, accept_language),
        file=ReportedFile(
            file_id=report.file_id,
            original_filename=facts.filename,
            size_bytes=facts.size_bytes,
            sha256=facts.sha256,
            content_type=facts.content_type,
        ),
        context_key=report.context_key,
        uploaded_by=report.actor_id,
        uploaded_by_name=report.actor_name,
        rules_version=rules.version,
        engines=engines,
        scanners=_scanners(facts),
        yara_rules=_yara_rules(facts),
        hash_lists=_listed(facts, entries),
        members_compared=None if facts.listed is None else facts.listed.members,
        members_missed=None if facts.listed is None else facts.listed.why or None,
        external_checks=[ExternalResultOut.model_validate(one) for one in facts.external] or None,
        sanitised=_sanitised(facts),
        text=None if facts.text is None else TextOut.model_validate(facts.text),
        kind=None if facts.kind is None else ComparedOut.model_validate(facts.kind),
        duration_ms=report.duration_ms,
        mode="all_checks" if report.all_checks else "first_failure",
        flags=[
            *(() if inspected is None else inspected.flags),
            *_findings_to_report(facts),
            *(() if facts.scanned is None else (flag for flag in facts.scanned.flags if flag.startswith("yara."))),
        ],
        facts={} if inspected is None else dict(inspected.facts),
        checks=[_check(check) for check in report.checks],
        created_at=report.created_at,
    )


def _for_sender(report: VerdictReport, accept_language: str | None) -> dict[str, Any]:
    sentence, locale = _sentence(report), negotiate(accept_language)
    return {
        "report_id": report.report_id,
        "outcome": report.outcome,
        "reason": report.reason,
        "retryable": report.is_retryable,
        "advice": report.advice,
        "message": render(sentence.key, sentence.params, locale),
        "message_key": sentence.key,
        "params": dict(sentence.params),
        "locale": locale,
    }


def _sentence(report: VerdictReport) -> Sentence:
    if report.outcome == "rejected" and report.rejection is not None:
        return sentence_for(report.rejection, report.facts, report.rules)
    is_passed = report.is_dry_run and report.outcome != "undecided"
    return Sentence(f"{report.outcome}.{'validated' if is_passed else 'plain'}")


def _check(check: CheckResult) -> CheckOut:
    failure = check.failure
    if failure is None:
        return CheckOut(name=check.name, outcome=check.outcome, mode=check.mode)
    reason = failure.reason
    return CheckOut(
        name=check.name,
        outcome=check.outcome,
        mode=check.mode,
        code=reason,
        found=failure.found,
        expected=failure.expected,
        detail=_GENERAL.get(reason, failure.detail),
        retryable=WORDS[reason].retryable,
        doc_url=f"/docs/reasons#{reason.value}",
    )
