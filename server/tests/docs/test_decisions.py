"""Decision records are whole, numbered without a gap, and listed."""

import re
import tomllib
from pathlib import Path

from tests.docs.pages import DOCS, ROOT
from tests.rows import each_row

RECORDS = sorted((DOCS / "decisions").glob("*.md"))


@each_row("record", RECORDS)
def test_a_record_is_whole_and_listed_in_the_index(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    title, _, status = text.split("\n")[:3]
    assert title.startswith(f"# {record.stem[:4]} ")
    assert re.fullmatch(r"Status: (accepted|superseded by \[\d{4}\]\(.+\))", status)
    _, *parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    assert parts[::2] == ["Context", "Decision", "Consequences"]
    assert all(len(part.split()) > 20 for part in parts[1::2])
    assert f"(decisions/{record.name})" in (DOCS / "decisions.md").read_text(encoding="utf-8")


def test_records_are_numbered_without_a_gap() -> None:
    assert [int(record.stem[:4]) for record in RECORDS] == list(range(1, len(RECORDS) + 1))


def test_the_record_on_folders_lists_the_layers_that_are_proved() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(one for one in project["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    shown = re.findall(r"^ {4}(\S.*)$", RECORDS[0].read_text(encoding="utf-8"), re.MULTILINE)
    assert [line.replace(" · ", " | ") for line in shown] == contract["layers"]
