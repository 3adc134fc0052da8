"""ZIP: integrity, encryption and blankness."""

import io
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING

from sluice_inspect.formats.zip import FORMAT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.zip_samples import archive
from tests.rows import each_row

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

HTML = b"<!DOCTYPE html>\n<html><body>502 Bad Gateway</body></html>\n"


def streamed(*members: tuple[str, bytes]) -> bytes:
    class Unseekable(io.RawIOBase):
        def __init__(self) -> None:
            self.data = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: "Buffer", /) -> int:
            self.data += memoryview(data)
            return memoryview(data).nbytes

    file = Unseekable()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members:
            opened.writestr(name, content)
    return bytes(file.data)


def central_entry(data: bytes, field: int, fmt: str, value: int) -> bytes:
    at = data.index(b"PK\x01\x02") + field
    return data[:at] + struct.pack(fmt, value) + data[at + struct.calcsize(fmt) :]


def examine(data: bytes, limits: Limits | None = None) -> Examined:
    return examine_bytes(FORMAT, data, limits)


GOOD = archive(("a.txt", b"some text\n"), ("folder/b.bin", bytes(range(256)) * 40))


@each_row("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_of_every_available_method_are_unpacked(method: int) -> None:
    assert examine(archive(("a", b"content " * 100_000), ("b", b""), method=method)) == Examined(
        recognised=True, outcome=Outcome.OK
    )


def test_streamed_archive_with_data_descriptors_is_sound() -> None:
    assert examine(streamed(("a.txt", b"some text"), ("b.txt", b"more text"))).outcome is Outcome.OK


def test_xz_member_is_unpacked() -> None:
    import lzma  # noqa: PLC0415  (only this test packs by hand)

    plain = b"text " * 50
    packed = lzma.compress(plain)
    data = archive(("a", packed), method=zipfile.ZIP_STORED)
    data = data.replace(
        struct.pack("<LLL", zlib.crc32(packed), len(packed), len(packed)),
        struct.pack("<LLL", zlib.crc32(plain), len(packed), len(plain)),
    )
    data = data[:8] + struct.pack("<H", 95) + data[10:]
    assert examine(central_entry(data, 10, "<H", 95)).outcome is Outcome.OK


def test_unknown_method_is_unsupported() -> None:
    data = GOOD[:8] + struct.pack("<H", 98) + GOOD[10:]
    assert examine(central_entry(data, 10, "<H", 98)).outcome is Outcome.UNSUPPORTED


def test_damage_takes_precedence_over_an_unsupported_member() -> None:
    data = bytearray(GOOD[:8] + struct.pack("<H", 98) + GOOD[10:])
    data[data.index(b"folder/b.bin") + 40] ^= 0xFF
    assert examine(central_entry(bytes(data), 10, "<H", 98)).outcome is Outcome.CORRUPT


def test_password_protected_members_are_encrypted() -> None:
    data = bytearray(GOOD)
    data[6] |= 1
    assert examine(central_entry(bytes(data), 8, "<H", 1)).outcome is Outcome.ENCRYPTED


@each_row("kept", [0.2, 0.5, 0.95, 0.999])
def test_truncated_archive_is_corrupt(kept: float) -> None:
    assert examine(GOOD[: int(len(GOOD) * kept)]).outcome is Outcome.CORRUPT


@each_row("at", range(30, 600, 61))
def test_changed_byte_of_content_is_corrupt_and_the_member_is_named(at: int) -> None:
    data = bytearray(archive(("a.bin", bytes(range(256)) * 4), method=zipfile.ZIP_STORED))
    data[at + 5] ^= 0x55
    result = examine(bytes(data))
    assert result.outcome is Outcome.CORRUPT
    assert "a.bin" in result.detail


def test_changed_line_ends_are_corrupt() -> None:
    assert examine(GOOD.replace(b"\n", b"\r\n")).outcome is Outcome.CORRUPT


@each_row(("field", "fmt", "value"), [(10, "<H", 0), (16, "<L", 1), (20, "<L", 7), (24, "<L", 7), (42, "<L", 3)])
def test_directory_that_contradicts_the_local_headers_is_corrupt(field: int, fmt: str, value: int) -> None:
    assert examine(central_entry(GOOD, field, fmt, value)).outcome is Outcome.CORRUPT


def test_wrong_count_in_the_end_record_is_corrupt() -> None:
    at = GOOD.rindex(b"PK\x05\x06")
    assert examine(GOOD[: at + 8] + struct.pack("<HH", 9, 9) + GOOD[at + 12 :]).outcome is Outcome.CORRUPT


def test_volume_of_a_multivolume_archive_is_corrupt() -> None:
    at = GOOD.rindex(b"PK\x05\x06")
    assert examine(GOOD[: at + 4] + struct.pack("<HH", 1, 0) + GOOD[at + 8 :]).outcome is Outcome.CORRUPT


@each_row("front", [b"#!/usr/bin/env python3\n", b"From: me\n\n", b"\x8a\x7e\xca\x56" * 20])
def test_leading_bytes_pass_unless_they_are_html(front: bytes) -> None:
    assert examine(front + GOOD).passes
    assert not examine(HTML + GOOD).recognised


def test_trailing_text_passes_unless_it_is_html() -> None:
    assert examine(GOOD + b"\r\n-- sent by a gateway\r\n").passes
    assert examine(GOOD + HTML).outcome is Outcome.CORRUPT


@each_row("front", [b"MZ" + bytes(100), b"\x7fELF" + bytes(100)])
def test_self_extracting_program_is_not_recognised(front: bytes) -> None:
    assert not examine(front + GOOD).recognised


def test_archive_at_the_end_of_a_picture_is_a_polyglot() -> None:
    assert examine(b"\x89PNG\r\n\x1a\n" + bytes(100) + GOOD).finding is Finding.POLYGLOT


def test_archive_at_the_end_of_another_is_unsafe() -> None:
    assert examine(GOOD + archive(("b", b"y"))).finding is Finding.ARCHIVE_UNSAFE


@each_row("data", [b"", b"text", b"PK", b"%PDF-1.7 and text", b"text with PK\x05\x06 within" + bytes(30)])
def test_other_content_is_not_recognised(data: bytes) -> None:
    assert not examine(data).recognised


@each_row(
    "members",
    [
        (),
        (("folder/", b""),),
        (("a", b""), ("b", b"")),
        (("a", b" \r\n\t"),),
        (("a", bytes(5000)),),
        (("__MACOSX/._a", b"\0\5\x16\7"), (".DS_Store", b"Bud1")),
        (("inner.zip", archive(("a", b"\n"))),),
    ],
)
def test_archive_without_content_is_blank(members: tuple[tuple[str, bytes], ...]) -> None:
    assert examine(archive(*members)).blank


@each_row(
    "members",
    [
        (("a", b"x"),),
        (("a", b""), ("b", b"1")),
        (("inner.zip", archive(("a", b"0"))),),
        (("a", bytes(400_000) + b"x"),),
    ],
)
def test_archive_with_any_content_is_not_blank(members: tuple[tuple[str, bytes], ...]) -> None:
    assert examine(archive(*members)).blank is None
