"""TAR: names and links in every place where some reader looks, and sizes on which readers disagree."""

import tarfile
from collections.abc import Iterable
from itertools import product

import pytest

from sluice_inspect.archives.tar_headers import BLOCK
from sluice_inspect.formats.tar import FORMAT
from tests.inspection.formats.examining import Row, verdicts
from tests.inspection.formats.test_tar import END, archive, entry, header

GNU = b"ustar  \0"
POSIX = b"ustar\x0000"


def data(content: bytes) -> bytes:
    return content + bytes(-len(content) % BLOCK)


def member(name: bytes = b"a", content: bytes = b"", type_flag: bytes = b"0", **places: bytes) -> bytes:
    return header(name, b"%011o\0" % len(content), type_flag, **({"p257": POSIX} | places)) + data(content)


def record(keyword: str, value: str | bytes) -> bytes:
    body = b" %s=%s\n" % (keyword.encode(), value if isinstance(value, bytes) else value.encode())
    length = len(body) + 2
    while len(b"%d" % length) + len(body) != length:
        length = len(b"%d" % length) + len(body)
    return b"%d" % length + body


def extended(type_flag: bytes = b"x", **records: str) -> bytes:
    joined = b"".join(record(keyword.replace("__", "."), value) for keyword, value in records.items())
    return member(b"./PaxHeaders/a", joined, type_flag)


def long_name(name: bytes, type_flag: bytes = b"L") -> bytes:
    return member(b"././@LongLink", name + b"\0", type_flag)


def unsafe(case: str, *parts: bytes) -> Row:
    return case, b"".join(parts) + END, "archive_unsafe"


def sound(case: str, *parts: bytes, word: str = "ok") -> Row:
    return case, b"".join(parts) + END, word


def zero(name: bytes = b"a", size: int = 0, type_flag: bytes = b"0", **places: bytes) -> bytes:
    """Return a header alone, without the data that its size states."""
    return header(name, b"%011o\0" % size, type_flag, **places)


EVIL = member(b"../e")
NO_HOLES = b"%011o\0%011o\0" % (0, 0) * 4
BEHIND_ITS_RECORD = record("mtime", "1") + record("path", "../e")
MAP_THAT_GOES_ON = zero(b"a", 0, b"S", p257=GNU, p386=NO_HOLES, p482=b"\1")
SPARSE = extended(GNU__sparse__major="1", GNU__sparse__minor="0", GNU__sparse__name="a", GNU__sparse__realsize="9000")


@pytest.mark.asvs("5.3.3")
@verdicts(FORMAT)
def test_name_outside_in_any_extended_header_is_unsafe() -> Iterable[Row]:
    keywords = ("path", "GNU__sparse__name", "GNU__volume__filename", "linkpath")
    for keyword, type_flag, name in product(keywords, (b"x", b"X", b"g"), ("../e", "/e", "d/../../e")):
        yield unsafe(f"{keyword} {type_flag!r} {name}", extended(type_flag, **{keyword: name}), member())
    for keyword in ("path", "linkpath", "size", "GNU__sparse__realsize", "GNU__sparse__name"):
        yield unsafe(f"{keyword} of all members", extended(b"g", **{keyword: "0"}), member())
    yield sound("comment on all members", extended(b"g", comment="7c3f", mtime="1700000000"), member(), word="blank")


@verdicts(FORMAT)
def test_name_outside_or_two_names_of_one_rank_are_unsafe_in_any_order_of_the_headers() -> Iterable[Row]:
    for first, second in product((long_name(b"../e"), extended(path="../e")), (long_name(b"b"), extended(path="b"))):
        yield unsafe("outside first", first, second, member())
        yield unsafe("outside second", second, first, member())
    for case, parts in {
        "long and extended": (long_name(b"a"), extended(path="b")),
        "two long": (long_name(b"a"), long_name(b"b")),
        "two extended": (extended(path="a"), extended(path="b")),
        "two targets": (long_name(b"a", b"K"), extended(linkpath="b")),
        "two in one header": (member(b"./PaxHeaders/a", record("path", "a") + record("path", "b"), b"x"),),
    }.items():
        yield unsafe(case, *parts, member(b"c", type_flag=b"1", p157=b"a"))


@verdicts(FORMAT)
def test_name_or_target_outside_is_unsafe_wherever_some_reader_looks() -> Iterable[Row]:
    for type_flag in (b"D", b"V", b"N", b"A", b"E", b"I", b"M", b"7", b"Z"):
        yield unsafe(f"type {type_flag!r}", member(b"../e", type_flag=type_flag))
        yield sound(f"name inside, type {type_flag!r}", member(b"e", type_flag=type_flag), member(), word="blank")
    for name in (b"Y../e", b"N/e", b"D../e", b"R../e", b"T/e", b"X../e"):
        listed = b"Yb\0" + name + b"\0\0"
        yield unsafe(f"list of a folder {name!r}", member(b"a/", listed, b"D", p257=GNU))
        dumped = member(b"./PaxHeaders/a", record("GNU.dumpdir", listed), b"x")
        yield unsafe(f"extended list of a folder {name!r}", dumped, member(b"a/", type_flag=b"5"))
    yield sound("list of a folder", member(b"a/", b"Yb\0Dc\0\0", b"D", p257=GNU), word="blank")
    for line in (b"Rename a to ../e\n", b"Rename /e to b\n", b"Symlink b to c\n"):
        yield unsafe(f"table of names {line!r}", member(b"././@MaNgLeD_NaMeS", line, b"N"))
    renamed = member(b"././@MaNgLeD_NaMeS", b"Rename @@MaNgLeD.1 to d/b\n", b"N")
    yield sound("table of names", renamed, member(), word="blank")
    for magic in (POSIX, GNU, bytes(8), b"ustar 00"):
        yield unsafe(f"prefix under {magic!r}", member(p257=magic, p345=b"../d"))
        yield unsafe(f"absolute prefix under {magic!r}", member(p257=magic, p345=b"/d"))
        yield sound(f"prefix inside under {magic!r}", member(p257=magic, p345=b"d"), word="blank")
    for type_flag in (b"1", b"0", b"\0", b"7"):
        yield unsafe(f"target, type {type_flag!r}", member(type_flag=type_flag, p157=b"/etc/passwd"))
        yield unsafe(f"long target, type {type_flag!r}", long_name(b"../e", b"K"), member(type_flag=type_flag))
        linked = member(type_flag=type_flag, p157=b"b")
        yield unsafe(f"extended target, type {type_flag!r}", extended(linkpath="../e"), linked)


@verdicts(FORMAT)
def test_member_that_only_some_readers_see_is_unsafe() -> Iterable[Row]:
    for name, parts in ((b"d/", []), (b"d", [long_name(b"d/")])):
        yield unsafe(f"data of the file {name!r}", *parts, member(name, data(b"text") + EVIL, b"\0"))
        yield sound(
            f"text of the file {name!r}", *parts, member(name, b"text" * 300, b"\0"), member(b"b"), word="blank"
        )
    for type_flag in (b"V", b"N", b"E", b"I"):
        yield unsafe(f"name before {type_flag!r}", long_name(b"d/"), member(b"label", type_flag=type_flag), member())
    for magic in (POSIX, b"USTAR\x0000", bytes(8)):
        going_on = zero(b"a", 0, b"S", p257=magic, p386=NO_HOLES, p482=b"\1")
        yield unsafe(f"map that continues under {magic!r}", going_on, bytes(BLOCK))
    yield unsafe("prefix in the length of star", member(p345=b"d/" + b"p" * 126 + b"/..x"))
    yield unsafe("target of a link before a file", extended(linkpath="b"), member(content=b"x"))
    yield unsafe("zero byte in an extended name", extended(path="a\0b"), member())
    yield unsafe(
        "bytes behind an extended header in its block",
        zero(b"x", len(record("mtime", "1")), b"x", p257=POSIX),
        data(BEHIND_ITS_RECORD),
        member(),
    )
    yield unsafe("bytes behind a long name in its block", zero(b"L", 2, b"L"), data(b"d/../../e\0"), member())
    yield unsafe(
        "folder with a size that covers a member",
        zero(b"d", 2 * BLOCK, b"5", p257=POSIX),
        member(b"b", data(b"x") + member(b"b")),
        member(b"c"),
    )
    yield unsafe("size of an extended header that covers a member", extended(size=str(BLOCK)), zero(), EVIL)
    yield unsafe("size of a header that covers a member", extended(size="0"), zero(size=BLOCK), member(b"b"))
    yield unsafe("sparse size without a map", extended(GNU__sparse__size="5"), member(b"a", data(b"text") + EVIL))
    yield unsafe("real size without a map", extended(GNU__sparse__realsize="5"), member(b"a", data(b"text") + EVIL))
    # libarchive continues after the bytes that the map counts, here none.
    yield unsafe(
        "map of a member that is no sparse file",
        zero(size=2 * BLOCK, p257=GNU, p345=b"p" * 50),
        zero(b"..", 0, b"1", p157=b".."),
        bytes(BLOCK),
    )
    yield unsafe("label with data", member(b"label", data(b"text") + EVIL, b"V"))
    yield unsafe(
        "header behind the end",
        data(archive(entry("a.bin", bytes(range(256)) * 60)).rstrip(b"\0")),
        END,
        b"\7" * BLOCK,
        EVIL,
    )


@verdicts(FORMAT)
def test_what_all_readers_see_alike_passes() -> Iterable[Row]:
    yield sound("extended name beside a truncated one", extended(path="ü" * 60), member(b"u" * 100), word="blank")
    yield sound(
        "time beside a long name",
        long_name(b"n" * 150),
        extended(mtime="1700000000.5"),
        member(b"n" * 100),
        word="blank",
    )
    yield sound("folder with a size", zero(b"d", BLOCK, b"5", p257=POSIX), member(b"b"), member(b"c"), word="blank")
    yield sound("size of an extended header", extended(size="4"), zero(), data(b"text"), member(b"b"))
    yield sound("map of holes that continues", MAP_THAT_GOES_ON, bytes(BLOCK), word="blank")
    yield sound(
        "hard link of an old writer that states its file's size",
        member(content=b"x"),
        zero(b"b", BLOCK, b"1", p157=b"a"),
        member(b"c", b"text"),
        member(b"d"),
    )
    yield sound("sparse file", SPARSE, member(b"GNUSparseFile.7/a", data(b"1\n0\n4\n") + data(b"text")))
    yield sound(
        "sparse file with its map in the header",
        extended(GNU__sparse__size="9000", GNU__sparse__numblocks="1", GNU__sparse__map="0,4"),
        member(b"a", b"text"),
    )
    yield sound(
        "folder of an incremental archive",
        long_name(b"d" * 120 + b"/"),
        member(b"d" * 100, b"Yf\0\0", b"D", p257=GNU, p345=b"15300621730\0"),
        word="blank",
    )
    joined = b""
    for layout in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        named = {"n" * 90 + "/" + "m" * 150: b"text", "é" * 80: b"more"}
        files = [entry(name, content) for name, content in named.items()]
        links = [entry("second " + name, type=tarfile.LNKTYPE, linkname=name) for name in named]
        joined += archive(*files, *links, layout=layout)
    yield sound("archives of tarfile with long names and links", joined)
    yield sound("map that is none and is not skipped", MAP_THAT_GOES_ON, b"text" * 126 + bytes(8), word="corrupt")
    digits = header(b"a", b"\0%010o\0" % BLOCK)
    yield sound("digits behind a zero byte, which are no size", digits, data(EVIL), word="corrupt")


@verdicts(FORMAT)
def test_map_of_holes_that_contradicts_its_member_is_unsafe() -> Iterable[Row]:
    places: dict[str, bytes]
    for places in (
        {"p257": POSIX, "p345": b"p" * 155},
        {"p386": b"%011o\0" % 0 + b"%011o\0" % 5000},
        {"p386": b"%011o\0" % 512 + b"%011o\0" % 1, "p410": b"%011o\0" % 0 + b"%011o\0" % 1},
        {"p386": b"%011o\0" % 0 + b"%011o\0" % 512, "p483": b"%011o\0" % 100},
        {"p386": b"%011o\0%011o\0" % (0, 512), "p483": b"no digits\0"},
        {},
        {"p386": b"%011o\0%011o\0" % (0, 0)},
        {"p386": b"%011o\0%011o\0" % (0, 100)},
        {"p386": bytes(24) + b"%011o\0%011o\0" % (0, 512)},
        {"p386": b"%011o\0%011o\0" % (0, 512), "p482": b"\1"},
    ):
        sparse = zero(b"a", BLOCK, b"S", **({"p257": GNU, "p483": b"%011o\0" % 1024} | places))
        yield unsafe(f"{places}", sparse, zero(b"b", 0, b"2", p157=b"/etc"))


@verdicts(FORMAT)
def test_field_that_only_some_readers_take_for_a_number_is_unsafe() -> Iterable[Row]:
    odd = (b"1_45247", b"+145247", b"0o14524", b"\t145247", b"14 5247", b"\x00145247", b"-000001")
    for place, number in product((100, 108, 116, 136), odd):
        yield unsafe(f"{place} {number!r}", zero(b"a.txt", 0, b"0", **{f"p{place}": number}))
    for number in (b"000644 \0", b"   644 \0", b"0000644\0", b"00000644", bytes(8), b" " * 8, b"\x80" + bytes(7)):
        yield sound(f"{number!r}", zero(b"a.txt", p100=number, p108=number, p116=number), word="blank")
