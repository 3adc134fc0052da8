"""ZIP: unsafe members and archive bombs."""

import io
import struct
import zipfile
from collections.abc import Iterable
from dataclasses import replace

import pytest

from sluice_inspect.formats.zip import FORMAT
from sluice_inspect.report import Finding, Limits
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.zip_samples import archive
from tests.rows import each_row


def examine(data: bytes, limits: Limits | None = None) -> Examined:
    return examine_bytes(FORMAT, data, limits)


GOOD = archive(("a.txt", b"some text\n"), ("folder/b.bin", bytes(range(256)) * 40))


def archive_with_mode(name: str, mode: int) -> bytes:
    file = io.BytesIO()
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr(info, "/etc/hostname")
    return file.getvalue()


@each_row("name", ["../a", "a/../../b", "/etc/a", "C:/a", "..\\a", "\\a"])
@pytest.mark.asvs("5.3.3")
def test_name_outside_the_folder_is_unsafe(name: str) -> None:
    assert examine(archive((name, b"x"))).finding is Finding.ARCHIVE_UNSAFE


@each_row("name", ["a..b", "...", "a/.hidden", "ünï/cödé.txt", "with space.txt"])
def test_unusual_harmless_names_pass(name: str) -> None:
    assert examine(archive((name, b"x"))).passes


@each_row("mode", [0o120777, 0o020666, 0o060666, 0o010644, 0o140755])
@pytest.mark.asvs("5.2.5")
def test_links_devices_and_pipes_are_unsafe(mode: int) -> None:
    assert examine(archive_with_mode("a", mode)).finding is Finding.ARCHIVE_UNSAFE


@each_row("mode", [0o100644, 0])
def test_regular_files_pass(mode: int) -> None:
    assert examine(archive_with_mode("a", mode)).passes


def test_standard_input_that_a_program_packed_passes() -> None:
    assert examine(archive_with_mode("-", 0o010600)).passes


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_member_names_are_unsafe() -> None:
    assert examine(archive(("a", b"1"), ("a", b"2"))).finding is Finding.ARCHIVE_UNSAFE


def test_member_missing_from_the_directory_is_unsafe() -> None:
    hidden = archive(("hidden", b"x"), method=zipfile.ZIP_STORED)
    hidden = hidden[: hidden.index(b"PK\x01\x02")]
    at = GOOD.index(b"PK\x01\x02")
    end = bytearray(GOOD[at:])
    struct.pack_into("<L", end, len(end) - 6, at + len(hidden))
    assert examine(GOOD[:at] + hidden + bytes(end)).finding is Finding.ARCHIVE_UNSAFE


def test_signature_between_members_and_directory_passes() -> None:
    block = b"\x20" * 500 + b"APK Sig Block 42"
    at = GOOD.index(b"PK\x01\x02")
    end = bytearray(GOOD[at:])
    struct.pack_into("<L", end, len(end) - 6, at + len(block))
    assert examine(GOOD[:at] + block + bytes(end)).passes


def overlapping(count: int, size: int) -> bytes:
    one = archive(("a" * 8, bytes(size)))
    at, end = one.index(b"PK\x01\x02"), one.rindex(b"PK\x05\x06")
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, (end - at) * count, at, 0)
    return one[:at] + one[at:end] * count + tail


def test_many_overlapping_members_are_a_bomb_and_never_unpacked() -> None:
    result = examine(overlapping(200, 10_000_000))
    assert result.finding is Finding.ARCHIVE_BOMB
    assert "2000000000" in result.detail


def test_few_overlapping_members_are_unsafe() -> None:
    assert examine(overlapping(2, 10)).finding is Finding.ARCHIVE_UNSAFE


def test_high_compression_ratio_is_a_bomb_above_the_floor() -> None:
    limits = replace(Limits(), ratio_floor_bytes=1_000_000)
    assert examine(archive(("a", bytes(900_000))), limits).passes
    assert examine(archive(("a", bytes(1_100_000))), limits).finding is Finding.ARCHIVE_BOMB


@pytest.mark.asvs("5.2.3")
def test_archive_that_unpacks_to_too_much_is_a_bomb() -> None:
    assert (
        examine(archive(("a", b"ab" * 600)), replace(Limits(), max_unpacked_bytes=1000)).finding is Finding.ARCHIVE_BOMB
    )


@pytest.mark.asvs("5.2.3")
def test_too_many_members_are_a_bomb() -> None:
    many = archive(*((str(number), b"") for number in range(12)))
    assert examine(many, replace(Limits(), max_members=10)).finding is Finding.ARCHIVE_BOMB


def nested(depth: int, innermost: Iterable[tuple[str, bytes]] = (("a", b"x"),)) -> bytes:
    data = archive(*innermost)
    for _ in range(depth - 1):
        data = archive(("inner.zip", data))
    return data


def test_nested_archives_pass_up_to_the_depth_limit() -> None:
    limits = replace(Limits(), max_depth=3)
    assert examine(nested(3), limits).passes
    assert examine(nested(4), limits).finding is Finding.ARCHIVE_BOMB


def test_unsafe_member_of_an_inner_archive_is_named() -> None:
    result = examine(nested(2, [("../a", b"x")]))
    assert result.finding is Finding.ARCHIVE_UNSAFE
    assert "inner.zip" in result.detail


def test_bytes_of_inner_archives_count_against_the_outer_budget() -> None:
    limits = replace(Limits(), ratio_floor_bytes=1_000_000)
    many = archive(*((f"{number}.zip", archive(("a", bytes(300_000)))) for number in range(5)))
    assert examine(many, limits).finding is Finding.ARCHIVE_BOMB


def test_damaged_inner_archive_leaves_the_outer_one_sound() -> None:
    assert examine(archive(("inner.zip", GOOD[:-30]))).passes
