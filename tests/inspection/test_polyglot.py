import io
import struct
import tarfile
import zipfile
import zlib

import pytest

from sluice.formats.check import check_file
from sluice.formats.verdict import Finding, Outcome, Report
from tests.formats.images import board, encoded, png_chunk, with_chunk
from tests.formats.packages import package_of
from tests.formats.pdfs import pdf, text

PICTURES = {
    "png": encoded(board(), "PNG"),
    "jpg": encoded(board(), "JPEG"),
    "gif": encoded(board(), "GIF"),
    "webp": encoded(board().convert("RGB"), "WEBP"),
}
PDF = pdf(text("words"))
HOSTS = PICTURES | {"pdf": PDF}
PAGE = b"<!DOCTYPE html><html><script>alert(1)</script></html>"
PHP = b"<?php system($_GET['c']); ?>"


def zipped(content: bytes = b"payload", *, comment: bytes = b"") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("member.txt", content)
        archive.comment = comment
    return file.getvalue()


def rar4() -> bytes:
    header = b"\x73\0\0" + struct.pack("<H", 13) + bytes(6)
    return b"Rar!\x1a\x07\0" + struct.pack("<H", zlib.crc32(header) & 0xFFFF) + header


def rar5() -> bytes:
    header = b"\x03\x01\0\0"
    return b"Rar!\x1a\x07\x01\0" + struct.pack("<L", zlib.crc32(header)) + header + bytes(20)


def seven_zip() -> bytes:
    start = struct.pack("<QQL", 0, 0, 0)
    return b"7z\xbc\xaf\x27\x1c\0\x04" + struct.pack("<L", zlib.crc32(start)) + start


def judged(data: bytes, extension: str) -> Report:
    return check_file(io.BytesIO(data), filename=f"upload.{extension}")


def is_polyglot(data: bytes, extension: str) -> bool:
    return judged(data, extension).finding is Finding.POLYGLOT


@pytest.mark.parametrize("extension", HOSTS)
@pytest.mark.parametrize("archive", [zipped(), zipped(comment=b"x" * 900), rar4(), rar5(), seven_zip()])
def test_an_archive_behind_a_file_makes_it_two(extension: str, archive: bytes) -> None:
    assert is_polyglot(HOSTS[extension] + archive, extension)


@pytest.mark.parametrize("behind", [rar4(), rar5(), seven_zip(), PDF])
def test_another_archive_or_document_behind_an_archive_makes_it_two(behind: bytes) -> None:
    assert is_polyglot(zipped() + behind, "zip")


def test_an_archive_behind_a_text_document_makes_it_two() -> None:
    rtf = rb"{\rtf1\ansi{\*\htmltag <html>}words}"
    assert judged(rtf, "rtf").outcome is Outcome.OK
    assert is_polyglot(rtf + zipped(), "rtf")


@pytest.mark.parametrize("extension", HOSTS)
def test_a_shifted_directory_is_found_too(extension: str) -> None:
    whole = io.BytesIO(HOSTS[extension])
    with zipfile.ZipFile(whole, "a") as archive:
        archive.writestr("member.txt", "payload")
    assert is_polyglot(whole.getvalue(), extension)


def test_an_archive_inside_a_picture_is_found() -> None:
    assert is_polyglot(with_chunk(PICTURES["png"], png_chunk(b"tEXt", b"k\0" + zipped())), "png")
    assert is_polyglot(with_chunk(PICTURES["png"], png_chunk(b"tEXt", b"k\0" + rar5())), "png")


def test_a_document_inside_a_picture_is_found() -> None:
    assert is_polyglot(with_chunk(PICTURES["png"], png_chunk(b"tEXt", b"k\0" + PDF)), "png")


@pytest.mark.parametrize("extension", ["gif", "jpg", "png", "webp"])
def test_a_page_or_script_at_the_start_of_a_picture_is_found(extension: str) -> None:
    data = {
        "png": with_chunk(PICTURES["png"], png_chunk(b"tEXt", b"Comment\0" + PHP)),
        "jpg": PICTURES["jpg"][:2] + b"\xff\xfe" + struct.pack(">H", len(PAGE) + 2) + PAGE + PICTURES["jpg"][2:],
        "gif": PICTURES["gif"][:-1] + b"!\xfe" + bytes([len(PHP)]) + PHP + b"\0;",
        "webp": PICTURES["webp"] + PHP,
    }[extension]
    assert is_polyglot(data, extension)


def test_a_script_in_the_size_of_a_picture_is_found() -> None:
    script = b"GIF89a/*" + PICTURES["gif"][8:-1] + b"!\xfe\x0e*/=1;alert(1)//\0;"
    assert is_polyglot(script, "gif")


@pytest.mark.parametrize("script", [b"<?php echo 1;", b"<?phpinfo()?>", b"<?=`$_GET[1]`?>", b"<? system ('id'); ?>"])
def test_every_mark_of_php_is_known(script: bytes) -> None:
    assert is_polyglot(with_chunk(PICTURES["png"], png_chunk(b"tEXt", b"Comment\0" + script)), "png")


@pytest.mark.parametrize(
    "note",
    [b"<?xpacket begin='' id='W5M0'?>", b'<?xml version="1.0"?><x:xmpmeta/>', b"<?=\x80?>", b"<?=<;<=>>==>>>?>", b"what? <php>"],
)
def test_ordinary_notes_in_a_picture_are_no_script(note: bytes) -> None:
    assert not is_polyglot(with_chunk(PICTURES["png"], png_chunk(b"tEXt", b"Comment\0" + note)), "png")


@pytest.mark.parametrize("extension", PICTURES)
def test_a_page_behind_a_picture_is_found(extension: str) -> None:
    assert is_polyglot(PICTURES[extension] + b"\n" + PAGE, extension)


def test_a_page_in_the_head_of_a_document_is_found() -> None:
    assert is_polyglot(PDF.replace(b"\n", b"\n%" + PAGE + b"\n", 1), "pdf")


def test_an_archive_of_tapes_around_a_picture_is_found() -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("GIF89a"))
    assert is_polyglot(file.getvalue(), "gif")


def test_a_disk_image_around_a_picture_is_found() -> None:
    large = with_chunk(PICTURES["png"], png_chunk(b"prVt", bytes(0x8000 - 33 - 8) + b"\x01CD001\x01"))
    assert is_polyglot(large, "png")


def test_the_wrong_name_does_not_hide_it() -> None:
    assert is_polyglot(PICTURES["gif"] + zipped(), "jpg")
    assert is_polyglot(PICTURES["gif"] + zipped(), "unknown")


@pytest.mark.parametrize("extension", HOSTS)
@pytest.mark.parametrize(
    "behind", [bytes(5000), b"MotionPhoto\0" * 99, b"PK\x05\x06" + bytes(18), b"Rar!\x1a\x07\0" * 9, b"\r\n\r\n"]
)
def test_ordinary_bytes_behind_a_file_are_no_second_format(extension: str, behind: bytes) -> None:
    assert judged(HOSTS[extension] + behind, extension).finding is None


def test_what_holds_other_files_by_design_is_no_polyglot() -> None:
    assert judged(package_of({"word/document.xml": b""}), "zip").finding is None
    assert judged(zipped(PICTURES["gif"]), "zip").finding is None
    assert judged(zipped(PDF), "zip").finding is None


def test_an_attachment_of_a_document_is_no_polyglot() -> None:
    archive = zipped()
    head = b"9 0 obj\n<< /Type /EmbeddedFile /Length %d >>\nstream\n" % len(archive)
    assert judged(PDF + head + archive + b"\nendstream\nendobj\n%%EOF\n", "pdf").finding is None


def test_an_ordinary_picture_stays_ok() -> None:
    assert {judged(data, extension).outcome for extension, data in HOSTS.items()} <= {Outcome.OK, Outcome.BLANK}
