"""Files that are two formats at once are polyglots."""

import io
import struct
import tarfile
import zipfile
import zlib

from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Finding, Outcome, Report
from tests.inspection.formats.image_samples import chess_board, encoded, png_chunk, with_chunk
from tests.inspection.formats.office_packages import package_of
from tests.inspection.formats.pdf_samples import pdf, text
from tests.rows import each_row

PICTURES = {
    "png": encoded(chess_board(), "PNG"),
    "jpg": encoded(chess_board(), "JPEG"),
    "gif": encoded(chess_board(), "GIF"),
    "webp": encoded(chess_board().convert("RGB"), "WEBP"),
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


def report_of(data: bytes, extension: str) -> Report:
    return inspect_file(io.BytesIO(data), filename=f"upload.{extension}")


def is_polyglot(data: bytes, extension: str) -> bool:
    return report_of(data, extension).finding is Finding.POLYGLOT


@each_row("extension", HOSTS)
@each_row("archive", [zipped(), zipped(comment=b"x" * 900), rar4(), rar5(), seven_zip()])
def test_archive_after_a_file_is_a_polyglot(extension: str, archive: bytes) -> None:
    assert is_polyglot(HOSTS[extension] + archive, extension)


@each_row("trailing", [rar4(), rar5(), seven_zip(), PDF])
def test_archive_or_document_after_an_archive_is_a_polyglot(trailing: bytes) -> None:
    assert is_polyglot(zipped() + trailing, "zip")


def test_archive_after_an_rtf_document_is_a_polyglot() -> None:
    rtf = rb"{\rtf1\ansi{\*\htmltag <html>}words}"
    assert report_of(rtf, "rtf").outcome is Outcome.OK
    assert is_polyglot(rtf + zipped(), "rtf")


@each_row("extension", HOSTS)
def test_archive_with_a_shifted_directory_is_a_polyglot(extension: str) -> None:
    file = io.BytesIO(HOSTS[extension])
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("member.txt", "payload")
    assert is_polyglot(file.getvalue(), extension)


def test_archive_inside_a_picture_is_a_polyglot() -> None:
    assert is_polyglot(with_chunk(PICTURES["png"], png_chunk(b"tEXt", b"k\0" + zipped())), "png")
    assert is_polyglot(with_chunk(PICTURES["png"], png_chunk(b"tEXt", b"k\0" + rar5())), "png")


def test_document_inside_a_picture_is_a_polyglot() -> None:
    assert is_polyglot(with_chunk(PICTURES["png"], png_chunk(b"tEXt", b"k\0" + PDF)), "png")


@each_row(
    ("extension", "before", "behind"),
    [
        ("html", b"<html><body><p>words</p><!--\n", b"--></body></html>"),
        ("rtf", rb"{\rtf1\ansi words {\*\c ", b"}}"),
        ("xml", b"<a><!--\n", b"--></a>"),
        ("txt", b"words\n", b"words"),
        ("json", b'{"a": "words', b'"}'),
    ],
)
def test_document_in_the_head_of_a_text_is_a_polyglot(extension: str, before: bytes, behind: bytes) -> None:
    document = b"%PDF-1.4 1 0 obj<</Type/Catalog>>endobj trailer<</Root 1 0 R>>"
    assert is_polyglot(before + document + behind, extension)
    assert not is_polyglot(before + b"begins with %PDF-1.4" + behind, extension)


@each_row("extension", ["gif", "jpg", "png", "webp"])
def test_page_or_script_in_a_picture_is_a_polyglot(extension: str) -> None:
    data = {
        "png": with_chunk(PICTURES["png"], png_chunk(b"tEXt", b"Comment\0" + PHP)),
        "jpg": PICTURES["jpg"][:2] + b"\xff\xfe" + struct.pack(">H", len(PAGE) + 2) + PAGE + PICTURES["jpg"][2:],
        "gif": PICTURES["gif"][:-1] + b"!\xfe" + bytes([len(PHP)]) + PHP + b"\0;",
        "webp": PICTURES["webp"] + PHP,
    }[extension]
    assert is_polyglot(data, extension)


def test_script_in_the_size_fields_of_a_picture_is_a_polyglot() -> None:
    script = b"GIF89a/*" + PICTURES["gif"][8:-1] + b"!\xfe\x0e*/=1;alert(1)//\0;"
    assert is_polyglot(script, "gif")


def wav(size: bytes, samples: bytes) -> bytes:
    form = struct.pack("<L2H2L2H", 16, 1, 1, 8000, 16000, 2, 16)
    return b"RIFF" + size + b"WAVEfmt " + form + b"data" + struct.pack("<L", len(samples)) + samples


@each_row(
    ("opens", "closes"),
    [
        (b"=1/*", b"*/;alert(1)"),
        (b"=1;`", b"`;alert(1)"),
        (b"=1;'", b"';alert(1)"),
        (b'=1+"', b'"+alert(1)'),
        (b"=1//", b"\nalert(1)"),
    ],
)
def test_script_around_a_recording_or_picture_is_a_polyglot(opens: bytes, closes: bytes) -> None:
    recording = wav(opens, struct.pack("<h", 700) * 4000)
    assert is_polyglot(recording + closes, "wav")
    assert not is_polyglot(recording, "wav")
    bitmap = encoded(chess_board().convert("RGB"), "BMP")
    assert is_polyglot(bitmap[:2] + opens + bitmap[6:] + closes, "bmp")


@each_row("script", [b"<?php echo 1;", b"<?phpinfo()?>", b"<?=`$_GET[1]`?>", b"<? system ('id'); ?>"])
def test_every_php_tag_in_a_picture_is_a_polyglot(script: bytes) -> None:
    assert is_polyglot(with_chunk(PICTURES["png"], png_chunk(b"tEXt", b"Comment\0" + script)), "png")


@each_row(
    "note",
    [
        b"<?xpacket begin='' id='W5M0'?>",
        b'<?xml version="1.0"?><x:xmpmeta/>',
        b"<?=\x80?>",
        b"<?=<;<=>>==>>>?>",
        b"what? <php>",
    ],
)
def test_ordinary_comments_in_a_picture_are_not_a_polyglot(note: bytes) -> None:
    assert not is_polyglot(with_chunk(PICTURES["png"], png_chunk(b"tEXt", b"Comment\0" + note)), "png")


@each_row("extension", PICTURES)
def test_page_after_a_picture_is_a_polyglot(extension: str) -> None:
    assert is_polyglot(PICTURES[extension] + b"\n" + PAGE, extension)


def test_page_in_the_head_of_a_document_is_a_polyglot() -> None:
    assert is_polyglot(PDF.replace(b"\n", b"\n%" + PAGE + b"\n", 1), "pdf")


def test_tar_archive_with_a_picture_signature_is_a_polyglot() -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("GIF89a"))
    assert is_polyglot(file.getvalue(), "gif")


def test_disk_image_in_a_picture_is_a_polyglot() -> None:
    large = with_chunk(PICTURES["png"], png_chunk(b"prVt", bytes(0x8000 - 33 - 8) + b"\x01CD001\x01"))
    assert is_polyglot(large, "png")


def test_wrong_extension_does_not_hide_a_polyglot() -> None:
    assert is_polyglot(PICTURES["gif"] + zipped(), "jpg")
    assert is_polyglot(PICTURES["gif"] + zipped(), "unknown")


@each_row("extension", HOSTS)
@each_row(
    "trailing", [bytes(5000), b"MotionPhoto\0" * 99, b"PK\x05\x06" + bytes(18), b"Rar!\x1a\x07\0" * 9, b"\r\n\r\n"]
)
def test_ordinary_bytes_after_a_file_are_not_a_polyglot(extension: str, trailing: bytes) -> None:
    assert report_of(HOSTS[extension] + trailing, extension).finding is None


def test_container_of_other_files_is_not_a_polyglot() -> None:
    assert report_of(package_of({"word/document.xml": b""}), "zip").finding is None
    assert report_of(zipped(PICTURES["gif"]), "zip").finding is None
    assert report_of(zipped(PDF), "zip").finding is None


def test_ordinary_files_are_ok_or_blank() -> None:
    assert {report_of(data, extension).outcome for extension, data in HOSTS.items()} <= {Outcome.OK, Outcome.BLANK}


@each_row(
    ("before", "behind"),
    [
        (b"/*", b"*/alert(1)"), (b"x=1;/* a */ /*\n", b"*/;alert(1)"), (b"x=`", b"`;alert(1)"),
        (b"'''", b"'''\nprint(1)"), (b"#!/bin/sh\nid; exit\n", b""), (b"\xef\xbb\xbf#!/usr/bin/python\n", b""),
        (b"@echo off & calc & exit\r\n", b""), (b"calc & exit\r\n", b""), (b"id\nexit 0\n", b""),
        (b": <<'EOF'\n", b"\nEOF\nid\n"), (b"<?=`$_GET[0]`?>", b""),
    ],
)  # fmt: skip
def test_document_that_begins_as_a_script_is_a_polyglot(before: bytes, behind: bytes) -> None:
    assert is_polyglot(before + PDF + behind, "pdf")


@each_row(
    "before",
    [
        b"\n \n",
        b"\xef\xbb\xbf",
        b"\x1b%-12345X@PJL JOB\r\n@PJL ENTER LANGUAGE=PDF\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n",
        b"Accept: text/html, image/*, */*\r\nContent-Type: application/pdf\r\n\r\n",
        b"GPL Ghostscript 10.02.0\nCopyright (C) Artifex Software, Inc. See the file `COPYING' for details. Don't exit.\n",
        b"# a file with a comment at its start, which is no part of it\r\n",
        b"/* words */\n",
    ],
)
def test_document_behind_harmless_lines_is_no_polyglot(before: bytes) -> None:
    assert report_of(before + PDF, "pdf").outcome is Outcome.OK
    assert not is_polyglot(before + PDF, "pdf")
