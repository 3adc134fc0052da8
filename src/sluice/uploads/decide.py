"""The rules of an upload as one pure function: facts and rules in, the first rejection out. Measures nothing and asks nobody.

Facts that were not measured yet pass, so the same function judges after every stage, and stored facts can be judged again by changed
rules. The order is the interface's: extension, size, rate, plan, quota, integrity, blank, malware.
"""

from collections.abc import Callable
from typing import Final

from sluice.formats.verdict import Outcome
from sluice.uploads.reasons import Reason
from sluice.uploads.values import ExamineFact, Facts, Rejection, Rules

Rule = Callable[[Facts, Rules], Rejection | None]


def decide(facts: Facts, rules: Rules) -> Rejection | None:
    """Answer the first rule that the facts break, or None."""
    for rule in _IN_ORDER:
        rejection = rule(facts, rules)
        if rejection is not None:
            return rejection
    return None


def _extension(facts: Facts, rules: Rules) -> Rejection | None:
    if not rules.allowed_extensions or facts.extension in rules.allowed_extensions:
        return None
    found = f"'.{facts.extension}'" if facts.extension else "none"
    return Rejection(Reason.EXTENSION_NOT_ALLOWED, f"found {found}, expected one of {', '.join(rules.allowed_extensions)}")


def _size(facts: Facts, rules: Rules) -> Rejection | None:
    if facts.size_bytes <= rules.max_bytes:
        return None
    return Rejection(Reason.FILE_TOO_LARGE, f"found at least {facts.size_bytes} bytes, expected at most {rules.max_bytes}")


def _rate(facts: Facts, rules: Rules) -> Rejection | None:
    if facts.rate is None or facts.rate.retry_after is None or rules.rate is None:
        return None
    allowed = f"{rules.rate.max_uploads} uploads in {rules.rate.window_seconds} seconds"
    return Rejection(Reason.RATE_LIMIT_EXCEEDED, f"the context takes {allowed}", facts.rate.retry_after, rules.rate.max_uploads)


def _plan(facts: Facts, _rules: Rules) -> Rejection | None:
    if facts.plan is None or facts.plan.used < facts.plan.limit:
        return None
    detail = f"{facts.plan.used} of {facts.plan.limit} uploads of this month are used"
    return Rejection(Reason.MONTHLY_LIMIT_EXCEEDED, detail, facts.plan.resets_in, facts.plan.limit)


def _quota(facts: Facts, rules: Rules) -> Rejection | None:
    if rules.quota_bytes is None or facts.quota_used_bytes is None:
        return None
    if facts.quota_used_bytes + facts.size_bytes <= rules.quota_bytes:
        return None
    detail = f"{facts.quota_used_bytes} of {rules.quota_bytes} bytes are used, the file has {facts.size_bytes}"
    return Rejection(Reason.STORAGE_QUOTA_EXCEEDED, detail)


def _nothing_but_fill(facts: Facts, rules: Rules) -> Rejection | None:
    """Raw emptiness is judged before integrity: an empty .pdf is blank rather than corrupt."""
    report = None if facts.examined is None else facts.examined.report
    if not rules.reject_blank or report is None or report.fill is None:
        return None
    return Rejection(Reason.BLANK_DOCUMENT, report.blank_detail or report.detail)


def _integrity(facts: Facts, rules: Rules) -> Rejection | None:
    examined = facts.examined
    if examined is None or not rules.reject_corrupt or examined.report is None:
        return None
    report = examined.report
    if report.integrity is Outcome.CORRUPT:
        return Rejection(Reason.CORRUPT_FILE, report.detail)
    if report.finding is not None:
        return Rejection(Reason(report.finding.value), report.detail)
    if report.integrity is Outcome.TOO_COMPLEX:
        return Rejection(Reason.VALIDATION_LIMITS_EXCEEDED, report.detail)
    return None


def _unexamined(facts: Facts, rules: Rules) -> Rejection | None:
    """A checker that died or overran has told nothing: where a rule needed its word, the file is refused."""
    examined = facts.examined
    if examined is None or examined.report is not None or not (rules.reject_corrupt or rules.reject_blank):
        return None
    return Rejection(_ended(examined), examined.detail)


def _blank(facts: Facts, rules: Rules) -> Rejection | None:
    report = None if facts.examined is None else facts.examined.report
    if not rules.reject_blank or report is None or not report.blank:
        return None
    return Rejection(Reason.BLANK_DOCUMENT, report.blank_detail)


def _malware(facts: Facts, rules: Rules) -> Rejection | None:
    scanned = facts.scanned
    if not rules.scan or scanned is None or scanned.outcome == "clean":
        return None
    reason = Reason.VIRUS_DETECTED if scanned.outcome == "infected" else Reason.SCAN_INCOMPLETE
    return Rejection(reason, scanned.detail)


def _ended(examined: ExamineFact) -> Reason:
    return Reason.VALIDATION_LIMITS_EXCEEDED if examined.overran else Reason.UNPROCESSABLE_FILE


_IN_ORDER: Final[tuple[Rule, ...]] = (
    _extension,
    _size,
    _rate,
    _plan,
    _quota,
    _nothing_but_fill,
    _integrity,
    _unexamined,
    _blank,
    _malware,
)
