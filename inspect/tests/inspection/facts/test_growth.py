"""The time of measuring facts grows as the file does, and measuring ends for any bytes."""

import gzip
import io
import random
from collections.abc import Callable, Mapping
from functools import partial

import pytest

from sluice_inspect import inspect_file
from sluice_inspect.facts.measure import measure_facts
from sluice_inspect.format import Format
from sluice_inspect.formats import docx, xlsx
from sluice_inspect.formats.opendocument.format import ODS, ODT
from sluice_inspect.registry import FORMATS, format_named
from sluice_inspect.report import Limits, Outcome, Report
from sluice_inspect.subject import Subject
from tests.inspection.formats.examining import source_of
from tests.inspection.formats.office_packages import package_of, parts_of
from tests.inspection.formats.pdf_samples import pdf, stream, text
from tests.inspection.growth import assert_linear
from tests.rows import each_row, every_row
from tests.run_length import amount

SIZE = amount("FACTS_BYTES", short=30_000, full=200_000)
MOST_GROWTH = 6.0
MOST_SECONDS = SIZE / 100_000
CAPPED = {"forms that share their packets": 2.0}  # what is read of them has a limit of its own


def measure_one(format_name: str, inputs: Mapping[int, bytes], size: int) -> None:
    with source_of(inputs[size]) as source:
        subject = Subject(source, format_name, "", format_name, Limits(), Outcome.CORRUPT, {})
        measure_facts(format_named(format_name), subject)


Make = Callable[[int], bytes]


def repeated(unit: bytes, head: bytes = b"", tail: bytes = b"") -> Make:
    return lambda size: head + unit * (size // len(unit)) + tail


def in_part(format_: Format, part: str, unit: bytes, head: bytes = b"", tail: bytes = b"") -> Make:
    """Return what makes a package whose part has the repeated unit as its content."""
    content = repeated(unit, head, tail)
    return lambda size: package_of(parts_of(format_.sample()) | {part: content(size)})


def of_objects(each_bytes: int, make: Callable[[int], str]) -> Make:
    """Return what makes a PDF with as many of these objects as its size has room for."""
    return lambda size: pdf(text("a"), objects={100 + at: make(at) for at in range(size // each_bytes)})


def in_form(unit: bytes, head: bytes = b"") -> Make:
    make = repeated(unit, head)
    return lambda size: pdf(text("a"), catalog="/AcroForm<</XFA 100 0 R>>", objects={100: stream(make(size))})


def entities(size: int) -> bytes:
    return b"".join(b'<!ENTITY a%d "&a%d;&a%d;">' % (at, at + 1, at + 1) for at in range(size // 30)) + b"&a0;" * 9


def forms_that_share_their_packets(size: int) -> bytes:
    forms = {100 + at: f"<</XFA[{'99 0 R ' * (at % 50)}(a)]>>" for at in range(size // 200)}
    return pdf(text("a"), objects={99: stream(b"<" * size), **forms})


SVG = b'<svg xmlns="http://www.w3.org/2000/svg">'
HOSTILE: dict[str, tuple[str, Make]] = {
    "cells that begin as formulas": ("csv", repeated(b"|=a,=b|=c")),
    "cells of white space": ("csv", repeated(b"\n \"'")),
    "calls without an end": ("csv", repeated(b",=" + b"a" * 498)),
    "pages of handlers": ("html", repeated(b" onaaaaaaaaaaaaaaaaaaaa")),
    "addresses of nothing": ("html", repeated(b"=          ")),
    "references to characters": ("html", repeated(b"=&#9;j&#x0a;&Tab;")),
    "references without an end": ("html", lambda size: b"&#" + b"0" * (size // 2) + b"&#x" + b"f" * (size // 2)),
    "pages in attributes": ("html", repeated(b" srcdoc='<iframe srcdoc=\"")),
    "pages in attributes without an end": ("html", repeated(b" srcdoc=<a")),
    "links of a page": ("html", repeated(b"<link rel=rel=")),
    "redirections of a page": ("html", repeated(b"<meta refresh url=")),
    "line ends in addresses": ("html", repeated(b"a\n\n\na-")),
    "styles of a page": ("html", repeated(b"@import url(   ")),
    "pictures of a page": ("html", repeated(b" srcset=a,a")),
    "prefixes of a page": ("html", repeated(b"<image ")),
    "entities of a page": ("html", entities),
    "open entities of a page": ("html", repeated(b'<!ENTITY a "')),
    "styles of a drawing": ("svg", repeated(b"<style>url( url(</style>", SVG, b"</svg>")),
    "groups without an end": ("rtf", repeated(b"{\\fldinst ", b"{\\rtf1")),
    "empty groups": ("rtf", repeated(b"{\\objemb}", b"{\\rtf1")),
    "characters in Unicode in fields": ("rtf", repeated(b"{\\fldinst\\u68 ?\\par}", b"{\\rtf1")),
    "starred groups in fields": ("rtf", repeated(b"{\\fldinst{\\*\\a}{\\*\\b}{\\*\\c}}", b"{\\rtf1")),
    "binary data in a field": ("rtf", repeated(b"{\\fldinst\\bin1 x", b"{\\rtf1")),
    "nested templates": ("rtf", repeated(b"\\template\\template ", b"{\\rtf1{")),
    "fields without an end": ("docx", in_part(docx.FORMAT, "word/document.xml", b"<w:instrText ")),
    "simple fields without an end": ("docx", in_part(docx.FORMAT, "word/document.xml", b"<w:fldSimple a")),
    "fields of several pieces": ("docx", in_part(docx.FORMAT, "word/document.xml", b"<w:fldChar/><w:instrText>LINK")),
    "formulas": ("xlsx", in_part(xlsx.FORMAT, "xl/sheet1.xml", b"<f>IMAGE'|\"</f>", b"<r>", b"</r>")),
    "quoted formulas": ("xlsx", in_part(xlsx.FORMAT, "xl/sheet1.xml", b"a'|'\"", b"<r><f>IMAGE", b"</f></r>")),
    "formulas of tables": ("odt", in_part(ODT, "content.xml", b"formula='")),
    "addresses of blanks": ("odt", in_part(ODT, "content.xml", b"href   ")),
    "tables": ("ods", in_part(ODS, "content.xml", b"<aaaa:")),
    "links": ("xlsx", in_part(xlsx.FORMAT, "xl/_rels/a.xml.rels", b"<TargetMode ")),
    "actions": ("pdf", of_objects(200, lambda _at: "<</S/Launch/JS(x)/A[<</EF 1>>]>>")),
    "actions that start by themselves": (
        "pdf",
        of_objects(
            120, lambda at: f"<</AA<</O 100 0 R/C {100 + at} 0 R>>/OpenAction<</S/URI/URI(//a)/Next {101 + at} 0 R>>>>"
        ),
    ),
    "nested actions": ("pdf", of_objects(3200, lambda _at: "<</AA<</O" * 240 + ">>>>" * 240)),
    "forms that share their packets": ("pdf", forms_that_share_their_packets),
    "tags of a form": ("pdf", in_form(b"<a b='", b"<base>")),
    "addresses of a form": ("pdf", in_form(b"<uri><base>a</uri>")),
    "attributes of a form": ("pdf", in_form(b"a" * 199 + b" document('", b"<a =")),
    "declarations of a form": ("pdf", in_form(b"<!ENTITY a PUBLIC 'a' ")),
    "header fields": ("eml", repeated(b"name: attachment\r\n")),
    "drawings": ("svg", repeated(b"<a on='x'/>", b"<svg>", b"</svg>")),
}


@pytest.mark.parametrize("format_name", sorted({format_name for format_name, _ in HOSTILE.values()}))
def test_time_of_measuring_grows_as_the_file_does(format_name: str) -> None:
    with every_row() as row:
        for name, (of, make) in HOSTILE.items():
            if of == format_name:
                with row(name):
                    inputs = {size: make(size) for size in (SIZE // 4, SIZE)}
                    walk = partial(measure_one, format_name, inputs)
                    assert_linear(walk, SIZE, most=MOST_GROWTH, within=CAPPED.get(name, MOST_SECONDS))


@each_row("format_", [each for each in FORMATS if not each.missing_reader], ids=lambda each: each.name)
def test_damaged_file_has_a_report_that_passes_the_boundary(format_: Format) -> None:
    sample, name = format_.sample(), min(format_.extensions)
    chance = random.Random(format_.name)
    for _ in range(12):
        data = bytearray(sample)
        for _ in range(chance.randint(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        cut = bytes(data[: chance.randint(1, len(data))]) if chance.random() < 0.3 else bytes(data)
        report = inspect_file(io.BytesIO(cut), filename=f"a.{name}")
        assert Report.from_json(report.to_json()).facts == report.facts
        assert isinstance(report.facts["flags_complete"], bool)


def test_packed_samples_have_reports_that_pass_the_boundary() -> None:
    report = inspect_file(io.BytesIO(gzip.compress(docx.FORMAT.sample())), filename="a.gz")
    assert Report.from_json(report.to_json()) == report
