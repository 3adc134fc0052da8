"""RAR: integrity, safety, encryption and blankness."""

import struct
import zlib
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import product

import pytest

from sluice_inspect.archives import libarchive
from sluice_inspect.archives.rar.headers import RAR4_MAGIC, RAR5_MAGIC, decode_wide_name
from sluice_inspect.formats.rar import FORMAT
from sluice_inspect.report import Limits, Outcome
from tests.inspection.formats.examining import Row, cuts, examine_bytes, verdicts
from tests.required import UNDER_CI
from tests.rows import each_row

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


@verdicts(FORMAT)
def test_sound_damaged_locked_or_old_archive_gets_its_verdict() -> Iterable[Row]:
    for good in (GOOD5, GOOD4):
        yield f"good {good[:8]!r}", good, "ok"
        yield from cuts(good, 0.05, 0.3, 0.6, 0.95)
        yield "trailing bytes", good + bytes(100), "ok"
        yield "trailing page", good + b"<!DOCTYPE html><html><body>502</body></html>", "corrupt"
    password = b"\x02\x01\x00"
    yield "RAR 4 without an end block", archive4(file4(b"a"), end=False), "ok"
    yield "RAR 5 without an end block", archive5(file5("a"), end=False), "corrupt"
    yield "RAR 5 with encrypted names", RAR5_MAGIC + block5(4, 0, bytes(20)) + bytes(100), "encrypted"
    yield "RAR 5 with a password", archive5(file5("a", extra=password)), "encrypted"
    yield "RAR 4 with encrypted names", archive4(main=0x80) + bytes(100), "encrypted"
    yield "RAR 4 with a password", archive4(file4(b"a", flags=0x8004)), "encrypted"
    yield "damage beside a password", archive5(file5("a", extra=password), file5("b", crc=1)), "corrupt"
    yield "volume of RAR 5 with a split member", archive5(file5("a", flags=0x10), main=b"\x01"), "unsupported"
    yield "volume of RAR 4 with a split member", archive4(file4(b"a", flags=0x8002), main=1), "unsupported"
    yield "volume of RAR 4 with a whole member", archive4(file4(b"a"), main=1), "ok"
    yield "old compression", archive4(file4(b"a", method=0x33, version=20)), "unsupported"
    yield "first generation", b"RE\x7e\x5e" + bytes(50), "unsupported"
    limits = replace(Limits(), max_members=10, ratio_floor_bytes=1_000_000)
    yield "too many members", archive5(*(file5(str(each)) for each in range(12))), "archive_bomb", limits
    yield "too many bytes", archive5(file5("a", packing=0x80, stated=10_000_000)), "archive_bomb", limits
    volume = archive5(file5("a", flags=0x10, stated=10**6), main=b"\x01")
    yield "too many bytes of a volume", volume, "unsupported", replace(Limits(), ratio_floor_bytes=100)
    for case, empty in {
        "nothing": archive5(),
        "white space": archive5(file5("a", b" \n"), file5("b", b"")),
        "empty file": archive4(file4(b"a", b"")),
    }.items():
        yield case, empty, "blank"


def test_any_changed_byte_is_detected() -> None:
    for good in (GOOD5, GOOD4):
        for at in range(len(RAR5_MAGIC), len(good)):
            changed = good[:at] + bytes([good[at] ^ 0x04]) + good[at + 1 :]
            assert examine(changed).outcome is not Outcome.OK, at


@verdicts(FORMAT)
def test_name_outside_the_folder_is_unsafe() -> Iterable[Row]:
    for name in ("../a", "/etc/a", "C:/a", "a/../../b", "..\\a"):
        yield f"{name} in RAR 5", archive5(file5(name)), "archive_unsafe"
        yield f"{name} in RAR 4", archive4(file4(name.encode())), "archive_unsafe"
    packed = b"\x00" + b"\x00" + b"../a" + b"\x00" + b"b"
    assert decode_wide_name(b"harmless", packed) == "../ab"
    yield "Unicode name", archive4(file4(b"harmless\0" + packed, flags=0x8200)), "archive_unsafe"


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


OUTSIDE = (b"/etc/passwd", b"..", b"../b", b"b/../../c", b"b/..", b"..\\b", b"C:\\b", b"\\??\\C:\\b", b"")


@pytest.mark.asvs("5.2.5")
@verdicts(FORMAT)
def test_links_and_junctions_that_point_outside_are_unsafe() -> Iterable[Row]:
    for kind, target in product((1, 2, 3), OUTSIDE):
        yield f"{kind} to {target!r}", archive5(redirected("a", kind, target)), "archive_unsafe"
    for target in OUTSIDE:
        yield f"to {target!r} in RAR 4", archive4(file4(b"a", target, mode=0o120777)), "archive_unsafe"
    for target in (b"b", b"../b", b"../c/b", b"./b"):
        yield f"to {target!r} inside", archive5(file5("b"), redirected("d/a", 1, target)), "ok"
        yield f"to {target!r} inside, RAR 4", archive4(file4(b"b"), file4(b"d\\a", target, mode=0o120777)), "ok"
    for name in ("d/a/b", "./d/a/b", "d//a/b", "D/A/b", "d\\a/b", "d/a./b", "d /a/b"):
        yield f"{name} through a link", archive5(redirected("d/a", 1, b"."), file5(name)), "archive_unsafe"
    through = archive5(redirected("d/a", 1, b"."), redirected("d/a/up", 1, b"../.."))
    yield "link through a link", through, "archive_unsafe"
    yield "member that is two links", archive5(file5("b"), redirected("a", 1, b"b", b"c")), "archive_unsafe"
    for system in (3, 4, 5):
        data = archive4(file4(b"a", b"../b", mode=0o120777, system=system))
        yield f"link of system {system}", data, "archive_unsafe"


@pytest.mark.asvs("5.2.5")
@verdicts(FORMAT)
def test_hard_link_or_copy_passes_unless_it_points_outside() -> Iterable[Row]:
    for kind in (4, 5):
        yield f"{kind} inside", archive5(file5("a"), redirected("b", kind, b"a", stated=5)), "ok"
        yield f"{kind} outside", archive5(redirected("b", kind, b"../a")), "archive_unsafe"


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
