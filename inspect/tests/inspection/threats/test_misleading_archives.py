"""Archives with wrong headers, which a reader and a scanner may interpret differently."""

import base64
import gzip
import struct
import tarfile
import zipfile

from tests.inspection.threats.containers import ar
from tests.inspection.threats.packed_files import EICAR, ar_member, scan_bytes, tarred, threat_in, zipped
from tests.rows import each_row

DEFLATED = zipped({"b.com": EICAR})
DIRECTORY_AT = DEFLATED.index(b"PK\x01\x02")


def patched(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


@each_row(
    ("case", "data"),
    [
        ("the directory is empty", DEFLATED[:DIRECTORY_AT] + zipped({})[-22:]),
        ("there is no directory", DEFLATED[:DIRECTORY_AT]),
        ("the local signature is missing", patched(DEFLATED, 0, b"XXXX")),
        ("the local header declares stored", patched(DEFLATED, 8, struct.pack("<H", 0))),
        ("the directory declares stored", patched(DEFLATED, DIRECTORY_AT + 10, struct.pack("<H", 0))),
        ("only the local header declares encryption", patched(DEFLATED, 6, struct.pack("<H", 1))),
        ("only the directory declares encryption", patched(DEFLATED, DIRECTORY_AT + 8, struct.pack("<H", 1))),
        ("the local header declares one byte", patched(DEFLATED, 18, struct.pack("<2L", 1, 1))),
        ("the directory declares one byte", patched(DEFLATED, DIRECTORY_AT + 20, struct.pack("<2L", 1, 1))),
        ("after other data, without a local signature", b"x" * 777 + patched(DEFLATED, 0, b"XXXX")),
        ("between two archives", zipped({"seen": b"x"}) + DEFLATED + zipped({"seen": b"x"})),
        ("nested, without an end", zipped({"a": zipped({"b": zipped({"c": DEFLATED})})}, zipfile.ZIP_STORED)[:-22]),
    ],
)
def test_eicar_is_found_in_zip_with_misleading_headers(case: str, data: bytes) -> None:
    assert threat_in(data) == "Eicar-Test-File"


def with_tar_header(header_change: tuple[int, bytes], data: bytes) -> bytes:
    """Change a tar header and correct its checksum."""
    header = bytearray(patched(data[:512], *header_change))
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + data[512:]


SINGLE = tarred({"b.gz": gzip.compress(EICAR)})


def sparse() -> bytes:
    """Return an archive whose member has a map of its holes between header and data, as old GNU tar wrote it."""
    header = patched(with_tar_header((156, b"S"), SINGLE), 482, b"\1")
    return with_tar_header((0, b"b"), header)[:512] + b"\1" * 512 + bytes(512) + SINGLE[512:]


PACKED_IN_TAR = tarred({"seen": b"", "b.gz": gzip.compress(EICAR)})


@each_row(
    ("case", "data"),
    [
        ("a size of zero", with_tar_header((124, b"00000000000\0"), SINGLE)),
        ("a size that covers the next member", with_tar_header((124, b"77777777777\0"), PACKED_IN_TAR)),
        ("a folder with data", with_tar_header((156, b"5"), SINGLE)),
        ("a folder that covers the next member",
         with_tar_header((156, b"5"), with_tar_header((124, b"00000002000\0"), PACKED_IN_TAR))),
        ("a binary size", with_tar_header((124, b"\x80" + (len(gzip.compress(EICAR))).to_bytes(11, "big")), SINGLE)),
        ("a size within the block", with_tar_header((124, b"00000000010\0"), SINGLE)),
        ("a link", with_tar_header((156, b"1"), PACKED_IN_TAR)),
        ("a sparse member", sparse()),
        ("a second archive after the first", tarred({"a": b"a"}) + SINGLE),
        ("bytes after the end", tarred({"a": b"a"}) + gzip.compress(EICAR)),
    ],
)  # fmt: skip
def test_eicar_is_found_in_tar_with_misleading_headers(case: str, data: bytes) -> None:
    assert threat_in(data) == "Eicar-Test-File"
    assert threat_in(gzip.compress(data)) == "Eicar-Test-File"


def test_tar_with_two_sizes_for_one_member_is_incomplete() -> None:
    info = tarfile.TarInfo("b.gz")
    info.pax_headers = {"size": "1000"}
    data = info.tobuf(tarfile.PAX_FORMAT) + bytes(1024)
    assert scan_bytes(data)["why"] == "a tar archive with two sizes for one member"


PACKED = gzip.compress(EICAR)


@each_row(
    ("case", "data"),
    [
        ("a size that covers the next member", ar(ar_member(b"a", b"aa", 10**9), ar_member(b"b.gz", PACKED))),
        ("a size of zero", ar(ar_member(b"b.gz", PACKED, 0))),
        ("a negative size", ar(ar_member(b"b.gz", PACKED, -1))),
        ("no padding", ar(ar_member(b"a", b"a")[:-1], ar_member(b"b.gz", PACKED))),
        ("other bytes behind a member", ar(ar_member(b"a", b"aa"), b"xx", ar_member(b"b.gz", PACKED))),
        ("a name that is longer than any", ar(ar_member(b"#1/9999", bytes(6000) + PACKED))),
        ("a long packed member with a long name", ar(ar_member(b"#1/6", PACKED + bytes(70_000)))),
    ],
)
def test_packed_member_of_a_misleading_ar_archive_is_found_or_incomplete(case: str, data: bytes) -> None:
    for each in (data, zipped({"a": data})):
        result = scan_bytes(each)
        assert result["threat"] is not None or " ar archive " in str(result["why"])


def test_padding_of_an_ar_archive_may_be_more_or_less() -> None:
    member = ar_member(b"a", b"a")
    assert all(scan_bytes(each)["complete"] for each in (ar(member, b"\n" * 9), ar(member[:-1]), ar()))


def test_program_under_the_long_name_of_a_document_in_ar_is_found() -> None:
    program = b"\x7fELF\x02\x01\x01" + bytes(60)
    table = ar_member(b"//", b"a-long-name-of-a-document.pdf/\n")
    assert threat_in(ar(table, ar_member(b"/0", program))) == "Disguised-Program.ELF"
    assert threat_in(ar(ar_member(b"#1/8", b"a.pdf\0\0\0" + program))) == "Disguised-Program.ELF"


def test_mail_part_under_a_wrong_boundary_is_scanned() -> None:
    head = b'Content-Type: multipart/mixed; boundary="a"\n\n--b\nContent-Transfer-Encoding: base64\n\n'
    assert threat_in(head + base64.b64encode(EICAR)) == "Eicar-Test-File"
