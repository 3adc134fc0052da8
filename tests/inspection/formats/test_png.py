"""PNG: integrity, limits and blankness."""

import struct
import zlib
from functools import partial

from sluice_inspect.formats.png import FORMAT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
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

examine = partial(examine_bytes, FORMAT)
GOOD = encoded(chess_board(), "PNG")
IEND = b"\0\0\0\0IEND\xaeB`\x82"
ANIMATION = animated([chess_board(32, 2 + n) for n in range(5)], "PNG")
PIXEL = GOOD.index(b"IDAT") + 9


def with_wrong_sequence_number() -> bytes:
    frames = bytearray(animated([chess_board(32, 2 + n) for n in range(3)], "PNG"))
    place = frames.rindex(b"fcTL")
    frames[place - 4 : place + 34] = png_chunk(b"fcTL", struct.pack(">L", 9) + frames[place + 8 : place + 30])
    return bytes(frames)


@each_row(
    ("case", "data"),
    [
        ("good", GOOD),
        *((mode, encoded(chess_board().convert(mode), "PNG")) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")),
        ("damaged text chunk", with_chunk(GOOD, png_chunk(b"tEXt", b"Comment\0x", good=False))),
        ("text chunk that unpacks to 80 MB",
         with_chunk(GOOD, png_chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(80_000_000), 9)))),
        ("bytes after the end", GOOD + bytes(1000)),
        ("animation", ANIMATION),
        ("animation with a wrong sequence number", with_wrong_sequence_number()),
    ],
)  # fmt: skip
def test_picture_passes_and_is_not_blank(case: str, data: bytes) -> None:
    assert examine(data) == Examined(recognised=True, outcome=Outcome.OK)


def test_empty_picture_is_blank() -> None:
    assert examine(encoded(plain_picture(), "PNG")).blank


@each_row(
    ("case", "data", "detail"),
    [
        *((f"cut at {kept}", GOOD[: int(len(GOOD) * kept)], "") for kept in (0.2, 0.5, 0.95)),
        ("no end chunk", GOOD.removesuffix(IEND), "before its end chunk"),
        ("changed pixel", GOOD[:PIXEL] + bytes([GOOD[PIXEL] ^ 1]) + GOOD[PIXEL + 1 :], "checksum is wrong"),
        ("missing pixels, correct checksums", png_header(64, 64), ""),
        ("no width", png_header(0, 10), ""),
    ],
)
def test_truncated_or_damaged_picture_is_corrupt(case: str, data: bytes, detail: str) -> None:
    result = examine(data)
    assert result.outcome is Outcome.CORRUPT
    assert detail in result.detail


def test_too_many_pixels_or_frames_are_refused_before_decoding() -> None:
    assert examine(png_header(30_000, 30_000)).finding is Finding.IMAGE_TOO_LARGE
    assert examine(ANIMATION, Limits(max_frames=4)).finding is Finding.IMAGE_TOO_LARGE


def test_animation_of_empty_frames_in_different_colours_is_not_blank() -> None:
    assert examine(animated([plain_picture(level=level) for level in (0, 255)], "PNG")).blank is None
    assert examine(animated([plain_picture(level=level) for level in (250, 255)], "PNG")).blank
