"""Files that are two formats at once are polyglots."""

import io
import struct
import tarfile
import zipfile

from sluice_inspect.report import Outcome
from tests.inspection.formats.image_samples import chess_board, encoded, png_chunk, with_chunk
from tests.inspection.formats.office_packages import package_of
from tests.inspection.formats.pdf_samples import pdf, text
from tests.inspection.formats.zip_samples import archive
from tests.inspection.second_formats import PAGE, PHP, ZipShape, is_polyglot, rar4, rar5, report_of, seven_zip, zip_of
from tests.rows import each_row

PICTURES = {
    "png": encoded(chess_board(), "PNG"),
    "jpg": encoded(chess_board(), "JPEG"),
    "gif": encoded(chess_board(), "GIF"),
    "webp": encoded(chess_board().convert("RGB"), "WEBP"),
}
PDF = pdf(text("words"))
HOSTS = PICTURES | {"pdf": PDF}
ZIP = zip_of(ZipShape())
PDF_HEAD = b"%PDF-1.4 1 0 obj<</Type/Catalog>>endobj trailer<</Root 1 0 R>>"


def with_comment(comment: bytes) -> bytes:
    return with_chunk(PICTURES["png"], png_chunk(b"tEXt", b"Comment\0" + comment))


def appended(data: bytes) -> bytes:
    file = io.BytesIO(data)
    with zipfile.ZipFile(file, "a") as opened:
        opened.writestr("member.txt", "payload")
    return file.getvalue()


@each_row("extension", HOSTS)
def test_archive_after_a_file_is_a_polyglot(extension: str) -> None:
    for second in (ZIP, zip_of(ZipShape(comment=900)), rar4(), rar5(), seven_zip()):
        assert is_polyglot(HOSTS[extension] + second, extension)
    assert is_polyglot(appended(HOSTS[extension]), extension)


def tar_named_as_a_picture() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as opened:
        opened.addfile(tarfile.TarInfo("GIF89a"))
    return file.getvalue()


def disk_image(*descriptors: bytes) -> bytes:
    sectors = b"".join(each.ljust(2048, b"\0") for each in descriptors)
    return with_chunk(PICTURES["png"], png_chunk(b"prVt", bytes(0x8000 - 33 - 8) + sectors))


IN_FRONT = (
    bytes.fromhex("4c0000000114020000000000c000000000000046"), b"dex\n035\0", b"\0asm\x01\0\0\0", rb"{\rtf1 words}",
    b"%!PS-Adobe-3.0", b'Dim shell\r\nSet shell = CreateObject("WScript.Shell")', b"Windows Registry Editor Version 5.00",
    b"[InternetShortcut]\r\nURL=file://host/a", b"[Shell]\r\nCommand=2", b"[Version]\r\nSignature=$CHICAGO$",
    b"[Desktop Entry]\nExec=sh",
)  # fmt: skip


@each_row(
    ("case", "extension", "data"),
    [
        *(("archive or document after an archive", "zip", ZIP + each) for each in (rar4(), rar5(), seven_zip(), PDF)),
        ("archive after RTF", "rtf", rb"{\rtf1\ansi{\*\htmltag <html>}words}" + ZIP),
        *(("file in a picture", "png", with_comment(each)) for each in (ZIP, rar5(), PDF, PHP)),
        ("page in a picture", "jpg", PICTURES["jpg"][:2] + b"\xff\xfe" + struct.pack(">H", len(PAGE) + 2) + PAGE + PICTURES["jpg"][2:]),
        ("script in a picture", "gif", PICTURES["gif"][:-1] + b"!\xfe" + bytes([len(PHP)]) + PHP + b"\0;"),
        ("script behind a picture", "webp", PICTURES["webp"] + PHP),
        ("script in the size of a picture", "gif", b"GIF89a/*" + PICTURES["gif"][8:-1] + b"!\xfe\x0e*/=1;alert(1)//\0;"),
        *(
            (f"{script!r} in a picture", "png", with_comment(script))
            for script in (b"<?php echo 1;", b"<?phpinfo()?>", b"<?=`$_GET[1]`?>", b"<? system ('id'); ?>")
        ),
        *(("page behind a picture", extension, data + b"\n" + PAGE) for extension, data in PICTURES.items()),
        ("page in the head of a document", "pdf", PDF.replace(b"\n", b"\n%" + PAGE + b"\n", 1)),
        ("TAR that begins as a picture", "gif", tar_named_as_a_picture()),
        ("disk image", "png", with_chunk(PICTURES["png"], png_chunk(b"prVt", bytes(0x8000 - 33 - 8) + b"\x01CD001\x01"))),
        ("disk image behind a boot record", "png", disk_image(b"\0CD001\x01", b"\x01CD001\x01")),
        ("disk image of UDF", "png", disk_image(b"\0BEA01\x01", b"\0NSR02\x01")),
        *(("something else in front of a document", "pdf", each + b"\n" + PDF) for each in IN_FRONT),
        ("archive behind a picture of another name", "jpg", PICTURES["gif"] + ZIP),
        ("archive behind a picture of an unknown name", "unknown", PICTURES["gif"] + ZIP),
    ],
)  # fmt: skip
def test_second_format_is_a_polyglot(case: str, extension: str, data: bytes) -> None:
    assert is_polyglot(data, extension)


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
    assert is_polyglot(before + PDF_HEAD + behind, extension)
    assert not is_polyglot(before + b"begins with %PDF-1.4" + behind, extension)


def wav(size: bytes, samples: bytes) -> bytes:
    form = struct.pack("<L2H2L2H", 16, 1, 1, 8000, 16000, 2, 16)
    return b"RIFF" + size + b"WAVEfmt " + form + b"data" + struct.pack("<L", len(samples)) + samples


@each_row(
    ("opens", "closes"),
    [
        (b"=1/*", b"*/;alert(1)"), (b"=1;`", b"`;alert(1)"), (b"=1;'", b"';alert(1)"), (b'=1+"', b'"+alert(1)'),
        (b"=1//", b"\nalert(1)"),
    ],
)  # fmt: skip
def test_script_around_a_recording_or_picture_is_a_polyglot(opens: bytes, closes: bytes) -> None:
    recording = wav(opens, struct.pack("<h", 700) * 4000)
    assert is_polyglot(recording + closes, "wav")
    assert not is_polyglot(recording, "wav")
    bitmap = encoded(chess_board().convert("RGB"), "BMP")
    assert is_polyglot(bitmap[:2] + opens + bitmap[6:] + closes, "bmp")


@each_row(
    "note",
    [
        b"<?xpacket begin='' id='W5M0'?>", b'<?xml version="1.0"?><x:xmpmeta/>', b"<?=\x80?>", b"<?=<;<=>>==>>>?>",
        b"what? <php>",
    ],
)  # fmt: skip
def test_ordinary_comments_in_a_picture_are_not_a_polyglot(note: bytes) -> None:
    assert not is_polyglot(with_comment(note), "png")


@each_row("extension", HOSTS)
def test_ordinary_files_and_bytes_after_them_are_not_a_polyglot(extension: str) -> None:
    assert report_of(HOSTS[extension], extension).outcome in {Outcome.OK, Outcome.BLANK}
    for trailing in (bytes(5000), b"MotionPhoto\0" * 99, b"PK\x05\x06" + bytes(18), b"Rar!\x1a\x07\0" * 9, b"\r\n\r\n"):
        assert report_of(HOSTS[extension] + trailing, extension).finding is None


def test_container_of_other_files_is_not_a_polyglot() -> None:
    assert report_of(rb"{\rtf1\ansi{\*\htmltag <html>}words}", "rtf").outcome is Outcome.OK
    assert report_of(package_of({"word/document.xml": b""}), "zip").finding is None
    for inner in (PICTURES["gif"], PDF):
        assert report_of(archive(("member.txt", inner), method=zipfile.ZIP_STORED), "zip").finding is None


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
    report = report_of(before + PDF, "pdf")
    assert (report.outcome, report.finding) == (Outcome.OK, None)
