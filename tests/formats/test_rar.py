import struct
import zlib
from dataclasses import replace

import pytest

from sluice.formats.archives import libarchive, rar4, rar5
from sluice.formats.archives.rar_records import wide_name
from sluice.formats.kinds.rar import KIND
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.judging import Judged, corpus, judge, needs_corpus
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


def block5(kind: int, flags: int, fields: bytes = b"", *, extra: bytes = b"", data: bytes = b"") -> bytes:
    head = number(kind) + number(flags | bool(extra) | 2 * bool(data))
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
        b"\x04" + size + b"\x00" + struct.pack("<L", crc) + number(packing) + b"\x01" + number(len(name.encode())) + name.encode()
    )
    return block5(2, flags, fields, extra=extra, data=content)


def archive5(*files: bytes, main: bytes = b"\0", end: bool = True) -> bytes:
    return rar5.MAGIC + block5(1, 0, main) + b"".join(files) + (block5(5, 0, b"\0") if end else b"")


def block4(kind: int, flags: int, fields: bytes = b"", data: bytes = b"") -> bytes:
    head = struct.pack("<BHH", kind, flags, 7 + len(fields)) + fields
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
    fields = struct.pack("<LLBLLBBHL", len(content), len(content), system, zlib.crc32(content), 0, version, method, len(name), mode)
    return block4(0x74, flags, fields + name, content)


def archive4(*files: bytes, main: int = 0, end: bool = True) -> bytes:
    return rar4.MAGIC + block4(0x73, main, bytes(6)) + b"".join(files) + (block4(0x7B, 0x4000) if end else b"")


def redirection(kind: int, target: bytes) -> bytes:
    record = b"\x05" + number(kind) + b"\0" + number(len(target)) + target
    return number(len(record)) + record


def judged(data: bytes, limits: Limits | None = None) -> Judged:
    return judge(KIND, data, limits)


GOOD5, GOOD4 = archive5(file5("a.txt"), file5("b/c.txt")), archive4(file4(b"a.txt"), file4(b"b\\c.txt"))
each_generation = pytest.mark.parametrize("good", [GOOD5, GOOD4], ids=["rar5", "rar4"])


@each_generation
def test_an_archive_is_sound(good: bytes) -> None:
    assert judged(good) == Judged(recognised=True, outcome=Outcome.OK)


@each_generation
@pytest.mark.parametrize("kept", [0.05, 0.3, 0.6, 0.95])
def test_a_cut_archive_is_corrupt(good: bytes, kept: float) -> None:
    assert judged(good[: int(len(good) * kept)]).outcome is Outcome.CORRUPT


@each_generation
def test_any_changed_byte_is_corrupt(good: bytes) -> None:
    for at in range(len(rar5.MAGIC), len(good)):
        data = bytearray(good)
        data[at] ^= 0x04
        assert judged(bytes(data)).outcome is not Outcome.OK, at


def test_an_archive_of_old_without_an_end_block_passes_a_new_one_does_not() -> None:
    assert judged(archive4(file4(b"a"), end=False)).passes
    assert judged(archive5(file5("a"), end=False)).outcome is Outcome.CORRUPT


@each_generation
def test_bytes_behind_pass_unless_they_are_html(good: bytes) -> None:
    assert judged(good + bytes(100)).passes
    assert judged(good + b"<!DOCTYPE html><html><body>502</body></html>").outcome is Outcome.CORRUPT


def test_archives_behind_a_password_are_encrypted() -> None:
    assert judged(rar5.MAGIC + block5(4, 0, bytes(20)) + bytes(100)).outcome is Outcome.ENCRYPTED
    assert judged(archive5(file5("a", extra=b"\x02\x01\x00"))).outcome is Outcome.ENCRYPTED
    assert judged(archive4(main=0x80) + bytes(100)).outcome is Outcome.ENCRYPTED
    assert judged(archive4(file4(b"a", flags=0x8004))).outcome is Outcome.ENCRYPTED


def test_damage_in_an_open_member_weighs_more_than_a_locked_one() -> None:
    data = archive5(file5("a", extra=b"\x02\x01\x00"), file5("b", crc=1))
    assert judged(data).outcome is Outcome.CORRUPT


def test_one_volume_of_several_is_judged_as_far_as_it_goes() -> None:
    assert judged(archive5(file5("a", flags=0x10), main=b"\x01")).outcome is Outcome.UNSUPPORTED
    assert judged(archive4(file4(b"a", flags=0x8002), main=1)).outcome is Outcome.UNSUPPORTED
    assert judged(archive4(file4(b"a"), main=1)).outcome is Outcome.OK
    whole = replace(Limits(), ratio_floor_bytes=100)
    assert judged(archive5(file5("a", flags=0x10, stated=10**6), main=b"\x01"), whole).outcome is Outcome.UNSUPPORTED


@pytest.mark.parametrize("name", ["../a", "/etc/a", "C:/a", "a/../../b", "..\\a"])
def test_a_name_that_leaves_the_folder_is_unsafe(name: str) -> None:
    assert judged(archive5(file5(name))).finding is Finding.ARCHIVE_UNSAFE
    assert judged(archive4(file4(name.encode()))).finding is Finding.ARCHIVE_UNSAFE


def test_a_wide_name_is_the_one_that_counts() -> None:
    assert wide_name(b"??.txt", b"\x04" + b"\x50" + b"\x16\x17" + b"\x00") != ""
    packed = b"\x00" + b"\x00" + b"../a" + b"\x00" + b"b"
    assert wide_name(b"harmless", packed) == "../ab"
    assert judged(archive4(file4(b"harmless\0" + packed, flags=0x8200))).finding is Finding.ARCHIVE_UNSAFE


@pytest.mark.parametrize(
    ("plain", "packed", "name"),
    [
        (b"abc", b"\x04\x55\x30\x31\x32", "\u0430\u0431\u0432"),
        (b"x", b"\x00\x80\x2c\x67", "\u672c"),
        (b"plain.txt", b"\x00\xc0\x07", "plain.txt"),
        (b"AB", b"\x04\xc0\x80\x01", "\u0442\u0443"),
    ],
)
def test_wide_names_are_read_from_their_differences(plain: bytes, packed: bytes, name: str) -> None:
    assert wide_name(plain, packed) == name


@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.parametrize("target", [b"/etc/passwd", b"..", b"../b", b"b/../../c", b"b/..", b"..\\b", b"C:\\b", b"\\??\\C:\\b", b""])
def test_symbolic_links_and_junctions_that_lead_outside_are_unsafe(kind: int, target: bytes) -> None:
    assert judged(archive5(file5("a", b"", extra=redirection(kind, target)))).finding is Finding.ARCHIVE_UNSAFE
    assert judged(archive4(file4(b"a", target, mode=0o120777))).finding is Finding.ARCHIVE_UNSAFE


@pytest.mark.parametrize("target", [b"b", b"../b", b"../c/b", b"./b"])
def test_symbolic_links_that_stay_in_the_folder_pass(target: bytes) -> None:
    assert judged(archive5(file5("b"), file5("d/a", b"", extra=redirection(1, target)))).passes
    assert judged(archive4(file4(b"b"), file4(b"d\\a", target, mode=0o120777))).passes


def test_a_member_that_is_written_through_a_link_is_unsafe() -> None:
    link = file5("d/a", b"", extra=redirection(1, b"."))
    assert judged(archive5(link, file5("d/a/b"))).finding is Finding.ARCHIVE_UNSAFE
    assert judged(archive5(link, file5("d/a/up", b"", extra=redirection(1, b"../..")))).finding is Finding.ARCHIVE_UNSAFE


def test_a_hard_link_passes_unless_it_leads_outside() -> None:
    assert judged(archive5(file5("a"), file5("b", b"", extra=redirection(4, b"a"), stated=5))).passes
    assert judged(archive5(file5("b", b"", extra=redirection(4, b"../a")))).finding is Finding.ARCHIVE_UNSAFE


def test_too_much_and_too_many_are_bombs() -> None:
    limits = replace(Limits(), max_members=10, ratio_floor_bytes=1_000_000)
    assert judged(archive5(*(file5(str(each)) for each in range(12))), limits).finding is Finding.ARCHIVE_BOMB
    assert judged(archive5(file5("a", packing=0x80, stated=10_000_000)), limits).finding is Finding.ARCHIVE_BOMB


def test_what_an_old_version_packed_is_unsupported_and_not_corrupt() -> None:
    assert judged(archive4(file4(b"a", method=0x33, version=20))).outcome is Outcome.UNSUPPORTED


def test_the_first_generation_of_the_format_is_known_by_name_only() -> None:
    assert judged(b"RE\x7e\x5e" + bytes(50)).outcome is Outcome.UNSUPPORTED


@needs_libarchive
def test_packed_data_that_is_none_is_corrupt() -> None:
    assert judged(archive5(file5("a", b"\xff" * 200, packing=0x180))).outcome is Outcome.CORRUPT


@needs_libarchive
@pytest.mark.parametrize(
    "archive", [archive5(file5("a", b"", packing=0x180)), archive4(file4(b"a", b"", method=0x33), file4(b"b", b"", flags=0x9000))]
)
def test_sound_headers_that_libarchive_does_not_take_are_not_held_against_the_file(archive: bytes) -> None:
    assert judged(archive).outcome is Outcome.UNSUPPORTED


def test_without_libarchive_packed_members_are_unsupported_and_stored_ones_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libarchive, "_LIBRARY", None)
    assert judged(GOOD5).outcome is Outcome.OK
    found = judged(archive5(file5("a", packing=0x180)))
    assert found.outcome is Outcome.UNSUPPORTED
    assert "not installed" in found.detail
    assert judged(archive5(file5("a", packing=0x180), file5("b", crc=1))).outcome is Outcome.CORRUPT


def test_an_archive_without_content_is_blank() -> None:
    assert judge(KIND, archive5()).blank
    assert judge(KIND, archive5(file5("a", b" \n"), file5("b", b""))).blank
    assert judge(KIND, archive4(file4(b"a", b""))).blank
    assert judge(KIND, GOOD5).blank is None


def test_the_sample_is_good() -> None:
    assert judged(KIND.sample()).passes


@needs_corpus
@needs_libarchive
def test_corpus_good_files_are_not_corrupt_and_broken_ones_are() -> None:
    good = {path.name: judge(KIND, path.read_bytes()) for path in corpus("rar", "valid")}
    assert [name for name, found in good.items() if found.outcome is Outcome.CORRUPT] == []
    assert [path.name for path in corpus("rar", "corrupt") if judge(KIND, path.read_bytes()).passes] == []


@needs_corpus
def test_corpus_files_behind_a_password_are_encrypted() -> None:
    assert {judge(KIND, path.read_bytes()).outcome for path in corpus("rar", "password_protected")} == {Outcome.ENCRYPTED}
