"""GZIP, bzip2, XZ, Zstandard and LZ4: several streams, padding, trailing bytes and damage."""

import bz2
import gzip
import io
import lzma
import tarfile
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import zstandard
from lz4 import block as lz4_block
from lz4 import frame as lz4_frame

from sluice_inspect.format import Format
from sluice_inspect.formats import compressed
from sluice_inspect.formats import zip as zip_archive
from sluice_inspect.report import Finding, Limits, Measure, Outcome
from tests.inspection.formats import test_tar as tar
from tests.inspection.formats.examining import Row, cuts, examine_bytes, source_of, verdicts
from tests.inspection.formats.zip_samples import archive
from tests.inspection.growth import slowness
from tests.rows import each_row

TEXT = b"".join(b"line %d of a text\n" % number for number in range(3000))
SKIPPED = b"\x50\x2a\x4d\x18\x04\0\0\0skip"


@dataclass(frozen=True)
class Packed:
    format_: Format
    pack: Callable[[bytes], bytes]
    padding: bytes = bytes(7)
    ignores_what_follows: bool = True


FORMATS = [
    Packed(compressed.GZIP, gzip.compress),
    Packed(compressed.BZIP2, bz2.compress),
    Packed(compressed.XZ, lzma.compress, padding=bytes(8), ignores_what_follows=False),
    Packed(compressed.ZSTANDARD, zstandard.ZstdCompressor(write_checksum=True).compress, ignores_what_follows=False),
    Packed(compressed.LZ4, lambda data: lz4_frame.compress(data, content_checksum=True)),
]
GZIP, BZIP2, XZ, ZSTANDARD, LZ4 = FORMATS


def general(packed: Packed) -> Iterable[Row]:
    """Yield what holds for each of the formats."""
    whole = packed.pack(TEXT)
    yield "whole", whole, "ok"
    yield "several streams and their padding", whole + packed.pack(b"") + whole + packed.padding, "ok"
    yield from cuts(whole, 0.05, 0.2, 0.5, 0.8, 0.95, 0.999)
    for at in (int(len(whole) * share) for share in (0.2, 0.5, 0.8)):
        yield f"changed at {at}", whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :], "corrupt"
    yield "cut second stream", whole + whole[:-3], "corrupt"
    yield "zeros in the second stream", whole + bytes(40) + whole[40:] + whole, "corrupt"
    trailing = "ok" if packed.ignores_what_follows else "corrupt"
    yield "trailing bytes, as the format's own tool takes them", whole + b"some junk that a gateway left", trailing
    yield "trailing page", whole + b"<!DOCTYPE html><html><body>502</body></html>", "corrupt"
    limits = replace(Limits(), ratio_floor_bytes=1_000_000, max_ratio=20)
    yield "high ratio below the floor", packed.pack(bytes(900_000)), "blank", limits
    yield "high ratio above the floor", packed.pack(bytes(3_000_000)), "archive_bomb", limits
    for content in (b"", bytes(100_000), b"\r\n \t"):
        yield f"no content {content[:9]!r}", packed.pack(content), "blank"
    for content in (b"x", bytes(300_000) + b"x"):
        yield f"content {content[:9]!r}", packed.pack(content), "ok"
    yield "TAR", packed.pack(tar.archive(tar.entry("a", b"x"))), "ok"
    yield "TAR without content", packed.pack(tar.archive(tar.entry("a"))), "blank"
    yield "TAR that leads outside", packed.pack(tar.archive(tar.entry("../a", b"x"))), "archive_unsafe"


def with_full_gzip_header() -> bytes:
    head = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\x02\0xy" + b"name\0" + b"comment\0"
    head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little")
    raw = zlib.compressobj(wbits=-15)
    trailer = zlib.crc32(TEXT).to_bytes(4, "little") + len(TEXT).to_bytes(4, "little")
    return head + raw.compress(TEXT) + raw.flush() + trailer


def with_later_xz_options() -> bytes:
    data = bytearray(lzma.compress(b""))
    data[6] = data[-4] = 0x80
    data[8:12] = zlib.crc32(data[6:8]).to_bytes(4, "little")
    data[-12:-8] = zlib.crc32(data[-8:-2]).to_bytes(4, "little")
    return bytes(data)


def with_dictionary() -> bytes:
    dictionary = zstandard.train_dictionary(2000, [b"some text number %d" % number * 5 for number in range(300)])
    return zstandard.ZstdCompressor(dict_data=dictionary).compress(TEXT)


def changed_from_behind(data: bytes, place: int) -> bytes:
    return data[:-place] + bytes([data[-place] ^ 1]) + data[len(data) - place + 1 :]


BLOCK = lz4_block.compress(TEXT, store_size=False)
LEGACY = b"\x02\x21\x4c\x18" + len(BLOCK).to_bytes(4, "little") + BLOCK


@verdicts(GZIP.format_)
def test_every_gzip_file_gets_its_verdict() -> Iterable[Row]:
    yield from general(GZIP)
    yield "header with all fields", with_full_gzip_header(), "ok"
    yield "wrong checksum", changed_from_behind(gzip.compress(TEXT), 8), "corrupt"
    yield "wrong length", changed_from_behind(gzip.compress(TEXT), 4), "corrupt"


@verdicts(BZIP2.format_)
def test_every_bzip2_file_gets_its_verdict() -> Iterable[Row]:
    yield from general(BZIP2)


@verdicts(XZ.format_)
def test_every_xz_file_gets_its_verdict() -> Iterable[Row]:
    yield from general(XZ)
    for size in (1, 5, 6):
        yield f"padding of {size}", lzma.compress(TEXT) + bytes(size), "corrupt"
    for check in (lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_CRC64, lzma.CHECK_SHA256):
        yield f"check {check}", lzma.compress(TEXT, check=check), "ok"
    yield "options of a later version", with_later_xz_options(), "unsupported"


@verdicts(ZSTANDARD.format_)
def test_every_zstandard_file_gets_its_verdict() -> Iterable[Row]:
    yield from general(ZSTANDARD)
    yield "skippable frames", SKIPPED + ZSTANDARD.pack(TEXT) + SKIPPED, "ok"
    yield "truncated skippable frame", ZSTANDARD.pack(TEXT) + SKIPPED[:-1], "corrupt"
    yield "missing dictionary", with_dictionary(), "unsupported"
    yield "window larger than allowed", b"\x28\xb5\x2f\xfd\x00\xa8\x01\0\0", "unsupported"


@verdicts(LZ4.format_)
def test_every_lz4_file_gets_its_verdict() -> Iterable[Row]:
    yield from general(LZ4)
    yield "skippable frames", SKIPPED + LZ4.pack(TEXT) + SKIPPED, "ok"
    yield "truncated skippable frame", LZ4.pack(TEXT) + SKIPPED[:-1], "corrupt"
    yield "legacy frame", LEGACY, "ok"
    yield "truncated legacy frame", LEGACY[:-1], "corrupt"


@each_row("packed", FORMATS, ids=lambda packed: packed.format_.name)
@each_row("data", [b"", b"text", b"BZ", b"PK\x03\x04", bytes(100)])
def test_other_content_is_not_recognised(packed: Packed, data: bytes) -> None:
    assert not examine_bytes(packed.format_, data).recognised


def test_huge_zstandard_frame_is_unpacked_in_bounded_memory() -> None:
    packed = zstandard.ZstdCompressor(level=19).compress(bytes(500_000_000))
    tracemalloc.start()
    assert examine_bytes(ZSTANDARD.format_, packed).finding is Finding.ARCHIVE_BOMB
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()


@each_row("size", [256 * 1024, 256 * 1024 + 1, 1024 * 1024, 1024 * 1024 + 200, 3_000_000])
def test_content_that_ends_at_a_piece_boundary_is_sound(size: int) -> None:
    assert examine_bytes(GZIP.format_, gzip.compress(bytes(size))).outcome is Outcome.OK
    assert examine_bytes(zip_archive.FORMAT, archive(("zeros", bytes(size)))).outcome is Outcome.OK


def measures(packed: Packed, data: bytes, limits: Limits | None = None) -> Mapping[str, Measure]:
    with source_of(data) as source:
        return packed.format_.examine(source, limits or Limits()).measures


@each_row("packed", FORMATS, ids=lambda packed: packed.format_.name)
def test_many_short_streams_take_little_longer_than_their_bytes(packed: Packed) -> None:
    count = 20_000
    data = packed.pack(b"") * count
    began = time.process_time()
    assert measures(packed, data)["streams"] == count
    assert time.process_time() - began < 0.35 * slowness()


@each_row("packed", FORMATS, ids=lambda packed: packed.format_.name)
def test_many_empty_streams_are_partially_checked_past_the_time_limit(packed: Packed) -> None:
    assert measures(packed, packed.pack(b"") * 2000, Limits(soft_seconds=-1))["partially_checked"] is True


def test_frames_in_frames_are_unpacked() -> None:
    def in_frames(data: bytes, size: int) -> bytes:
        return b"".join(ZSTANDARD.pack(data[at : at + size]) for at in range(0, len(data), size))

    inner, file = in_frames(TEXT, 1000), io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive_file:
        member = tarfile.TarInfo("inner.zst")
        member.size = len(inner)
        archive_file.addfile(member, io.BytesIO(inner))
    with source_of(in_frames(file.getvalue(), 777)) as source:
        measured = ZSTANDARD.format_.examine(source, Limits()).measured
    assert measured is not None
    assert measured.facts["unpacked_bytes"] == len(file.getvalue()) + len(TEXT)
