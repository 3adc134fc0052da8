"""`sluice_inspect` without the service: as a library, in its README, and as the command `sluice-inspect`."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sluice_inspect
from sluice_inspect import Finding, Inspector, Outcome, Report, SandboxBroken, inspect, inspect_file
from sluice_inspect.__main__ import main
from sluice_inspect.threats import EICAR
from tests.inspection.formats.image_samples import chess_board, encoded
from tests.rows import each_row

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "inspect" / "src" / "sluice_inspect"
README = (ROOT / "inspect" / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
PNG = encoded(chess_board(), "PNG")
# In one interpreter, since each takes half a second: what the import loads comes first.
WITHOUT_THE_SERVICE = """
import importlib, json, runpy, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name == "sluice" or name.startswith("sluice."):
            raise ImportError(f"{name} is not installed")
sys.meta_path.insert(0, Refuse())
snippet, *modules = sys.argv[1:]
import sluice_inspect, sluice_inspect.report
print(json.dumps(sorted(sys.modules)))
try:
    import sluice.errors
except ImportError as error:
    print(error)
exec(snippet)
for name in modules:
    importlib.import_module(name)
sys.argv = ["sluice-inspect", "--in-process", "good.png", "page.png"]
runpy.run_module("sluice_inspect", run_name="__main__")
"""


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def inspector() -> Iterator[Inspector]:
    with Inspector() as running:
        yield running


@pytest.fixture
def command(
    folder: Path, inspector: Inspector, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Return a function that runs the command in the folder and returns its exit status, output and errors."""
    monkeypatch.chdir(folder)

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            status = main(arguments, inspector)
        except SystemExit as exit_:
            status = int(str(exit_.code))
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.png").write_bytes(PNG)
    (tmp_path / "cut.png").write_bytes(PNG[:-30])
    (tmp_path / "page.png").write_bytes(b"<html><body>502 Bad Gateway</body></html>")
    (tmp_path / "empty.json").write_bytes(b"{}")
    return tmp_path


def test_package_its_readme_and_its_command_as_a_module_run_without_the_service(folder: Path) -> None:
    (snippet,) = (block for block in BLOCKS if "Finding.TYPE_MISMATCH" in block)
    modules = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name not in {"__init__.py", "__main__.py"}
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "inspect" / "src"), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", WITHOUT_THE_SERVICE, snippet, *modules]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert run.returncode == 1, run.stderr
    loaded, refused, broken, *_, good, page = run.stdout.splitlines()
    assert "sluice_inspect.report" in json.loads(loaded)
    assert not {"PIL", "lxml", "magic", "numpy", "pikepdf", "sluice_inspect.inspection"} & set(json.loads(loaded))
    assert refused == "sluice is not installed"
    assert broken.startswith("the JSON breaks in line 1")
    assert (good.split()[1], page.split()[1]) == ("ok", "type_mismatch")


def test_readme_lists_all_outcomes_findings_and_fields() -> None:
    rows = set(re.findall(r"`([a-z_]+)`", "\n".join(line for line in README.splitlines() if line.startswith("|"))))
    words = {*map(str, Outcome), *map(str, Finding), *Report.__dataclass_fields__}
    assert words <= rows


def test_inspect_is_an_alias_of_inspect_file() -> None:
    assert inspect is inspect_file
    assert inspect.__module__ == "sluice_inspect.inspection"
    assert all(getattr(sluice_inspect, name).__doc__ for name in sluice_inspect.__all__)
    with pytest.raises(AttributeError, match="no attribute 'check_file'"):
        _ = sluice_inspect.check_file


def test_package_is_typed_and_its_command_installed_with_the_distribution() -> None:
    assert (PACKAGE / "py.typed").is_file()
    scripts = tomllib.loads((ROOT / "inspect" / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["sluice-inspect"] == "sluice_inspect.__main__:main"


def test_ok_files_exit_with_0(folder: Path, command: Command) -> None:
    status, out, err = command("good.png", str(folder / "good.png"))
    assert out == f"good.png: ok (image/png)\n{folder}/good.png: ok (image/png)\n"
    assert (status, err) == (0, "")


@each_row(
    ("name", "line"),
    [
        ("cut.png", r"cut\.png: corrupt \(image/png\): .+\n"),
        ("page.png", r"page\.png: type_mismatch \(text/html\): named \.png, but the content is a web page\n"),
        ("empty.json", r"empty\.json: blank \(application/json\): the JSON holds nothing but nulls.*\n"),
    ],
)
def test_file_that_is_not_ok_exits_with_1(command: Command, name: str, line: str) -> None:
    status, out, _ = command(name, "good.png")
    assert re.fullmatch(rf"{line}good\.png: ok \(image/png\)\n", out)
    assert status == 1


@each_row("name", ["missing.png", ".", "/dev/null"])
def test_file_that_cannot_be_read_is_named_and_exits_with_2(command: Command, name: str) -> None:
    status, out, err = command(name, "cut.png")
    assert (status, err.count("\n"), out[:16]) == (2, 1, "cut.png: corrupt")
    assert err.startswith(f"sluice-inspect: cannot read {name}: ")


def test_known_threat_is_named_but_not_searched_for_in_process(folder: Path, command: Command) -> None:
    (folder / "note.txt").write_bytes(EICAR)
    status, out, _ = command("note.txt")
    assert (status, out.startswith("note.txt: threat (text/plain): the file contains ")) == (1, True)
    assert command("--in-process", "note.txt")[:2] == (0, "note.txt: ok (text/plain)\n")


def test_command_says_why_no_process_can_be_locked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(_inspector: Inspector) -> None:
        raise SandboxBroken("no seccomp here")

    monkeypatch.setattr(Inspector, "start", start)
    assert main([str(folder / "good.png")]) == 2
    assert capsys.readouterr().err == "sluice-inspect: no locked process can be started: no seccomp here\n"


def test_json_option_prints_complete_reports(command: Command) -> None:
    status, out, _ = command("--json", "good.png", "cut.png")
    lines = {line["file"]: line for line in map(json.loads, out.splitlines())}
    assert [(line["reason"], line["threat"], line["fault"]) for line in lines.values()] == [
        ("ok", None, ""),
        ("corrupt", None, ""),
    ]
    reports = {name: Report.from_json(line["report"]) for name, line in lines.items()}
    assert reports["good.png"].measures["width"] == 64
    assert reports["cut.png"].integrity is Outcome.CORRUPT
    assert status == 1


def test_escape_sequences_in_a_file_name_do_not_reach_the_terminal(folder: Path, command: Command) -> None:
    name = "a\x1b[2J\n.png"
    (folder / name).write_bytes(PNG)
    assert command(name)[1] == "a [2J .png: ok (image/png)\n"
    assert json.loads(command("--json", name)[1])["file"] == name
    assert command(f"not-{name}")[2] == "sluice-inspect: cannot read not-a [2J .png: No such file or directory\n"


def test_usage_error_and_help_state_what_is_wanted(command: Command) -> None:
    status, _, err = command()
    assert (status, "FILE" in err) == (2, True)
    status, out, _ = command("--help")
    assert (status, "2 if a file cannot be read" in " ".join(out.split())) == (0, True)
