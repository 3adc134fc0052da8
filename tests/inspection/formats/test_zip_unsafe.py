import io
import struct
import zipfile
from collections.abc import Iterable
from dataclasses import replace

import pytest

from sluice.formats.kinds.zip import KIND
from sluice.formats.verdict import Finding, Limits
from tests.formats.judging import Judged, judge
from tests.formats.zips import archive


def judged(data: bytes, limits: Limits | None = None) -> Judged:
    return judge(KIND, data, limits)


GOOD = archive(("a.txt", b"some text\n"), ("folder/b.bin", bytes(range(256)) * 40))


def attributed(name: str, mode: int) -> bytes:
    file = io.BytesIO()
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr(info, "/etc/hostname")
    return file.getvalue()


@pytest.mark.parametrize("name", ["../a", "a/../../b", "/etc/a", "C:/a", "..\\a", "\\a"])
@pytest.mark.asvs("5.3.3")
def test_a_name_that_leaves_the_folder_is_unsafe(name: str) -> None:
    assert judged(archive((name, b"x"))).finding is Finding.ARCHIVE_UNSAFE


@pytest.mark.parametrize("name", ["a..b", "...", "a/.hidden", "ünï/cödé.txt", "with space.txt"])
def test_odd_but_harmless_names_pass(name: str) -> None:
    assert judged(archive((name, b"x"))).passes


@pytest.mark.parametrize("mode", [0o120777, 0o020666, 0o060666])
@pytest.mark.asvs("5.2.5")
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


@pytest.mark.asvs("5.2.3")
def test_an_archive_that_unpacks_to_too_much_is_a_bomb() -> None:
    assert judged(archive(("a", b"ab" * 600)), replace(Limits(), max_unpacked_bytes=1000)).finding is Finding.ARCHIVE_BOMB


@pytest.mark.asvs("5.2.3")
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
