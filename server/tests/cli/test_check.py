"""`sluice check`: run the upload checks on local files without a server."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.settings import Settings
from sluice.wiring.sandbox import make_sandbox
from tests.api.samples import SOUND_FILES, TEXT, docx_file, eicar, picture, white_picture, zip_of
from tests.cli.commands import Sluice, sluice_in
from tests.service import cli_command

FIELDS = ["path", "accepted", "reason", "outcome", "format", "content_type", "detail", "ms"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Valid and invalid files, one of them in a subfolder."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "below").mkdir()
    (folder / "below" / "cut.png").write_bytes(picture()[:-200])
    (folder / "empty.pdf").touch()
    (folder / "note.txt").write_bytes(TEXT)
    (folder / "picture.jpg").write_bytes(picture())
    (folder / "white.png").write_bytes(white_picture())
    return folder


@pytest.fixture
def check(tmp_path: Path) -> Sluice:
    """The command in a folder without an initialized service."""
    return sluice_in(tmp_path / "nowhere")


def test_check_prints_one_json_line_per_file_in_order(check: Sluice, folder: Path) -> None:
    result = check("check", "--json", folder)
    assert result.code == 3
    assert [list(row) for row in result.rows] == [FIELDS] * 5
    assert [(row["path"].removeprefix(f"{folder}/"), row["accepted"], row["reason"]) for row in result.rows] == [
        ("empty.pdf", False, "blank_document"),
        ("note.txt", True, None),
        ("picture.jpg", False, "type_mismatch"),
        ("white.png", False, "blank_document"),
        ("below/cut.png", False, "corrupt_file"),
    ]
    cut = result.rows[-1]
    assert (cut["outcome"], cut["format"], cut["content_type"]) == ("corrupt", "png", "image/png")
    assert cut["detail"]
    assert cut["ms"] > 0
    assert (result.err, check.data_dir.exists()) == ("", False)


def test_check_skips_rules_disabled_by_options_and_the_scan(check: Sluice, folder: Path, tmp_path: Path) -> None:
    rows = check("check", "--json", "--no-blank", "--no-integrity", folder).rows
    assert {row["accepted"] for row in rows} == {True}
    (blank,) = check("check", "--json", "--no-blank", folder / "white.png").rows
    assert (blank["accepted"], blank["outcome"]) == (True, "blank")
    (tmp_path / "eicar.txt").write_bytes(eicar())
    assert check("check", "--json", tmp_path / "eicar.txt").code == 0


def test_check_rejects_files_and_archives_with_files_on_a_hash_list(check: Sluice, tmp_path: Path) -> None:
    (tmp_path / "denied.txt").write_bytes(TEXT)
    (tmp_path / "packed.zip").write_bytes(zip_of(("inner.zip", zip_of(("a.txt", TEXT)))))
    (tmp_path / "sound.txt").write_bytes(TEXT * 2)
    (tmp_path / "hashes.csv").write_text(f"digest,list,reason\n{hashlib.md5(TEXT).hexdigest()},deny,INC-42\n")
    result = check("check", "--json", "--hashes", tmp_path / "hashes.csv", *sorted(tmp_path.glob("*.[tz]*")))
    assert [row["reason"] for row in result.rows] == ["denied_file", "denied_file", None]
    assert "the file a.txt in it is on the deny list" in result.rows[1]["detail"]
    (tmp_path / "hashes.csv").write_text("readme.txt\n")
    broken = check("check", "--hashes", tmp_path / "hashes.csv", tmp_path / "sound.txt")
    assert (broken.code, "line 1: expected a SHA-256, SHA-1 or MD5" in broken.err) == (2, True)


def test_check_applies_yara_rules_to_files_and_to_what_is_packed_in_them(check: Sluice, tmp_path: Path) -> None:
    (tmp_path / "noted.txt").write_bytes(TEXT * 2)
    (tmp_path / "packed.zip").write_bytes(zip_of(("inner.zip", zip_of(("a.txt", b"urgent invoice, please pay")))))
    (tmp_path / "virus.txt").write_bytes(eicar())
    folder = tmp_path / "rules"
    folder.mkdir()
    noted = f'rule Noted {{ meta: severity = "report" strings: $a = "{TEXT[:20].decode()}" condition: $a }}'
    lure = 'rule Lure { strings: $a = "urgent invoice" condition: $a }'
    (folder / "a.yar").write_text(f"{noted}\n{lure}\n")
    files = sorted(tmp_path.glob("*.[tz]*"))
    result = check("check", "--json", "--yara", folder, *files)
    assert [(row["reason"], row["detail"]) for row in result.rows] == [
        (None, ""),
        ("virus_detected", "found yara:Lure"),
        ("virus_detected", "found Eicar-Test-File"),
    ]
    (tmp_path / "claims.yaml").write_text("allowed_extensions: [txt, zip]\n")
    result = check("check", "--json", "--yara", folder, "--rules", tmp_path / "claims.yaml", *files)
    reports = [row["report"] for row in result.rows]
    assert [report["outcome"] for report in reports] == ["accepted", "rejected", "rejected"]
    assert [match["rule"] for match in reports[0]["yara_rules"]] == ["Noted"]
    (folder / "b.yar").write_text("rule Broken {")
    broken = check("check", "--yara", folder, *files)
    assert (broken.code, "b.yar:1: " in broken.error_line) == (2, True)


def test_check_accepts_valid_files_of_every_format(check: Sluice, tmp_path: Path) -> None:
    for extension, make in SOUND_FILES.items():
        (tmp_path / f"sample.{extension}").write_bytes(make())
    result = check("check", "--json", *sorted(tmp_path.glob("sample.*")))
    assert [row for row in result.rows if not row["accepted"]] == []
    assert len(result.rows) == len(SOUND_FILES)
    assert result.code == 0


def test_check_prints_a_table_and_a_summary(check: Sluice, folder: Path) -> None:
    result = check("check", folder)
    assert result.code == 3
    lines = result.out.splitlines()
    assert lines[0].split() == ["verdict", "reason", "kind", "file", "detail"]
    assert f"{folder}/below/cut.png" in result.out
    assert lines[-1].startswith("5 files in ")
    assert lines[-1].endswith(" s: 1 accepted, 4 rejected")


def test_check_skips_what_is_no_file_and_escapes_names(check: Sluice, tmp_path: Path) -> None:
    result = check("check", tmp_path)
    assert (result.code, result.out.split(" in ")[0]) == (0, "0 files")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling.txt").symlink_to("/nowhere/at/all")
    (tmp_path / "cycle").symlink_to(tmp_path)
    (tmp_path / "red\x1b[31m.txt").write_bytes(TEXT)
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/raw\xff.txt")).write_bytes(TEXT)
    result = check("check", tmp_path)
    assert "\x1b" not in result.out
    assert "red\\x1b[31m.txt" in result.out
    assert "raw\\udcff.txt" in result.out
    assert len(check("check", "--json", tmp_path).rows) == 2


def test_check_reports_an_unreadable_file_with_exit_code_1(check: Sluice, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "good.txt").write_bytes(TEXT)
    result = check("check", "--json", tmp_path / "pipe", tmp_path / "good.txt")
    assert result.code == 1
    pipe, good = result.rows
    assert (pipe["accepted"], pipe["reason"], pipe["outcome"]) == (False, None, None)
    assert pipe["detail"] == "cannot be read: it is no file"
    assert good["accepted"] is True


def test_check_preserves_file_order_with_more_files_than_workers(check: Sluice, tmp_path: Path) -> None:
    for number in range(60):
        content = docx_file(str(number)) if number % 7 == 0 else zip_of((f"{number}.txt", TEXT))
        (tmp_path / f"{number:02}.{'docx' if number % 7 == 0 else 'zip'}").write_bytes(content)
    result = check.with_settings(SANDBOX_WORKERS="3")("check", "--json", tmp_path)
    assert [Path(row["path"]).stem for row in result.rows] == [f"{number:02}" for number in range(60)]
    assert result.code == 0


def test_check_prints_no_error_when_the_reader_closes_the_pipe(check: Sluice, folder: Path) -> None:
    command = f"{' '.join(cli_command('check', '--json'))} {folder} | head -n 1"
    shell = ["/bin/sh", "-c", command]
    done = subprocess.run(shell, env=check.environment, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


def test_check_prints_no_verdict_when_the_sandbox_cannot_be_trusted(check: Sluice, folder: Path) -> None:
    impatient = check.with_settings(SANDBOX="strict", SANDBOX_WALL_SECONDS="0.000001")
    # On a busy machine all samples may be judged before the clock is read.
    results = (impatient("check", folder) for _ in range(5))
    result = next(each for each in results if each.code == 1)
    assert result.out == ""
    assert result.error_line.startswith("The sandbox cannot be trusted on this machine: ")


LOADED_BY_CHECK = """
import sys
from sluice_client.cli import main
sys.argv = ["sluice", "check", *sys.argv[1:]]
try:
    main()
finally:
    print(*{name.partition(".")[0] for name in sys.modules}, *(n for n in sys.modules if n.startswith("sluice.")))
"""


def test_check_loads_nothing_that_only_the_service_needs(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture())
    command = [sys.executable, "-c", LOADED_BY_CHECK, str(tmp_path / "a.png")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "1 accepted" in run.stdout, run.stderr
    service = {
        "fastapi",
        "pydantic",
        "sqlalchemy",
        "structlog",
        "pydantic_settings",
        "prometheus_client",
        "obstore",
        "sluice.settings",
    }
    parsers = {"PIL", "lxml", "numpy", "pikepdf"}
    assert (service | parsers) & set(run.stdout.split()) == set()


def test_sandbox_without_settings_is_that_of_the_default_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    with_settings, without = vars(make_sandbox(Settings())), vars(make_sandbox(None))
    for name in ("_slots", "_candidates", "_limits", "_wait_seconds", "_idle_seconds", "_jobs"):
        assert with_settings[name] == without[name], name
