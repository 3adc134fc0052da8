"""Checks of the operator's own: what they see, and what becomes of one that fails, takes too long or returns nonsense."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from sluice_inspect import checks
from sluice_inspect.check_results import FINDINGS_MAX, CheckResult, parse_results
from sluice_inspect.checks import CheckFinding, Source
from sluice_inspect.report import Outcome, Report
from sluice_inspect.source import MemoryBacked
from tests.rows import each_row

REPORT = Report("png", "image/png", Outcome.OK, Outcome.OK, None, blank=False, detail="", facts={"width": 64})
FOUND = {"check": "a", "why": "", "findings": [{"name": "b", "severity": "reject", "detail": "c"}]}


def sees(source: Source, facts: Mapping[str, object]) -> list[CheckFinding]:
    assert (facts["width"], facts["filename"], facts["format"]) == (64, "a.png", "png")
    return [CheckFinding("seen", "report", source.read_at(0, source.size).decode() + "\x01" + "x" * 300)]


def fails(_source: Source, _facts: Mapping[str, object]) -> list[CheckFinding]:
    raise ValueError("no such thing")


def hangs(_source: Source, _facts: Mapping[str, object]) -> list[CheckFinding]:
    while True:
        try:
            sum(range(1000))
        except Exception:  # noqa: BLE001  (as a careless check does)
            continue


def floods(_source: Source, _facts: Mapping[str, object]) -> Iterable[CheckFinding]:
    while True:
        yield CheckFinding("more")


def many(_source: Source, _facts: Mapping[str, object]) -> Iterable[CheckFinding]:
    yield from [CheckFinding("noted", "report")] * 100
    yield from (CheckFinding("bad", "quarantine"), CheckFinding("worst"))


def nonsense(_source: Source, _facts: Mapping[str, object]) -> Any:
    return ["a text"]


def invalid(_source: Source, _facts: Mapping[str, object]) -> Any:
    return [CheckFinding("a", "none")]  # type: ignore[arg-type]


def test_checks_are_made_one_by_one_and_none_that_does_not_end_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_CPU_SECONDS", 0.05)
    made = {check.__name__: check for check in (sees, fails, hangs, floods, many, nonsense, invalid)}
    monkeypatch.setattr(checks, "_loaded", made)
    with MemoryBacked(b"content") as source:
        found = {each.check: each for each in parse_results(checks.run_checks(source, REPORT, "a.png"))}
    assert list(found) == list(made)
    assert found["sees"].findings == (CheckFinding("seen", "report", ("content?" + "x" * 300)[:200]),)
    assert found["fails"] == CheckResult("fails", "ValueError: no such thing")
    assert "processor time" in found["hangs"].why
    assert len(found["floods"].findings) == FINDINGS_MAX
    assert found["floods"].why == "it has more than 1000 findings"
    assert (found["many"].why, len(found["many"].findings)) == ("", FINDINGS_MAX)
    assert [each.name for each in found["many"].findings[:3]] == ["worst", "bad", "noted"]
    assert found["nonsense"].why.startswith("AttributeError")
    assert found["invalid"].why.startswith("ValueError")


@each_row(
    "raw",
    [
        {},
        [[]],
        [FOUND | {"more": 1}],
        [FOUND | {"check": "A"}],
        [FOUND | {"why": "\n"}],
        [FOUND | {"findings": [{"name": "b", "severity": "none", "detail": ""}]}],
        [FOUND | {"findings": [{"name": "b", "severity": "reject", "detail": "x" * 201}]}],
        [FOUND | {"findings": FOUND["findings"] * 21}],  # type: ignore[operator]
        [FOUND] * 21,
    ],
)
def test_results_that_no_honest_child_writes_are_refused(raw: object) -> None:
    assert [each.to_json() for each in parse_results([FOUND])] == [FOUND]
    with pytest.raises(ValueError, match="check"):
        parse_results(raw)
