"""ZIP: integrity, encryption and blankness."""

import lzma
import struct
import zipfile
import zlib
from functools import partial

from sluice_inspect.formats.zip import FORMAT
from sluice_inspect.report import Finding, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.zip_samples import archive
from tests.inspection.threats.packed_files import streamed_zip
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)

HTML = b"<!DOCTYPE html>\n<html><body>502 Bad Gateway</body></html>\n"


def central_entry(data: bytes, field: int, fmt: str, value: int) -> bytes:
    at = data.index(b"PK\x01\x02") + field
    return data[:at] + struct.pack(fmt, value) + data[at + struct.calcsize(fmt) :]


def with_method(data: bytes, method: int) -> bytes:
    """Change the method of the first member, in both of its headers."""
    return central_entry(data[:8] + struct.pack("<H", method) + data[10:], 10, "<H", method)


def xz_member() -> bytes:
    plain = b"text " * 50
    packed = lzma.compress(plain)
    data = archive(("a", packed), method=zipfile.ZIP_STORED)
    data = data.replace(
        struct.pack("<LLL", zlib.crc32(packed), len(packed), len(packed)),
        struct.pack("<LLL", zlib.crc32(plain), len(packed), len(plain)),
    )
    return with_method(data, 95)


GOOD = archive(("a.txt", b"some text\n"), ("folder/b.bin", bytes(range(256)) * 40))
CONTENT = GOOD.index(b"folder/b.bin") + 40
DAMAGED = GOOD[:CONTENT] + bytes([GOOD[CONTENT] ^ 0xFF]) + GOOD[CONTENT + 1 :]
END = GOOD.rindex(b"PK\x05\x06")


@each_row("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_of_every_available_method_are_unpacked(method: int) -> None:
    data = archive(("a", b"content " * 100_000), ("b", b""), method=method)
    assert examine(data) == Examined(recognised=True, outcome=Outcome.OK)


@each_row(
    ("case", "data", "verdict"),
    [
        ("streamed", streamed_zip({"a.txt": b"some text", "b.txt": b"more text"}), Outcome.OK),
        ("XZ", xz_member(), Outcome.OK),
        ("script before the archive", b"#!/usr/bin/env python3\n" + GOOD, Outcome.OK),
        ("mail before the archive", b"From: me\n\n" + GOOD, Outcome.OK),
        ("noise before the archive", b"\x8a\x7e\xca\x56" * 20 + GOOD, Outcome.OK),
        ("text behind the archive", GOOD + b"\r\n-- sent by a gateway\r\n", Outcome.OK),
        ("page behind the archive", GOOD + HTML, Outcome.CORRUPT),
        ("picture before the archive", b"\x89PNG\r\n\x1a\n" + bytes(100) + GOOD, Finding.POLYGLOT),
        ("archive before the archive", GOOD + archive(("b", b"y")), Finding.ARCHIVE_UNSAFE),
        ("unknown method", with_method(GOOD, 98), Outcome.UNSUPPORTED),
        ("damage beside an unknown method", with_method(DAMAGED, 98), Outcome.CORRUPT),
        ("password", central_entry(GOOD[:6] + bytes([GOOD[6] | 1]) + GOOD[7:], 8, "<H", 1), Outcome.ENCRYPTED),
        *((f"cut at {kept}", GOOD[: int(len(GOOD) * kept)], Outcome.CORRUPT) for kept in (0.2, 0.5, 0.95, 0.999)),
        ("changed line ends", GOOD.replace(b"\n", b"\r\n"), Outcome.CORRUPT),
        ("wrong method", central_entry(GOOD, 10, "<H", 0), Outcome.CORRUPT),
        ("wrong checksum", central_entry(GOOD, 16, "<L", 1), Outcome.CORRUPT),
        ("wrong packed size", central_entry(GOOD, 20, "<L", 7), Outcome.CORRUPT),
        ("wrong size", central_entry(GOOD, 24, "<L", 7), Outcome.CORRUPT),
        ("wrong offset", central_entry(GOOD, 42, "<L", 3), Outcome.CORRUPT),
        ("wrong count", GOOD[: END + 8] + struct.pack("<HH", 9, 9) + GOOD[END + 12 :], Outcome.CORRUPT),
        ("one of several volumes", GOOD[: END + 4] + struct.pack("<HH", 1, 0) + GOOD[END + 8 :], Outcome.CORRUPT),
    ],
)
def test_archive_gets_its_verdict(case: str, data: bytes, verdict: Outcome | Finding) -> None:
    assert examine(data).verdict is verdict


@each_row("at", range(30, 600, 61))
def test_changed_byte_of_content_is_corrupt_and_the_member_is_named(at: int) -> None:
    data = bytearray(archive(("a.bin", bytes(range(256)) * 4), method=zipfile.ZIP_STORED))
    data[at + 5] ^= 0x55
    result = examine(bytes(data))
    assert result.outcome is Outcome.CORRUPT
    assert "a.bin" in result.detail


@each_row(
    "data",
    [
        *(HTML + GOOD, b"MZ" + bytes(100) + GOOD, b"\x7fELF" + bytes(100) + GOOD),
        *(b"", b"text", b"PK", b"%PDF-1.7 and text", b"text with PK\x05\x06 within" + bytes(30)),
    ],
)
def test_other_content_or_a_program_with_an_archive_is_not_recognised(data: bytes) -> None:
    assert not examine(data).recognised


@each_row(
    ("members", "blank"),
    [
        ([], True),
        ([("folder/", b"")], True),
        ([("a", b""), ("b", b"")], True),
        ([("a", b" \r\n\t")], True),
        ([("a", bytes(5000))], True),
        ([("__MACOSX/._a", b"\0\5\x16\7"), (".DS_Store", b"Bud1")], True),
        ([("inner.zip", archive(("a", b"\n")))], True),
        ([("a", b"x")], False),
        ([("a", b""), ("b", b"1")], False),
        ([("inner.zip", archive(("a", b"0")))], False),
        ([("a", bytes(400_000) + b"x")], False),
    ],
)
def test_archive_without_content_is_blank(members: list[tuple[str, bytes]], *, blank: bool) -> None:
    assert bool(examine(archive(*members)).blank) is blank
