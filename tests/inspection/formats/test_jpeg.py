"""JPEG: integrity, limits and blankness."""

from functools import partial

import pytest

from sluice_inspect.formats import jpeg
from sluice_inspect.formats.jpeg import FORMAT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.image_samples import chess_board, encoded, noise_picture, plain_picture
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
GOOD = encoded(noise_picture(200, 150, 128, 40), "JPEG", quality=80)
PROGRESSIVE = encoded(noise_picture(200, 150, 128, 40), "JPEG", quality=80, progressive=True)
APP5_MARKER = b"\xff\xe5"
END_MARKER = b"\xff\xd9"
FRAME = GOOD.index(b"\xff\xc0")
MIDDLE = len(GOOD) // 2


def with_size(size: bytes) -> bytes:
    return GOOD[: FRAME + 5] + size + GOOD[FRAME + 9 :]


@each_row("mode", ["L", "RGB", "CMYK"])
@each_row("progressive", [False, True])
def test_every_common_variant_passes(mode: str, *, progressive: bool) -> None:
    result = examine(encoded(chess_board().convert(mode), "JPEG", progressive=progressive))
    assert (result.passes, result.blank) == (True, None)


def test_empty_picture_is_blank() -> None:
    assert examine(encoded(plain_picture(), "JPEG")).blank


@each_row(
    ("case", "data"),
    [
        ("no end marker", GOOD.removesuffix(END_MARKER)),
        ("zeros before the end marker", GOOD.removesuffix(END_MARKER) + bytes(64) + END_MARKER),
        ("bytes after the end", GOOD + b"a preview of the maker"),
        ("APP5", GOOD[:2] + APP5_MARKER + b"\x00\x02" + GOOD[2:]),
        ("short APP0", GOOD[:2] + b"\xff\xe0\x00\x02" + GOOD[2:]),
        ("Adobe", GOOD[:2] + b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x02" + GOOD[2:]),
        ("fill bytes", GOOD[:2] + b"\xff\xff\xff" + APP5_MARKER + b"\x00\x04ab" + GOOD[2:]),
        ("Exif", GOOD[:2] + b"\xff\xe1\x00\x10Exif\x00\x00II*\x00\xff\xff\xff\xff" + GOOD[2:]),
    ],
)
def test_unusual_metadata_or_end_passes(case: str, data: bytes) -> None:
    assert examine(data).passes


@each_row("picture", [GOOD, PROGRESSIVE])
@each_row("kept", [0.2, 0.5, 0.95, 0.99])
def test_truncated_picture_is_corrupt(picture: bytes, kept: float) -> None:
    assert examine(picture[: int(len(picture) * kept)]).outcome is Outcome.CORRUPT


def many_scans() -> bytes:
    wide = with_size(b"\x36\xb0\x36\xb0")
    scan = wide[wide.index(b"\xff\xda") : wide.index(b"\xff\xda") + 40]
    return wide[:-2] + scan * 30 + END_MARKER


@each_row(
    ("case", "data", "verdict"),
    [
        ("zeros in the scan", GOOD[:MIDDLE] + bytes(1000) + GOOD[MIDDLE + 1000 :], Outcome.CORRUPT),
        ("segment past the end", GOOD[:2] + APP5_MARKER + b"\xff\xff" + GOOD[2:], Outcome.CORRUPT),
        ("lossless", GOOD[:FRAME] + b"\xff\xc3" + GOOD[FRAME + 2 :], Outcome.UNSUPPORTED),
        ("too many pixels", with_size(b"\xfa\xfa\xfa\xfa"), Finding.IMAGE_TOO_LARGE),
        ("many scans", many_scans(), Outcome.TOO_COMPLEX),
    ],
)
def test_damaged_or_costly_picture_does_not_pass(case: str, data: bytes, verdict: Outcome | Finding) -> None:
    assert examine(data).verdict is verdict


def test_markers_without_a_picture_are_corrupt() -> None:
    assert "no frame header" in examine(b"\xff\xd8\xff\xe0\x00\x04ab\xff\xd9").detail


def test_too_many_pixels_or_segments_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examine(GOOD, Limits(max_pixels=29_999)).finding is Finding.IMAGE_TOO_LARGE
    monkeypatch.setattr(jpeg, "_SEGMENTS_MAX", 1000)
    assert examine(GOOD[:2] + (APP5_MARKER + b"\0\2") * 1001 + GOOD[2:]).outcome is Outcome.TOO_COMPLEX
