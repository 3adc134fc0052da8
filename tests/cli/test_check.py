"""`sluice check`: the checks of an upload on files of this machine, without a server."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.api.samples import TEXT, docx_file, eicar, picture, sound, white_picture, zip_of
from tests.cli.commands import Sluice, sluice_in
from tests.gate import module

FIELDS = ["path", "accepted", "reason", "outcome", "format", "content_type", "detail", "ms"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good and bad files, some in a folder below."""
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
    """The command in a folder of its own: it needs no service to have been set up."""
    return sluice_in(tmp_path / "nowhere")


def test_each_file_has_its_line_of_json_in_order(check: Sluice, folder: Path) -> None:
    ended = check("check", "--json", folder)
    assert ended.code == 1
    assert [list(row) for row in ended.rows] == [FIELDS] * 5
    said = {Path(row["path"]).relative_to(folder).as_posix(): (row["accepted"], row["reason"]) for row in ended.rows}
    assert list(said.items()) == [
        ("empty.pdf", (False, "blank_document")),
        ("note.txt", (True, None)),
        ("picture.jpg", (False, "type_mismatch")),
        ("white.png", (False, "blank_document")),
        ("below/cut.png", (False, "corrupt_file")),
    ]
    assert ended.err == ""
    assert not check.data_dir.exists()


def test_a_line_says_what_was_measured(check: Sluice, folder: Path) -> None:
    (row,) = check("check", "--json", folder / "below" / "cut.png").rows
    assert (row["outcome"], row["format"], row["content_type"]) == ("corrupt", "png", "image/png")
    assert row["detail"]
    assert row["ms"] > 0


def test_sound_files_of_every_format_are_accepted(check: Sluice, tmp_path: Path) -> None:
    for extension, content in sound().items():
        (tmp_path / f"sample.{extension}").write_bytes(content)
    ended = check("check", "--json", *sorted(tmp_path.glob("sample.*")))
    assert [row for row in ended.rows if not row["accepted"]] == []
    assert len(ended.rows) == len(sound())
    assert ended.code == 0


def test_a_rule_can_be_switched_off(check: Sluice, folder: Path) -> None:
    rows = check("check", "--json", "--no-blank", "--no-integrity", folder).rows
    assert {row["accepted"] for row in rows} == {True}
    (white,) = check("check", "--json", "--no-blank", folder / "white.png").rows
    assert (white["accepted"], white["outcome"]) == (True, "blank")


def test_nothing_is_scanned_for_malware(check: Sluice, tmp_path: Path) -> None:
    (tmp_path / "eicar.txt").write_bytes(eicar())
    assert check("check", "--json", tmp_path / "eicar.txt").code == 0


def test_a_person_sees_a_table_and_a_sum(check: Sluice, folder: Path) -> None:
    ended = check("check", folder)
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert lines[0].split() == ["verdict", "reason", "kind", "file", "detail"]
    assert f"{folder}/below/cut.png" in ended.out
    assert lines[-1].startswith("5 files in ")
    assert lines[-1].endswith(" s: 1 accepted, 4 rejected")


def test_a_name_that_would_steer_the_terminal_is_shown_escaped(check: Sluice, tmp_path: Path) -> None:
    (tmp_path / "red\x1b[31m.txt").write_bytes(TEXT)
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/raw\xff.txt")).write_bytes(TEXT)
    ended = check("check", tmp_path)
    assert "\x1b" not in ended.out
    assert "red\\x1b[31m.txt" in ended.out
    assert "raw\\udcff.txt" in ended.out


def test_what_cannot_be_read_is_neither_accepted_nor_rejected(check: Sluice, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "good.txt").write_bytes(TEXT)
    ended = check("check", "--json", tmp_path / "pipe", tmp_path / "good.txt")
    assert ended.code == 3
    pipe, good = ended.rows
    assert (pipe["accepted"], pipe["reason"], pipe["outcome"]) == (False, None, None)
    assert pipe["detail"] == "cannot be read: not a regular file"
    assert good["accepted"] is True


def test_pipes_and_dead_links_in_a_folder_are_passed_over(check: Sluice, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dead.txt").symlink_to("/nowhere/at/all")
    (tmp_path / "round").symlink_to(tmp_path)
    (tmp_path / "note.txt").write_bytes(TEXT)
    assert [Path(row["path"]).name for row in check("check", "--json", tmp_path).rows] == ["note.txt"]


def test_an_empty_folder_is_no_mistake(check: Sluice, tmp_path: Path) -> None:
    ended = check("check", tmp_path)
    assert (ended.code, ended.out.split(" in ")[0]) == (0, "0 files")


def test_more_files_than_are_worked_on_at_once_come_in_their_order(check: Sluice, tmp_path: Path) -> None:
    for number in range(60):
        content = docx_file(str(number)) if number % 7 == 0 else zip_of((f"{number}.txt", TEXT))
        (tmp_path / f"{number:02}.{'docx' if number % 7 == 0 else 'zip'}").write_bytes(content)
    ended = check.with_settings(SANDBOX_WORKERS="3")("check", "--json", tmp_path)
    assert [Path(row["path"]).stem for row in ended.rows] == [f"{number:02}" for number in range(60)]
    assert ended.code == 0


def test_a_reader_that_leaves_early_sees_no_complaint(check: Sluice, folder: Path) -> None:
    command = f"{' '.join(module('check', '--json'))} {folder} | head -n 1"
    done = subprocess.run(["/bin/sh", "-c", command], env=check.environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_a_sandbox_below_what_was_asked_for_judges_nothing(check: Sluice, folder: Path) -> None:
    ended = check.with_settings(SANDBOX="strict", SANDBOX_WALL_SECONDS="0.000001")("check", folder)
    assert ended.code == 3
    assert ended.out == ""
    assert ended.complaint.startswith("The sandbox cannot be trusted on this machine: ")
