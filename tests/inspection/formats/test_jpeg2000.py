"""JPEG 2000: integrity, limits and blankness."""

import struct
from functools import cache

import numpy as np
import pytest
from PIL import Image

from sluice_inspect.format import Format
from sluice_inspect.formats import jpeg2000
from sluice_inspect.formats.jpeg2000 import J2K, JP2
from sluice_inspect.report import Corrupt, Finding, Limits, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.image_samples import chess_board, encoded, plain_picture
from tests.rows import each_row


@cache
def noise() -> Image.Image:
    return Image.fromarray(np.random.default_rng(1).integers(0, 256, (256, 256, 3), dtype=np.uint8))


@cache
def boxed() -> bytes:
    return encoded(noise(), "JPEG2000")


@cache
def bare() -> bytes:
    return encoded(noise(), "JPEG2000", no_jp2=True)


@cache
def tiled() -> bytes:
    return encoded(noise(), "JPEG2000", no_jp2=True, tile_size=(64, 64))


each_variant = each_row(("format_", "good"), lambda: [(JP2, boxed()), (J2K, bare()), (J2K, tiled())])


def with_packet_numbers(stream: bytes, *numbers: int) -> bytes:
    """Return a codestream of one tile that contains only numbered packets."""
    style = stream.index(b"\xff\x52") + 4
    part = stream.index(b"\xff\x90")
    data = b"".join(b"\xff\x91\x00\x04" + struct.pack(">H", number) + b"\x00" for number in numbers)
    header = stream[:style] + bytes([stream[style] | 2]) + stream[style + 1 : part]
    return header + b"\xff\x90" + struct.pack(">HHLBB", 10, 0, 14 + len(data), 0, 1) + b"\xff\x93" + data + b"\xff\xd9"


@each_variant
def test_good_picture_passes(format_: Format, good: bytes) -> None:
    result = examine_bytes(format_, good)
    assert result.passes
    assert result.outcome is Outcome.OK
    assert result.blank is None


@each_row("mode", ["L", "LA", "RGB", "RGBA", "I;16"])
def test_every_mode_passes(mode: str) -> None:
    assert examine_bytes(JP2, encoded(chess_board().convert(mode), "JPEG2000")).outcome is Outcome.OK


def test_empty_picture_is_blank() -> None:
    assert examine_bytes(JP2, encoded(plain_picture(), "JPEG2000")).blank


@each_variant
@each_row("kept", [0.01, 0.3, 0.5, 0.95, 0.9999])
def test_truncated_picture_is_corrupt(format_: Format, good: bytes, kept: float) -> None:
    assert examine_bytes(format_, good[: int(len(good) * kept)]).outcome is Outcome.CORRUPT


@each_variant
def test_zeroed_data_is_corrupt(format_: Format, good: bytes) -> None:
    half = len(good) // 2
    assert examine_bytes(format_, good[:half] + bytes(4096) + good[half + 4096 :]).outcome is Outcome.CORRUPT


def test_long_run_of_zeros_is_reported() -> None:
    half = len(bare()) // 2
    assert "only zeros" in examine_bytes(J2K, bare()[:half] + bytes(4096) + bare()[half + 4096 :]).detail


def test_missing_packets_are_detected_by_their_numbers() -> None:
    assert "packets are missing" in examine_bytes(J2K, with_packet_numbers(bare(), 0, 1, 2, 4)).detail
    assert "packets are missing" not in examine_bytes(J2K, with_packet_numbers(bare(), 65534, 65535, 0, 1)).detail


def test_missing_end_marker_after_the_last_tile_is_ignored() -> None:
    assert "goes wrong" not in examine_bytes(J2K, bare().removesuffix(b"\xff\xd9")).detail


def test_missing_tiles_are_corrupt() -> None:
    last = tiled().rindex(b"\xff\x90\x00\x0a")
    assert "15 of 16 tiles" in examine_bytes(J2K, tiled()[:last]).detail


def test_marker_without_a_segment_is_ignored() -> None:
    place = bare().index(b"\xff\x52")
    assert "header is damaged" not in examine_bytes(J2K, bare()[:place] + b"\xff\x30" + bare()[place:]).detail


def test_too_many_pixels_are_refused_before_decoding() -> None:
    huge = bytearray(bare())
    struct.pack_into(">LL", huge, 8, 30_000, 30_000)
    struct.pack_into(">LL", huge, 24, 30_000, 30_000)
    assert examine_bytes(J2K, bytes(huge)).finding is Finding.IMAGE_TOO_LARGE
    assert examine_bytes(JP2, boxed(), Limits(max_pixels=100)).finding is Finding.IMAGE_TOO_LARGE


def test_picture_that_exceeds_the_decoder_memory_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jpeg2000, "_MEMORY", 1000)
    assert examine_bytes(JP2, boxed()).outcome is Outcome.UNSUPPORTED


def test_too_many_components_are_unsupported() -> None:
    place = bare().index(b"\xff\x51")
    length, count = struct.unpack_from(">H", bare(), place + 2)[0], 3
    more = (
        bare()[: place + 2]
        + struct.pack(">H", length + 6)
        + bare()[place + 4 : place + 38]
        + struct.pack(">H", count + 2)
    )
    assert examine_bytes(J2K, more + b"\x07\x01\x01" * 5 + bare()[place + 2 + length :]).outcome is Outcome.UNSUPPORTED


def test_second_decoder_is_tried_before_a_picture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jpeg2000, "decode_frames", _refuse)
    assert examine_bytes(JP2, boxed()).outcome is Outcome.OK
    monkeypatch.setattr(jpeg2000, "_SECOND_DECODER", False)
    assert examine_bytes(JP2, boxed()).outcome is Outcome.UNSUPPORTED


def _refuse(*_: object, **__: object) -> None:
    raise Corrupt("broken data stream")


def test_fragment_table_is_unsupported() -> None:
    fragments = struct.pack(">L", 16) + b"ftbl" + bytes(8)
    start = boxed()[: boxed().index(b"jp2h") - 4]
    assert examine_bytes(JP2, start + fragments).outcome is Outcome.UNSUPPORTED
    assert examine_bytes(JP2, start).outcome is Outcome.CORRUPT


def test_motion_jpeg2000_is_not_recognised() -> None:
    assert not examine_bytes(JP2, boxed().replace(b"ftypjp2 ", b"ftypmjp2", 1)).recognised
