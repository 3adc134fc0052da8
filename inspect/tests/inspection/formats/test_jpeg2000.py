"""JPEG 2000: integrity, limits and blankness."""

import struct
from collections.abc import Iterable
from functools import cache

import numpy as np
import pytest
from PIL import Image

from sluice_inspect.formats import jpeg2000
from sluice_inspect.formats.jpeg2000 import J2K, JP2
from sluice_inspect.report import Corrupt, Limits, Outcome
from tests.inspection.formats.examining import Row, cuts, examine_bytes, verdicts
from tests.inspection.formats.image_samples import chess_board, encoded, plain_picture


@cache
def noise(**options: object) -> bytes:
    pixels = np.random.default_rng(1).integers(0, 256, (256, 256, 3), dtype=np.uint8)
    return encoded(Image.fromarray(pixels), "JPEG2000", **options)


def with_packet_numbers(stream: bytes, *numbers: int) -> bytes:
    """Return a codestream of one tile that contains only numbered packets."""
    style = stream.index(b"\xff\x52") + 4
    part = stream.index(b"\xff\x90")
    data = b"".join(b"\xff\x91\x00\x04" + struct.pack(">H", number) + b"\x00" for number in numbers)
    header = stream[:style] + bytes([stream[style] | 2]) + stream[style + 1 : part]
    return header + b"\xff\x90" + struct.pack(">HHLBB", 10, 0, 14 + len(data), 0, 1) + b"\xff\x93" + data + b"\xff\xd9"


def damages(good: bytes) -> Iterable[Row]:
    yield "good", good, "ok"
    yield from cuts(good, 0.01, 0.3, 0.5, 0.95, 0.9999)
    half = len(good) // 2
    yield "zeros", good[:half] + bytes(4096) + good[half + 4096 :], "corrupt"


@verdicts(JP2)
def test_every_picture_in_boxes_gets_its_verdict() -> Iterable[Row]:
    boxed = noise()
    yield from damages(boxed)
    for mode in ("L", "LA", "RGB", "RGBA", "I;16"):
        yield f"mode {mode}", encoded(chess_board().convert(mode), "JPEG2000"), "ok"
    yield "empty", encoded(plain_picture(), "JPEG2000"), "blank"
    yield "too many pixels", boxed, "image_too_large", Limits(max_pixels=100)
    start = boxed[: boxed.index(b"jp2h") - 4]
    yield "table of fragments", start + struct.pack(">L", 16) + b"ftbl" + bytes(8), "unsupported"
    yield "no picture", start, "corrupt"


@verdicts(J2K)
def test_every_codestream_gets_its_verdict() -> Iterable[Row]:
    bare, tiled = noise(no_jp2=True), noise(no_jp2=True, tile_size=(64, 64))
    yield from damages(bare)
    yield from damages(tiled)
    half = len(bare) // 2
    yield "zeros in a codestream", bare[:half] + bytes(4096) + bare[half + 4096 :], "corrupt", "only zeros"
    yield "no third packet", with_packet_numbers(bare, 0, 1, 2, 4), "corrupt", "packets are missing"
    yield "no last tile", tiled[: tiled.rindex(b"\xff\x90\x00\x0a")], "corrupt", "15 of 16 tiles"
    huge = bytearray(bare)
    for at in (8, 24):
        struct.pack_into(">LL", huge, at, 30_000, 30_000)
    yield "too many pixels to decode", bytes(huge), "image_too_large"
    yield "no pixels", bare[:8] + bytes(8) + bare[16:], "corrupt", "without pixels"
    at = bare.index(b"\xff\x51") + 2
    (length,) = struct.unpack_from(">H", bare, at)
    sizes = struct.pack(">H", length + 6) + bare[at + 2 : at + 36] + struct.pack(">H", 5) + b"\x07\x01\x01" * 5
    yield "too many components", bare[:at] + sizes + bare[at + length :], "unsupported"


def test_what_decoders_ignore_is_no_damage() -> None:
    bare = noise(no_jp2=True)
    place = bare.index(b"\xff\x52")
    assert "packets are missing" not in examine_bytes(J2K, with_packet_numbers(bare, 65534, 65535, 0, 1)).detail
    assert "goes wrong" not in examine_bytes(J2K, bare.removesuffix(b"\xff\xd9")).detail
    assert "header is damaged" not in examine_bytes(J2K, bare[:place] + b"\xff\x30" + bare[place:]).detail
    assert not examine_bytes(JP2, noise().replace(b"ftypjp2 ", b"ftypmjp2", 1)).recognised  # Motion JPEG 2000


def test_second_decoder_is_tried_and_a_picture_beyond_the_memory_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Corrupt("broken data stream")

    with monkeypatch.context() as patch:
        patch.setattr(jpeg2000, "_MEMORY", 1000)
        assert examine_bytes(JP2, noise()).outcome is Outcome.UNSUPPORTED
    monkeypatch.setattr(jpeg2000, "decode_frames", refuse)
    assert examine_bytes(JP2, noise()).outcome is Outcome.OK
    monkeypatch.setattr(jpeg2000, "_INSTALLED", False)
    assert examine_bytes(JP2, noise()).outcome is Outcome.UNSUPPORTED
