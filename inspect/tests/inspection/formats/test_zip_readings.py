"""ZIP: names, links and sizes that some reader takes from another place than the directory."""

import stat
import struct
import zlib
from collections.abc import Iterable, Iterator
from itertools import product

import pytest

from sluice_inspect.formats.zip import FORMAT
from tests.inspection.formats.examining import Row, verdicts
from tests.inspection.formats.zip_samples import Member, extra_field, unicode_path, written

LINK = stat.S_IFLNK | 0o777
MASKED = 0x2000
FULL = (0xFFFFFFFF, 0xFFFFFFFF)


def unsafe(case: str, *members: Member) -> Row:
    return case, written(*members), "archive_unsafe"


def sound(case: str, *members: Member) -> Row:
    return case, written(*members), "ok"


def of_either_header(case: str, extra: bytes) -> Iterator[Row]:
    yield unsafe(f"{case} in the directory", Member(extra=extra))
    yield unsafe(f"{case} in the local header", Member(local_extra=extra))


def asi_unix(mode: int, target: bytes = b"") -> bytes:
    fields = struct.pack("<HL2H", mode, len(target), 0, 0) + target
    return extra_field(0x756E, struct.pack("<L", zlib.crc32(fields)) + fields)


def pkware_unix(target: bytes = b"") -> bytes:
    return extra_field(0x000D, bytes(12) + target)


@pytest.mark.asvs("5.2.5")
@verdicts(FORMAT)
def test_link_or_device_is_unsafe_whatever_the_system_and_header() -> Iterable[Row]:
    for system in (0, 1, 2, 3, 7, 10, 11, 14, 18, 19, 255):
        for mode in (LINK, stat.S_IFCHR | 0o666, stat.S_IFBLK | 0o666, stat.S_IFIFO | 0o644):
            yield unsafe(f"{mode:o} of system {system}", Member(system=system, mode=mode))
        yield sound(f"file of system {system}", Member(system=system, mode=stat.S_IFREG | 0o644))
    for extra in (asi_unix(LINK), asi_unix(LINK, b"b"), asi_unix(0, b"b"), pkware_unix(b"b")):
        yield from of_either_header(f"link {extra!r}", extra)
        yield unsafe(f"second link {extra!r}", Member(extra=asi_unix(0o100644) + extra))


@pytest.mark.asvs("5.3.3")
@verdicts(FORMAT)
def test_unicode_name_outside_is_unsafe_in_either_header() -> Iterable[Row]:
    names = (b"../e", b"/e", b"..\\e", b"d/../../e", b"a\0b")
    for name, version, crc_of in product(names, (1, 2), (b"a", b"another")):
        yield from of_either_header(f"{name!r} {version} {crc_of!r}", unicode_path(name, crc_of, version=version))


@pytest.mark.asvs("5.3.2")
@verdicts(FORMAT)
def test_name_that_leads_outside_in_overlong_utf_8_is_unsafe() -> Iterable[Row]:
    names = (b"\xc0\xae\xc0\xae/e", b"..\xc0\xafe", b"\xe0\x80\xae./e", b"a/..\xf0\x80\x80\xaf../e", b"\xc1\x83:/e")
    for name, flags in product(names, (0, 0x0800)):
        yield unsafe(f"{name!r} {flags}", Member(name=name, flags=flags))
    for name in names:
        yield from of_either_header(f"unicode name {name!r}", unicode_path(name))
    yield sound("Japanese name in a code page", Member(name="ﾀｮ.txt".encode("cp932")))


@verdicts(FORMAT)
def test_name_that_contradicts_another_name_is_unsafe() -> Iterable[Row]:
    a_umlaut, o_umlaut, same = (unicode_path(name.encode()) for name in "äöa")
    cp850 = "ä".encode("cp850")
    of_cp850 = unicode_path("ä".encode(), cp850)
    yield from of_either_header("two names", a_umlaut + o_umlaut)
    yield from of_either_header("the same name twice", same + same)
    yield unsafe("a name in each header", Member(extra=a_umlaut, local_extra=o_umlaut))
    yield unsafe("no UTF-8", Member(extra=unicode_path(b"\xe4")))
    yield unsafe("another name than a plain one", Member(name=b"a", extra=unicode_path(b"b")))
    other = Member(name=b"\xc3\xa4", flags=0x0800)
    yield unsafe("name of another member", other, Member(name=cp850, extra=of_cp850))
    yield sound("same name", Member(name=b"a", extra=same))
    slashes = unicode_path(b"d/A.txt", b"d\\a.txt")
    yield sound("other slashes and case", Member(name=b"d\\a.txt", extra=slashes, local_extra=slashes))
    twin = Member(name=b"d/A.txt")
    yield unsafe("other slashes of another member's name", Member(name=b"d\\a.txt", extra=slashes), twin)
    yield sound("name of a code page", Member(name=cp850, extra=of_cp850, local_extra=of_cp850))
    yield sound("replaced letter", Member(name=b"_.txt", extra=unicode_path("語.txt".encode(), b"_.txt")))
    for extra in (asi_unix(0o100644), pkware_unix(), extra_field(0x5455, bytes(5))):
        yield sound(f"owners and times {extra!r}", Member(extra=extra, local_extra=extra))
    for name in (b"../e", b"/e"):
        yield unsafe(f"masked local name {name!r}", Member(flags=MASKED | 0x0041, local_name=name))
    yield unsafe("local name that no flag excuses", Member(flags=MASKED, local_name=b"../e"))


@verdicts(FORMAT)
def test_member_in_data_whose_size_the_local_header_does_not_state_is_unsafe() -> Iterable[Row]:
    outside, inner = written(Member(name=b"../e")), written(Member(name=b"seen"))
    for stated in ((0, 0), FULL):
        yield unsafe(f"member in data, {stated}", Member(content=outside, local_sizes=stated))
        yield sound(f"text in data, {stated}", Member(local_sizes=stated))
    sizes = extra_field(1, struct.pack("<2Q", len(inner), len(inner)))
    named = Member(name=b"inner.zip", content=inner, local_sizes=FULL, local_extra=sizes)
    yield sound("size of an inner archive in a field", named)
    behind = struct.pack("<4s3L", b"PK\7\x08", zlib.crc32(inner), len(inner), len(inner))
    named = Member(name=b"inner.zip", content=inner, flags=8, local_sizes=(0, 0), behind=behind)
    yield sound("size of an inner archive behind it", named)
    hidden = inner[: inner.index(b"PK\1\2")] + written(Member())
    yield unsafe("member before an inner archive", Member(content=hidden, name=b"inner.zip"))
    yield unsafe("folder with content", Member(name=b"folder/"))
    yield "folder", written(Member(name=b"folder/", content=b"")), "blank"
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(b"text") + packer.flush()
    yield sound("deflated", Member(method=8, packed=packed))
    yield unsafe("bytes behind a deflated stream", Member(method=8, packed=packed + b"more"))


@verdicts(FORMAT)
def test_descriptor_that_contradicts_the_directory_is_unsafe() -> Iterable[Row]:
    for layout, start, changed, flags in product(("<4s3L", "<4sL2Q"), (0, 4), (None, 1, 2, 3), (0, 8)):
        fields: list[bytes | int] = [b"PK\7\x08", zlib.crc32(b"text"), 4, 4]
        if changed is not None:
            fields[changed] = 3
        member = Member(flags=flags, local_flags=8, behind=struct.pack(layout, *fields)[start:])
        yield (sound if changed is None else unsafe)(f"{layout} {start} {changed} {flags}", member)
    behind, second = struct.pack("<3L", 1, 2, 3) + b"more", Member(name=b"b")
    yield unsafe("other bytes", Member(flags=8, behind=behind), second)
    yield sound("zeros", Member(flags=8, behind=bytes(16)), second)
    yield sound("none", Member(flags=8), second)


@verdicts(FORMAT)
def test_extra_field_that_contradicts_the_header_or_is_damaged_does_not_pass() -> Iterable[Row]:
    sizes, once_more = extra_field(1, struct.pack("<2Q", 4, 4)), extra_field(1, struct.pack("<Q", 4))
    for value in (5, 2**40):
        wrong = extra_field(1, struct.pack("<2Q", 4, value))
        yield unsafe(f"{value} beside the size", Member(extra=wrong))
        yield unsafe(f"{value} in the local header", Member(local_extra=wrong))
        yield unsafe(f"{value} in place of the size", Member(extra=wrong, unpacked=0xFFFFFFFF))
    yield sound("repeated sizes", Member(extra=sizes, local_extra=sizes))
    yield sound("sizes", Member(extra=sizes, unpacked=0xFFFFFFFF, local_extra=extra_field(1, bytes(16))))
    yield sound("sizes in the local header", Member(local_sizes=FULL, local_extra=sizes))
    yield unsafe("one size of two", Member(local_sizes=FULL, local_extra=once_more))
    yield unsafe("sizes twice", Member(local_extra=sizes + sizes))
    odd = [extra_field(1, struct.pack("<2Q", 4, 4).ljust(32, b"\0")[:size]) for size in (1, 7, 9, 17, 32)]
    for extra in odd:
        yield f"odd {extra!r}", written(Member(extra=extra)), "corrupt"
        yield f"odd local {extra!r}", written(Member(local_extra=extra)), "corrupt"
    yield "not filled", written(Member(extra=b"\x01\x00\x09\x00four")), "corrupt"
    for extra in (b" ", b"   ", extra_field(0x5455, bytes(5)) + b"\xff\xff\xff"):
        yield sound(f"too few bytes for a field {extra!r}", Member(extra=extra))
    yield sound("zeros", Member(extra=bytes(3), local_extra=bytes(3)))


@verdicts(FORMAT)
def test_bytes_between_members_that_belong_to_none_are_unsafe() -> Iterable[Row]:
    after = Member(name=b"b")
    for gap in (b"X", bytes(1), bytes(4096), b"text" * 9):
        yield unsafe(f"{gap[:8]!r} before another member", Member(behind=gap), after)
        yield sound(f"{gap[:8]!r} before the directory", after, Member(behind=gap))
    yield sound("zeros in place of a descriptor", Member(flags=8, behind=bytes(16)), after)
    yield unsafe("too many zeros for one", Member(flags=8, behind=bytes(30)), after)


PLAIN = written(Member())
END, START = PLAIN.rindex(b"PK\5\6"), PLAIN.index(b"PK\1\2")


def end_64(*, record_size: int = 44, at: int = END, more: bytes = b"") -> bytes:
    sizes = (1, 1, END - START, START)
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", record_size, 45, 45, 0, 0, *sizes)
    return record + more + struct.pack("<4sLQL", b"PK\6\7", 0, at, 1)


@verdicts(FORMAT)
def test_end_records_that_contradict_each_other_are_unsafe() -> Iterable[Row]:
    for entries in (None, 0xFFFF):
        yield f"entries {entries}", written(Member(), between=end_64(), entries=entries), "ok"
    yield "behind a script", b"#! a script\n" + written(Member(), between=end_64()), "ok"
    yield "two entries", written(Member(), between=end_64(), entries=2), "archive_unsafe"
    for case, between in {
        "longer record": end_64(record_size=45),
        "longer record with more": end_64(record_size=48, more=b"more"),
        "record elsewhere": end_64(at=END - 1),
        "two records": end_64()[:56] + end_64(),
    }.items():
        yield case, written(Member(), between=between), "archive_unsafe"
    for size in (18, 200):
        yield f"end record in the comment {size}", written(Member(), comment=b"PK\5\6" + bytes(size)), "archive_unsafe"
    yield "comment", written(Member(), comment=b"a comment with PK in it"), "ok"
    for behind in (bytes(100), b"\r\n", b"-- sent by a gateway\r\n", b"\x7f\x01\x02"):
        yield f"bytes behind {behind[:9]!r}", PLAIN + behind, "ok"
    inner = written(Member(name=b"seen"))
    shifted = inner[: inner.index(b"PK\5\6")] + written(Member(name=b"hidden", content=b"x" * 8))
    yield "directory that is read with and without the bytes before it", shifted, "archive_unsafe"
