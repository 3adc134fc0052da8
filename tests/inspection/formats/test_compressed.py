"""GZIP, bzip2, XZ, Zstandard and LZ4: several streams, padding, trailing bytes and damage."""

import bz2
import gzip
import lzma
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import zstandard
from lz4 import block as lz4_block
from lz4 import frame as lz4_frame

from sluice_inspect.format import Format
from sluice_inspect.formats import compressed
from sluice_inspect.formats import zip as zip_archive
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats import test_tar as tar
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.zip_samples import archive
from tests.rows import each_row

TEXT = b"".join(b"line %d of a text\n" % number for number in range(3000))
SKIPPED = b"\x50\x2a\x4d\x18\x04\0\0\0skip"


@dataclass(frozen=True)
class Packed:
    format_: Format
    pack: Callable[[bytes], bytes]
    padding: bytes = bytes(7)
    ignores_what_follows: bool = True

    def examine(self, data: bytes, limits: Limits | None = None) -> Examined:
        return examine_bytes(self.format_, data, limits)


FORMATS = [
    Packed(compressed.GZIP, gzip.compress),
    Packed(compressed.BZIP2, bz2.compress),
    Packed(compressed.XZ, lzma.compress, padding=bytes(8), ignores_what_follows=False),
    Packed(compressed.ZSTANDARD, zstandard.ZstdCompressor(write_checksum=True).compress, ignores_what_follows=False),
    Packed(compressed.LZ4, lambda data: lz4_frame.compress(data, content_checksum=True)),
]
each_format = each_row("packed", FORMATS, ids=lambda packed: packed.format_.name)


@each_format
def test_streams_and_their_padding_are_sound(packed: Packed) -> None:
    whole = packed.pack(TEXT)
    assert packed.examine(whole) == Examined(recognised=True, outcome=Outcome.OK)
    assert packed.examine(whole + packed.pack(b"") + whole + packed.padding).outcome is Outcome.OK


@each_format
@each_row("share", [0.05, 0.2, 0.5, 0.8, 0.95, 0.999])
def test_truncated_or_changed_stream_is_corrupt(packed: Packed, share: float) -> None:
    data = packed.pack(TEXT)
    at = int(len(data) * share)
    assert packed.examine(data[:at]).outcome is Outcome.CORRUPT
    if share in {0.2, 0.5, 0.8}:
        assert packed.examine(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]).outcome is Outcome.CORRUPT


@each_format
def test_damaged_later_stream_is_corrupt(packed: Packed) -> None:
    whole = packed.pack(TEXT)
    assert packed.examine(whole + whole[:-3]).outcome is Outcome.CORRUPT
    assert packed.examine(whole + bytes(40) + whole[40:] + whole).outcome is Outcome.CORRUPT


@each_format
def test_trailing_bytes_pass_where_the_formats_own_tool_ignores_them(packed: Packed) -> None:
    result = packed.examine(packed.pack(TEXT) + b"some junk that a gateway left")
    assert (result.outcome is Outcome.OK) == packed.ignores_what_follows
    page = b"<!DOCTYPE html><html><body>502</body></html>"
    assert packed.examine(packed.pack(TEXT) + page).outcome is Outcome.CORRUPT


@each_format
def test_high_compression_ratio_is_a_bomb_above_the_floor(packed: Packed) -> None:
    limits = replace(Limits(), ratio_floor_bytes=1_000_000)
    assert packed.examine(packed.pack(bytes(900_000)), limits).finding is None
    bomb = packed.examine(packed.pack(bytes(30_000_000)), replace(limits, max_ratio=20))
    assert bomb.finding is Finding.ARCHIVE_BOMB


@each_format
@each_row(
    ("content", "blank"),
    [(b"", True), (bytes(100_000), True), (b"\r\n \t", True), (b"x", False), (bytes(300_000) + b"x", False)],
)
def test_stream_without_content_is_blank(packed: Packed, content: bytes, *, blank: bool) -> None:
    assert bool(packed.examine(packed.pack(content)).blank) is blank


@each_format
def test_tar_archive_inside_is_checked(packed: Packed) -> None:
    assert packed.examine(packed.pack(tar.archive(tar.entry("a", b"x")))).passes
    assert packed.examine(packed.pack(tar.archive(tar.entry("a")))).blank
    outside = packed.examine(packed.pack(tar.archive(tar.entry("../a", b"x"))))
    assert outside.finding is Finding.ARCHIVE_UNSAFE


@each_format
@each_row("data", [b"", b"text", b"BZ", b"PK\x03\x04", bytes(100)])
def test_other_content_is_not_recognised(packed: Packed, data: bytes) -> None:
    assert not packed.examine(data).recognised


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
XZ_CHECKS = {"none": lzma.CHECK_NONE, "CRC-32": lzma.CHECK_CRC32, "CRC-64": lzma.CHECK_CRC64, "SHA": lzma.CHECK_SHA256}
GZIP, BZIP2, XZ, ZSTANDARD, LZ4 = FORMATS


@each_row(
    ("case", "packed", "data", "outcome"),
    [
        ("header with all fields", GZIP, with_full_gzip_header(), Outcome.OK),
        ("wrong checksum", GZIP, changed_from_behind(gzip.compress(TEXT), 8), Outcome.CORRUPT),
        ("wrong length", GZIP, changed_from_behind(gzip.compress(TEXT), 4), Outcome.CORRUPT),
        *((f"padding of {size}", XZ, lzma.compress(TEXT) + bytes(size), Outcome.CORRUPT) for size in (1, 5, 6)),
        *((name, XZ, lzma.compress(TEXT, check=check), Outcome.OK) for name, check in XZ_CHECKS.items()),
        ("options of a later version", XZ, with_later_xz_options(), Outcome.UNSUPPORTED),
        ("skippable frames", ZSTANDARD, SKIPPED + ZSTANDARD.pack(TEXT) + SKIPPED, Outcome.OK),
        ("truncated skippable frame", ZSTANDARD, ZSTANDARD.pack(TEXT) + SKIPPED[:-1], Outcome.CORRUPT),
        ("skippable frames", LZ4, SKIPPED + LZ4.pack(TEXT) + SKIPPED, Outcome.OK),
        ("truncated skippable frame", LZ4, LZ4.pack(TEXT) + SKIPPED[:-1], Outcome.CORRUPT),
        ("missing dictionary", ZSTANDARD, with_dictionary(), Outcome.UNSUPPORTED),
        ("window larger than allowed", ZSTANDARD, b"\x28\xb5\x2f\xfd\x00\xa8\x01\0\0", Outcome.UNSUPPORTED),
        ("legacy frame", LZ4, LEGACY, Outcome.OK),
        ("truncated legacy frame", LZ4, LEGACY[:-1], Outcome.CORRUPT),
    ],
)
def test_variant_of_one_format_gets_its_outcome(case: str, packed: Packed, data: bytes, outcome: Outcome) -> None:
    assert packed.examine(data).verdict is outcome


def test_huge_zstandard_frame_is_unpacked_in_bounded_memory() -> None:
    packed = zstandard.ZstdCompressor(level=19).compress(bytes(500_000_000))
    tracemalloc.start()
    assert ZSTANDARD.examine(packed).finding is Finding.ARCHIVE_BOMB
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()


@each_row("size", [256 * 1024, 256 * 1024 + 1, 1024 * 1024, 1024 * 1024 + 200, 3_000_000])
def test_content_that_ends_at_a_piece_boundary_is_sound(size: int) -> None:
    assert GZIP.examine(gzip.compress(bytes(size))).outcome is Outcome.OK
    assert examine_bytes(zip_archive.FORMAT, archive(("zeros", bytes(size)))).outcome is Outcome.OK
