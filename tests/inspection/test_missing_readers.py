"""Without an optional library its formats are unsupported, and pass; all others are judged as before."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.formats import optional_readers
from sluice.formats.optional_readers import missing_readers
from sluice.formats.registry import KINDS

WITHOUT = """
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
from sluice.engines.sandbox import jobs
from sluice.formats.check import check_file
from sluice.formats.registry import KINDS
jobs.preload()
def look(path):
    report = check_file(path)
    return [report.outcome, report.finding, report.blank, report.detail]
print(json.dumps({
    "samples": [name for name, _, _ in jobs.samples()],
    "lacks": {kind.name: kind.lacks for kind in KINDS if kind.lacks},
    "reports": {Path(path).stem: look(path) for path in sys.argv[1:]},
}))
"""
PLAYED = {"aac", "aiff", "avi", "flac", "m4a", "mkv", "mov", "mp3", "mp4", "ogg", "opus", "wav", "webm"}


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[object]]]:
    folder = tmp_path_factory.mktemp("samples")
    for kind in KINDS:
        (folder / f"{kind.name}.{min(kind.extensions)}").write_bytes(kind.sample())
    paths = sorted(str(path) for path in Path(folder).iterdir())
    run = subprocess.run([sys.executable, "-c", WITHOUT, *paths], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    answer: dict[str, dict[str, list[object]]] = json.loads(run.stdout)
    return answer


def test_here_every_reader_is_installed() -> None:
    assert [kind.name for kind in KINDS if kind.lacks] == []


def test_the_formats_say_what_they_lack(without: dict[str, dict[str, list[object]]]) -> None:
    assert sorted(map(str, without["lacks"].items())) == sorted(
        map(str, {**dict.fromkeys(PLAYED, "PyAV"), "heic": "pillow-heif"}.items())
    )
    assert set(without["samples"]) == {kind.name for kind in KINDS} - PLAYED - {"heic"}


@pytest.mark.parametrize("name", sorted(PLAYED | {"heic"}))
def test_without_its_reader_a_format_is_unsupported_and_passes(without: dict[str, dict[str, list[object]]], name: str) -> None:
    outcome, finding, blank, detail = without["reports"][name]
    assert (outcome, finding, blank) == ("unsupported", None, False)
    assert "not installed" in str(detail)


@pytest.mark.parametrize("name", sorted({kind.name for kind in KINDS} - PLAYED - {"heic"}))
def test_without_the_readers_every_other_format_is_judged(without: dict[str, dict[str, list[object]]], name: str) -> None:
    assert without["reports"][name][:3] == ["ok", None, False]


def test_what_is_missing_is_said_with_what_that_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr(optional_readers, "find_library", lambda _name: None)
    said = list(missing_readers())
    assert [name in line for name, line in zip(("PyAV", "pillow-heif", "libarchive"), said, strict=True)] == [True] * 3
    monkeypatch.undo()
    assert not any("PyAV" in line or "pillow-heif" in line for line in missing_readers())
