"""Archives that show one thing to a reader and another to a scanner: nothing is hidden by a lie in a header."""

import base64
import gzip
import struct
import tarfile
import zipfile

import pytest

from tests.threats.packing import EICAR, scanned, tarred, threat_in, zipped

DEFLATED = zipped({"b.com": EICAR})
DIRECTORY_AT = DEFLATED.index(b"PK\x01\x02")


def patched(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(DEFLATED[:DIRECTORY_AT] + zipped({})[-22:], id="the directory is empty"),
        pytest.param(DEFLATED[:DIRECTORY_AT], id="there is no directory"),
        pytest.param(patched(DEFLATED, 0, b"XXXX"), id="the local signature is gone"),
        pytest.param(patched(DEFLATED, 8, struct.pack("<H", 0)), id="the local header says stored"),
        pytest.param(patched(DEFLATED, DIRECTORY_AT + 10, struct.pack("<H", 0)), id="the directory says stored"),
        pytest.param(patched(DEFLATED, 6, struct.pack("<H", 1)), id="only the local header says encrypted"),
        pytest.param(patched(DEFLATED, DIRECTORY_AT + 8, struct.pack("<H", 1)), id="only the directory says encrypted"),
        pytest.param(patched(DEFLATED, 18, struct.pack("<2L", 1, 1)), id="the local header says one byte"),
        pytest.param(patched(DEFLATED, DIRECTORY_AT + 20, struct.pack("<2L", 1, 1)), id="the directory says one byte"),
        pytest.param(b"x" * 777 + patched(DEFLATED, 0, b"XXXX"), id="behind other data, without a local signature"),
        pytest.param(zipped({"seen": b"x"}) + DEFLATED + zipped({"seen": b"x"}), id="between two archives"),
        pytest.param(zipped({"a": zipped({"b": zipped({"c": DEFLATED})})}, zipfile.ZIP_STORED)[:-22], id="nested, without an end"),
    ],
)
def test_a_lying_zip_hides_nothing(data: bytes) -> None:
    assert threat_in(data) == "Eicar-Test-File"


def retarred(header_change: tuple[int, bytes], data: bytes) -> bytes:
    """Change a tar header and make its checksum right again."""
    header = bytearray(patched(data[:512], *header_change))
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + data[512:]


SINGLE = tarred({"b.gz": gzip.compress(EICAR)})


def sparse() -> bytes:
    """Answer an archive whose one member has a map of its holes between header and bytes, as GNU tar used to write them."""
    header = patched(retarred((156, b"S"), SINGLE), 482, b"\1")
    return retarred((0, b"b"), header)[:512] + b"\1" * 512 + bytes(512) + SINGLE[512:]


PACKED_IN_TAR = tarred({"seen": b"", "b.gz": gzip.compress(EICAR)})


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(retarred((124, b"00000000000\0"), SINGLE), id="a size of nothing"),
        pytest.param(retarred((124, b"77777777777\0"), PACKED_IN_TAR), id="a size that swallows the next member"),
        pytest.param(retarred((156, b"5"), SINGLE), id="a folder with bytes"),
        pytest.param(retarred((156, b"5"), retarred((124, b"00000002000\0"), PACKED_IN_TAR)), id="a folder that swallows the next"),
        pytest.param(retarred((124, b"\x80" + (len(gzip.compress(EICAR))).to_bytes(11, "big")), SINGLE), id="a binary size"),
        pytest.param(retarred((124, b"00000000010\0"), SINGLE), id="a size within the block"),
        pytest.param(retarred((156, b"1"), PACKED_IN_TAR), id="a link"),
        pytest.param(sparse(), id="a sparse member"),
        pytest.param(tarred({"a": b"a"}) + SINGLE, id="a second archive behind the first"),
        pytest.param(tarred({"a": b"a"}) + gzip.compress(EICAR), id="bytes behind the end"),
    ],
)
def test_a_lying_tar_hides_nothing(data: bytes) -> None:
    assert threat_in(data) == "Eicar-Test-File"
    assert threat_in(gzip.compress(data)) == "Eicar-Test-File"


def test_a_tar_with_two_sizes_for_one_member_is_given_up() -> None:
    info = tarfile.TarInfo("b.gz")
    info.pax_headers = {"size": "1000"}
    data = info.tobuf(tarfile.PAX_FORMAT) + bytes(1024)
    assert scanned(data)["why"] == "a tar archive with two sizes for one member"


def test_a_part_under_a_wrong_boundary_is_found() -> None:
    message = b'Content-Type: multipart/mixed; boundary="a"\n\n--b\nContent-Transfer-Encoding: base64\n\n' + base64.b64encode(EICAR)
    assert threat_in(message) == "Eicar-Test-File"
