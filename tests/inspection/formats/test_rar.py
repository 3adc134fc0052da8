"""RAR: integrity, safety, encryption and blankness."""

import struct
import zlib
from dataclasses import replace

import pytest

from sluice_inspect.archives import libarchive
from sluice_inspect.archives.rar.headers import RAR4_MAGIC, RAR5_MAGIC, decode_wide_name
from sluice_inspect.formats.rar import FORMAT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.rows import each_row
from tests.servers import UNDER_CI

needs_libarchive = pytest.mark.skipif(
    not libarchive.is_installed() and not UNDER_CI, reason="libarchive is not installed: apt-get install libarchive13"
)
TEXT = b"some text\n" * 30


def number(value: int) -> bytes:
    low = bytearray()
    while value > 0x7F:
        low.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*low, value])


def block5(block_type: int, flags: int, fields: bytes = b"", *, extra: bytes = b"", data: bytes = b"") -> bytes:
    head = number(block_type) + number(flags | bool(extra) | 2 * bool(data))
    head += (number(len(extra)) if extra else b"") + (number(len(data)) if data else b"") + fields + extra
    head = number(len(head)) + head
    return struct.pack("<L", zlib.crc32(head)) + head + data


def file5(
    name: str,
    content: bytes = TEXT,
    *,
    packing: int = 0,
    crc: int | None = None,
    extra: bytes = b"",
    flags: int = 0,
    stated: int = -1,
) -> bytes:
    crc = zlib.crc32(content) if crc is None else crc
    size = number(len(content) if stated < 0 else stated)
    fields = (
        b"\x04"
        + size
        + b"\x00"
        + struct.pack("<L", crc)
        + number(packing)
        + b"\x01"
        + number(len(name.encode()))
        + name.encode()
    )
    return block5(2, flags, fields, extra=extra, data=content)


def archive5(*files: bytes, main: bytes = b"\0", end: bool = True) -> bytes:
    return RAR5_MAGIC + block5(1, 0, main) + b"".join(files) + (block5(5, 0, b"\0") if end else b"")


def block4(block_type: int, flags: int, fields: bytes = b"", data: bytes = b"") -> bytes:
    head = struct.pack("<BHH", block_type, flags, 7 + len(fields)) + fields
    return struct.pack("<H", zlib.crc32(head) & 0xFFFF) + head + data


def file4(
    name: bytes,
    content: bytes = TEXT,
    *,
    flags: int = 0x8000,
    system: int = 3,
    mode: int = 0o100644,
    method: int = 0x30,
    version: int = 29,
) -> bytes:
    fields = struct.pack(
        "<LLBLLBBHL", len(content), len(content), system, zlib.crc32(content), 0, version, method, len(name), mode
    )
    return block4(0x74, flags, fields + name, content)


def archive4(*files: bytes, main: int = 0, end: bool = True) -> bytes:
    return RAR4_MAGIC + block4(0x73, main, bytes(6)) + b"".join(files) + (block4(0x7B, 0x4000) if end else b"")


def redirection(redirection_type: int, target: bytes) -> bytes:
    record = b"\x05" + number(redirection_type) + b"\0" + number(len(target)) + target
    return number(len(record)) + record


def examine(data: bytes, limits: Limits | None = None) -> Examined:
    return examine_bytes(FORMAT, data, limits)


GOOD5, GOOD4 = archive5(file5("a.txt"), file5("b/c.txt")), archive4(file4(b"a.txt"), file4(b"b\\c.txt"))
each_version = each_row("good", [GOOD5, GOOD4], ids=["rar5", "rar4"])


@each_version
def test_archive_is_sound(good: bytes) -> None:
    assert examine(good) == Examined(recognised=True, outcome=Outcome.OK)


@each_version
@each_row("kept", [0.05, 0.3, 0.6, 0.95])
def test_truncated_archive_is_corrupt(good: bytes, kept: float) -> None:
    assert examine(good[: int(len(good) * kept)]).outcome is Outcome.CORRUPT


@each_version
def test_any_changed_byte_is_detected(good: bytes) -> None:
    for at in range(len(RAR5_MAGIC), len(good)):
        data = bytearray(good)
        data[at] ^= 0x04
        assert examine(bytes(data)).outcome is not Outcome.OK, at


def test_missing_end_block_passes_in_rar4_and_is_corrupt_in_rar5() -> None:
    assert examine(archive4(file4(b"a"), end=False)).passes
    assert examine(archive5(file5("a"), end=False)).outcome is Outcome.CORRUPT


@each_version
def test_trailing_bytes_pass_unless_they_are_html(good: bytes) -> None:
    assert examine(good + bytes(100)).passes
    assert examine(good + b"<!DOCTYPE html><html><body>502</body></html>").outcome is Outcome.CORRUPT


def test_password_protected_archives_are_encrypted() -> None:
    assert examine(RAR5_MAGIC + block5(4, 0, bytes(20)) + bytes(100)).outcome is Outcome.ENCRYPTED
    assert examine(archive5(file5("a", extra=b"\x02\x01\x00"))).outcome is Outcome.ENCRYPTED
    assert examine(archive4(main=0x80) + bytes(100)).outcome is Outcome.ENCRYPTED
    assert examine(archive4(file4(b"a", flags=0x8004))).outcome is Outcome.ENCRYPTED


def test_damage_takes_precedence_over_encryption() -> None:
    data = archive5(file5("a", extra=b"\x02\x01\x00"), file5("b", crc=1))
    assert examine(data).outcome is Outcome.CORRUPT


def test_volume_with_a_split_member_is_unsupported() -> None:
    assert examine(archive5(file5("a", flags=0x10), main=b"\x01")).outcome is Outcome.UNSUPPORTED
    assert examine(archive4(file4(b"a", flags=0x8002), main=1)).outcome is Outcome.UNSUPPORTED
    assert examine(archive4(file4(b"a"), main=1)).outcome is Outcome.OK
    low_floor = replace(Limits(), ratio_floor_bytes=100)
    assert (
        examine(archive5(file5("a", flags=0x10, stated=10**6), main=b"\x01"), low_floor).outcome is Outcome.UNSUPPORTED
    )


@each_row("name", ["../a", "/etc/a", "C:/a", "a/../../b", "..\\a"])
def test_name_outside_the_folder_is_unsafe(name: str) -> None:
    assert examine(archive5(file5(name))).finding is Finding.ARCHIVE_UNSAFE
    assert examine(archive4(file4(name.encode()))).finding is Finding.ARCHIVE_UNSAFE


def test_unicode_name_takes_precedence_over_the_plain_name() -> None:
    assert decode_wide_name(b"??.txt", b"\x04" + b"\x50" + b"\x16\x17" + b"\x00") != ""
    packed = b"\x00" + b"\x00" + b"../a" + b"\x00" + b"b"
    assert decode_wide_name(b"harmless", packed) == "../ab"
    assert examine(archive4(file4(b"harmless\0" + packed, flags=0x8200))).finding is Finding.ARCHIVE_UNSAFE


@each_row(
    ("plain", "packed", "name"),
    [
        (b"abc", b"\x04\x55\x30\x31\x32", "\u0430\u0431\u0432"),
        (b"x", b"\x00\x80\x2c\x67", "\u672c"),
        (b"plain.txt", b"\x00\xc0\x07", "plain.txt"),
        (b"AB", b"\x04\xc0\x80\x01", "\u0442\u0443"),
    ],
)
def test_unicode_names_are_decoded(plain: bytes, packed: bytes, name: str) -> None:
    assert decode_wide_name(plain, packed) == name


@pytest.mark.asvs("5.2.5")
@each_row("redirection_type", [1, 2, 3])
@each_row("target", [b"/etc/passwd", b"..", b"../b", b"b/../../c", b"b/..", b"..\\b", b"C:\\b", b"\\??\\C:\\b", b""])
def test_links_and_junctions_that_point_outside_are_unsafe(redirection_type: int, target: bytes) -> None:
    assert (
        examine(archive5(file5("a", b"", extra=redirection(redirection_type, target)))).finding
        is Finding.ARCHIVE_UNSAFE
    )
    assert examine(archive4(file4(b"a", target, mode=0o120777))).finding is Finding.ARCHIVE_UNSAFE


@each_row("target", [b"b", b"../b", b"../c/b", b"./b"])
def test_symbolic_links_inside_the_folder_pass(target: bytes) -> None:
    assert examine(archive5(file5("b"), file5("d/a", b"", extra=redirection(1, target)))).passes
    assert examine(archive4(file4(b"b"), file4(b"d\\a", target, mode=0o120777))).passes


def test_member_written_through_a_link_is_unsafe() -> None:
    link = file5("d/a", b"", extra=redirection(1, b"."))
    assert examine(archive5(link, file5("d/a/b"))).finding is Finding.ARCHIVE_UNSAFE
    assert (
        examine(archive5(link, file5("d/a/up", b"", extra=redirection(1, b"../..")))).finding is Finding.ARCHIVE_UNSAFE
    )


@each_row("name", ["./d/a/b", "d//a/b", "D/A/b", "d\\a/b", "d/a./b", "d /a/b"])
def test_member_written_through_a_link_under_another_spelling_is_unsafe(name: str) -> None:
    link = file5("d/a", b"", extra=redirection(1, b"."))
    assert examine(archive5(link, file5(name))).finding is Finding.ARCHIVE_UNSAFE


@each_row("redirection_type", [4, 5])
@pytest.mark.asvs("5.2.5")
def test_hard_link_or_copy_passes_unless_it_points_outside(redirection_type: int) -> None:
    inside, outside = redirection(redirection_type, b"a"), redirection(redirection_type, b"../a")
    assert examine(archive5(file5("a"), file5("b", b"", extra=inside, stated=5))).passes
    assert examine(archive5(file5("b", b"", extra=outside))).finding is Finding.ARCHIVE_UNSAFE


def test_member_that_is_two_links_is_unsafe() -> None:
    both = redirection(1, b"b") + redirection(1, b"c")
    assert examine(archive5(file5("b"), file5("a", b"", extra=both))).finding is Finding.ARCHIVE_UNSAFE


@each_row("system", [3, 4, 5])
def test_symbolic_link_of_every_system_with_unix_modes_is_judged(system: int) -> None:
    link = file4(b"a", b"../b", mode=0o120777, system=system)
    assert examine(archive4(link)).finding is Finding.ARCHIVE_UNSAFE


def test_too_many_members_and_too_many_bytes_are_bombs() -> None:
    limits = replace(Limits(), max_members=10, ratio_floor_bytes=1_000_000)
    assert examine(archive5(*(file5(str(each)) for each in range(12))), limits).finding is Finding.ARCHIVE_BOMB
    assert examine(archive5(file5("a", packing=0x80, stated=10_000_000)), limits).finding is Finding.ARCHIVE_BOMB


def test_old_compression_version_is_unsupported() -> None:
    assert examine(archive4(file4(b"a", method=0x33, version=20))).outcome is Outcome.UNSUPPORTED


def test_first_rar_generation_is_unsupported() -> None:
    assert examine(b"RE\x7e\x5e" + bytes(50)).outcome is Outcome.UNSUPPORTED


@needs_libarchive
def test_invalid_compressed_data_is_corrupt() -> None:
    assert examine(archive5(file5("a", b"\xff" * 200, packing=0x180))).outcome is Outcome.CORRUPT


@needs_libarchive
@each_row(
    "archive",
    [archive5(file5("a", b"", packing=0x180)), archive4(file4(b"a", b"", method=0x33), file4(b"b", b"", flags=0x9000))],
)
def test_sound_headers_that_libarchive_rejects_are_unsupported(archive: bytes) -> None:
    assert examine(archive).outcome is Outcome.UNSUPPORTED


def test_only_stored_members_are_checked_without_libarchive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libarchive, "_LIBRARY", None)
    assert examine(GOOD5).outcome is Outcome.OK
    result = examine(archive5(file5("a", packing=0x180)))
    assert result.outcome is Outcome.UNSUPPORTED
    assert "not installed" in result.detail
    assert examine(archive5(file5("a", packing=0x180), file5("b", crc=1))).outcome is Outcome.CORRUPT


def test_archive_without_content_is_blank() -> None:
    assert examine_bytes(FORMAT, archive5()).blank
    assert examine_bytes(FORMAT, archive5(file5("a", b" \n"), file5("b", b""))).blank
    assert examine_bytes(FORMAT, archive4(file4(b"a", b""))).blank
    assert examine_bytes(FORMAT, GOOD5).blank is None
