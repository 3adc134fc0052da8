"""What GZIP, bzip2, XZ, Zstandard and LZ4 files have in common: several streams, padding, other bytes behind, cuts, changes."""

import bz2
import gzip
import io
import lzma
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import zstandard
from lz4 import block as lz4_block
from lz4 import frame as lz4_frame

from sluice.formats.kind import Kind
from sluice.formats.kinds import bzip2, gz, lz4, xz, zst
from sluice.formats.kinds import zip as zip_archive
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.judging import corpus, judge, needs_corpus
from tests.formats.zips import archive

TEXT = b"".join(b"line %d of a text\n" % number for number in range(3000))
SKIPPED = b"\x50\x2a\x4d\x18\x04\0\0\0skip"


@dataclass(frozen=True)
class Format:
    kind: Kind
    pack: Callable[[bytes], bytes]
    padding: bytes = bytes(7)
    ignores_what_follows: bool = True


FORMATS = [
    Format(gz.KIND, gzip.compress),
    Format(bzip2.KIND, bz2.compress),
    Format(xz.KIND, lzma.compress, padding=bytes(8), ignores_what_follows=False),
    Format(
        zst.KIND,
        zstandard.ZstdCompressor(write_checksum=True).compress,
        ignores_what_follows=False,
    ),
    Format(lz4.KIND, lambda data: lz4_frame.compress(data, content_checksum=True)),
]
each_format = pytest.mark.parametrize("packed", FORMATS, ids=lambda packed: packed.kind.name)


@each_format
def test_a_stream_is_sound(packed: Format) -> None:
    found = judge(packed.kind, packed.pack(TEXT))
    assert (found.recognised, found.outcome, found.blank) == (True, Outcome.OK, None)


@each_format
def test_several_streams_and_padding_are_one_file(packed: Format) -> None:
    assert judge(packed.kind, packed.pack(TEXT) + packed.pack(b"") + packed.pack(TEXT) + packed.padding).outcome is Outcome.OK


@each_format
@pytest.mark.parametrize("kept", [0.05, 0.5, 0.95, 0.999])
def test_a_cut_stream_is_corrupt(packed: Format, kept: float) -> None:
    data = packed.pack(TEXT)
    found = judge(packed.kind, data[: int(len(data) * kept)])
    assert found.outcome is Outcome.CORRUPT


@each_format
def test_a_cut_in_a_later_stream_is_corrupt(packed: Format) -> None:
    assert judge(packed.kind, packed.pack(TEXT) + packed.pack(TEXT)[:-3]).outcome is Outcome.CORRUPT


@each_format
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_a_changed_byte_is_corrupt(packed: Format, share: float) -> None:
    data = bytearray(packed.pack(TEXT))
    data[int(len(data) * share)] ^= 0x41
    assert judge(packed.kind, bytes(data)).outcome is Outcome.CORRUPT


@each_format
def test_zeros_over_the_start_of_a_later_stream_are_corrupt(packed: Format) -> None:
    first, later = packed.pack(TEXT), packed.pack(TEXT)
    assert judge(packed.kind, first + bytes(40) + later[40:] + later).outcome is Outcome.CORRUPT


@each_format
def test_other_bytes_behind_pass_where_the_formats_own_tool_ignores_them(packed: Format) -> None:
    found = judge(packed.kind, packed.pack(TEXT) + b"some junk that a gateway left")
    assert (found.outcome is Outcome.OK) == packed.ignores_what_follows


@each_format
def test_a_web_page_behind_is_corrupt(packed: Format) -> None:
    assert judge(packed.kind, packed.pack(TEXT) + b"<!DOCTYPE html><html><body>502</body></html>").outcome is Outcome.CORRUPT


@each_format
def test_much_from_little_is_a_bomb_once_it_is_much(packed: Format) -> None:
    limits = replace(Limits(), ratio_floor_bytes=1_000_000)
    assert judge(packed.kind, packed.pack(bytes(900_000)), limits).finding is None
    assert judge(packed.kind, packed.pack(bytes(30_000_000)), replace(limits, max_ratio=20)).finding is Finding.ARCHIVE_BOMB


@each_format
@pytest.mark.parametrize("content", [b"", bytes(100_000), b"\r\n \t"])
def test_a_stream_of_nothing_is_blank(packed: Format, content: bytes) -> None:
    assert judge(packed.kind, packed.pack(content)).blank


@each_format
@pytest.mark.parametrize("content", [b"x", bytes(300_000) + b"x"])
def test_a_stream_of_anything_is_not_blank(packed: Format, content: bytes) -> None:
    assert judge(packed.kind, packed.pack(content)).blank is None


@each_format
def test_a_tar_archive_within_is_judged(packed: Format) -> None:
    def tar(name: str, content: bytes) -> bytes:
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as opened:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            opened.addfile(info, io.BytesIO(content))
        return packed.pack(file.getvalue())

    assert judge(packed.kind, tar("a", b"x")).passes
    assert judge(packed.kind, tar("a", b"")).blank
    assert judge(packed.kind, tar("../a", b"x")).finding is Finding.ARCHIVE_UNSAFE


@each_format
def test_the_sample_is_good(packed: Format) -> None:
    assert judge(packed.kind, packed.kind.sample()).passes


@each_format
@pytest.mark.parametrize("data", [b"", b"text", b"BZ", b"PK\x03\x04", bytes(100)])
def test_other_content_is_not_recognised(packed: Format, data: bytes) -> None:
    assert not judge(packed.kind, data).recognised


def test_a_gzip_header_with_name_comment_extra_and_checksum_is_read() -> None:
    head = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\x02\0xy" + b"name\0" + b"comment\0"
    head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little")
    raw = zlib.compressobj(wbits=-15)
    body = raw.compress(TEXT) + raw.flush()
    assert (
        judge(gz.KIND, head + body + zlib.crc32(TEXT).to_bytes(4, "little") + len(TEXT).to_bytes(4, "little")).outcome is Outcome.OK
    )


@pytest.mark.parametrize("field", [-8, -4])
def test_a_wrong_gzip_trailer_is_corrupt(field: int) -> None:
    data = bytearray(gzip.compress(TEXT))
    data[field] ^= 1
    assert judge(gz.KIND, bytes(data)).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("padding", [1, 5, 6])
def test_xz_padding_of_another_length_than_the_format_allows_is_corrupt(padding: int) -> None:
    assert judge(xz.KIND, lzma.compress(TEXT) + bytes(padding)).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("check", [lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_CRC64, lzma.CHECK_SHA256])
def test_xz_checks_of_every_kind_are_known(check: int) -> None:
    assert judge(xz.KIND, lzma.compress(TEXT, check=check)).outcome is Outcome.OK


def test_xz_options_of_a_later_version_are_unsupported() -> None:
    data = bytearray(lzma.compress(b""))
    data[6] = data[-4] = 0x80
    data[8:12] = zlib.crc32(data[6:8]).to_bytes(4, "little")
    data[-12:-8] = zlib.crc32(data[-8:-2]).to_bytes(4, "little")
    assert judge(xz.KIND, bytes(data)).outcome is Outcome.UNSUPPORTED


@pytest.mark.parametrize("kind", [zst.KIND, lz4.KIND], ids=["zst", "lz4"])
def test_frames_that_are_to_be_skipped_are(kind: Kind) -> None:
    pack = next(packed.pack for packed in FORMATS if packed.kind is kind)
    assert judge(kind, SKIPPED + pack(TEXT) + SKIPPED).passes
    assert judge(kind, pack(TEXT) + SKIPPED[:-1]).outcome is Outcome.CORRUPT


def test_a_zstandard_dictionary_that_is_not_there_is_unsupported() -> None:
    dictionary = zstandard.train_dictionary(2000, [b"some text number %d" % number * 5 for number in range(300)])
    packed = zstandard.ZstdCompressor(dict_data=dictionary).compress(TEXT)
    assert judge(zst.KIND, packed).outcome is Outcome.UNSUPPORTED


def test_a_zstandard_frame_that_unpacks_to_very_much_is_held_in_small_pieces() -> None:
    packed = zstandard.ZstdCompressor(level=19).compress(bytes(500_000_000))
    tracemalloc.start()
    assert judge(zst.KIND, packed).finding is Finding.ARCHIVE_BOMB
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()


def test_a_zstandard_window_larger_than_allowed_is_unsupported() -> None:
    assert judge(zst.KIND, b"\x28\xb5\x2f\xfd\x00\xa8\x01\0\0").outcome is Outcome.UNSUPPORTED


def test_lz4_of_the_oldest_layout_is_read() -> None:
    packed = lz4_block.compress(TEXT, store_size=False)
    data = b"\x02\x21\x4c\x18" + len(packed).to_bytes(4, "little") + packed
    assert judge(lz4.KIND, data).passes
    assert judge(lz4.KIND, data[:-1]).outcome is Outcome.CORRUPT


@needs_corpus
@each_format
def test_corpus_good_files_pass_and_broken_ones_do_not(packed: Format) -> None:
    name = packed.kind.name
    assert [path.name for path in corpus(name, "valid", "not_blank") if not judge(packed.kind, path.read_bytes()).passes] == []
    assert [path.name for path in corpus(name, "corrupt") if judge(packed.kind, path.read_bytes()).passes] == []


@needs_corpus
@each_format
def test_corpus_blank_files_are_found(packed: Format) -> None:
    assert [path.name for path in corpus(packed.kind.name, "blank") if not judge(packed.kind, path.read_bytes()).blank] == []


@pytest.mark.parametrize("size", [256 * 1024, 256 * 1024 + 1, 1024 * 1024, 1024 * 1024 + 200, 3_000_000])
def test_what_unpacks_to_whole_pieces_from_its_last_bytes_is_sound(size: int) -> None:
    assert judge(gz.KIND, gzip.compress(bytes(size))).outcome is Outcome.OK
    assert judge(zip_archive.KIND, archive(("zeros", bytes(size)))).outcome is Outcome.OK
