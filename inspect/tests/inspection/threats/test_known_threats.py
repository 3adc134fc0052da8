"""The EICAR test file is found, plain and packed, and clean files raise no alarm."""

import base64
import bz2
import gzip
import hashlib
import lzma
import quopri
import zipfile
from pathlib import Path

from sluice_inspect.threats import EICAR as KNOWN
from sluice_inspect.threats import RULES_VERSION
from sluice_inspect.threats.budget import ScanBudget
from tests.inspection.formats.examining import needs_corpus, smallest_files
from tests.inspection.threats.containers import address, mail_with
from tests.inspection.threats.packed_files import EICAR, scan_bytes, streamed_zip, tarred, threat_in, verdict_of, zipped
from tests.rows import each_row
from tests.run_length import amount


def test_eicar_constant_matches_the_published_checksum() -> None:
    assert hashlib.sha256(KNOWN).hexdigest() == "275a021bbfb6489e54d471899f7db9d1663fc695ec2fe2a2c4538aabf651fd0f"
    assert KNOWN == EICAR


def body(lines: bytes, encoding: bytes = b"base64") -> bytes:
    return b"From: a@example.org\r\nContent-Transfer-Encoding: " + encoding + b"\r\n\r\n" + lines


def drawing(address: str, before: str = "") -> bytes:
    return f'{before}<svg xmlns="http://www.w3.org/2000/svg"><image href="data:a/b{address}"/></svg>'.encode()


LETTERS = base64.b64encode(EICAR).decode()
ZIP = zipped({"b.com": EICAR})
IN_BASE64 = base64.b64encode(ZIP).decode()
LINES = base64.encodebytes(ZIP).decode()


@each_row(
    ("case", "data"),
    [
        ("across two pieces", b"\0" * (2**20 - 30) + EICAR + b"\0" * 100),
        ("at the start of a piece", b"\0" * 2**20 + EICAR),
        ("zip, stored", zipped({"b.com": EICAR}, zipfile.ZIP_STORED)),
        ("zip, bzip2", zipped({"b.com": EICAR}, zipfile.ZIP_BZIP2)),
        ("zip, sizes after the data", streamed_zip({"a": b"x" * 999, "b": EICAR})),
        ("zip stored in zip", zipped({"in.zip": zipped({"b.com": EICAR})}, zipfile.ZIP_STORED)),
        ("gzip stored in zip, size unknown", streamed_zip({"in.gz": gzip.compress(EICAR)}, zipfile.ZIP_STORED)),
        ("zip after other data", b"#!/bin/sh\nexit\n" + zipped({"b.com": EICAR})),
        ("docx", zipped({"word/document.xml": b"<x/>", "word/embeddings/oleObject1.bin": EICAR})),
        ("second gzip stream", gzip.compress(b"first") + gzip.compress(EICAR)),
        ("bzip2", bz2.compress(EICAR)),
        ("xz", lzma.compress(EICAR)),
        ("tar", tarred({"a": b"a", "b.com": EICAR})),
        ("tar.bz2", tarred({"a": b"a", "b.com": EICAR}, "w:bz2")),
        ("tar.xz", tarred({"a": b"a", "b.com": EICAR}, "w:xz")),
        ("tar.gz in tar", tarred({"in.tgz": tarred({"b.com": EICAR}, "w:gz")})),
        ("zip in tar.gz", tarred({"in.zip": zipped({"b.com": EICAR})}, "w:gz")),
        ("mail, quoted-printable", mail_with(EICAR, encoding="quoted-printable")),
        ("zip in mail", mail_with(zipped({"b.com": EICAR}))),
        ("mail in mail", mail_with(mail_with(EICAR))),
        ("mail in zip", zipped({"letter.eml": mail_with(EICAR)})),
        ("mailbox", b"From sender\n" + mail_with(b"x" * 99) + b"\nFrom sender\n" + mail_with(EICAR)),
        # unusual encodings of mail
        ("one long line", body(base64.b64encode(EICAR))),
        ("short lines", body(b"\r\n".join(base64.b64encode(EICAR)[i : i + 7] for i in range(0, 99, 7)))),
        ("junk between the letters", body(b"!".join(base64.b64encode(EICAR)[i : i + 1] for i in range(99)))),
        ("without padding", body(base64.b64encode(EICAR).rstrip(b"="))),
        ("data after padding", body(b"QUI=\r\n" + base64.b64encode(EICAR))),
        ("header over two lines", body(base64.b64encode(EICAR), b"\r\n base64")),
        ("capitals", body(base64.b64encode(EICAR), b"BASE64")),
        ("escapes",
         body(quopri.encodestring(EICAR.replace(b"$", b"=24")).replace(b"=3D24", b"=24"), b"quoted-printable")),
        ("byte order mark in front", b"\xef\xbb\xbf" + body(base64.b64encode(EICAR))),
        # spellings of an address
        ("percent signs", drawing(";base64," + LETTERS.replace("Q", "%51"))),
        ("character references", drawing(";base64," + LETTERS.replace("W", "&#87;"))),
        ("character references in the mark", drawing(";base6&#x34;&#44;" + LETTERS)),
        ("entity", drawing(";base64,&d;", f'<!DOCTYPE svg [<!ENTITY d "{LETTERS}">]>')),
        ("spaces", drawing("; base64 ," + LETTERS)),
        ("UTF-16", drawing(";base64," + LETTERS).decode().encode("utf-16")),
        ("page", b"<html><a href='data:a/b;base64," + LETTERS.replace("Q", "%51").encode() + b"'>"),
    ],
)  # fmt: skip
def test_eicar_is_found_in_every_packing(case: str, data: bytes) -> None:
    assert threat_in(data) == "Eicar-Test-File"


@each_row(
    ("case", "text"),
    [
        ("the file itself in an element", f"<a>{LETTERS}</a>"),
        ("element", f"<a>{IN_BASE64}</a>"),
        ("attribute", f"<a b='{IN_BASE64}'/>"),
        ("lines", f"<a>\n{LINES}\n</a>"),
        ("behind words", f"<a>the file: {IN_BASE64}</a>"),
        ("spaces between the letters", f"<a>{' '.join(IN_BASE64)}</a>"),
        ("CDATA", f"<a><![CDATA[{IN_BASE64}]]></a>"),
        ("half in CDATA", f"<a>{IN_BASE64[:3]}<![CDATA[{IN_BASE64[3:]}]]></a>"),
        ("comment between the letters", f"<a>{IN_BASE64[:3]}<!-- a -->{IN_BASE64[3:]}</a>"),
        ("instruction between the letters", f"<a>{IN_BASE64[:3]}<?a b?>{IN_BASE64[3:]}</a>"),
        ("character references", f"<a>{IN_BASE64.replace('E', '&#69;')}</a>"),
        ("letters of addresses", f"<a>{base64.urlsafe_b64encode(ZIP).decode()}</a>"),
        ("data of Word in CDATA", f"<a><w:binData><![CDATA[{IN_BASE64}]]></w:binData></a>"),
        ("page", f"<html><p hidden>{IN_BASE64}</p>"),
        ("drawing", f"<svg xmlns='http://www.w3.org/2000/svg'><desc>{IN_BASE64}</desc></svg>"),
        ("JSON", f'{{"a": "{IN_BASE64}"}}'),
        ("JSON, in a list", f'[{{"a": "{IN_BASE64}"}}]'),
        ("JSON, lines", '{"a": "%s"}' % LINES.replace("\n", "\\r\\n")),  # noqa: UP031  (braces)
        ("JSON, escapes", '{"a": "%s"}' % IN_BASE64.replace("E", "\\u0045")),  # noqa: UP031
    ],
)
@each_row("encoding", ["utf-8", "utf-16"])
def test_eicar_is_found_in_letters_without_a_mark(case: str, text: str, encoding: str) -> None:
    assert threat_in(text.encode(encoding)) == "Eicar-Test-File"


def test_program_in_letters_is_passed_to_the_other_scanner() -> None:
    program = b"MZ" + bytes(58) + (64).to_bytes(4, "little") + b"PE\0\0" + bytes(200)
    assert scan_bytes(b"<a>%b</a>" % base64.b64encode(program))["hides"] is True
    assert scan_bytes(b"<a>%b</a>" % base64.b64encode(b"MZ" + b"\xff" * 200))["hides"] is False


def test_letters_that_are_no_file_are_no_part() -> None:
    words = "ToUEsDBBQ is a name, TVq is another, and JVBERi0x is too short. " * 100
    assert scan_bytes(f"<a>{words}</a>".encode())["members"] == 0


@each_row("text", ["data: a, 5%af of it", "<html>data:a,'b' \"c\" 50%af d", "data:image/png,%89PNG" + "%00" * 99])
def test_text_about_data_has_no_part(text: str) -> None:
    assert scan_bytes(text.encode() * 100)["members"] == 0


def test_address_that_is_cut_or_too_large_to_be_read_is_incomplete() -> None:
    page = b"<html>" + b" " * (2**24 - 2**20 - 9_000) + address(EICAR * 20_000)
    assert "an address of more than" in str(scan_bytes(page)["why"])
    style = gzip.compress(b"a{}\n" * 99 + b"b{c:url(" + address(bytes(range(256)) * 900) + b")}")
    assert "an archive or message of more than" in str(
        scan_bytes(style, budget=ScanBudget(max_held_bytes=2**18))["why"]
    )


@each_row(
    ("case", "data"),
    [
        ("files in addresses within each other", b"<html>" + b"=data:,%41" * 20_000),
        ("many short addresses", b"<html>" + (b'"data:,' + b"%41" * 20) * 110_000),
        ("files in letters within each other", b"<a>" + (b"UEsDBBQAAAAI" * 4 + b" ") * 10_000 + b"</a>"),
        ("entities that multiply", drawing("&a;" * 50_000, f'<!DOCTYPE svg [<!ENTITY a "{"x" * 5_000}">]>')),
    ],
)
def test_letters_that_cost_too_much_are_not_scanned_to_the_end(case: str, data: bytes) -> None:
    assert scan_bytes(data)["complete"] is False


CLEAN = {"threat": None, "complete": True, "why": "", "signatures": RULES_VERSION, "encrypted": False}


@each_row(
    ("case", "data"),
    [
        ("empty", b""),
        ("all but the last byte", EICAR[:-1]),
        ("text about EICAR", b"The EICAR test file contains EICAR-STANDARD-ANTIVIRUS-TEST-FILE"),
        ("zip", zipped({"a.txt": b"hello" * 1000})),
        ("tar.gz", tarred({"a.txt": b"hello" * 1000}, "w:gz")),
        ("mail", mail_with(b"hello" * 1000)),
        ("binary data", b"\xff\xd8\xff\xe0" + bytes(range(256)) * 400),
    ],
)
def test_clean_bytes_are_clean_and_completely_scanned(case: str, data: bytes) -> None:
    assert verdict_of(scan_bytes(data)) == CLEAN


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
    assert verdict_of(scan_bytes(bytes(locked))) == CLEAN | {"encrypted": True}


@needs_corpus
def test_no_corpus_file_raises_an_alarm() -> None:
    alarms = []
    for path, label in smallest_files(amount("SCANNED", short=4, full=1_000_000)):
        if label != "bomb":
            result = scan_bytes(path.read_bytes(), path.name)
            if result["threat"] is not None or (not result["complete"] and label != "corrupt"):
                alarms.append((path.name, result["threat"], result["why"]))
    assert alarms == []
