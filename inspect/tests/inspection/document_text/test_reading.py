"""The text of whole documents, beyond what a preview shows of them."""

import io

import docx
import openpyxl
import pikepdf
import pptx
import pytest
from docx.opc.packuri import PackURI as DocxUri
from docx.opc.part import Part as DocxPart
from pikepdf import Name
from pptx.opc.package import Part as SlidesPart
from pptx.opc.packuri import PackURI as SlidesUri

from sluice_inspect.document_text.extent import Extent
from sluice_inspect.document_text.matching import _EXTENT
from sluice_inspect.document_text.reading import read_text
from sluice_inspect.report import Limits, Unsupported
from sluice_inspect.source import MemoryBacked
from tests.inspection.formats.image_samples import chess_board, encoded
from tests.inspection.formats.pdf_samples import pdf, text


def read(content: bytes, name: str, extent: Extent = _EXTENT) -> str:
    with MemoryBacked(content) as source:
        return read_text(source, name, extent, Limits())


def test_every_page_of_a_pdf_up_to_the_limit_is_read() -> None:
    found = read(pdf(*(text(f"page {number}") for number in range(60))), "a.pdf")
    assert [f"page {number}" in found.splitlines() for number in (0, 49, 50)] == [True, True, False]


def test_values_in_the_fields_of_a_form_are_read() -> None:
    form = pikepdf.open(io.BytesIO(pdf(text("Invoice number"))))
    font = form.make_indirect(pikepdf.Dictionary(Type=Name.Font, Subtype=Name.Type1, BaseFont=Name.Helvetica))
    resources = pikepdf.Dictionary(Font=pikepdf.Dictionary(Helv=font))
    widget = pikepdf.Dictionary(Type=Name.Annot, Subtype=Name.Widget, FT=Name.Tx, F=4, Rect=[10, 10, 150, 40])
    widget.T, widget.V, widget.DA = pikepdf.String("no"), pikepdf.String("RE-0042"), pikepdf.String("/Helv 12 Tf 0 g")
    field = form.make_indirect(widget)
    form.pages[0].Annots = pikepdf.Array([field])
    form.Root.AcroForm = pikepdf.Dictionary(Fields=pikepdf.Array([field]), DR=resources, DA=widget.DA)
    file = io.BytesIO()
    form.save(file)
    assert read(file.getvalue(), "a.pdf").split() == ["Invoice", "number", "RE-0042"]


def test_headers_footers_and_notes_of_a_document_are_read() -> None:
    document = docx.Document()
    document.add_paragraph("A letter")
    document.sections[0].header.paragraphs[0].text = "Invoice number 7"
    document.sections[0].footer.paragraphs[0].text = "Bank account"
    file = io.BytesIO()
    document.save(file)
    found = read(file.getvalue(), "a.docx")
    assert [words in found for words in ("A letter", "Invoice number 7", "Bank account")] == [True] * 3


def test_text_of_diagrams_is_read() -> None:
    data = '<dgm:dataModel xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><dgm:ptLst><dgm:pt modelId="1"><dgm:t><a:p><a:r><a:t>Merged into</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:ptLst></dgm:dataModel>'
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/diagramData"
    content_type = "application/vnd.openxmlformats-officedocument.drawingml.diagramData+xml"
    slides, document = pptx.Presentation(), docx.Document()
    slide = slides.slides.add_slide(slides.slide_layouts[6]).part
    slide.relate_to(SlidesPart(SlidesUri("/ppt/diagrams/data1.xml"), content_type, slide.package, data.encode()), kind)
    body = document.part
    body.relate_to(DocxPart(DocxUri("/word/diagrams/data1.xml"), content_type, data.encode(), body.package), kind)
    for name, made in (("a.pptx", slides), ("a.docx", document)):
        file = io.BytesIO()
        made.save(file)
        assert read(file.getvalue(), name).split() == ["Merged", "into"], name


def test_rows_of_a_workbook_beyond_a_page_are_read_and_repeated_text_is_bounded() -> None:
    workbook = openpyxl.Workbook()
    for number in range(500):
        workbook.active.append([f"row {number}", "x" * 30_000])
    file = io.BytesIO()
    workbook.save(file)
    found = read(file.getvalue(), "a.xlsx")
    assert "row 20" in found
    assert len(found) < 1_100_000


def test_file_without_text_says_why() -> None:
    with pytest.raises(Unsupported):
        read(encoded(chess_board(), "PNG"), "a.png")
    with pytest.raises(Unsupported):
        read(bytes(range(256)) * 9, "a.bin")


def test_text_of_one_line_of_a_hundred_megabytes_is_bounded() -> None:
    assert len(read(b"word " * 20_000_000, "a.txt")) == 4_000_000
