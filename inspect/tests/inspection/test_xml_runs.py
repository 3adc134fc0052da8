"""Documents of millions of the same empty element take about as long as to read their bytes."""

import io
import time

import pytest

from sluice_inspect.format import Format
from sluice_inspect.formats import docx, pptx, xlsx
from sluice_inspect.formats.opendocument.format import ODP, ODT
from sluice_inspect.inspection import inspect_file, preload
from sluice_inspect.report import Outcome
from sluice_inspect.text.xml_runs import WithoutRuns, without_runs
from tests.inspection.formats.office_packages import package_of, parts_of
from tests.inspection.growth import slowness
from tests.rows import each_row

COUNT = 300_000
SECONDS = 0.5  # to call back for each element takes 1 to 3
# Format, part, what is behind the beginning of it, and the element.
DOCUMENTS: dict[str, tuple[Format, str, bytes, bytes]] = {
    "paragraphs": (docx.FORMAT, "word/document.xml", b"<w:body>", b"<w:p/>"),
    "cells": (xlsx.FORMAT, "xl/sheet1.xml", b'<row r="1">', b'<c s="1"/>'),
    "rows": (xlsx.FORMAT, "xl/sheet1.xml", b"<sheetData>", b'<row s="1" />'),
    "shapes": (pptx.FORMAT, "ppt/slide1.xml", b"<p:spTree>", b"<p:nvGrpSpPr/>"),
    "text": (ODT, "content.xml", b"<office:text>", b"<text:p/>"),
    "pages": (ODP, "content.xml", b"<office:presentation>", b"<draw:page/>"),
}


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    preload()


def with_run(name: str, count: int) -> bytes:
    format_, part, place, element = DOCUMENTS[name]
    parts = parts_of(format_.sample())
    assert place in parts[part]
    return package_of(parts | {part: parts[part].replace(place, place + element * count, 1)})


@each_row("name", sorted(DOCUMENTS))
def test_time_of_a_run_of_empty_elements_is_that_of_its_bytes(name: str) -> None:
    format_, *_ = DOCUMENTS[name]
    data = with_run(name, COUNT)
    began = time.process_time()
    report = inspect_file(io.BytesIO(data), filename=f"a.{format_.name}")
    assert time.process_time() - began < SECONDS * slowness()
    few = inspect_file(io.BytesIO(with_run(name, 1)), filename=f"a.{format_.name}")
    assert (report.outcome, report.flags) == (few.outcome, few.flags)


@each_row(
    ("document", "kept"),
    [
        (b"<a>" + b"<b/>" * 1000 + b"</a>", b"<a><b/><b/></a>"),
        (b"<b/>" * 15, b"<b/>" * 15),
        (b'<b c="d/?!" />' * 16 + b"<b/>", b'<b c="d/?!" />' * 2 + b"<b/>"),
        (b"<b/>" * 20 + b"x" + b"<c/>" * 20, b"<b/><b/>x<c/><c/>"),
        (b"<b></b>" * 20, b"<b></b>" * 20),
        (b"<b>/>" * 20, b"<b>/>" * 20),
    ],
)
def test_two_elements_of_a_run_stay(document: bytes, kept: bytes) -> None:
    assert without_runs(document) == kept


def test_run_over_several_readings_is_shortened_in_each() -> None:
    stream = WithoutRuns(io.BytesIO(b"<a>" + b"<b/>" * 1_000_000 + b"</a>").read)
    read = b"".join(iter(lambda: stream.read(7), b""))
    assert read.startswith(b"<a><b/>")
    assert read.endswith(b"<b/></a>")
    assert len(read) < 1000


def test_damage_around_a_run_is_found() -> None:
    parts = parts_of(docx.FORMAT.sample())
    run = b"<w:body>" + b"<w:p/>" * COUNT
    for damage in (b"<w:p>", b"</w:p>", b"&", b'<w:p w:a="1" w:a="2"/>' * 20, b'<?xml version="1.0"?>'):
        part = parts["word/document.xml"].replace(b"<w:body>", run + damage)
        data = package_of(parts | {"word/document.xml": part})
        assert inspect_file(io.BytesIO(data), filename="a.docx").outcome is Outcome.CORRUPT, damage
