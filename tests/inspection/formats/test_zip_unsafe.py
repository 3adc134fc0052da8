"""ZIP: unsafe members and archive bombs."""

import io
import struct
import zipfile
from dataclasses import replace
from functools import partial

import pytest

from sluice_inspect.formats.zip import FORMAT
from sluice_inspect.report import Finding, Limits
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.zip_samples import archive
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
GOOD = archive(("a.txt", b"some text\n"), ("folder/b.bin", bytes(range(256)) * 40))


DIRECTORY = GOOD.index(b"PK\x01\x02")


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


@each_row("name", ["../a", "a/../../b", "/etc/a", "C:/a", "..\\a", "\\a"])
@pytest.mark.asvs("5.3.3")
def test_name_outside_the_folder_is_unsafe(name: str) -> None:
    assert examine(archive((name, b"x"))).finding is Finding.ARCHIVE_UNSAFE


@each_row("mode", [0o120777, 0o020666, 0o060666, 0o010644, 0o140755])
@pytest.mark.asvs("5.2.5")
def test_links_devices_and_pipes_are_unsafe(mode: int) -> None:
    assert examine(archive_with_mode("a", mode)).finding is Finding.ARCHIVE_UNSAFE


@each_row(
    ("case", "data"),
    [
        *((name, archive((name, b"x"))) for name in ("a..b", "...", "a/.hidden", "ünï/cödé.txt", "with space.txt")),
        ("regular file", archive_with_mode("a", 0o100644)),
        ("no mode", archive_with_mode("a", 0)),
        ("standard input that a program packed", archive_with_mode("-", 0o010600)),
        ("signature before the directory", before_the_directory(b"\x20" * 500 + b"APK Sig Block 42")),
        ("damaged inner archive", archive(("inner.zip", GOOD[:-30]))),
    ],
)
def test_unusual_harmless_archive_passes(case: str, data: bytes) -> None:
    assert examine(data).passes


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_or_unlisted_members_are_unsafe() -> None:
    assert examine(archive(("a", b"1"), ("a", b"2"))).finding is Finding.ARCHIVE_UNSAFE
    assert examine(before_the_directory(member_only("hidden"))).finding is Finding.ARCHIVE_UNSAFE


def overlapping(count: int, size: int) -> bytes:
    one = archive(("a" * 8, bytes(size)))
    at, end = one.index(b"PK\x01\x02"), one.rindex(b"PK\x05\x06")
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, (end - at) * count, at, 0)
    return one[:at] + one[at:end] * count + tail


def test_overlapping_members_are_unsafe_and_many_a_bomb_that_is_never_unpacked() -> None:
    assert examine(overlapping(2, 10)).finding is Finding.ARCHIVE_UNSAFE
    result = examine(overlapping(200, 10_000_000))
    assert result.finding is Finding.ARCHIVE_BOMB
    assert "2000000000" in result.detail


def test_high_compression_ratio_is_a_bomb_above_the_floor_within_inner_archives_too() -> None:
    limits = replace(Limits(), ratio_floor_bytes=1_000_000)
    assert examine(archive(("a", bytes(900_000))), limits).passes
    assert examine(archive(("a", bytes(1_100_000))), limits).finding is Finding.ARCHIVE_BOMB
    many = archive(*((f"{number}.zip", archive(("a", bytes(300_000)))) for number in range(5)))
    assert examine(many, limits).finding is Finding.ARCHIVE_BOMB


@pytest.mark.asvs("5.2.3")
def test_archive_that_unpacks_to_too_much_is_a_bomb() -> None:
    limits = replace(Limits(), max_unpacked_bytes=1000)
    assert examine(archive(("a", b"ab" * 600)), limits).finding is Finding.ARCHIVE_BOMB


@pytest.mark.asvs("5.2.3")
def test_too_many_members_are_a_bomb() -> None:
    many = archive(*((str(number), b"") for number in range(12)))
    assert examine(many, replace(Limits(), max_members=10)).finding is Finding.ARCHIVE_BOMB


def nested(depth: int, name: str = "a") -> bytes:
    data = archive((name, b"x"))
    for _ in range(depth - 1):
        data = archive(("inner.zip", data))
    return data


def test_nested_archives_are_judged_up_to_the_depth_limit() -> None:
    limits = replace(Limits(), max_depth=3)
    assert examine(nested(3), limits).passes
    assert examine(nested(4), limits).finding is Finding.ARCHIVE_BOMB
    result = examine(nested(2, "../a"))
    assert result.finding is Finding.ARCHIVE_UNSAFE
    assert "inner.zip" in result.detail
