"""Missing optional libraries: their formats are unsupported and pass; all others are checked as before."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sluice_inspect.format import missing_readers
from sluice_inspect.registry import FORMATS
from tests.rows import each_row

SCRIPT_WITHOUT_READERS = """
import ctypes, json, sys
from pathlib import Path
for name in ("av", "pillow_heif", "pi_heif"):
    sys.modules[name] = None
load = ctypes.CDLL
class Refusing(load):
    def __init__(self, name, *rest, **more):
        if name and "de265" in str(name):
            raise OSError("not installed")
        super().__init__(name, *rest, **more)
ctypes.CDLL = Refusing
from sluice_inspect.child import jobs
from sluice_inspect.inspection import inspect_file
from sluice_inspect.registry import FORMATS
jobs.preload()
def check(path):
    report = inspect_file(path)
    return [report.outcome, report.finding, report.blank, report.detail]
print(json.dumps({
    "samples": [name for name, _, _ in jobs.samples()],
    "lacks": {format_.name: format_.missing_reader for format_ in FORMATS if format_.missing_reader},
    "reports": {Path(path).stem: check(path) for path in sys.argv[1:]},
}))
"""
PLAYED = {"aac", "aiff", "avi", "flac", "m4a", "mkv", "mov", "mp3", "mp4", "ogg", "opus", "wav", "webm"}


@pytest.fixture(scope="module")
def without_readers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[object]]]:
    folder = tmp_path_factory.mktemp("samples")
    for format_ in FORMATS:
        (folder / f"{format_.name}.{min(format_.extensions)}").write_bytes(format_.sample())
    paths = sorted(str(path) for path in Path(folder).iterdir())
    command = [sys.executable, "-c", SCRIPT_WITHOUT_READERS, *paths]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    results: dict[str, dict[str, list[object]]] = json.loads(run.stdout)
    return results


def test_every_reader_is_installed_in_this_environment() -> None:
    assert [format_.name for format_ in FORMATS if format_.missing_reader] == []


Results = dict[str, dict[str, Any]]
MISSING = {**dict.fromkeys(PLAYED, "PyAV"), "heic": "pillow-heif"}
OTHERS = {format_.name for format_ in FORMATS} - MISSING.keys()


def test_formats_name_their_missing_reader(without_readers: Results) -> None:
    assert without_readers["lacks"] == MISSING
    assert set(without_readers["samples"]) == OTHERS


@each_row("name", sorted(MISSING))
def test_format_without_its_reader_is_unsupported(without_readers: Results, name: str) -> None:
    outcome, finding, blank, detail = without_readers["reports"][name]
    assert (outcome, finding, blank) == ("unsupported", None, False)
    assert "not installed" in str(detail)


@each_row("name", sorted(OTHERS))
def test_other_formats_are_checked_without_the_readers(without_readers: Results, name: str) -> None:
    assert without_readers["reports"][name][:3] == ["ok", None, False]


def test_missing_readers_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr("sluice_inspect.format.find_library", lambda _name: None)
    names = ("PyAV", "pillow-heif", "libarchive")
    assert [name in line for name, line in zip(names, missing_readers(), strict=True)] == [True, True, True]
    monkeypatch.undo()
    assert not any("PyAV" in line or "pillow-heif" in line for line in missing_readers())
