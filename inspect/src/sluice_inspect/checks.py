"""Checks of the operator's own, in Python: functions that installed packages offer as entry points of one group.

A check is called as `check(source, facts)` in the locked child, after the check of the file, and returns its findings.
`source` is the file, read only; `facts` has what was measured of it, by the names of docs/facts.md, and besides
`filename`, `format`, `content_type`, `flags` and `integrity`. It can open no file and no connection, and import nothing
that its module has not imported.
"""

# ruff: noqa: PLC0415  (importlib.metadata loads more than a command that checks a few files needs)

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from types import FrameType, MappingProxyType
from typing import Final

from sluice_inspect.check_results import (
    CHECK_NAME,
    DETAIL_MAX,
    FINDINGS_MAX,
    SEVERITIES,
    CheckFinding,
    CheckResult,
    CheckSeverity,
    parse_results,
)
from sluice_inspect.report import Report
from sluice_inspect.source import Source

__all__ = ["Check", "CheckFinding", "CheckResult", "CheckSeverity", "Source", "installed_checks", "load", "run_checks"]

GROUP: Final = "sluice_inspect.checks"
_CPU_SECONDS: Final = 5.0  # of one check; a call into native code that takes longer ends with the whole job
_READ_MAX: Final = 1000  # findings of one check, of which the most severe are returned

Check = Callable[[Source, Mapping[str, object]], Iterable[CheckFinding]]

_loaded: Final[dict[str, Check]] = {}


class _OutOfTime(BaseException):
    """Not an `Exception`, which a check may catch."""


def installed_checks() -> frozenset[str]:
    """Return the names of all checks that installed packages offer. Loads none."""
    from importlib.metadata import entry_points

    return frozenset(entry_points(group=GROUP).names)


def load(names: Sequence[str]) -> None:
    """Load these checks, and no others. Raise `LookupError` if one is not installed, and what its import raises."""
    from importlib.metadata import entry_points

    found = {each.name: each for each in entry_points(group=GROUP)}
    if missing := [name for name in names if name not in found]:
        raise LookupError(f"no installed package offers the check {missing[0]}")
    for name in names:
        if name not in _loaded:
            _loaded[name] = found[name].load()


def run_checks(source: Source, report: Report, filename: str) -> list[dict[str, object]] | None:
    """Return the result of each loaded check as plain JSON values; None if none is loaded."""
    if not _loaded:
        return None
    about = {
        "filename": filename,
        "format": report.format,
        "content_type": report.content_type,
        "flags": report.flags,
        "integrity": str(report.integrity),
    }
    facts = MappingProxyType({**report.facts, **about})
    return [_run(name, check, source, facts).to_json() for name, check in _loaded.items()]


def _run(name: str, check: Check, source: Source, facts: Mapping[str, object]) -> CheckResult:
    try:
        with _limited_time():
            found = [_cleaned(each) for each in islice(check(source, facts), _READ_MAX + 1)]
        why = f"it has more than {_READ_MAX} findings" if len(found) > _READ_MAX else ""
        severest = sorted(found, key=lambda each: SEVERITIES.index(each.severity))[:FINDINGS_MAX]
        result = CheckResult(name, why, tuple(severest))
        parse_results([result.to_json()])  # what is not valid here is not believed outside
    except _OutOfTime:
        return CheckResult(name, f"it took more than {_CPU_SECONDS:.0f} s of processor time")
    except MemoryError:
        return CheckResult(name, "it needs more memory than there is")
    except Exception as error:  # noqa: BLE001  (whatever it raises is reported with its name)
        return CheckResult(name, _printable(f"{type(error).__name__}: {error}"))
    return result


def _cleaned(finding: CheckFinding) -> CheckFinding:
    if not CHECK_NAME.fullmatch(finding.name):
        raise ValueError("a finding has a name of other characters than a-z, 0-9 and _")
    return CheckFinding(finding.name, finding.severity, _printable(finding.detail))


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text[:DETAIL_MAX])


@contextmanager
def _limited_time() -> Iterator[None]:
    def end(_number: int, _frame: FrameType | None) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, _CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
