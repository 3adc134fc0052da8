"""JPEG: integrity, limits and blankness."""

from sluice_inspect.formats.jpeg import FORMAT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.image_samples import chess_board, encoded, grey_picture, noise_field, plain_picture
from tests.rows import each_row

GOOD = encoded(grey_picture(noise_field(200, 150, 128, 40)), "JPEG", quality=80)
PROGRESSIVE = encoded(grey_picture(noise_field(200, 150, 128, 40)), "JPEG", quality=80, progressive=True)
APP5_MARKER = b"\xff\xe5"


def after_start_marker(jpeg: bytes, inserted: bytes) -> bytes:
    return jpeg[:2] + inserted + jpeg[2:]


@each_row("mode", ["L", "RGB", "CMYK"])
@each_row("progressive", [False, True])
def test_every_common_variant_passes(mode: str, *, progressive: bool) -> None:
    result = examine_bytes(FORMAT, encoded(chess_board().convert(mode), "JPEG", progressive=progressive))
    assert result.passes
    assert result.blank is None


def test_empty_picture_is_blank() -> None:
    assert examine_bytes(FORMAT, encoded(plain_picture(), "JPEG")).blank


@each_row("picture", [GOOD, PROGRESSIVE])
@each_row("kept", [0.2, 0.5, 0.95, 0.99])
def test_truncated_picture_is_corrupt(picture: bytes, kept: float) -> None:
    assert examine_bytes(FORMAT, picture[: int(len(picture) * kept)]).outcome is Outcome.CORRUPT


def test_zeros_inside_the_scan_are_corrupt() -> None:
    place = len(GOOD) // 2
    assert examine_bytes(FORMAT, GOOD[:place] + bytes(1000) + GOOD[place + 1000 :]).outcome is Outcome.CORRUPT


def test_missing_end_marker_after_a_complete_scan_passes() -> None:
    assert examine_bytes(FORMAT, GOOD.removesuffix(b"\xff\xd9")).passes


def test_zeros_between_the_scan_and_the_end_marker_pass() -> None:
    assert examine_bytes(FORMAT, GOOD.removesuffix(b"\xff\xd9") + bytes(64) + b"\xff\xd9").passes


@each_row(
    "odd",
    [
        APP5_MARKER + b"\x00\x02",
        b"\xff\xe0\x00\x02",
        b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x02",
        b"\xff\xff\xff" + APP5_MARKER + b"\x00\x04ab",
        b"\xff\xe1\x00\x10Exif\x00\x00II*\x00\xff\xff\xff\xff",
    ],
)
def test_unusual_metadata_passes(odd: bytes) -> None:
    assert examine_bytes(FORMAT, after_start_marker(GOOD, odd)).passes


def test_bytes_after_the_end_pass() -> None:
    assert examine_bytes(FORMAT, GOOD + b"a preview of the maker").passes


def test_segment_past_the_end_of_the_file_is_corrupt() -> None:
    assert examine_bytes(FORMAT, GOOD[:2] + APP5_MARKER + b"\xff\xff" + GOOD[2:]).outcome is Outcome.CORRUPT


def test_markers_without_a_picture_are_corrupt() -> None:
    assert "no frame header" in examine_bytes(FORMAT, b"\xff\xd8\xff\xe0\x00\x04ab\xff\xd9").detail


def test_lossless_picture_is_unsupported() -> None:
    place = GOOD.index(b"\xff\xc0")
    assert examine_bytes(FORMAT, GOOD[:place] + b"\xff\xc3" + GOOD[place + 2 :]).outcome is Outcome.UNSUPPORTED


def test_too_many_pixels_are_refused_before_decoding() -> None:
    place = GOOD.index(b"\xff\xc0") + 5
    huge = GOOD[:place] + b"\xfa\xfa\xfa\xfa" + GOOD[place + 4 :]
    assert examine_bytes(FORMAT, huge).finding is Finding.IMAGE_TOO_LARGE
    assert examine_bytes(FORMAT, GOOD, Limits(max_pixels=29_999)).finding is Finding.IMAGE_TOO_LARGE


def test_picture_with_many_scans_is_too_complex() -> None:
    place = GOOD.index(b"\xff\xc0") + 5
    wide = GOOD[:place] + b"\x36\xb0\x36\xb0" + GOOD[place + 4 :]
    scan = wide[wide.index(b"\xff\xda") : wide.index(b"\xff\xda") + 40]
    assert examine_bytes(FORMAT, wide[:-2] + scan * 30 + b"\xff\xd9").outcome is Outcome.TOO_COMPLEX


def test_file_of_only_segments_is_too_complex() -> None:
    assert examine_bytes(FORMAT, b"\xff\xd8" + b"\xff\xe5\x00\x02" * 500_001).outcome is Outcome.TOO_COMPLEX
