"""Macros, objects, links, fields, pages, sheets and slides of Office documents."""

import base64
import io
import posixpath
import struct
from collections.abc import Iterable, Mapping
from itertools import product

from sluice_inspect import inspect_file
from sluice_inspect.formats import docx, pptx, xlsx
from sluice_inspect.formats.doc.format import make_word
from sluice_inspect.formats.msg import make_message
from sluice_inspect.formats.ppt import format as ppt
from sluice_inspect.formats.xls.format import make_number, make_record, make_workbook
from sluice_inspect.office.compound import make_compound
from sluice_inspect.report import Limits, Outcome
from tests.inspection.facts import Row, facts_of, flags, flags_of
from tests.inspection.formats.office_packages import package_of, parts_of
from tests.inspection.formats.opendocument_samples import NAMESPACES, document, paragraph
from tests.inspection.threats.packed_files import zipped
from tests.rows import each_row, every_row

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DOCX, XLSX, PPTX = docx.FORMAT.sample(), xlsx.FORMAT.sample(), pptx.FORMAT.sample()


def relations(kind: str, target: str, *, external: bool = False) -> bytes:
    mode = ' TargetMode="External"' if external else ""
    entry = f'<Relationship Id="r0" Type="{OFFICE}/{kind}" Target="{target}"{mode}/>'
    return f'<Relationships xmlns="{PACKAGE}">{entry}</Relationships>'.encode()


def with_parts(package: bytes, parts: Mapping[str, bytes]) -> bytes:
    return package_of(parts_of(package) | dict(parts))


def word(body: str) -> bytes:
    text = f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    return with_parts(DOCX, {"word/document.xml": text.encode()})


def run(inner: str) -> str:
    return f"<w:p><w:r><w:t>a</w:t></w:r><w:r>{inner}</w:r></w:p>"


@each_row(("data", "name"), [(DOCX, "a.docx"), (XLSX, "a.xlsx"), (PPTX, "a.pptx")])
def test_plain_document_has_no_flags(data: bytes, name: str) -> None:
    report = inspect_file(io.BytesIO(data), filename=name)
    assert report.outcome is Outcome.OK
    assert (report.flags, report.facts["encrypted"], report.facts["flags_complete"]) == ((), False, True)


@flags("a.docx")
def test_related_or_remote_part_has_a_flag_by_its_relation_name_or_content() -> Iterable[Row]:
    remote = (
        ("attachedTemplate", "http://a.example/t.dotm", "template.remote"),
        ("attachedTemplate", "https://a.example/t", "template.remote"),
        ("attachedTemplate", "\\\\server\\t.dotm", "template.remote"),
        ("attachedTemplate", "file://server/t.dotm", "template.remote"),
        ("attachedTemplate", "file:\\\\server\\t.dotm", "template.remote"),
        ("attachedTemplate", "file:///C:/Users/a/Templates/Normal.dotm", ""),
        ("image", "http://a.example/a.png", "link.external"),
        ("hyperlink", "http://a.example/", ""),
    )
    for (kind, target, found), part in product(remote, ("settings", "footer9")):
        parts = {f"word/_rels/{part}.xml.rels": relations(kind, target, external=True)}
        yield f"{kind} {target} of {part}", with_parts(DOCX, parts), found
    plain = relations("attachedTemplate", "http://a.example/t", external=True).decode()
    wide = ('<?xml version="1.0" encoding="utf-16"?>' + plain).encode("utf-16")
    ebcdic = ('<?xml version="1.0" encoding="IBM037"?>' + plain).encode("cp037")
    padded = f'<?xml version="1.0" {" " * 9999} encoding="utf-7"?>{plain}'.encode("utf-7")
    others = (plain.replace("External", each).encode() for each in ("&#69;xternal", "external", " EXTERNAL "))
    for raw in (wide, ebcdic, padded, *others):
        yield f"{raw!r}", with_parts(DOCX, {"word/_rels/settings.xml.rels": raw}), "template.remote"
    for kind, found in (
        ("aFChunk", "altchunk"),
        ("oleObject", "object.ole"),
        ("control", "object.activex"),
        ("vbaProject", "macro"),
    ):
        parts = {"word/_rels/footer9.xml.rels": relations(kind, "part.bin"), "word/part.bin": b"x"}
        yield kind, with_parts(DOCX, parts), found


CUSTOM_UI = "http://schemas.microsoft.com/office/2006/01/customui"
EXTENSIBILITY = "http://schemas.microsoft.com/office/2006/relationships/ui"


def with_ribbon(
    package: bytes, callback: str, kind: str = "extensibility", name: str = "customUI/customUI.xml"
) -> bytes:
    """Return a package with a ribbon of its own; the callback is an attribute."""
    entry = f'<Relationship Id="rUi" Type="{EXTENSIBILITY}/{kind}" Target="{name}"/></Relationships>'.encode()
    lists = parts_of(package)["_rels/.rels"].replace(b"</Relationships>", entry)
    ribbon = f'<customUI xmlns="{CUSTOM_UI}"><ribbon><tabs><tab {callback}/></tabs></ribbon></customUI>'
    return with_parts(package, {"_rels/.rels": lists, name: ribbon.encode()})


def test_macro_of_another_file_in_the_ribbon_is_flagged() -> None:
    other = ("http://a.example/a.dotm!m", "\\\\server\\a.dotm!m", "C:\\a\\b.xlsm!Module1.m", "'a b.xlsm'!m", "a.dotm!m")
    own = ("Module1.OnAction", "m", "a!b", "")
    with every_row() as row:
        for value, found in (*((each, {"link.external"}) for each in other), *((each, set[str]()) for each in own)):
            for attribute in ("onLoad", "onAction", "getLabel", "loadImage"):
                with row((attribute, value)):
                    assert flags_of(with_ribbon(DOCX, f'{attribute}="{value}"'), "a.docx") == found
        callback = f'onAction="{other[0]}"'
        for package, name in ((XLSX, "a.xlsx"), (PPTX, "a.pptx")):
            with row(name):
                assert flags_of(with_ribbon(package, callback), name) == {"link.external"}
        with row("user customization"):
            ribbon = with_ribbon(DOCX, callback, "userCustomization", "userCustomization/a.dat")
            assert flags_of(ribbon, "a.docx") == {"link.external"}
        with row("text"):
            assert flags_of(with_ribbon(DOCX, 'label="C:\\a.xlsm!m" id="http://a"'), "a.docx") == set()


DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
PRESENTATION = "http://schemas.openxmlformats.org/presentationml/2006/main"


@flags("a.pptx")
def test_slide_that_starts_something_without_a_click_has_a_flag() -> Iterable[Row]:
    slide, lists = "ppt/slides/slide9.xml", "ppt/slides/_rels/slide9.xml.rels"
    for element, external, found in (
        ('<a:hlinkHover r:id="r0" action="ppaction://program"/>', True, "link.external"),
        ('<a:hlinkMouseOver r:id="r0"/>', True, "link.external"),
        ('<a:hlinkHover r:id="" action="PPACTION://Program"/>', False, "link.external"),
        ('<a:hlinkHover r:id="" action="ppaction://macro?name=a"/>', False, "macro"),
        ('<a:hlinkHover r:id="r0" action="ppaction://hlinksldjump"/>', False, ""),
        ('<a:hlinkHover r:id="" action="ppaction://hlinkshowjump?jump=nextslide"/>', False, ""),
        ('<a:hlinkClick r:id="r0" action="ppaction://program"/>', True, ""),
        ('<p:cmd type="verb" cmd="0"/>', False, "object.ole"),
        ('<p:cmd type="&#118;erb" cmd="0"/>', False, "object.ole"),
        ('<p:cmd type="call" cmd="playFrom(0.0)"/>', False, ""),
    ):
        text = f'<p:sld xmlns:p="{PRESENTATION}" xmlns:a="{DRAWING}" xmlns:r="{OFFICE}">{element}</p:sld>'
        related = relations("hyperlink", "file://server/a.exe", external=external)
        for encoding in ("utf-8", "utf-16"):
            raw = f'<?xml version="1.0" encoding="{encoding}"?>{text}'.encode(encoding)
            yield f"{element} in {encoding}", with_parts(PPTX, {slide: raw, lists: related}), found


@each_row("name", ["a.docx", "a.docm"])
def test_part_has_a_flag_by_its_name_or_content(name: str) -> None:
    assert flags_of(with_parts(DOCX, {"word/vbaProject.bin": b"x"}), name) == {"macro"}
    native = make_compound({"\x01Ole10Native": b"x" * 20})
    assert flags_of(with_parts(DOCX, {"word/embeddings/oleObject1.bin": native}), name) == {"object.ole", "package"}


BEGIN, END = '<w:fldChar w:fldCharType="begin"/>', '<w:fldChar w:fldCharType="end"/>'


@flags("a.docx")
def test_field_that_starts_or_loads_something_has_a_flag() -> Iterable[Row]:
    for field in (
        run('<w:instrText xml:space="preserve"> DDEAUTO c:\\\\windows\\\\cmd.exe "/k calc" </w:instrText>'),
        run("<w:instrText>DD</w:instrText></w:r><w:r><w:instrText>EAUTO cmd x</w:instrText>"),
        run("<w:instrText>&#68;DE cmd x</w:instrText>"),
        run("<w:instrText><![CDATA[DDE]]> cmd x</w:instrText>"),
        run("<w:instrText>D<!-- -->DE cmd x</w:instrText>"),
        '<w:fldSimple w:instr=" DDE cmd x "/>' + run(""),
        run("<w:instrText> QUOTE 68 68 69 65 85 84 79 32 34 </w:instrText>"),
        run('<w:instrText xml:space="preserve">quote 0x44 </w:instrText></w:r><w:r><w:instrText>68 69</w:instrText>'),
    ):
        yield field, word(field), "dde"
    loading = (
        f'{BEGIN}<w:instrText xml:space="preserve"> INCLUDEPICTURE "http://a.example/a.png" \\d </w:instrText>{END}',
        f"{BEGIN}<w:instrText>INCLUDE</w:instrText></w:r><w:r><w:t/><w:instrText>TEXT &quot;a&quot;</w:instrText>{END}",
        f"{BEGIN}<w:instrText>&#76;INK Excel.Sheet.12 C:\\\\a.xlsx</w:instrText>{END}",
        f"{BEGIN}<w:instrText>import a.png</w:instrText>{END}",
        "</w:r><w:fldSimple w:instr='includepicture \"http://a.example/a.png\"'/><w:r>",
        '</w:r><w:fldSimple w:dirty=">" w:instr="INCLUDETEXT a"/><w:r>',
        '</w:r><w:fldSimple w:dirty="&#62;" w:instr="INCLUDETEXT a"/><w:r>',
    )
    for field, part in product(loading, ("word/document.xml", "other/footnotes.xml")):
        text = f'<w:document xmlns:w="{WORD}"><w:body>{run(field)}</w:body></w:document>'
        yield f"{field} in {part}", with_parts(DOCX, {part: text.encode()}), "link.external"
    fields = run('<w:fldChar w:fldCharType="begin"/><w:instrText> PAGE </w:instrText>')
    yield "honest", word(fields + run("<w:t>DDE is old</w:t>")), ""
    link = f'{BEGIN}<w:instrText> HYPERLINK "http://a.example/LINK/" </w:instrText>{END}<w:t>LINK a</w:t>'
    yield "link to click", word(run(link) + '<w:fldSimple w:instr=" AUTHOR "/>'), ""


def renamed(package: bytes, old: str, new: str, declared: str) -> bytes:
    """Return a package in which a part has another name and the content type by which readers know it."""
    parts = parts_of(package)
    for name, content in parts.items():
        if name.endswith(".rels"):
            parts[name] = content.replace(posixpath.basename(old).encode(), posixpath.basename(new).encode())
    types = f'<Override PartName="/{new}" ContentType="application/vnd.{declared}"/></Types>'
    parts[TYPES] = parts[TYPES].replace(f"/{old}".encode(), b"/none").replace(b"</Types>", types.encode())
    parts[new] = parts.pop(old)
    relations_of = "{}/_rels/{}.rels".format
    if (lists := relations_of(*posixpath.split(old))) in parts:
        parts[relations_of(*posixpath.split(new))] = parts.pop(lists)
    return package_of(parts)


TYPES = "[Content_Types].xml"
MAIN = "openxmlformats-officedocument.wordprocessingml.document.main+xml"
SPREADSHEET = "openxmlformats-officedocument.spreadsheetml"


@flags("a.docx")
def test_part_in_ebcdic_is_searched() -> Iterable[Row]:
    text = f'<w:document xmlns:w="{WORD}"><w:body>{run("<w:instrText>DDE cmd x</w:instrText>")}</w:body></w:document>'
    declared = '<?xml version="1.0" encoding="cp037"?>' + text
    yield "text", with_parts(DOCX, {"word/document.xml": declared.encode("cp037")}), "dde"


@flags("a.docx")
def test_part_is_searched_whatever_its_name_is() -> Iterable[Row]:
    text = word('<w:p><w:r><w:t>a</w:t></w:r><w:fldSimple w:instr="DDE cmd x"/></w:p>')
    for name in ("document", "document.dat", "document.jpg", "document.bin", "document.rels", "document.html"):
        yield name, renamed(text, "word/document.xml", f"word/{name}", MAIN), "dde"
    undeclared = b"<?xml version='1.0'?><w:hdr xmlns:w='%b'><w:fldSimple w:instr='DDE x'/></w:hdr>" % WORD.encode()
    yield "no content type", with_parts(DOCX, {"word/header1.dat": undeclared}), "dde"
    yield "a picture that begins like XML", with_parts(DOCX, {"word/media/a.png": b"<?xml<!--fldSimple"}), ""


@flags("a.xlsx")
def test_part_of_a_workbook_is_searched_whatever_its_name_is() -> Iterable[Row]:
    for formula, found in (("cmd|'/c calc'!A0", "dde"), ("WEBSERVICE(A1)", "link.external")):
        cells = f'<worksheet xmlns="{SHEET}"><sheetData><row><c><f>{formula}</f></c></row></sheetData></worksheet>'
        book = with_parts(XLSX, {"xl/sheet1.xml": cells.encode()})
        for name in ("xl/sheet1", "xl/sheet1.dat", "xl/sheet1.bin"):
            yield f"{formula} {name}", renamed(book, "xl/sheet1.xml", name, f"{SPREADSHEET}.worksheet+xml"), found
    link = f'<externalLink xmlns="{SHEET}"><ddeLink ddeService="cmd" ddeTopic="x"/></externalLink>'
    linked = with_parts(XLSX, {"xl/link.xml": link.encode()})
    yield "link", renamed(linked, "xl/link.xml", "xl/link.dat", f"{SPREADSHEET}.externalLink+xml"), "dde"
    queried = with_parts(XLSX, {"xl/a.xml": f'<connections xmlns="{SHEET}"/>'.encode()})
    yield "query", renamed(queried, "xl/a.xml", "xl/a.dat", f"{SPREADSHEET}.connections+xml"), "link.external"
    project = with_parts(XLSX, {"xl/a.bin": b"x"})
    yield "macros", renamed(project, "xl/a.bin", "xl/a.dat", "ms-office.vbaProject"), "macro"


def test_damaged_part_is_found_whatever_its_name_is() -> None:
    broken = renamed(word("<w:p>"), "word/document.xml", "word/document.dat", MAIN)
    assert inspect_file(io.BytesIO(broken), filename="a.docx").outcome is Outcome.CORRUPT


SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
NUMBER = make_number(0, 0, 1)


@flags("a.xlsx")
def test_function_of_a_workbook_that_loads_or_starts_something() -> Iterable[Row]:
    formulas = (
        ('<c><f>_xlfn.WEBSERVICE("http://a.example")</f><v>1</v></c>', "link.external"),
        ('<c><f>1+webservice ("http://a.example")</f><v>1</v></c>', "link.external"),
        ('<c><f>_xlfn.IMAGE("http://a.example/a.png")</f><v>1</v></c>', "link.external"),
        ('<c><f>_xlfn.FILTERXML(A1,"//a")</f><v>1</v></c>', "link.external"),
        ('<c><f>IM<!-- -->AGE("http://a.example/a.png")</f><v>1</v></c>', "link.external"),
        ('<c><f>&#73;MAGE("http://a.example/a.png")</f><v>1</v></c>', "link.external"),
        ("<c><f><![CDATA[IMA]]>GE(A1)</f><v>1</v></c>", "link.external"),
        ("<c><f>'\"'!A1+IMAGE(A1)+'\"'!A1</f><v>1</v></c>", "link.external"),
        ("<c><f>cmd|'/c calc'!A0</f><v>1</v></c>", "dde"),
        ("<c><f>1+'cmd'|'/c calc'!A0</f><v>1</v></c>", "dde"),
        ("<c t=\"inlineStr\"><is><t>IMAGE(1) cmd|'x'!A0</t></is></c>", ""),
        ('<c><f>SUM(A1:A2)+IMAGES(1)</f></c><c><f>IF(A1="IMAGE(x)",1,"a|\'b\'!c")</f></c>', ""),
    )
    for (cells, found), encoding in product(formulas, ("utf-8", "utf-16")):
        sheet = f'<worksheet xmlns="{SHEET}"><sheetData><row>{cells}</row></sheetData></worksheet>'
        text = f'<?xml version="1.0" encoding="{encoding}"?>{sheet}'
        yield f"{cells} {encoding}", with_parts(XLSX, {"xl/sheet1.xml": text.encode(encoding)}), found
    for element in ("definedName", "formula", "formula1", "calculatedColumnFormula"):
        part = f'<a xmlns="{SHEET}"><{element}>IMAGE(A1)</{element}></a>'.encode()
        yield element, with_parts(XLSX, {"xl/tables/table9.xml": part}), "link.external"
    names = "_xlfn.WEBSERVICE".encode("utf-16-le")
    yield "binary workbook", with_parts(XLSX, {"xl/workbook9.bin": bytes(9) + names}), "link.external"
    link = f'<externalLink xmlns="{SHEET}"><ddeLink ddeService="cmd" ddeTopic="x"/></externalLink>'
    yield "link", with_parts(XLSX, {"xl/externalLinks/externalLink1.xml": link.encode()}), "dde"


def with_queries(script: str, encoding: str = "utf-8") -> bytes:
    """Return a workbook with queries of Power Query."""
    packed = zipped({"Config/Package.xml": b"<Package/>", "Formulas/Section1.m": script.encode()})
    data = base64.b64encode(bytes(4) + len(packed).to_bytes(4, "little") + packed + bytes(12)).decode()
    item = f'<DataMashup xmlns="http://schemas.microsoft.com/DataMashup">{data}</DataMashup>'
    return with_parts(
        XLSX, {"customXml/item1.xml": f'<?xml version="1.0" encoding="{encoding}"?>{item}'.encode(encoding)}
    )


@flags("a.xlsx")
def test_query_of_a_workbook_that_reads_something_outside_has_a_flag() -> Iterable[Row]:
    for code, found in (
        ('Web.Contents("http://a.example/")', "link.external"),
        ('Excel.Workbook(File.Contents("\\\\server\\a.xlsx"))', "link.external"),
        ('Function.Invoke(Sql.Database, {"a", "b"})', "link.external"),
        ('#"Web.Contents"("http://a.example/")', "link.external"),
        ('#"Web#(002e)Contents"("http://a.example/")', "link.external"),
        ('Record.Field(#shared, "Web.Contents")("a")', "link.external"),
        ('"//" & Web.Contents("a")', "link.external"),
        ('Excel.CurrentWorkbook(){[Name="A"]}[Content] /* Web.Contents */ // Web.Contents', ""),
        ('let #"Changed Type" = Table.AddColumn(A, "Web.Contents", each [Sales.Amount]) in #"Changed Type"', ""),
    ):
        for encoding in ("utf-8", "utf-16"):
            yield f"{code} {encoding}", with_queries(f"section Section1;\nshared A = {code};", encoding), found


def test_queries_of_a_workbook_that_cannot_be_read_leave_the_flags_incomplete() -> None:
    for text in ("AAAA", "A", base64.b64encode(bytes(4) + b"\x10\0\0\0" + bytes(16)).decode()):
        item = f'<DataMashup xmlns="http://schemas.microsoft.com/DataMashup">{text}</DataMashup>'
        assert facts_of(with_parts(XLSX, {"customXml/item1.xml": item.encode()}), "a.xlsx")["flags_complete"] is False


def test_macro_sheet_of_a_workbook() -> None:
    parts = {
        "xl/_rels/other.xml.rels": relations("xlMacrosheet", "macrosheets/sheet1.xml"),
        "xl/macrosheets/sheet1.xml": b"<a/>",
    }
    assert flags_of(with_parts(XLSX, parts), "a.xlsm") == {"macro.sheet"}


def test_sheets_slides_and_pages_are_counted() -> None:
    assert facts_of(XLSX, "a.xlsx")["sheets"] == 1
    slides = parts_of(PPTX)["ppt/presentation.xml"].replace(
        b"<p:sldSz", b'<p:sldIdLst><p:sldId id="256"/><p:sldId id="257"/></p:sldIdLst><p:sldSz'
    )
    assert facts_of(with_parts(PPTX, {"ppt/presentation.xml": slides}), "a.pptx")["slides"] == 2
    properties = "http://schemas.openxmlformats.org/officeDocument/2006/extended-properties"
    stated = f'<Properties xmlns="{properties}"><Pages>7</Pages></Properties>'
    more = f'<Relationship Id="p" Type="{OFFICE}/extended-properties" Target="docProps/app.xml"/></Relationships>'
    root = parts_of(DOCX)["_rels/.rels"].replace(b"</Relationships>", more.encode())
    parts = {"_rels/.rels": root, "docProps/app.xml": stated.encode()}
    assert facts_of(with_parts(DOCX, parts), "a.docx")["pages"] == 7
    assert "pages" not in facts_of(DOCX, "a.docx")


def encrypted(info: bytes) -> bytes:
    return make_compound({"EncryptedPackage": (16).to_bytes(8, "little") + bytes(32), "EncryptionInfo": info})


def test_encrypted_package_is_encrypted() -> None:
    facts = facts_of(encrypted(bytes(64)), "a.docx")
    assert (facts["encrypted"], facts["flags_complete"]) == (True, False)


# Old formats


def test_old_documents_have_their_counts() -> None:
    facts = facts_of(make_workbook([NUMBER, make_number(0, 0, 2)]), "a.xls")
    assert (facts["sheets"], facts["encrypted"]) == (2, False)
    assert facts_of(ppt.FORMAT.sample(), "a.ppt")["slides"] == 1


@flags("a.xls")
def test_record_of_an_old_workbook_has_a_flag() -> Iterable[Row]:
    for record, found in (
        (make_record(0x0018, bytes(14) + b"\x00_xlfn.IMAGE"), "link.external"),
        (make_record(0x01AE, struct.pack("<HHB", 0, 11, 0) + b"cmd\x03/c calc"), "dde"),
        (make_record(0x01AE, struct.pack("<HHB", 1, 5, 0) + b"a.xls"), "link.external"),
        (make_record(0x01AE, struct.pack("<HH", 1, 0x0401)), ""),
        (make_record(0x0085, struct.pack("<LBBBB", 0, 0, 1, 0, 0)), "macro.sheet"),
    ):
        yield f"{record!r}", make_workbook([NUMBER], before=record), found


@each_row(
    ("tree", "flag"),
    [
        ({"Macros": {"VBA": {"_VBA_PROJECT": b"x"}}}, "macro"),
        ({"ObjectPool": {"_1": {"\x03ObjInfo": b"x"}}}, "object.ole"),
        ({"ObjectPool": {"_1": {"\x01Ole10Native": b"x"}}}, "package"),
        ({"WordDocument": bytes(1500) + b"\x13 DDEAUTO cmd x \x14\x15"}, "dde"),
        ({"WordDocument": bytes(1500) + b"\x13DDE cmd\x15"}, "dde"),
        ({"WordDocument": bytes(1500) + b"\x13\x13QUOTE 68 68 69\x15 cmd x\x15"}, "dde"),
        ({"WordDocument": bytes(1500) + "\x13 quote 100  100 101 32\x15".encode("utf-16-le")}, "dde"),
        ({"WordDocument": bytes(1500) + "\x13 DDEAUTO cmd x \x14\x15".encode("utf-16-le")}, "dde"),
        ({"WordDocument": bytes(1500) + "\x13DDE cmd\x15".encode("utf-16-le")}, "dde"),
    ],
)
def test_storage_or_field_of_an_old_document_has_a_flag(tree: Mapping[str, object], flag: str) -> None:
    whole: dict[str, object] = {"WordDocument": bytes(2000), "1Table": bytes(100), **tree}
    assert flag in flags_of(make_compound(whole), "a.doc")  # type: ignore[arg-type]
    assert flags_of(make_word("One line."), "a.doc") == set()


def test_attachments_of_an_outlook_item_have_kinds() -> None:
    item = make_message({0x0037: "A", 0x1000: "B"}, [{0x3707: "run.js", 0x3701: b"x"}, {0x3707: "a.pdf", 0x3701: b"x"}])
    assert flags_of(item, "a.msg") == {"attachment.script", "attachment.document"}
    assert facts_of(item, "a.msg")["attachments"] == 2


# OpenDocument


def meta(inner: str) -> bytes:
    spaces = {
        "office": "urn:oasis:names:tc:opendocument:xmlns:office:1.0",
        "meta": "urn:oasis:names:tc:opendocument:xmlns:meta:1.0",
        "xlink": "http://www.w3.org/1999/xlink",
    }
    declared = " ".join(f'xmlns:{prefix}="{space}"' for prefix, space in spaces.items())
    return f"<office:document-meta {declared}><office:meta>{inner}</office:meta></office:document-meta>".encode()


def test_opendocument_has_counts() -> None:
    tables = "<table:table><table:table-row/></table:table>" * 3
    assert facts_of(document("spreadsheet", tables), "a.ods")["sheets"] == 3
    assert facts_of(document("presentation", "<draw:page/><draw:page/>"), "a.odp")["slides"] == 2
    stated = meta('<meta:document-statistic meta:page-count="4"/>')
    facts = facts_of(document("text", paragraph(), others={"meta.xml": stated}), "a.odt")
    assert (facts["pages"], facts["encrypted"], facts["flags_complete"]) == (4, False, True)


@flags("a.odt")
def test_element_or_part_of_opendocument_has_a_flag() -> Iterable[Row]:
    for body, found in (
        ('<draw:frame><draw:image xlink:href="http://a.example/a.png"/></draw:frame>', "link.external"),
        ('<draw:frame><draw:object xlink:href="file:///C:/a.ods"/></draw:frame>', "link.external"),
        ('<draw:frame><draw:object xlink:href=" //server/a.ods"/></draw:frame>', "link.external"),
        ('<draw:frame><draw:object xlink:href="\\\\server\\a.ods"/></draw:frame>', "link.external"),
        ('<draw:frame><draw:image xlink:href="../a.png"/></draw:frame>', "link.external"),
        ('<draw:frame><draw:image xlink:href="&#x2e;./a.png"/></draw:frame>', "link.external"),
        (
            '<text:section><text:section-source xlink:title=">" xlink:href="/srv/a.odt"/></text:section>',
            "link.external",
        ),
        ('<text:p><text:span text:formula="of:=WEBSERVICE(&quot;http://a&quot;)"/></text:p>', "link.external"),
        ('<text:p><text:span text:formula="of:=dde(&quot;soffice&quot;)"/></text:p>', "dde"),
        ("<text:dde-connection-decls><text:dde-connection-decl/></text:dde-connection-decls>", "dde"),
        ("<draw:frame><draw:object-ole/></draw:frame>", "object.ole"),
        ('<text:p><text:a xlink:href="http://a.example/">a</text:a></text:p>', ""),
        ('<draw:frame><draw:object xlink:href="./Object 1"/></draw:frame>', ""),
        ('<draw:frame><draw:object xlink:href="Pictures/a.png"/></draw:frame>', ""),
        ('<draw:frame><draw:object xlink:href="#a"/></draw:frame>', ""),
        ('<draw:frame><draw:object xlink:href=""/></draw:frame>', ""),
        ('<draw:frame><draw:object xlink:href="Object%201/../a"/></draw:frame>', ""),
    ):
        yield body, document("text", paragraph() + body), found
    loading = parts_of(document("text", '<draw:image xlink:href="http://a.example/a.png"/>'))["content.xml"]
    others: dict[str, bytes]
    for others, found in (
        ({"Object 1/content.xml": loading}, "link.external"),
        ({"meta.xml": meta('<meta:template xlink:href="http://a.example/a.ott"/>')}, "template.remote"),
        ({"meta.xml": meta('<meta:template xlink:href="file:///home/a/a.ott"/>')}, ""),
        ({"meta.xml": meta('<meta:auto-reload xlink:href="http://a.example/a.odt"/>')}, "link.external"),
        ({"Basic/Standard/Module1.xml": b"<a/>", "Basic/script-lc.xml": b"<a/>"}, "macro"),
        ({"Basic/script-lc.xml": b"<a/>"}, ""),
    ):
        yield f"{others}", document("text", paragraph(), others=others), found


@flags("a.ods")
def test_reference_or_call_in_a_formula_of_opendocument_has_a_flag() -> Iterable[Row]:
    for formula, found in (
        ("of:=['http://a.example/a.ods'#$S.A1]", "link.external"),
        ("of:=SUM([&apos;file://server/a.ods&apos;#$S.A1:.B2])", "link.external"),
        ("of:=[&#39;it&#39;&#39;s.ods&#39;#$S.A1]", "link.external"),
        ("oooc:=['file:///C:/a.ods'#$S.A1]", "link.external"),
        ("of:=[https://a.example/a.ods#$S.A1]", "link.external"),
        ("of:=INDIRECT(&quot;'http://a.example/a.ods'#$S.A1&quot;)", "link.external"),
        ("msoxl:='http://a.example/[a.xls]S'!A1", "link.external"),
        ("msoxl:=1+'\\\\server\\a\\[a.xls]S'!A1", "link.external"),
        ("msoxl:=[a.xls]S!A1", "link.external"),
        ("msoxl:=a.xls!Name", "link.external"),
        ("msoxl:=cmd|' /c calc'!A0", "dde"),
        ("oooc:=&quot;a&quot;&amp;cmd|&apos;/c calc&apos;!A0", "dde"),
        ("msoxl:='cmd' | '/c calc' !A0", "dde"),
        ("msoxl:=Excel|[a.xls]S!A1", "dde link.external"),
        ("of:=SUM([.A1:.B2];[$S.A1];['a b'.A1];[$'a#b'.A1];[$'#'.A1])", ""),
        ("of:=&quot;'http://a.example/a.ods'#A&quot;&amp;&quot;cmd|'x'!A0&quot;", ""),
        ("of:=SUM({1;2|3;4})+['a'.#REF!]+[.A1:.B2]![.B1:.C2]+SUM('km/h'!!'x')", ""),
        ("of:=HYPERLINK(&quot;http://a.example/&quot;&amp;INDIRECT(&quot;A1&quot;))", ""),
        ("msoxl:=SUM('a b'!A1,S!B1,[0]!n,R[-1]C[2],Table1[a b],Table1[#All])", ""),
    ):
        cell = f'<table:table-cell table:formula="{formula}"/>'
        name = (
            f'<table:named-expressions><table:named-expression table:expression="{formula}"/></table:named-expressions>'
        )
        for body in (f"<table:table><table:table-row>{cell}</table:table-row></table:table>", name):
            yield body, document("spreadsheet", body), found
    for source, found in (
        ('<table:database-source-sql table:database-name="http://a.example/a.odb"/>', "link.external"),
        ('<table:database-source-table table:database-name="\\\\server\\a.odb"/>', "link.external"),
        ('<table:database-source-query table:database-name=" file://server/a.odb"/>', "link.external"),
        ('<table:database-source-table table:database-name="Bibliography"/>', ""),
    ):
        ranges = f"<table:database-ranges><table:database-range>{source}</table:database-range></table:database-ranges>"
        yield source, document("spreadsheet", ranges), found


# Documents that are one XML file

WORD_2003 = "http://schemas.microsoft.com/office/word/2003/wordml"
EXCEL_2003 = "urn:schemas-microsoft-com:office:spreadsheet"
SCRIPT = 'xmlns:ooo="http://openoffice.org/2004/office" xmlns:script="urn:oasis:names:tc:opendocument:xmlns:script:1.0"'


def flat(family: str, body: str, head: str = "") -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document {NAMESPACES} {SCRIPT}>{head}<office:body>'
        f"<office:{family}>{body}</office:{family}></office:body></office:document>"
    ).encode()


def word_2003(body: str, attributes: str = 'w:macrosPresent="no" w:embeddedObjPresent="no"', head: str = "") -> bytes:
    return (
        '<?xml version="1.0" encoding="UTF-8" standalone="yes"?><?mso-application progid="Word.Document"?>'
        f'<w:wordDocument xmlns:w="{WORD_2003}" xmlns:v="urn:schemas-microsoft-com:vml" '
        f'xmlns:o="urn:schemas-microsoft-com:office:office" {attributes}>{head}'
        f"<w:body><w:p><w:r>{body}<w:t>DDE is old</w:t></w:r></w:p></w:body></w:wordDocument>"
    ).encode()


def excel_2003(sheet: str, book: str = "") -> bytes:
    return (
        f'<?xml version="1.0"?><?mso-application progid="Excel.Sheet"?><Workbook xmlns="{EXCEL_2003}" '
        f'xmlns:ss="{EXCEL_2003}" xmlns:x="urn:schemas-microsoft-com:office:excel">{book}<Worksheet ss:Name="S">{sheet}'
        '<Table><Row><Cell><Data ss:Type="String">=cmd|a!b http://a.example</Data></Cell></Row></Table></Worksheet></Workbook>'
    ).encode()


def flat_package(parts: str, progid: str = "Word.Document") -> bytes:
    return (
        f'<?xml version="1.0" standalone="yes"?><?mso-application progid="{progid}"?>'
        f'<p:package xmlns:p="http://schemas.microsoft.com/office/2006/xmlPackage">{parts}</p:package>'
    ).encode()


def flat_part(name: str, content: str, content_type: str = "application/xml") -> str:
    return f'<p:part p:name="{name}" p:contentType="{content_type}"><p:xmlData>{content}</p:xmlData></p:part>'


@flags("a.xml")
def test_document_in_one_xml_file_has_the_flags_of_its_package() -> Iterable[Row]:
    basic = (
        '<office:scripts><office:script script:language="ooo:Basic"><ooo:libraries><ooo:library-embedded ooo:name='
        '"Standard">{}</ooo:library-embedded></ooo:libraries></office:script></office:scripts>'
    )
    listener = (
        "<office:scripts><office:event-listeners><script:event-listener/></office:event-listeners></office:scripts>"
    )
    statistics = '<office:meta xmlns:meta="urn:oasis:names:tc:opendocument:xmlns:meta:1.0">{}</office:meta>'
    for family, body, head, found in (
        ("text", paragraph(), basic.format('<ooo:module ooo:name="M"/>'), "macro"),
        ("text", paragraph(), basic.format(""), ""),
        ("text", paragraph(), listener, "macro"),
        ("text", paragraph(), statistics.format('<meta:template xlink:href="http://a.example/a.ott"/>'), "template.remote"),
        ("text", '<draw:frame><draw:image xlink:href="http://a.example/a.png"/></draw:frame>', "", "link.external"),
        ("text", "<draw:frame><draw:object-ole/></draw:frame>", "", "object.ole"),
        ("text", "<text:dde-connection-decls><text:dde-connection-decl/></text:dde-connection-decls>", "", "dde"),
        ("spreadsheet", "<table:table><table:table-cell table:formula=\"of:=['http://a/a.ods'#$S.A1]\"/></table:table>", "",
         "link.external"),
        ("spreadsheet", "<table:table><table:table-cell table:formula=\"msoxl:=cmd|'/c calc'!A0\"/></table:table>", "", "dde"),
    ):  # fmt: skip
        data = flat(family, body, head)
        yield f"flat {data!r}", data, found
        yield f"flat {data!r} in UTF-16", data.decode().replace("UTF-8", "UTF-16").encode("utf-16"), found
    link = '<o:OLEObject Type="Link" ProgID="Excel.Sheet.8"/>'
    template = '<w:docPr><w:attachedTemplate w:val="{}"/></w:docPr>'
    for body, attributes, head, found in (
        ("", "", "", ""),
        ("", 'w:macrosPresent="no" w:embeddedObjPresent="no" w:ocxPresent="no"', "", ""),
        ("", 'w:macrosPresent="yes"', "", "macro"),
        ("", 'w:embeddedObjPresent="yes"', "", "object.ole"),
        ("", 'w:ocxPresent="on"', "", "object.activex"),
        ("", "", '<w:docSuppData><w:binData w:name="a">QQ==</w:binData></w:docSuppData>', "macro"),
        ('<w:pict><w:binData w:name="EditData.mso">QQ==</w:binData></w:pict>', "", "", "macro"),
        ("", "", '<w:docOleData><w:binData w:name="oledata.mso">QQ==</w:binData></w:docOleData>', "object.ole"),
        ('<w:ocx w:data="DATA:"/>', "", "", "object.activex"),
        (f"<w:pict>{link}</w:pict>", "", "", "object.ole link.external"),
        ("<w:instrText> DDE</w:instrText><w:instrText>AUTO cmd</w:instrText>", "", "", "dde"),
        ('</w:r><w:fldSimple w:instr=" DDEAUTO cmd "/><w:r>', "", "", "dde"),
        ("<w:instrText>QUOTE 68 68 69</w:instrText>", "", "", "dde"),
        ('<w:fldChar/><w:instrText> INCLUDEPICTURE "http://a.example/a.png" </w:instrText>', "", "", "link.external"),
        ('<w:fldChar/><w:instrText> HYPERLINK "http://a.example/" </w:instrText>', "", "", ""),
        ("", "", template.format("\\\\server\\t.dot"), "template.remote"),
        ("", "", template.format("C:\\Normal.dot"), ""),
        ('<w:pict><v:shape><v:imagedata src="\\\\server\\a.png"/></v:shape></w:pict>', "", "", "link.external"),
        ('<w:pict><v:shape href="http://a.example"><v:imagedata src="wordml://1.png"/></v:shape></w:pict>', "", "", ""),
        ('</w:r><w:subDoc w:link="a.doc"/><w:hlink w:dest="http://a.example/"/><w:r>', "", "", "link.external"),
        ("", "", '<w:docPr><w:mailMerge><w:dataSource w:val="a.mdb"/></w:mailMerge></w:docPr>', "link.external"),
        ('</w:r><w:frameset><w:frame><w:sourceFileName w:val="http://a.example/"/></w:frame></w:frameset><w:r>', "", "",
         "link.external"),
        ('</w:r><w:docVar w:name="a" w:val="http://a.example/"/><w:hlink w:dest="http://a.example/"/><w:r>', "", "", ""),
    ):  # fmt: skip
        yield f"Word 2003 {attributes} {head} {body}", word_2003(body, attributes, head), found
    for sheet, book, found in (
        ("", "", ""),
        ("<Table><Row><Cell ss:Formula=\"=cmd|'/c calc'!A0\"/></Row></Table>", "", "dde"),
        ("<Table><Row><Cell ss:Formula=\"='\\\\server\\[a.xls]S'!R1C1\"/></Row></Table>", "", "link.external"),
        ('<Table><Row><Cell ss:Formula="=[a.xls]S!R1C1"/></Row></Table>', "", "link.external"),
        ("<Table><Row><Cell ss:Formula='=WEBSERVICE(\"http://a.example\")'/></Row></Table>", "", "link.external"),
        (
            "<Table><Row><Cell ss:HRef='http://a.example' ss:Formula='=SUM(R[-1]C[2]:RC[1])+S!R1C1'/></Row></Table>",
            "",
            "",
        ),
        ("", '<Names><NamedRange ss:Name="a" ss:RefersTo="=cmd|calc!A0"/></Names>', "dde"),
        ("<x:DataValidation><x:Value>=cmd|calc!A0</x:Value></x:DataValidation>", "", "dde"),
        ("", "<x:ExcelWorkbook><x:SupBook><x:Path>a.xls</x:Path></x:SupBook></x:ExcelWorkbook>", "link.external"),
        ("<x:QueryTable><x:QuerySource/></x:QueryTable>", "", "link.external"),
        ("<x:WorksheetOptions><x:Unknown>https://a.example/</x:Unknown></x:WorksheetOptions>", "", "link.external"),
        ("<x:ExcelWorksheetType>MacroSheet</x:ExcelWorksheetType>", "", "macro.sheet"),
    ):
        yield f"Excel 2003 {book} {sheet}", excel_2003(sheet, book), found
    related = relations("attachedTemplate", "http://a.example/t", external=True).decode()
    objects = base64.b64encode(make_compound({"\x01Ole10Native": b"x" * 20})).decode()
    embedded = f'<p:part p:name="/word/embeddings/o.bin"><p:binaryData>{objects}</p:binaryData></p:part>'
    text = f'<w:document xmlns:w="{WORD}">{{}}</w:document>'
    for parts, found in (
        (flat_part("/word/_rels/settings.xml.rels", related), "template.remote"),
        (flat_part("/word/document.xml", text.format("<w:instrText>DDE cmd</w:instrText>")), "dde"),
        (flat_part("/word/document.xml", text.format("<w:t>DDE cmd</w:t>")), ""),
        (flat_part("/xl/a.xml", f'<a xmlns="{SHEET}"><f>cmd|calc!A0</f></a>'), "dde"),
        (flat_part("/a", "", "application/vnd.ms-office.vbaProject"), "macro"),
        (flat_part("/word/vbaProject.bin", ""), "macro"),
        (embedded, "object.ole package"),
        (flat_part("/customUI/a.xml", f'<customUI xmlns="{CUSTOM_UI}" onLoad="http://a/b.dotm!m"/>'), "link.external"),
        (flat_part("/customUI/a.xml", f'<customUI xmlns="{CUSTOM_UI}" onLoad="m"/>'), ""),
        (flat_part("/ppt/a.xml", f'<a:hlinkHover xmlns:a="{DRAWING}" action="ppaction://program"/>'), "link.external"),
        (flat_part("/ppt/a.xml", f'<a:hlinkClick xmlns:a="{DRAWING}" action="ppaction://program"/>'), ""),
        (flat_part("/ppt/a.xml", f'<p:cmd xmlns:p="{PRESENTATION}" type="verb"/>'), "object.ole"),
    ):
        yield f"package {parts}", flat_package(parts), found


def test_long_document_in_one_xml_file_is_searched_for_a_limited_time() -> None:
    data = excel_2003("<Table/>" * 5000)
    report = inspect_file(io.BytesIO(data), filename="a.xml", limits=Limits(soft_seconds=0))
    assert report.facts["flags_complete"] is False
    assert facts_of(data, "a.xml")["flags_complete"] is True


def test_document_in_one_xml_file_that_is_not_searched_leaves_the_flags_incomplete() -> None:
    drawing = (
        '<?xml version="1.0"?><VisioDocument xmlns="http://schemas.microsoft.com/visio/2003/core">{}</VisioDocument>'
    )
    entity = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "b">]>'
    with every_row() as row:
        for data, expected in (
            (flat("text", paragraph()), True),
            (word_2003(""), True),
            (excel_2003(""), True),
            (flat_package(flat_part("/ppt/presentation.xml", ""), "PowerPoint.Show"), True),
            (b'<?xml version="1.0"?><a>word</a>', True),
            (b'<?xml version="1.0"?><?mso-application progid="InfoPath.Document"?><a>word</a>', False),
            (b'<?xml version="1.0"?><?mso-application progid="Word.Document"?><a>word</a>', False),
            (drawing.format("a").encode(), False),
            (entity.encode() + flat("text", paragraph()).partition(b"?>")[2], False),
            (word_2003("", head="<w:docOleData/>"), False),
        ):
            with row(data):
                assert facts_of(data, "a.xml")["flags_complete"] is expected
    assert flags_of(drawing.format("<VBProjectData>QQ==</VBProjectData>").encode(), "a.vdx") == {"macro"}
    for name in ("a.fodt", "a.doc", "a.txt", "a.csv"):
        assert flags_of(word_2003("", 'w:macrosPresent="yes"'), name) == {"macro"}
        assert flags_of(flat("text", "<draw:object-ole/>"), name) == {"object.ole"}


@each_row(
    ("name", "expected"),
    [
        ("a.doc", {"disguised.{}", "type.alias"}), ("a.xls", {"disguised.{}", "type.alias"}), ("a.docx", {"disguised.{}"}),
        ("a.rtf", set()),
    ],
)  # fmt: skip
def test_rich_text_web_page_and_web_archive_under_an_office_name(name: str, expected: set[str]) -> None:
    def found(kind: str) -> set[str]:
        return {each.format(kind) for each in expected}

    assert flags_of(rb"{\rtf1\ansi One line.\par}", name) == found("rtf")
    if "type.alias" in expected:
        archive = b"From: a\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=b\r\n\r\n--b\r\n"
        assert flags_of(b"<html><body>One line.</body></html>", name) == found("html")
        assert flags_of(archive, name) == found("html")
    assert flags_of(b"<html><body>One line.</body></html>", "a.html") == set()
