"""DOCX, PPTX and XLSX: what is blank and what is content. The samples are made when a test runs: their libraries are slow."""

import io
from importlib import import_module
from types import ModuleType

import pytest

from sluice_inspect.format import Format
from sluice_inspect.registry import format_of
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.office_packages import with_part_changed
from tests.rows import each_row, every_row

EXTENSIONS = ("docx", "pptx", "xlsx")


def samples(extension: str) -> ModuleType:
    return import_module(f"tests.inspection.formats.{extension}_samples")


def office_format(extension: str) -> Format:
    format_ = format_of(extension)
    assert format_ is not None
    return format_


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_document_without_visible_content_is_blank(extension: str) -> None:
    with every_row() as row:
        for name, data in samples(extension).blank().items():
            result = examine_bytes(office_format(extension), data)
            with row(name):
                assert result.passes
                assert result.blank


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_document_with_visible_content_is_not_blank(extension: str) -> None:
    with every_row() as row:
        for name, data in samples(extension).content().items():
            result = examine_bytes(office_format(extension), data)
            with row(name):
                assert result.passes
                assert result.blank is None


def test_content_after_many_empty_paragraphs_is_not_blank() -> None:
    import docx  # noqa: PLC0415  (slow to import)

    opened = docx.Document()
    for _ in range(500):
        opened.add_paragraph(" ")
    opened.add_paragraph("x")
    opened.save(file := io.BytesIO())
    assert examine_bytes(office_format("docx"), file.getvalue()).blank is None


@each_row(
    "content_type",
    [
        "application/vnd.ms-word.document.macroEnabled.main+xml",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.template.main+xml",
        "application/vnd.ms-word.template.macroEnabledTemplate.main+xml",
    ],
)
def test_templates_and_macro_documents_are_accepted(content_type: str) -> None:
    plain = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    data = with_part_changed(samples("docx").run("x"), "[Content_Types].xml", plain, content_type)
    assert examine_bytes(office_format("docx"), data).passes


def test_blank_reason_of_a_workbook_names_headings() -> None:
    headings = samples("xlsx").blank()["headings alone"]
    assert "headings" in (examine_bytes(office_format("xlsx"), headings).blank or "")
