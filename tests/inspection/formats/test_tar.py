"""TAR: integrity, safety and blankness."""

import io
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest

from sluice_inspect.archives.tar_headers import BLOCK
from sluice_inspect.formats.tar import FORMAT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
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


def header(name: bytes, size: bytes, type_flag: bytes = b"0", **places: bytes) -> bytes:
    block = bytearray(BLOCK)
    fields = {0: name, 124: size, 156: type_flag} | {int(place[1:]): value for place, value in places.items()}
    for at, value in fields.items():
        block[at : at + len(value)] = value
    total = sum(block[:148]) + 8 * 32 + sum(block[156:])
    return bytes(block[:148]) + b"%06o\0 " % total + bytes(block[156:])


def member(name: bytes, content: bytes = b"", type_flag: bytes = b"0") -> bytes:
    return header(name, b"%011o\0" % len(content), type_flag) + content + bytes(-len(content) % BLOCK)


GOOD = archive(entry("a.txt", TEXT), entry("b/", type=tarfile.DIRTYPE), entry("b/c.bin", bytes(range(256)) * 40))
BARE = GOOD.rstrip(b"\0") + bytes(-len(GOOD.rstrip(b"\0")) % BLOCK)
END = bytes(2 * BLOCK)


SECOND = GOOD.index(b"b/c.bin") // BLOCK * BLOCK
CHANGED = GOOD[: SECOND + 3] + bytes([GOOD[SECOND + 3] ^ 0x20]) + GOOD[SECOND + 4 :]
WITH_ZEROED_HEADER = GOOD[: SECOND - BLOCK] + bytes(3 * BLOCK) + GOOD[SECOND + 2 * BLOCK :]
LATER = archive(entry("z", b"z"))
OLD = archive(entry("a.bin", bytes(range(256)) * 60))
SPARSE = header(
    b"holes",
    b"%011o\0" % 5,
    b"S",
    p257=b"ustar  \0",
    p386=b"".join(b"%011o\0%011o\0" % (offset, 1) for offset in (0, 4096, 8192, 12288)),
    p482=b"\1",
    p483=b"%011o\0" % 10**6,
)
MORE_OF_ITS_MAP = (b"%011o\0%011o\0" % (16384, 1) + b"%011o\0%011o\0" % (10**6, 0)).ljust(BLOCK, b"\0")
HELLO = b"hello".ljust(BLOCK, b"\0")
DIGITS = b"0123456789".ljust(BLOCK, b"\0")


def with_signed_checksum() -> bytes:
    block = member("ää and more".encode())
    return block[:148] + b"%06o\0 " % (int(block[148:154], 8) - 256 * 4) + block[156:]


@each_row("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_archives_of_every_layout_are_sound(layout: int) -> None:
    data = archive(entry("a/" * 60 + "b.txt", TEXT), entry("c", b"x"), layout=layout)
    assert examine(data) == Examined(recognised=True, outcome=Outcome.OK)


@each_row(
    ("case", "data"),
    [
        ("long name of PAX", archive(entry("ü" * 200, TEXT), entry("b", TEXT, uid=2**40))),
        ("long name of GNU", archive(entry("ü" * 200, TEXT), entry("b", TEXT, uid=2**40), layout=tarfile.GNU_FORMAT)),
        ("no magic", member(b"old.txt", b"hello") + END),
        ("checksum of signed bytes", with_signed_checksum() + END),
        ("no end blocks", BARE),
        ("two archives", GOOD + GOOD),
        ("stale bytes in the last record", OLD.rstrip(b"\0") + END + b"\7" * BLOCK + member(b"b")),
        ("size in base 256", header(b"a", b"\x80" + (5).to_bytes(11, "big")) + HELLO + END),
        ("size in an extended header", member(b"x", b"11 size=10\n", b"x") + member(b"a") + DIGITS + END),
        ("hard link", archive(entry("a", b"x"), entry("b", type=tarfile.LNKTYPE, linkname="a"))),
        (
            "hard link with a size",
            archive(entry("a", b"x"))[: 2 * BLOCK] + header(b"b", b"%011o\0" % 5000, b"1", p157=b"a") + member(b"c") + END,
        ),
        ("old sparse file with a long map", SPARSE + MORE_OF_ITS_MAP + HELLO + END),
        ("text behind the archive", GOOD + b"-- sent by a gateway\n"),
    ],
)  # fmt: skip
def test_what_readers_understand_passes(case: str, data: bytes) -> None:
    assert examine(data).passes


@each_row(
    ("case", "data", "detail"),
    [
        *((f"cut at {kept}", BARE[: int(len(BARE) * kept)], "cut") for kept in (0.1, 0.4, 0.7)),
        *((f"cut by {cut}", (BARE + END)[:-cut], "") for cut in (1, 300, 511)),
        *((f"cut by {cut} without an end", BARE[:-cut], "") for cut in (1, 300, 511)),
        ("changed header", CHANGED, str(SECOND)),
        ("zeroed header", WITH_ZEROED_HEADER + LATER, ""),
        ("changed line ends", GOOD.replace(b"\n", b"\r\n"), ""),
        ("impossible size", header(b"a", b"\xff" * 12) + END, ""),
        ("size that is no number", header(b"a", b"0000000x000\0") + END, ""),
        *(
            (f"extended header {records!r}", member(b"x", records, b"x") + member(b"a") + END, "")
            for records in (b"12 path=a\n", b"path=a\n", b"9 path=abc", b"999 a=b\n", b"6 abc\n")
        ),
        ("page behind the archive", GOOD + b"<!DOCTYPE html><html><body>502</body></html>", ""),
    ],
)
def test_truncated_or_damaged_archive_is_corrupt(case: str, data: bytes, detail: str) -> None:
    result = examine(data)
    assert result.outcome is Outcome.CORRUPT
    assert detail in result.detail


@each_row("name", ["../a", "a/../../b", "/etc/a", "C:/a", "..\\a", ".. /a", "a/.. ./b", " ..\\a", "..\u00a0/a"])
@each_row("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_name_outside_the_folder_is_unsafe(name: str, layout: int) -> None:
    assert examine(archive(entry(name, b"x"), layout=layout)).finding is Finding.ARCHIVE_UNSAFE
    assert examine(GOOD + archive(entry(name, b"x"), layout=layout)).finding is Finding.ARCHIVE_UNSAFE


@each_row("type_flag", [tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
@pytest.mark.asvs("5.2.5")
def test_symbolic_links_devices_and_pipes_are_unsafe(type_flag: bytes) -> None:
    result = examine(archive(entry("a", type=type_flag, linkname="b")))
    assert result.finding is Finding.ARCHIVE_UNSAFE
    assert "'a'" in result.detail


@pytest.mark.asvs("5.2.5")
def test_hard_link_that_points_outside_is_unsafe() -> None:
    assert examine(archive(entry("b", type=tarfile.LNKTYPE, linkname="/etc/passwd"))).finding is Finding.ARCHIVE_UNSAFE


def sparse(content: bytes = b"", **records: str) -> bytes:
    return archive(
        entry("harmless", content, pax_headers={f"GNU.sparse.{key}": value for key, value in records.items()})
    )


@each_row(
    ("data", "finding"),
    [
        (sparse(b"x", name="../../a"), Finding.ARCHIVE_UNSAFE),
        (sparse(b"0\n".ljust(BLOCK, b"\0"), major="1", realsize=str(2**40)), Finding.ARCHIVE_BOMB),
        (GOOD + b"PK\x03\x04" + bytes(30), Finding.POLYGLOT),
    ],
)
def test_extended_name_or_size_and_what_follows_are_judged(data: bytes, finding: Finding) -> None:
    assert examine(data).finding is finding


def test_too_many_members_are_a_bomb() -> None:
    many = archive(*(entry(str(number)) for number in range(12)), layout=tarfile.USTAR_FORMAT)
    assert examine(many, replace(Limits(), max_members=10)).finding is Finding.ARCHIVE_BOMB


@each_row("data", [b"", b"text", bytes(1024), b"a" * 2000, b"%PDF-1.7" + bytes(600)])
def test_other_content_is_not_recognised(data: bytes) -> None:
    assert not examine(data).recognised


@each_row(
    ("entries", "blank"),
    [
        ([], True),
        ([entry("folder", type=tarfile.DIRTYPE)], True),
        ([entry("a"), entry("b")], True),
        ([entry("a", b" \r\n\t")], True),
        ([entry("__MACOSX/._a", b"\0\5\x16\7"), entry("b/.DS_Store", b"Bud1")], True),
        ([entry("a", b"x")], False),
        ([entry("a"), entry("b", b"0")], False),
        ([entry("a", bytes(400_000) + b"x")], False),
    ],
)
def test_archive_without_content_is_blank(entries: list[tuple[tarfile.TarInfo, bytes]], *, blank: bool) -> None:
    assert bool(examine(archive(*entries)).blank) is blank
