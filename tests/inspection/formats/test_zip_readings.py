"""ZIP: names, links and sizes that some reader takes from another place than the directory."""

import stat
import struct
import zlib

import pytest

from sluice_inspect.formats.zip import FORMAT
from sluice_inspect.report import Finding
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.zip_samples import Member, extra_field, unicode_path, written
from tests.rows import each_row

LINK = stat.S_IFLNK | 0o777
MASKED = 0x2000
FULL = (0xFFFFFFFF, 0xFFFFFFFF)


def is_unsafe(data: bytes) -> bool:
    return examine_bytes(FORMAT, data).finding is Finding.ARCHIVE_UNSAFE


def passes(data: bytes) -> bool:
    return examine_bytes(FORMAT, data).passes


def asi_unix(mode: int, target: bytes = b"") -> bytes:
    fields = struct.pack("<HL2H", mode, len(target), 0, 0) + target
    return extra_field(0x756E, struct.pack("<L", zlib.crc32(fields)) + fields)


def pkware_unix(target: bytes = b"") -> bytes:
    return extra_field(0x000D, bytes(12) + target)


@each_row("system", [0, 1, 2, 3, 7, 10, 11, 14, 18, 19, 255])
@each_row("mode", [LINK, stat.S_IFCHR | 0o666, stat.S_IFBLK | 0o666, stat.S_IFIFO | 0o644])
@pytest.mark.asvs("5.2.5")
def test_link_or_device_is_unsafe_whatever_the_system(system: int, mode: int) -> None:
    assert is_unsafe(written(Member(system=system, mode=mode)))
    assert passes(written(Member(system=system, mode=stat.S_IFREG | 0o644)))


@each_row("extra", [asi_unix(LINK), asi_unix(LINK, b"b"), asi_unix(0, b"b"), pkware_unix(b"b")])
@pytest.mark.asvs("5.2.5")
def test_link_in_an_extra_field_of_either_header_is_unsafe(extra: bytes) -> None:
    assert is_unsafe(written(Member(extra=extra)))
    assert is_unsafe(written(Member(local_extra=extra)))
    assert is_unsafe(written(Member(extra=asi_unix(0o100644) + extra)))


@each_row("name", [b"../e", b"/e", b"..\\e", b"d/../../e", b"a\0b"])
@each_row("version", [1, 2])
@each_row("crc_of", [b"a", b"another"])
@pytest.mark.asvs("5.3.3")
def test_unicode_name_outside_is_unsafe_in_either_header(name: bytes, version: int, crc_of: bytes) -> None:
    extra = unicode_path(name, crc_of, version=version)
    assert is_unsafe(written(Member(extra=extra)))
    assert is_unsafe(written(Member(local_extra=extra)))


A_UMLAUT, O_UMLAUT = unicode_path("ä".encode()), unicode_path("ö".encode())
SAME = unicode_path(b"a")
CP850 = "ä".encode("cp850")
OF_CP850 = unicode_path("ä".encode(), CP850)


@each_row(
    ("case", "members"),
    [
        ("two names in the directory", [Member(extra=A_UMLAUT + O_UMLAUT)]),
        ("two names in the local header", [Member(local_extra=A_UMLAUT + O_UMLAUT)]),
        ("a name in each header", [Member(extra=A_UMLAUT, local_extra=O_UMLAUT)]),
        ("the same name twice in the directory", [Member(extra=SAME + SAME)]),
        ("the same name twice in the local header", [Member(local_extra=SAME + SAME)]),
        ("no UTF-8", [Member(extra=unicode_path(b"\xe4"))]),
        ("another name than a plain one", [Member(name=b"a", extra=unicode_path(b"b"))]),
        ("name of another member", [Member(name=b"\xc3\xa4", flags=0x0800), Member(name=CP850, extra=OF_CP850)]),
    ],
)
def test_unicode_name_that_contradicts_another_name_is_unsafe(case: str, members: list[Member]) -> None:
    assert is_unsafe(written(*members))


@each_row(
    "member",
    [
        Member(name=b"a", extra=SAME),
        Member(name=CP850, extra=OF_CP850, local_extra=OF_CP850),
        Member(name=b"_.txt", extra=unicode_path("語.txt".encode(), b"_.txt")),
        *(Member(extra=each, local_extra=each) for each in (asi_unix(0o100644), pkware_unix(), extra_field(0x5455, bytes(5)))),
    ],
)  # fmt: skip
def test_unicode_name_of_a_code_page_and_owners_and_times_pass(member: Member) -> None:
    assert passes(written(member))


def test_local_name_outside_is_unsafe_even_if_masked_and_no_other_is_excused() -> None:
    for name in (b"../e", b"/e"):
        assert is_unsafe(written(Member(flags=MASKED | 0x0041, local_name=name)))
    assert not passes(written(Member(flags=MASKED, local_name=b"../e")))


@each_row("sizes", [(0, 0), FULL])
def test_member_in_data_whose_size_the_local_header_does_not_state_is_unsafe(sizes: tuple[int, int]) -> None:
    inner = written(Member(name=b"../e"))
    assert is_unsafe(written(Member(content=inner, local_sizes=sizes)))
    assert passes(written(Member(local_sizes=sizes)))


def test_archive_in_an_archive_passes_wherever_its_size_is_stated() -> None:
    inner = written(Member(name=b"seen"))
    sizes = extra_field(1, struct.pack("<2Q", len(inner), len(inner)))
    assert passes(written(Member(name=b"inner.zip", content=inner, local_sizes=FULL, local_extra=sizes)))
    behind = struct.pack("<4s3L", b"PK\7\x08", zlib.crc32(inner), len(inner), len(inner))
    assert passes(written(Member(name=b"inner.zip", content=inner, flags=8, local_sizes=(0, 0), behind=behind)))
    hidden = inner[: inner.index(b"PK\1\2")] + written(Member())
    assert is_unsafe(written(Member(content=hidden, name=b"inner.zip")))  # with a member before it


@each_row("layout", ["<4s3L", "<4sL2Q"])
@each_row("signed", [1, 0])
@each_row("changed", [None, 1, 2, 3])
def test_descriptor_that_contradicts_the_directory_is_unsafe(layout: str, signed: int, changed: int | None) -> None:
    fields: list[bytes | int] = [b"PK\7\x08", zlib.crc32(b"text"), 4, 4]
    if changed is not None:
        fields[changed] = 3
    behind = struct.pack(layout, *fields)[0 if signed else 4 :]
    for flags in (0, 8):
        data = written(Member(flags=flags, local_flags=8, behind=behind))
        assert passes(data) if changed is None else is_unsafe(data)


def test_other_bytes_in_place_of_a_descriptor_are_unsafe_unless_they_are_zeros() -> None:
    behind = struct.pack("<3L", 1, 2, 3) + b"more"
    assert is_unsafe(written(Member(flags=8, behind=behind), Member(name=b"b")))
    assert passes(written(Member(flags=8, behind=bytes(16)), Member(name=b"b")))
    assert passes(written(Member(flags=8), Member(name=b"b")))


def test_folder_with_content_is_unsafe() -> None:
    assert is_unsafe(written(Member(name=b"folder/")))
    assert passes(written(Member(name=b"folder/", content=b"")))


def test_bytes_behind_a_deflated_stream_are_unsafe() -> None:
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(b"text") + packer.flush()
    assert passes(written(Member(method=8, packed=packed)))
    assert is_unsafe(written(Member(method=8, packed=packed + b"more")))


@each_row("value", [5, 2**40])
def test_zip64_field_that_contradicts_the_header_is_unsafe(value: int) -> None:
    sizes = extra_field(1, struct.pack("<2Q", 4, value))
    assert not passes(written(Member(extra=sizes)))
    assert is_unsafe(written(Member(local_extra=sizes)))
    assert is_unsafe(written(Member(extra=sizes, unpacked=0xFFFFFFFF)))


def test_zip64_field_that_repeats_the_header_passes_once() -> None:
    sizes = extra_field(1, struct.pack("<2Q", 4, 4))
    assert passes(written(Member(extra=sizes, local_extra=sizes)))
    assert passes(written(Member(extra=sizes, unpacked=0xFFFFFFFF, local_extra=extra_field(1, bytes(16)))))
    assert passes(written(Member(local_sizes=FULL, local_extra=sizes)))
    assert is_unsafe(written(Member(local_sizes=FULL, local_extra=extra_field(1, struct.pack("<Q", 4)))))
    assert is_unsafe(written(Member(local_extra=sizes + sizes)))


@each_row("size", [1, 7, 9, 17, 32])
def test_zip64_field_of_an_odd_length_is_damaged(size: int) -> None:
    extra = extra_field(1, struct.pack("<2Q", 4, 4).ljust(32, b"\0")[:size])
    assert not passes(written(Member(extra=extra)))
    assert not passes(written(Member(local_extra=extra)))


@each_row("extra", [b" ", b"   ", b"\x01\x00\x09\x00four"])
def test_extra_field_that_does_not_fill_its_space_is_damaged(extra: bytes) -> None:
    assert not passes(written(Member(extra=extra)))
    assert passes(written(Member(extra=bytes(3), local_extra=bytes(3))))


PLAIN = written(Member())
END, START = PLAIN.rindex(b"PK\5\6"), PLAIN.index(b"PK\1\2")


def end_64(*, record_size: int = 44, at: int = END, more: bytes = b"") -> bytes:
    sizes = (1, 1, END - START, START)
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", record_size, 45, 45, 0, 0, *sizes)
    return record + more + struct.pack("<4sLQL", b"PK\6\7", 0, at, 1)


def test_end_records_that_contradict_each_other_are_unsafe() -> None:
    assert passes(written(Member(), between=end_64()))
    assert passes(written(Member(), between=end_64(), entries=0xFFFF))
    assert passes(b"#! a script\n" + written(Member(), between=end_64()))
    assert is_unsafe(written(Member(), between=end_64(), entries=2))
    assert is_unsafe(written(Member(), between=end_64(record_size=45)))
    assert is_unsafe(written(Member(), between=end_64(record_size=48, more=b"more")))
    assert is_unsafe(written(Member(), between=end_64(at=END - 1)))
    assert is_unsafe(written(Member(), between=end_64()[:56] + end_64()))


def test_end_record_in_the_comment_is_unsafe() -> None:
    assert is_unsafe(written(Member(), comment=b"PK\5\6" + bytes(18)))
    assert is_unsafe(written(Member(), comment=b"PK\5\6" + bytes(200)))
    assert passes(written(Member(), comment=b"a comment with PK in it"))


@each_row("behind", [bytes(100), b"\r\n", b"-- sent by a gateway\r\n", b"\x7f\x01\x02"])
def test_bytes_behind_the_archive_pass(behind: bytes) -> None:
    assert passes(PLAIN + behind)


def test_directory_that_is_read_with_and_without_the_bytes_before_it_is_unsafe() -> None:
    inner = written(Member(name=b"seen"))
    assert is_unsafe(inner[: inner.index(b"PK\5\6")] + written(Member(name=b"hidden", content=b"x" * 8)))
