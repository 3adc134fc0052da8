"""GZIP, bzip2, XZ, Zstandard and LZ4: several streams, padding, trailing bytes and damage."""

import bz2
import gzip
import io
import lzma
import tarfile
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
from tests.inspection.formats.examining import examine_bytes
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


FORMATS = [
    Packed(compressed.GZIP, gzip.compress),
    Packed(compressed.BZIP2, bz2.compress),
    Packed(compressed.XZ, lzma.compress, padding=bytes(8), ignores_what_follows=False),
    Packed(compressed.ZSTANDARD, zstandard.ZstdCompressor(write_checksum=True).compress, ignores_what_follows=False),
    Packed(compressed.LZ4, lambda data: lz4_frame.compress(data, content_checksum=True)),
]
each_format = each_row("packed", FORMATS, ids=lambda packed: packed.format_.name)


@each_format
def test_stream_is_sound(packed: Packed) -> None:
    result = examine_bytes(packed.format_, packed.pack(TEXT))
    assert (result.recognised, result.outcome, result.blank) == (True, Outcome.OK, None)


@each_format
def test_several_streams_and_padding_pass(packed: Packed) -> None:
    assert (
        examine_bytes(packed.format_, packed.pack(TEXT) + packed.pack(b"") + packed.pack(TEXT) + packed.padding).outcome
        is Outcome.OK
    )


@each_format
@each_row("kept", [0.05, 0.5, 0.95, 0.999])
def test_truncated_stream_is_corrupt(packed: Packed, kept: float) -> None:
    data = packed.pack(TEXT)
    result = examine_bytes(packed.format_, data[: int(len(data) * kept)])
    assert result.outcome is Outcome.CORRUPT


@each_format
def test_truncated_later_stream_is_corrupt(packed: Packed) -> None:
    assert examine_bytes(packed.format_, packed.pack(TEXT) + packed.pack(TEXT)[:-3]).outcome is Outcome.CORRUPT


@each_format
@each_row("share", [0.2, 0.5, 0.8])
def test_changed_byte_is_corrupt(packed: Packed, share: float) -> None:
    data = bytearray(packed.pack(TEXT))
    data[int(len(data) * share)] ^= 0x41
    assert examine_bytes(packed.format_, bytes(data)).outcome is Outcome.CORRUPT


@each_format
def test_zeroed_start_of_a_later_stream_is_corrupt(packed: Packed) -> None:
    first, later = packed.pack(TEXT), packed.pack(TEXT)
    assert examine_bytes(packed.format_, first + bytes(40) + later[40:] + later).outcome is Outcome.CORRUPT


@each_format
def test_trailing_bytes_pass_where_the_formats_own_tool_ignores_them(packed: Packed) -> None:
    result = examine_bytes(packed.format_, packed.pack(TEXT) + b"some junk that a gateway left")
    assert (result.outcome is Outcome.OK) == packed.ignores_what_follows


@each_format
def test_web_page_after_the_stream_is_corrupt(packed: Packed) -> None:
    assert (
        examine_bytes(packed.format_, packed.pack(TEXT) + b"<!DOCTYPE html><html><body>502</body></html>").outcome
        is Outcome.CORRUPT
    )


@each_format
def test_high_compression_ratio_is_a_bomb_above_the_floor(packed: Packed) -> None:
    limits = replace(Limits(), ratio_floor_bytes=1_000_000)
    assert examine_bytes(packed.format_, packed.pack(bytes(900_000)), limits).finding is None
    assert (
        examine_bytes(packed.format_, packed.pack(bytes(30_000_000)), replace(limits, max_ratio=20)).finding
        is Finding.ARCHIVE_BOMB
    )


@each_format
@each_row("content", [b"", bytes(100_000), b"\r\n \t"])
def test_stream_without_content_is_blank(packed: Packed, content: bytes) -> None:
    assert examine_bytes(packed.format_, packed.pack(content)).blank


@each_format
@each_row("content", [b"x", bytes(300_000) + b"x"])
def test_stream_with_content_is_not_blank(packed: Packed, content: bytes) -> None:
    assert examine_bytes(packed.format_, packed.pack(content)).blank is None


@each_format
def test_tar_archive_inside_is_checked(packed: Packed) -> None:
    def tar(name: str, content: bytes) -> bytes:
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as opened:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            opened.addfile(info, io.BytesIO(content))
        return packed.pack(file.getvalue())

    assert examine_bytes(packed.format_, tar("a", b"x")).passes
    assert examine_bytes(packed.format_, tar("a", b"")).blank
    assert examine_bytes(packed.format_, tar("../a", b"x")).finding is Finding.ARCHIVE_UNSAFE


@each_format
@each_row("data", [b"", b"text", b"BZ", b"PK\x03\x04", bytes(100)])
def test_other_content_is_not_recognised(packed: Packed, data: bytes) -> None:
    assert not examine_bytes(packed.format_, data).recognised


def test_gzip_header_with_name_comment_extra_and_checksum_is_read() -> None:
    head = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\x02\0xy" + b"name\0" + b"comment\0"
    head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little")
    raw = zlib.compressobj(wbits=-15)
    body = raw.compress(TEXT) + raw.flush()
    assert (
        examine_bytes(
            compressed.GZIP, head + body + zlib.crc32(TEXT).to_bytes(4, "little") + len(TEXT).to_bytes(4, "little")
        ).outcome
        is Outcome.OK
    )


@each_row("field", [-8, -4])
def test_wrong_gzip_trailer_is_corrupt(field: int) -> None:
    data = bytearray(gzip.compress(TEXT))
    data[field] ^= 1
    assert examine_bytes(compressed.GZIP, bytes(data)).outcome is Outcome.CORRUPT


@each_row("padding", [1, 5, 6])
def test_xz_padding_of_a_wrong_length_is_corrupt(padding: int) -> None:
    assert examine_bytes(compressed.XZ, lzma.compress(TEXT) + bytes(padding)).outcome is Outcome.CORRUPT


@each_row("check", [lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_CRC64, lzma.CHECK_SHA256])
def test_every_xz_check_type_passes(check: int) -> None:
    assert examine_bytes(compressed.XZ, lzma.compress(TEXT, check=check)).outcome is Outcome.OK


def test_xz_options_of_a_later_version_are_unsupported() -> None:
    data = bytearray(lzma.compress(b""))
    data[6] = data[-4] = 0x80
    data[8:12] = zlib.crc32(data[6:8]).to_bytes(4, "little")
    data[-12:-8] = zlib.crc32(data[-8:-2]).to_bytes(4, "little")
    assert examine_bytes(compressed.XZ, bytes(data)).outcome is Outcome.UNSUPPORTED


@each_row("format_", [compressed.ZSTANDARD, compressed.LZ4], ids=["zst", "lz4"])
def test_skippable_frames_are_skipped(format_: Format) -> None:
    pack = next(packed.pack for packed in FORMATS if packed.format_ is format_)
    assert examine_bytes(format_, SKIPPED + pack(TEXT) + SKIPPED).passes
    assert examine_bytes(format_, pack(TEXT) + SKIPPED[:-1]).outcome is Outcome.CORRUPT


def test_zstandard_with_a_missing_dictionary_is_unsupported() -> None:
    dictionary = zstandard.train_dictionary(2000, [b"some text number %d" % number * 5 for number in range(300)])
    packed = zstandard.ZstdCompressor(dict_data=dictionary).compress(TEXT)
    assert examine_bytes(compressed.ZSTANDARD, packed).outcome is Outcome.UNSUPPORTED


def test_huge_zstandard_frame_is_unpacked_in_bounded_memory() -> None:
    packed = zstandard.ZstdCompressor(level=19).compress(bytes(500_000_000))
    tracemalloc.start()
    assert examine_bytes(compressed.ZSTANDARD, packed).finding is Finding.ARCHIVE_BOMB
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()


def test_zstandard_window_larger_than_allowed_is_unsupported() -> None:
    assert examine_bytes(compressed.ZSTANDARD, b"\x28\xb5\x2f\xfd\x00\xa8\x01\0\0").outcome is Outcome.UNSUPPORTED


def test_legacy_lz4_frame_is_read() -> None:
    packed = lz4_block.compress(TEXT, store_size=False)
    data = b"\x02\x21\x4c\x18" + len(packed).to_bytes(4, "little") + packed
    assert examine_bytes(compressed.LZ4, data).passes
    assert examine_bytes(compressed.LZ4, data[:-1]).outcome is Outcome.CORRUPT


@each_row("size", [256 * 1024, 256 * 1024 + 1, 1024 * 1024, 1024 * 1024 + 200, 3_000_000])
def test_content_that_ends_at_a_piece_boundary_is_sound(size: int) -> None:
    assert examine_bytes(compressed.GZIP, gzip.compress(bytes(size))).outcome is Outcome.OK
    assert examine_bytes(zip_archive.FORMAT, archive(("zeros", bytes(size)))).outcome is Outcome.OK
