"""The script `verdicts`, which scores a labelled corpus."""

import json
import subprocess
from pathlib import Path

from tests.inspection.formats.image_samples import chess_board, encoded, plain_picture
from tests.scripts import run_in_process, run_in_subprocess


def labelled(folder: Path, *rows: tuple[str, str, bytes]) -> None:
    """Write files and their manifest into a folder; a row is a file name, its label and its bytes."""
    lines = []
    for name, label, data in rows:
        (folder / name).write_bytes(data)
        lines.append(json.dumps({"file": name, "format": name.rpartition(".")[2], "label": label, "tier": "clean"}))
    (folder / "manifest.jsonl").write_text("\n".join(lines))


def scores(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run_in_process("verdicts", str(folder), *options)


def columns(printed: str, name: str) -> dict[str, str]:
    heading, *lines = printed.splitlines()[1:]
    line = next(line for line in lines if line.split()[0] == name)
    return dict(zip(heading.split(), line.split()[1:], strict=False))


def test_hits_and_attempts_are_counted_per_column(tmp_path: Path) -> None:
    good = encoded(chess_board(), "PNG")
    labelled(
        tmp_path,
        ("good.png", "valid", good),
        ("cut.png", "corrupt", good[:-30]),
        ("wrongly.png", "corrupt", good),
        ("empty.png", "blank", encoded(plain_picture(), "PNG")),
        ("shown.png", "not_blank", good),
    )
    scored = columns(scores(tmp_path).stdout, "png")
    assert (scored["clean"], scored["corrupt"], scored["blank"], scored["twin"]) == ("0/1", "1/2", "1/1", "0/1")
    assert (scored["trunc50"], scored["zero4k"], scored["wrongtyp"]) == ("1/1", "1/1", "1/1")


def test_misjudged_files_are_listed_with_the_list_option(tmp_path: Path) -> None:
    labelled(tmp_path, ("broken.png", "valid", b"not a picture"))
    assert "broken.png" in run_in_subprocess("verdicts", str(tmp_path), "--list").stdout
    assert "broken.png" not in scores(tmp_path).stdout


def test_overwritten_ends_are_counted_with_the_tails_option(tmp_path: Path) -> None:
    labelled(tmp_path, ("good.png", "valid", encoded(chess_board(), "PNG")), ("cut.png", "corrupt", b"no picture"))
    line = next(line for line in scores(tmp_path, "--tails").stdout.splitlines() if line.startswith("png"))
    assert line.split() == ["png", "tail", "00:", "3/3", "tail", "FF:", "3/3", "tail", "noise:", "3/3"]


def test_uncovered_formats_are_listed(tmp_path: Path) -> None:
    labelled(tmp_path, ("odd.zzz", "valid", b"odd"), ("good.png", "valid", encoded(chess_board(), "PNG")))
    assert "not covered: zzz" in scores(tmp_path).stdout


def test_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    refused = scores(tmp_path)
    assert refused.returncode == 2
    assert "manifest.jsonl" in refused.stderr


def test_corrupt_file_that_viewers_open_counts_as_quirky(tmp_path: Path) -> None:
    good = encoded(chess_board(), "PNG")
    labelled(tmp_path, ("shown.png", "corrupt", good), ("dead.png", "corrupt", good[:-30]))
    rows = [json.loads(line) for line in (tmp_path / "manifest.jsonl").read_text().splitlines()]
    (tmp_path / "manifest.jsonl").write_text("\n".join(json.dumps(row | {"viewers": "opens"}) for row in rows))
    scored = columns(scores(tmp_path).stdout, "png")
    assert (scored["quirky"], scored["corrupt"]) == ("1/2", "-")


def test_manifest_row_needs_only_file_and_label(tmp_path: Path) -> None:
    (tmp_path / "good.jpeg").write_bytes(encoded(chess_board(), "JPEG"))
    lines = [{"file": "good.jpeg", "label": "valid"}, {"file": "missing.png", "label": "valid"}]
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, lines)))
    printed = scores(tmp_path, "--list").stdout
    assert columns(printed, "jpg")["clean"] == "0/1"
    assert "missing: missing.png" in printed


def test_figures_sum_up_all_formats(tmp_path: Path) -> None:
    labelled(
        tmp_path,
        ("good.png", "valid", encoded(chess_board(), "PNG")),
        ("good.txt", "valid", b"words that stand in a line\n" * 9),
    )
    figures = [line.split() for line in scores(tmp_path).stdout.splitlines()]
    assert ["intact,", "clean:", "wrongly", "refused", "0/2", "0.00", "%"] in figures
    assert ["cut,", "binary", "formats:", "found", "2/2", "100.00", "%"] in figures


def test_zeroing_is_also_scored_without_files_of_uncompressed_samples(tmp_path: Path) -> None:
    packed = encoded(chess_board(), "TIFF", compression="tiff_adobe_deflate")
    labelled(tmp_path, ("plain.tiff", "valid", encoded(chess_board(), "TIFF")), ("packed.tiff", "valid", packed))
    printed = " ".join(scores(tmp_path).stdout.split())
    assert "4 KiB zeroed, binary formats: found 1/2" in printed
    assert "4 KiB zeroed, without files of unpacked samples: found 1/1" in printed


def test_invalid_manifest_line_is_refused_with_its_number(tmp_path: Path) -> None:
    (tmp_path / "manifest.jsonl").write_text('{"file": "a.png"}')
    refused = scores(tmp_path)
    assert refused.returncode == 2
    assert "line 1" in refused.stderr
