"""The ASVS page: it lists every requirement, chapter 5 in full, and its rows agree with the marks in the tests.

`test_generated` checks that the page is up to date.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.repository import TESTS
from tests.rows import each_row

LEVELS_1_AND_2 = (
    "1.1:1-2 1.2:1-9 1.3:1-11 1.4:1-3 1.5:1-2 2.1:1-3 2.2:1-3 2.3:1-4 2.4:1 3.2:1-2 3.3:1-4 3.4:1-6 3.5:1-5 3.7:1-2 "
    "4.1:1-3 4.2:1 4.3:1-2 4.4:1-4 5.1:1 5.2:1-3 5.3:1-2 5.4:1-3 6.1:1-3 6.2:1-12 6.3:1-4 6.4:1-4 6.5:1-5 6.6:1-3 "
    "6.8:1-4 7.1:1-3 7.2:1-4 7.3:1-2 7.4:1-5 7.5:1-2 7.6:1-2 8.1:1-2 8.2:1-3 8.3:1 8.4:1 9.1:1-3 9.2:1-4 10.1:1-2 "
    "10.2:1-2 10.3:1-4 10.4:1-11 10.5:1-5 10.6:1-2 10.7:1-3 11.1:1-2 11.2:1-3 11.3:1-3 11.4:1-4 11.5:1 11.6:1 "
    "12.1:1-3 12.2:1-2 12.3:1-4 13.1:1 13.2:1-5 13.3:1-2 13.4:1-5 14.1:1-2 14.2:1-4 14.3:1-3 15.1:1-3 15.2:1-3 "
    "15.3:1-7 16.1:1 16.2:1-5 16.3:1-4 16.4:1-3 16.5:1-3 17.1:1 17.2:1-4 17.3:1-2"
)
"""The numbers of the level 1 and 2 requirements of ASVS 5.0.0, by section."""
_ROW = re.compile(r"^\| (\d+\.\d+\.\d+) \| (.+) \| (.*) \|$", re.MULTILINE)
_MARK = re.compile(r"@pytest\.mark\.asvs\(([^)]*)\)")
PAGE = (DOCS / "security" / "asvs.md").read_text(encoding="utf-8")
ROWS = {name: (does, proof) for name, does, proof in _ROW.findall(PAGE)}


def _numbers(text: str) -> list[str]:
    """Return the requirement numbers in a range such as `6.2:1-3,7` or `6.2.1-6.2.3`."""
    if ":" in text:
        section, _, ranges = text.partition(":")
        spelled = ["-".join(f"{section}.{end}" for end in part.split("-")) for part in ranges.split(",")]
        return [number for part in spelled for number in _numbers(part)]
    first, _, last = text.partition("-")
    section, _, start = first.rpartition(".")
    return [f"{section}.{number}" for number in range(int(start), int((last or first).rpartition(".")[2]) + 1)]


def test_page_lists_every_level_1_and_2_requirement_and_chapter_5_in_full() -> None:
    cells = re.findall(r"^\| (\d[\d., -]*) \|", PAGE, re.MULTILINE)
    listed = {number for cell in cells for text in cell.split(", ") for number in _numbers(text)}
    required = {number for text in LEVELS_1_AND_2.split() for number in _numbers(text)}
    assert len(required) == 253
    assert required - listed == set()
    chapter_5 = [number for text in ("5.1:1", "5.2:1-6", "5.3:1-3", "5.4:1-3") for number in _numbers(text)]
    assert [name for name in ROWS if name.startswith("5.")] == chapter_5


def test_each_promise_of_the_threat_model_names_existing_tests() -> None:
    model = (DOCS / "security" / "threat-model.md").read_text(encoding="utf-8").partition("## Boundaries")[2]
    promises = re.findall(r"^\| (?!Promise|---)(.+) \| (.*) \|$", model, re.MULTILINE)
    assert len(promises) > 20
    for promise, proof in promises:
        tests = re.findall(r"`(\w+/tests/[^`]+)::(\w+)`", proof)
        assert tests, promise
        for path, name in tests:
            assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), name


@each_row("requirement", ROWS)
def test_requirement_names_existing_tests(requirement: str) -> None:
    tests = re.findall(r"`(\w+/tests/[^`]+)::(\w+)`", ROWS[requirement][1])
    assert tests, f"no test carries @pytest.mark.asvs({requirement!r})"
    for path, name in tests:
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_every_asvs_mark_names_a_listed_requirement() -> None:
    marked = {
        name
        for path in (path for folder in TESTS for path in folder.rglob("test_*.py"))
        if path != Path(__file__)
        for arguments in _MARK.findall(path.read_text(encoding="utf-8"))
        for name in re.findall(r'"([\d.]+)"', arguments)
    }
    assert marked <= ROWS.keys()
    assert len(marked) > 50


@pytest.mark.asvs("15.1.2")
def test_sbom_lists_every_pinned_library(tmp_path: Path) -> None:
    target = tmp_path / "sbom.json"
    command = [sys.executable, str(ROOT / "scripts" / "sbom.py"), str(target)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    sbom = json.loads(target.read_text())
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    assert sbom["bomFormat"] == "CycloneDX"
    assert [component["name"] for component in sbom["components"]] == [name.lower() for name in pinned]
    assert len(pinned) > 30
    assert all(component["hashes"] for component in sbom["components"])
