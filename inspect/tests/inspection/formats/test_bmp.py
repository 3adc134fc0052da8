"""BMP: integrity, limits and blankness."""

import io
import struct
from collections.abc import Iterable

import numpy as np
from PIL import Image

from sluice_inspect.formats.bmp import FORMAT
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Row, cuts, examine_bytes, verdicts
from tests.inspection.formats.image_samples import chess_board, encoded, plain_picture
from tests.rows import each_row

GOOD = encoded(chess_board(), "BMP")
# Run-length data of 16 x 4 pixels; the last row has four literal pixels.
ROWS = b"\x08\x00\x08\xff\x00\x00" * 3 + b"\x00\x04\x01\x02\x03\x04\x0c\xff\x00\x01"


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


@verdicts(FORMAT)
def test_every_bitmap_gets_its_verdict() -> Iterable[Row]:
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        yield f"mode {mode}", encoded(chess_board().convert(mode), "BMP"), "ok"
    yield "empty", encoded(plain_picture(), "BMP"), "blank"
    colours = np.dstack([np.asarray(chess_board())] * 3 + [np.zeros((64, 64), dtype=np.uint8)])
    yield "alpha channel of zeros", encoded(Image.fromarray(colours), "BMP"), "ok"
    yield from cuts(GOOD, 0.01, 0.2, 0.5, 0.95)
    padded = bmp(bytes(range(4 * 16)), size=(13, 4))
    yield "no padding of the last row", padded[:-3], "blank"
    yield "a byte of the last row is missing", padded[:-4], "corrupt"
    yield "size of the file 0", with_field(2, "<L", 0), "ok"
    yield "size of the file", with_field(2, "<L", 2**31), "ok"
    yield "size of the pixels", with_field(34, "<L", 2**31), "ok"
    yield "negative resolution", with_field(38, "<l", -5), "ok"
    yield "negative width", with_field(18, "<l", -64), "corrupt"
    yield "rows from the top", with_field(22, "<l", -64), "ok"
    yield "array of bitmaps", b"BA" + bytes(12) + with_field(10, "<L", 54 + 1024 + 14), "unsupported"
    yield "run-length data", bmp(ROWS, method=1), "ok"
    yield "complete run-length data without an end mark", bmp(ROWS[:-2], method=1), "ok"
    yield "run-length data with an early end mark", bmp(b"\x08\xff\x00\x00\x00\x01", method=1), "unsupported"
    yield "too few rows", bmp(ROWS[:14], method=1), "corrupt", "in row 3 of 4"
    yield "behind the edge", bmp(b"\xff\x00\x00\x00" * 4 + b"\0\1", method=1), "corrupt", "beyond the edge"
    yield "too many rows", bmp(ROWS[:6] + bytes(40) + ROWS, method=1), "corrupt", "after the last row"
    yield "too many pixels to decode", bmp(b"\0\1", size=(30_000, 30_000), method=1), "image_too_large"
    yield "too many pixels", GOOD, "image_too_large", Limits(max_pixels=100)
    for plugin, method in (("JPEG", 4), ("PNG", 5)):
        inner = bmp(encoded(chess_board().convert("RGB"), plugin), size=(64, 64), bits=0, method=method)
        yield f"{plugin} in a BMP", inner, "ok"
        yield f"cut {plugin} in a BMP", inner[:-40], "corrupt"
    for bits, method in ((2, 0), (64, 0), (32, 11)):
        rare = bmp(bytes(16 * 4 * bits // 8), bits=bits, method=method)
        yield f"rare variant {bits}, {method}", rare, "unsupported"
        yield f"cut rare variant {bits}, {method}", rare[:-4], "corrupt"


@each_row(("place", "form", "value"), [(14, "<L", 66), (26, "<H", 7), (28, "<H", 13), (30, "<L", 77), (10, "<L", 20)])
def test_impossible_header_or_text_is_unrecognised_or_corrupt(place: int, form: str, value: int) -> None:
    result = examine_bytes(FORMAT, with_field(place, form, value))
    assert not result.recognised or result.outcome is Outcome.CORRUPT
    assert not examine_bytes(FORMAT, b"BMP files begin with the letters BM and a size").recognised


def test_run_length_check_past_the_time_limit_is_not_corrupt() -> None:
    assert examine_bytes(FORMAT, bmp(ROWS[:14], method=1), Limits(soft_seconds=0)).outcome is not Outcome.CORRUPT


def test_headerless_bitmap_passes_only_as_dib() -> None:
    picture = encoded(chess_board(32), "BMP")
    for data in (picture, picture[14:]):
        report = inspect_file(io.BytesIO(data), filename="a.dib")
        assert (report.integrity, report.finding) == (Outcome.OK, None)
    assert inspect_file(io.BytesIO(picture[14:]), filename="a.bmp").finding is Finding.TYPE_MISMATCH
