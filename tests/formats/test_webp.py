import pytest

from sluice.formats.kinds.webp import KIND
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.images import animated, board, encoded, plain
from tests.formats.judging import corpus, judge, needs_corpus

LOSSY = encoded(board().convert("RGB"), "WEBP")
LOSSLESS = encoded(board().convert("RGB"), "WEBP", lossless=True)
CLEAR = encoded(board().convert("RGBA"), "WEBP", lossless=True, exif=b"Exif\0\0")
MOVING = animated([board(48, 3 + n).convert("RGB") for n in range(4)], "WEBP")
ALL = [LOSSY, LOSSLESS, CLEAR, MOVING]


@pytest.mark.parametrize("whole", ALL)
def test_every_variant_passes(whole: bytes) -> None:
    judged = judge(KIND, whole)
    assert judged.passes
    assert judged.blank is None


@pytest.mark.parametrize("whole", ALL)
@pytest.mark.parametrize("kept", [0.5, 0.95])
def test_a_truncated_picture_is_corrupt(whole: bytes, kept: float) -> None:
    assert judge(KIND, whole[: int(len(whole) * kept)]).outcome is Outcome.CORRUPT


def test_an_empty_picture_is_blank() -> None:
    assert judge(KIND, encoded(plain().convert("RGB"), "WEBP")).blank


def test_bytes_behind_the_container_are_forgiven() -> None:
    assert judge(KIND, LOSSLESS + b"behind").passes


def test_a_chunk_that_passes_the_end_is_corrupt() -> None:
    longer = LOSSLESS[:16] + (len(LOSSLESS)).to_bytes(4, "little") + LOSSLESS[20:]
    assert "passes the end" in judge(KIND, longer).detail


def test_a_container_without_a_picture_is_corrupt() -> None:
    assert judge(KIND, b"RIFF\x0c\0\0\0WEBPEXIF\0\0\0\0").outcome is Outcome.CORRUPT


def test_damaged_pixels_are_corrupt() -> None:
    middle = len(LOSSLESS) // 2
    assert judge(KIND, LOSSLESS[:middle] + bytes(len(LOSSLESS) - middle)).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("whole", ALL)
def test_the_pixel_limit_holds_for_every_variant(whole: bytes) -> None:
    assert judge(KIND, whole, Limits(max_pixels=48 * 48 - 1)).finding is Finding.IMAGE_TOO_LARGE


def test_too_many_frames_are_refused() -> None:
    assert judge(KIND, MOVING, Limits(max_frames=3)).finding is Finding.IMAGE_TOO_LARGE


def test_a_file_of_nothing_but_chunks_is_too_complex() -> None:
    chunks = b"XXXX\0\0\0\0" * 500_001
    assert judge(KIND, b"RIFF" + (4 + len(chunks)).to_bytes(4, "little") + b"WEBP" + chunks).outcome is Outcome.TOO_COMPLEX


@needs_corpus
def test_the_intact_files_of_the_corpus_pass() -> None:
    assert [path.name for path in corpus("webp", "valid", "not_blank") if not judge(KIND, path.read_bytes()).passes] == []
