"""The script `differential_files`, which compares verdicts with those of other readers."""

import json
from pathlib import Path

from tests.inspection.formats.image_samples import chess_board, encoded
from tests.scripts import run_in_subprocess


def test_verdicts_that_differ_from_the_readers_are_counted_and_listed(tmp_path: Path) -> None:
    good = encoded(chess_board(), "PNG")
    for name, data in {
        "good.png": good,
        "cut.png": good[:60],
        "mail.json": b"\xef\xbb\xbf{}1",
        "note.unknown": b"",
    }.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "odd.png").write_bytes(good[:-12])  # the end chunk is missing, which Pillow does not look for
    lists = (tmp_path / "differences", tmp_path / "readings")
    ran = run_in_subprocess(
        "differential_files", str(tmp_path), "--differences", str(lists[0]), "--readings", str(lists[1])
    )
    assert ran.returncode == 0, ran.stderr
    assert "| png | 3 | 1 | 1 | 0 | corrupt 2 |" in ran.stdout
    (row,) = (json.loads(line) for line in lists[0].read_text().splitlines())
    assert (Path(row["file"]).name, row["reason"], row["readers"]["Pillow"]) == ("odd.png", "corrupt", "")
    assert json.loads(lists[1].read_text())[str(tmp_path / "good.png")]["Pillow"] == ""


def test_folder_without_files_of_known_formats_is_an_error(tmp_path: Path) -> None:
    ran = run_in_subprocess("differential_files", str(tmp_path))
    assert (ran.returncode, "has no file of a format" in ran.stderr) == (2, True)
