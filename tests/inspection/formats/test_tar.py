"""TAR: integrity, safety and blankness."""

import io
import tarfile
from collections.abc import Mapping
from dataclasses import replace

import pytest

from sluice_inspect.archives.tar_headers import BLOCK
from sluice_inspect.formats.tar import FORMAT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.rows import each_row

TEXT = b"some text\n" * 200


def entry(name: str = "a.txt", content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def archive(
    *entries: tuple[tarfile.TarInfo, bytes], layout: int = tarfile.PAX_FORMAT, pax: Mapping[str, str] | None = None
) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=layout, pax_headers=pax) as opened:
        for info, content in entries:
            opened.addfile(info, io.BytesIO(content))
    return file.getvalue()


def with_checksum(block: bytes) -> bytes:
    total = sum(block[:148]) + 8 * 32 + sum(block[156:])
    return block[:148] + b"%06o\0 " % total + block[156:]


def header(name: bytes, size: bytes, type_flag: bytes = b"0", **places: bytes) -> bytes:
    block = bytearray(BLOCK)
    for at, value in (
        (0, name),
        (124, size),
        (156, type_flag),
        *((int(place[1:]), value) for place, value in places.items()),
    ):
        block[at : at + len(value)] = value
    return with_checksum(bytes(block))


def examine(data: bytes, limits: Limits | None = None) -> Examined:
    return examine_bytes(FORMAT, data, limits)


GOOD = archive(entry("a.txt", TEXT), entry("b/", type=tarfile.DIRTYPE), entry("b/c.bin", bytes(range(256)) * 40))
BARE = GOOD.rstrip(b"\0") + bytes(-len(GOOD.rstrip(b"\0")) % BLOCK)
END = bytes(2 * BLOCK)


@each_row("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_archives_of_every_layout_are_sound(layout: int) -> None:
    assert examine(archive(entry("a/" * 60 + "b.txt", TEXT), entry("c", b"x"), layout=layout)) == Examined(
        recognised=True, outcome=Outcome.OK
    )


@each_row("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_names_and_sizes_in_extended_headers_are_read(layout: int) -> None:
    assert examine(archive(entry("ü" * 200, TEXT), entry("b", TEXT, uid=2**40), layout=layout)).passes


def test_archive_without_magic_is_sound() -> None:
    assert examine(header(b"old.txt", b"%011o\0" % 5) + b"hello".ljust(BLOCK, b"\0") + END).passes


def test_checksum_of_signed_bytes_is_accepted() -> None:
    block = header("ää and more".encode(), b"%011o\0" % 0)
    total = int(block[148:154], 8) - 256 * 4
    assert examine(block[:148] + b"%06o\0 " % total + block[156:] + END).passes


def test_archive_without_end_blocks_passes() -> None:
    assert examine(BARE).passes


def test_concatenated_archive_is_checked_too() -> None:
    assert examine(GOOD + GOOD).passes
    assert examine(GOOD + archive(entry("../a", b"x"))).finding is Finding.ARCHIVE_UNSAFE


@each_row("kept", [0.1, 0.4, 0.7])
def test_archive_truncated_within_a_member_is_corrupt(kept: float) -> None:
    result = examine(BARE[: int(len(BARE) * kept)])
    assert result.outcome is Outcome.CORRUPT
    assert "cut" in result.detail


@each_row("cut", [1, 300, 511])
def test_incomplete_block_is_corrupt(cut: int) -> None:
    assert examine((BARE + END)[:-cut]).outcome is Outcome.CORRUPT
    assert examine(BARE[:-cut]).outcome is Outcome.CORRUPT


def test_changed_header_is_corrupt_and_its_offset_is_reported() -> None:
    at = GOOD.index(b"b/c.bin") // BLOCK * BLOCK
    data = bytearray(GOOD)
    data[at + 3] ^= 0x20
    result = examine(bytes(data))
    assert result.outcome is Outcome.CORRUPT
    assert str(at) in result.detail


def test_zeroed_header_is_not_mistaken_for_the_end() -> None:
    at = GOOD.index(b"b/c.bin") // BLOCK * BLOCK
    data = GOOD[: at - BLOCK] + bytes(3 * BLOCK) + GOOD[at + 2 * BLOCK :] + archive(entry("z", b"z"))
    assert examine(data).outcome is Outcome.CORRUPT


def test_stale_bytes_in_the_last_record_pass() -> None:
    first = archive(entry("a.bin", bytes(range(256)) * 60))
    body = first.rstrip(b"\0")
    body += bytes(-len(body) % BLOCK) + END
    stale = header(b"older.txt", b"%011o\0" % 0)
    assert examine(body + b"\x07" * BLOCK + stale).passes


def test_changed_line_ends_are_corrupt() -> None:
    assert examine(GOOD.replace(b"\n", b"\r\n")).outcome is Outcome.CORRUPT


@each_row("size", [b"\xff" * 12, b"0000000x000\0"])
def test_impossible_size_is_corrupt(size: bytes) -> None:
    assert examine(header(b"a", size) + END).outcome is Outcome.CORRUPT


def test_size_in_base_256_is_read() -> None:
    assert examine(header(b"a", b"\x80" + (5).to_bytes(11, "big")) + b"hello".ljust(BLOCK, b"\0") + END).passes


@each_row("records", [b"12 path=a\n", b"path=a\n", b"9 path=abc", b"999 a=b\n", b"6 abc\n"])
def test_malformed_extended_header_is_corrupt(records: bytes) -> None:
    extended = header(b"x", b"%011o\0" % len(records), b"x") + records.ljust(BLOCK, b"\0")
    assert examine(extended + header(b"a", b"%011o\0" % 0) + END).outcome is Outcome.CORRUPT


def test_size_in_an_extended_header_takes_precedence() -> None:
    extended = header(b"x", b"%011o\0" % 11, b"x") + b"11 size=10\n".ljust(BLOCK, b"\0")
    assert examine(extended + header(b"a", b"%011o\0" % 0) + b"0123456789".ljust(BLOCK, b"\0") + END).passes


@each_row("name", ["../a", "a/../../b", "/etc/a", "C:/a", "..\\a", ".. /a", "a/.. ./b", " ..\\a", "..\u00a0/a"])
@each_row("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_name_outside_the_folder_is_unsafe(name: str, layout: int) -> None:
    assert examine(archive(entry(name, b"x"), layout=layout)).finding is Finding.ARCHIVE_UNSAFE


def test_name_in_an_extended_header_takes_precedence() -> None:
    info, content = entry("harmless", b"x")
    info.pax_headers = {"GNU.sparse.name": "../../a"}
    assert examine(archive((info, content))).finding is Finding.ARCHIVE_UNSAFE


@each_row("type_flag", [tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
@pytest.mark.asvs("5.2.5")
def test_symbolic_links_devices_and_pipes_are_unsafe(type_flag: bytes) -> None:
    result = examine(archive(entry("a", type=type_flag, linkname="b")))
    assert result.finding is Finding.ARCHIVE_UNSAFE
    assert "'a'" in result.detail


@pytest.mark.asvs("5.2.5")
def test_hard_link_passes_unless_it_points_outside() -> None:
    assert examine(archive(entry("a", b"x"), entry("b", type=tarfile.LNKTYPE, linkname="a"))).passes
    assert examine(archive(entry("b", type=tarfile.LNKTYPE, linkname="/etc/passwd"))).finding is Finding.ARCHIVE_UNSAFE


def test_hard_link_with_a_stated_size_has_no_data() -> None:
    link = header(b"b", b"%011o\0" % 5000, b"1", p157=b"a")
    assert examine(archive(entry("a", b"x"))[: 2 * BLOCK] + link + header(b"c", b"%011o\0" % 0) + END).passes


def test_old_gnu_sparse_file_is_read_with_its_full_map() -> None:
    entries = b"".join(b"%011o\0%011o\0" % (offset, 1) for offset in (0, 4096, 8192, 12288))
    first = header(b"holes", b"%011o\0" % 5, b"S", p257=b"ustar  \0", p386=entries, p482=b"\1", p483=b"%011o\0" % 10**6)
    further = (b"%011o\0%011o\0" % (16384, 1) + b"%011o\0%011o\0" % (10**6, 0)).ljust(BLOCK, b"\0")
    assert examine(first + further + b"hello".ljust(BLOCK, b"\0") + END).passes


def test_sparse_file_of_huge_size_is_a_bomb() -> None:
    info, content = entry("holes", b"0\n".ljust(BLOCK, b"\0"))
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.realsize": str(2**40)}
    assert examine(archive((info, content))).finding is Finding.ARCHIVE_BOMB


def test_too_many_members_are_a_bomb() -> None:
    limits = replace(Limits(), max_members=10)
    assert examine(
        archive(*(entry(str(number)) for number in range(12)), layout=tarfile.USTAR_FORMAT), limits
    ).finding is (Finding.ARCHIVE_BOMB)


def test_trailing_text_passes_unless_it_is_html() -> None:
    assert examine(GOOD + b"-- sent by a gateway\n").passes
    assert examine(GOOD + b"<!DOCTYPE html><html><body>502</body></html>").outcome is Outcome.CORRUPT


def test_zip_archive_after_a_tar_archive_is_a_polyglot() -> None:
    assert examine(GOOD + b"PK\x03\x04" + bytes(30)).finding is Finding.POLYGLOT


@each_row("data", [b"", b"text", bytes(1024), b"a" * 2000, b"%PDF-1.7" + bytes(600)])
def test_other_content_is_not_recognised(data: bytes) -> None:
    assert not examine(data).recognised


@each_row(
    "entries",
    [
        (),
        (entry("folder", type=tarfile.DIRTYPE),),
        (entry("a"), entry("b")),
        (entry("a", b" \r\n\t"),),
        (entry("__MACOSX/._a", b"\0\5\x16\7"), entry("b/.DS_Store", b"Bud1")),
    ],
)
def test_archive_without_content_is_blank(entries: tuple[tuple[tarfile.TarInfo, bytes], ...]) -> None:
    data = archive(*entries)
    assert examine_bytes(FORMAT, data).blank


@each_row("entries", [(entry("a", b"x"),), (entry("a"), entry("b", b"0")), (entry("a", bytes(400_000) + b"x"),)])
def test_archive_with_any_content_is_not_blank(entries: tuple[tuple[tarfile.TarInfo, bytes], ...]) -> None:
    assert examine_bytes(FORMAT, archive(*entries)).blank is None
