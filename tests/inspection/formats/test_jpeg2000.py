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
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.image_samples import chess_board, encoded, plain_picture
from tests.rows import each_row


@cache
def noise(**options: object) -> bytes:
    pixels = np.random.default_rng(1).integers(0, 256, (256, 256, 3), dtype=np.uint8)
    return encoded(Image.fromarray(pixels), "JPEG2000", **options)


def boxed() -> bytes:
    return noise()


def bare() -> bytes:
    return noise(no_jp2=True)


def tiled() -> bytes:
    return noise(no_jp2=True, tile_size=(64, 64))


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
    assert examine_bytes(format_, good) == Examined(recognised=True, outcome=Outcome.OK)


@each_row("mode", ["L", "LA", "RGB", "RGBA", "I;16"])
def test_every_mode_passes(mode: str) -> None:
    assert examine_bytes(JP2, encoded(chess_board().convert(mode), "JPEG2000")).outcome is Outcome.OK


def test_empty_picture_is_blank() -> None:
    assert examine_bytes(JP2, encoded(plain_picture(), "JPEG2000")).blank


@each_variant
def test_truncated_or_zeroed_picture_is_corrupt(format_: Format, good: bytes) -> None:
    for kept in (0.01, 0.3, 0.5, 0.95, 0.9999):
        assert examine_bytes(format_, good[: int(len(good) * kept)]).outcome is Outcome.CORRUPT, kept
    half = len(good) // 2
    assert examine_bytes(format_, good[:half] + bytes(4096) + good[half + 4096 :]).outcome is Outcome.CORRUPT


def test_damage_of_a_codestream_is_named() -> None:
    half = len(bare()) // 2
    assert "only zeros" in examine_bytes(J2K, bare()[:half] + bytes(4096) + bare()[half + 4096 :]).detail
    assert "packets are missing" in examine_bytes(J2K, with_packet_numbers(bare(), 0, 1, 2, 4)).detail
    last = tiled().rindex(b"\xff\x90\x00\x0a")
    assert "15 of 16 tiles" in examine_bytes(J2K, tiled()[:last]).detail


def test_what_decoders_ignore_is_no_damage() -> None:
    assert "packets are missing" not in examine_bytes(J2K, with_packet_numbers(bare(), 65534, 65535, 0, 1)).detail
    assert "goes wrong" not in examine_bytes(J2K, bare().removesuffix(b"\xff\xd9")).detail
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
    at = bare().index(b"\xff\x51") + 2
    (length,) = struct.unpack_from(">H", bare(), at)
    sizes = struct.pack(">H", length + 6) + bare()[at + 2 : at + 36] + struct.pack(">H", 5) + b"\x07\x01\x01" * 5
    assert examine_bytes(J2K, bare()[:at] + sizes + bare()[at + length :]).outcome is Outcome.UNSUPPORTED


def test_second_decoder_is_tried_before_a_picture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Corrupt("broken data stream")

    monkeypatch.setattr(jpeg2000, "decode_frames", refuse)
    assert examine_bytes(JP2, boxed()).outcome is Outcome.OK
    monkeypatch.setattr(jpeg2000, "_SECOND_DECODER", False)
    assert examine_bytes(JP2, boxed()).outcome is Outcome.UNSUPPORTED


def test_fragment_table_is_unsupported() -> None:
    fragments = struct.pack(">L", 16) + b"ftbl" + bytes(8)
    start = boxed()[: boxed().index(b"jp2h") - 4]
    assert examine_bytes(JP2, start + fragments).outcome is Outcome.UNSUPPORTED
    assert examine_bytes(JP2, start).outcome is Outcome.CORRUPT


def test_motion_jpeg2000_is_not_recognised() -> None:
    assert not examine_bytes(JP2, boxed().replace(b"ftypjp2 ", b"ftypmjp2", 1)).recognised
