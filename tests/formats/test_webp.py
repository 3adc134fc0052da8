import struct

import pytest

from sluice.formats.kinds.webp import KIND
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.images import animated, board, encoded, grainy, grey, plain
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


@pytest.mark.parametrize("coding", [{}, {"lossless": True}])
@pytest.mark.parametrize("place", [0.3, 0.5, 0.7])
def test_zeros_within_coded_data_are_corrupt(coding: dict[str, bool], place: float) -> None:
    photo = bytearray(encoded(grey(grainy(200, 200, 128, 40)).convert("RGB"), "WEBP", **coding))
    at = int(len(photo) * place)
    photo[at : at + 400] = bytes(400)
    assert judge(KIND, bytes(photo)).outcome is Outcome.CORRUPT


def test_a_damaged_frame_of_an_animation_is_corrupt() -> None:
    frames = [grey(grainy(100, 100, 128, 40, seed)).convert("RGB") for seed in range(4)]
    moving = bytearray(animated(frames, "WEBP", lossless=True))
    assert judge(KIND, bytes(moving)).passes
    moving[len(moving) // 2 : len(moving) // 2 + 400] = bytes(400)
    assert judge(KIND, bytes(moving)).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("spare", [1, 12, 400])
def test_zeros_and_a_few_bytes_behind_coded_data_are_forgiven(spare: int) -> None:
    data = LOSSLESS[20:] + b"spare" + bytes(spare) + b"\0" * (len(LOSSLESS) + 5 + spare & 1)
    assert judge(KIND, b"RIFF" + struct.pack("<I4s4sI", 12 + len(data), b"WEBP", b"VP8L", len(data)) + data).passes


@pytest.mark.parametrize("quality", [1, 30, 80, 100])
@pytest.mark.parametrize("method", [0, 4, 6])
@pytest.mark.parametrize("coding", [{}, {"lossless": True}])
def test_pictures_of_all_sorts_need_their_last_bytes(quality: int, method: int, coding: dict[str, bool]) -> None:
    options = {"quality": quality, "method": method, **coding}
    for picture in (plain(1, 1), plain(300, 20), board(33), grey(grainy(90, 70, 128, 40))):
        assert judge(KIND, encoded(picture.convert("RGB"), "WEBP", **options)).passes
        clear = picture.convert("RGB")
        clear.putalpha(picture.rotate(90).resize(picture.size))
        assert judge(KIND, encoded(clear, "WEBP", **options)).passes


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
