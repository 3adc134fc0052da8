"""The EICAR test file is found, plain and packed, and clean files raise no alarm."""

import base64
import bz2
import gzip
import hashlib
import lzma
import quopri
import zipfile
from pathlib import Path

import pytest

from sluice_inspect.threats import EICAR as KNOWN
from sluice_inspect.threats import RULES_VERSION
from tests.inspection.threats.containers import mail_with
from tests.inspection.threats.packed_files import EICAR, scan_bytes, streamed_zip, tarred, threat_in, verdict_of, zipped
from tests.rows import each_row

SHARED = Path(__file__).parents[3].parent / "shared"


def test_eicar_constant_matches_the_published_checksum() -> None:
    assert hashlib.sha256(KNOWN).hexdigest() == "275a021bbfb6489e54d471899f7db9d1663fc695ec2fe2a2c4538aabf651fd0f"
    assert KNOWN == EICAR


@each_row(
    "data",
    [
        pytest.param(EICAR, id="alone"),
        pytest.param(b"some text\n" + EICAR + b"\nmore text", id="within text"),
        pytest.param(b"\0" * (2**20 - 30) + EICAR + b"\0" * 100, id="across two pieces"),
        pytest.param(b"\0" * 2**20 + EICAR, id="at the start of a piece"),
        pytest.param(zipped({"a.txt": b"a", "b.com": EICAR}), id="zip"),
        pytest.param(zipped({"b.com": EICAR}, zipfile.ZIP_STORED), id="zip, stored"),
        pytest.param(zipped({"b.com": EICAR}, zipfile.ZIP_BZIP2), id="zip, bzip2"),
        pytest.param(zipped({"b.com": EICAR}, zipfile.ZIP_LZMA), id="zip, lzma"),
        pytest.param(streamed_zip({"a": b"x" * 999, "b": EICAR}), id="zip, sizes after the data"),
        pytest.param(zipped({"in.zip": zipped({"b.com": EICAR})}), id="zip in zip"),
        pytest.param(zipped({"in.zip": zipped({"b.com": EICAR})}, zipfile.ZIP_STORED), id="zip stored in zip"),
        pytest.param(
            streamed_zip({"in.gz": gzip.compress(EICAR)}, zipfile.ZIP_STORED), id="gzip stored in zip, size unknown"
        ),
        pytest.param(b"#!/bin/sh\nexit\n" + zipped({"b.com": EICAR}), id="zip after other data"),
        pytest.param(zipped({"word/document.xml": b"<x/>", "word/embeddings/oleObject1.bin": EICAR}), id="docx"),
        pytest.param(gzip.compress(EICAR), id="gzip"),
        pytest.param(gzip.compress(b"first") + gzip.compress(EICAR), id="second gzip stream"),
        pytest.param(bz2.compress(EICAR), id="bzip2"),
        pytest.param(lzma.compress(EICAR), id="xz"),
        pytest.param(tarred({"a": b"a", "b.com": EICAR}), id="tar"),
        pytest.param(tarred({"a": b"a", "b.com": EICAR}, "w:gz"), id="tar.gz"),
        pytest.param(tarred({"a": b"a", "b.com": EICAR}, "w:bz2"), id="tar.bz2"),
        pytest.param(tarred({"a": b"a", "b.com": EICAR}, "w:xz"), id="tar.xz"),
        pytest.param(tarred({"in.tgz": tarred({"b.com": EICAR}, "w:gz")}), id="tar.gz in tar"),
        pytest.param(tarred({"in.zip": zipped({"b.com": EICAR})}, "w:gz"), id="zip in tar.gz"),
        pytest.param(mail_with(EICAR), id="mail, base64"),
        pytest.param(mail_with(EICAR, encoding="quoted-printable"), id="mail, quoted-printable"),
        pytest.param(mail_with(zipped({"b.com": EICAR})), id="zip in mail"),
        pytest.param(mail_with(mail_with(EICAR)), id="mail in mail"),
        pytest.param(zipped({"letter.eml": mail_with(EICAR)}), id="mail in zip"),
        pytest.param(b"From sender\n" + mail_with(b"x" * 99) + b"\nFrom sender\n" + mail_with(EICAR), id="mailbox"),
    ],
)
def test_eicar_is_found_in_every_packing(data: bytes) -> None:
    assert threat_in(data) == "Eicar-Test-File"


def body(lines: bytes, encoding: bytes = b"base64") -> bytes:
    return b"From: a@example.org\r\nContent-Transfer-Encoding: " + encoding + b"\r\n\r\n" + lines


@each_row(
    "message",
    [
        pytest.param(body(base64.b64encode(EICAR)), id="one long line"),
        pytest.param(body(b"\r\n".join(base64.b64encode(EICAR)[i : i + 7] for i in range(0, 99, 7))), id="short lines"),
        pytest.param(
            body(b"!".join(base64.b64encode(EICAR)[i : i + 1] for i in range(99))), id="junk between the letters"
        ),
        pytest.param(body(base64.b64encode(EICAR).rstrip(b"=")), id="without padding"),
        pytest.param(body(b"QUI=\r\n" + base64.b64encode(EICAR)), id="data after padding"),
        pytest.param(body(base64.b64encode(EICAR), b"\r\n base64"), id="header over two lines"),
        pytest.param(body(base64.b64encode(EICAR), b"BASE64"), id="capitals"),
        pytest.param(
            body(quopri.encodestring(EICAR.replace(b"$", b"=24")).replace(b"=3D24", b"=24"), b"quoted-printable"),
            id="escapes",
        ),
        pytest.param(b"\xef\xbb\xbf" + body(base64.b64encode(EICAR)), id="byte order mark in front"),
    ],
)
def test_eicar_is_found_in_unusual_mail_encodings(message: bytes) -> None:
    assert threat_in(message) == "Eicar-Test-File"


LETTERS = base64.b64encode(EICAR).decode()


def drawing(address: str, before: str = "") -> bytes:
    return f'{before}<svg xmlns="http://www.w3.org/2000/svg"><image href="data:a/b{address}"/></svg>'.encode()


@each_row(
    "data",
    [
        pytest.param(drawing(";base64," + LETTERS.replace("Q", "%51")), id="percent signs"),
        pytest.param(drawing(";base64," + LETTERS.replace("W", "&#87;")), id="character references"),
        pytest.param(drawing(";base6&#x34;&#44;" + LETTERS), id="character references in the mark"),
        pytest.param(drawing(";base64,&d;", f'<!DOCTYPE svg [<!ENTITY d "{LETTERS}">]>'), id="entity"),
        pytest.param(drawing("; base64 ," + LETTERS), id="spaces"),
        pytest.param(drawing(";base64," + LETTERS).decode().encode("utf-16"), id="UTF-16"),
        pytest.param(b"<html><a href='data:a/b;base64," + LETTERS.replace("Q", "%51").encode() + b"'>", id="page"),
    ],
)
def test_eicar_is_found_in_every_spelling_of_an_address(data: bytes) -> None:
    assert threat_in(data) == "Eicar-Test-File"


ZIP = zipped({"b.com": EICAR})
IN_BASE64 = base64.b64encode(ZIP).decode()
LINES = base64.encodebytes(ZIP).decode()


@each_row(
    "text",
    [
        pytest.param(f"<a>{LETTERS}</a>", id="the file itself in an element"),
        pytest.param(f"<a>{IN_BASE64}</a>", id="element"),
        pytest.param(f"<a b='{IN_BASE64}'/>", id="attribute"),
        pytest.param(f"<a>\n{LINES}\n</a>", id="lines"),
        pytest.param(f"<a>the file: {IN_BASE64}</a>", id="behind words"),
        pytest.param(f"<a>{' '.join(IN_BASE64)}</a>", id="spaces between the letters"),
        pytest.param(f"<a><![CDATA[{IN_BASE64}]]></a>", id="CDATA"),
        pytest.param(f"<a>{IN_BASE64[:3]}<![CDATA[{IN_BASE64[3:]}]]></a>", id="half in CDATA"),
        pytest.param(f"<a>{IN_BASE64[:3]}<!-- a -->{IN_BASE64[3:]}</a>", id="comment between the letters"),
        pytest.param(f"<a>{IN_BASE64[:3]}<?a b?>{IN_BASE64[3:]}</a>", id="instruction between the letters"),
        pytest.param(f"<a>{IN_BASE64.replace('E', '&#69;')}</a>", id="character references"),
        pytest.param(f"<a>{base64.urlsafe_b64encode(ZIP).decode()}</a>", id="letters of addresses"),
        pytest.param(f"<a><w:binData><![CDATA[{IN_BASE64}]]></w:binData></a>", id="data of Word in CDATA"),
        pytest.param(f"<html><p hidden>{IN_BASE64}</p>", id="page"),
        pytest.param(f"<svg xmlns='http://www.w3.org/2000/svg'><desc>{IN_BASE64}</desc></svg>", id="drawing"),
        pytest.param(f'{{"a": "{IN_BASE64}"}}', id="JSON"),
        pytest.param(f'[{{"a": "{IN_BASE64}"}}]', id="JSON, in a list"),
        pytest.param('{"a": "%s"}' % LINES.replace("\n", "\\r\\n"), id="JSON, lines"),  # noqa: UP031  (braces)
        pytest.param('{"a": "%s"}' % IN_BASE64.replace("E", "\\u0045"), id="JSON, escapes"),  # noqa: UP031
    ],
)
@each_row("encoding", ["utf-8", "utf-16"])
def test_eicar_is_found_in_letters_without_a_mark(text: str, encoding: str) -> None:
    assert threat_in(text.encode(encoding)) == "Eicar-Test-File"


def test_program_in_letters_is_passed_to_the_other_scanner() -> None:
    program = b"MZ" + bytes(58) + (64).to_bytes(4, "little") + b"PE\0\0" + bytes(200)
    assert scan_bytes(b"<a>%b</a>" % base64.b64encode(program))["hides"] is True
    assert scan_bytes(b"<a>%b</a>" % base64.b64encode(b"MZ" + b"\xff" * 200))["hides"] is False


def test_letters_that_are_no_file_are_no_part() -> None:
    words = "ToUEsDBBQ is a name, TVq is another, and JVBERi0x is too short. " * 100
    assert scan_bytes(f"<a>{words}</a>".encode())["members"] == 0


def test_files_in_letters_that_begin_within_each_other_are_not_scanned_to_the_end() -> None:
    data = b"<a>" + (b"UEsDBBQAAAAI" * 4 + b" ") * 10_000 + b"</a>"
    assert scan_bytes(data)["complete"] is False


def test_entities_that_multiply_in_an_address_are_not_scanned_to_the_end() -> None:
    data = drawing("&a;" * 50_000, f'<!DOCTYPE svg [<!ENTITY a "{"x" * 5_000}">]>')
    assert scan_bytes(data)["complete"] is False


@each_row(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(EICAR[:-1], id="all but the last byte"),
        pytest.param(b"The EICAR test file contains EICAR-STANDARD-ANTIVIRUS-TEST-FILE", id="text about EICAR"),
        pytest.param(zipped({"a.txt": b"hello" * 1000}), id="zip"),
        pytest.param(tarred({"a.txt": b"hello" * 1000}, "w:gz"), id="tar.gz"),
        pytest.param(mail_with(b"hello" * 1000), id="mail"),
        pytest.param(b"\xff\xd8\xff\xe0" + bytes(range(256)) * 400, id="binary data"),
    ],
)
def test_clean_bytes_are_clean_and_completely_scanned(data: bytes) -> None:
    assert verdict_of(scan_bytes(data)) == {
        "threat": None,
        "complete": True,
        "why": "",
        "signatures": RULES_VERSION,
        "encrypted": False,
    }


def test_descriptor_is_neither_moved_nor_closed(tmp_path: Path) -> None:
    from sluice_inspect.threats import scan_source  # noqa: PLC0415  (the lazy name of the package is under test)

    (tmp_path / "file").write_bytes(zipped({"a": b"a"}))
    with (tmp_path / "file").open("rb") as file:
        scan_source(file.fileno(), "file.zip")
        assert file.read(2) == b"PK"


def test_encrypted_member_is_reported_without_a_threat() -> None:
    locked = bytearray(zipped({"secret": b"x" * 100}))
    locked[6] |= 1  # general purpose flag, bit 0, in the local header …
    locked[locked.index(b"PK\x01\x02") + 8] |= 1  # … and in the directory
    assert verdict_of(scan_bytes(bytes(locked))) == {
        "threat": None,
        "complete": True,
        "why": "",
        "signatures": RULES_VERSION,
        "encrypted": True,
    }


@pytest.mark.skipif(not (SHARED / "corpus").is_dir(), reason="../shared/corpus is not here")
def test_no_corpus_file_raises_an_alarm() -> None:
    alarms = []
    for path in sorted((SHARED / "corpus").rglob("*")):
        if path.is_file() and not path.is_relative_to(SHARED / "corpus" / "bomb"):
            result = scan_bytes(path.read_bytes(), path.name)
            if result["threat"] is not None or (not result["complete"] and "corrupt" not in path.parts):
                alarms.append((path.name, result["threat"], result["why"]))
    assert alarms == []
