"""What checks of the operator's own, in Python, found in one file: as they leave the locked child, and validated."""

import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

CHECK_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")
FINDINGS_MAX: Final = 20  # of one check
DETAIL_MAX: Final = 200
_CHECKS_MAX: Final = 20

# What follows from a finding: the file is rejected, is put in quarantine, or its report says so.
CheckSeverity = Literal["reject", "quarantine", "report"]
SEVERITIES: Final[tuple[CheckSeverity, ...]] = get_args(CheckSeverity)


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """Something that a check found: a name of small letters, digits and `_`, and a sentence for the tenant's users."""

    name: str
    severity: CheckSeverity = "reject"
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The findings of one check. `why` says why it did not end, and is empty if it did."""

    check: str
    why: str = ""
    findings: tuple[CheckFinding, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        found = [{"name": each.name, "severity": each.severity, "detail": each.detail} for each in self.findings]
        return {"check": self.check, "why": self.why, "findings": found}


def parse_results(raw: object) -> tuple[CheckResult, ...]:
    """Return the results that a child process wrote; raise `ValueError` for what `to_json` would not write."""
    if not isinstance(raw, list) or len(raw) > _CHECKS_MAX:
        raise ValueError(f"expected a list of at most {_CHECKS_MAX} results of checks")
    return tuple(map(_parse_result, raw))


def _parse_result(raw: object) -> CheckResult:
    match raw:
        case {"check": str(check), "why": str(why), "findings": list(findings), **others} if (
            not others and CHECK_NAME.fullmatch(check) and _is_text(why) and len(findings) <= FINDINGS_MAX
        ):
            return CheckResult(check, why, tuple(map(_parse_finding, findings)))
    raise ValueError("expected the result of a check: its name, why it did not end, and a list of findings")


def _parse_finding(raw: object) -> CheckFinding:
    match raw:
        case {"name": str(name), "severity": str(severity), "detail": str(detail), **others} if (
            not others and CHECK_NAME.fullmatch(name) and severity in SEVERITIES and _is_text(detail)
        ):
            return CheckFinding(name, SEVERITIES[SEVERITIES.index(severity)], detail)
    raise ValueError("expected a finding of a check: its name, severity and detail")


def _is_text(text: str) -> bool:
    return len(text) <= DETAIL_MAX and (text == "" or text.isprintable())
