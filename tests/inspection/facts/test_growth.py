"""The time of measuring facts grows as the file does, and measuring ends for any bytes."""

import gzip
import io
import random
from collections.abc import Callable

import pytest

from sluice_inspect import inspect_file
from sluice_inspect.facts.measure import measure_facts
from sluice_inspect.facts.subject import Subject
from sluice_inspect.formats import docx, xlsx
from sluice_inspect.formats.opendocument.format import ODS, ODT
from sluice_inspect.registry import FORMATS
from sluice_inspect.report import Limits, Outcome, Report
from tests.inspection.formats.examining import source_of
from tests.inspection.formats.office_packages import package_of, parts_of
from tests.inspection.formats.pdf_samples import pdf, stream, text
from tests.inspection.growth import MOST_GROWTH, growth, seconds_of
from tests.rows import each_row, every_row

SIZE = 200_000


def seconds(format_name: str, data: bytes) -> float:
    with source_of(data) as source:
        subject = Subject(source, format_name, "", format_name, Limits(), Outcome.CORRUPT, {})
        return seconds_of(lambda _size: measure_facts(subject, None), len(data))


def document(part: str, content: bytes, sample: Callable[[], bytes]) -> bytes:
    return package_of(parts_of(sample()) | {part: content})


HOSTILE: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "cells that begin as formulas": ("csv", lambda n: b"|=a,=b|=c" * (n // 8)),
    "cells of white space": ("csv", lambda n: b"\n \"'" * (n // 4)),
    "calls without an end": ("csv", lambda n: (b"," + b"=" + b"a" * 498) * (n // 500)),
    "pages of handlers": ("html", lambda n: b" onaaaaaaaaaaaaaaaaaaaa" * (n // 23)),
    "addresses of nothing": ("html", lambda n: b"=          " * (n // 11)),
    "references to characters": ("html", lambda n: b"=&#9;j&#x0a;&Tab;" * (n // 16)),
    "references without an end": ("html", lambda n: b"&#" + b"0" * (n // 2) + b"&#x" + b"f" * (n // 2)),
    "pages in attributes": ("html", lambda n: b" srcdoc='<iframe srcdoc=\"" * (n // 25)),
    "pages in attributes without an end": ("html", lambda n: b" srcdoc=<a" * (n // 10)),
    "links of a page": ("html", lambda n: b"<link rel=rel=" * (n // 14)),
    "redirections of a page": ("html", lambda n: b"<meta refresh url=" * (n // 18)),
    "line ends in addresses": ("html", lambda n: b"a\n\n\na-" * (n // 6)),
    "styles of a page": ("html", lambda n: b"@import url(   " * (n // 15)),
    "pictures of a page": ("html", lambda n: b" srcset=a,a" * (n // 11)),
    "prefixes of a page": ("html", lambda n: b"<image " * (n // 7)),
    "entities of a page": (
        "html",
        lambda n: b"".join(b'<!ENTITY a%d "&a%d;&a%d;">' % (i, i + 1, i + 1) for i in range(n // 30)) + b"&a0;" * 9,
    ),
    "open entities of a page": ("html", lambda n: b'<!ENTITY a "' * (n // 12)),
    "styles of a drawing": (
        "svg",
        lambda n: b'<svg xmlns="http://www.w3.org/2000/svg">' + b"<style>url( url(</style>" * (n // 24) + b"</svg>",
    ),
    "groups without an end": ("rtf", lambda n: b"{\\rtf1" + b"{\\fldinst " * (n // 10)),
    "empty groups": ("rtf", lambda n: b"{\\rtf1" + b"{\\objemb}" * (n // 9)),
    "nested templates": ("rtf", lambda n: b"{\\rtf1{" + b"\\template\\template " * (n // 19)),
    "fields without an end": (
        "docx",
        lambda n: document("word/document.xml", b"<w:instrText " * (n // 13), docx.FORMAT.sample),
    ),
    "simple fields without an end": (
        "docx",
        lambda n: document("word/document.xml", b"<w:fldSimple a" * (n // 14), docx.FORMAT.sample),
    ),
    "fields of several pieces": (
        "docx",
        lambda n: document("word/document.xml", b"<w:fldChar/><w:instrText>LINK" * (n // 29), docx.FORMAT.sample),
    ),
    "formulas": (
        "xlsx",
        lambda n: document("xl/sheet1.xml", b"<r>" + b"<f>IMAGE'|\"</f>" * (n // 16) + b"</r>", xlsx.FORMAT.sample),
    ),
    "quoted formulas": (
        "xlsx",
        lambda n: document("xl/sheet1.xml", b"<r><f>IMAGE" + b"a'|'\"" * (n // 5) + b"</f></r>", xlsx.FORMAT.sample),
    ),
    "formulas of tables": ("odt", lambda n: document("content.xml", b"formula='" * (n // 9), ODT.sample)),
    "addresses of blanks": ("odt", lambda n: document("content.xml", b"href   " * (n // 7), ODT.sample)),
    "tables": ("ods", lambda n: document("content.xml", b"<aaaa:" * (n // 6), ODS.sample)),
    "links": ("xlsx", lambda n: document("xl/_rels/a.xml.rels", b"<TargetMode " * (n // 12), xlsx.FORMAT.sample)),
    "actions": (
        "pdf",
        lambda n: pdf(text("a"), objects={100 + i: "<</S/Launch/JS(x)/A[<</EF 1>>]>>" for i in range(n // 200)}),
    ),
    "actions that start by themselves": (
        "pdf",
        lambda n: pdf(
            text("a"),
            objects={
                100 + i: f"<</AA<</O 100 0 R/C {100 + i} 0 R>>/OpenAction<</S/URI/URI(//a)/Next {101 + i} 0 R>>>>"
                for i in range(n // 120)
            },
        ),
    ),
    "nested actions": (
        "pdf",
        lambda n: pdf(text("a"), objects={100 + i: "<</AA<</O" * 240 + ">>>>" * 240 for i in range(n // 3200)}),
    ),
    "forms that share their packets": (
        "pdf",
        lambda n: pdf(
            text("a"),
            objects={99: stream(b"<" * n)} | {100 + i: f"<</XFA[{'99 0 R ' * (i % 50)}(a)]>>" for i in range(n // 200)},
        ),
    ),
    "header fields": ("eml", lambda n: b"name: attachment\r\n" * (n // 18)),
    "drawings": ("svg", lambda n: b"<svg>" + b"<a on='x'/>" * (n // 11) + b"</svg>"),
}


@pytest.mark.parametrize("format_name", sorted({format_name for format_name, _ in HOSTILE.values()}))
def test_time_of_measuring_grows_as_the_file_does(format_name: str) -> None:
    with every_row() as row:
        for name, (of, make) in HOSTILE.items():
            if of == format_name:
                with row(name):
                    assert growth(lambda size, make=make: seconds(format_name, make(size)), SIZE) <= MOST_GROWTH


@each_row("format_", [each for each in FORMATS if not each.missing_reader], ids=lambda each: each.name)
def test_damaged_file_has_a_report_that_passes_the_boundary(format_: object) -> None:
    sample, name = format_.sample(), min(format_.extensions)  # type: ignore[attr-defined]
    chance = random.Random(format_.name)  # type: ignore[attr-defined]
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
