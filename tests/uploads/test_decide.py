"""The rules as a pure function: which facts break which rule, and in which order."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from sluice.contexts import RateLimit
from sluice.formats.verdict import Finding, Outcome, Report
from sluice.uploads.decide import decide
from sluice.uploads.reasons import WORDS, Reason
from sluice.uploads.values import ExamineFact, Facts, PlanFact, RateFact, Rules, ScanFact

RULES = Rules(
    version=1,
    allowed_extensions=("pdf",),
    max_bytes=100,
    reject_blank=True,
    reject_corrupt=True,
    scan=True,
    rate=RateLimit(1, 60),
    quota_bytes=1000,
)
SOUND = Report("pdf", "application/pdf", Outcome.OK, Outcome.OK, None, blank=False, detail="")
CLEAN = ScanFact("clean", None, "", "builtin", "1", 1.0)


def examined(report: Report | None = SOUND, *, died: bool = False, overran: str | None = None) -> ExamineFact:
    return ExamineFact(report, died=died, overran=overran, detail="why", ms=1.0)


GOOD = Facts(
    "a.pdf",
    "pdf",
    100,
    "00",
    rate=RateFact(0, None),
    plan=PlanFact(0, 500, 1.0),
    quota_used_bytes=900,
    examined=examined(),
    scanned=CLEAN,
)


def report(**changes: Any) -> dict[str, Any]:
    return {"examined": examined(replace(SOUND, **changes))}


BREAKS: list[tuple[Reason, dict[str, Any]]] = [
    (Reason.EXTENSION_NOT_ALLOWED, {"extension": "exe"}),
    (Reason.EXTENSION_NOT_ALLOWED, {"extension": ""}),
    (Reason.FILE_TOO_LARGE, {"size_bytes": 101}),
    (Reason.RATE_LIMIT_EXCEEDED, {"rate": RateFact(0, 3.0)}),
    (Reason.MONTHLY_LIMIT_EXCEEDED, {"plan": PlanFact(500, 500, 1.0)}),
    (Reason.STORAGE_QUOTA_EXCEEDED, {"quota_used_bytes": 901}),
    (Reason.BLANK_DOCUMENT, report(fill="zeros", blank=True, integrity=Outcome.CORRUPT)),
    (Reason.CORRUPT_FILE, report(integrity=Outcome.CORRUPT, blank=True)),
    (Reason.TYPE_MISMATCH, report(finding=Finding.TYPE_MISMATCH, blank=True)),
    (Reason.POLYGLOT_FILE, report(finding=Finding.POLYGLOT)),
    (Reason.ARCHIVE_BOMB, report(finding=Finding.ARCHIVE_BOMB)),
    (Reason.ARCHIVE_UNSAFE, report(finding=Finding.ARCHIVE_UNSAFE)),
    (Reason.IMAGE_TOO_LARGE, report(finding=Finding.IMAGE_TOO_LARGE)),
    (Reason.VALIDATION_LIMITS_EXCEEDED, report(integrity=Outcome.TOO_COMPLEX)),
    (Reason.VALIDATION_LIMITS_EXCEEDED, {"examined": examined(None, overran="cpu")}),
    (Reason.UNPROCESSABLE_FILE, {"examined": examined(None, died=True)}),
    (Reason.BLANK_DOCUMENT, report(blank=True)),
    (Reason.VIRUS_DETECTED, {"scanned": replace(CLEAN, outcome="infected", threat="X")}),
    (Reason.SCAN_INCOMPLETE, {"scanned": replace(CLEAN, outcome="incomplete")}),
]
PAIRS = [(one, two) for one, two in combinations(BREAKS, 2) if not one[1].keys() & two[1].keys()]
ROTTEN: dict[str, Any] = {"extension": "exe", "rate": RateFact(0, 3.0), "quota_used_bytes": 10**12}


def test_a_sound_file_passes_every_rule() -> None:
    assert decide(GOOD, RULES) is None


@pytest.mark.parametrize(("reason", "changes"), BREAKS)
def test_each_broken_rule_is_named(reason: Reason, changes: dict[str, Any]) -> None:
    rejection = decide(replace(GOOD, **changes), RULES)
    assert rejection is not None
    assert rejection.reason is reason


def test_every_reason_has_a_fact_that_gives_it_and_words_that_tell_it() -> None:
    assert {reason for reason, _ in BREAKS} == set(Reason) == set(WORDS)


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.asvs("2.3.1")
def test_of_two_broken_rules_the_one_that_stands_first_names_the_rejection(
    first: tuple[Reason, dict[str, Any]], second: tuple[Reason, dict[str, Any]]
) -> None:
    rejection = decide(replace(GOOD, **first[1], **second[1]), RULES)
    assert rejection is not None
    assert rejection.reason is first[0]


@pytest.mark.parametrize(
    "facts",
    [
        replace(GOOD, **report(integrity=Outcome.ENCRYPTED)),
        replace(GOOD, **report(integrity=Outcome.UNSUPPORTED)),
        replace(GOOD, rate=None, plan=None, quota_used_bytes=None, examined=None, scanned=None),
    ],
)
def test_what_cannot_be_judged_is_no_reason_to_refuse(facts: Facts) -> None:
    assert decide(facts, RULES) is None


def test_a_rule_that_is_switched_off_refuses_nothing() -> None:
    rules = replace(RULES, allowed_extensions=(), reject_blank=False, reject_corrupt=False, scan=False, rate=None, quota_bytes=None)
    damage = report(integrity=Outcome.CORRUPT, finding=Finding.POLYGLOT, blank=True, fill="zeros")
    rotten = replace(GOOD, **ROTTEN, **damage, scanned=replace(CLEAN, outcome="infected"))
    assert decide(rotten, rules) is None


def test_an_empty_file_is_corrupt_where_blank_files_are_let_in() -> None:
    empty = replace(GOOD, **report(fill="empty", blank=True, integrity=Outcome.CORRUPT))
    rejection = decide(empty, replace(RULES, reject_blank=False))
    assert rejection is not None
    assert rejection.reason is Reason.CORRUPT_FILE


def test_stored_facts_can_be_judged_again_by_changed_rules() -> None:
    facts = replace(GOOD, examined=examined(replace(SOUND, blank=True)))
    written = facts.to_json()["examined"]["report"]
    read_back = replace(facts, examined=examined(Report.from_json(written)))
    assert decide(read_back, replace(RULES, reject_blank=False)) is None
    assert decide(read_back, RULES) == decide(facts, RULES)
