import io
import struct
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sluice.formats.kinds.zip import KIND
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.judging import Judged, corpus, judge, needs_corpus

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

HTML = b"<!DOCTYPE html>\n<html><body>502 Bad Gateway</body></html>\n"


def archive(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as opened:
        for name, content in members:
            opened.writestr(name, content)
    return file.getvalue()


def attributed(name: str, mode: int) -> bytes:
    file = io.BytesIO()
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr(info, "/etc/hostname")
    return file.getvalue()


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


def judged(data: bytes, limits: Limits | None = None) -> Judged:
    return judge(KIND, data, limits)


GOOD = archive(("a.txt", b"some text\n"), ("folder/b.bin", bytes(range(256)) * 40))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_of_every_method_at_hand_are_unpacked(method: int) -> None:
    assert judged(archive(("a", b"content " * 100_000), ("b", b""), method=method)) == Judged(recognised=True, outcome=Outcome.OK)


def test_a_streamed_archive_with_data_descriptors_is_sound() -> None:
    assert judged(streamed(("a.txt", b"some text"), ("b.txt", b"more text"))).outcome is Outcome.OK


def test_an_xz_member_is_unpacked() -> None:
    import lzma  # noqa: PLC0415  (only this test packs by hand)

    plain = b"text " * 50
    packed = lzma.compress(plain)
    data = archive(("a", packed), method=zipfile.ZIP_STORED)
    data = data.replace(
        struct.pack("<LLL", zlib.crc32(packed), len(packed), len(packed)),
        struct.pack("<LLL", zlib.crc32(plain), len(packed), len(plain)),
    )
    data = data[:8] + struct.pack("<H", 95) + data[10:]
    assert judged(central_entry(data, 10, "<H", 95)).outcome is Outcome.OK


def test_a_method_that_cannot_be_unpacked_here_is_unsupported() -> None:
    data = GOOD[:8] + struct.pack("<H", 98) + GOOD[10:]
    assert judged(central_entry(data, 10, "<H", 98)).outcome is Outcome.UNSUPPORTED


def test_damage_in_another_member_weighs_more_than_an_unsupported_one() -> None:
    data = bytearray(GOOD[:8] + struct.pack("<H", 98) + GOOD[10:])
    data[data.index(b"folder/b.bin") + 40] ^= 0xFF
    assert judged(central_entry(bytes(data), 10, "<H", 98)).outcome is Outcome.CORRUPT


def test_members_behind_a_password_are_encrypted() -> None:
    data = bytearray(GOOD)
    data[6] |= 1
    assert judged(central_entry(bytes(data), 8, "<H", 1)).outcome is Outcome.ENCRYPTED


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.95, 0.999])
def test_a_cut_archive_is_corrupt(kept: float) -> None:
    assert judged(GOOD[: int(len(GOOD) * kept)]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("at", range(30, 600, 61))
def test_a_changed_byte_of_content_is_corrupt_and_the_member_is_named(at: int) -> None:
    data = bytearray(archive(("a.bin", bytes(range(256)) * 4), method=zipfile.ZIP_STORED))
    data[at + 5] ^= 0x55
    found = judged(bytes(data))
    assert found.outcome is Outcome.CORRUPT
    assert "a.bin" in found.detail


def test_line_ends_changed_in_transfer_are_corrupt() -> None:
    assert judged(GOOD.replace(b"\n", b"\r\n")).outcome is Outcome.CORRUPT


@pytest.mark.parametrize(("field", "fmt", "value"), [(10, "<H", 0), (16, "<L", 1), (20, "<L", 7), (24, "<L", 7), (42, "<L", 3)])
def test_a_directory_that_contradicts_the_local_headers_is_corrupt(field: int, fmt: str, value: int) -> None:
    assert judged(central_entry(GOOD, field, fmt, value)).outcome is Outcome.CORRUPT


def test_a_wrong_count_in_the_end_record_is_corrupt() -> None:
    at = GOOD.rindex(b"PK\x05\x06")
    assert judged(GOOD[: at + 8] + struct.pack("<HH", 9, 9) + GOOD[at + 12 :]).outcome is Outcome.CORRUPT


def test_one_volume_of_several_is_corrupt() -> None:
    at = GOOD.rindex(b"PK\x05\x06")
    assert judged(GOOD[: at + 4] + struct.pack("<HH", 1, 0) + GOOD[at + 8 :]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("name", ["../a", "a/../../b", "/etc/a", "C:/a", "..\\a", "\\a"])
def test_a_name_that_leaves_the_folder_is_unsafe(name: str) -> None:
    assert judged(archive((name, b"x"))).finding is Finding.ARCHIVE_UNSAFE


@pytest.mark.parametrize("name", ["a..b", "...", "a/.hidden", "ünï/cödé.txt", "with space.txt"])
def test_odd_but_harmless_names_pass(name: str) -> None:
    assert judged(archive((name, b"x"))).passes


@pytest.mark.parametrize("mode", [0o120777, 0o020666, 0o060666])
def test_links_and_devices_are_unsafe(mode: int) -> None:
    assert judged(attributed("a", mode)).finding is Finding.ARCHIVE_UNSAFE


@pytest.mark.parametrize("mode", [0o100644, 0o010600, 0])
def test_plain_files_and_what_was_read_from_a_pipe_pass(mode: int) -> None:
    assert judged(attributed("a", mode)).passes


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_unsafe() -> None:
    assert judged(archive(("a", b"1"), ("a", b"2"))).finding is Finding.ARCHIVE_UNSAFE


def test_a_member_that_the_directory_hides_is_unsafe() -> None:
    hidden = archive(("hidden", b"x"), method=zipfile.ZIP_STORED)
    hidden = hidden[: hidden.index(b"PK\x01\x02")]
    at = GOOD.index(b"PK\x01\x02")
    end = bytearray(GOOD[at:])
    struct.pack_into("<L", end, len(end) - 6, at + len(hidden))
    assert judged(GOOD[:at] + hidden + bytes(end)).finding is Finding.ARCHIVE_UNSAFE


def test_a_signature_between_members_and_directory_passes() -> None:
    block = b"\x20" * 500 + b"APK Sig Block 42"
    at = GOOD.index(b"PK\x01\x02")
    end = bytearray(GOOD[at:])
    struct.pack_into("<L", end, len(end) - 6, at + len(block))
    assert judged(GOOD[:at] + block + bytes(end)).passes


def overlapping(count: int, size: int) -> bytes:
    one = archive(("a" * 8, bytes(size)))
    at, end = one.index(b"PK\x01\x02"), one.rindex(b"PK\x05\x06")
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, (end - at) * count, at, 0)
    return one[:at] + one[at:end] * count + tail


def test_members_on_the_same_bytes_are_a_bomb_that_is_never_unpacked() -> None:
    found = judged(overlapping(200, 10_000_000))
    assert found.finding is Finding.ARCHIVE_BOMB
    assert "2000000000" in found.detail


def test_few_members_on_the_same_bytes_are_unsafe() -> None:
    assert judged(overlapping(2, 10)).finding is Finding.ARCHIVE_UNSAFE


def test_much_from_little_is_a_bomb_once_it_is_much() -> None:
    limits = replace(Limits(), ratio_floor_bytes=1_000_000)
    assert judged(archive(("a", bytes(900_000))), limits).passes
    assert judged(archive(("a", bytes(1_100_000))), limits).finding is Finding.ARCHIVE_BOMB


def test_an_archive_that_unpacks_to_too_much_is_a_bomb() -> None:
    assert judged(archive(("a", b"ab" * 600)), replace(Limits(), max_unpacked_bytes=1000)).finding is Finding.ARCHIVE_BOMB


def test_too_many_members_are_a_bomb() -> None:
    many = archive(*((str(number), b"") for number in range(12)))
    assert judged(many, replace(Limits(), max_members=10)).finding is Finding.ARCHIVE_BOMB


def nested(depth: int, innermost: Iterable[tuple[str, bytes]] = (("a", b"x"),)) -> bytes:
    data = archive(*innermost)
    for _ in range(depth - 1):
        data = archive(("inner.zip", data))
    return data


def test_archives_within_archives_pass_up_to_the_depth() -> None:
    limits = replace(Limits(), max_depth=3)
    assert judged(nested(3), limits).passes
    assert judged(nested(4), limits).finding is Finding.ARCHIVE_BOMB


def test_what_is_unsafe_in_an_inner_archive_is_named() -> None:
    found = judged(nested(2, [("../a", b"x")]))
    assert found.finding is Finding.ARCHIVE_UNSAFE
    assert "inner.zip" in found.detail


def test_bytes_of_inner_archives_count_against_the_outer_budget() -> None:
    limits = replace(Limits(), ratio_floor_bytes=1_000_000)
    many = archive(*((f"{number}.zip", archive(("a", bytes(300_000)))) for number in range(5)))
    assert judged(many, limits).finding is Finding.ARCHIVE_BOMB


def test_a_damaged_inner_archive_leaves_the_outer_one_sound() -> None:
    assert judged(archive(("inner.zip", GOOD[:-30]))).passes


@pytest.mark.parametrize("front", [b"#!/usr/bin/env python3\n", b"From: me\n\n", b"\x8a\x7e\xca\x56" * 20])
def test_bytes_in_front_pass_unless_they_are_html(front: bytes) -> None:
    assert judged(front + GOOD).passes
    assert not judged(HTML + GOOD).recognised


def test_text_behind_passes_unless_it_is_html() -> None:
    assert judged(GOOD + b"\r\n-- sent by a gateway\r\n").passes
    assert judged(GOOD + HTML).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("front", [b"MZ" + bytes(100), b"\x7fELF" + bytes(100)])
def test_a_program_that_unpacks_itself_is_no_archive(front: bytes) -> None:
    assert not judged(front + GOOD).recognised


def test_a_picture_with_an_archive_at_its_end_is_two_formats() -> None:
    assert judged(b"\x89PNG\r\n\x1a\n" + bytes(100) + GOOD).finding is Finding.POLYGLOT


def test_an_archive_at_the_end_of_another_is_unsafe() -> None:
    assert judged(GOOD + archive(("b", b"y"))).finding is Finding.ARCHIVE_UNSAFE


@pytest.mark.parametrize("data", [b"", b"text", b"PK", b"%PDF-1.7 and text", b"text with PK\x05\x06 within" + bytes(30)])
def test_other_content_is_not_recognised(data: bytes) -> None:
    assert not judged(data).recognised


@pytest.mark.parametrize(
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
def test_an_archive_without_content_is_blank(members: tuple[tuple[str, bytes], ...]) -> None:
    assert judged(archive(*members)).blank


@pytest.mark.parametrize(
    "members", [(("a", b"x"),), (("a", b""), ("b", b"1")), (("inner.zip", archive(("a", b"0"))),), (("a", bytes(400_000) + b"x"),)]
)
def test_an_archive_with_any_content_is_not_blank(members: tuple[tuple[str, bytes], ...]) -> None:
    assert judged(archive(*members)).blank is None


def test_the_sample_is_good() -> None:
    assert judged(KIND.sample()).passes


@needs_corpus
def test_corpus_good_and_encrypted_files_pass() -> None:
    assert [
        path.name for path in corpus("zip", "valid", "not_blank", "password_protected") if not judge(KIND, path.read_bytes()).passes
    ] == []


@needs_corpus
def test_corpus_blank_files_are_found_and_no_others() -> None:
    assert [path.name for path in corpus("zip", "blank") if not judge(KIND, path.read_bytes()).blank] == []
    assert [path.name for path in corpus("zip", "not_blank") if judge(KIND, path.read_bytes()).blank] == []


@needs_corpus
def test_corpus_bombs_are_found() -> None:
    assert {judge(KIND, path.read_bytes()).finding for path in corpus("zip", "bomb")} == {Finding.ARCHIVE_BOMB}
