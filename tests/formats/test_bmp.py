import io
import struct

import numpy as np
import pytest
from PIL import Image

from sluice.formats.check import check_file
from sluice.formats.kinds.bmp import KIND
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.images import board, encoded, plain
from tests.formats.judging import corpus, judge, needs_corpus

GOOD = encoded(board(), "BMP")
OFFSET = 54 + 1024


def bmp(pixels: bytes, *, size: tuple[int, int] = (16, 4), bits: int = 8, method: int = 0, stated: int | None = None) -> bytes:
    """Answer a BMP with a palette of greys and any pixels."""
    palette = b"".join(bytes([level, level, level, 0]) for level in range(256)) if bits <= 8 else b""
    offset = 54 + len(palette)
    header = struct.pack(
        "<LllHHLLllLL", 40, *size, 1, bits, method, len(pixels) if stated is None else stated, 0, 0, len(palette) // 4, 0
    )
    return struct.pack("<2sLLL", b"BM", offset + len(pixels), 0, offset) + header + palette + pixels


def with_field(place: int, form: str, value: int) -> bytes:
    data = bytearray(GOOD)
    struct.pack_into(form, data, place, value)
    return bytes(data)


ROWS = b"\x08\x00\x08\xff\x00\x00" * 3 + b"\x00\x04\x01\x02\x03\x04\x0c\xff\x00\x01"
"""Runs of 16 x 4 pixels, the last row with four literal ones."""


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA"])
def test_every_mode_passes(mode: str) -> None:
    judged = judge(KIND, encoded(board().convert(mode), "BMP"))
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


def test_an_empty_picture_is_blank() -> None:
    assert judge(KIND, encoded(plain(), "BMP")).blank


def test_a_transparency_that_was_never_set_hides_nothing() -> None:
    colours = np.dstack([np.asarray(board())] * 3 + [np.zeros((64, 64), dtype=np.uint8)])
    assert judge(KIND, encoded(Image.fromarray(colours), "BMP")).blank is None


@pytest.mark.parametrize("kept", [0.01, 0.2, 0.5, 0.95])
def test_a_truncated_picture_is_corrupt(kept: float) -> None:
    assert judge(KIND, GOOD[: int(len(GOOD) * kept)]).outcome is Outcome.CORRUPT


def test_the_end_of_the_last_row_may_be_missing_where_it_only_fills_up() -> None:
    data = bmp(bytes(range(4 * 16)), size=(13, 4))
    assert judge(KIND, data[:-3]).outcome is Outcome.OK
    assert judge(KIND, data[:-4]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    ("place", "form", "value"), [(14, "<L", 66), (26, "<H", 7), (28, "<H", 13), (30, "<L", 77), (10, "<L", 20)]
)
def test_a_header_that_cannot_be_is_corrupt(place: int, form: str, value: int) -> None:
    judged = judge(KIND, with_field(place, form, value))
    assert not judged.recognised or judged.outcome is Outcome.CORRUPT


@pytest.mark.parametrize(("place", "value"), [(2, 0), (2, 2**31), (34, 2**31), (38, -5)])
def test_fields_that_readers_pass_over_may_lie(place: int, value: int) -> None:
    assert judge(KIND, with_field(place, "<L" if value >= 0 else "<l", value)).outcome is Outcome.OK


def test_a_negative_width_is_corrupt() -> None:
    assert judge(KIND, with_field(18, "<l", -64)).outcome is Outcome.CORRUPT


def test_rows_from_top_to_bottom_pass() -> None:
    assert judge(KIND, with_field(22, "<l", -64)).outcome is Outcome.OK


def test_too_many_pixels_are_refused_before_they_are_decoded() -> None:
    assert judge(KIND, bmp(b"\0\1", size=(30_000, 30_000), method=1)).finding is Finding.IMAGE_TOO_LARGE
    assert judge(KIND, GOOD, Limits(max_pixels=100)).finding is Finding.IMAGE_TOO_LARGE


def test_runs_pass() -> None:
    assert judge(KIND, bmp(ROWS, method=1)).outcome is Outcome.OK


def test_runs_that_leave_out_the_end_mark_pass_when_all_rows_are_there() -> None:
    assert judge(KIND, bmp(ROWS[:-2], method=1)).outcome is Outcome.OK


def test_runs_that_end_early_by_saying_so_are_no_damage() -> None:
    assert judge(KIND, bmp(b"\x08\xff\x00\x00\x00\x01", method=1)).outcome is Outcome.UNSUPPORTED


def test_runs_that_end_early_without_saying_so_are_corrupt() -> None:
    assert "in row 3 of 4" in judge(KIND, bmp(ROWS[:14], method=1)).detail


def test_a_run_behind_the_edge_is_corrupt() -> None:
    assert "behind the edge" in judge(KIND, bmp(b"\xff\x00\x00\x00" * 4 + b"\0\1", method=1)).detail


def test_zeroed_runs_are_corrupt() -> None:
    assert "behind the last row" in judge(KIND, bmp(ROWS[:6] + bytes(40) + ROWS, method=1)).detail


def test_the_time_limit_ends_the_look_at_runs_without_a_refusal() -> None:
    judged = judge(KIND, bmp(ROWS[:14], method=1), Limits(soft_seconds=0))
    assert judged.outcome is not Outcome.CORRUPT


@pytest.mark.parametrize(("plugin", "method"), [("JPEG", 4), ("PNG", 5)])
def test_a_picture_of_another_format_within_is_decoded(plugin: str, method: int) -> None:
    inner = encoded(board().convert("RGB"), plugin)
    assert judge(KIND, bmp(inner, size=(64, 64), bits=0, method=method)).outcome is Outcome.OK
    assert judge(KIND, bmp(inner, size=(64, 64), bits=0, method=method)[:-40]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize(("bits", "method"), [(2, 0), (64, 0), (32, 11)])
def test_rare_variants_are_unsupported_when_they_are_whole(bits: int, method: int) -> None:
    whole = bmp(bytes(16 * 4 * bits // 8), bits=bits, method=method)
    assert judge(KIND, whole).outcome is Outcome.UNSUPPORTED
    assert judge(KIND, whole[:-4]).outcome is Outcome.CORRUPT


def test_an_array_of_pictures_is_unsupported() -> None:
    moved = bytearray(GOOD)
    struct.pack_into("<L", moved, 10, OFFSET + 14)
    assert judge(KIND, b"BA" + bytes(12) + moved).outcome is Outcome.UNSUPPORTED


def test_a_text_that_begins_with_the_same_letters_is_not_taken() -> None:
    assert not judge(KIND, b"BMP files begin with the letters BM and a size").recognised


@needs_corpus
def test_the_intact_files_of_the_corpus_pass() -> None:
    assert [path.name for path in corpus("bmp", "valid", "not_blank") if not judge(KIND, path.read_bytes()).passes] == []


@needs_corpus
def test_blank_files_of_the_corpus_are_blank_and_others_are_not() -> None:
    assert [path.name for path in corpus("bmp", "blank") if not judge(KIND, path.read_bytes()).blank] == []
    assert [path.name for path in corpus("bmp", "not_blank") if judge(KIND, path.read_bytes()).blank] == []


def test_a_bitmap_without_the_header_of_a_file_passes_under_its_own_name() -> None:
    picture = encoded(board(32), "BMP")
    for data in (picture, picture[14:]):
        report = check_file(io.BytesIO(data), filename="a.dib")
        assert (report.integrity, report.finding) == (Outcome.OK, None)
    assert check_file(io.BytesIO(picture[14:]), filename="a.bmp").finding is Finding.TYPE_MISMATCH
