import struct

import numpy as np
import pytest
from PIL import Image

from sluice.formats.images import jpeg2000
from sluice.formats.kind import Kind
from sluice.formats.kinds import j2k, jp2
from sluice.formats.verdict import Corrupt, Finding, Limits, Outcome
from tests.formats.images import board, encoded, plain
from tests.formats.judging import corpus, judge, needs_corpus

NOISE = Image.fromarray(np.random.default_rng(1).integers(0, 256, (256, 256, 3), dtype=np.uint8))
BOXED = encoded(NOISE, "JPEG2000")
BARE = encoded(NOISE, "JPEG2000", no_jp2=True)
TILED = encoded(NOISE, "JPEG2000", no_jp2=True, tile_size=(64, 64))
FORMS = pytest.mark.parametrize(("kind", "good"), [(jp2.KIND, BOXED), (j2k.KIND, BARE), (j2k.KIND, TILED)])


def with_packet_numbers(stream: bytes, *numbers: int) -> bytes:
    """Answer a one-tile codestream whose data is nothing but numbered packets."""
    style = stream.index(b"\xff\x52") + 4
    part = stream.index(b"\xff\x90")
    data = b"".join(b"\xff\x91\x00\x04" + struct.pack(">H", number) + b"\x00" for number in numbers)
    header = stream[:style] + bytes([stream[style] | 2]) + stream[style + 1 : part]
    return header + b"\xff\x90" + struct.pack(">HHLBB", 10, 0, 14 + len(data), 0, 1) + b"\xff\x93" + data + b"\xff\xd9"


@FORMS
def test_a_good_picture_passes(kind: Kind, good: bytes) -> None:
    judged = judge(kind, good)
    assert judged.passes
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize("kind", [jp2.KIND, j2k.KIND])
def test_the_sample_passes_and_has_content(kind: Kind) -> None:
    judged = judge(kind, kind.sample())
    assert judged.recognised
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "I;16"])
def test_every_mode_passes(mode: str) -> None:
    assert judge(jp2.KIND, encoded(board().convert(mode), "JPEG2000")).outcome is Outcome.OK


def test_an_empty_picture_is_blank() -> None:
    assert judge(jp2.KIND, encoded(plain(), "JPEG2000")).blank


@FORMS
@pytest.mark.parametrize("kept", [0.01, 0.3, 0.5, 0.95, 0.9999])
def test_a_truncated_picture_is_corrupt(kind: Kind, good: bytes, kept: float) -> None:
    assert judge(kind, good[: int(len(good) * kept)]).outcome is Outcome.CORRUPT


@FORMS
def test_zeroed_data_is_corrupt(kind: Kind, good: bytes) -> None:
    half = len(good) // 2
    assert judge(kind, good[:half] + bytes(4096) + good[half + 4096 :]).outcome is Outcome.CORRUPT


def test_a_long_run_of_zeros_is_named() -> None:
    half = len(BARE) // 2
    assert "only zeros" in judge(j2k.KIND, BARE[:half] + bytes(4096) + BARE[half + 4096 :]).detail


def test_missing_packets_are_found_by_their_numbers() -> None:
    assert "packets are missing" in judge(j2k.KIND, with_packet_numbers(BARE, 0, 1, 2, 4)).detail
    assert "packets are missing" not in judge(j2k.KIND, with_packet_numbers(BARE, 65534, 65535, 0, 1)).detail


def test_a_missing_end_is_forgiven_behind_the_last_tile() -> None:
    assert "goes wrong" not in judge(j2k.KIND, BARE.removesuffix(b"\xff\xd9")).detail


def test_missing_tiles_are_corrupt() -> None:
    last = TILED.rindex(b"\xff\x90\x00\x0a")
    assert "15 of 16 tiles" in judge(j2k.KIND, TILED[:last]).detail


def test_a_marker_without_a_segment_is_passed_over() -> None:
    place = BARE.index(b"\xff\x52")
    assert "header is damaged" not in judge(j2k.KIND, BARE[:place] + b"\xff\x30" + BARE[place:]).detail


def test_too_many_pixels_are_refused_before_they_are_decoded() -> None:
    huge = bytearray(BARE)
    struct.pack_into(">LL", huge, 8, 30_000, 30_000)
    struct.pack_into(">LL", huge, 24, 30_000, 30_000)
    assert judge(j2k.KIND, bytes(huge)).finding is Finding.IMAGE_TOO_LARGE
    assert judge(jp2.KIND, BOXED, Limits(max_pixels=100)).finding is Finding.IMAGE_TOO_LARGE


def test_a_picture_that_its_decoder_has_no_memory_for_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jpeg2000, "_MEMORY", 1000)
    assert judge(jp2.KIND, BOXED).outcome is Outcome.UNSUPPORTED


def test_more_components_than_are_drawn_are_unsupported() -> None:
    place = BARE.index(b"\xff\x51")
    length, count = struct.unpack_from(">H", BARE, place + 2)[0], 3
    more = BARE[: place + 2] + struct.pack(">H", length + 6) + BARE[place + 4 : place + 38] + struct.pack(">H", count + 2)
    assert judge(j2k.KIND, more + b"\x07\x01\x01" * 5 + BARE[place + 2 + length :]).outcome is Outcome.UNSUPPORTED


def test_a_second_decoder_is_asked_before_a_picture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jpeg2000, "decode", _refuse)
    assert judge(jp2.KIND, BOXED).outcome is Outcome.OK
    monkeypatch.setattr(jpeg2000, "_SECOND_DECODER", False)
    assert judge(jp2.KIND, BOXED).outcome is Outcome.UNSUPPORTED


def _refuse(*_: object, **__: object) -> None:
    raise Corrupt("broken data stream")


def test_other_ways_to_keep_pictures_are_unsupported() -> None:
    fragments = struct.pack(">L", 16) + b"ftbl" + bytes(8)
    start = BOXED[: BOXED.index(b"jp2h") - 4]
    assert judge(jp2.KIND, start + fragments).outcome is Outcome.UNSUPPORTED
    assert judge(jp2.KIND, start).outcome is Outcome.CORRUPT


def test_films_are_not_taken() -> None:
    assert not judge(jp2.KIND, BOXED.replace(b"ftypjp2 ", b"ftypmjp2", 1)).recognised


@needs_corpus
def test_the_intact_files_of_the_corpus_pass() -> None:
    assert [path.name for path in corpus("jp2", "valid")[:2] if not judge(jp2.KIND, path.read_bytes()).passes] == []


@needs_corpus
def test_the_damaged_files_of_the_corpus_do_not_pass() -> None:
    assert [path.name for path in corpus("jp2", "corrupt") if judge(jp2.KIND, path.read_bytes()).passes] == []
