"""The rules of an upload: each rule alone, and their order."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

import pytest

from sluice.api.schemas.reports import full_report
from sluice.contexts import RateLimit
from sluice.contexts.policies import (
    NO_POLICIES,
    ActiveContent,
    Archive,
    CheckModes,
    ContentTypes,
    Document,
    Duplicates,
    EncryptedContent,
    FilenamePattern,
    Image,
    Legible,
    LikeExamples,
    Media,
    MinSize,
    Mode,
    NamedText,
    Policies,
    ProgramsInArchives,
    Text,
)
from sluice.contexts.sanitising import Sanitise
from sluice.decisions import DecisionRecord
from sluice.hash_lists import ListedHash
from sluice.scanner import SingleResult
from sluice.uploads.examined import ExamineFact
from sluice.uploads.reasons import WORDS, Reason
from sluice.uploads.report import VerdictReport
from sluice.uploads.rules import checks_of, decide, failures, judge_all, quarantine_by
from sluice.uploads.values import (
    ExternalFact,
    ExternalRule,
    Facts,
    HashListFact,
    KindFact,
    PlanFact,
    RateFact,
    Rules,
    SanitisedFact,
    ScanFact,
    SentFailure,
    TextFact,
)
from sluice_inspect.check_results import CheckFinding, CheckResult
from sluice_inspect.report import Finding, Outcome, Report
from sluice_inspect.sandbox.unpack import RuleMatch
from tests.rows import each_row

RULES = Rules(
    version=1,
    allowed_extensions=("pdf",),
    max_bytes=100,
    reject_blank=True,
    reject_corrupt=True,
    scan=True,
    rate=RateLimit(1, 60),
    quota_bytes=1000,
    policies=Policies(
        content_types=ContentTypes(allow=["application/pdf", "image/*"]),
        encrypted=EncryptedContent(),
        active_content=ActiveContent(),
        programs_in_archives=ProgramsInArchives(),
        image=Image(min_width=10, max_width=100, max_pixels=5000, allow_animation=False),
        legible=Legible(),
        document=Document(max_pages=3, max_sheets=4, max_slides=5),
        media=Media(max_duration_seconds=60, codecs=["aac", "h264"]),
        archive=Archive(max_members=10, max_depth=0, max_unpacked_bytes=1000),
        min_size_bytes=MinSize(bytes=10),
        filename_pattern=FilenamePattern(pattern=r"[a-z]+\.\w+"),
        duplicates=Duplicates(),
        text=Text(
            must_contain=[NamedText(name="number", any=["no"])],
            must_not_contain=[NamedText(name="draft", pattern="draft")],
            languages=["de", "en"],
            min_words=3,
            max_age_days=10,
            needs_date=True,
            identifiers=["iban"],
        ),
        document_kind=LikeExamples(mode=Mode.ENFORCE),
    ),
    kind="00",
    external_checks=(ExternalRule("policy", Mode.ENFORCE, "refuse", "address"),),
)
NO_RULES = Rules(1, (), 100, reject_blank=False, reject_corrupt=False, scan=False, rate=None, quota_bytes=None)
SOUND = Report("pdf", "application/pdf", Outcome.OK, Outcome.OK, None, blank=False, detail="")
CLEAN = ScanFact("clean", None, "", "builtin", "1", 1.0)


def examined(report: Report | None = SOUND, *, died: bool = False, overran: str | None = None) -> ExamineFact:
    return ExamineFact(report, died=died, overran=overran, detail="why", ms=1.0)


SOUND_FACTS = replace(
    Facts("a.pdf", "pdf", 100, "00", rate=RateFact(0, None), plan=PlanFact(0, 500, 1.0), quota_used_bytes=900),
    examined=examined(),
    scanned=CLEAN,
    duplicate_of="",
    listed=HashListFact(),
    external=(ExternalFact("policy", "accept", 1.0),),
    text=TextFact(found=("number",), words=3, languages=("fr", "en"), age_days=10),
    kind=KindFact("ready", "00", words=20, similarity=70),
)


def report(**changes: Any) -> dict[str, Any]:
    return {"examined": examined(replace(SOUND, **changes))}


DENIED = ListedHash("0" * 64, "deny", "why", of_installation=False)
ALLOWED = replace(DENIED, list="allow")


def text(**changes: Any) -> dict[str, Any]:
    return {"text": replace(TextFact(found=("number",), words=3, age_days=0), **changes)}


def alike(**changes: Any) -> dict[str, Any]:
    return {"kind": replace(KindFact("ready", "00", words=20, similarity=69), **changes)}


def listed(*entries: ListedHash) -> dict[str, Any]:
    return {"listed": HashListFact(entries)}


BROKEN_RULES: list[tuple[Reason, dict[str, Any]]] = [
    (Reason.EXTENSION_NOT_ALLOWED, {"extension": "exe"}),
    (Reason.EXTENSION_NOT_ALLOWED, {"extension": ""}),
    (Reason.EXTENSION_NOT_ALLOWED, {"filename": "a.gz", "extension": "gz"}),
    (Reason.FILENAME_NOT_ALLOWED, {"filename": "A.pdf"}),
    (Reason.FILE_TOO_LARGE, {"size_bytes": 101}),
    (Reason.FILE_TOO_SMALL, {"size_bytes": 9}),
    (Reason.RATE_LIMIT_EXCEEDED, {"rate": RateFact(0, 3.0)}),
    (Reason.MONTHLY_LIMIT_EXCEEDED, {"plan": PlanFact(500, 500, 1.0)}),
    (Reason.STORAGE_QUOTA_EXCEEDED, {"quota_used_bytes": 901}),
    (Reason.DENIED_FILE, listed(DENIED)),
    (Reason.DENIED_FILE, listed(ALLOWED, replace(DENIED, digest="0" * 32, of_installation=True))),
    (Reason.DUPLICATE_FILE, {"duplicate_of": "file_2"}),
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
    (Reason.CONTENT_TYPE_NOT_ALLOWED, report(content_type="text/html")),
    (Reason.ENCRYPTED_FILE, report(facts={"encrypted": True})),
    (Reason.ENCRYPTED_FILE, report(facts={"encrypted_members": 2})),
    (Reason.ACTIVE_CONTENT, report(flags=("macro",))),
    (Reason.PROGRAM_IN_ARCHIVE, report(facts={"scripts": 1})),
    (Reason.IMAGE_DIMENSIONS, report(facts={"width": 9})),
    (Reason.IMAGE_DIMENSIONS, report(facts={"pixels": 5001})),
    (Reason.IMAGE_DIMENSIONS, report(facts={"animated": True})),
    *((Reason.ILLEGIBLE_PICTURE, report(facts=facts)) for facts in ({"exposure": 24}, {"sharpness": 54})),
    *((Reason.ILLEGIBLE_PICTURE, report(facts=facts)) for facts in ({"text_height": 5}, {"skew": 201})),
    (Reason.TOO_MANY_PAGES, report(facts={"pages": 4})),
    (Reason.TOO_MANY_PAGES, report(facts={"slides": 6})),
    (Reason.MEDIA_LIMITS, report(facts={"duration_ms": 60_001})),
    (Reason.MEDIA_LIMITS, report(facts={"video_codecs": ("vp9",)})),
    (Reason.ARCHIVE_LIMITS, report(facts={"members": 11})),
    (Reason.ARCHIVE_LIMITS, report(facts={"depth": 2})),
    (Reason.REJECTED_BY_CHECK, {"examined": replace(examined(), checks=(CheckResult("meter", "ValueError: no"),))}),
    (Reason.VIRUS_DETECTED, {"scanned": replace(CLEAN, outcome="infected", threat="X")}),
    (Reason.SCAN_INCOMPLETE, {"scanned": replace(CLEAN, outcome="incomplete")}),
    (Reason.MISSING_TEXT, {"text": TextFact("format")}),
    (Reason.MISSING_TEXT, text(found=("draft",), languages=("fr",))),
    (Reason.MISSING_TEXT, text(words=2)),
    (Reason.FORBIDDEN_TEXT, text(found=("draft", "number"))),
    (Reason.WRONG_LANGUAGE, text(languages=("fr",))),
    (Reason.OUTDATED_DOCUMENT, text(age_days=11)),
    (Reason.OUTDATED_DOCUMENT, text(age_days=None)),
    (Reason.IDENTIFIER_FOUND, text(identifiers={"iban": 2})),
    (Reason.WRONG_DOCUMENT_KIND, alike()),
    (Reason.WRONG_DOCUMENT_KIND, alike(words=9, similarity=None)),
    (Reason.WRONG_DOCUMENT_KIND, alike(why="format", words=0, similarity=None)),
    (Reason.REJECTED_BY_CHECK, {"external": (ExternalFact("policy", "reject", 1.0),)}),
]
PAIRS = [(one, two) for one, two in combinations(BROKEN_RULES, 2) if not one[1].keys() & two[1].keys()]
OVER_LIMITS: dict[str, Any] = {"extension": "exe", "rate": RateFact(0, 3.0), "quota_used_bytes": 10**12}


@each_row(
    "facts",
    [
        SOUND_FACTS,
        replace(SOUND_FACTS, **report(integrity=Outcome.ENCRYPTED)),
        replace(SOUND_FACTS, **report(integrity=Outcome.UNSUPPORTED)),
        replace(SOUND_FACTS, rate=None, plan=None, quota_used_bytes=None, examined=None, scanned=None),
        replace(SOUND_FACTS, size_bytes=0, sha256=None),  # its bytes are still coming: it is not too small
    ],
)
def test_a_sound_file_passes_every_rule_and_what_is_not_measured_does_not_reject(facts: Facts) -> None:
    assert decide(facts, RULES) is None


def reason_of(facts: Facts, rules: Rules = RULES) -> Reason | None:
    rejection = decide(facts, rules)
    return None if rejection is None else rejection.reason


@each_row("reason, changes", BROKEN_RULES)
def test_each_rule_alone_rejects_with_its_reason(reason: Reason, changes: dict[str, Any]) -> None:
    facts = replace(SOUND_FACTS, **changes)
    assert reason_of(facts) is reason
    assert outcomes(facts)[getattr(decide(facts, RULES), "check", "")] == "fail"


def test_every_reason_has_a_sample_and_a_message() -> None:
    # A check without an answer rejects nothing, and a file that cannot be sanitised has tests of its own below.
    others = {Reason.CHECK_UNANSWERED, Reason.CANNOT_SANITISE, Reason.ORIGINAL_KEPT}
    assert {reason for reason, _ in BROKEN_RULES} == set(Reason) - others
    assert set(Reason) == set(WORDS)


@each_row(("first", "second"), PAIRS)
@pytest.mark.asvs("2.3.1")
def test_the_first_of_two_broken_rules_gives_the_reason(
    first: tuple[Reason, dict[str, Any]], second: tuple[Reason, dict[str, Any]]
) -> None:
    assert reason_of(replace(SOUND_FACTS, **first[1], **second[1])) is first[0]


@each_row(
    ("integrity", "blank", "encrypted", "mode"),
    [
        (Mode.REPORT, Mode.REPORT, None, Mode.REPORT),
        (Mode.REPORT, Mode.QUARANTINE, None, Mode.QUARANTINE),
        (Mode.ENFORCE, Mode.REPORT, None, Mode.ENFORCE),
        (Mode.REPORT, Mode.REPORT, Mode.ENFORCE, Mode.ENFORCE),
        (Mode.REPORT, Mode.REPORT, Mode.OFF, Mode.REPORT),
    ],
)
def test_a_file_whose_check_crashed_fails_by_the_strictest_rule_that_needs_it(
    integrity: Mode, blank: Mode, encrypted: Mode | None, mode: Mode
) -> None:
    policies = NO_POLICIES if encrypted is None else Policies(encrypted=EncryptedContent(mode=encrypted))
    rules = replace(RULES, policies=policies, check_modes=CheckModes(integrity=integrity, blank=blank))
    (failure,) = failures(replace(SOUND_FACTS, examined=examined(None, died=True)), rules)
    assert (failure.reason, failure.mode) == (Reason.UNPROCESSABLE_FILE, mode)


def test_disabled_rules_do_not_reject() -> None:
    damage = report(integrity=Outcome.CORRUPT, finding=Finding.POLYGLOT, blank=True, fill="zeros")
    bad_file = replace(SOUND_FACTS, **OVER_LIMITS, **damage, scanned=replace(CLEAN, outcome="infected"))
    assert decide(bad_file, NO_RULES) is None
    empty = replace(SOUND_FACTS, **report(fill="empty", blank=True, integrity=Outcome.CORRUPT))
    assert reason_of(empty, replace(RULES, reject_blank=False)) is Reason.CORRUPT_FILE


def test_allowed_file_passes_the_scan_that_was_not_made_and_nothing_else() -> None:
    facts = replace(SOUND_FACTS, **listed(ALLOWED, replace(ALLOWED, member="b.txt")), scanned=None)
    assert outcomes(facts)["malware"] == "pass"
    assert Facts.from_json(facts.to_json()).listed == facts.listed
    assert reason_of(replace(facts, **report(integrity=Outcome.CORRUPT))) is Reason.CORRUPT_FILE
    member = replace(facts, **listed(ALLOWED, replace(DENIED, member="b.txt")))
    assert (reason_of(member), outcomes(member)["hash_list"]) == (Reason.DENIED_FILE, "fail")
    assert outcomes(replace(facts, listed=HashListFact((replace(ALLOWED, member="b"),))))["malware"] == "not_run"


def test_stored_facts_can_be_judged_again_by_changed_rules() -> None:
    facts = replace(SOUND_FACTS, examined=examined(replace(SOUND, blank=True)))
    written = facts.to_json()["examined"]["report"]
    read_back = replace(facts, examined=examined(Report.from_json(written)))
    assert decide(read_back, replace(RULES, reject_blank=False)) is None
    assert decide(read_back, RULES) == decide(facts, RULES)


def outcomes(facts: Facts, rules: Rules = RULES) -> dict[str, str]:
    return {check.name: check.outcome for check in judge_all(facts, rules)}


def test_each_check_is_reported_as_passed_not_run_or_off_and_a_policy_that_is_not_set_not_at_all() -> None:
    named = [name for name in checks_of(RULES) if name != "sanitise"]
    assert outcomes(SOUND_FACTS) == dict.fromkeys(named, "pass") | {"storage": "not_run"}
    not_measured = outcomes(Facts("a.pdf", "pdf", 100))
    passed = {"extension", "size", "policy.filename_pattern"}
    assert {name for name, outcome in not_measured.items() if outcome == "pass"} == passed
    assert set(not_measured.values()) == {"pass", "not_run"}
    after_fault = outcomes(replace(SOUND_FACTS, **report(finding=Finding.ARCHIVE_UNSAFE)))
    expected = {"integrity.structure": "pass", "integrity.archive": "fail", "integrity.polyglot": "not_run"}
    assert after_fault.items() >= (expected | {"blank": "not_run"}).items()
    empty = outcomes(replace(SOUND_FACTS, **report(fill="empty", blank=True, integrity=Outcome.CORRUPT)))
    assert [name for name, outcome in empty.items() if outcome == "fail"] == ["blank"]
    assert empty["integrity.structure"] == "not_run"
    off = outcomes(SOUND_FACTS, NO_RULES)
    assert {off.pop(name) for name in ("size", "plan", "hash_list")} == {"pass"}
    assert off.pop("storage") == "not_run"
    assert set(off.values()) == {"off"}
    assert not any(name.startswith("policy.") for name in off)


@each_row(("reason", "changes"), [each for each in BROKEN_RULES if "policy." in WORDS[each[0]].check])
@each_row("mode", [Mode.REPORT, Mode.QUARANTINE, Mode.OFF])
def test_a_policy_that_is_not_enforced_rejects_nothing(reason: Reason, changes: dict[str, Any], mode: Mode) -> None:
    name = WORDS[reason].check.removeprefix("policy.")
    policy = getattr(RULES.policies, name).model_copy(update={"mode": mode})
    rules = replace(RULES, policies=RULES.policies.model_copy(update={name: policy}))
    facts = replace(SOUND_FACTS, **changes)
    assert decide(facts, rules) is None
    quarantined = quarantine_by(facts, rules)
    assert (quarantined is not None and quarantined.reason is reason) == (mode is Mode.QUARANTINE)
    expected = {Mode.REPORT: "would_fail", Mode.QUARANTINE: "fail", Mode.OFF: "off"}[mode]
    assert outcomes(facts, rules)[f"policy.{name}"] == expected


@each_row(
    ("field", "changes"),
    [
        ("blank", report(blank=True)),
        ("integrity", report(integrity=Outcome.CORRUPT)),
        ("integrity", report(finding=Finding.POLYGLOT)),
        ("malware", {"scanned": replace(CLEAN, outcome="infected")}),
    ],
)
def test_a_check_of_the_interface_in_report_mode_rejects_nothing(field: str, changes: dict[str, Any]) -> None:
    facts, rules = replace(SOUND_FACTS, **changes), replace(RULES, check_modes=CheckModes(**{field: Mode.REPORT}))
    assert decide(facts, RULES) is not None
    assert decide(facts, rules) is None
    assert "would_fail" in outcomes(facts, rules).values()


SANITISING = replace(RULES, sanitise=Sanitise(remove=["active_content"]))
SANITISED = SanitisedFact(
    "11", 900, ("macros",), sent_failures=(SentFailure(Reason.VIRUS_DETECTED, "X", Mode.QUARANTINE, "malware"),)
)
MACROS = report(flags=("macro",))


def test_quota_and_policies_judge_what_is_stored_and_all_else_what_was_sent_too() -> None:
    sent = replace(SOUND_FACTS, **MACROS, quota_used_bytes=990)
    assert reason_of(sent, RULES) is Reason.STORAGE_QUOTA_EXCEEDED
    assert decide(sent, SANITISING) is None
    assert {name for name, outcome in outcomes(sent, SANITISING).items() if outcome == "not_run"} >= {
        *("quota", "policy.active_content", "policy.image", "sanitise")
    }
    assert reason_of(replace(sent, **report(facts={"encrypted": True})), SANITISING) is Reason.ENCRYPTED_FILE
    assert reason_of(replace(sent, scanned=replace(CLEAN, outcome="infected")), SANITISING) is Reason.VIRUS_DETECTED
    still = replace(SOUND_FACTS, **MACROS, sanitised=replace(SANITISED, removed=()))
    assert reason_of(still, SANITISING) is Reason.ACTIVE_CONTENT
    signed = replace(sent, sanitised=SanitisedFact("11", 900, why="signed"))
    assert reason_of(signed, SANITISING) is Reason.CANNOT_SANITISE
    assert outcomes(signed, SANITISING)["sanitise"] == "fail"


def test_text_that_cannot_be_read_fails_only_rules_that_need_some() -> None:
    rules = Text(must_not_contain=[NamedText(name="draft", any=["draft"])], languages=["en"], identifiers=["iban"])
    without = replace(RULES, policies=Policies(text=rules))
    scan = Facts.from_json(json.loads(json.dumps(replace(SOUND_FACTS, text=TextFact()).to_json())))
    assert (reason_of(scan, without), reason_of(scan)) == (None, Reason.MISSING_TEXT)
    any_of = Text(must_contain=[NamedText(name=name, any=["x"]) for name in ("a", "b")], any_is_enough=True)
    found = replace(scan, text=TextFact(found=("b",), words=1, is_cut=True))
    judged = [replace(RULES, policies=Policies(text=each)) for each in (any_of, Text(min_words=2))]
    assert reason_of(found, judged[0]) is None
    assert "only the beginning of the document was read" in getattr(decide(found, judged[1]), "detail", "")


def test_what_was_sent_brings_a_file_into_quarantine_unless_what_is_stored_does() -> None:
    facts = Facts.from_json(json.loads(json.dumps(replace(SOUND_FACTS, sanitised=SANITISED).to_json())))
    assert facts.sanitised == SANITISED
    assert Rules.from_json(json.loads(json.dumps(SANITISING.to_json()))) == SANITISING
    held = quarantine_by(facts, SANITISING)
    assert held is not None
    assert (held.check, held.detail) == ("malware", "before it was sanitised: X")
    rules = replace(SANITISING, check_modes=CheckModes(malware=Mode.QUARANTINE))
    infected = replace(facts, scanned=replace(CLEAN, outcome="infected", detail="Y"))
    assert [each.detail for each in failures(infected, rules)] == ["Y"]


def test_stored_facts_are_read_without_the_fields_that_only_the_next_release_knows() -> None:
    checks = (CheckResult("meter", findings=(CheckFinding("no_picture"),)),)
    found = replace(examined(SOUND), checks=checks)
    scanned = replace(CLEAN, each=(SingleResult("a", "1", "clean", 1.0),), rules=(RuleMatch("r", "f", "report", {}),))
    listed = HashListFact((ListedHash("00" * 32, "allow", None, of_installation=False),))
    facts = replace(SOUND_FACTS, examined=found, scanned=scanned, listed=listed, sanitised=SANITISED)
    stored = json.loads(json.dumps(facts.to_json()))
    fields = [stored, *(stored[name] for name in ("rate", "plan", "examined", "scanned", "listed", "sanitised"))]
    fields += [stored["sanitised"]["sent_failures"][0]]
    fields += [stored["external"][0], stored["listed"]["entries"][0], stored["scanned"]["each"][0]]
    fields += [stored["scanned"]["rules"][0], stored["examined"]["checks"][0]]
    fields += [stored["examined"]["checks"][0]["findings"][0], stored["examined"]["report"]]
    fields += [stored["examined"]["report"]["facts"]]
    for each in fields:
        each["of_the_next_release"] = 1
    stored["examined"]["report"] |= {"flags": ["of_the_next_release"], "format": "of_the_next_release"}
    facts = replace(facts, examined=replace(found, report=replace(SOUND, format=None)))
    assert Facts.from_json(stored) == facts


def test_metrics_name_a_check_in_python_but_no_external_one() -> None:
    checks = (CheckResult("meter", findings=(CheckFinding("no_picture"),)),)
    said: dict[str, Any] = {
        "external": (ExternalFact("policy", "reject", 1.0),),
        "scanned": replace(CLEAN, outcome="infected"),
    }
    facts = replace(SOUND_FACTS, examined=replace(examined(), checks=checks), **said)
    assert [each.counted_as for each in failures(facts, RULES)] == ["python.meter", "malware", "external"]


def test_a_decision_for_a_reason_that_only_the_next_release_knows_has_a_general_report() -> None:
    record = DecisionRecord(
        report_id="rep_1",
        tenant_id="ten_1",
        file_id=None,
        context_key="claims",
        mode="live",
        rules=RULES.to_json(),
        rules_version=1,
        facts=json.loads(json.dumps(SOUND_FACTS.to_json())),
        engines={},
        outcome="rejected",
        reason="of_the_next_release",
        detail="",
        actor={},
        created_at=datetime(2026, 1, 31, tzinfo=UTC),
        original_filename="a.pdf",
        actor_id=None,
        duration_ms=1,
    )
    shown = full_report(VerdictReport.of(record), "en")
    assert (shown.outcome, shown.reason, shown.message_key) == ("rejected", None, "rejected.plain")


@each_row("rules", [RULES, replace(RULES, check_modes=CheckModes(blank=Mode.QUARANTINE))])
def test_stored_rules_and_facts_are_read_back_as_they_were(rules: Rules) -> None:
    facts = replace(SOUND_FACTS, examined=examined(replace(SOUND, facts={"width": 1, "video_codecs": ("vp9",)})))
    assert Rules.from_json(json.loads(json.dumps(rules.to_json()))) == rules
    assert Facts.from_json(json.loads(json.dumps(facts.to_json()))) == facts
