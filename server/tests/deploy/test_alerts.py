"""The alert rules: promtool confirms when each fires, and each has a runbook."""

import shutil
from pathlib import Path

import yaml

from tests.docs.pages import anchors
from tests.required import require
from tests.rows import each_row
from tests.servers import run

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "prometheus" / "sluice.rules.yml"
CASES = Path(__file__).parent / "sluice.rules.test.yml"
RULES_BY_ALERT = {rule["alert"]: rule for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]}
ALERTS = list(RULES_BY_ALERT)
RUNBOOK = ("meaning", "seen_from_outside", "look", "do")


def test_promtool_confirms_when_alerts_fire(tmp_path: Path) -> None:
    require("Prometheus", "promtool", apt="prometheus")
    shutil.copy(CASES, tmp_path)
    (tmp_path / RULES.name).write_text(_without_runbooks())
    assert "SUCCESS" in run(["promtool", "test", "rules", str(tmp_path / CASES.name)])


@each_row("alert", ALERTS)
def test_alert_has_a_firing_and_a_silent_case(alert: str) -> None:
    cases = CASES.read_text()
    assert f"alertname: {alert}}}" in cases, "no case in which it is silent"
    assert f"alertname: {alert}\n        exp_alerts:\n          - exp_labels" in cases, "no case in which it fires"


@each_row("alert", ALERTS)
def test_alert_has_a_complete_runbook_section(alert: str) -> None:
    annotations = RULES_BY_ALERT[alert]["annotations"]
    assert annotations["runbook"] == f"docs/runbooks.md#{alert.lower()}"
    assert alert.lower() in anchors((ROOT / "docs" / "runbooks.md").read_text())
    assert all(annotations[part].endswith((".", "?")) for part in RUNBOOK)


def _without_runbooks() -> str:
    """Return the rules without the texts that promtool would compare with each case."""
    groups = yaml.safe_load(RULES.read_text())
    for rule in groups["groups"][0]["rules"]:
        for part in RUNBOOK:
            del rule["annotations"][part]
    return str(yaml.safe_dump(groups))
