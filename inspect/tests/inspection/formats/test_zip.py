"""ZIP: integrity, encryption, unsafe members, bombs and blankness."""

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import replace

import pytest

from sluice_inspect.formats.zip import FORMAT
from sluice_inspect.report import Limits
from tests.inspection.formats.examining import Row, cuts, examine_bytes, verdicts
from tests.inspection.formats.zip_samples import archive
from tests.inspection.threats.packed_files import streamed_zip

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
CONTENT, DIRECTORY, END = GOOD.index(b"folder/b.bin") + 40, GOOD.index(b"PK\x01\x02"), GOOD.rindex(b"PK\x05\x06")


def archive_with_mode(name: str, mode: int) -> bytes:
    file = io.BytesIO()
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr(info, "/etc/hostname")
    return file.getvalue()


def before_the_directory(inserted: bytes) -> bytes:
    end = bytearray(GOOD[DIRECTORY:])
    struct.pack_into("<L", end, len(end) - 6, DIRECTORY + len(inserted))
    return GOOD[:DIRECTORY] + inserted + bytes(end)


def member_only(name: str) -> bytes:
    whole = archive((name, b"x"), method=zipfile.ZIP_STORED)
    return whole[: whole.index(b"PK\x01\x02")]


def overlapping(count: int, size: int) -> bytes:
    one = archive(("a" * 8, bytes(size)))
    at, end = one.index(b"PK\x01\x02"), one.rindex(b"PK\x05\x06")
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, (end - at) * count, at, 0)
    return one[:at] + one[at:end] * count + tail


def nested(depth: int, name: str = "a") -> bytes:
    data = archive((name, b"x"))
    for _ in range(depth - 1):
        data = archive(("inner.zip", data))
    return data


@verdicts(FORMAT)
def test_sound_damaged_or_locked_archive_gets_its_verdict() -> Iterable[Row]:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        yield f"method {method}", archive(("a", b"content " * 100_000), ("b", b""), method=method), "ok"
    yield "streamed", streamed_zip({"a.txt": b"some text", "b.txt": b"more text"}), "ok"
    yield "XZ", xz_member(), "ok"
    yield "script before the archive", b"#!/usr/bin/env python3\n" + GOOD, "ok"
    yield "mail before the archive", b"From: me\n\n" + GOOD, "ok"
    yield "noise before the archive", b"\x8a\x7e\xca\x56" * 20 + GOOD, "ok"
    yield "text behind the archive", GOOD + b"\r\n-- sent by a gateway\r\n", "ok"
    yield "page behind the archive", GOOD + HTML, "corrupt"
    yield "picture before the archive", b"\x89PNG\r\n\x1a\n" + bytes(100) + GOOD, "polyglot_file"
    yield "archive before the archive", GOOD + archive(("b", b"y")), "archive_unsafe"
    yield "unknown method", with_method(GOOD, 98), "unsupported"
    damaged = GOOD[:CONTENT] + bytes([GOOD[CONTENT] ^ 0xFF]) + GOOD[CONTENT + 1 :]
    yield "damage beside an unknown method", with_method(damaged, 98), "corrupt"
    yield "password", central_entry(GOOD[:6] + bytes([GOOD[6] | 1]) + GOOD[7:], 8, "<H", 1), "encrypted"
    yield from cuts(GOOD, 0.2, 0.5, 0.95, 0.999)
    yield "changed line ends", GOOD.replace(b"\n", b"\r\n"), "corrupt"
    yield "wrong method", central_entry(GOOD, 10, "<H", 0), "corrupt"
    yield "wrong checksum", central_entry(GOOD, 16, "<L", 1), "corrupt"
    yield "wrong packed size", central_entry(GOOD, 20, "<L", 7), "corrupt"
    yield "wrong size", central_entry(GOOD, 24, "<L", 7), "corrupt"
    yield "wrong offset", central_entry(GOOD, 42, "<L", 3), "corrupt"
    yield "wrong count", GOOD[: END + 8] + struct.pack("<HH", 9, 9) + GOOD[END + 12 :], "corrupt"
    yield "one of several volumes", GOOD[: END + 4] + struct.pack("<HH", 1, 0) + GOOD[END + 8 :], "corrupt"
    stored = archive(("a.bin", bytes(range(256)) * 4), method=zipfile.ZIP_STORED)
    for at in range(35, 605, 61):
        yield f"changed byte {at}", stored[:at] + bytes([stored[at] ^ 0x55]) + stored[at + 1 :], "corrupt", "a.bin"


def test_other_content_or_a_program_with_an_archive_is_not_recognised() -> None:
    programs = [before + bytes(100) + GOOD for before in (b"MZ", b"\x7fELF")]
    texts = [b"", b"text", b"PK", b"%PDF-1.7 and text", b"text with PK\x05\x06 within" + bytes(30)]
    assert not any(examine_bytes(FORMAT, data).recognised for data in (HTML + GOOD, *programs, *texts))


@verdicts(FORMAT)
def test_archive_without_content_is_blank() -> Iterable[Row]:
    for members, word in (
        ([], "blank"),
        ([("folder/", b"")], "blank"),
        ([("a", b""), ("b", b"")], "blank"),
        ([("a", b" \r\n\t")], "blank"),
        ([("a", bytes(5000))], "blank"),
        ([("__MACOSX/._a", b"\0\5\x16\7"), (".DS_Store", b"Bud1")], "blank"),
        ([("inner.zip", archive(("a", b"\n")))], "blank"),
        ([("a", b"x")], "ok"),
        ([("a", b""), ("b", b"1")], "ok"),
        ([("inner.zip", archive(("a", b"0")))], "ok"),
        ([("a", bytes(400_000) + b"x")], "ok"),
    ):
        yield repr(members)[:60], archive(*members), word


@pytest.mark.asvs("5.2.5", "5.3.3")
@pytest.mark.filterwarnings("ignore:Duplicate name")
@verdicts(FORMAT)
def test_links_devices_pipes_and_members_outside_hidden_or_twice_are_unsafe() -> Iterable[Row]:
    for name in ("../a", "a/../../b", "/etc/a", "C:/a", "..\\a", "\\a"):
        yield name, archive((name, b"x")), "archive_unsafe"
    for mode in (0o120777, 0o020666, 0o060666, 0o010644, 0o140755):
        yield f"mode {mode:o}", archive_with_mode("a", mode), "archive_unsafe"
    yield "two members of one name", archive(("a", b"1"), ("a", b"2")), "archive_unsafe"
    yield "unlisted member", before_the_directory(member_only("hidden")), "archive_unsafe"
    yield "overlapping members", overlapping(2, 10), "archive_unsafe"
    yield "unsafe in an inner archive", nested(2, "../a"), "archive_unsafe", "inner.zip"
    for name in ("a..b", "...", "a/.hidden", "ünï/cödé.txt", "with space.txt"):
        yield name, archive((name, b"x")), "ok"
    yield "regular file", archive_with_mode("a", 0o100644), "ok"
    yield "no mode", archive_with_mode("a", 0), "ok"
    yield "standard input that a program packed", archive_with_mode("-", 0o010600), "ok"
    signature = before_the_directory(b"\x20" * 500 + b"APK Sig Block 42")
    yield "signature before the directory", signature, "ok"
    yield "damaged inner archive", archive(("inner.zip", GOOD[:-30])), "ok"


@pytest.mark.asvs("5.2.3")
@verdicts(FORMAT)
def test_archive_of_too_many_members_levels_or_bytes_is_a_bomb() -> Iterable[Row]:
    # The sum of the stated sizes shows that nothing was unpacked.
    yield "many overlapping members", overlapping(200, 10_000_000), "archive_bomb", "2000000000"
    yield "bytes", archive(("a", b"ab" * 600)), "archive_bomb", replace(Limits(), max_unpacked_bytes=1000)
    many = archive(*((str(number), b"") for number in range(12)))
    yield "members", many, "archive_bomb", replace(Limits(), max_members=10)
    yield "levels", nested(3), "ok", replace(Limits(), max_depth=3)
    yield "too many levels", nested(4), "archive_bomb", replace(Limits(), max_depth=3)
    limits = replace(Limits(), ratio_floor_bytes=1_000_000)
    yield "high ratio below the floor", archive(("a", bytes(900_000))), "blank", limits
    yield "high ratio", archive(("a", bytes(1_100_000))), "archive_bomb", limits
    inner = archive(*((f"{number}.zip", archive(("a", bytes(300_000)))) for number in range(5)))
    yield "high ratio of inner archives", inner, "archive_bomb", limits
