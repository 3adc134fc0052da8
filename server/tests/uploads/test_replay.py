"""Replay: what changed rules would have made of earlier uploads, as a pure function of stored decisions."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.contexts import RateLimit
from sluice.contexts.policies import (
    NO_POLICIES,
    ActiveContent,
    CheckModes,
    ContentTypes,
    Document,
    Duplicates,
    EncryptedContent,
    FilenamePattern,
    Image,
    Legible,
    MinSize,
    Mode,
    NamedText,
    Policies,
    ProgramsInArchives,
    Text,
)
from sluice.contexts.sanitising import Sanitise
from sluice.decisions import PastDecision
from sluice.hash_lists import ListedHash
from sluice.uploads.examined import ExamineFact
from sluice.uploads.reasons import Reason
from sluice.uploads.replay import MOST_SAMPLES, WHY, Group, Replay, Unknown, Verdict, digests_in, judge_again
from sluice.uploads.rules import decide, quarantine_by
from sluice.uploads.values import Facts, HashListFact, PlanFact, RateFact, Rules, SanitisedFact, ScanFact, TextFact
from sluice_inspect.check_results import CheckFinding, CheckResult
from sluice_inspect.report import Finding, Outcome, Report
from tests.rows import each_row

RULES = Rules(1, (), 1000, reject_blank=True, reject_corrupt=True, scan=True, rate=None, quota_bytes=None)
READ = {"pages": 3, "encrypted": False, "flags_complete": True}
SOUND = Report("pdf", "application/pdf", Outcome.OK, Outcome.OK, None, blank=False, detail="", facts=READ)
CLEAN = ScanFact("clean", None, "", "builtin", "1", 1.0)


def examined(**changes: Any) -> ExamineFact:
    return ExamineFact(replace(SOUND, **changes), died=False, overran=None, detail="", ms=1.0)


# What is measured of a file that passes everything, with all that rules can ask for.
WHOLE = Facts("a.pdf", "pdf", 100, "00" * 32, quota_used_bytes=0, examined=examined(), scanned=CLEAN, duplicate_of="")
ACCEPTED = Verdict("accepted", None)


def rejected(reason: Reason) -> Verdict:
    return Verdict("rejected", reason)


def upload(whole: Facts, rules: Rules) -> tuple[Facts, Verdict]:
    """Return the facts and the verdict that an upload leaves: nothing is measured after the check that rejects it."""
    coming = Facts(whole.filename, whole.extension, 0)
    received = Facts(whole.filename, whole.extension, whole.size_bytes, whole.sha256)
    admitted = replace(received, rate=whole.rate, plan=whole.plan, quota_used_bytes=whole.quota_used_bytes)
    if rules.policies.need_duplicates:
        admitted = replace(admitted, duplicate_of=whole.duplicate_of)
    checked = replace(admitted, examined=whole.examined)
    too_large = replace(coming, size_bytes=rules.max_bytes + 1)
    for facts in (coming, too_large if whole.size_bytes > rules.max_bytes else coming, received, admitted, checked):
        rejection = decide(facts, rules)
        if rejection is not None:
            return facts, Verdict("rejected", rejection.reason)
    last = replace(checked, scanned=whole.scanned) if rules.scan else checked
    if (rejection := decide(last, rules)) is not None:
        return last, Verdict("rejected", rejection.reason)
    held = quarantine_by(last, rules)
    return last, ACCEPTED if held is None else Verdict("quarantined", held.reason)


def past(number: int, facts: Facts, verdict: Verdict, rules: Rules) -> PastDecision:
    texts = json.dumps(rules.to_json()), json.dumps(facts.to_json())
    return PastDecision(f"rep_{number}", verdict.outcome, verdict.reason, *texts)


MODES = st.sampled_from(Mode)
CHECK_MODES = st.sampled_from([Mode.REPORT, Mode.QUARANTINE, Mode.ENFORCE])
POLICIES = st.builds(
    Policies,
    content_types=st.none() | st.builds(ContentTypes, mode=MODES, allow=st.just(["application/pdf"])),
    encrypted=st.none() | st.builds(EncryptedContent, mode=MODES),
    active_content=st.none() | st.builds(ActiveContent, mode=MODES),
    programs_in_archives=st.none() | st.builds(ProgramsInArchives, mode=MODES),
    image=st.none() | st.builds(Image, mode=MODES, max_width=st.just(50)),
    document=st.none() | st.builds(Document, mode=MODES, max_pages=st.just(2)),
    min_size_bytes=st.none() | st.builds(MinSize, mode=MODES, bytes=st.sampled_from([50, 500])),
    filename_pattern=st.none() | st.builds(FilenamePattern, mode=MODES, pattern=st.just("[a-z.]+")),
    duplicates=st.none() | st.builds(Duplicates, mode=MODES),
)
ALL_RULES = st.builds(
    Rules,
    version=st.integers(1, 3),
    allowed_extensions=st.sampled_from([(), ("pdf",), ("png", "pdf"), ("zip",)]),
    max_bytes=st.sampled_from([60, 1000]),
    reject_blank=st.booleans(),
    reject_corrupt=st.booleans(),
    scan=st.booleans(),
    rate=st.sampled_from([None, RateLimit(1, 60), RateLimit(5, 60)]),
    quota_bytes=st.sampled_from([None, 150, 10_000]),
    check_modes=st.builds(CheckModes, integrity=CHECK_MODES, blank=CHECK_MODES, malware=CHECK_MODES),
    policies=POLICIES,
)
REPORTS = st.sampled_from(
    [
        examined(),
        examined(facts={"pages": 1, "encrypted": True, "flags_complete": True}),
        examined(facts={"flags_complete": False}),
        examined(facts={}),
        examined(flags=("macro",), facts={"flags_complete": False}),
        examined(blank=True),
        examined(blank=True, fill="zeros", integrity=Outcome.CORRUPT),
        examined(integrity=Outcome.CORRUPT),
        examined(finding=Finding.POLYGLOT),
        examined(content_type="image/png", format="png", facts={"width": 100, "flags_complete": True}),
        examined(content_type="application/zip", facts={"programs": 1, "flags_complete": True}),
        ExamineFact(None, died=True, overran=None, detail="died", ms=1.0),
    ]
)
FILES = st.builds(
    Facts,
    filename=st.sampled_from(["a.pdf", "B.pdf", "b.png"]),
    extension=st.sampled_from(["pdf", "png", ""]),
    size_bytes=st.sampled_from([10, 100, 2000]),
    sha256=st.sampled_from(["00" * 32, "01" * 32]),
    plan=st.sampled_from([None, PlanFact(1, 500, 1.0), PlanFact(500, 500, 1.0)]),
    quota_used_bytes=st.sampled_from([0, 100]),
    examined=REPORTS,
    scanned=st.sampled_from([CLEAN, replace(CLEAN, outcome="infected", threat="X", detail="found X")]),
    duplicate_of=st.sampled_from(["", "file_1"]),
)


@given(file=FILES, earlier=ALL_RULES, rules=ALL_RULES, is_full=st.booleans())
@settings(max_examples=500, deadline=None)
def test_a_replay_says_what_an_upload_by_them_does(file: Facts, earlier: Rules, rules: Rules, *, is_full: bool) -> None:
    file = replace(file, rate=None if earlier.rate is None else RateFact(0, 3.0 if is_full else None))
    facts, before = upload(file, earlier)
    again = judge_again(facts, before, earlier, rules)
    if isinstance(again, Verdict):
        assert again == upload(replace(file, rate=facts.rate if rules.rate == earlier.rate else None), rules)[1]


@given(file=FILES, rules=ALL_RULES, version=st.integers(4, 5))
@settings(max_examples=100, deadline=None)
def test_a_replay_of_the_same_rules_changes_nothing(file: Facts, rules: Rules, version: int) -> None:
    facts, before = upload(file, rules)
    replay = Replay(replace(rules, version=version))
    replay.add([past(1, facts, before, rules)])
    assert (replay.judged, replay.unchanged) == (1, 1)


@given(files=st.lists(FILES, max_size=12), earlier=ALL_RULES, rules=ALL_RULES)
@settings(max_examples=50, deadline=None)
def test_every_upload_is_counted_once(files: list[Facts], earlier: Rules, rules: Rules) -> None:
    replay = Replay(rules)
    replay.add([past(number, *upload(file, earlier), earlier) for number, file in enumerate(files)])
    kinds = (replay.would_accept, replay.would_reject, replay.would_quarantine, replay.other_reason)
    groups = [group for kind in kinds for group in kind.values()]
    counted = sum(group.count for group in groups) + replay.unchanged + sum(replay.unknown.values())
    assert replay.judged == counted == len(files)
    assert all(len(group.samples) == min(group.count, MOST_SAMPLES) for group in groups)


def policies(**fields: Any) -> Rules:
    return replace(RULES, policies=Policies(**fields))


NEVER_EXAMINED = replace(WHOLE, rate=None, quota_used_bytes=None, examined=None, scanned=None, duplicate_of=None)
NOT_RECEIVED = replace(NEVER_EXAMINED, sha256=None)
NOT_SEARCHED = replace(WHOLE, examined=examined(facts={"flags_complete": False}))
NOT_JUDGED = replace(WHOLE, examined=examined(facts={"flags_complete": True, "frames": 1}))
ONLY_PNG = replace(RULES, allowed_extensions=("png",))
QUOTA_EXCEEDED = rejected(Reason.STORAGE_QUOTA_EXCEEDED)
UNKNOWN: list[tuple[Facts, Verdict, Rules, Rules, Unknown]] = [
    (NOT_RECEIVED, rejected(Reason.EXTENSION_NOT_ALLOWED), ONLY_PNG, RULES, Unknown.NOT_RECEIVED),
    (NEVER_EXAMINED, rejected(Reason.FILE_TOO_SMALL), policies(min_size_bytes=MinSize(bytes=200)), RULES, Unknown.NOT_EXAMINED),
    (replace(WHOLE, scanned=None), ACCEPTED, replace(RULES, scan=False), RULES, Unknown.NOT_SCANNED),
    (replace(WHOLE, examined=examined(facts={})), ACCEPTED, RULES, policies(encrypted=EncryptedContent()), Unknown.NOT_MEASURED),
    (NOT_JUDGED, ACCEPTED, RULES, policies(legible=Legible()), Unknown.NOT_MEASURED),
    (NOT_SEARCHED, ACCEPTED, RULES, policies(active_content=ActiveContent()), Unknown.NOT_SEARCHED),
    (replace(WHOLE, duplicate_of=None), ACCEPTED, RULES, policies(duplicates=Duplicates()), Unknown.NOT_COMPARED),
    (WHOLE, ACCEPTED, RULES, replace(RULES, rate=RateLimit(1, 60)), Unknown.RATE_LIMIT),
    (WHOLE, QUOTA_EXCEEDED, replace(RULES, quota_bytes=1000), replace(RULES, quota_bytes=2000), Unknown.ROOM_TAKEN),
]  # fmt: skip


@each_row("facts, before, earlier, rules, why", UNKNOWN, ids=[case[-1] for case in UNKNOWN])
def test_a_fact_that_was_not_measured_leaves_the_verdict_unknown_unless_an_earlier_check_fails(
    facts: Facts, before: Verdict, earlier: Rules, rules: Rules, why: Unknown
) -> None:
    assert judge_again(facts, before, earlier, rules) is why
    assert WHY[why]
    none_allowed = replace(rules, allowed_extensions=("exe",))
    assert judge_again(facts, before, earlier, none_allowed) == rejected(Reason.EXTENSION_NOT_ALLOWED)


def test_a_check_that_only_reports_needs_no_fact() -> None:
    facts = replace(WHOLE, examined=examined(facts={}), duplicate_of=None)
    rules = policies(encrypted=EncryptedContent(mode=Mode.REPORT), duplicates=Duplicates(mode=Mode.OFF))
    assert judge_again(facts, ACCEPTED, RULES, rules) == ACCEPTED


def test_the_last_room_stays_taken_while_the_limit_stays() -> None:
    before, earlier = QUOTA_EXCEEDED, replace(RULES, quota_bytes=1000)
    assert judge_again(WHOLE, before, earlier, replace(earlier, scan=False)) == before
    assert judge_again(WHOLE, before, earlier, replace(earlier, quota_bytes=None)) == ACCEPTED
    before = rejected(Reason.MONTHLY_LIMIT_EXCEEDED)
    assert judge_again(WHOLE, before, RULES, replace(RULES, scan=False)) == before


def test_a_duplicate_of_an_upload_that_would_end_otherwise_is_unknown() -> None:
    earlier = policies(duplicates=Duplicates())
    first, second = WHOLE, replace(WHOLE, duplicate_of="file_1")
    other = replace(earlier, policies=Policies(duplicates=Duplicates(), document=Document(max_pages=2)))
    third, duplicate = replace(second, sha256="11" * 32), rejected(Reason.DUPLICATE_FILE)
    uploads = enumerate([(first, ACCEPTED), (second, duplicate), (third, duplicate)])
    replay = Replay(other)
    replay.add([past(number, facts, verdict, earlier) for number, (facts, verdict) in uploads])
    assert replay.unknown == {Unknown.DUPLICATE_CHANGED: 1}
    assert (replay.unchanged, replay.would_reject[Reason.TOO_MANY_PAGES].count) == (1, 1)


def test_todays_hash_lists_decide_by_the_digests_that_decisions_keep() -> None:
    deny = ListedHash("00" * 32, "deny", None, of_installation=False)
    member = ListedHash("11" * 16, "deny", None, of_installation=True, member="b.txt")
    was_denied = replace(WHOLE, listed=HashListFact((deny,)), examined=None, scanned=None)
    had_member = replace(WHOLE, listed=HashListFact((member,), members=1), scanned=None)
    infected = replace(WHOLE, scanned=replace(CLEAN, outcome="infected"))
    denied, virus = rejected(Reason.DENIED_FILE), rejected(Reason.VIRUS_DETECTED)
    made = [
        past(1, WHOLE, ACCEPTED, RULES),
        past(2, was_denied, denied, RULES),
        past(3, had_member, denied, RULES),
        past(4, infected, virus, RULES),
    ]
    assert set(digests_in(made)) == {bytes(32), bytes.fromhex(member.digest)}

    def outcome(*today: ListedHash) -> tuple[int, dict[Reason, int], dict[Reason, int], dict[Unknown, int]]:
        replay = Replay(RULES)
        replay.add(made, {one.digest: [replace(one, member="")] for one in today})
        counted = [{reason: group.count for reason, group in groups.items()} for groups in _groups(replay)]
        return replay.unchanged, counted[0], counted[1], replay.unknown

    assert outcome(deny, member) == (2, {Reason.DENIED_FILE: 1}, {}, {})
    assert outcome(member) == (3, {}, {}, {Unknown.NOT_EXAMINED: 1})
    assert outcome(replace(deny, list="allow"))[2] == {Reason.VIRUS_DETECTED: 1, Reason.DENIED_FILE: 1}


def _groups(replay: Replay) -> tuple[dict[Reason, Group], dict[Reason, Group]]:
    return replay.would_reject, replay.would_accept


@each_row(
    "broken",
    [
        {"facts": "{}"},
        {"facts": "["},
        {"rules": "[]"},
        {"reason": "no_such_reason"},
        {"facts": json.dumps(WHOLE.to_json() | {"examined": {"report": {"facts": {"no_such_fact": 1}}}})},
    ],
)
def test_a_decision_that_cannot_be_read_is_unknown_and_stops_no_other(broken: dict[str, Any]) -> None:
    readable = past(1, WHOLE, ACCEPTED, RULES)
    replay = Replay(replace(RULES, allowed_extensions=("png",), policies=NO_POLICIES))
    replay.add([replace(readable, **broken), readable])
    assert replay.unknown == {Unknown.NOT_READABLE: 1}
    assert replay.would_reject[Reason.EXTENSION_NOT_ALLOWED].count == 1


def test_what_checks_in_python_found_is_judged_again() -> None:
    checked = replace(examined(), checks=(CheckResult("meter", findings=(CheckFinding("no_picture"),)),))
    facts = replace(WHOLE, examined=checked)
    assert decide(facts, RULES) is not None
    before = rejected(Reason.REJECTED_BY_CHECK)
    assert judge_again(facts, before, RULES, replace(RULES, max_bytes=2000)) == before


def test_texts_are_judged_again_by_rules_that_ask_no_more_than_was_asked() -> None:
    number, draft = (NamedText(name=name, any=[name]) for name in ("number", "draft"))
    earlier = policies(text=Text(must_contain=[number, draft], identifiers=["iban"], max_age_days=90))
    read = replace(WHOLE, text=TextFact(found=("number",), words=9, age_days=40))
    for text, after in (
        (Text(must_contain=[number]), ACCEPTED),
        (Text(must_not_contain=[number]), rejected(Reason.FORBIDDEN_TEXT)),
        (Text(max_age_days=30, languages=["en"]), rejected(Reason.OUTDATED_DOCUMENT)),
        (Text(min_words=9, identifiers=["iban"]), ACCEPTED),
        (Text(must_contain=[number.model_copy(update={"pattern": "x"})]), Unknown.NOT_READ),
        (Text(identifiers=["us_ssn"]), Unknown.NOT_READ),
        (Text(max_age_days=90, date_labels=["as of"]), Unknown.NOT_READ),
        (Text(must_contain=[number], ocr=["en"]), Unknown.NOT_READ),
    ):
        assert judge_again(read, rejected(Reason.MISSING_TEXT), earlier, policies(text=text)) == after
    assert judge_again(WHOLE, ACCEPTED, RULES, earlier) is Unknown.NOT_READ


def test_uploads_are_judged_by_rules_that_sanitise_only_if_they_were_sanitised_so() -> None:
    rules = replace(RULES, sanitise=Sanitise(remove=["metadata"]))
    sanitised = replace(WHOLE, sanitised=SanitisedFact("11", 900, ("gps",)))
    assert judge_again(sanitised, ACCEPTED, rules, replace(rules, reject_blank=False)) == ACCEPTED
    assert judge_again(sanitised, ACCEPTED, rules, RULES) == ACCEPTED
    both = replace(rules, sanitise=Sanitise(remove=["metadata", "active_content"]))
    for facts, earlier, now in ((WHOLE, RULES, rules), (sanitised, rules, both)):
        assert judge_again(facts, ACCEPTED, earlier, now) is Unknown.NOT_SANITISED
    infected = replace(WHOLE, scanned=replace(CLEAN, outcome="infected"))
    assert judge_again(infected, ACCEPTED, RULES, rules) == rejected(Reason.VIRUS_DETECTED)
