"""No shape, place or surrounding of a second format hides it; what resembles one is let in."""

import base64
import contextlib
import io
import os
import random
import sqlite3
import struct
from collections.abc import Callable
from itertools import cycle, product
from pathlib import Path

import pikepdf
import pytest

from sluice_inspect.archives.finder import ArchiveFinder
from sluice_inspect.inspection import inspect_file
from sluice_inspect.registry import format_of
from sluice_inspect.report import Outcome
from sluice_inspect.source import MemorySource
from sluice_inspect.text.active_content import ActiveContentFinder
from tests.inspection import second_formats
from tests.inspection.formats.office_packages import package_of
from tests.inspection.growth import assert_linear
from tests.inspection.second_formats import ARCHIVES, INSIDE, PAGE, PHP, WORDS, ZipShape, inside, is_polyglot, report_of
from tests.inspection.threats.compound_files import compound, ole_package
from tests.rows import each_row
from tests.run_length import amount

CARRIERS = second_formats.carriers()


@each_row("extension", CARRIERS)
def test_carrier_is_good_by_itself(extension: str) -> None:
    assert report_of(CARRIERS[extension], extension).finding is None


@pytest.mark.asvs("5.2.2")
@each_row("words", WORDS)
@each_row("archive", ARCHIVES)
@each_row("extension", CARRIERS)
def test_no_words_before_an_archive_hide_it(extension: str, archive: str, words: bytes) -> None:
    assert is_polyglot(CARRIERS[extension] + words + ARCHIVES[archive], extension)


@each_row("archive", ARCHIVES)
@each_row("extension", INSIDE)
def test_archive_in_the_middle_is_found(extension: str, archive: str) -> None:
    assert is_polyglot(inside(extension, ARCHIVES[archive]), extension)
    assert is_polyglot(inside(extension, bytes(70_000) + ARCHIVES[archive] + bytes(70_000)), extension)


@each_row("zip64", [False, True])
def test_archive_of_any_shape_is_found(*, zip64: bool) -> None:
    for comment, behind in product((0, 1, 65_535), (0, 3, 100_000)):
        archive = second_formats.zip_of(ZipShape(comment=comment, zip64=zip64))
        assert is_polyglot(CARRIERS["png"] + archive + b"b" * behind, "png"), (comment, behind)
    for bogus in (1, 3, 2000):  # entries that lead nowhere
        assert is_polyglot(
            CARRIERS["gif"] + second_formats.zip_of(ZipShape(bogus_entries=bogus, zip64=zip64)), "gif"
        ), bogus
    picture = CARRIERS["jpg"]
    for sized in (False, True):  # offsets that count from the start of the file
        assert is_polyglot(
            picture + second_formats.zip_of(ZipShape(base=len(picture), sized=sized, zip64=zip64)), "jpg"
        ), sized


def test_random_evasions_are_found() -> None:
    chance = random.Random(16)
    missed = []
    for _ in range(amount("EVASIONS", short=75, full=150)):
        shape = ZipShape(
            comment=chance.choice((0, 7, 22, 9_999, 65_535)),
            zip64=chance.random() < 0.5,
            bogus_entries=chance.choice((0, 1, 50)),
            counted=chance.random() < 0.7,
        )
        archive = chance.choice([second_formats.zip_of(shape), *ARCHIVES.values()])
        hidden = chance.choice(WORDS) + archive + bytes(chance.choice((0, 1, 99_999)))
        if chance.random() < 0.5:
            extension = chance.choice(INSIDE)
            data = inside(extension, bytes(chance.choice((0, 5, 80_000))) + hidden)
        else:
            extension = chance.choice(list(CARRIERS))
            data = CARRIERS[extension] + hidden
        if not is_polyglot(data, extension):
            missed.append((extension, shape, hidden[:40]))
    assert missed == []


@each_row("archive", ARCHIVES)
@each_row("extension", ["doc", "xls", "ppt", "msg", "sqlite"])
def test_archive_behind_an_archive_or_the_last_sector_or_page_is_found(extension: str, archive: str) -> None:
    format_ = format_of(extension)
    assert format_ is not None
    assert report_of(format_.sample() + bytes(9), extension).finding is None
    assert is_polyglot(format_.sample() + b"/EmbeddedFile stream\n" + ARCHIVES[archive], extension)
    if archive in {"zip", "rar5", "7z", "cab"}:
        for outer in ("docx", "zip"):
            behind = package_of({"word/document.xml": b""}) + b"\0" + ARCHIVES[archive]
            assert report_of(behind, outer).finding is not None


def test_archive_packaged_in_a_document_or_in_a_database_is_let_in(tmp_path: Path) -> None:
    data = compound({"WordDocument": bytes(5000), "\x01Ole10Native": ole_package(bytes(9000) + ARCHIVES["zip"])})
    assert ARCHIVES["zip"] in data
    assert report_of(data, "doc").finding is None
    path = tmp_path / "files.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE files (content BLOB)")
        database.execute("INSERT INTO files VALUES (?)", (ARCHIVES["zip"],))
    assert ARCHIVES["zip"] in path.read_bytes()
    assert inspect_file(path).finding is None


SCRIPTS = (
    PHP, b"<?PHP\nsystem('id');", b"<?php\t/*\x80\xff*/eval($_POST[1]);", b"<?=`$_GET[0]`?>", b"<?=`id`;",
    b"<?=/*\x00\xff*/system($_GET[0]);", b"<? eval($_REQUEST['x']); ?>", b"<?=$_GET[0]($_GET[1]);",
    b"\xff__HALT_COMPILER(); ?>", b"<?$_=$_GET;$_[0]($_[1]);", b"<?$_GET[0]($_GET[1])?>",
    b"<?$\x80=$_GET;$\x80[0]($\x80[1]);", b'<?$f="sys"."tem";$f(\'id\');', b"<? $f = 'sys\0'.'tem'; $f('id');",
    b"<?#\nsystem('id');", b"<?//a\n//a\n//a\n//a\n//a\nsystem('id');", b"<?/*" + b"\0" * 5000 + b"*/system('id');",
    b"<?@eval($_POST[1]);", b"<?;system('id');", b"<?{system('id');}", b"<?goto a;a:system('id');",
    b"<?include$_GET[0];", b"<?print`id`;", b"<?exit(`id`);", b"<?declare(ticks=1);system('id');",
    b"<?try{system('id');}finally{}", b"<?=(string)`id`?>", b"<?= @ (int) `id`;", b"<?`id`?>",
    b"<?=<<<A\n{$_GET[0]}\nA;", b"<?<<<'A'\r\nA;\nsystem('id');", b"<?=@(string)include $x?>",
)  # fmt: skip
# In the data of a PDF, these are letters like others.
SCRIPTS_OF_PICTURES = (
    b"<?isset($c)&&$c()?>", b"<?=!isset($x)?:`id`?>", b"<?=clone($x)?>", b"<?=1?`id`:0?>", b"<?=PHP_OS.`id`?>",
    b'<?="`id`"?>', b'<?="{$f(1)}"?>', b"<?=PHP_OS.<<<A\n{${f(1)}}\nA;", b"<%! int a = 1; %>",
    b'<%!void x(){y("id");}%>', b"<%@ assembly name='x'%>", b"<%=1<2%>", b"<%-- x --%><%!int a;%>",
    b'<%Process p = new ProcessBuilder("x").start();%>', b"<%\nfor (int i=0;i<1;i++) {}%>", b"<%: Eval(1) %>",
    b"<jsp:scriptlet>x();</jsp:scriptlet>", b"<jsp:directive.include file='x'/>",
)  # fmt: skip


@pytest.mark.asvs("5.2.2")
@each_row("script", [*SCRIPTS, PAGE, b"<html lang=en><script>x()</script>", b"<HTA:APPLICATION><script>x()</script>"])
@each_row("distance", [0, 70_000])
@each_row("extension", INSIDE)
def test_php_or_page_with_a_script_is_found_anywhere(extension: str, distance: int, script: bytes) -> None:
    assert is_polyglot(inside(extension, bytes(distance) + script + bytes(distance)), extension)
    if distance and extension != "pdf" and script == PHP:
        for each in SCRIPTS_OF_PICTURES:
            assert is_polyglot(inside(extension, bytes(distance) + each + b"\0\xff"), extension), each


@pytest.mark.asvs("5.2.2")
@each_row(("script", "extension"), zip(SCRIPTS, cycle(INSIDE)))
def test_php_is_found_across_the_end_of_a_piece(script: bytes, extension: str) -> None:
    assert is_polyglot(inside(extension, bytes(1_048_570) + script + bytes(1_048_570)), extension)


@each_row("extension", [each for each in CARRIERS if each not in {"html", "rtf"}])
def test_php_behind_a_file_is_found(extension: str) -> None:
    assert is_polyglot(CARRIERS[extension] + PHP, extension)


def test_document_header_is_found_to_the_end_of_the_window_of_readers() -> None:
    document = CARRIERS["pdf"]
    for distance in (0, 900, 1024 - 44):
        data = inside("png", bytes(distance) + document.replace(b"%%EOF", b""))
        assert is_polyglot(data, "png"), data.find(b"%PDF-")


ATTACHED = {**ARCHIVES, "php": PHP, "page": PAGE}


@each_row("kind", ATTACHED)
@each_row(
    "saving",
    [{}, {"object_stream_mode": pikepdf.ObjectStreamMode.generate}, {"linearize": True}],
    ids=["plain", "object streams", "linearized"],
)
def test_attachment_that_a_document_lists_is_let_in(kind: str, saving: dict[str, object]) -> None:
    data = second_formats.with_attachment(ATTACHED[kind] + bytes(100), **saving)
    assert ATTACHED[kind] in data
    assert report_of(data, "pdf").finding is None
    assert report_of(b"\n" * 7 + data, "pdf").finding is None


def test_attachment_of_an_update_is_let_in() -> None:
    # An incremental update with a table of its own: the attachment and the catalog that lists it.
    original = CARRIERS["pdf"]
    with pikepdf.open(io.BytesIO(original)) as document:
        root, pages = document.Root.objgen[0], document.Root.Pages.objgen[0]
    archive = ARCHIVES["zip"]
    objects = {
        root: b"<</Type/Catalog/Pages %d 0 R/Names<</EmbeddedFiles<</Names[(a)<</Type/Filespec/F(a)"
        b"/EF<</F 90 0 R>>>>]>>>>>>" % pages,
        90: b"<</Type/EmbeddedFile/Length %d>>\nstream\n%b\nendstream" % (len(archive), archive),
    }
    body, table = original + b"\n", b"xref\n"
    for number, value in objects.items():
        table += b"%d 1\n%010d 00000 n \n" % (number, len(body))
        body += b"%d 0 obj\n%b\nendobj\n" % (number, value)
    before = original.rsplit(b"startxref", 1)[1].split()[0]
    trailer = b"trailer\n<</Size 91/Root %d 0 R/Prev %b>>\n" % (root, before)
    data = body + table + trailer + b"startxref\n%d\n%%%%EOF\n" % len(body)
    assert report_of(data, "pdf").finding is None
    # The same bytes, but the update lists something else.
    assert is_polyglot(data.replace(b"/EF<</F 90 0 R", b"/EX<</F 90 0 R"), "pdf")


@pytest.mark.asvs("5.2.2")
@each_row("archive", ARCHIVES)
def test_stream_that_only_claims_to_be_an_attachment_is_found(archive: str) -> None:
    data = second_formats.with_stream(ARCHIVES[archive], Type=pikepdf.Name("/EmbeddedFile"))
    assert b"/EmbeddedFile" in data
    assert is_polyglot(data, "pdf")


def test_attachment_does_not_excuse_an_archive_beside_it() -> None:
    archive = ARCHIVES["zip"]
    assert is_polyglot(second_formats.with_attachment(archive) + archive, "pdf")


def test_archive_that_reaches_out_of_an_attachment_is_found() -> None:
    # The attachment holds the directory, another stream the member.
    archive = ARCHIVES["zip"]
    cut = archive.index(b"PK\x01\x02")
    document = pikepdf.open(io.BytesIO(second_formats.with_stream(archive[:cut] + b"\n" * 50)))
    second_formats.attach(document, archive[cut:])
    data = second_formats.saved(document)
    member, end = data.index(b"PK\x03\x04"), data.rindex(b"PK\x05\x06")
    directory = data.index(b"PK\x01\x02")
    data = data[: directory + 42] + struct.pack("<L", member) + data[directory + 46 :]
    data = data[: end + 16] + struct.pack("<L", directory) + data[end + 20 :]
    assert is_polyglot(data, "pdf")


@each_row(
    "ordinary",
    [
        b"<?xpacket begin='' id='W5M0'?><x:xmpmeta xmlns:x='adobe:ns:meta/'/><?xpacket end='w'?>",
        b"<?xml version='1.0' encoding='UTF-8'?><svg/>",
        b"<?AID 001b?><?aid style='50' type='snippet'?>",
        b"<rdf:li xml:lang='x-default'>a &lt;html&gt; page, a <b> tag, 3 <? 4, 5 <?= 6 and 7 <% 8</rdf:li>",
        b"<scripting> <htmlish> <phpx> <?phpx <? php",
        b"<?mso-application progid='Word.Document'?><?aid a(b)='c'?><?if a?><?a: b?><?$?>",
        b"PK\x05\x06" + bytes(18),
        b"Rar!\x1a\x07\0" * 9,
        b"7z\xbc\xaf\x27\x1c" * 9,
        b"MSCF" * 20,
    ],
)
@each_row("extension", INSIDE)
def test_bytes_that_resemble_a_second_format_are_let_in(extension: str, ordinary: bytes) -> None:
    assert report_of(inside(extension, ordinary), extension).finding is None


def test_source_code_and_pages_in_texts_are_let_in() -> None:
    for extension in ("txt", "md", "csv", "html", "json"):
        text = b"a text\n" + PHP + PAGE if extension != "json" else b'["<?php system(1); ?>"]'
        assert report_of(text, extension).finding is None


def test_noise_is_never_a_script_or_an_archive() -> None:
    # Random bytes stand for packed data, letters of base 85 for the streams of a PDF.
    noise = random.Random(5).randbytes(amount("NOISE_MIB", short=1, full=4) * 1024**2)
    letters = base64.a85encode(noise, wrapcol=72)
    assert not list(ActiveContentFinder(text_like=False).find(noise))
    assert not list(ActiveContentFinder(text_like=True).find(letters))
    # Neighbouring samples of pictures and recordings differ by little.
    samples = bytearray(b"<")
    for step in noise[: 1024**2]:
        samples.append(min(0x7A, max(0x20, samples[-1] + step % 11 - 5)))
    assert not list(ActiveContentFinder(text_like=False).find(bytes(samples)))
    for data in (noise, letters):
        assert not list(ArchiveFinder(MemorySource(bytearray(data))).find(data, 0))


FLOODS: dict[str, Callable[[int], bytes]] = {
    "end records": lambda n: (b"PK\x05\x06" + bytes(14) + struct.pack("<L", 4)) * n,
    "directories": lambda n: (
        struct.pack("<4s24x5H12xL", b"PK\x01\x02", 0, 0, 0, 0, 0, 0xFFFFFFF) * n
        + (b"PK\x05\x06" + bytes(8) + struct.pack("<2LH", n * 46, 0, 0)) * n
    ),
    "RAR": lambda n: b"Rar!\x1a\x07\x01\0" * 3 * n,
    "cabinets": lambda n: (b"MSCF" + b"\1\0\0\0" * 8) * n,
    "short tags": lambda n: b"<?=a(a" * 9 * n,
    "spaced tags": lambda n: (b"<?ab" + b" " * 40) * n,
    "comments in comments": lambda n: b"<?/*<?//" * 6 * n,
    "line comments": lambda n: b"<?#" * 15 * n,
    "statements": lambda n: b"<?$a='b" * 6 * n,
    "variables": lambda n: b"<?$a (" * 6 * n,
    "comments": lambda n: b"<?=/*" * 9 * n,
    "calls": lambda n: b"<?=$a[a(" * 6 * n,
    "server pages": lambda n: b"<%=new " * 6 * n,
    "strings of server pages": lambda n: (b'<%a"' + b'\\"' * 1900 + b"%>") * (n // 200),
    "comments of server pages": lambda n: (b"<%a" + b"/*" * 1900 + b"%>") * (n // 200),
    "declarations of server pages": lambda n: (b"<%!" + b"a" * 9) * 4 * n,
    "commands": lambda n: b"<?=a`a" * 8 * n,
    "casts": lambda n: b"<?=(int)(int)" * 4 * n,
    "texts of several lines": lambda n: b"<?=<<<a" * 7 * n,
    "pages": lambda n: b"<html>" * 8 * n,
    "php": lambda n: b"<?php" * 9 * n,
}


@each_row("flood", FLOODS)
def test_time_grows_as_the_file_does(flood: str) -> None:
    def search(size: int) -> None:
        data = FLOODS[flood](size)
        list(ArchiveFinder(MemorySource(bytearray(data))).find(data, 0))
        for text_like in (False, True):
            list(ActiveContentFinder(text_like=text_like).find(data))

    assert_linear(search, amount("FLOOD", short=300, full=2_000))


def test_no_words_before_a_script_hide_it() -> None:
    for extension, words, script in product(INSIDE, WORDS, (PHP, PAGE)):
        assert is_polyglot(inside(extension, words + script), extension), (extension, words, script)


def test_a_whole_file_of_noise_is_ok_as_unknown() -> None:
    assert report_of(os.urandom(300_000), "bin").outcome is Outcome.OK
