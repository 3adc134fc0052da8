"""PNG: integrity, limits and blankness."""

import struct
import zlib

from sluice_inspect.formats.png import FORMAT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.image_samples import (
    animated,
    chess_board,
    encoded,
    plain_picture,
    png_chunk,
    png_header,
    with_chunk,
)
from tests.rows import each_row

GOOD = encoded(chess_board(), "PNG")
IEND = b"\0\0\0\0IEND\xaeB`\x82"


def test_good_picture_passes() -> None:
    result = examine_bytes(FORMAT, GOOD)
    assert result.passes
    assert result.blank is None


@each_row("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_mode_passes(mode: str) -> None:
    assert examine_bytes(FORMAT, encoded(chess_board().convert(mode), "PNG")).passes


def test_empty_picture_is_blank() -> None:
    assert examine_bytes(FORMAT, encoded(plain_picture(), "PNG")).blank


@each_row("kept", [0.2, 0.5, 0.95])
def test_truncated_picture_is_corrupt(kept: float) -> None:
    assert examine_bytes(FORMAT, GOOD[: int(len(GOOD) * kept)]).outcome is Outcome.CORRUPT


def test_missing_end_chunk_is_corrupt() -> None:
    result = examine_bytes(FORMAT, GOOD.removesuffix(IEND))
    assert result.outcome is Outcome.CORRUPT
    assert "before its end chunk" in result.detail


def test_changed_pixel_byte_is_corrupt() -> None:
    place = GOOD.index(b"IDAT") + 9
    damaged = GOOD[:place] + bytes([GOOD[place] ^ 1]) + GOOD[place + 1 :]
    assert "checksum is wrong" in examine_bytes(FORMAT, damaged).detail


def test_missing_pixels_are_corrupt_despite_correct_checksums() -> None:
    assert examine_bytes(FORMAT, png_header(64, 64)).outcome is Outcome.CORRUPT


def test_damaged_text_chunk_passes() -> None:
    assert examine_bytes(FORMAT, with_chunk(GOOD, png_chunk(b"tEXt", b"Comment\0x", good=False))).passes


def test_text_chunk_bomb_is_not_unpacked() -> None:
    bomb = png_chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(80_000_000), 9))
    assert examine_bytes(FORMAT, with_chunk(GOOD, bomb)).passes


def test_bytes_after_the_end_pass() -> None:
    assert examine_bytes(FORMAT, GOOD + bytes(1000)).passes


def test_too_many_pixels_are_refused_before_decoding() -> None:
    assert examine_bytes(FORMAT, png_header(30_000, 30_000)).finding is Finding.IMAGE_TOO_LARGE


def test_picture_without_width_is_corrupt() -> None:
    assert examine_bytes(FORMAT, png_header(0, 10)).outcome is Outcome.CORRUPT


def test_all_frames_of_an_animation_are_counted_against_the_limit() -> None:
    frames = animated([chess_board(32, 2 + n) for n in range(5)], "PNG")
    assert examine_bytes(FORMAT, frames).passes
    assert examine_bytes(FORMAT, frames, Limits(max_frames=4)).finding is Finding.IMAGE_TOO_LARGE


def test_animation_with_wrong_sequence_numbers_passes() -> None:
    frames = bytearray(animated([chess_board(32, 2 + n) for n in range(3)], "PNG"))
    place = frames.rindex(b"fcTL")
    data = struct.pack(">L", 9) + frames[place + 8 : place + 30]
    frames[place - 4 : place + 34] = png_chunk(b"fcTL", data)
    assert examine_bytes(FORMAT, bytes(frames)).passes


def test_animation_of_empty_frames_in_different_colours_is_not_blank() -> None:
    assert examine_bytes(FORMAT, animated([plain_picture(level=level) for level in (0, 255)], "PNG")).blank is None
    assert examine_bytes(FORMAT, animated([plain_picture(level=level) for level in (250, 255)], "PNG")).blank
