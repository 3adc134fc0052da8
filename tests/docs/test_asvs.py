"""The page of ASVS requirements and the marks in the tests agree, and chapter 5 is proven whole. That the page is fresh is in `test_generated`."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

CHAPTER_5 = ["5.1.1", *[f"5.2.{n}" for n in range(1, 7)], *[f"5.3.{n}" for n in range(1, 4)], *[f"5.4.{n}" for n in range(1, 4)]]
_ROW = re.compile(r"^\| (\d+\.\d+\.\d+) \| (.+) \| (.*) \|$", re.MULTILINE)
_MARK = re.compile(r"@pytest\.mark\.asvs\(([^)]*)\)")

ROWS = {name: (does, proof) for name, does, proof in _ROW.findall((DOCS / "security" / "asvs.md").read_text(encoding="utf-8"))}


def test_chapter_5_is_there_row_by_row() -> None:
    assert [name for name in ROWS if name.startswith("5.")] == CHAPTER_5


@pytest.mark.parametrize("requirement", ROWS)
def test_a_requirement_of_the_page_is_proven_by_tests_that_are_there(requirement: str) -> None:
    tests = re.findall(r"`(tests/[^`]+)::(\w+)`", ROWS[requirement][1])
    assert tests, f"no test carries @pytest.mark.asvs({requirement!r})"
    for path, name in tests:
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_every_mark_names_a_requirement_of_the_page() -> None:
    marked = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__)
        for arguments in _MARK.findall(path.read_text(encoding="utf-8"))
        for name in re.findall(r'"([\d.]+)"', arguments)
    }
    assert marked <= ROWS.keys()
    assert len(marked) > 50


@pytest.mark.asvs("15.1.2")
def test_the_bill_of_materials_names_every_pinned_library(tmp_path: Path) -> None:
    bill = tmp_path / "sbom.json"
    subprocess.run([sys.executable, str(ROOT / "scripts" / "sbom.py"), str(bill)], check=True, capture_output=True, timeout=60)
    said = json.loads(bill.read_text())
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    assert said["bomFormat"] == "CycloneDX"
    assert [component["name"] for component in said["components"]] == [name.lower() for name in pinned]
    assert len(pinned) > 30
    assert all(component["hashes"] for component in said["components"])
