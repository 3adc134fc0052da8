"""RAR: integrity, safety, encryption and blankness."""

import struct
import zlib
from dataclasses import replace
from functools import partial

import pytest

from sluice_inspect.archives import libarchive
from sluice_inspect.archives.rar.headers import RAR4_MAGIC, RAR5_MAGIC, decode_wide_name
from sluice_inspect.formats.rar import FORMAT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.rows import each_row
from tests.servers import UNDER_CI

examine = partial(examine_bytes, FORMAT)
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
    stated: int | None = None,
) -> bytes:
    size = number(len(content) if stated is None else stated)
    checksum = struct.pack("<L", zlib.crc32(content) if crc is None else crc)
    named = number(len(name.encode())) + name.encode()
    fields = b"\x04" + size + b"\x00" + checksum + number(packing) + b"\x01" + named
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


def redirected(name: str, redirection_type: int, *targets: bytes, stated: int | None = None) -> bytes:
    records = [b"\x05" + number(redirection_type) + b"\0" + number(len(target)) + target for target in targets]
    return file5(name, b"", extra=b"".join(number(len(each)) + each for each in records), stated=stated)


GOOD5, GOOD4 = archive5(file5("a.txt"), file5("b/c.txt")), archive4(file4(b"a.txt"), file4(b"b\\c.txt"))
each_version = each_row("good", [GOOD5, GOOD4], ids=["rar5", "rar4"])


@each_version
def test_sound_archive_passes_and_any_changed_byte_is_detected(good: bytes) -> None:
    assert examine(good) == Examined(recognised=True, outcome=Outcome.OK)
    for at in range(len(RAR5_MAGIC), len(good)):
        data = bytearray(good)
        data[at] ^= 0x04
        assert examine(bytes(data)).outcome is not Outcome.OK, at


@each_version
@each_row("kept", [0.05, 0.3, 0.6, 0.95])
def test_truncated_archive_is_corrupt(good: bytes, kept: float) -> None:
    assert examine(good[: int(len(good) * kept)]).outcome is Outcome.CORRUPT


@each_version
def test_trailing_bytes_pass_unless_they_are_html(good: bytes) -> None:
    assert examine(good + bytes(100)).passes
    assert examine(good + b"<!DOCTYPE html><html><body>502</body></html>").outcome is Outcome.CORRUPT


PASSWORD = b"\x02\x01\x00"


@each_row(
    ("case", "data", "outcome"),
    [
        ("RAR 4 without an end block", archive4(file4(b"a"), end=False), Outcome.OK),
        ("RAR 5 without an end block", archive5(file5("a"), end=False), Outcome.CORRUPT),
        ("RAR 5 with encrypted names", RAR5_MAGIC + block5(4, 0, bytes(20)) + bytes(100), Outcome.ENCRYPTED),
        ("RAR 5 with a password", archive5(file5("a", extra=PASSWORD)), Outcome.ENCRYPTED),
        ("RAR 4 with encrypted names", archive4(main=0x80) + bytes(100), Outcome.ENCRYPTED),
        ("RAR 4 with a password", archive4(file4(b"a", flags=0x8004)), Outcome.ENCRYPTED),
        ("damage beside a password", archive5(file5("a", extra=PASSWORD), file5("b", crc=1)), Outcome.CORRUPT),
        ("volume of RAR 5 with a split member", archive5(file5("a", flags=0x10), main=b"\x01"), Outcome.UNSUPPORTED),
        ("volume of RAR 4 with a split member", archive4(file4(b"a", flags=0x8002), main=1), Outcome.UNSUPPORTED),
        ("volume of RAR 4 with a whole member", archive4(file4(b"a"), main=1), Outcome.OK),
        ("old compression", archive4(file4(b"a", method=0x33, version=20)), Outcome.UNSUPPORTED),
        ("first generation", b"RE\x7e\x5e" + bytes(50), Outcome.UNSUPPORTED),
    ],
)
def test_volume_password_or_old_version_is_not_taken_for_damage(case: str, data: bytes, outcome: Outcome) -> None:
    assert examine(data).outcome is outcome


@each_row("name", ["../a", "/etc/a", "C:/a", "a/../../b", "..\\a"])
def test_name_outside_the_folder_is_unsafe(name: str) -> None:
    assert examine(archive5(file5(name))).finding is Finding.ARCHIVE_UNSAFE
    assert examine(archive4(file4(name.encode()))).finding is Finding.ARCHIVE_UNSAFE


def test_unicode_name_takes_precedence_over_the_plain_name() -> None:
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
    assert decode_wide_name(b"??.txt", b"\x04\x50\x16\x17\x00") != ""


@pytest.mark.asvs("5.2.5")
@each_row("redirection_type", [1, 2, 3])
@each_row("target", [b"/etc/passwd", b"..", b"../b", b"b/../../c", b"b/..", b"..\\b", b"C:\\b", b"\\??\\C:\\b", b""])
def test_links_and_junctions_that_point_outside_are_unsafe(redirection_type: int, target: bytes) -> None:
    assert examine(archive5(redirected("a", redirection_type, target))).finding is Finding.ARCHIVE_UNSAFE
    assert examine(archive4(file4(b"a", target, mode=0o120777))).finding is Finding.ARCHIVE_UNSAFE


@each_row("target", [b"b", b"../b", b"../c/b", b"./b"])
def test_symbolic_links_inside_the_folder_pass(target: bytes) -> None:
    assert examine(archive5(file5("b"), redirected("d/a", 1, target))).passes
    assert examine(archive4(file4(b"b"), file4(b"d\\a", target, mode=0o120777))).passes


@each_row("name", ["d/a/b", "./d/a/b", "d//a/b", "D/A/b", "d\\a/b", "d/a./b", "d /a/b"])
def test_member_written_through_a_link_is_unsafe_under_any_spelling(name: str) -> None:
    assert examine(archive5(redirected("d/a", 1, b"."), file5(name))).finding is Finding.ARCHIVE_UNSAFE


@each_row("redirection_type", [4, 5])
@pytest.mark.asvs("5.2.5")
def test_hard_link_or_copy_passes_unless_it_points_outside(redirection_type: int) -> None:
    assert examine(archive5(file5("a"), redirected("b", redirection_type, b"a", stated=5))).passes
    assert examine(archive5(redirected("b", redirection_type, b"../a"))).finding is Finding.ARCHIVE_UNSAFE


@each_row(
    ("case", "data"),
    [
        ("link written through a link", archive5(redirected("d/a", 1, b"."), redirected("d/a/up", 1, b"../.."))),
        ("member that is two links", archive5(file5("b"), redirected("a", 1, b"b", b"c"))),
        *(
            (f"link of system {system}", archive4(file4(b"a", b"../b", mode=0o120777, system=system)))
            for system in (3, 4, 5)
        ),
    ],
)
def test_link_is_judged_wherever_it_is_stated(case: str, data: bytes) -> None:
    assert examine(data).finding is Finding.ARCHIVE_UNSAFE


def test_too_many_members_and_too_many_bytes_are_bombs_but_not_those_of_a_volume() -> None:
    limits = replace(Limits(), max_members=10, ratio_floor_bytes=1_000_000)
    assert examine(archive5(*(file5(str(each)) for each in range(12))), limits).finding is Finding.ARCHIVE_BOMB
    assert examine(archive5(file5("a", packing=0x80, stated=10_000_000)), limits).finding is Finding.ARCHIVE_BOMB
    volume = archive5(file5("a", flags=0x10, stated=10**6), main=b"\x01")
    assert examine(volume, replace(Limits(), ratio_floor_bytes=100)).outcome is Outcome.UNSUPPORTED


@needs_libarchive
@each_row(
    ("data", "outcome"),
    [
        (archive5(file5("a", b"\xff" * 200, packing=0x180)), Outcome.CORRUPT),
        (archive5(file5("a", b"", packing=0x180)), Outcome.UNSUPPORTED),
        (archive4(file4(b"a", b"", method=0x33), file4(b"b", b"", flags=0x9000)), Outcome.UNSUPPORTED),
    ],
)
def test_invalid_data_is_corrupt_and_sound_headers_that_libarchive_rejects_unsupported(
    data: bytes, outcome: Outcome
) -> None:
    assert examine(data).outcome is outcome


def test_only_stored_members_are_checked_without_libarchive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libarchive, "_LIBRARY", None)
    assert examine(GOOD5).outcome is Outcome.OK
    result = examine(archive5(file5("a", packing=0x180)))
    assert result.outcome is Outcome.UNSUPPORTED
    assert "not installed" in result.detail
    assert examine(archive5(file5("a", packing=0x180), file5("b", crc=1))).outcome is Outcome.CORRUPT


def test_archive_without_content_is_blank() -> None:
    assert examine(GOOD5).blank is None
    for empty in (archive5(), archive5(file5("a", b" \n"), file5("b", b"")), archive4(file4(b"a", b""))):
        assert examine(empty).blank
