"""The rules of an upload as pure functions: facts and rules in, the checks that fail out.

An upload is judged three times, each time by the rules on what became known: name and size, limits, content. Stored
facts are judged by all rules at once, also by changed ones: facts that were not measured pass. The order is that of the
interface: extension, size, rate, plan, quota, integrity, blank, malware; policies stand beside the rules that need the
same facts.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

from sluice.contexts.policies import Mode
from sluice.hash_lists.entry import NAMES, ListedHash
from sluice.uploads import policies
from sluice.uploads.examined import ExamineFact, Fault, faults, faults_of_checks, unreported
from sluice.uploads.reasons import EXTERNAL, WORDS, Reason
from sluice.uploads.values import Facts, HashListFact, Rejection, Rules, SanitisedFact, ScanFact, SentFailure
from sluice_inspect.report import Outcome

CheckOutcome = Literal["pass", "fail", "would_fail", "not_run", "off", "error"]

INTEGRITY_CHECKS: Final = (
    "integrity.type",
    "integrity.structure",
    "integrity.archive",
    "integrity.image",
    "integrity.polyglot",
)
# Every check in the order in which they are made. The interface has those without a dot and `integrity`.
CHECKS: Final = (
    "extension",
    "policy.filename_pattern",
    "size",
    "policy.min_size_bytes",
    "rate",
    "plan",
    "quota",
    "hash_list",
    "policy.duplicates",
    *INTEGRITY_CHECKS,
    "blank",
    *policies.CONTENT_CHECKS,
    "malware",
    "sanitise",
    "policy.text",
    "policy.document_kind",
    "storage",
)


_MALWARE: Final = CHECKS.index("malware")
# Policies that judge what was sent, and not what is stored: what they find cannot be taken out of a file.
_OF_SENT: Final = "policy.encrypted"
_OF_STORED: Final = frozenset({"quota", *policies.CONTENT_CHECKS}) - {_OF_SENT}
_CONTENT_OF_SENT: Final = frozenset({*INTEGRITY_CHECKS, "blank", "malware"})
# Why a file could not be sanitised.
NOT_SANITISED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "format": "files of this format cannot be sanitised",
        "damaged": "the file is damaged",
        "encrypted": "the file is protected by a password",
        "too_complex": "it takes more time or memory than the limits allow",
        "too_large": "the file is too large",
        "signed": "the file is signed, and its signature would be broken",
        "empty": "nothing would be left of the file",
        "inseparable": "it cannot be separated from the content",
    }
)
_STRICTEST_FIRST: Final = (Mode.ENFORCE, Mode.QUARANTINE, Mode.REPORT)
_PYTHON: Final = "python"  # the operator's own checks: each is the check `python.NAME`
_MODES: Final = {"reject": Mode.ENFORCE, "quarantine": Mode.QUARANTINE, "report": Mode.REPORT}
_BY_NAME_AND_SIZE: Final = frozenset({"extension", "size", "policy.filename_pattern"})


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of a report. `failure` is there if the file fails it, whatever the outcome for the file."""

    name: str
    mode: Mode
    outcome: CheckOutcome
    failure: Rejection | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """The facts that are known so far, and every check that they fail, in order."""

    facts: Facts
    failures: tuple[Rejection, ...] = ()

    @property
    def rejection(self) -> Rejection | None:
        """The rejection by the first rule that the facts break, or None."""
        return first_of_mode(self.failures, Mode.ENFORCE)

    def with_failures(self, facts: Facts, found: Iterable[Rejection]) -> "Judged":
        """Return what is known after a stage that added facts and found more failures."""
        return Judged(facts, (*self.failures, *found))


def judge(facts: Facts, rules: Rules) -> Judged:
    """Judge the facts by every rule."""
    return Judged(facts, tuple(failures(facts, rules)))


def decide(facts: Facts, rules: Rules) -> Rejection | None:
    """Return the rejection by the first rule that the facts break, or None."""
    return judge(facts, rules).rejection


def quarantine_by(facts: Facts, rules: Rules) -> Rejection | None:
    """Return the first failure for which a file that is not rejected goes into quarantine, or None."""
    return first_of_mode(failures(facts, rules), Mode.QUARANTINE)


def first_of_mode(found: Iterable[Rejection], mode: Mode) -> Rejection | None:
    """Return the first of these failures whose check has this mode, or None."""
    for failure in found:
        if failure.mode is mode:
            return failure
    return None


def failures(facts: Facts, rules: Rules) -> Iterator[Rejection]:
    """Yield every check that the facts fail, in order, with the mode of the check. Checks that are off yield nothing.

    A policy in report mode yields too: the caller decides by the mode.
    """
    yield from judge_name_and_size(facts, rules)
    yield from judge_limits(facts, rules)
    yield from judge_content(facts, rules)
    yield from judge_members(facts)
    yield from judge_scan(facts, rules)
    yield from judge_sanitising(facts, rules)
    yield from judge_text(facts, rules)
    yield from judge_kind(facts, rules)
    yield from judge_external(facts, rules)


def judge_all(facts: Facts, rules: Rules, *, failed: Rejection | None = None) -> tuple[CheckResult, ...]:
    """Return the result of every check that the rules name, in order.

    `failed` is a rejection that the facts do not show, such as a place that another upload took first.
    """
    known = [] if failed is None else [failed]
    found: dict[str, Rejection] = {}
    for each in (*known, *failures(facts, rules)):
        found.setdefault(each.check, each)
    results = []
    for name in checks_of(rules, facts):
        mode, failure = mode_of(name, rules), found.get(name)
        if mode is None or (name == "hash_list" and facts.listed is None):
            continue
        if failure is not None:
            outcome: CheckOutcome = "would_fail" if failure.mode is Mode.REPORT else "fail"
            results.append(CheckResult(name, failure.mode, outcome, failure))
        elif mode is Mode.OFF:
            results.append(CheckResult(name, mode, "off"))
        else:
            is_made = _is_measured(name, facts, found) and (is_as_stored(facts, rules) or name not in _OF_STORED)
            results.append(CheckResult(name, mode, "pass" if is_made else "not_run"))
    if facts.external:
        silent = {f"{EXTERNAL}.{fact.name}" for fact in facts.external if fact.verdict is None}
        results = [replace(each, outcome="error") if each.name in silent else each for each in results]
    return tuple(results)


def mode_of(check: str, rules: Rules) -> Mode | None:
    """Return the mode of a check under `rules`; None for a policy that is not set."""
    if check == "sanitise":
        return None if rules.sanitise is None else Mode.ENFORCE
    if check.startswith("policy."):
        policy = getattr(rules.policies, check.removeprefix("policy."))
        return None if policy is None else policy.mode
    if check.startswith(f"{EXTERNAL}."):
        return next((rule.mode for rule in rules.external_checks if rule.check == check), None)
    if check.startswith(f"{_PYTHON}."):
        return Mode.ENFORCE
    if check.startswith("integrity."):
        return rules.check_modes.integrity if rules.reject_corrupt else Mode.OFF
    switched_off = (
        (check == "extension" and not rules.allowed_extensions)
        or (check == "rate" and rules.rate is None)
        or (check == "quota" and rules.quota_bytes is None)
        or (check == "blank" and not rules.reject_blank)
        or (check == "malware" and not rules.scan)
    )
    if switched_off:
        return Mode.OFF
    return {"blank": rules.check_modes.blank, "malware": rules.check_modes.malware}.get(check, Mode.ENFORCE)


def rejection_for(reason: Reason, detail: str, facts: Facts, rules: Rules) -> Rejection:
    """Return the rejection that was decided on earlier, as the facts show it; if they do not, with its detail alone."""
    found = [failure for failure in failures(facts, rules) if failure.reason is reason]
    # Several external checks may give the same reason: the first of those with the strictest mode decided.
    return min(found, key=lambda failure: _STRICTEST_FIRST.index(failure.mode), default=Rejection(reason, detail))


def _is_measured(check: str, facts: Facts, found: dict[str, Rejection]) -> bool:
    """Return whether a check that did not fail was made."""
    measured: dict[str, object] = {
        "policy.min_size_bytes": facts.sha256,
        "rate": facts.rate,
        "plan": facts.quota_used_bytes,
        "quota": facts.quota_used_bytes,
        "policy.duplicates": facts.duplicate_of,
        "hash_list": facts.listed,
        "malware": facts.scanned or (facts.listed is not None and facts.listed.is_allowed) or None,
        "sanitise": facts.sanitised,
        "policy.text": facts.text,
        "policy.document_kind": facts.kind if facts.kind is not None and facts.kind.examples == "ready" else None,
        "storage": None,  # no fact: a file that was stored has an id
    }
    if check in measured:
        return measured[check] is not None
    if check in _BY_NAME_AND_SIZE or check.startswith(f"{_PYTHON}."):
        return True
    if check.startswith(f"{EXTERNAL}."):
        return any(f"{EXTERNAL}.{fact.name}" == check for fact in facts.external)
    report = facts.report
    if report is None:
        return False
    if check in INTEGRITY_CHECKS:
        if report.fill is not None and "blank" in found and found["blank"].mode is Mode.ENFORCE:
            return False
        # The file check ends at the first fault, so later checks were not made.
        faulty = [INTEGRITY_CHECKS.index(name) for name in found if name in INTEGRITY_CHECKS]
        return not faulty or INTEGRITY_CHECKS.index(check) < min(faulty)
    if check == "blank":
        return report.integrity is Outcome.OK and report.finding is None
    return True


def _is_allowed(facts: Facts, extensions: Collection[str]) -> bool:
    """Return whether a file has one of the extensions; one with a dot in it, such as tar.gz, is the end of its name."""
    name = facts.filename.rstrip(". ").lower()
    return any(facts.extension == each or ("." in each and name.endswith(f".{each}")) for each in extensions)


def judge_name_and_size(facts: Facts, rules: Rules) -> Iterator[Rejection]:
    """Yield what the name and the size fail; a size that may still grow has no hash."""
    if rules.allowed_extensions and not _is_allowed(facts, rules.allowed_extensions):
        found = f"'.{facts.extension}'" if facts.extension else "none"
        detail = f"found {found}, expected one of {', '.join(rules.allowed_extensions)}"
        yield Rejection(
            Reason.EXTENSION_NOT_ALLOWED, detail, found=facts.extension, expected=list(rules.allowed_extensions)
        )
    # The name is judged before the first byte comes if the form names the context first: so it comes before the size.
    if rules.policies.filename_pattern is not None:
        yield from policies.judge_name(facts, rules.policies.filename_pattern)
    if facts.size_bytes > rules.max_bytes:
        found = f"{facts.size_bytes} bytes" if facts.is_whole else f"at least {facts.size_bytes} bytes"
        detail = f"found {found}, expected at most {rules.max_bytes}"
        yield Rejection(Reason.FILE_TOO_LARGE, detail, found=facts.size_bytes, expected={"max": rules.max_bytes})
    if rules.policies.min_size_bytes is not None:
        yield from policies.judge_size(facts, rules.policies.min_size_bytes)


def judge_limits(facts: Facts, rules: Rules) -> Iterator[Rejection]:
    """Yield the limits of context and tenant that are reached, and a file that is denied, or stored already."""
    rate, plan, used = facts.rate, facts.plan, facts.quota_used_bytes
    if rate is not None and rate.retry_after is not None and rules.rate is not None:
        most, seconds = rules.rate.max_uploads, rules.rate.window_seconds
        detail = f"the context takes {most} uploads in {seconds} seconds"
        expected = {"max_uploads": most, "window_seconds": seconds}
        yield Rejection(Reason.RATE_LIMIT_EXCEEDED, detail, rate.retry_after, most, expected=expected)
    if plan is not None and plan.used >= plan.limit:
        detail = f"{plan.used} of {plan.limit} uploads of this month are used"
        expected = {"max": plan.limit}
        yield Rejection(
            Reason.MONTHLY_LIMIT_EXCEEDED, detail, plan.resets_in, plan.limit, found=plan.used, expected=expected
        )
    quota, size = rules.quota_bytes if is_as_stored(facts, rules) else None, facts.size_bytes
    if facts.sanitised is not None and keeps_original(facts.sanitised, rules):
        size += facts.sanitised.sent_size_bytes
    if quota is not None and used is not None and used + size > quota:
        detail = f"{used} of {quota} bytes are used, the file has {size}"
        yield Rejection(Reason.STORAGE_QUOTA_EXCEEDED, detail, found=used + size, expected={"max": quota})
    if facts.listed is not None and facts.listed.own is not None and facts.listed.own.list == "deny":
        yield denial_of(facts.listed.own)
    duplicates = rules.policies.duplicates
    if facts.duplicate_of and duplicates is not None and duplicates.mode is not Mode.OFF:
        detail = f"the file {facts.duplicate_of} has the same SHA-256"
        yield Rejection(Reason.DUPLICATE_FILE, detail, found=facts.duplicate_of, mode=duplicates.mode)


def judge_content(facts: Facts, rules: Rules) -> Iterator[Rejection]:
    """Yield what the file check found wrong, and the policies on content that its report fails."""
    if facts.examined is not None:
        yield from _judge_check(facts.examined, facts, rules)
        if rules.policies.content_modes:
            found = policies.judge_content(facts, rules.policies)
            yield from found if is_as_stored(facts, rules) else (each for each in found if each.check == _OF_SENT)
        yield from _judge_checks_in_python(facts.examined)


def _judge_checks_in_python(examined: ExamineFact) -> Iterator[Rejection]:
    """Yield what the operator's own checks found."""
    for check, severity, fault in faults_of_checks(examined):
        yield replace(_rejection(fault, _MODES[severity]), external_check=f"{_PYTHON}.{check}")


def _checks_in_python(facts: Facts) -> tuple[str, ...]:
    return () if facts.examined is None else tuple(f"{_PYTHON}.{result.check}" for result in facts.examined.checks)


def _judge_check(examined: ExamineFact, facts: Facts, rules: Rules) -> Iterator[Rejection]:
    integrity, blank = rules.check_modes.integrity, rules.check_modes.blank
    found = faults(examined, facts.extension, integrity=rules.reject_corrupt, blank=rules.reject_blank)
    if examined.report is not None:
        for each in found:
            is_blank = each.reason is Reason.BLANK_DOCUMENT
            yield _rejection(each, blank if is_blank else integrity)
            if is_blank and blank is Mode.ENFORCE:
                return  # a file of nothing but zeros has no structure that could be wrong
        return
    # Without a report the file fails every rule that needs it.
    needing = set(rules.policies.content_modes)
    needing |= ({integrity} if rules.reject_corrupt else set()) | ({blank} if rules.reject_blank else set())
    strictest = next((mode for mode in _STRICTEST_FIRST if mode in needing), None)
    if strictest is not None:
        yield _rejection(unreported(examined), strictest)


def _rejection(fault: Fault, mode: Mode) -> Rejection:
    return Rejection(fault.reason, fault.detail, found=fault.found, expected=fault.expected, mode=mode)


def denial_of(entry: ListedHash) -> Rejection:
    """Return the failure by an entry that denies a file, or a file in it."""
    owner = "the installation" if entry.of_installation else "the tenant"
    what = f"the file {entry.member} in it" if entry.member else "the file"
    because = f": {entry.reason}" if entry.reason else ""
    detail = f"{what} is on the deny list of {owner} by its {NAMES[entry.algorithm]} {entry.digest}{because}"
    return Rejection(Reason.DENIED_FILE, detail, found=entry.digest)


def failure_of_members(listed: HashListFact) -> Rejection | None:
    """Return the failure by a file in the file that is denied, or by files in it that may be; None if there is none."""
    if listed.denied_member is not None:
        return denial_of(listed.denied_member)
    if not listed.is_stopped:
        return None
    detail = f"not all files in it could be compared with the deny list: {listed.why}"
    return Rejection(Reason.SCAN_INCOMPLETE, detail, external_check="hash_list")


def failure_by_lists(listed: HashListFact) -> Rejection | None:
    """Return the failure by the entry that denies the file, or else that of its members; None if there is none."""
    own = listed.own
    return denial_of(own) if own is not None and own.list == "deny" else failure_of_members(listed)


def judge_members(facts: Facts) -> Iterator[Rejection]:
    """Yield a file in the file that is denied, or may be."""
    failure = None if facts.listed is None else failure_of_members(facts.listed)
    if failure is not None:
        yield failure


def judge_scan(facts: Facts, rules: Rules) -> Iterator[Rejection]:
    """Yield what the malware scan found."""
    if not rules.scan or facts.scanned is None:
        return
    if facts.listed is not None and facts.listed.is_allowed:
        return  # it was scanned before an entry allowed it
    failure = failure_by_scan(facts.scanned, rules.check_modes.malware)
    if failure is not None:
        yield failure


def failure_by_scan(scanned: ScanFact, mode: Mode) -> Rejection | None:
    """Return the failure by what the scan found, None if it found nothing."""
    if scanned.outcome == "clean":
        return None
    reason = Reason.VIRUS_DETECTED if scanned.outcome == "infected" else Reason.SCAN_INCOMPLETE
    if scanned.quarantines and mode is Mode.ENFORCE:  # the rule that matches says so
        mode = Mode.QUARANTINE
    return Rejection(reason, scanned.detail, mode=mode)


def judge_external(facts: Facts, rules: Rules) -> Iterator[Rejection]:
    """Yield what external checks say against the file.

    One without an answer whose rule is `refuse` yields nothing: it leaves the file without a verdict.
    """
    if not rules.external_checks:
        return
    found = {fact.name: fact for fact in facts.external}
    for rule in rules.external_checks:
        fact = found.get(rule.name)
        if fact is None or fact.verdict == "accept":
            continue
        if fact.verdict is None:
            if rule.without_answer != "refuse":
                mode = Mode.QUARANTINE if rule.without_answer == "quarantine" else Mode.REPORT
                detail = f"the check {rule.name} gave no answer: {fact.why}"
                yield Rejection(Reason.CHECK_UNANSWERED, detail, mode=mode, external_check=rule.check)
            continue
        # What a check in report mode says changes no outcome, whatever its verdict.
        mode = Mode.QUARANTINE if fact.verdict == "quarantine" and rule.mode is Mode.ENFORCE else rule.mode
        detail = f"the check {rule.name} answered {fact.verdict}: {fact.sentence or 'without a sentence'}"
        yield Rejection(Reason.REJECTED_BY_CHECK, detail, found=fact.code, mode=mode, external_check=rule.check)


def failures_of_sent(judged: Judged) -> tuple[SentFailure, ...]:
    """Return the checks of the content that a file fails before it is sanitised."""
    return tuple(
        SentFailure(each.reason, each.detail, each.mode, each.check)
        for each in judged.failures
        if each.check in _CONTENT_OF_SENT or each.check.startswith(f"{_PYTHON}.")
    )


def judge_sanitising(facts: Facts, rules: Rules) -> Iterator[Rejection]:
    """Yield that the file could not be sanitised, or what was found in it before."""
    if rules.sanitise is not None and facts.sanitised is not None and facts.sanitised.why:
        removals, why = ", ".join(rules.sanitise.remove), facts.sanitised.why
        detail = f"{removals} cannot be taken out of it: {NOT_SANITISED.get(why, why)}"
        yield Rejection(Reason.CANNOT_SANITISE, detail, found=why)
    if facts.sanitised is not None and facts.sanitised.stored_file_id is not None:
        detail = f"it was sent, and the file {facts.sanitised.stored_file_id} made of it"
        yield Rejection(Reason.ORIGINAL_KEPT, detail, found=facts.sanitised.stored_file_id, mode=Mode.QUARANTINE)
    if facts.sanitised is not None and facts.sanitised.sent_failures:
        again = {each.check for each in (*judge_content(facts, rules), *judge_scan(facts, rules))}
        for sent in facts.sanitised.sent_failures:
            if sent.check not in again:
                detail = f"before it was sanitised: {sent.detail}"
                yield Rejection(sent.reason, detail, mode=sent.mode, external_check=sent.check)


def judge_text(facts: Facts, rules: Rules) -> Iterator[Rejection]:
    """Yield the policy on texts if the text of the document fails it."""
    if rules.policies.text is not None:
        yield from policies.judge_text(facts, rules.policies.text)


def judge_kind(facts: Facts, rules: Rules) -> Iterator[Rejection]:
    """Yield the policy on kinds of documents if the document is unlike the examples that the rules are about."""
    policy = rules.policies.asked_kind
    if policy is not None and facts.kind is not None and facts.kind.kind == rules.kind:
        yield from policies.judge_kind(facts.kind, policy)


def is_as_stored(facts: Facts, rules: Rules) -> bool:
    """Return whether the facts are of the bytes that would be stored, and not of those that are yet to be sanitised."""
    return rules.sanitise is None or (facts.sanitised is not None and facts.sanitised.is_done)


def keeps_original(sanitised: SanitisedFact, rules: Rules) -> bool:
    """Return whether what was sent is kept, since something was taken out of it."""
    return rules.sanitise is not None and rules.sanitise.original == "quarantine" and bool(sanitised.removed)


def lacks_answer(facts: Facts, rules: Rules) -> bool:
    """Return whether there is no verdict since an external check whose rule is `refuse` gave no answer."""
    refusing = {rule.name for rule in rules.external_checks if rule.without_answer == "refuse"}
    return any(fact.verdict is None and fact.name in refusing for fact in facts.external)


def checks_of(rules: Rules, facts: Facts | None = None) -> tuple[str, ...]:
    """Return the names of all checks under `rules`, in the order in which they are made.

    Those in Python, which `facts` name, come before the malware scan, external ones after it.
    """
    in_python = () if facts is None else _checks_in_python(facts)
    if not in_python and not rules.external_checks:
        return CHECKS
    before, after = CHECKS[:_MALWARE], CHECKS[_MALWARE:-1]
    return (*before, *in_python, *after, *(rule.check for rule in rules.external_checks), CHECKS[-1])


if {words.check for words in WORDS.values()} - {*CHECKS, EXTERNAL}:
    raise RuntimeError("a reason names a check that is not in CHECKS")
