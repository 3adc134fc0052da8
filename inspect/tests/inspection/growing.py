"""Inputs that grow by repetition, made to be expensive for a parser, and how the time grows with them."""

import base64
import bz2
import gzip
import io
import lzma
import math
import os
import re
import sqlite3
import struct
import tarfile
import time
import wave
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import lz4.frame
import zstandard
from PIL import Image

from sluice_inspect.formats import docx, epub, xlsx
from sluice_inspect.formats.opendocument.format import ODS, ODT
from sluice_inspect.formats.parquet.sample import encode_page, encode_table
from sluice_inspect.formats.xls.format import make_beginning, make_record
from sluice_inspect.registry import FORMATS

Make = Callable[[int], bytes]
LEVELS = 5000
"""The most levels of what grows by half a kilobyte each, or by twice its paths."""


@dataclass(frozen=True)
class Growing:
    """An input of `count` units under a file name of this extension."""

    extension: str
    make: Make


def repeated(extension: str, unit: bytes, head: bytes = b"", tail: bytes = b"") -> Growing:
    return Growing(extension, lambda count: head + unit * count + tail)


def _pdf(body: Make, pages: Make = lambda _: b"[3 0 R]") -> Growing:
    return Growing("pdf", lambda count: pdf(body(count), pages(count)))


def _xml(extension: str, unit: bytes, close: bytes = b"", head: bytes = b"<r>", tail: bytes = b"</r>") -> Growing:
    return Growing(extension, lambda count: head + unit * count + close * count + tail)


_SVG: Final = b'<svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink" viewBox="0 0 9 9">'


def _svg(unit: bytes, close: bytes = b"") -> Growing:
    return _xml("svg", unit, close, _SVG, b"</svg>")


def _zip(member: Callable[[int], tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> Growing:
    def make(count: int) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as archive:
            for number in range(count):
                name, data = member(number)
                archive.writestr(zipfile.ZipInfo(name), data)
        return out.getvalue()

    return Growing("zip", make)


def _sheet(formula: Callable[[int], str], text: Callable[[int], str] = lambda _: "") -> Growing:
    def make(count: int) -> bytes:
        cell = f'<c t="str" r="A1"><f>{formula(count)}</f><v>{text(count)}</v></c>'
        rows = f'<sheetData><row r="1">{cell}</row></sheetData>'
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(xlsx.FORMAT.sample())) as sample, zipfile.ZipFile(out, "w") as package:
            for name in sample.namelist():
                content = sample.read(name)
                changed = re.sub(rb"<sheetData>.*</sheetData>", rows.encode(), content)
                package.writestr(name, changed)
        return out.getvalue()

    return Growing("xlsx", make)


def _same_names(count: int) -> bytes:
    data = _zip(lambda number: (f"{number:08}", b"x")).make(count)
    for number in range(count):
        data = data.replace(f"{number:08}".encode(), b"00000000")
    return data


def _tar(name: Callable[[int], str], kind: bytes = tarfile.REGTYPE) -> Growing:
    def make(count: int) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for number in range(count):
                entry = tarfile.TarInfo(name(number))
                entry.type, entry.size = kind, 3 if kind == tarfile.REGTYPE else 0
                archive.addfile(entry, io.BytesIO(b"abc"))
        return out.getvalue()

    return Growing("tar", make)


def pdf(body: bytes, pages: bytes = b"[3 0 R]") -> bytes:
    head = (
        b"%%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[10 0 R]>>>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids%b/Count 1>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R"
        b"/Resources<</XObject<</X10 10 0 R>>>>/Annots[10 0 R]>>endobj\n"
        b"4 0 obj<</Length 8>>stream\n/X10 Do \nendstream endobj\n" % pages
    )
    return head + body + b"\ntrailer<</Root 1 0 R/Size 9999>>\nstartxref\n0\n%%EOF\n"


def _shared_fields(count: int) -> bytes:
    """Return a form whose fields have the next level twice: 2 to the power of `count` paths."""
    count = min(count, LEVELS)
    levels = (b"%d 0 obj<</T(a)/Kids[%d 0 R %d 0 R]>>endobj\n" % (10 + at, 11 + at, 11 + at) for at in range(count))
    return b"".join(levels) + b"%d 0 obj<</T(b)>>endobj\n" % (10 + count)


def _fields_listed_often(count: int) -> bytes:
    """Return a form of two levels whose fields are listed so often that they are a field for each pair."""
    kids = b"[%b]" % (b"11 0 R " * max(1, count // 2))
    first = b"10 0 obj<</T(a)/Kids%b>>endobj\n" % kids
    return first + b"11 0 obj<</T(b)/Kids%b>>endobj\n12 0 obj<</T(c)>>endobj\n" % kids.replace(b"11", b"12")


def _shared_names(count: int) -> bytes:
    """Return an archive in a document, and a tree of attachments whose branches share theirs."""
    levels = (
        b"%d 0 obj<</Kids[%b]>>endobj\n" % (10 + at, b"%d 0 R " % (11 + at) * 8) for at in range(min(count, LEVELS))
    )
    inner = _zip(lambda _: ("a", b"b")).make(1)
    body = b"".join(levels) + b"9 0 obj<</Length %d>>stream\n%b\nendstream endobj\n" % (len(inner), inner)
    names = pdf(body).replace(b"/AcroForm<</Fields[10 0 R]>>", b"/Names<</EmbeddedFiles 10 0 R>>")
    return names.replace(b"/Annots[10 0 R]", b"")


def _shared_drawings(count: int) -> bytes:
    """Return a page whose drawing draws the next one twice, and so on."""
    count, form = min(count, LEVELS), b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]"
    levels = (
        b"%d 0 obj<<%b/Resources<</XObject<</X %d 0 R>>>>/Length 11>>stream\n/X Do /X Do\nendstream endobj\n"
        % (10 + at, form, 11 + at)
        for at in range(count)
    )
    return b"".join(levels) + b"%d 0 obj<<%b/Length 0>>stream\n\nendstream endobj\n" % (10 + count, form)


def _picture(content: bytes, entries: bytes = b"") -> bytes:
    head = b"/Type/XObject/Subtype/Image/Width 8/Height 8/ColorSpace/DeviceGray/BitsPerComponent 8"
    return b"10 0 obj<<%b%b/Length %d>>stream\n%b\nendstream endobj" % (head, entries, len(content), content)


def _dark(count: int) -> bytes:
    """Return a picture without compression in which stretches of zeros alternate with others."""
    return _picture((bytes(1200) + b"\x07" * 16) * count)


def _packed_dark(count: int) -> bytes:
    return _picture((zlib.compress(bytes(9))[:4] + bytes(1200)) * count, b"/Filter/FlateDecode")


def _box(name: bytes, content: bytes) -> bytes:
    return struct.pack(">L", 8 + len(content)) + name + content


def _nested_boxes(name: bytes) -> Make:
    def make(count: int) -> bytes:
        # The sizes reach to the end of the file, so that each box holds the next one.
        whole = 8 * count
        return b"".join(struct.pack(">L", whole - 8 * at) + name for at in range(count))

    return make


def _png(unit: bytes) -> Growing:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">L", len(data)) + name + data + struct.pack(">L", zlib.crc32(name + data))

    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">LLBBBBB", 8, 8, 8, 0, 0, 0, 0))
    tail = chunk(b"IDAT", zlib.compress(bytes(9 * 8))) + chunk(b"IEND", b"")
    return Growing("png", lambda count: head + chunk(unit, b"a\0b") * count + tail)


def _ole_fat_loop(count: int) -> bytes:
    """Return a compound file whose directory is one long chain of sectors full of streams."""
    from tests.inspection.threats.compound_files import compound  # noqa: PLC0415  (only here)

    return compound({f"stream {number:06}": b"x" * 70 for number in range(min(count, 60_000))})


def _macro(source: bytes) -> bytes:
    from tests.inspection.threats.compound_files import compound  # noqa: PLC0415  (only here)
    from tests.inspection.threats.test_rules import vba_stream  # noqa: PLC0415

    return compound({"VBA/_VBA_PROJECT": b"\xcc\x61", "VBA/Module1": vba_stream(source)})


def _attached(count: int) -> bytes:
    letters = base64.b64encode(bytes(range(200)))
    part = b"--q\nContent-Type: a/b; name=x.bin\nContent-Transfer-Encoding: base64\n\n" + letters + b"\n"
    return b"Subject: x\nContent-Type: multipart/mixed; boundary=q\n\n" + part * count + b"--q--\n"


def _in_part(extension: str, sample: bytes, part: str, unit: Callable[[int], bytes], behind: bytes) -> Growing:
    """Return a package in whose part the units stand, behind what is given, and instead of the rest of the element."""

    def make(count: int) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(sample)) as old, zipfile.ZipFile(out, "w") as new:
            for name in old.namelist():
                content = old.read(name)
                if name == part:
                    at = content.index(behind) + len(behind)
                    content = content[:at] + b"".join(map(unit, range(count))) + content[at:]
                new.writestr(zipfile.ZipInfo(name), content)
        return out.getvalue()

    return Growing(extension, make)


def _noise(count: int) -> bytes:
    return b"".join(zlib.crc32(b"%d" % each).to_bytes(4, "big") for each in range(count))


def _picture_of(kind: str, extension: str, **options: object) -> Growing:
    """Return a square picture of 64 pixels for each unit."""

    def make(count: int) -> bytes:
        out, side = io.BytesIO(), 8 * math.isqrt(count)
        Image.frombytes("L", (side, side), _noise(side * side // 4)).save(out, kind, **options)
        return out.getvalue()

    return Growing(extension, make)


def _frames_of(kind: str, extension: str) -> Growing:
    def make(count: int) -> bytes:
        frames = [Image.new("L", (8, 8), each % 251) for each in range(max(2, count))]
        out = io.BytesIO()
        frames[0].save(out, kind, save_all=True, append_images=frames[1:])
        return out.getvalue()

    return Growing(extension, make)


def _database(count: int) -> bytes:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("create table words (name text unique)")
        connection.executemany("insert into words values (?)", ((f"word {each}",) for each in range(count)))
        connection.commit()
        return connection.serialize()


def _sound(count: int) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(_noise(count))
    return out.getvalue()


def _pages(count: int) -> bytes:
    """Return as many pages, each with a drawing of its own."""
    kids = b"[%b]" % b"".join(b"%d 0 R " % (100 + 2 * each) for each in range(count))
    page = b"%d 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents %d 0 R>>endobj\n"
    drawing = b"%d 0 obj<</Length 14>>stream\n1 g 0 0 9 9 re\nendstream endobj\n"
    return pdf(
        b"".join(page % (100 + 2 * each, 101 + 2 * each) + drawing % (101 + 2 * each) for each in range(count)), kids
    )


def _boxes(count: int) -> bytes:
    """Return a page of white rectangles."""
    drawing = b"1 g\n" + b"0 0 9 9 re f\n" * count
    content = b"4 0 obj<</Length %d>>stream\n%bendstream endobj" % (len(drawing), drawing)
    return pdf(b"").replace(b"4 0 obj<</Length 8>>stream\n/X10 Do \nendstream endobj", content)


_PATTERN: Final = b"%d 0 obj<</PatternType 1/BBox[0 0 1 1]/XStep 1/YStep 1/Length 0>>stream\n\nendstream endobj\n"
_RTF: Final = rb"{\rtf1\ansi "
_MAIL: Final = b"Subject: x\nContent-Type: multipart/mixed; boundary=q\n\n"

# It opens with Excel's default password.
_OBFUSCATED_WORKBOOK: Final = make_beginning(0x600, 5) + make_record(0x2F, struct.pack("<HHH", 0, 0xB359, 0x9A0A))

GROWING: Final[Mapping[str, Growing]] = {
    # text
    "text, one line": repeated("txt", b"a"),
    "text, spaces": repeated("txt", b" "),
    "text, line ends": repeated("txt", b"\r\n"),
    "text, signs of markup": repeated("txt", b"<"),
    "csv, quotes": repeated("csv", b'"'),
    "csv, separators": repeated("csv", b";,\t"),
    "json, open lists": repeated("json", b"["),
    "json, open objects": repeated("json", b'{"a":'),
    "json, numbers": repeated("json", b"1,", b"[", b"1]"),
    "json, keys": Growing("json", lambda count: b"{%b}" % b",".join(b'"%d":1' % each for each in range(count))),
    "json, escapes": repeated("json", rb"\u00e4", b'"', b'"'),
    "json, objects": repeated("json", b'{"a":[1,{"b":"c\\n"}]},', b"[", b"1]"),
    "json, members nested deeper": repeated("json", b'[[[[{"a":1}]]]],', b"[", b"1]"),
    "json, members without an end": repeated("json", b'{"a":{"a":1,', b"["),
    "csv, signs": repeated("csv", b",=-+@(|!"),
    "csv, negative numbers": repeated("csv", b"-1.5,(a)\n"),
    "csv, formulas without an end": repeated("csv", b"=a |", b"(!"),
    "html, words of loading": repeated("html", b" src data= use srcset srcdoc on", b"<html>"),
    "json, one number": repeated("json", b"1"),
    "yaml, nested lists": repeated("yaml", b"["),
    "yaml, aliases": repeated("yaml", b"- *a\n", b"- &a b\n"),
    "yaml, dashes": repeated("yaml", b"- "),
    "markdown, brackets": repeated("md", b"["),
    "html, open elements": repeated("html", b"<div>", b"<html>"),
    "html, open comments": repeated("html", b"<!--", b"<html>"),
    "html, tags without an end": repeated("html", b"<a ", b"<html>"),
    "html, styles": repeated("html", b"<style>a{b:c", b"<html>"),
    "html, scripts": repeated("html", b"<script>", b"<html>"),
    "html, entities": repeated("html", b"&amp", b"<html>"),
    "html, marks of base64": repeated("html", b";base64,AAAA", b"<html>"),
    "html, marks of data": repeated("html", b"bindata ", b"<html>"),
    "xml, starts of files in letters": repeated("xml", b"UEsDBBQAAAAI " * 4, b"<r>", b"</r>"),
    "xml, starts of programs in letters": repeated("xml", b"<a>TVqQAAAA</a>", b"<r>", b"</r>"),
    "xml, files in letters": repeated("xml", b"<a>" + b"UEsDBBQAAAAI" * 4 + b"</a>", b"<r>", b"</r>"),
    "json, escapes in letters": repeated("json", rb"UEsDB\u0042\/A", b'["', b'"]'),
    "card, marks of base64": repeated("vcf", b"PHOTO;ENCODING=b:AAAA\n", b"BEGIN:VCARD\n"),
    "xml, depth": _xml("xml", b"<a>", b"</a>"),
    "xml, elements": _xml("xml", b"<a/>"),
    "xml, attributes": _xml("xml", b"", b"", b"<r/>", b""),
    "xml, open comments": _xml("xml", b"<!-- "),
    "xml, character data": _xml("xml", b"<![CDATA[a]]>"),
    "xml, processing instructions": _xml("xml", b"<?a b?>"),
    "xml, declarations": repeated("xml", b"<!ENTITY a 'b'>", b"<!DOCTYPE r [", b"]><r/>"),
    "xml, declared attributes": Growing(
        "xml",
        lambda count: (
            b"<!DOCTYPE r [%b]><r/>" % b"".join(b"<!ATTLIST r a%d CDATA 'b'>\n" % each for each in range(count))
        ),
    ),
    "xml, namespaces": Growing(
        "xml", lambda count: b"<r %b/>" % b" ".join(b'xmlns:a%d="b"' % each for each in range(count))
    ),
    "svg, groups": _svg(b"<g>", b"</g>"),
    "svg, paths": _svg(b'<path d="M0 0L9 9"/>'),
    "svg, brackets": _svg(b'<g a="url("/>'),
    "svg, names": Growing(
        "svg", lambda count: _SVG + b"".join(b"<a%d b%d='c'/>" % (each, each) for each in range(count)) + b"</svg>"
    ),
    "svg, uses": _svg(b'<use x:href="#a"/>'),
    "svg, symbols of symbols": _svg(b'<symbol id="a"><use x:href="#a"/></symbol>'),
    "svg, styles": _svg(b"<style>a{fill:red}</style>"),
    "svg, addresses without an end in a style": repeated("svg", b"url(", _SVG + b"<style>", b"</style></svg>"),
    "svg, pictures": _svg(b'<image x:href="data:image/png;base64,AAAA"/>'),
    # mail
    "mail, attachments": Growing("eml", _attached),
    "mail, boundaries": repeated("eml", b"--q\n", _MAIL),
    "mail, dashes": repeated("eml", b"--\n", _MAIL),
    # With content behind each: a mail whose readings are below the floor of a MiB is read in each of them.
    "mail, encodings": repeated("eml", b"Content-Transfer-Encoding: base64\n\n" + b"QUJD" * 64 + b"\n", _MAIL),
    "mail, fields": repeated("eml", b"a: b\n"),
    "mail, folded lines": repeated("eml", b" a\n", b"Subject: x\n"),
    "mail, multiparts": repeated("eml", b"--q\nContent-Type: multipart/mixed; boundary=q\n\n", _MAIL),
    "mail, messages": repeated("eml", b"Content-Type: message/rfc822\n\n"),
    "mail, padding": repeated("eml", b"=", _MAIL + b"--q\nContent-Transfer-Encoding: base64\n\n"),
    "mail, soft line ends": repeated("eml", b"=\n", _MAIL + b"--q\nContent-Transfer-Encoding: quoted-printable\n\n"),
    "mail, uuencoded files": repeated("eml", b"begin 644 a\n#86)C\n", b"Subject: x\n\n"),
    "mail, parameters": repeated(
        "eml", b"; a=b", b"Subject: x\nContent-Type: multipart/mixed; boundary=q", b"\n\n--q--\n"
    ),
    "mail, pieces of a name": repeated(
        "eml", b";\n name*0=b", _MAIL + b"--q\nContent-Disposition: attachment", b"\n\nx\n"
    ),
    "mail, comments": repeated("eml", b"(", b"Content-Transfer-Encoding: "),
    # RTF
    "rtf, groups": Growing("rtf", lambda count: _RTF + b"{" * count + b"}" * count + b"}"),
    "rtf, words": repeated("rtf", rb"\par ", _RTF, b"}"),
    "rtf, groups of words": repeated("rtf", rb"{\b a}", _RTF + b"a", b"}"),
    "rtf, groups without an end": repeated("rtf", rb"{\b a{", _RTF + b"a"),
    "rtf, escaped braces": repeated("rtf", rb"\{\}", _RTF + b"a", b"}"),
    "rtf, characters": repeated("rtf", rb"\'41", _RTF, b"}"),
    "rtf, marks of objects": repeated("rtf", rb"\objdata ", _RTF, b"}"),
    "rtf, objects": repeated("rtf", rb"{\object{\*\objdata 0105{\*\a 1}}}", _RTF, b"}"),
    # up to the depth that is followed, the time grows as its square
    "rtf, nested objects": repeated("rtf", rb"{\objdata ", _RTF + rb"{\objdata " * 128),
    "rtf, words within an object": repeated("rtf", rb"\a 1", _RTF + rb"{\objdata ", b"}}"),
    "rtf, groups within an object": repeated("rtf", rb"{\a 1}", _RTF + rb"{\objdata ", b"}}"),
    "rtf, Unicode within an object": repeated("rtf", rb"\u1 a", _RTF + rb"{\objdata ", b"}}"),
    "rtf, binary data": repeated("rtf", b"\\bin1 x", _RTF + rb"{\pict ", b"}}"),
    "rtf, binary data in an object": repeated("rtf", b"\\bin1 x", _RTF + rb"{\objdata ", b"}}"),
    "rtf, pictures": repeated("rtf", rb"{\pict\pngblip 89504e47}", _RTF, b"}"),
    "rtf, digits of a picture": repeated("rtf", rb"00\par ", _RTF + rb"{\pict\pngblip ", b"}}"),
    "rtf, colours": repeated("rtf", rb"\red1;", _RTF + rb"{\colortbl ", b"}}"),
    "rtf, hidden words": repeated("rtf", rb"{\v a}", _RTF, b"}"),
    # PDF
    "pdf, objects": _pdf(lambda count: b"".join(b"%d 0 obj<<>>endobj\n" % at for at in range(10, count))),
    "pdf, versions of an object": _pdf(lambda count: b"10 0 obj<</A 1>>endobj\n" * count),
    "pdf, objects without an end": _pdf(lambda count: b"10 0 obj<< " * count),
    "pdf, streams without an end": _pdf(lambda count: b"10 0 obj<<>>stream\n" * count),
    "pdf, words of streams": _pdf(lambda count: b"stream\n" * count),
    "pdf, numbered streams without an end": _pdf(
        lambda count: b"".join(b"%d 0 obj<</Length 9999>>stream\n" % (10 + each) for each in range(count))
    ),
    "pdf, dark picture": _pdf(_dark),
    "pdf, dark packed picture": _pdf(_packed_dark),
    "pdf, shared form fields": _pdf(_shared_fields),
    "pdf, fields listed often": _pdf(_fields_listed_often),
    "pdf, shared names": Growing("pdf", _shared_names),
    "pdf, shared drawings": _pdf(_shared_drawings),
    "pdf, fields that hold themselves": _pdf(lambda count: b"10 0 obj<</Kids[%b]>>endobj" % (b"10 0 R " * count)),
    "pdf, pages that hold themselves": _pdf(lambda _: b"", lambda count: b"[%b]" % (b"2 0 R " * count)),
    "pdf, nested lists": _pdf(lambda count: b"10 0 obj" + b"[" * count + b"]" * count + b"endobj"),
    "pdf, nested dictionaries": _pdf(lambda count: b"10 0 obj" + b"<</A" * count + b" 1" + b">>" * count + b"endobj"),
    "pdf, damaged scripts": _pdf(lambda count: b"10 0 obj<</JS(a)>endobj\n" * count),
    "pdf, damaged streams": _pdf(lambda count: b"10 0 obj<</JS(a)>stream\nx\nendstream endobj\n" * count),
    "pdf, open strings": _pdf(lambda count: b"(" * count),
    "pdf, patterns": _pdf(lambda count: b"".join(_PATTERN % (10 + at) for at in range(count))),
    "html, references": repeated("html", b"=&#9;j&#x0a;&Tab;"),
    "html, pages in attributes": repeated("html", b" srcdoc='<a srcdoc=\""),
    "pdf, zeros": _pdf(lambda count: (bytes(1100) + b"endobj ") * count),
    "pdf, comments": _pdf(lambda count: b"%\n" * count),
    "pdf, drawing": _pdf(
        lambda count: b"10 0 obj<</Length %d>>stream\n%bendstream endobj" % (9 * count, b"0 0 m f Q " * count)
    ),
    "pdf, pages": Growing("pdf", _pages),
    "pdf, white boxes": Growing("pdf", _boxes),
    "pdf, marks of the end": _pdf(lambda count: b"%%EOF\nstartxref\n0\n" * count),
    # archives
    "zip, members": _zip(lambda number: (f"{number}.txt", b"words")),
    "zip, packed members": _zip(lambda number: (f"{number}.txt", bytes(200)), zipfile.ZIP_DEFLATED),
    "zip, folders in folders": _zip(lambda number: ("a/" * (number % 100) + str(number), b"words")),
    "zip, archives": _zip(lambda number: (f"{number}.zip", _zip(lambda _: ("a", b"b")).make(1))),
    "zip, local headers": repeated("zip", b"PK\3\4" + bytes(26)),
    "zip, directory entries": repeated("zip", b"PK\1\2" + bytes(42)),
    "zip, end records": repeated("zip", b"PK\5\6" + bytes(18)),
    "zip, same names": Growing("zip", lambda count: _same_names(min(count, 2000))),
    "tar, members": _tar(lambda number: f"{number}.txt"),
    "tar, long names": _tar(lambda number: f"{number}" * 40),
    "tar, links": _tar(lambda number: f"{number}", tarfile.SYMTYPE),
    "tar, zeros": repeated("tar", bytes(512), _tar(str).make(1)),
    "gz, streams": repeated("gz", gzip.compress(b"a")),
    "gz, zeros": Growing("gz", lambda count: gzip.compress(bytes(count * 16))),
    "bz2, streams": repeated("bz2", bz2.compress(b"a")),
    "xz, streams": repeated("xz", lzma.compress(b"a")),
    "zst, frames": repeated("zst", zstandard.compress(b"a")),
    "lz4, frames": repeated("lz4", lz4.frame.compress(b"a")),
    "bz2, noise": Growing("bz2", lambda count: bz2.compress(_noise(count))),
    "xz, noise": Growing("xz", lambda count: lzma.compress(_noise(count))),
    "zst, noise": Growing("zst", lambda count: zstandard.compress(_noise(count))),
    "7z, damage": repeated("7z", b"\x01", b"7z\xbc\xaf\x27\x1c\0\4"),
    "rar, damage": repeated("rar", b"\x01", b"Rar!\x1a\x07\x01\x00"),
    # old Office, pictures, sound, video
    "macro, continued lines": Growing("doc", lambda count: _macro(b"Sub  _\r\n" * count)),
    "macro, joined texts": Growing("doc", lambda count: _macro(b'x = "a" & Chr(65) & "b"\r\n' * count)),
    "macro, replaced texts": Growing(
        "doc", lambda count: _macro(b'x = Replace("%b", "a", "%b")\r\n' % (b"a" * count, b"b" * count))
    ),
    "macro, open brackets": Growing("doc", lambda count: _macro(b"Sub [" * count)),
    "rtf, codes of characters": repeated("rtf", b"68 ", _RTF + rb"{\field{\*\fldinst QUOTE ", b"}}}"),
    "compound file, streams": Growing("doc", _ole_fat_loop),
    "sheet, joined values": _sheet(lambda count: "CHAR(65)&amp;" * count),
    "sheet, a text of many pieces": _sheet(lambda _: "A", lambda count: "a&amp;" * count),
    "workbook, obfuscated records": repeated("xls", make_record(0x42), _OBFUSCATED_WORKBOOK, make_record(0x0A)),
    "compound file, damage": repeated("xls", b"\0\0\0\0", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)),
    # documents, databases, pictures and sound as libraries write them
    "docx, paragraphs": _in_part(
        "docx", docx.FORMAT.sample(), "word/document.xml", lambda _: b"<w:p><w:r><w:t/></w:r></w:p>", b"<w:body>"
    ),
    "xlsx, rows": _in_part(
        "xlsx",
        xlsx.FORMAT.sample(),
        "xl/sheet1.xml",
        lambda at: b'<row><c t="s"><v>%d</v></c></row>' % at,
        b"<sheetData>",
    ),
    "odt, tables": _in_part("odt", ODT.sample(), "content.xml", lambda _: b"<table:table/>", b"<office:text>"),
    "ods, rows": _in_part("ods", ODS.sample(), "content.xml", lambda _: b"<table:table-row/>", b"<office:spreadsheet>"),
    "epub, paragraphs": _in_part("epub", epub.FORMAT.sample(), "page.xhtml", lambda _: b"<p> </p>", b"<body>"),
    "sqlite, rows": Growing("sqlite", _database),
    "parquet, pages": Growing(
        "parquet", lambda count: encode_table(encode_page(bytes(64), 16) * count, 16 * count, 16 * count)
    ),
    "png, pixels": _picture_of("PNG", "png"),
    "jpeg, pixels": _picture_of("JPEG", "jpg"),
    "webp, pixels": _picture_of("WEBP", "webp"),
    "bmp, pixels": _picture_of("BMP", "bmp"),
    "tiff, pixels": _picture_of("TIFF", "tif"),
    "tiff, pixels in LZW": _picture_of("TIFF", "tif", compression="tiff_lzw"),
    "tiff, pages": _frames_of("TIFF", "tif"),
    "gif, pictures": _frames_of("GIF", "gif"),
    "wav, samples": Growing("wav", _sound),
    "mp3, frames": repeated("mp3", b"\xff\xfb\x90\0" + bytes(413)),
    "png, texts": _png(b"tEXt"),
    "png, unknown chunks": _png(b"abCd"),
    "gif, comments": repeated("gif", b"!\xfe\1a\0", b"GIF89a\1\0\1\0\0\0\0"),
    "gif, frames": repeated("gif", b",\0\0\0\0\1\0\1\0\0\2\2D\1\0", b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff", b";"),
    "jpeg, markers": repeated("jpg", b"\xff\xfe\0\3a", b"\xff\xd8"),
    "jpeg, fill bytes": repeated("jpg", b"\xff", b"\xff\xd8"),
    "bmp, damage": repeated("bmp", b"\1", b"BM"),
    "tiff, directories": repeated("tif", b"\0\0\x08\0\0\0", b"II*\0\x08\0\0\0"),
    "mp4, boxes": repeated("mp4", _box(b"free", b""), _box(b"ftyp", b"isom\0\0\0\0")),
    "mp4, nested boxes": Growing("mp4", lambda count: _box(b"ftyp", b"isom\0\0\0\0") + _nested_boxes(b"moov")(count)),
    "heic, nested boxes": Growing("heic", lambda count: _box(b"ftyp", b"heic\0\0\0\0") + _nested_boxes(b"meta")(count)),
    "avi, lists": repeated("avi", b"LIST\4\0\0\0abcd", b"RIFF\xff\xff\xff\x7fAVI "),
    "wav, chunks": repeated("wav", b"abcd\0\0\0\0", b"RIFF\xff\xff\xff\x7fWAVE"),
    "mkv, elements": repeated("mkv", b"\xec\x80", b"\x1aE\xdf\xa3\x80\x18S\x80g\x01\xff\xff\xff\xff\xff\xff\xff"),
    "mp3, false starts": repeated("mp3", b"\xff\xfb\x90\x00", b"ID3\4\0\0\0\0\0\0"),
    "flac, blocks": repeated("flac", b"\x01\0\0\0", b"fLaC"),
    "ogg, pages": repeated("ogg", b"OggS\0\0" + bytes(20) + b"\1\0"),
    "jp2, boxes": repeated("jp2", _box(b"free", b""), b"\0\0\0\x0cjP  \r\n\x87\n"),
    "sqlite, damage": repeated("sqlite", b"\1", b"SQLite format 3\0"),
    "parquet, damage": repeated("parquet", b"\x15", b"PAR1", b"\xff\xff\0\0PAR1"),
    "font, damage": repeated("ttf", b"\1", b"\0\1\0\0\0\x0c"),
    "web page in a picture": repeated("jpg", b"<script>", b"\xff\xd8\xff"),
}

DENSE: Final = (
    "xml, declared attributes",
    "mail, parameters",
    "mail, pieces of a name",
    "pdf, streams without an end",
    "pdf, words of streams",
    "pdf, numbered streams without an end",
    "macro, continued lines",
)
"""What libraries read in the square of its size, and what is counted before them: slow at a megabyte."""

# Each format at least with bytes of its own that are repeated, and cut: whatever it makes of them.
# Of a size at which what is slow for each byte shows: made once, and of half the size.
LARGE: Final[Mapping[str, Growing]] = {
    "pdf, dark picture": _pdf(_dark),
    "pdf, black picture": _pdf(lambda count: _picture(bytes(1216 * count))),
    "pdf, marks in a dark picture": _pdf(lambda count: _dark(count).replace(b"\x07" * 16, b" obj stream trail")),
}

SAMPLES: Final[Mapping[str, Growing]] = {
    f"{kind.name}, sample repeated": Growing(min(kind.extensions), lambda count, kind=kind: kind.sample() * count)  # type: ignore[misc]
    for kind in FORMATS
    if not kind.missing_reader
}


def seconds(run: Callable[[int, str], object], data: bytes, extension: str, *, tries: int) -> float:
    """Return the least processor time of some tries. `run` takes a descriptor and a file name."""
    fd = os.memfd_create("growing")
    try:
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(data)
        least = float("inf")
        for _ in range(tries):
            began = time.process_time()
            run(fd, f"a.{extension}")
            least = min(least, time.process_time() - began)
            if least > 1:
                break
        return least
    finally:
        os.close(fd)
