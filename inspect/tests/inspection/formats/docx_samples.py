"""DOCX files without and with visible content, made by python-docx."""

import io
from collections.abc import Callable
from functools import cache

import docx
from docx.document import Document
from docx.enum.text import WD_BREAK
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from docx.shared import RGBColor

from tests.inspection.formats.office_packages import picture

Edit = Callable[[Document], object]


def document(edit: Edit | None = None) -> bytes:
    opened = docx.Document()
    if edit is not None:
        edit(opened)
    file = io.BytesIO()
    opened.save(file)
    return file.getvalue()


def with_body(xml: str) -> bytes:
    return document(lambda opened: opened.element.body.insert(0, parse_xml(xml)))


def run(text: str, *, hidden: bool = False, colour: str = "") -> bytes:
    def edit(opened: Document) -> None:
        added = opened.add_paragraph().add_run(text)
        added.font.hidden = hidden or None
        if colour:
            added.font.color.rgb = RGBColor.from_string(colour)

    return document(edit)


def table(style: str | None = None, borders: str = "") -> bytes:
    def edit(opened: Document) -> None:
        added = opened.add_table(2, 2)
        if style:
            added.style = style
        if borders:
            added._tbl.tblPr.append(parse_xml(f"<w:tblBorders {nsdecls('w')}>{borders}</w:tblBorders>"))

    return document(edit)


def note(part: str, text: str) -> bytes:
    relationship_types = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    xml = f"<w:{part} {nsdecls('w')}><w:note><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:note></w:{part}>"

    def edit(opened: Document) -> None:
        from docx.opc.packuri import PackURI  # noqa: PLC0415  (a rare corner of the library)
        from docx.opc.part import Part  # noqa: PLC0415

        content_type = f"application/vnd.openxmlformats-officedocument.wordprocessingml.{part}+xml"
        added = Part(PackURI(f"/word/{part}.xml"), content_type, xml.encode(), opened.part.package)
        opened.part.relate_to(added, f"{relationship_types}/{part}")

    return document(edit)


W = nsdecls("w")
SHAPE = (
    f'<w:p {W} xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" {nsdecls("a")}>'
    "<w:r><w:drawing><wps:wsp><wps:spPr>{}</wps:spPr></wps:wsp></w:drawing></w:r></w:p>"
)
VML = f'<w:p {W} xmlns:v="urn:schemas-microsoft-com:vml"><w:r><w:pict>{{}}</w:pict></w:r></w:p>'
FIELD = (
    f'<w:p {W}><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText xml:space="preserve"> {{}}</w:instrText></w:r>'
    '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>'
)


@cache
def blank() -> dict[str, bytes]:
    return {
        "new document": document(),
        "empty paragraphs": document(lambda opened: [opened.add_paragraph() for _ in range(20)]),
        "page breaks": document(
            lambda opened: [opened.add_paragraph().add_run().add_break(WD_BREAK.PAGE) for _ in range(3)]
        ),
        "white space characters": run("\u00a0\u200b\u2003\ufeff\u2060\t "),
        "hidden text": run("secret", hidden=True),
        "white text": run("secret", colour="FFFFFF"),
        "text in the header": document(lambda opened: opened.sections[0].header.paragraphs[0].add_run("ACME")),
        "table without lines": table(),
        "table with lines set to none": table(borders='<w:top w:val="nil"/><w:left w:val="none"/>'),
        "white picture": document(lambda opened: opened.add_picture(picture(shows=False))),
        "tracking dot": document(lambda opened: opened.add_picture(picture(shows=False, colour="black", side=1))),
        "prompt": with_body(
            f"<w:sdt {W}><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent><w:p><w:r><w:t>Click</w:t></w:r></w:p></w:sdtContent></w:sdt>"
        ),
        "field code": with_body(f"<w:p {W}><w:r><w:instrText>PAGE</w:instrText></w:r></w:p>"),
        "index entry": with_body(FIELD.format('TC "secret"')),
        "link without text": with_body(FIELD.format("HYPERLINK &quot;x&quot;")),
        "numbering removed": with_body(f'<w:p {W}><w:pPr><w:numPr><w:numId w:val="0"/></w:numPr></w:pPr></w:p>'),
        "empty note": note("footnotes", ""),
        "text box without text": with_body(SHAPE.format("<a:noFill/><a:ln><a:noFill/></a:ln>")),
        "vml without line and fill": with_body(VML.format('<v:rect stroked="f" filled="false"/>')),
        "vml with fill element switched off": with_body(
            VML.format('<v:shape stroked="f"><v:fill on="false"/><v:stroke color="red"/></v:shape>')
        ),
        "white cell": with_body(
            f'<w:tbl {W}><w:tr><w:tc><w:tcPr><w:shd w:val="clear" w:fill="FFFFFF"/></w:tcPr><w:p/></w:tc></w:tr></w:tbl>'
        ),
    }


@cache
def content() -> dict[str, bytes]:
    return {
        "a full stop": run("."),
        "a private character": run("\uf0fc"),
        "coloured text": run("x", colour="FEFEFE"),
        "white text on a shade": with_body(
            f'<w:p {W}><w:pPr><w:shd w:val="clear" w:fill="000000"/></w:pPr><w:r><w:rPr><w:color w:val="FFFFFF"/></w:rPr><w:t>x</w:t></w:r></w:p>'
        ),
        "text after a prompt": with_body(
            f"<w:p {W}><w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent><w:r><w:t>Click</w:t></w:r></w:sdtContent></w:sdt><w:r><w:t>x</w:t></w:r></w:p>"
        ),
        "picture": document(lambda opened: opened.add_picture(picture(shows=True))),
        "red square": document(lambda opened: opened.add_picture(picture(shows=False, colour="red", side=40))),
        "table in a style": table(style="Table Grid"),
        "table with lines": table(borders='<w:top w:val="single"/>'),
        "text in a table": document(lambda opened: opened.add_table(1, 1).cell(0, 0).add_paragraph("7")),
        "symbol": with_body(f'<w:p {W}><w:r><w:sym w:font="Wingdings" w:char="F0FC"/></w:r></w:p>'),
        "field without a kept result": with_body(FIELD.format("PAGE \\* MERGEFORMAT")),
        "simple field": with_body(f'<w:p {W}><w:fldSimple w:instr="MERGEFIELD Name"/></w:p>'),
        "number of an empty paragraph": with_body(
            f'<w:p {W}><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="2"/></w:numPr></w:pPr></w:p>'
        ),
        "footnote": note("footnotes", "see page 3"),
        "comment": note("comments", "please check"),
        "deleted text": with_body(f"<w:p {W}><w:del><w:r><w:delText>x</w:delText></w:r></w:del></w:p>"),
        "formula": with_body(
            f'<w:p {W} xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"><m:oMath><m:r><m:t>x</m:t></m:r></m:oMath></w:p>'
        ),
        "filled shape": with_body(SHAPE.format('<a:solidFill><a:srgbClr val="FF0000"/></a:solidFill>')),
        "lined shape": with_body(
            SHAPE.format('<a:noFill/><a:ln><a:solidFill><a:srgbClr val="FF0000"/></a:solidFill></a:ln>')
        ),
        "chart": with_body(
            f'<w:p {W} xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"><w:r><w:drawing><c:chart/></w:drawing></w:r></w:p>'
        ),
        "coloured cell": with_body(
            f'<w:tbl {W}><w:tr><w:tc><w:tcPr><w:shd w:val="clear" w:fill="FFFF00"/></w:tcPr><w:p/></w:tc></w:tr></w:tbl>'
        ),
        "hatched paragraph": with_body(f'<w:p {W}><w:pPr><w:shd w:val="pct50" w:fill="auto"/></w:pPr></w:p>'),
        "vml with a fill": with_body(VML.format('<v:shape stroked="f"><v:fill on="t"/></v:shape>')),
        "vml line": with_body(VML.format("<v:line/>")),
        "check box": with_body(f"<w:p {W}><w:r><w:fldChar><w:ffData><w:checkBox/></w:ffData></w:fldChar></w:r></w:p>"),
        "paragraph border": with_body(f'<w:p {W}><w:pPr><w:pBdr><w:bottom w:val="single"/></w:pBdr></w:pPr></w:p>'),
    }
