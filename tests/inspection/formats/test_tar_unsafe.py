"""TAR: names and links in every place where some reader looks, and sizes on which readers disagree."""

import tarfile
from collections.abc import Sequence

import pytest

from sluice_inspect.archives.tar_headers import BLOCK
from sluice_inspect.formats.tar import FORMAT
from sluice_inspect.report import Finding
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.test_tar import END, archive, entry, header
from tests.rows import each_row

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


def is_unsafe(*parts: bytes) -> bool:
    return examine_bytes(FORMAT, b"".join(parts) + END).finding is Finding.ARCHIVE_UNSAFE


def passes(*parts: bytes) -> bool:
    return examine_bytes(FORMAT, b"".join(parts) + END).passes


EVIL = member(b"../e")


def zero(name: bytes = b"a", size: int = 0, type_flag: bytes = b"0", **places: bytes) -> bytes:
    """Return a header alone, without the data that its size states."""
    return header(name, b"%011o\0" % size, type_flag, **places)


@each_row("keyword", ["path", "GNU__sparse__name", "GNU__volume__filename", "linkpath"])
@each_row("type_flag", [b"x", b"X", b"g"])
@each_row("name", ["../e", "/e", "d/../../e"])
@pytest.mark.asvs("5.3.3")
def test_name_outside_in_any_extended_header_is_unsafe(keyword: str, type_flag: bytes, name: str) -> None:
    assert is_unsafe(extended(type_flag, **{keyword: name}), member())


@each_row("keyword", ["path", "linkpath", "size", "GNU__sparse__realsize", "GNU__sparse__name"])
def test_global_header_that_names_or_measures_all_members_is_unsafe(keyword: str) -> None:
    assert is_unsafe(extended(b"g", **{keyword: "0"}), member())
    assert passes(extended(b"g", comment="7c3f", mtime="1700000000"), member())


@each_row("first", [long_name(b"../e"), extended(path="../e")])
@each_row("second", [long_name(b"b"), extended(path="b")])
def test_name_outside_is_unsafe_in_any_order_of_the_headers(first: bytes, second: bytes) -> None:
    assert is_unsafe(first, second, member())
    assert is_unsafe(second, first, member())


@each_row(
    "parts",
    [
        (long_name(b"a"), extended(path="b")),
        (long_name(b"a"), long_name(b"b")),
        (extended(path="a"), extended(path="b")),
        (long_name(b"a", b"K"), extended(linkpath="b")),
        (member(b"./PaxHeaders/a", record("path", "a") + record("path", "b"), b"x"),),
    ],
)
def test_two_names_of_the_same_rank_are_unsafe(parts: Sequence[bytes]) -> None:
    assert is_unsafe(*parts, member(b"c", type_flag=b"1", p157=b"a"))


@each_row("type_flag", [b"D", b"V", b"N", b"A", b"E", b"I", b"M", b"7", b"Z"])
def test_name_outside_of_an_entry_of_any_type_is_unsafe(type_flag: bytes) -> None:
    assert is_unsafe(member(b"../e", type_flag=type_flag))
    assert passes(member(b"e", type_flag=type_flag), member())


@each_row("entry_of_list", [b"Y../e", b"N/e", b"D../e", b"R../e", b"T/e", b"X../e"])
def test_name_outside_in_the_list_of_a_folder_is_unsafe(entry_of_list: bytes) -> None:
    listed = b"Yb\0" + entry_of_list + b"\0\0"
    assert is_unsafe(member(b"a/", listed, b"D", p257=GNU))
    assert is_unsafe(member(b"./PaxHeaders/a", record("GNU.dumpdir", listed), b"x"), member(b"a/", type_flag=b"5"))
    assert passes(member(b"a/", b"Yb\0Dc\0\0", b"D", p257=GNU))


@each_row("line", [b"Rename a to ../e\n", b"Rename /e to b\n", b"Symlink b to c\n"])
def test_name_outside_or_link_in_a_table_of_names_is_unsafe(line: bytes) -> None:
    assert is_unsafe(member(b"././@MaNgLeD_NaMeS", line, b"N"))
    assert passes(member(b"././@MaNgLeD_NaMeS", b"Rename @@MaNgLeD.1 to d/b\n", b"N"), member())


@each_row("magic", [POSIX, GNU, bytes(8), b"ustar 00"])
def test_prefix_that_leads_outside_is_unsafe_under_any_magic(magic: bytes) -> None:
    assert is_unsafe(member(p257=magic, p345=b"../d"))
    assert is_unsafe(member(p257=magic, p345=b"/d"))
    assert passes(member(p257=magic, p345=b"d"))


@each_row("type_flag", [b"1", b"0", b"\0", b"7"])
def test_target_outside_is_unsafe_whatever_the_type(type_flag: bytes) -> None:
    assert is_unsafe(member(type_flag=type_flag, p157=b"/etc/passwd"))
    assert is_unsafe(long_name(b"../e", b"K"), member(type_flag=type_flag))
    assert is_unsafe(extended(linkpath="../e"), member(type_flag=type_flag, p157=b"b"))


@each_row("name", [b"d/", b"d"])
def test_file_named_like_a_folder_whose_data_is_a_member_is_unsafe(name: bytes) -> None:
    parts = [] if name == b"d/" else [long_name(b"d/")]
    assert is_unsafe(*parts, member(name, data(b"text") + EVIL, b"\0"))
    assert passes(*parts, member(name, b"text" * 300, b"\0"), member(b"b"))


@each_row("type_flag", [b"V", b"N", b"E", b"I"])
def test_name_before_a_label_or_table_is_unsafe(type_flag: bytes) -> None:
    assert is_unsafe(long_name(b"d/"), member(b"label", type_flag=type_flag), member())


NO_HOLES = b"%011o\0%011o\0" % (0, 0) * 4
BEHIND_ITS_RECORD = record("mtime", "1") + record("path", "../e")


@each_row(
    ("case", "parts"),
    [
        ("prefix in the length of star", [member(p345=b"d/" + b"p" * 126 + b"/..x")]),
        ("target of a link before a file", [extended(linkpath="b"), member(content=b"x")]),
        ("zero byte in an extended name", [extended(path="a\0b"), member()]),
        ("bytes behind an extended header in its block",
         [zero(b"x", len(record("mtime", "1")), b"x", p257=POSIX), data(BEHIND_ITS_RECORD), member()]),
        ("bytes behind a long name in its block", [zero(b"L", 2, b"L"), data(b"d/../../e\0"), member()]),
        ("folder with a size that covers a member",
         [zero(b"d", 2 * BLOCK, b"5", p257=POSIX), member(b"b", data(b"x") + member(b"b")), member(b"c")]),
        ("size of an extended header that covers a member", [extended(size=str(BLOCK)), zero(), EVIL]),
        ("size of a header that covers a member", [extended(size="0"), zero(size=BLOCK), member(b"b")]),
        ("sparse size without a map", [extended(GNU__sparse__size="5"), member(b"a", data(b"text") + EVIL)]),
        ("real size without a map", [extended(GNU__sparse__realsize="5"), member(b"a", data(b"text") + EVIL)]),
        *(
            (f"map that goes on under {magic!r}", [zero(b"a", 0, b"S", p257=magic, p386=NO_HOLES, p482=b"\1"), bytes(BLOCK)])
            for magic in (POSIX, b"USTAR\x0000", bytes(8))
        ),
        (
            # libarchive goes on behind the bytes that the map counts, here none.
            "map of a member that is no sparse file",
            [zero(size=2 * BLOCK, p257=GNU, p345=b"p" * 50), zero(b"..", 0, b"1", p157=b".."), bytes(BLOCK)],
        ),
        ("label with data", [member(b"label", data(b"text") + EVIL, b"V")]),
        ("header behind the end",
         [data(archive(entry("a.bin", bytes(range(256)) * 60)).rstrip(b"\0")), END, b"\7" * BLOCK, EVIL]),
    ],
)  # fmt: skip
def test_member_that_only_some_readers_see_is_unsafe(case: str, parts: list[bytes]) -> None:
    assert is_unsafe(*parts)


MAP_THAT_GOES_ON = zero(b"a", 0, b"S", p257=GNU, p386=NO_HOLES, p482=b"\1")
SPARSE = extended(GNU__sparse__major="1", GNU__sparse__minor="0", GNU__sparse__name="a", GNU__sparse__realsize="9000")


@each_row(
    ("case", "parts"),
    [
        ("extended name beside a truncated one", [extended(path="ü" * 60), member(b"u" * 100)]),
        ("time beside a long name", [long_name(b"n" * 150), extended(mtime="1700000000.5"), member(b"n" * 100)]),
        ("folder with a size", [zero(b"d", BLOCK, b"5", p257=POSIX), member(b"b"), member(b"c")]),
        ("size of an extended header", [extended(size="4"), zero(), data(b"text"), member(b"b")]),
        ("map of holes that goes on", [MAP_THAT_GOES_ON, bytes(BLOCK)]),
        ("hard link of an old writer that states its file's size",
         [member(content=b"x"), zero(b"b", BLOCK, b"1", p157=b"a"), member(b"c", b"text"), member(b"d")]),
        ("sparse file", [SPARSE, member(b"GNUSparseFile.7/a", data(b"1\n0\n4\n") + data(b"text"))]),
        (
            "sparse file with its map in the header",
            [extended(GNU__sparse__size="9000", GNU__sparse__numblocks="1", GNU__sparse__map="0,4"), member(b"a", b"text")],
        ),
        ("folder of an incremental archive",
         [long_name(b"d" * 120 + b"/"), member(b"d" * 100, b"Yf\0\0", b"D", p257=GNU, p345=b"15300621730\0")]),
    ],
)  # fmt: skip
def test_what_all_readers_see_alike_passes(case: str, parts: list[bytes]) -> None:
    assert passes(*parts)


def test_map_that_is_none_is_not_skipped_and_digits_behind_a_zero_byte_are_no_size() -> None:
    assert not passes(MAP_THAT_GOES_ON, b"text" * 126 + bytes(8))
    assert not passes(header(b"a", b"\0%010o\0" % BLOCK), data(EVIL))


@each_row(
    "places",
    [
        {"p257": POSIX, "p345": b"p" * 155},
        {"p386": b"%011o\0" % 0 + b"%011o\0" % 5000},
        {"p386": b"%011o\0" % 512 + b"%011o\0" % 1, "p410": b"%011o\0" % 0 + b"%011o\0" % 1},
        {"p386": b"%011o\0" % 0 + b"%011o\0" % 512, "p483": b"%011o\0" % 100},
        {"p386": b"%011o\0%011o\0" % (0, 512), "p483": b"no digits\0"},
        {},  # no entry for any data
        {"p386": b"%011o\0%011o\0" % (0, 0)},
        {"p386": b"%011o\0%011o\0" % (0, 100)},
        {"p386": bytes(24) + b"%011o\0%011o\0" % (0, 512)},
        {"p386": b"%011o\0%011o\0" % (0, 512), "p482": b"\1"},  # goes on behind entries that are empty
    ],
)
def test_map_of_holes_that_contradicts_its_member_is_unsafe(places: dict[str, bytes]) -> None:
    sparse = zero(b"a", BLOCK, b"S", **({"p257": GNU, "p483": b"%011o\0" % 1024} | places))
    assert is_unsafe(sparse, zero(b"b", 0, b"2", p157=b"/etc"))


def test_archives_of_tarfile_pass_with_long_names_and_links_of_every_layout() -> None:
    joined = b""
    for layout in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        named = {"n" * 90 + "/" + "m" * 150: b"text", "é" * 80: b"more"}
        files = [entry(name, content) for name, content in named.items()]
        links = [entry("second " + name, type=tarfile.LNKTYPE, linkname=name) for name in named]
        joined += archive(*files, *links, layout=layout)
    assert passes(joined)


@each_row("place", [100, 108, 116, 136])
@each_row("number", [b"1_45247", b"+145247", b"0o14524", b"\t145247", b"14 5247", b"\x00145247", b"-000001"])
def test_field_that_only_some_readers_take_for_a_number_is_unsafe(place: int, number: bytes) -> None:
    assert is_unsafe(zero(b"a.txt", 0, b"0", **{f"p{place}": number}))


@each_row("number", [b"000644 \0", b"   644 \0", b"0000644\0", b"00000644", bytes(8), b" " * 8, b"\x80" + bytes(7)])
def test_field_in_any_spelling_of_a_number_passes(number: bytes) -> None:
    assert passes(zero(b"a.txt", p100=number, p108=number, p116=number))
