"""Macros, objects, links, fields, pages, sheets and slides of Office documents."""

import io
import struct
from collections.abc import Mapping

from sluice_inspect import inspect_file
from sluice_inspect.formats import docx, pptx, xlsx
from sluice_inspect.formats.doc.format import make_word
from sluice_inspect.formats.msg import make_message
from sluice_inspect.formats.ppt import format as ppt
from sluice_inspect.formats.xls.format import make_number, make_record, make_workbook
from sluice_inspect.office.compound import make_compound
from sluice_inspect.report import Outcome
from tests.inspection.facts import facts_of, flags_of
from tests.inspection.formats.office_packages import package_of, parts_of
from tests.inspection.formats.opendocument_samples import document, paragraph
from tests.rows import each_row

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DOCX, XLSX, PPTX = docx.FORMAT.sample(), xlsx.FORMAT.sample(), pptx.FORMAT.sample()


def relations(*entries: tuple[str, str, str]) -> bytes:
    listed = "".join(
        f'<Relationship Id="r{number}" Type="{OFFICE}/{kind}" Target="{target}"{mode}/>'
        for number, (kind, target, mode) in enumerate(entries)
    )
    return f'<Relationships xmlns="{PACKAGE}">{listed}</Relationships>'.encode()


EXTERNAL = ' TargetMode="External"'


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


@each_row(
    "target", ["http://a.example/t.dotm", "https://a.example/t", "\\\\server\\t.dotm", "file://server/t.dotm",
               "file:\\\\server\\t.dotm"],
)  # fmt: skip
def test_remote_template(target: str) -> None:
    parts = {"word/_rels/settings.xml.rels": relations(("attachedTemplate", target, EXTERNAL))}
    assert flags_of(with_parts(DOCX, parts), "a.docx") == {"template.remote"}


def test_template_on_the_senders_own_computer_is_none() -> None:
    target = "file:///C:/Users/a/Templates/Normal.dotm"
    parts = {"word/_rels/settings.xml.rels": relations(("attachedTemplate", target, EXTERNAL))}
    assert flags_of(with_parts(DOCX, parts), "a.docx") == set()


def test_relation_is_found_however_it_is_written() -> None:
    plain = relations(("attachedTemplate", "http://a.example/t", EXTERNAL)).decode()
    wide = ('<?xml version="1.0" encoding="utf-16"?>' + plain).encode("utf-16")
    entity = plain.replace("External", "&#69;xternal").encode()
    for raw in (wide, entity):
        assert "template.remote" in flags_of(with_parts(DOCX, {"word/_rels/settings.xml.rels": raw}), "a.docx")


@each_row(
    ("kind", "flag"),
    [("aFChunk", "altchunk"), ("oleObject", "object.ole"), ("control", "object.activex"), ("vbaProject", "macro")],
)
def test_related_part_has_a_flag(kind: str, flag: str) -> None:
    parts = {"word/_rels/footer9.xml.rels": relations((kind, "part.bin", "")), "word/part.bin": b"x"}
    assert flags_of(with_parts(DOCX, parts), "a.docx") == {flag}


def test_linked_picture_is_an_external_link_and_a_hyperlink_is_none() -> None:
    linked = {"word/_rels/footer9.xml.rels": relations(("image", "http://a.example/a.png", EXTERNAL))}
    clicked = {"word/_rels/footer9.xml.rels": relations(("hyperlink", "http://a.example/", EXTERNAL))}
    assert flags_of(with_parts(DOCX, linked), "a.docx") == {"link.external"}
    assert flags_of(with_parts(DOCX, clicked), "a.docx") == set()


def test_vba_project_is_a_macro() -> None:
    assert flags_of(with_parts(DOCX, {"word/vbaProject.bin": b"x"}), "a.docm") == {"macro"}


def test_embedded_package_is_found_in_its_object() -> None:
    native = make_compound({"\x01Ole10Native": b"x" * 20})
    parts = {"word/embeddings/oleObject1.bin": native}
    assert flags_of(with_parts(DOCX, parts), "a.docx") == {"object.ole", "package"}


@each_row(
    "field",
    [
        '<w:instrText xml:space="preserve"> DDEAUTO c:\\\\windows\\\\cmd.exe "/k calc" </w:instrText>',
        "<w:instrText>DD</w:instrText></w:r><w:r><w:instrText>EAUTO cmd x</w:instrText>",
        "<w:instrText>&#68;DE cmd x</w:instrText>",
        "<w:instrText><![CDATA[DDE]]> cmd x</w:instrText>",
        "<w:instrText>D<!-- -->DE cmd x</w:instrText>",
    ],
)
def test_dde_field(field: str) -> None:
    assert flags_of(word(run(field)), "a.docx") == {"dde"}


def test_dde_in_a_simple_field() -> None:
    assert flags_of(word('<w:fldSimple w:instr=" DDE cmd x "/>' + run("")), "a.docx") == {"dde"}


def test_fields_of_honest_documents_are_no_dde() -> None:
    fields = run('<w:fldChar w:fldCharType="begin"/><w:instrText> PAGE </w:instrText>') + run("DDE is old")
    assert flags_of(word(fields.replace("DDE is old", "<w:t>DDE is old</w:t>")), "a.docx") == set()


BEGIN, END = '<w:fldChar w:fldCharType="begin"/>', '<w:fldChar w:fldCharType="end"/>'


@each_row(
    "field",
    [
        f'{BEGIN}<w:instrText xml:space="preserve"> INCLUDEPICTURE "http://a.example/a.png" \\d </w:instrText>{END}',
        f"{BEGIN}<w:instrText>INCLUDE</w:instrText></w:r><w:r><w:t/><w:instrText>TEXT &quot;a&quot;</w:instrText>{END}",
        f"{BEGIN}<w:instrText>&#76;INK Excel.Sheet.12 C:\\\\a.xlsx</w:instrText>{END}",
        f"{BEGIN}<w:instrText>import a.png</w:instrText>{END}",
        "</w:r><w:fldSimple w:instr='includepicture \"http://a.example/a.png\"'/><w:r>",
        '</w:r><w:fldSimple w:dirty=">" w:instr="INCLUDETEXT a"/><w:r>',
        '</w:r><w:fldSimple w:dirty="&#62;" w:instr="INCLUDETEXT a"/><w:r>',
    ],
)
@each_row("part", ["word/document.xml", "other/footnotes.xml"])
def test_field_that_loads_something_is_an_external_link(field: str, part: str) -> None:
    text = f'<w:document xmlns:w="{WORD}"><w:body>{run(field)}</w:body></w:document>'
    assert flags_of(with_parts(DOCX, {part: text.encode()}), "a.docx") == {"link.external"}


def test_field_that_has_to_be_clicked_is_no_external_link() -> None:
    fields = f'{BEGIN}<w:instrText> HYPERLINK "http://a.example/LINK/" </w:instrText>{END}<w:t>LINK a</w:t>'
    assert flags_of(word(run(fields) + '<w:fldSimple w:instr=" AUTHOR "/>'), "a.docx") == set()


SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def workbook_with(inner: str, encoding: str = "utf-8") -> bytes:
    sheet = f'<worksheet xmlns="{SHEET}"><sheetData><row>{inner}</row></sheetData></worksheet>'
    return with_parts(XLSX, {"xl/sheet1.xml": f'<?xml version="1.0" encoding="{encoding}"?>{sheet}'.encode(encoding)})


@each_row(
    ("formula", "flag"),
    [
        ('_xlfn.WEBSERVICE("http://a.example")', "link.external"),
        ('1+webservice ("http://a.example")', "link.external"),
        ('_xlfn.IMAGE("http://a.example/a.png")', "link.external"),
        ('_xlfn.FILTERXML(A1,"//a")', "link.external"),
        ('IM<!-- -->AGE("http://a.example/a.png")', "link.external"),
        ('&#73;MAGE("http://a.example/a.png")', "link.external"),
        ("<![CDATA[IMA]]>GE(A1)", "link.external"),
        ("'\"'!A1+IMAGE(A1)+'\"'!A1", "link.external"),
        ("cmd|'/c calc'!A0", "dde"),
        ("1+'cmd'|'/c calc'!A0", "dde"),
    ],
)
def test_function_of_a_workbook_that_loads_something(formula: str, flag: str) -> None:
    for encoding in ("utf-8", "utf-16"):
        assert flags_of(workbook_with(f"<c><f>{formula}</f><v>1</v></c>", encoding), "a.xlsx") == {flag}


@each_row("element", ["definedName", "formula", "formula1", "calculatedColumnFormula"])
def test_formula_outside_of_cells_that_loads_something(element: str) -> None:
    part = f'<a xmlns="{SHEET}"><{element}>IMAGE(A1)</{element}></a>'.encode()
    assert flags_of(with_parts(XLSX, {"xl/tables/table9.xml": part}), "a.xlsx") == {"link.external"}


def test_text_of_a_workbook_is_no_formula() -> None:
    text = "<c t=\"inlineStr\"><is><t>IMAGE(1) cmd|'x'!A0</t></is></c>"
    formula = '<c><f>SUM(A1:A2)+IMAGES(1)</f></c><c><f>IF(A1="IMAGE(x)",1,"a|\'b\'!c")</f></c>'
    assert flags_of(workbook_with(text + formula), "a.xlsx") == set()


def test_function_of_a_binary_workbook_that_loads_something() -> None:
    names = "_xlfn.WEBSERVICE".encode("utf-16-le")
    assert flags_of(with_parts(XLSX, {"xl/workbook9.bin": bytes(9) + names}), "a.xlsx") == {"link.external"}
    name = make_record(0x0018, bytes(14) + b"\x00_xlfn.IMAGE")
    assert flags_of(make_workbook([make_number(0, 0, 1)], before=name), "a.xls") == {"link.external"}


def test_dde_link_of_a_workbook() -> None:
    link = (
        '<externalLink xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        '<ddeLink ddeService="cmd" ddeTopic="x"/></externalLink>'
    )
    assert flags_of(with_parts(XLSX, {"xl/externalLinks/externalLink1.xml": link.encode()}), "a.xlsx") == {"dde"}


def test_macro_sheet_of_a_workbook() -> None:
    parts = {
        "xl/_rels/other.xml.rels": relations(("xlMacrosheet", "macrosheets/sheet1.xml", "")),
        "xl/macrosheets/sheet1.xml": b"<a/>",
    }
    assert flags_of(with_parts(XLSX, parts), "a.xlsm") == {"macro.sheet"}


def test_sheets_slides_and_pages_are_counted() -> None:
    assert facts_of(XLSX, "a.xlsx")["sheets"] == 1
    slides = parts_of(PPTX)["ppt/presentation.xml"].replace(
        b"<p:sldSz", b'<p:sldIdLst><p:sldId id="256"/><p:sldId id="257"/></p:sldIdLst><p:sldSz'
    )
    assert facts_of(with_parts(PPTX, {"ppt/presentation.xml": slides}), "a.pptx")["slides"] == 2
    stated = (
        '<Properties xmlns="http://schemas.openxmlformats.org/officeDocument/2006/extended-properties">'
        "<Pages>7</Pages></Properties>"
    )
    more = f'<Relationship Id="p" Type="{OFFICE}/extended-properties" Target="docProps/app.xml"/></Relationships>'
    root = parts_of(DOCX)["_rels/.rels"].replace(b"</Relationships>", more.encode())
    parts = {"_rels/.rels": root, "docProps/app.xml": stated.encode()}
    assert facts_of(with_parts(DOCX, parts), "a.docx")["pages"] == 7
    assert "pages" not in facts_of(DOCX, "a.docx")


def test_encrypted_package_is_encrypted() -> None:
    locked = make_compound({"EncryptedPackage": (16).to_bytes(8, "little") + bytes(32), "EncryptionInfo": bytes(64)})
    facts = facts_of(locked, "a.docx")
    assert (facts["encrypted"], facts["flags_complete"]) == (True, False)


# Made by another program with the password that Excel tries by itself.
AGILE = (
    '<encryption xmlns="http://schemas.microsoft.com/office/2006/encryption" '
    'xmlns:p="http://schemas.microsoft.com/office/2006/keyEncryptor/password"><keyEncryptors>'
    '<keyEncryptor><p:encryptedKey spinCount="100000" saltSize="16" blockSize="16" keyBits="256" hashSize="64" '
    'cipherAlgorithm="AES" cipherChaining="ChainingModeCBC" hashAlgorithm="SHA512" saltValue="laEwCFfWq/uZBTisnEQUeQ==" '
    'encryptedVerifierHashInput="vb2VIS1va3sorh1CnJoubg==" encryptedVerifierHashValue='
    '"PgUevTbJWQbig6D/RT/NouxONlkyyikUl9e0VlSOlJ+3WMYCB4qxqY12VmOpxhyzBtaw4qgK1ukstOtOlm8iqg=="/>'
    "</keyEncryptor></keyEncryptors></encryption>"
)
AGILE_INFO = bytes.fromhex("0400040040000000") + AGILE.encode()
STANDARD_INFO = bytes.fromhex(
    "04000200240000008c00000024000000000000000e66000004800000800000001800000000000000000000004d0069006300"
    "72006f0073006f0066007400200045006e00680061006e006300650064002000520053004100200061006e00640020004100"
    "450053002000430072007900700074006f0067007200610070006800690063002000500072006f0076006900640065007200"
    "0000100000004e899b74782b66764632e95da5e919888078684e77e2535d5c15ae834e13ae3f14000000e6f31630ea8be179"
    "9f5647a2669d3283d1a681527112c7c80683a93bbc4d5cc2"
)


def encrypted(info: bytes) -> bytes:
    return make_compound({"EncryptedPackage": (16).to_bytes(8, "little") + bytes(32), "EncryptionInfo": info})


@each_row("info", [AGILE_INFO, STANDARD_INFO])
def test_workbook_that_opens_with_the_password_of_excel_has_a_flag(info: bytes) -> None:
    report = inspect_file(io.BytesIO(encrypted(info)), filename="a.xlsx")
    assert (report.outcome, report.flags) == (Outcome.ENCRYPTED, ("encrypted.default",))
    assert (report.facts["encrypted"], report.facts["flags_complete"]) == (True, False)


@each_row(
    "info",
    [
        AGILE_INFO.replace(b"laEw", b"laEx"),
        AGILE_INFO.replace(b"100000", b"99999"),
        AGILE_INFO.replace(b"100000", b"100000000000"),
        AGILE_INFO.replace(b"256", b"-1"),
        AGILE_INFO.replace(b"SHA512", b"MD2"),
        AGILE_INFO[:300],
        AGILE_INFO[:8],
        STANDARD_INFO[:-40] + bytes(40),
        STANDARD_INFO[:40],
        b"",
    ],
)
def test_workbook_with_another_password_has_no_flag(info: bytes) -> None:
    assert flags_of(encrypted(info), "a.xlsx") == set()


# Old formats


def test_old_documents_have_their_counts() -> None:
    assert facts_of(make_workbook([make_number(0, 0, 1), make_number(0, 0, 2)]), "a.xls")["sheets"] == 2
    assert facts_of(ppt.FORMAT.sample(), "a.ppt")["slides"] == 1
    assert facts_of(make_workbook([make_number(0, 0, 1)]), "a.xls")["encrypted"] is False


def test_macro_sheet_of_an_old_workbook() -> None:
    sheet = make_record(0x0085, struct.pack("<LBBBB", 0, 0, 1, 0, 0))
    assert "macro.sheet" in flags_of(make_workbook([make_number(0, 0, 1)], before=sheet), "a.xls")


def test_dde_link_of_an_old_workbook() -> None:
    name = "cmd\x03/c calc"
    book = make_record(0x01AE, struct.pack("<HHB", 0, len(name), 0) + name.encode())
    assert flags_of(make_workbook([make_number(0, 0, 1)], before=book), "a.xls") == {"dde"}


def test_other_workbook_is_an_external_link_and_the_own_one_is_none() -> None:
    other = make_record(0x01AE, struct.pack("<HHB", 1, 5, 0) + b"a.xls")
    own = make_record(0x01AE, struct.pack("<HH", 1, 0x0401))
    assert flags_of(make_workbook([make_number(0, 0, 1)], before=other), "a.xls") == {"link.external"}
    assert flags_of(make_workbook([make_number(0, 0, 1)], before=own), "a.xls") == set()


@each_row(
    ("tree", "flag"),
    [
        ({"Macros": {"VBA": {"_VBA_PROJECT": b"x"}}}, "macro"),
        ({"ObjectPool": {"_1": {"\x03ObjInfo": b"x"}}}, "object.ole"),
        ({"ObjectPool": {"_1": {"\x01Ole10Native": b"x"}}}, "package"),
    ],
)
def test_storage_of_an_old_document_has_a_flag(tree: Mapping[str, object], flag: str) -> None:
    whole: dict[str, object] = {"WordDocument": bytes(2000), "1Table": bytes(100), **tree}
    assert flag in flags_of(make_compound(whole), "a.doc")  # type: ignore[arg-type]


@each_row("field", ["\x13 DDEAUTO cmd x \x14\x15", "\x13DDE cmd\x15"])
@each_row("encoding", ["latin-1", "utf-16-le"])
def test_dde_field_of_an_old_document(field: str, encoding: str) -> None:
    stream = bytes(1500) + field.encode(encoding)
    assert "dde" in flags_of(make_compound({"WordDocument": stream, "1Table": bytes(100)}), "a.doc")


def test_plain_old_document_has_no_flags() -> None:
    assert flags_of(make_word("One line."), "a.doc") == set()


def test_attachments_of_an_outlook_item_have_kinds() -> None:
    item = make_message({0x0037: "A", 0x1000: "B"}, [{0x3707: "run.js", 0x3701: b"x"}, {0x3707: "a.pdf", 0x3701: b"x"}])
    assert flags_of(item, "a.msg") == {"attachment.script", "attachment.document"}
    assert facts_of(item, "a.msg")["attachments"] == 2


# OpenDocument


def test_opendocument_has_counts() -> None:
    tables = "<table:table><table:table-row/></table:table>" * 3
    assert facts_of(document("spreadsheet", tables), "a.ods")["sheets"] == 3
    assert facts_of(document("presentation", "<draw:page/><draw:page/>"), "a.odp")["slides"] == 2
    meta = (
        b'<office:document-meta xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        b'xmlns:meta="urn:oasis:names:tc:opendocument:xmlns:meta:1.0"><office:meta>'
        b'<meta:document-statistic meta:page-count="4"/></office:meta></office:document-meta>'
    )
    facts = facts_of(document("text", paragraph(), others={"meta.xml": meta}), "a.odt")
    assert (facts["pages"], facts["encrypted"], facts["flags_complete"]) == (4, False, True)


@each_row(
    ("body", "flag"),
    [
        ('<draw:frame><draw:image xlink:href="http://a.example/a.png"/></draw:frame>', "link.external"),
        ('<draw:frame><draw:object xlink:href="file:///C:/a.ods"/></draw:frame>', "link.external"),
        ('<draw:frame><draw:object xlink:href=" //server/a.ods"/></draw:frame>', "link.external"),
        ('<draw:frame><draw:object xlink:href="\\\\server\\a.ods"/></draw:frame>', "link.external"),
        ('<draw:frame><draw:image xlink:href="../a.png"/></draw:frame>', "link.external"),
        ('<draw:frame><draw:image xlink:href="&#x2e;./a.png"/></draw:frame>', "link.external"),
        ('<text:section><text:section-source xlink:title=">" xlink:href="/srv/a.odt"/></text:section>', "link.external"),
        ('<text:p><text:span text:formula="of:=WEBSERVICE(&quot;http://a&quot;)"/></text:p>', "link.external"),
        ('<text:p><text:span text:formula="of:=dde(&quot;soffice&quot;)"/></text:p>', "dde"),
        ("<text:dde-connection-decls><text:dde-connection-decl/></text:dde-connection-decls>", "dde"),
        ("<draw:frame><draw:object-ole/></draw:frame>", "object.ole"),
    ],
)  # fmt: skip
def test_opendocument_element_has_a_flag(body: str, flag: str) -> None:
    assert flags_of(document("text", paragraph() + body), "a.odt") == {flag}


def test_parts_of_the_package_are_no_external_links() -> None:
    frames = "".join(
        f'<draw:frame><draw:object xlink:href="{address}"/></draw:frame>'
        for address in ("./Object 1", "Pictures/a.png", "#a", "", "Object%201/../a")
    )
    assert flags_of(document("text", paragraph() + frames), "a.odt") == set()


def test_object_within_a_document_that_loads_something_is_an_external_link() -> None:
    inner = parts_of(document("text", '<draw:image xlink:href="http://a.example/a.png"/>'))["content.xml"]
    package = document("text", paragraph(), others={"Object 1/content.xml": inner})
    assert flags_of(package, "a.odt") == {"link.external"}


@each_row(
    ("element", "address", "flags"),
    [
        ("template", "http://a.example/a.ott", {"template.remote"}),
        ("template", "file:///home/a/a.ott", set()),
        ("auto-reload", "http://a.example/a.odt", {"link.external"}),
    ],
)
def test_template_and_next_document_of_opendocument(element: str, address: str, flags: set[str]) -> None:
    meta = (
        '<office:document-meta xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:meta="urn:oasis:names:tc:opendocument:xmlns:meta:1.0" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f'<office:meta><meta:{element} xlink:href="{address}"/></office:meta></office:document-meta>'
    )
    assert flags_of(document("text", paragraph(), others={"meta.xml": meta.encode()}), "a.odt") == flags


def test_hyperlink_of_opendocument_has_no_flag() -> None:
    link = '<text:p><text:a xlink:href="http://a.example/">a</text:a></text:p>'
    assert flags_of(document("text", link), "a.odt") == set()


def test_macros_of_opendocument_and_their_empty_lists() -> None:
    module = {"Basic/Standard/Module1.xml": b"<a/>", "Basic/script-lc.xml": b"<a/>"}
    assert flags_of(document("text", paragraph(), others=module), "a.odt") == {"macro"}
    assert flags_of(document("text", paragraph(), others={"Basic/script-lc.xml": b"<a/>"}), "a.odt") == set()


# Disguises


@each_row(
    ("extension", "flags"),
    [
        ("doc", {"disguised.rtf", "type.alias"}),
        ("xls", {"disguised.rtf", "type.alias"}),
        ("docx", {"disguised.rtf"}),
    ],
)  # fmt: skip
def test_rich_text_under_another_office_name(extension: str, flags: set[str]) -> None:
    assert flags_of(rb"{\rtf1\ansi One line.\par}", f"a.{extension}") == flags


@each_row("name", ["a.doc", "a.xls"])
def test_web_page_and_web_archive_under_an_office_name(name: str) -> None:
    page = b"<html><body>One line.</body></html>"
    archive = b"From: a\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=b\r\n\r\n--b\r\n"
    assert flags_of(page, name) == {"disguised.html", "type.alias"}
    assert flags_of(archive, name) == {"disguised.html", "type.alias"}


def test_own_name_is_no_disguise() -> None:
    assert flags_of(rb"{\rtf1\ansi One line.\par}", "a.rtf") == set()
    assert flags_of(b"<html><body>One line.</body></html>", "a.html") == set()
