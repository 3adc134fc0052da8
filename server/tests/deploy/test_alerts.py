"""The alert rules: promtool confirms when each fires, and each has a section in the runbook."""

import re
import shutil
from pathlib import Path

from tests.docs.pages import anchors
from tests.required import require
from tests.rows import each_row
from tests.servers import run

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "prometheus" / "sluice.rules.yml"
CASES = Path(__file__).parent / "sluice.rules.test.yml"
ALERTS = re.findall(r"- alert: (\w+)\n", RULES.read_text())


def test_promtool_confirms_when_alerts_fire(tmp_path: Path) -> None:
    require("Prometheus", "promtool", apt="prometheus")
    for file in (RULES, CASES):
        shutil.copy(file, tmp_path)
    assert "SUCCESS" in run(["promtool", "test", "rules", str(tmp_path / CASES.name)])


@each_row("alert", ALERTS)
def test_alert_has_a_firing_and_a_silent_case(alert: str) -> None:
    cases = CASES.read_text()
    assert f"alertname: {alert}}}" in cases, "no case in which it is silent"
    assert f"alertname: {alert}\n        exp_alerts:\n          - exp_labels" in cases, "no case in which it fires"


@each_row("alert", ALERTS)
def test_alert_has_a_complete_runbook_section(alert: str) -> None:
    page = ROOT / "docs" / "operations.md"
    assert f"runbook: docs/operations.md#{alert.lower()}\n" in RULES.read_text()
    assert alert.lower() in anchors(page.read_text())
    section = re.search(rf"^### {alert}$(.*?)(?=^#|\Z)", page.read_text(), re.MULTILINE | re.DOTALL)
    assert section, alert
    for part in ("**Seen from outside.**", "**Look.**", "**Do.**"):
        assert part in section[1], f"{alert} has no {part}"


def test_runbook_sections_match_the_alerts() -> None:
    assert re.findall(r"^### (Sluice\w+)$", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE) == ALERTS
