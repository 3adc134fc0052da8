"""Matches of the operator's YARA rules: what they decide, what the decision log keeps, and who reads of them."""

import json
from dataclasses import replace
from datetime import UTC, datetime

from sluice.api.schemas.reports import SenderReport, full_report
from sluice.contexts.policies import CheckModes, Mode
from sluice.decisions import DecisionRecord
from sluice.uploads.report import VerdictReport
from sluice.uploads.rules import decide, judge_scan, quarantine_by
from sluice.uploads.values import Facts, Rules, ScanFact
from sluice_inspect.sandbox.unpack import RuleMatch
from tests.rows import each_row

MATCH = RuleMatch("Invoice_Lure", "mail/lures.yar", "quarantine", {"author": "soc", "score": 75})
HELD = ScanFact(
    *("infected", "yara:Invoice_Lure", "found yara:Invoice_Lure", "builtin+yara", "5+0123456789abcdef", 1.0),
    rules=(MATCH,),
    quarantines=True,
)
NOTED = replace(HELD, outcome="clean", threat=None, detail="", quarantines=False, flags=("macro", "yara.Invoice_Lure"))
RULES = Rules(1, (), 1000, reject_blank=False, reject_corrupt=False, scan=True, rate=None, quota_bytes=None)


@each_row(
    "mode, severity, after",
    [
        (Mode.ENFORCE, "quarantine", Mode.QUARANTINE),
        (Mode.QUARANTINE, "quarantine", Mode.QUARANTINE),
        (Mode.REPORT, "quarantine", Mode.REPORT),
        (Mode.ENFORCE, "reject", Mode.ENFORCE),
    ],
)
def test_rule_can_ask_for_quarantine_in_place_of_a_rejection(mode: Mode, severity: str, after: Mode) -> None:
    facts = Facts("a.pdf", "pdf", 100, "00" * 32, scanned=replace(HELD, quarantines=severity == "quarantine"))
    rules = replace(RULES, check_modes=CheckModes(malware=mode))
    (failure,) = judge_scan(facts, rules)
    assert failure.mode is after
    assert (decide(facts, rules) is None, quarantine_by(facts, rules) is None) == (
        after is not Mode.ENFORCE,
        after is not Mode.QUARANTINE,
    )


def logged(scanned: ScanFact) -> DecisionRecord:
    """Return the decision on an accepted file, as it comes back from the log."""
    facts = Facts("a.pdf", "pdf", 100, "00" * 32, scanned=scanned)
    return DecisionRecord(
        report_id="rep_1",
        tenant_id="ten_1",
        file_id="file_1",
        context_key="claims",
        mode="live",
        rules=RULES.to_json(),
        rules_version=1,
        facts=json.loads(json.dumps(facts.to_json())),
        engines={},
        outcome="accepted",
        reason=None,
        detail="",
        actor={},
        created_at=datetime(2026, 1, 31, tzinfo=UTC),
        original_filename="a.pdf",
        actor_id=None,
        duration_ms=1,
    )


def test_matches_survive_the_decision_log_and_are_in_the_full_report_only() -> None:
    assert Facts.from_json(logged(HELD).facts).scanned == HELD
    shown = full_report(VerdictReport.of(logged(NOTED)), "en").model_dump(mode="json")
    assert shown["yara_rules"] == [
        {"rule": "Invoice_Lure", "file": "mail/lures.yar", "severity": "quarantine", "meta": dict(MATCH.meta)}
    ]
    assert shown["flags"] == ["yara.Invoice_Lure"]
    for_sender = {name: shown[name] for name in SenderReport.model_fields}
    assert "Invoice_Lure" not in json.dumps(for_sender)
