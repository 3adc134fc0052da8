"""What the file check found of an upload, and its faults. `rules` gives them a mode; `sluice check` shows the first.

Loads neither contexts nor policies, which take longer than a check of a small file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from sluice.uploads.reasons import Reason
from sluice_inspect.check_results import SEVERITIES, CheckResult, CheckSeverity, parse_results
from sluice_inspect.report import Outcome, Report
from sluice_inspect.sandbox import Completed, Crashed, OverLimit

_PICTURE_FACTS: Final = ("width", "height", "frames")


@dataclass(frozen=True, slots=True)
class ExamineFact:
    """The report of the file check, or how the check ended without one."""

    report: Report | None
    died: bool
    overran: str | None
    detail: str
    ms: float
    checks: tuple[CheckResult, ...] = ()
    """What the operator's own checks found."""

    @classmethod
    def of(cls, result: Completed | Crashed | OverLimit) -> Self:
        """Return what the result of a check says of the file."""
        overran: str | None = None
        if isinstance(result, OverLimit):
            overran, detail = result.limit, f"the checker reached its {result.limit} limit"
        elif isinstance(result, Crashed):
            detail = result.why
        elif (fact := cls.of_report(result.payload, result.ms)) is not None:
            return fact
        else:
            # The worker was taken over or is broken: nothing that it says of this file is believed.
            detail = "the checker returned an invalid result"
        # Without a report, none of the operator's own checks has judged the file.
        why = "the file check was stopped at a limit" if overran else "the file check ended without a valid report"
        checks = tuple(CheckResult(name, why) for name in result.checks)
        return cls(None, died=overran is None, overran=overran, detail=detail, ms=result.ms, checks=checks)

    @classmethod
    def of_report(cls, payload: object, ms: float) -> Self | None:
        """Return the checker's report as a fact; None if it is invalid."""
        checks: tuple[CheckResult, ...] = ()
        try:
            if isinstance(payload, Mapping) and "python" in payload:
                checks = parse_results(payload["python"])
                payload = {name: value for name, value in payload.items() if name != "python"}
            report = Report.from_json(payload)
        except ValueError:
            return None
        return cls(report, died=False, overran=None, detail=report.detail, ms=ms, checks=checks)


class Fault(NamedTuple):
    """Something that the file check found wrong, in the words of a `Rejection`."""

    reason: Reason
    detail: str
    found: object = None
    expected: object = None


def faults(examined: ExamineFact, extension: str, *, integrity: bool, blank: bool) -> Iterator[Fault]:
    """Yield the faults of a file of this extension: of its integrity, and that it is blank.

    A check that crashed or ran over its limits reports nothing, which is a fault for either.
    """
    report = examined.report
    if report is None:
        if integrity or blank:
            yield unreported(examined)
        return
    # Nothing but zeros, for example, is judged before integrity: an empty .pdf is blank rather than corrupt.
    if blank and report.fill is not None:
        yield Fault(Reason.BLANK_DOCUMENT, report.blank_detail or report.detail, found=report.fill)
    if integrity:
        yield from _faults_of_integrity(report, extension)
    if blank and report.blank and report.fill is None:
        yield Fault(Reason.BLANK_DOCUMENT, report.blank_detail)


class CheckFault(NamedTuple):
    """What one of the operator's own checks says against a file."""

    check: str
    severity: CheckSeverity
    fault: Fault


def faults_of_checks(examined: ExamineFact) -> Iterator[CheckFault]:
    """Yield what the operator's own checks found, of each the most severe first. One that did not end is severe."""
    for result in examined.checks:
        if result.why:
            detail = f"the check {result.check} did not end: {result.why}"
            yield CheckFault(result.check, "reject", Fault(Reason.REJECTED_BY_CHECK, detail))
        for finding in sorted(result.findings, key=lambda each: SEVERITIES.index(each.severity)):
            name = f"{result.check}.{finding.name}"
            detail = f"{name}: {finding.detail}" if finding.detail else name
            yield CheckFault(result.check, finding.severity, Fault(Reason.REJECTED_BY_CHECK, detail, found=name))


def unreported(examined: ExamineFact) -> Fault:
    """Return the fault of a file whose check ended without a report."""
    return Fault(Reason.VALIDATION_LIMITS_EXCEEDED if examined.overran else Reason.UNPROCESSABLE_FILE, examined.detail)


def _faults_of_integrity(report: Report, extension: str) -> Iterator[Fault]:
    if report.integrity is Outcome.CORRUPT:
        yield Fault(Reason.CORRUPT_FILE, report.detail)
    elif report.finding is not None:
        reason = Reason(report.finding.value)
        found: object = None
        if reason is Reason.TYPE_MISMATCH:
            found = report.content_type
        elif reason is Reason.IMAGE_TOO_LARGE:
            found = {name: report.facts[name] for name in _PICTURE_FACTS if name in report.facts} or None
        yield Fault(reason, report.detail, found, f".{extension}" if reason is Reason.TYPE_MISMATCH else None)
    elif report.integrity is Outcome.TOO_COMPLEX:
        yield Fault(Reason.VALIDATION_LIMITS_EXCEEDED, report.detail)
