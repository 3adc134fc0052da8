"""Every object of a PDF is scanned, also those that its cross-reference tables leave out."""

import zlib

import pytest

from tests.inspection.threats.containers import pdf_content, pdf_with
from tests.inspection.threats.packed_files import EICAR, scan_bytes, threat_in, zipped
from tests.rows import each_row

ZIP = zipped({"e.com": EICAR})
SCRIPT = b"<</S/JavaScript/JS(this.exportDataObject\\({cName:'a', nLaunch:2}\\);)>>"


def stream(data: bytes, entries: bytes = b"") -> bytes:
    packed = zlib.compress(data)
    return b"<</Length %d/Filter/FlateDecode%b>>stream\n%b\nendstream" % (len(packed), entries, packed)


def behind_the_end(body: bytes, number: int = 990) -> bytes:
    return pdf_content(b"q Q") + b"\n%d 0 obj\n%b\nendobj\n" % (number, body)


@pytest.mark.asvs("5.4.3")
@each_row("number", [990, 1, 2, 3])
def test_packed_attachment_behind_the_last_end_mark_is_found(number: int) -> None:
    assert threat_in(behind_the_end(stream(EICAR), number)) == "Eicar-Test-File"
    assert threat_in(behind_the_end(stream(ZIP, b"/Type/EmbeddedFile"), number)) == "Eicar-Test-File"


WHOLE = pdf_content(b"q Q")
TABLE = WHOLE.rindex(b"xref\n")
FULL_FLUSH = zlib.compressobj()
FLUSHED = FULL_FLUSH.compress(EICAR) + FULL_FLUSH.flush(zlib.Z_FULL_FLUSH)
REFERRING = b"<</S/Launch/F 990 0 R/UF 990 0 R/Win<</F(cmd.exe)/P 990 0 R/D 990 0 R>>>>"


def attachment(packed: bytes) -> bytes:
    return b"<</Type/EmbeddedFile/Length %d/Filter/FlateDecode>>stream\n%b\nendstream" % (len(packed), packed)


@each_row(
    ("case", "data", "threat"),
    [
        ("script", behind_the_end(SCRIPT), "Pdf.Launches-Attachment"),
        ("launch action", behind_the_end(b"<</S/Launch/Win<</F(cmd.exe)>>>>"), "Pdf.Launches-Program"),
        ("files that refer to each other", behind_the_end(REFERRING), "Pdf.Launches-Program"),
        ("object that no table lists",
         WHOLE[:TABLE] + b"990 0 obj\n" + stream(EICAR) + b"\nendobj\n" + WHOLE[TABLE:], "Eicar-Test-File"),
        (
            "three objects of one number",
            behind_the_end(stream(b"first"))
            + b"990 0 obj\n%b\nendobj\n990 0 obj\n%b\nendobj\n" % (stream(EICAR), stream(b"last")),
            "Eicar-Test-File",
        ),
        ("end of an object in the data",
         behind_the_end(b"<</Length %d>>stream\nendobj %b\nendstream" % (len(EICAR) + 7, EICAR)), "Eicar-Test-File"),
        *(
            ("wrong checksum", behind_the_end(attachment(zlib.compress(EICAR)[:-4] + tail)), "Eicar-Test-File")
            for tail in (b"AAAA", b"", b"\0" * 40)
        ),
        ("damage behind the threat", behind_the_end(attachment(FLUSHED + b"\xff" * 40)), "Eicar-Test-File"),
    ],
)  # fmt: skip
def test_odd_object_behind_the_last_end_mark_or_between_others_is_found(case: str, data: bytes, threat: str) -> None:
    assert threat_in(data) == threat


def test_ordinary_document_is_scanned_to_its_end() -> None:
    assert scan_bytes(pdf_with(b"words"))["complete"] is True
    assert scan_bytes(behind_the_end(stream(b"words")))["complete"] is True


@each_row("unit", [b"1 0 obj ", b"1 0 obj stream\n", b"1 0 obj<<>>endobj ", b"endobj ", b"1 0 "])
def test_many_objects_are_scanned_or_refused(unit: bytes) -> None:
    assert scan_bytes(pdf_content(b"q Q") + unit * 100_000)["threat"] is None
