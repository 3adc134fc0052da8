import pytest

from sluice.formats.kinds.jpeg import KIND
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.images import board, encoded, grainy, grey, plain
from tests.formats.judging import corpus, judge, needs_corpus

GOOD = encoded(grey(grainy(200, 150, 128, 40)), "JPEG", quality=80)
PROGRESSIVE = encoded(grey(grainy(200, 150, 128, 40)), "JPEG", quality=80, progressive=True)
APPLICATION = b"\xff\xe5"


def behind_start(jpeg: bytes, inserted: bytes) -> bytes:
    return jpeg[:2] + inserted + jpeg[2:]


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize("progressive", [False, True])
def test_every_common_picture_passes(mode: str, *, progressive: bool) -> None:
    judged = judge(KIND, encoded(board().convert(mode), "JPEG", progressive=progressive))
    assert judged.passes
    assert judged.blank is None


def test_an_empty_picture_is_blank() -> None:
    assert judge(KIND, encoded(plain(), "JPEG")).blank


@pytest.mark.parametrize("whole", [GOOD, PROGRESSIVE])
@pytest.mark.parametrize("kept", [0.2, 0.5, 0.95, 0.99])
def test_a_truncated_picture_is_corrupt(whole: bytes, kept: float) -> None:
    assert judge(KIND, whole[: int(len(whole) * kept)]).outcome is Outcome.CORRUPT


def test_zeros_inside_the_picture_are_corrupt() -> None:
    place = len(GOOD) // 2
    assert judge(KIND, GOOD[:place] + bytes(1000) + GOOD[place + 1000 :]).outcome is Outcome.CORRUPT


def test_a_missing_end_marker_behind_a_whole_scan_is_forgiven() -> None:
    assert judge(KIND, GOOD.removesuffix(b"\xff\xd9")).passes


def test_zeros_between_the_scan_and_the_end_marker_are_forgiven() -> None:
    assert judge(KIND, GOOD.removesuffix(b"\xff\xd9") + bytes(64) + b"\xff\xd9").passes


@pytest.mark.parametrize(
    "odd",
    [
        APPLICATION + b"\x00\x02",
        b"\xff\xe0\x00\x02",
        b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x02",
        b"\xff\xff\xff" + APPLICATION + b"\x00\x04ab",
        b"\xff\xe1\x00\x10Exif\x00\x00II*\x00\xff\xff\xff\xff",
    ],
)
def test_odd_metadata_is_forgiven(odd: bytes) -> None:
    assert judge(KIND, behind_start(GOOD, odd)).passes


def test_bytes_behind_the_end_are_forgiven() -> None:
    assert judge(KIND, GOOD + b"a preview of the maker").passes


def test_a_segment_that_passes_the_end_is_corrupt() -> None:
    assert judge(KIND, GOOD[:2] + APPLICATION + b"\xff\xff" + GOOD[2:]).outcome is Outcome.CORRUPT


def test_markers_without_a_picture_are_corrupt() -> None:
    assert "no frame header" in judge(KIND, b"\xff\xd8\xff\xe0\x00\x04ab\xff\xd9").detail


def test_a_lossless_picture_needs_another_decoder() -> None:
    place = GOOD.index(b"\xff\xc0")
    assert judge(KIND, GOOD[:place] + b"\xff\xc3" + GOOD[place + 2 :]).outcome is Outcome.UNSUPPORTED


def test_too_many_pixels_are_refused_before_they_are_decoded() -> None:
    place = GOOD.index(b"\xff\xc0") + 5
    huge = GOOD[:place] + b"\xfa\xfa\xfa\xfa" + GOOD[place + 4 :]
    assert judge(KIND, huge).finding is Finding.IMAGE_TOO_LARGE
    assert judge(KIND, GOOD, Limits(max_pixels=29_999)).finding is Finding.IMAGE_TOO_LARGE


def test_a_picture_drawn_over_and_over_is_too_complex() -> None:
    place = GOOD.index(b"\xff\xc0") + 5
    wide = GOOD[:place] + b"\x36\xb0\x36\xb0" + GOOD[place + 4 :]
    scan = wide[wide.index(b"\xff\xda") : wide.index(b"\xff\xda") + 40]
    assert judge(KIND, wide[:-2] + scan * 30 + b"\xff\xd9").outcome is Outcome.TOO_COMPLEX


def test_a_file_of_nothing_but_segments_is_too_complex() -> None:
    assert judge(KIND, b"\xff\xd8" + b"\xff\xe5\x00\x02" * 500_001).outcome is Outcome.TOO_COMPLEX


@needs_corpus
def test_the_intact_files_of_the_corpus_pass() -> None:
    assert [path.name for path in corpus("jpg", "valid", "not_blank") if not judge(KIND, path.read_bytes()).passes] == []
