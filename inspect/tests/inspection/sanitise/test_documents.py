"""Documents without metadata, and without active content: what is gone, and what stays."""

import io
import re
import zipfile
from collections.abc import Iterator, Mapping

import pikepdf
import pytest
from docx.document import Document
from openpyxl.comments import Comment
from openpyxl.worksheet.worksheet import Worksheet
from pptx.slide import Slide
from pptx.util import Inches

from sluice_inspect.formats import docx, eml, xlsx
from sluice_inspect.formats import zip as zip_format
from sluice_inspect.formats.doc.format import FORMAT as DOC
from sluice_inspect.formats.rtf.format import FORMAT as RTF
from sluice_inspect.office.compound import make_compound
from sluice_inspect.report import Encrypted, InspectionError, Outcome, Unsupported
from sluice_inspect.sanitise.cleaning import NotClean
from tests.inspection.formats import docx_samples, opendocument_samples, pptx_samples, xlsx_samples
from tests.inspection.formats.office_packages import package_of, parts_of
from tests.inspection.formats.pdf_samples import pdf, resaved, stream, text
from tests.inspection.sanitise.cleaned import SECRET, cleaned, hides, inspected
from tests.inspection.sanitise.test_metadata import _jpeg
from tests.rows import each_row

S = SECRET.decode()
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def _pdf(*, updated: bool = False) -> bytes:
    picture = _jpeg()
    shown = stream(
        picture,
        "/Type/XObject/Subtype/Image/Width 48/Height 32/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/DCTDecode/Metadata 102 0 R",
    )
    plain = pdf(
        text("A letter") + " q 99 0 0 99 0 0 cm /P Do Q",
        resources="/XObject<</P 100 0 R>>",
        page=f"/Annots[101 0 R]/PieceInfo<</App<</Private({S})>>>>/LastModified(D:2024)/Thumb 103 0 R",
        catalog="/Metadata 102 0 R",
        objects={
            100: shown,
            101: f"<</Type/Annot/Subtype/Text/Rect[0 0 9 9]/Contents(A remark)/T({S})/M(D:2024)>>",
            102: stream(b"<x:xmpmeta>" + SECRET, "/Type/Metadata/Subtype/XML"),
            103: stream(SECRET),
            104: f"<</Author({S})/Title({S})/CreationDate(D:20240229)/Producer({S})>>",
        },
    ).replace(b"/Root 1 0 R", b"/Root 1 0 R/Info 104 0 R")
    if not updated:
        return plain
    old = resaved(
        pdf(text("A letter"), objects={100: f"({S})"}, catalog="/Old 100 0 R"),
        object_stream_mode=pikepdf.ObjectStreamMode.disable,
    )
    start = old.rindex(b"startxref") + 10
    table = int(old[start : old.index(b"\n", start)])
    number, at = old.index(b" 0 obj\n<< /Old") - 1, len(old)
    del number
    with pikepdf.open(io.BytesIO(old)) as document:
        root = document.Root.objgen[0]
        pages = document.Root.Pages.objgen[0]
        size = int(document.trailer.Size)
    new = b"%d 0 obj\n<</Type/Catalog/Pages %d 0 R>>\nendobj\n" % (root, pages)
    xref = b"xref\n%d 1\n%010d 00000 n \ntrailer\n<</Size %d/Root %d 0 R/Prev %d>>\nstartxref\n%d\n%%%%EOF\n"
    return old + new + xref % (root, at, size, root, table, at + len(new))


def _with(package: bytes, others: Mapping[str, bytes], **changes: tuple[str, str]) -> bytes:
    """Return a package with further parts, and texts of parts put in front of others: `word_document_xml=(old, new)`."""
    parts = parts_of(package)
    for key, (old, new) in changes.items():
        name = next(name for name in parts if re.sub(r"[/.]", "_", name.replace("[", "").replace("]", "")) == key)
        content = parts[name].decode()
        assert old in content, (name, old)
        parts[name] = content.replace(old, new, 1).encode()
    return package_of(parts | dict(others))


def _relation(number: str, kind: str, target: str, *, external: bool = False) -> str:
    mode = ' TargetMode="External"' if external else ""
    return f'<Relationship Id="{number}" Type="{_OFFICE}/{kind}" Target="{target}"{mode}/></Relationships>'


def _docx() -> bytes:
    def edit(opened: Document) -> None:
        opened.core_properties.author = opened.core_properties.title = S
        opened.add_paragraph("A letter")
        opened.add_picture(io.BytesIO(_jpeg()))

    plain = docx_samples.document(edit)
    change = f'<w:p w:rsidR="00C0FFEE"><w:ins w:id="1" w:author="{S}" w:date="2024-02-29T12:00:00Z"><w:r><w:t>new</w:t></w:r></w:ins>'
    return _with(
        plain,
        {},
        word_document_xml=("<w:p>", f"{change}</w:p><w:p>"),
        docProps_app_xml=("<Pages>1</Pages>", f"<Pages>1</Pages><Company>{S}</Company>"),
    )


def _xlsx() -> bytes:
    def edit(sheet: Worksheet) -> None:
        sheet["A1"] = 42
        sheet["A1"].comment = Comment("A remark", S)

    return xlsx_samples.workbook(edit)


def _pptx() -> bytes:
    return _with(
        pptx_samples.presentation(pptx_samples.text_box("A slide")),
        {
            "ppt/commentAuthors.xml": f'<p:cmAuthorLst xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"><p:cmAuthor id="0" name="{S}" initials="{S}" lastIdx="1" clrIdx="0"/></p:cmAuthorLst>'.encode()
        },
        ppt__rels_presentation_xml_rels=("</Relationships>", _relation("rIdA", "commentAuthors", "commentAuthors.xml")),
        Content_Types_xml=(
            "</Types>",
            '<Override PartName="/ppt/commentAuthors.xml" ContentType="application/vnd.openxmlformats-officedocument.presentationml.commentAuthors+xml"/></Types>',
        ),
    )


def _odt() -> bytes:
    meta = f'<office:document-meta {opendocument_samples.NAMESPACES} xmlns:meta="urn:oasis:names:tc:opendocument:xmlns:meta:1.0"><office:meta><dc:creator>{S}</dc:creator><dc:title>{S}</dc:title><meta:document-statistic meta:page-count="3"/></office:meta></office:document-meta>'
    remark = f"<office:annotation><dc:creator>{S}</dc:creator><dc:date>2024-02-29</dc:date><text:p>A remark</text:p></office:annotation>"
    others = {"meta.xml": meta.encode(), "Thumbnails/thumbnail.png": SECRET, "Pictures/1.jpg": _jpeg()}
    return opendocument_samples.document("text", f"<text:p>{remark}A letter</text:p>", others=others)


_SVG = f"""<?xml version="1.0"?><!-- {S} --><svg xmlns="http://www.w3.org/2000/svg" xmlns:inkscape="http://www.inkscape.org/namespaces/inkscape"
 xmlns:xlink="http://www.w3.org/1999/xlink" width="40" height="40" inkscape:export-filename="{S}"><metadata>{S}</metadata>
 <inkscape:grid id="{S}"/><rect width="30" height="30" fill="navy"/><!-- {S} --></svg>""".encode()
_HTML = f'<!DOCTYPE html><html><head><meta name="author" content="{S}"><title>A page</title></head><body><!-- {S} --><p>A letter</p></body></html>'.encode()


def _told() -> Iterator[tuple[str, bytes, set[str]]]:
    picture = {"gps", "camera", "author", "dates", "comments", "xmp", "thumbnail", "other_metadata"}
    yield "a.pdf", _pdf(), picture
    yield "updated.pdf", _pdf(updated=True), {"other_metadata"}
    yield "a.docx", _docx(), picture
    yield "a.xlsx", _xlsx(), {"author", "dates"}
    yield "a.pptx", _pptx(), {"author", "dates", "comments", "other_metadata"}
    yield "a.odt", _odt(), picture
    yield "a.svg", _SVG, {"xmp", "comments", "other_metadata"}
    yield "a.html", _HTML, {"author", "comments"}


@each_row(("name", "content", "words"), _told, ids=lambda value: value if isinstance(value, str) else "")
def test_metadata_of_document_is_gone(name: str, content: bytes, words: set[str]) -> None:
    left, removed = cleaned(content, name, "metadata")
    assert removed >= words - {"thumbnail"} or removed == words
    assert not hides(_unpacked(left))
    before, after = inspected(content, name), inspected(left, name)
    assert (after.outcome, after.finding, after.format) == (Outcome.OK, None, before.format)
    assert {key: value for key, value in after.facts.items() if key == "pages"} == {
        key: value for key, value in before.facts.items() if key == "pages"
    }
    assert cleaned(left, name, "metadata") == (left, set())


def _unpacked(content: bytes) -> bytes:
    """Return the bytes with those of all parts or streams."""
    if content.startswith(b"PK"):
        return content + b"".join(parts_of(content).values())
    if content.startswith(b"%PDF"):
        with pikepdf.open(io.BytesIO(content)) as document:
            streams = [each for each in document.objects if isinstance(each, pikepdf.Stream)]
            return content + b"".join(each.read_raw_bytes() for each in streams) + str(dict(document.trailer)).encode()
    return content


def test_words_pictures_and_remarks_of_documents_stay() -> None:
    word, _removed = cleaned(_docx(), "a.docx", "metadata")
    parts = parts_of(word)
    assert b"A letter" in parts["word/document.xml"]
    assert b"new</w:t></w:ins>" in parts["word/document.xml"].replace(b"</w:r>", b"")
    assert b"<Pages>1</Pages>" in parts["docProps/app.xml"]
    sheet, _removed = cleaned(_xlsx(), "a.xlsx", "metadata")
    assert b"A remark" in _unpacked(sheet)
    with pikepdf.open(io.BytesIO(cleaned(_pdf(), "a.pdf", "metadata")[0])) as document:
        assert str(document.pages[0].Annots[0].Contents) == "A remark"
        before, after = _jpeg(), document.pages[0].Resources.XObject.P.read_raw_bytes()
        assert after == cleaned(before, "a.jpg", "metadata")[0]


def _hostile_pdf(content: str = text("A letter")) -> bytes:
    script = f"<</S/JavaScript/JS({S})/Next<</S/Launch/F({S})>>>>"
    annotations = (
        f"[<</Type/Annot/Subtype/Link/Rect[0 0 9 9]/A<</S/URI/URI(http://{S}/)>>>>"
        "<</Type/Annot/Subtype/Link/Rect[0 0 9 9]/A<</S/GoTo/D[10 0 R/Fit]/Next 101 0 R>>>>"
        f"<</Type/Annot/Subtype/Link/Rect[0 0 9 9]/A<</S/SubmitForm/F({S})>>>>"
        f"<</Type/Annot/Subtype/FileAttachment/Rect[0 0 9 9]/FS 102 0 R>>"
        f"<</Type/Annot/Subtype/RichMedia/Rect[0 0 9 9]/RichMediaContent<</Assets({S})>>>>"
        "<</Type/Annot/Subtype/Text/Rect[0 0 9 9]/Contents(A remark)>>]"
    )
    return pdf(
        content,
        page=f"/AA<</O 101 0 R>>/Annots{annotations}/AF[102 0 R]",
        catalog="/OpenAction 101 0 R/Names<</EmbeddedFiles<</Names[(a.exe)102 0 R]>>/JavaScript<</Names[(a)101 0 R]>>>>"
        f"/AcroForm<</Fields[]/XFA({S})>>/Outlines<</First<</A 101 0 R/Title(Top)>>>>/URI<</Base({S})>>",
        objects={
            101: script,
            102: "<</Type/Filespec/F(a.exe)/EF<</F 103 0 R>>>>",
            103: stream(b"MZ" + SECRET, "/Type/EmbeddedFile"),
        },
    )


def _hostile_docx() -> bytes:
    body = (
        f'<w:p xmlns:w="{_WORD}" xmlns:r="{_OFFICE}" xmlns:o="urn:schemas-microsoft-com:office:office" xmlns:v="urn:schemas-microsoft-com:vml"><w:hyperlink r:id="rIdH"><w:r><w:t>a link</w:t></w:r></w:hyperlink>'
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>DDE</w:instrText></w:r>'
        f'<w:r><w:instrText>AUTO c:\\{S}</w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r>'
        '<w:r><w:t>a result</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
        f'<w:fldSimple w:instr="INCLUDEPICTURE http://{S}"><w:r><w:t>a picture</w:t></w:r></w:fldSimple>'
        '<w:r><w:object><v:shape/><o:OLEObject r:id="rIdO" ProgID="Package"/></w:object></w:r></w:p>'
    )
    return _with(
        docx_samples.with_body(body),
        {
            "word/vbaProject.bin": SECRET,
            "word/embeddings/oleObject1.bin": SECRET,
            "word/_rels/settings.xml.rels": f'<Relationships xmlns="{_RELATIONS}">{_relation("rIdT", "attachedTemplate", f"http://{S}/t.dotm", external=True)}'.encode(),
        },
        word__rels_document_xml_rels=(
            "</Relationships>",
            _relation("rIdV", "vbaProject", "vbaProject.bin").replace("</Relationships>", "")
            + _relation("rIdH", "hyperlink", f"http://{S}/", external=True).replace("</Relationships>", "")
            + _relation("rIdO", "oleObject", "embeddings/oleObject1.bin"),
        ),
        word_settings_xml=("</w:settings>", f'<w:attachedTemplate xmlns:r="{_OFFICE}" r:id="rIdT"/></w:settings>'),
        Content_Types_xml=(
            "<Default",
            '<Default Extension="bin" ContentType="application/vnd.ms-office.vbaProject"/><Default',
        ),
    )


def _hostile_xlsx() -> bytes:
    def edit(sheet: Worksheet) -> None:
        sheet["A1"] = f"=cmd|'/C {S}'!A0"
        sheet["A2"] = f'=HYPERLINK("http://{S}","a link")'
        sheet["A3"] = "=SUM(B1:B2)"
        sheet["A4"] = "a link"
        sheet["A5"] = "=[1]Prices!A1"
        sheet["A4"].hyperlink = f"http://{S}/"

    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    macros = f'<xm:macrosheet xmlns:xm="http://schemas.microsoft.com/office/excel/2006/main" xmlns="{main}"><sheetData><row><c><f>{S}()</f></c></row></sheetData></xm:macrosheet>'
    book = f'<externalLink xmlns="{main}" xmlns:r="{_OFFICE}"><externalBook r:id="rId1"/></externalLink>'
    path = _relation("rId1", "externalLinkPath", f"file:///C:/{S}.xlsx", external=True)
    override = '<Override PartName="/xl/{}" ContentType="application/vnd.{}+xml"/>'
    return _with(
        xlsx_samples.workbook(edit, second=lambda sheet: sheet.append(["kept"])),
        {
            "xl/macrosheets/sheet9.xml": macros.encode(),
            "xl/externalLinks/externalLink1.xml": book.encode(),
            "xl/externalLinks/_rels/externalLink1.xml.rels": f'<Relationships xmlns="{_RELATIONS}">{path}'.encode(),
        },
        xl_workbook_xml=(
            "<sheets>",
            (
                f'<externalReferences xmlns:r="{_OFFICE}"><externalReference r:id="rIdE"/></externalReferences>'
                f'<definedNames><definedName name="Rate">[1]{S}!A1</definedName></definedNames>'
                f'<sheets><sheet xmlns:r="{_OFFICE}" name="Macro" sheetId="9" r:id="rIdM"/>'
            ),
        ),
        xl__rels_workbook_xml_rels=(
            "</Relationships>",
            (
                '<Relationship Id="rIdM" Type="http://schemas.microsoft.com/office/2006/relationships/xlMacrosheet"'
                f' Target="/xl/macrosheets/sheet9.xml"/>{_relation("rIdE", "externalLink", "externalLinks/externalLink1.xml")}'
            ),
        ),
        Content_Types_xml=(
            "</Types>",
            override.format("macrosheets/sheet9.xml", "ms-excel.macrosheet")
            + override.format(
                "externalLinks/externalLink1.xml", "openxmlformats-officedocument.spreadsheetml.externalLink"
            )
            + "</Types>",
        ),
    )


def _hostile_pptx() -> bytes:
    def edit(slide: Slide) -> None:
        slide.shapes.add_ole_object(io.BytesIO(SECRET), "Package", Inches(0), Inches(0))
        box = slide.shapes.add_textbox(Inches(0), Inches(0), Inches(4), Inches(1))
        words = box.text_frame.paragraphs[0].add_run()
        words.text = "a link"
        words.hyperlink.address = f"http://{S}/"

    return pptx_samples.presentation(edit, pptx_samples.chart)


def _hostile_odt() -> bytes:
    body = (
        f'<text:p><text:a xlink:href="http://{S}/">a link</text:a><draw:frame><draw:object-ole xlink:href="./Object 1"/></draw:frame>'
        f'<draw:frame><draw:image xlink:href="http://{S}/a.png"/></draw:frame>A letter</text:p>'
    )
    listener = "<office:scripts><office:event-listeners/></office:scripts>"
    whole = opendocument_samples.document(
        "text", body, others={"Basic/Standard/Module1.xml": SECRET, "Basic/script-lc.xml": b"<a/>"}
    )
    return _with(whole, {}, content_xml=("<office:automatic-styles>", f"{listener}<office:automatic-styles>"))


_HOSTILE_SVG = f"""<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" onload="{S}()">
<script>{S}</script><a href="java&#x9;script:{S}()"><rect width="9" height="9" fill="url(#g)" style="fill:url(http://{S})"/></a>
<foreignObject><body xmlns="http://www.w3.org/1999/xhtml" onclick="{S}()">x</body></foreignObject>
<image xlink:href="http://{S}/a.png"/><use href="data:image/svg+xml,{S}"/><set attributeName="href" to="javascript:{S}()"/>
<style>@import "http://{S}"; rect {{ fill: u\\72l(http://{S}) }}</style><linearGradient id="g"/></svg>""".encode()
_HOSTILE_HTML = f"""<html><head><meta http-equiv="refresh" content="0;url=http://{S}"><base href="http://{S}">
<script>{S}</script><style>p {{ background: url(//{S}) }}</style></head><body onload="{S}()"><p id="kept">A letter
<a href="http://{S}">a link</a><a href="#kept">within</a><img src="http://{S}/a.png"><img src="data:image/png;base64,AAAA">
<iframe srcdoc="{S}"></iframe><form action="http://{S}"><input name="q">Name</form><svg onload={S}()></svg>
<noscript><p title="</noscript><img src=x onerror={S}()>"></noscript><!--[if IE]><script>{S}</script><![endif]--></body></html>""".encode()


def _active() -> Iterator[tuple[str, bytes, set[str], tuple[bytes, ...]]]:
    yield (
        "a.pdf",
        _hostile_pdf(),
        {"scripts", "actions", "embedded_files", "external_links", "forms"},
        (b"A letter", b"A remark", b"GoTo", b"Top"),
    )
    words = {"macros", "embedded_files", "external_links", "actions"}
    yield "a.docm", _hostile_docx(), words, (b"a link", b"a result", b"a picture", b"v:shape")
    yield "a.xlsm", _hostile_xlsx(), {"macros", "external_links", "actions"}, (b"SUM(B1:B2)", b"kept")
    yield "a.pptx", _hostile_pptx(), {"embedded_files", "external_links"}, (b"a link", b"p:pic", b"c:pieChart")
    yield "a.odt", _hostile_odt(), {"macros", "embedded_files", "external_links"}, (b"a link", b"A letter")
    yield "a.svg", _HOSTILE_SVG, {"scripts", "embedded_files", "external_links"}, (b"<rect", b"url(#g)")
    words = {"scripts", "actions", "embedded_files", "external_links", "forms"}
    yield "a.html", _HOSTILE_HTML, words, (b"A letter", b"a link", b"#kept", b"data:image/png", b"Name")


@each_row(("name", "content", "words", "kept"), _active, ids=lambda value: value if isinstance(value, str) else "")
def test_active_content_is_gone(name: str, content: bytes, words: set[str], kept: tuple[bytes, ...]) -> None:
    left, removed = cleaned(content, name, "active_content")
    assert removed == words
    assert not hides(_unpacked(left))
    assert not [each for each in kept if each not in _unpacked(left)]
    after = inspected(left, name)
    assert (after.outcome, after.finding, after.format) == (Outcome.OK, None, inspected(content, name).format)
    assert after.flags == ()
    assert cleaned(left, name, "active_content") == (left, set())


def _signed_pdf(**more: str) -> bytes:
    signature = f"<</Type/Sig/Filter/Adobe.PPKLite/ByteRange[0 1 2 3]/Contents<00>/Name({S})>>"
    field = "<</FT/Sig/T(Signature)/V 101 0 R/Type/Annot/Subtype/Widget/Rect[0 0 0 0]>>"
    catalog = "/AcroForm<</Fields[100 0 R]/SigFlags 3>>" + more.get("catalog", "")
    return pdf(text("A letter"), catalog=catalog, page="/Annots[100 0 R]", objects={100: field, 101: signature})


def test_signature_goes_with_what_it_signed() -> None:
    signed = _signed_pdf()
    assert cleaned(signed, "a.pdf", "active_content") == (signed, set())
    left, removed = cleaned(_signed_pdf(catalog="/OpenAction<</S/JavaScript/JS(1)>>"), "a.pdf", "active_content")
    assert removed == {"scripts", "signatures"}
    assert not hides(left)


def _refused() -> Iterator[tuple[str, bytes, str, str]]:
    yield "a.svg", b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', "active_content", "empty"
    yield "a.pdf", pdf("", catalog="/Collection<<>>/Names<</EmbeddedFiles<</Names[]>>>>"), "active_content", "empty"
    yield "a.pdf", pdf("", catalog="/NeedsRendering true/AcroForm<</XFA()>>"), "active_content", "inseparable"
    chunk = _relation("rIdC", "aFChunk", "a.html")
    imported = _with(
        docx.FORMAT.sample(),
        {
            "word/a.html": b"<p>a</p>",
            "word/_rels/document.xml.rels": f'<Relationships xmlns="{_RELATIONS}">{chunk}'.encode(),
        },
    )
    yield "a.docx", imported, "active_content", "inseparable"
    yield "a.rtf", rb"{\rtf1 {\field{\*\fldinst DDEAUTO cmd}{\fldrslt a}}}", "active_content", "inseparable"
    yield "a.html", b"<body><script>document.write('a')</script></body>", "active_content", "empty"


@each_row(("name", "content", "removal", "why"), _refused, ids=str)
def test_document_that_cannot_be_made_clean_is_not(name: str, content: bytes, removal: str, why: str) -> None:
    with pytest.raises(NotClean) as refused:
        cleaned(content, name, removal)
    assert refused.value.why == why


@each_row(
    ("name", "content", "removals", "error"),
    [
        ("a.pdf", resaved(pdf(text("A letter")), encryption=pikepdf.Encryption(owner="o", user="u")), ("metadata",), Encrypted),
        ("a.zip", zip_format.FORMAT.sample(), ("metadata",), Unsupported),
        ("a.zip", zip_format.FORMAT.sample(), ("active_content",), Unsupported),
        ("a.eml", eml.FORMAT.sample(), ("active_content",), Unsupported),
        ("a.doc", DOC.sample(), ("metadata",), Unsupported),
        ("a.docx", docx.FORMAT.sample(), ("pixels",), Unsupported),
        ("a.bin", b"\x7fELF" + bytes(99), ("metadata",), Unsupported),
    ],
    ids=str,
)  # fmt: skip
def test_format_without_a_way_to_clean_it_is_refused(
    name: str, content: bytes, removals: tuple[str, ...], error: type[InspectionError]
) -> None:
    with pytest.raises(error):
        cleaned(content, name, *removals)


def test_document_without_active_content_stays_as_it_is() -> None:
    for name, content in (("a.doc", DOC.sample()), ("a.rtf", RTF.sample()), ("a.xlsx", xlsx.FORMAT.sample())):
        assert cleaned(content, name, "active_content") == (content, set())


def test_parts_that_stay_are_copied_as_they_were_packed() -> None:
    left, _removed = cleaned(_docx(), "a.docx", "metadata")
    with zipfile.ZipFile(io.BytesIO(left)) as package:
        assert package.testzip() is None
        assert {each.date_time for each in package.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    with (
        zipfile.ZipFile(io.BytesIO(_odt())) as before,
        zipfile.ZipFile(io.BytesIO(cleaned(_odt(), "a.odt", "metadata")[0])) as after,
    ):
        first = after.infolist()[0]
        assert (first.filename, first.compress_type) == ("mimetype", before.infolist()[0].compress_type)


def test_object_in_document_has_no_properties_left() -> None:
    properties = bytes(28) + bytes(range(16)) + SECRET.decode().encode("utf-16-le").ljust(200)
    thing = make_compound({"\5SummaryInformation": properties, "Contents": b"an equation"})
    relation = _relation("rIdO", "oleObject", "embeddings/oleObject1.bin")
    content = _with(
        docx_samples.run("A letter"),
        {"word/embeddings/oleObject1.bin": thing},
        word__rels_document_xml_rels=("</Relationships>", relation),
        Content_Types_xml=("<Default", '<Default Extension="bin" ContentType="application/x-ole"/><Default'),
    )
    left, removed = cleaned(content, "a.docx", "metadata")
    assert "author" in removed
    kept = parts_of(left)["word/embeddings/oleObject1.bin"]
    assert len(kept) == len(thing)
    assert not hides(kept)
    assert b"an equation" in kept
    assert cleaned(left, "a.docx", "metadata") == (left, set())


def test_document_that_opens_without_a_password_is_cleaned_and_open() -> None:
    locked = resaved(_pdf(), encryption=pikepdf.Encryption(owner="owner", user=""))
    left, removed = cleaned(locked, "a.pdf", "metadata")
    assert removed >= {"author", "gps"}
    with pikepdf.open(io.BytesIO(left)) as document:
        assert not document.is_encrypted
