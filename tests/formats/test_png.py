import struct
import zlib

import pytest

from sluice.formats.kinds.png import KIND
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.images import animated, board, encoded, plain, png_chunk, png_header, with_chunk
from tests.formats.judging import corpus, judge, needs_corpus

GOOD = encoded(board(), "PNG")
IEND = b"\0\0\0\0IEND\xaeB`\x82"


def test_a_good_picture_passes() -> None:
    judged = judge(KIND, GOOD)
    assert judged.passes
    assert judged.blank is None


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_mode_passes(mode: str) -> None:
    assert judge(KIND, encoded(board().convert(mode), "PNG")).passes


def test_an_empty_picture_is_blank() -> None:
    assert judge(KIND, encoded(plain(), "PNG")).blank


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.95])
def test_a_truncated_picture_is_corrupt(kept: float) -> None:
    assert judge(KIND, GOOD[: int(len(GOOD) * kept)]).outcome is Outcome.CORRUPT


def test_a_missing_end_chunk_is_corrupt() -> None:
    judged = judge(KIND, GOOD.removesuffix(IEND))
    assert judged.outcome is Outcome.CORRUPT
    assert "before its end chunk" in judged.detail


def test_a_changed_byte_of_the_pixels_is_corrupt() -> None:
    place = GOOD.index(b"IDAT") + 9
    damaged = GOOD[:place] + bytes([GOOD[place] ^ 1]) + GOOD[place + 1 :]
    assert "check sum" in judge(KIND, damaged).detail


def test_pixels_that_end_too_early_are_corrupt_though_every_check_sum_is_right() -> None:
    assert judge(KIND, png_header(64, 64)).outcome is Outcome.CORRUPT


def test_a_damaged_text_chunk_is_forgiven() -> None:
    assert judge(KIND, with_chunk(GOOD, png_chunk(b"tEXt", b"Comment\0x", good=False))).passes


def test_a_text_that_unpacks_without_end_is_not_unpacked() -> None:
    bomb = png_chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(80_000_000), 9))
    assert judge(KIND, with_chunk(GOOD, bomb)).passes


def test_bytes_behind_the_end_are_forgiven() -> None:
    assert judge(KIND, GOOD + bytes(1000)).passes


def test_too_many_pixels_are_refused_before_they_are_decoded() -> None:
    assert judge(KIND, png_header(30_000, 30_000)).finding is Finding.IMAGE_TOO_LARGE


def test_a_picture_without_width_is_corrupt() -> None:
    assert judge(KIND, png_header(0, 10)).outcome is Outcome.CORRUPT


def test_all_frames_of_an_animation_are_counted_against_the_limit() -> None:
    frames = animated([board(32, 2 + n) for n in range(5)], "PNG")
    assert judge(KIND, frames).passes
    assert judge(KIND, frames, Limits(max_frames=4)).finding is Finding.IMAGE_TOO_LARGE


def test_an_animation_in_wrong_order_is_shown_still() -> None:
    frames = bytearray(animated([board(32, 2 + n) for n in range(3)], "PNG"))
    place = frames.rindex(b"fcTL")
    data = struct.pack(">L", 9) + frames[place + 8 : place + 30]
    frames[place - 4 : place + 34] = png_chunk(b"fcTL", data)
    assert judge(KIND, bytes(frames)).passes


def test_an_animation_of_empty_frames_in_different_colours_is_not_blank() -> None:
    assert judge(KIND, animated([plain(level=level) for level in (0, 255)], "PNG")).blank is None
    assert judge(KIND, animated([plain(level=level) for level in (250, 255)], "PNG")).blank


@needs_corpus
def test_the_intact_files_of_the_corpus_pass() -> None:
    assert [path.name for path in corpus("png", "valid", "not_blank") if not judge(KIND, path.read_bytes()).passes] == []


@needs_corpus
def test_the_damaged_files_of_the_corpus_do_not_pass() -> None:
    assert [path.name for path in corpus("png", "corrupt", "bomb") if judge(KIND, path.read_bytes()).passes] == []
