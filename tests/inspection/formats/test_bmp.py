"""BMP: integrity, limits and blankness."""

import io
import struct
from functools import partial

import numpy as np
from PIL import Image

from sluice_inspect.formats.bmp import FORMAT
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.image_samples import chess_board, encoded, plain_picture
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
GOOD = encoded(chess_board(), "BMP")
OFFSET = 54 + 1024


def bmp(pixels: bytes, *, size: tuple[int, int] = (16, 4), bits: int = 8, method: int = 0) -> bytes:
    """Return a BMP with a palette of greys and any pixels."""
    palette = b"".join(bytes([level, level, level, 0]) for level in range(256)) if bits <= 8 else b""
    offset = 54 + len(palette)
    fields = (40, *size, 1, bits, method, len(pixels), 0, 0, len(palette) // 4, 0)
    header = struct.pack("<2sLLL", b"BM", offset + len(pixels), 0, offset) + struct.pack("<LllHHLLllLL", *fields)
    return header + palette + pixels


def with_field(place: int, form: str, value: int) -> bytes:
    changed = bytearray(GOOD)
    struct.pack_into(form, changed, place, value)
    return bytes(changed)


ROWS = b"\x08\x00\x08\xff\x00\x00" * 3 + b"\x00\x04\x01\x02\x03\x04\x0c\xff\x00\x01"
"""Run-length data of 16 x 4 pixels; the last row has four literal pixels."""


@each_row("mode", ["1", "L", "P", "RGB", "RGBA"])
def test_every_mode_passes(mode: str) -> None:
    assert examine(encoded(chess_board().convert(mode), "BMP")) == Examined(recognised=True, outcome=Outcome.OK)


def test_empty_picture_is_blank_and_an_alpha_channel_of_zeros_ignored() -> None:
    assert examine(encoded(plain_picture(), "BMP")).blank
    colours = np.dstack([np.asarray(chess_board())] * 3 + [np.zeros((64, 64), dtype=np.uint8)])
    assert examine(encoded(Image.fromarray(colours), "BMP")).blank is None


@each_row(("place", "form", "value"), [(14, "<L", 66), (26, "<H", 7), (28, "<H", 13), (30, "<L", 77), (10, "<L", 20)])
def test_impossible_header_is_unrecognised_or_corrupt(place: int, form: str, value: int) -> None:
    result = examine(with_field(place, form, value))
    assert not result.recognised or result.outcome is Outcome.CORRUPT


PADDED = bmp(bytes(range(4 * 16)), size=(13, 4))


@each_row(
    ("case", "data", "outcome"),
    [
        *((f"cut at {kept}", GOOD[: int(len(GOOD) * kept)], Outcome.CORRUPT) for kept in (0.01, 0.2, 0.5, 0.95)),
        ("no padding of the last row", PADDED[:-3], Outcome.OK),
        ("a byte of the last row is missing", PADDED[:-4], Outcome.CORRUPT),
        ("size of the file 0", with_field(2, "<L", 0), Outcome.OK),
        ("size of the file", with_field(2, "<L", 2**31), Outcome.OK),
        ("size of the pixels", with_field(34, "<L", 2**31), Outcome.OK),
        ("negative resolution", with_field(38, "<l", -5), Outcome.OK),
        ("negative width", with_field(18, "<l", -64), Outcome.CORRUPT),
        ("rows from the top", with_field(22, "<l", -64), Outcome.OK),
        ("run-length data", bmp(ROWS, method=1), Outcome.OK),
        ("complete run-length data without an end mark", bmp(ROWS[:-2], method=1), Outcome.OK),
        ("run-length data with an early end mark", bmp(b"\x08\xff\x00\x00\x00\x01", method=1), Outcome.UNSUPPORTED),
        ("array of bitmaps", b"BA" + bytes(12) + with_field(10, "<L", OFFSET + 14), Outcome.UNSUPPORTED),
    ],
)
def test_wrong_fields_pass_where_readers_ignore_them(case: str, data: bytes, outcome: Outcome) -> None:
    assert examine(data).outcome is outcome


def test_too_many_pixels_are_refused_before_decoding() -> None:
    assert examine(bmp(b"\0\1", size=(30_000, 30_000), method=1)).finding is Finding.IMAGE_TOO_LARGE
    assert examine(GOOD, Limits(max_pixels=100)).finding is Finding.IMAGE_TOO_LARGE


@each_row(
    ("pixels", "detail"),
    [
        (ROWS[:14], "in row 3 of 4"),
        (b"\xff\x00\x00\x00" * 4 + b"\0\1", "behind the edge"),
        (ROWS[:6] + bytes(40) + ROWS, "behind the last row"),
    ],
)
def test_run_length_data_that_does_not_fit_the_picture_is_corrupt(pixels: bytes, detail: str) -> None:
    assert detail in examine(bmp(pixels, method=1)).detail


def test_run_length_check_past_the_time_limit_is_not_corrupt() -> None:
    assert examine(bmp(ROWS[:14], method=1), Limits(soft_seconds=0)).outcome is not Outcome.CORRUPT


@each_row(("plugin", "method"), [("JPEG", 4), ("PNG", 5)])
def test_embedded_jpeg_or_png_is_decoded(plugin: str, method: int) -> None:
    data = bmp(encoded(chess_board().convert("RGB"), plugin), size=(64, 64), bits=0, method=method)
    assert examine(data).outcome is Outcome.OK
    assert examine(data[:-40]).outcome is Outcome.CORRUPT


@each_row(("bits", "method"), [(2, 0), (64, 0), (32, 11)])
def test_rare_variant_is_unsupported_when_complete_and_corrupt_when_truncated(bits: int, method: int) -> None:
    complete = bmp(bytes(16 * 4 * bits // 8), bits=bits, method=method)
    assert examine(complete).outcome is Outcome.UNSUPPORTED
    assert examine(complete[:-4]).outcome is Outcome.CORRUPT


def test_text_that_begins_with_bm_is_not_recognised() -> None:
    assert not examine(b"BMP files begin with the letters BM and a size").recognised


def test_headerless_bitmap_passes_only_as_dib() -> None:
    picture = encoded(chess_board(32), "BMP")
    for data in (picture, picture[14:]):
        report = inspect_file(io.BytesIO(data), filename="a.dib")
        assert (report.integrity, report.finding) == (Outcome.OK, None)
    assert inspect_file(io.BytesIO(picture[14:]), filename="a.bmp").finding is Finding.TYPE_MISMATCH
