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


def test_script_behind_the_last_end_mark_is_found() -> None:
    assert threat_in(behind_the_end(SCRIPT)) == "Pdf.Launches-Attachment"


def test_launch_action_behind_the_last_end_mark_is_found() -> None:
    assert threat_in(behind_the_end(b"<</S/Launch/Win<</F(cmd.exe)>>>>")) == "Pdf.Launches-Program"


def test_launch_action_whose_files_refer_to_each_other_is_found() -> None:
    action = b"<</S/Launch/F 990 0 R/UF 990 0 R/Win<</F(cmd.exe)/P 990 0 R/D 990 0 R>>>>"
    assert threat_in(behind_the_end(action)) == "Pdf.Launches-Program"


def test_object_that_no_table_lists_is_found_between_others() -> None:
    whole = pdf_content(b"q Q")
    at = whole.rindex(b"xref\n")
    assert threat_in(whole[:at] + b"990 0 obj\n" + stream(EICAR) + b"\nendobj\n" + whole[at:]) == "Eicar-Test-File"


def test_every_object_of_one_number_is_found() -> None:
    odd = behind_the_end(stream(b"first")) + b"990 0 obj\n" + stream(EICAR) + b"\nendobj\n"
    assert threat_in(odd + b"990 0 obj\n" + stream(b"last") + b"\nendobj\n") == "Eicar-Test-File"


def test_data_with_the_end_of_an_object_in_it_is_found_whole() -> None:
    body = b"<</Length %d>>stream\nendobj %b\nendstream" % (len(EICAR) + 7, EICAR)
    assert threat_in(behind_the_end(body)) == "Eicar-Test-File"


def test_ordinary_document_is_scanned_to_its_end() -> None:
    assert scan_bytes(pdf_with(b"words"))["complete"] is True
    assert scan_bytes(behind_the_end(stream(b"words")))["complete"] is True


@each_row("unit", [b"1 0 obj ", b"1 0 obj stream\n", b"1 0 obj<<>>endobj ", b"endobj ", b"1 0 "])
def test_many_objects_are_scanned_or_refused(unit: bytes) -> None:
    assert scan_bytes(pdf_content(b"q Q") + unit * 100_000)["threat"] is None


@each_row("tail", [b"AAAA", b"", b"\0" * 40])
def test_attachment_with_a_wrong_checksum_is_found(tail: bytes) -> None:
    packed = zlib.compress(EICAR)[:-4] + tail
    body = b"<</Type/EmbeddedFile/Length %d/Filter/FlateDecode>>stream\n%b\nendstream" % (len(packed), packed)
    assert threat_in(behind_the_end(body)) == "Eicar-Test-File"


def test_member_with_damage_behind_the_threat_is_found() -> None:
    packer = zlib.compressobj()
    packed = packer.compress(EICAR) + packer.flush(zlib.Z_FULL_FLUSH) + b"\xff" * 40
    body = b"<</Type/EmbeddedFile/Length %d/Filter/FlateDecode>>stream\n%b\nendstream" % (len(packed), packed)
    assert threat_in(behind_the_end(body)) == "Eicar-Test-File"
