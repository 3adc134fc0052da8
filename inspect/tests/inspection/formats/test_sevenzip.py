"""7z: integrity, safety, encryption and blankness."""

import io
import random
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest

from sluice_inspect.archives import libarchive
from sluice_inspect.archives.sevenzip.walk import MAGIC
from sluice_inspect.formats.sevenzip import FORMAT
from sluice_inspect.report import Limits, Outcome
from tests.inspection.formats.examining import Row, cuts, examine_bytes, verdicts
from tests.required import UNDER_CI

examine = partial(examine_bytes, FORMAT)
py7zr = pytest.importorskip("py7zr")

CODE = random.Random(7).randbytes(2_000) * 30
FILTERS: Mapping[str, Sequence[Mapping[str, int]]] = {
    "copy": [{"id": py7zr.FILTER_COPY}],
    "lzma": [{"id": py7zr.FILTER_LZMA}],
    "lzma2": [{"id": py7zr.FILTER_LZMA2, "preset": 3}],
    "bzip2": [{"id": py7zr.FILTER_BZIP2}],
    "deflate": [{"id": py7zr.FILTER_DEFLATE}],
    "zstandard": [{"id": py7zr.FILTER_ZSTD, "level": 3}],
    "delta": [{"id": py7zr.FILTER_DELTA}, {"id": py7zr.FILTER_LZMA2, "preset": 3}],
    "x86 and lzma": [{"id": py7zr.FILTER_X86}, {"id": py7zr.FILTER_LZMA}],
    "x86 and lzma2": [{"id": py7zr.FILTER_X86}, {"id": py7zr.FILTER_LZMA2, "preset": 3}],
    "arm and bzip2": [{"id": py7zr.FILTER_ARM}, {"id": py7zr.FILTER_BZIP2}],
}
LOCKED = [{"id": py7zr.FILTER_LZMA2, "preset": 3}, {"id": py7zr.FILTER_CRYPTO_AES256_SHA256}]


def archive(
    *members: tuple[str, bytes], filters: Sequence[Mapping[str, int]] = FILTERS["lzma2"], password: str | None = None
) -> bytes:
    file = io.BytesIO()
    with py7zr.SevenZipFile(file, "w", filters=filters, password=password) as opened:
        for name, content in members:
            opened.writestr(content, name)
    return file.getvalue()


def raw(header: bytes, packed: bytes = b"", *, crc: int | None = None, version: bytes = b"\0\4") -> bytes:
    start = struct.pack("<QQL", len(packed), len(header), zlib.crc32(header) if crc is None else crc)
    return MAGIC + version + struct.pack("<L", zlib.crc32(start)) + start + packed + header


MEMBERS = (("code.bin", CODE), ("empty", b""), ("dir/text.txt", b"some text\n" * 500))
GOOD = archive(*MEMBERS)
PPMD = {"id": py7zr.FILTER_PPMD, "order": 6, "mem": 24}


def changed(data: bytes, at: int, bits: int = 1) -> bytes:
    broken = bytearray(data)
    broken[at] ^= bits
    return bytes(broken)


@verdicts(FORMAT)
def test_archives_of_every_available_method_are_unpacked_and_verified() -> Iterable[Row]:
    for name, filters in FILTERS.items():
        data = archive(*MEMBERS, filters=filters)
        yield name, data, "ok"
        yield f"changed byte, {name}", changed(data, len(data) // 2), "corrupt"
    for hides_names in (False, True):
        with py7zr.SevenZipFile(
            file := io.BytesIO(), "w", filters=LOCKED, password="x", header_encryption=hides_names
        ) as opened:
            opened.writestr(CODE, "code.bin")
        yield f"password {hides_names}", file.getvalue(), "encrypted"


@pytest.mark.skipif(
    not libarchive.is_installed() and not UNDER_CI, reason="libarchive is not installed: apt-get install libarchive13"
)
def test_method_known_only_to_libarchive_is_unpacked_by_it() -> None:
    data = archive(*MEMBERS, filters=[PPMD])
    assert examine(data).outcome is Outcome.OK
    assert examine(changed(data, len(data) // 2)).outcome is Outcome.CORRUPT


def test_method_without_a_reader_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    chained = archive(*MEMBERS, filters=[{"id": py7zr.FILTER_X86}, PPMD])
    assert examine(chained).outcome in {Outcome.OK, Outcome.UNSUPPORTED}
    assert examine(archive(*MEMBERS, filters=[{"id": py7zr.FILTER_BROTLI, "level": 5}])).outcome is Outcome.UNSUPPORTED
    monkeypatch.setattr(libarchive, "_LIBRARY", None)
    assert examine(archive(*MEMBERS, filters=[PPMD])).outcome is Outcome.UNSUPPORTED


@verdicts(FORMAT)
def test_truncated_archive_or_invalid_header_is_corrupt() -> Iterable[Row]:
    yield from cuts(GOOD, 0.1, 0.5, 0.95, 0.999)
    for at in (8, 13, 21, 29, -5, -20):
        yield f"changed byte {at}", changed(GOOD, at, 0x10), "corrupt"
    for header in (
        b"\x09",
        b"\x01\x04",
        b"\x01\x77",
        b"\x01\x05\xff" + b"\xff" * 8,
        b"\x01\x05\x02\x11\x07\x00a\0b\0c\0\x00",
        b"\x01\x04\x06\x00\x02\x09\x01\x01\x00\x00\x00",
        b"\x01\x04\x06\x00\x01\x09\x01\x00\x07\x0b\x01\x00\x01\x81\x00\x0c\x01\x00\x00\x00",
        b"\x01\x04\x06\x00\x01\x09\x01\x00\x07\x0b\x01\x00\x03"
        + b"\x01\x00" * 3
        + b"\x01\x00\x00\x01\x0c\x01\x01\x01\x00\x00\x00",
        b"\x17\x06\x00\x01\x09\x7f\x00\x07\x0b\x01\x00\x01\x01\x00\x0c\x7f\x00\x00",
    ):
        yield f"{header!r}", raw(header), "corrupt"
    yield "trailing text", GOOD + b"\r\n-- sent by a gateway\r\n", "ok"
    yield "trailing page", GOOD + b"<!DOCTYPE html><html><body>502</body></html>", "corrupt"


@verdicts(FORMAT)
def test_archive_of_too_much_is_a_bomb_and_one_without_content_blank() -> Iterable[Row]:
    many = archive(*((str(number), b"x") for number in range(12)))
    yield "too many members", many, "archive_bomb", replace(Limits(), max_members=10)
    zeros = archive(("zeros", bytes(3_000_000)))
    yield "zeros", zeros, "blank"
    yield "too many bytes", zeros, "archive_bomb", replace(Limits(), ratio_floor_bytes=1_000_000)
    for empty in (raw(b""), archive(), archive(("a", b"")), archive(("a", b" \n")), archive(("__MACOSX/._a", b"\0\5"))):
        yield f"no content {empty!r}", empty, "blank"
    yield "a digit", archive(("a", b""), ("b", b"0")), "ok"


@pytest.mark.asvs("5.2.5")
@verdicts(FORMAT)
def test_links_devices_pipes_and_names_outside_are_unsafe() -> Iterable[Row]:
    sample = FORMAT.sample()
    for name in ("../a", "/etc/a", "C:/a", "a/../../b", "..\\a"):
        header = sample[52:].replace("sluice.txt".encode("utf-16-le"), name.ljust(10, "x").encode("utf-16-le"))
        assert len(header) == len(sample) - 52
        yield name, raw(header, sample[32:52]), "archive_unsafe"
    modes = [0x8000 | mode << 16 for mode in (0o120777, 0o020666, 0o010644, 0o140755)]
    for attributes in (*modes, 0o120777 << 16, 0x0400):
        header = sample[52:-2] + b"\x15\x06\x01\x00" + struct.pack("<L", attributes) + sample[-2:]
        yield f"attributes {attributes:x}", raw(header, sample[32:52]), "archive_unsafe"


def test_py7zr_reads_the_sample() -> None:
    with py7zr.SevenZipFile(io.BytesIO(FORMAT.sample())) as opened:
        assert opened.getnames() == ["sluice.txt"]
        assert opened.testzip() is None
