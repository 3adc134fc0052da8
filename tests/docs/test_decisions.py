"""Decision records are whole, numbered without a gap, and listed."""

import re
import tomllib
from pathlib import Path

from tests.docs.pages import DOCS, ROOT
from tests.rows import each_row

RECORDS = sorted((DOCS / "decisions").glob("*.md"))
PARTS = ["Context", "Decision", "Consequences"]


@each_row("record", RECORDS)
def test_a_record_has_its_parts_in_order(record: Path) -> None:
    assert re.findall(r"^## (.+)$", record.read_text(encoding="utf-8"), re.MULTILINE) == PARTS


@each_row("record", RECORDS)
def test_no_part_of_a_record_is_empty(record: Path) -> None:
    for part in re.split(r"^## .+$", record.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        assert len(part.split()) > 20


@each_row("record", RECORDS)
def test_a_record_is_headed_by_its_number_and_says_its_status(record: Path) -> None:
    title, _, status = record.read_text(encoding="utf-8").split("\n")[:3]
    assert title.startswith(f"# {record.stem[:4]} ")
    assert re.fullmatch(r"Status: (accepted|superseded by \[\d{4}\]\(.+\))", status)


def test_records_are_numbered_without_a_gap() -> None:
    assert [int(record.stem[:4]) for record in RECORDS] == list(range(1, len(RECORDS) + 1))


@each_row("record", RECORDS)
def test_the_index_lists_a_record(record: Path) -> None:
    assert f"(decisions/{record.name})" in (DOCS / "index.md").read_text(encoding="utf-8")


def test_the_record_on_folders_lists_the_layers_that_are_proved() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(one for one in project["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    shown = re.findall(r"^ {4}(\S.*)$", RECORDS[0].read_text(encoding="utf-8"), re.MULTILINE)
    assert [line.replace(" · ", " | ") for line in shown] == contract["layers"]
