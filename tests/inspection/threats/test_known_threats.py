"""What the rules find, in plain sight and packed, and what they leave alone."""

import base64
import bz2
import gzip
import hashlib
import lzma
import quopri
import zipfile
from email.message import EmailMessage
from pathlib import Path

import pytest

from sluice.threats import RULES_VERSION
from sluice.threats.eicar import EICAR as KNOWN
from tests.threats.packing import EICAR, scanned, streamed_zip, tarred, threat_in, verdict, zipped

SHARED = Path(__file__).parents[2].parent / "shared"


def mail_with(data: bytes, *, encoding: str = "base64") -> bytes:
    message = EmailMessage()
    message["Subject"] = "two attachments"
    message.set_content("see attachments")
    message.add_attachment(b"harmless", maintype="application", subtype="octet-stream", filename="first.bin")
    message.add_attachment(data, maintype="application", subtype="octet-stream", filename="second.bin", cte=encoding)
    return message.as_bytes()


def test_the_test_virus_is_the_one_that_eicar_published() -> None:
    assert hashlib.sha256(KNOWN).hexdigest() == "275a021bbfb6489e54d471899f7db9d1663fc695ec2fe2a2c4538aabf651fd0f"
    assert KNOWN == EICAR


@pytest.mark.parametrize(
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
        pytest.param(streamed_zip({"a": b"x" * 999, "b": EICAR}), id="zip, sizes behind the bytes"),
        pytest.param(zipped({"in.zip": zipped({"b.com": EICAR})}), id="zip in zip"),
        pytest.param(zipped({"in.zip": zipped({"b.com": EICAR})}, zipfile.ZIP_STORED), id="zip stored in zip"),
        pytest.param(streamed_zip({"in.gz": gzip.compress(EICAR)}, zipfile.ZIP_STORED), id="gzip stored in zip, size unknown"),
        pytest.param(b"#!/bin/sh\nexit\n" + zipped({"b.com": EICAR}), id="zip behind other data"),
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
def test_the_test_virus_is_found(data: bytes) -> None:
    assert threat_in(data) == "Eicar-Test-File"


def body(lines: bytes, encoding: bytes = b"base64") -> bytes:
    return b"From: a@example.org\r\nContent-Transfer-Encoding: " + encoding + b"\r\n\r\n" + lines


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(body(base64.b64encode(EICAR)), id="one long line"),
        pytest.param(body(b"\r\n".join(base64.b64encode(EICAR)[i : i + 7] for i in range(0, 99, 7))), id="short lines"),
        pytest.param(body(b"!".join(base64.b64encode(EICAR)[i : i + 1] for i in range(99))), id="junk between the letters"),
        pytest.param(body(base64.b64encode(EICAR).rstrip(b"=")), id="without padding"),
        pytest.param(body(b"QUI=\r\n" + base64.b64encode(EICAR)), id="goes on after padding"),
        pytest.param(body(base64.b64encode(EICAR), b"\r\n base64"), id="header over two lines"),
        pytest.param(body(base64.b64encode(EICAR), b"BASE64"), id="capitals"),
        pytest.param(
            body(quopri.encodestring(EICAR.replace(b"$", b"=24")).replace(b"=3D24", b"=24"), b"quoted-printable"), id="escapes"
        ),
        pytest.param(b"\xef\xbb\xbf" + body(base64.b64encode(EICAR)), id="byte order mark in front"),
    ],
)
def test_odd_encodings_of_mail_hide_nothing(message: bytes) -> None:
    assert threat_in(message) == "Eicar-Test-File"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(EICAR[:-1], id="all but the last byte"),
        pytest.param(b"The EICAR test file contains EICAR-STANDARD-ANTIVIRUS-TEST-FILE", id="text about it"),
        pytest.param(zipped({"a.txt": b"hello" * 1000}), id="zip"),
        pytest.param(tarred({"a.txt": b"hello" * 1000}, "w:gz"), id="tar.gz"),
        pytest.param(mail_with(b"hello" * 1000), id="mail"),
        pytest.param(b"\xff\xd8\xff\xe0" + bytes(range(256)) * 400, id="bytes"),
    ],
)
def test_clean_bytes_are_clean_and_wholly_looked_at(data: bytes) -> None:
    assert verdict(scanned(data)) == {"threat": None, "complete": True, "why": "", "signatures": RULES_VERSION, "encrypted": False}


def test_the_descriptor_is_neither_moved_nor_closed(tmp_path: Path) -> None:
    from sluice.threats import scan_source  # noqa: PLC0415  (the lazy name of the package is under test)

    (tmp_path / "file").write_bytes(zipped({"a": b"a"}))
    with (tmp_path / "file").open("rb") as file:
        scan_source(file.fileno(), "file.zip")
        assert file.read(2) == b"PK"


def test_a_member_behind_a_password_is_noted_and_not_held_against_the_file() -> None:
    locked = bytearray(zipped({"secret": b"x" * 100}))
    locked[6] |= 1  # general purpose flag, bit 0, in the local header …
    locked[locked.index(b"PK\x01\x02") + 8] |= 1  # … and in the directory
    assert verdict(scanned(bytes(locked))) == {
        "threat": None,
        "complete": True,
        "why": "",
        "signatures": RULES_VERSION,
        "encrypted": True,
    }


@pytest.mark.skipif(not (SHARED / "corpus").is_dir(), reason="../shared/corpus is not here")
def test_no_file_of_the_corpus_raises_an_alarm() -> None:
    alarms = []
    for path in sorted((SHARED / "corpus").rglob("*")):
        if path.is_file() and not path.is_relative_to(SHARED / "corpus" / "bomb"):
            found = scanned(path.read_bytes(), path.name)
            if found["threat"] is not None or (not found["complete"] and "corrupt" not in path.parts):
                alarms.append((path.name, found["threat"], found["why"]))
    assert alarms == []
