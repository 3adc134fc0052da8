"""TAR: integrity, safety and blankness."""

import io
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product

import pytest

from sluice_inspect.archives.tar_headers import BLOCK
from sluice_inspect.formats.tar import FORMAT
from sluice_inspect.report import Limits
from tests.inspection.formats.examining import Row, examine_bytes, verdicts

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


@verdicts(FORMAT)
def test_what_readers_understand_passes() -> Iterable[Row]:
    for layout in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        yield f"layout {layout}", archive(entry("a/" * 60 + "b.txt", TEXT), entry("c", b"x"), layout=layout), "ok"
    for case, data in {
        "long name of PAX": archive(entry("ü" * 200, TEXT), entry("b", TEXT, uid=2**40)),
        "long name of GNU": archive(entry("ü" * 200, TEXT), entry("b", TEXT, uid=2**40), layout=tarfile.GNU_FORMAT),
        "no magic": member(b"old.txt", b"hello") + END,
        "no end blocks": BARE,
        "two archives": GOOD + GOOD,
        "stale bytes in the last record": OLD.rstrip(b"\0") + END + b"\7" * BLOCK + member(b"b"),
        "size in base 256": header(b"a", b"\x80" + (5).to_bytes(11, "big")) + HELLO + END,
        "size in an extended header": member(b"x", b"11 size=10\n", b"x") + member(b"a") + DIGITS + END,
        "hard link": archive(entry("a", b"x"), entry("b", type=tarfile.LNKTYPE, linkname="a")),
        "hard link with a size": archive(entry("a", b"x"))[: 2 * BLOCK]
        + header(b"b", b"%011o\0" % 5000, b"1", p157=b"a")
        + member(b"c")
        + END,
        "old sparse file with a long map": SPARSE + MORE_OF_ITS_MAP + HELLO + END,
        "text behind the archive": GOOD + b"-- sent by a gateway\n",
    }.items():
        yield case, data, "ok"


@verdicts(FORMAT)
def test_truncated_or_damaged_archive_is_corrupt() -> Iterable[Row]:
    for kept in (0.1, 0.4, 0.7):
        yield f"cut at {kept}", BARE[: int(len(BARE) * kept)], "corrupt", "cut"
    for cut in (1, 300, 511):
        yield f"cut by {cut}", (BARE + END)[:-cut], "corrupt"
        yield f"cut by {cut} without an end", BARE[:-cut], "corrupt"
    yield "changed header", CHANGED, "corrupt", str(SECOND)
    yield "zeroed header", WITH_ZEROED_HEADER + archive(entry("z", b"z")), "corrupt"
    yield "changed line ends", GOOD.replace(b"\n", b"\r\n"), "corrupt"
    yield "impossible size", header(b"a", b"\xff" * 12) + END, "corrupt"
    yield "size that is no number", header(b"a", b"0000000x000\0") + END, "corrupt"
    for records in (b"12 path=a\n", b"path=a\n", b"9 path=abc", b"999 a=b\n", b"6 abc\n"):
        yield f"extended header {records!r}", member(b"x", records, b"x") + member(b"a") + END, "corrupt"
    yield "page behind the archive", GOOD + b"<!DOCTYPE html><html><body>502</body></html>", "corrupt"


@pytest.mark.asvs("5.2.5")
@verdicts(FORMAT)
def test_symbolic_links_devices_pipes_and_what_leads_outside_are_unsafe() -> Iterable[Row]:
    names = ("../a", "a/../../b", "/etc/a", "C:/a", "..\\a", ".. /a", "a/.. ./b", " ..\\a", "..\u00a0/a")
    for name, layout in product(names, (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)):
        data = archive(entry(name, b"x"), layout=layout)
        yield f"{name} {layout}", data, "archive_unsafe"
        yield f"{name} {layout} in a second archive", GOOD + data, "archive_unsafe"
    for type_flag in (tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE):
        yield f"type {type_flag!r}", archive(entry("a", type=type_flag, linkname="b")), "archive_unsafe", "'a'"
    yield "hard link", archive(entry("b", type=tarfile.LNKTYPE, linkname="/etc/passwd")), "archive_unsafe"
    outside = entry("harmless", b"x", pax_headers={"GNU.sparse.name": "../../a"})
    yield "sparse name", archive(outside), "archive_unsafe"


@verdicts(FORMAT)
def test_archive_that_is_a_bomb_or_another_format_too_is_refused() -> Iterable[Row]:
    sparse = {"GNU.sparse.major": "1", "GNU.sparse.realsize": str(2**40)}
    data = archive(entry("harmless", b"0\n".ljust(BLOCK, b"\0"), pax_headers=sparse))
    yield "sparse size", data, "archive_bomb"
    many = archive(*(entry(str(number)) for number in range(12)), layout=tarfile.USTAR_FORMAT)
    yield "too many members", many, "archive_bomb", replace(Limits(), max_members=10)
    yield "ZIP behind the archive", GOOD + b"PK\x03\x04" + bytes(30), "polyglot_file"


def test_other_content_is_not_recognised_and_an_archive_of_nothing_blank() -> None:
    for data in (b"", b"text", bytes(1024), b"a" * 2000, b"%PDF-1.7" + bytes(600)):
        assert not examine_bytes(FORMAT, data).recognised
    assert examine_bytes(FORMAT, archive()).blank


@verdicts(FORMAT)
def test_archive_without_content_is_blank() -> Iterable[Row]:
    yield "checksum of signed bytes", with_signed_checksum() + END, "blank"
    yield "folder", archive(entry("folder", type=tarfile.DIRTYPE)), "blank"
    yield "empty files", archive(entry("a"), entry("b")), "blank"
    yield "white space", archive(entry("a", b" \r\n\t")), "blank"
    yield "files of the system", archive(entry("__MACOSX/._a", b"\0\5\x16\7"), entry("b/.DS_Store", b"Bud1")), "blank"
    yield "a letter", archive(entry("a", b"x")), "ok"
    yield "a digit in the second file", archive(entry("a"), entry("b", b"0")), "ok"
    yield "a letter behind zeros", archive(entry("a", bytes(400_000) + b"x")), "ok"
