"""BMP: integrity, limits and blankness."""

import io
import struct

import numpy as np
from PIL import Image

from sluice_inspect.formats.bmp import FORMAT
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.image_samples import chess_board, encoded, plain_picture
from tests.rows import each_row

GOOD = encoded(chess_board(), "BMP")
OFFSET = 54 + 1024


def bmp(
    pixels: bytes, *, size: tuple[int, int] = (16, 4), bits: int = 8, method: int = 0, stated: int | None = None
) -> bytes:
    """Return a BMP with a palette of greys and any pixels."""
    palette = b"".join(bytes([level, level, level, 0]) for level in range(256)) if bits <= 8 else b""
    offset = 54 + len(palette)
    header = struct.pack(
        "<LllHHLLllLL",
        40,
        *size,
        1,
        bits,
        method,
        len(pixels) if stated is None else stated,
        0,
        0,
        len(palette) // 4,
        0,
    )
    return struct.pack("<2sLLL", b"BM", offset + len(pixels), 0, offset) + header + palette + pixels


def with_field(place: int, form: str, value: int) -> bytes:
    data = bytearray(GOOD)
    struct.pack_into(form, data, place, value)
    return bytes(data)


ROWS = b"\x08\x00\x08\xff\x00\x00" * 3 + b"\x00\x04\x01\x02\x03\x04\x0c\xff\x00\x01"
"""Run-length data of 16 x 4 pixels; the last row has four literal pixels."""


@each_row("mode", ["1", "L", "P", "RGB", "RGBA"])
def test_every_mode_passes(mode: str) -> None:
    result = examine_bytes(FORMAT, encoded(chess_board().convert(mode), "BMP"))
    assert result.outcome is Outcome.OK
    assert result.blank is None


def test_empty_picture_is_blank() -> None:
    assert examine_bytes(FORMAT, encoded(plain_picture(), "BMP")).blank


def test_all_zero_alpha_channel_is_ignored() -> None:
    colours = np.dstack([np.asarray(chess_board())] * 3 + [np.zeros((64, 64), dtype=np.uint8)])
    assert examine_bytes(FORMAT, encoded(Image.fromarray(colours), "BMP")).blank is None


@each_row("kept", [0.01, 0.2, 0.5, 0.95])
def test_truncated_picture_is_corrupt(kept: float) -> None:
    assert examine_bytes(FORMAT, GOOD[: int(len(GOOD) * kept)]).outcome is Outcome.CORRUPT


def test_padding_of_the_last_row_may_be_missing() -> None:
    data = bmp(bytes(range(4 * 16)), size=(13, 4))
    assert examine_bytes(FORMAT, data[:-3]).outcome is Outcome.OK
    assert examine_bytes(FORMAT, data[:-4]).outcome is Outcome.CORRUPT


@each_row(("place", "form", "value"), [(14, "<L", 66), (26, "<H", 7), (28, "<H", 13), (30, "<L", 77), (10, "<L", 20)])
def test_impossible_header_is_unrecognised_or_corrupt(place: int, form: str, value: int) -> None:
    result = examine_bytes(FORMAT, with_field(place, form, value))
    assert not result.recognised or result.outcome is Outcome.CORRUPT


@each_row(("place", "value"), [(2, 0), (2, 2**31), (34, 2**31), (38, -5)])
def test_wrong_values_in_ignored_header_fields_pass(place: int, value: int) -> None:
    assert examine_bytes(FORMAT, with_field(place, "<L" if value >= 0 else "<l", value)).outcome is Outcome.OK


def test_negative_width_is_corrupt() -> None:
    assert examine_bytes(FORMAT, with_field(18, "<l", -64)).outcome is Outcome.CORRUPT


def test_top_down_rows_pass() -> None:
    assert examine_bytes(FORMAT, with_field(22, "<l", -64)).outcome is Outcome.OK


def test_too_many_pixels_are_refused_before_decoding() -> None:
    assert examine_bytes(FORMAT, bmp(b"\0\1", size=(30_000, 30_000), method=1)).finding is Finding.IMAGE_TOO_LARGE
    assert examine_bytes(FORMAT, GOOD, Limits(max_pixels=100)).finding is Finding.IMAGE_TOO_LARGE


def test_run_length_encoding_passes() -> None:
    assert examine_bytes(FORMAT, bmp(ROWS, method=1)).outcome is Outcome.OK


def test_complete_run_length_data_without_end_mark_passes() -> None:
    assert examine_bytes(FORMAT, bmp(ROWS[:-2], method=1)).outcome is Outcome.OK


def test_run_length_data_with_early_end_mark_is_unsupported() -> None:
    assert examine_bytes(FORMAT, bmp(b"\x08\xff\x00\x00\x00\x01", method=1)).outcome is Outcome.UNSUPPORTED


def test_run_length_data_that_stops_early_is_corrupt() -> None:
    assert "in row 3 of 4" in examine_bytes(FORMAT, bmp(ROWS[:14], method=1)).detail


def test_run_past_the_row_end_is_corrupt() -> None:
    assert "behind the edge" in examine_bytes(FORMAT, bmp(b"\xff\x00\x00\x00" * 4 + b"\0\1", method=1)).detail


def test_zeroed_run_length_data_is_corrupt() -> None:
    assert "behind the last row" in examine_bytes(FORMAT, bmp(ROWS[:6] + bytes(40) + ROWS, method=1)).detail


def test_run_length_check_past_the_time_limit_is_not_corrupt() -> None:
    result = examine_bytes(FORMAT, bmp(ROWS[:14], method=1), Limits(soft_seconds=0))
    assert result.outcome is not Outcome.CORRUPT


@each_row(("plugin", "method"), [("JPEG", 4), ("PNG", 5)])
def test_embedded_jpeg_or_png_is_decoded(plugin: str, method: int) -> None:
    inner = encoded(chess_board().convert("RGB"), plugin)
    assert examine_bytes(FORMAT, bmp(inner, size=(64, 64), bits=0, method=method)).outcome is Outcome.OK
    assert examine_bytes(FORMAT, bmp(inner, size=(64, 64), bits=0, method=method)[:-40]).outcome is Outcome.CORRUPT


@each_row(("bits", "method"), [(2, 0), (64, 0), (32, 11)])
def test_rare_variant_is_unsupported_when_complete_and_corrupt_when_truncated(bits: int, method: int) -> None:
    complete = bmp(bytes(16 * 4 * bits // 8), bits=bits, method=method)
    assert examine_bytes(FORMAT, complete).outcome is Outcome.UNSUPPORTED
    assert examine_bytes(FORMAT, complete[:-4]).outcome is Outcome.CORRUPT


def test_bitmap_array_is_unsupported() -> None:
    moved = bytearray(GOOD)
    struct.pack_into("<L", moved, 10, OFFSET + 14)
    assert examine_bytes(FORMAT, b"BA" + bytes(12) + moved).outcome is Outcome.UNSUPPORTED


def test_text_that_begins_with_bm_is_not_recognised() -> None:
    assert not examine_bytes(FORMAT, b"BMP files begin with the letters BM and a size").recognised


def test_headerless_bitmap_passes_only_as_dib() -> None:
    picture = encoded(chess_board(32), "BMP")
    for data in (picture, picture[14:]):
        report = inspect_file(io.BytesIO(data), filename="a.dib")
        assert (report.integrity, report.finding) == (Outcome.OK, None)
    assert inspect_file(io.BytesIO(picture[14:]), filename="a.bmp").finding is Finding.TYPE_MISMATCH
