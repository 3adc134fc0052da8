"""Flags of Rich Text, PDF, markup, tables and mail."""

import base64
import io
import zlib
from collections.abc import Iterable
from itertools import product

import pikepdf
from hypothesis import given
from hypothesis import strategies as st

from sluice_inspect import inspect_file
from sluice_inspect.facts import pages, texts
from sluice_inspect.formats import epub
from sluice_inspect.text.late_pattern import LatePattern
from tests.inspection.facts import Row, facts_of, flags, flags_of
from tests.inspection.formats.office_packages import package_of, parts_of
from tests.inspection.formats.pdf_samples import pdf, resaved, stream, text
from tests.rows import each_row, every_row

PROGRAM = b"\x7fELF" + bytes(60)


def rtf(inner: str) -> bytes:
    return ("{\\rtf1\\ansi One line." + inner + "\\par}").encode("latin-1")


@flags("a.rtf")
def test_template_object_or_field_of_rich_text() -> Iterable[Row]:
    for inner, found in (
        (r"{\*\template http://a.example/t.dotm}", "template.remote"),
        (r"{\*\template \\\\server\\t.dotm}", "template.remote"),
        (r"{\*\template {\b h}ttp://a.example}", "template.remote"),
        (r"{\*\template \'68ttp://a.example}", "template.remote"),
        (r"{\*\template \u104?ttp://a.example}", "template.remote"),
        (r"{\*\template C:\\Users\\a\\Normal.dotm}", ""),
        (
            r"{\object\objemb{\*\objdata " + "0105000002000000" + "08000000" + "5061636b61676500" + "00000000" + "}}",
            "object.ole package",
        ),
        (r"{\object\objocx{\*\objdata 0105}}", "object.activex object.ole"),
        (r"{\object\objautlink{\*\objclass X}}", "link.external"),
    ):
        yield inner, rtf(inner), found
    for field, found in (
        (r"DDEAUTO c:\\windows\\cmd.exe x", "dde"),
        (r"{\b DD}{\i EAUTO} cmd", "dde"),
        (r" \u68?DE cmd", "dde"),
        (r"D\'44E cmd", "dde"),
        ("DD\r\nE cmd", "dde"),
        ("QUOTE 68 68 69 cmd", "dde"),
        ('HYPERLINK "http://a.example/"', ""),
        ('INCLUDEPICTURE "http://a.example/a.png"', "link.external"),
    ):
        yield field, rtf(r"{\field{\*\fldinst " + field + r"}{\fldrslt x}}"), found


def in_unicode(text_: str, fallback: str = "") -> str:
    return "".join(f"\\u{ord(each)} {fallback}" for each in text_)


@flags("a.rtf")
def test_instruction_of_rich_text_is_read_as_readers_read_it() -> Iterable[Row]:
    for field, found in (
        (r"\uc0\u68 DEAUTO cmd", "dde"),
        (r"\uc0 " + in_unicode("DDE") + " cmd", "dde"),
        (r"\uc0" + in_unicode("INCLUDEPICTURE") + ' "http://a.example/a.png"', "link.external"),
        (r"\uc2" + in_unicode("LINK", "ab") + r" Excel.Sheet.8 a.xls", "link.external"),
        (r"\uc2\u68ab\u68\'61\'62\u69a\'62 cmd", "dde"),
        (r"\uc3\u68 ?\emdash\~DE cmd", "dde"),
        (r"\uc1\u68\par DE cmd", "dde"),
        (r"\u68\uc0 DE cmd", "dde"),
        ("\\u68\r\n?DE cmd", "dde"),
        (r"\u68\bin2 }}DE cmd", "dde"),
        (r"\uc2\u68\bin0 \bin1 xDE cmd", "dde"),
        (r"\uc9{\u68 abc}DE cmd", "dde"),
        (r"\uc0{\uc2\u68 ab}\u68 E cmd", "dde"),
        (r"\uc\u68 ?DE cmd", "dde"),
        (r"\u-65468?DE cmd", "dde"),
        (r"\u0000000000068?DE cmd", "dde"),
        (r"{\upr{x}{\*\ud{DDEAUTO cmd}}}", "dde"),
        (r"{\upr{DDE cmd}{\*\ud{x}}}", "dde"),
        (r"D{\upr{x}{\*\ud\uc0\u68 E}} cmd", "dde"),
        (r"DD{\*\foo bar}EAUTO cmd", "dde"),
        (r"DD{\*\foo{\b b}\'61{\*\c d}r}EAUTO{\*\foo2 x} cmd", "dde"),
        ("DD{\\*\r\n\\foo bar}EAUTO cmd", "dde"),
        (r"{\*\b DD}{\*\foo x}EAUTO cmd", "dde"),
        (r"{\*\c D}{\*\foo x}{\*\d D}{\*\e E} cmd", "dde"),
        (r"DD{\comment bar}EAUTO cmd", "dde"),
        (r"D{\*\bkmkstart a}D{\listtext b}E{\nonesttables c}AUTO cmd", "dde"),
        (r"D{\xe D}DE cmd", "dde"),
        (r"DD{\b\*\foo bar}EAUTO cmd", "dde"),
        (r"DD\bin3 xyzEAUTO cmd", "dde"),
        (r"DD\bin3 }}}EAUTO cmd", "dde"),
        (r"x\bin4 DDE cmd", ""),
        (r"x\bin5  DDE cmd", "dde"),
        (r"DDE\tab cmd", "dde"),
        (r"DDEAUTO\~cmd", "dde"),
        (r"DDEAUTO\'0dcmd", "dde"),
        (r"DD\-E\tab cmd", "dde"),
        (r"D\'zzDE cmd", "dde"),
        (f"DD\\{'a' * 40} E cmd", "dde"),
        (r"x\fldinst DDE cmd", "dde"),
        (r"DD\fldinst EAUTO cmd", "dde"),
        (r"\template DDEAUTO cmd", "dde"),
        (r"\uc0{\field{\*\fldinst QUOTE " + in_unicode("68 68 69") + "}} cmd", "dde"),
        (r"{\*\foo " + "x" * 80_000 + "}DDE cmd", "dde"),
        (r"\u1044?\u1044?\u1077? DATE {\*\datafield 444445}{\*\formfield{\*\ffname DDE}}", ""),
        (r'\hich\af0 HYPER{\b LINK} "http://a.example/\uc1\u1044\'c4" {\*\datafield 4c494e4b}', ""),
        (r"\uc1\u68?x\u68?x\u69?x", ""),
    ):
        yield field[:60], rtf(r"{\field{\*\fldinst " + field + r"}{\fldrslt x}}"), found
    for head, inner, found in (
        (r"\uc0", r"{\field{\*\fldinst " + in_unicode("DDE") + " cmd}}", "dde"),
        (r"{\uc2{\b\uc1 a}", r"{\field{\*\fldinst " + in_unicode("DDE", "ab") + " cmd}}}", "dde"),
        (r"\uc0", r"{\*\template " + in_unicode("http:") + "//a.example}", "template.remote"),
        ("", r"{\*\template {\*\foo C:}{\upr{C:}{\*\ud h}}\bin1 }ttp://a.example}", "template.remote"),
        ("", r"{\*\template \uc0\u92 \\server\\a.dot}", "template.remote"),
        (
            "",
            r"{\object\objemb{\*\objdata 01050000020000000800000050616{\*\foo 1}36b61{\uc2\u1 }\bin1 g6500}}",
            "object.ole package",
        ),
        ("", r"{\field{\*\fldinst \bin99999 }}{\field{\*\fldinst DDE cmd}}", "dde"),
    ):
        yield head + inner, rtf(head + inner), found


@each_row("count", [8, 40])
def test_instruction_in_more_readings_than_are_tried_is_not_complete(count: int) -> None:
    decoys = "".join(rf"{{\*\foo{'abcdefgh'[at % 8] * (at // 8 + 1)} x}}" for at in range(count))
    for text_ in (
        r"{\field{\*\fldinst " + decoys + "a}}",
        "".join(rf"\uc{at}" for at in range(99)) + r"{\fldinst\u1 }",
    ):
        assert facts_of(rtf(text_), "a.rtf")["flags_complete"] is False


# PDF


def one_page(catalog: str = "", objects: dict[int, bytes | str] | None = None) -> bytes:
    return pdf(text("word"), catalog=catalog, objects=objects)


def test_plain_pdf_has_pages_and_no_flags() -> None:
    facts = facts_of(pdf(text("a"), text("b")), "a.pdf")
    assert facts == {"pages": 2, "attachments": 0, "encrypted": False, "flags_complete": True}
    assert flags_of(one_page(), "a.pdf") == set()


@each_row(
    ("name", "content", "kind"),
    [
        ("run.exe", stream(b"content", "/Type/EmbeddedFile"), "program"),
        ("a.js", stream(b"content", "/Type/EmbeddedFile"), "script"),
        ("a.txt", stream(b"content", "/Type/EmbeddedFile"), "document"),
        ("a.zip", stream(b"content", "/Type/EmbeddedFile"), "archive"),
        ("a.pdf", stream(PROGRAM, "/Type/EmbeddedFile", packed=True), "program"),
    ],
)
def test_attachments_of_a_pdf_have_kinds(name: str, content: bytes, kind: str) -> None:
    attached = f"<</Type/Filespec/F({name})/EF<</F 101 0 R>>>>"
    data = one_page("/Names<</EmbeddedFiles<</Names[(a) 100 0 R]>>>>", {100: attached, 101: content})
    assert (flags_of(data, "a.pdf"), facts_of(data, "a.pdf")["attachments"]) == ({f"attachment.{kind}"}, 1)


XFA = b"<xdp><template><event><x:script xmlns:x='a'>x</x:script></event></template></xdp>"
SIMPLE_XFA = b"<xdp><template><event><script>x</script></event></template></xdp>"
WIDE_XFA = XFA.decode().encode("utf-16")
PLAIN_XFA = b"<xdp><template>script <description>scripted</description></template></xdp>"


@flags("a.pdf")
def test_script_of_a_form_is_found_however_its_packets_are_written() -> Iterable[Row]:
    for number, (packets, found) in enumerate(
        [
            ([stream(XFA[:25]), stream(XFA[25:28], packed=True), stream(XFA[28:])], "script.pdf"),
            ([stream(WIDE_XFA)], "script.pdf"),
            ([stream(XFA.decode().encode("utf-16-be"))], "script.pdf"),
            ([stream(WIDE_XFA[:61]), stream(WIDE_XFA[61:])], "script.pdf"),
            ([stream(part.decode().encode("utf-16")) for part in (XFA[:30], XFA[30:])], "script.pdf"),
            ([stream(XFA.hex().encode() + b">", "/Filter/ASCIIHexDecode")], "script.pdf"),
            ([stream(base64.a85encode(XFA, adobe=True)[2:], "/Filter/ASCII85Decode")], "script.pdf"),
            ([stream(base64.a85encode(zlib.compress(XFA * 40)) + b"~>", "/Filter[/A85/Fl]")], "script.pdf"),
            ([stream(zlib.compress(zlib.compress(XFA)).hex().encode(), "/Filter[/AHx/Fl/Fl]")], "script.pdf"),
            ([stream(PLAIN_XFA[:20]), stream(PLAIN_XFA[20:], packed=True)], ""),
        ]
    ):
        listed = " ".join(f"(p{at}) {100 + at} 0 R" for at in range(len(packets)))
        objects: dict[int, bytes | str] = {100 + at: each for at, each in enumerate(packets)}
        yield f"form {number}", one_page(f"/AcroForm<</Fields[]/XFA[{listed}]>>", objects), found


@flags("a.pdf")
def test_form_that_loads_or_sends_something_by_itself_has_a_flag() -> Iterable[Row]:
    def event(activity: str, target: str = "https://a.example/") -> str:
        return f'<event {activity}><submit format="xml" target="{target}"><encrypt/></submit></event>'

    connection = '<c:connectionSet><c:{0} name="a"><c:{1}>{2}</c:{1}></c:{0}></c:connectionSet>'
    rows = [
        ('<image href="http://a.example/a.png"/>', True),
        ("<x:image\nxmlns:x='a' alt='>' href = ' h&#10;ttp://a.example/a.png'>AA==</x:image>", True),
        ('<image href="\\\\server\\a.png"/>', True),
        ('<field usehref="//server/a.xdp#b"/>', True),
        ('<exData href="file://server/a.html"/>', True),
        ('<exObject codeBase="http://a.example/"/>', True),
        ('<body xmlns="http://www.w3.org/1999/xhtml"><p><img src="https://a.example/a.png"/></p></body>', True),
        ('<?xml-stylesheet type="text/xsl" href="\\\\server\\a.xslt"?>', True),
        ('<xsl:include href="http://a.example/a.xslt"/>', True),
        ('<xsl:value-of select="document(&apos;http://a.example/a&apos;)"/>', True),
        (event('activity="ready" ref="$form"'), True),
        (event("activity='&#105;nitialize'", "ht&#x09;tp://a.example/"), True),
        ('<event activity="click"/>' + event('activity="docReady"', "\\\\server\\a"), True),
        ("<!-- <event> -->" + event("activity='exit'").replace("<submit", "<!-- </event> --><submit"), True),
        (connection.format("xmlConnection", "uri", "http://a.example/"), True),
        (connection.format("xsdConnection", "uri", "<![CDATA[ http:]]>//a<!-- -->.example/"), True),
        (connection.format("wsdlConnection", "soapAddress", "\n https&#58;//a.example/a "), True),
        (connection.format("wsdlConnection", "wsdlAddress", "https://a.example/a?wsdl"), True),
        ("<datasets><data/></datasets>" + connection.format("xmlConnection", "uri", "//server/a"), True),
        ('<config><template><base>http://a.example/</base></template></config><image href="a.png"/>', True),
        ("<config><data><xsl><uri>\\\\server\\a.xslt</uri></xsl></data></config>", True),
        ('<!DOCTYPE a SYSTEM "http://a.example/a.dtd">', True),
        ("<!DOCTYPE a PUBLIC 'a' '//server/a.dtd'>", True),
        ("<datasets><x x:contentType='image/png' href='http://a.example/'/></datasets>", True),
        ("<template><datasets><image href='http://a.example/'/></datasets></template>", True),
        (connection.format("xmlConnection", "uri", "<uri/>" + " " * 9000 + "http://a.example/"), True),
        ("<sourceSet><source><connectString>Provider=x;Data Source = a</connectString></source></sourceSet>", True),
        (event(""), False),
        (event('activity="click"'), False),
        (event('activity="mouseUp"'), False),
        (event('activity="ready"', ""), False),
        ('<image href="a.png"/><field usehref="a.xdp#b"/><image href="data:image/png;base64,AA=="/>', False),
        ('<image href="C:\\a.png">AA==</image><exData href="file:///C:/a.html"/>', False),
        (
            '<body xmlns="http://www.w3.org/1999/xhtml"><a href="https://a.example/">image href="http://a"</a></body>',
            False,
        ),
        ("<datasets><data><uri>http://a.example/</uri><x href='http://a.example/'/></data></datasets>", False),
        (connection.format("wsdlConnection", "soapAction", "http://tempuri.org/a"), False),
        (connection.format("xmlConnection", "uri", "a.xml"), False),
        ("<config><template><base>http://a.example/</base></template></config>", False),
        ('<xdp a:schemaLocation="http://a.example/ a.xsd"/><!-- <image href="http://a.example/"/> -->', False),
        ("<speak><![CDATA[<image href='http://a.example/'/>]]></speak>", False),
    ]
    for inner, is_loading in rows:
        form = f'<xdp:xdp xmlns:xdp="http://ns.adobe.com/xdp/">{inner}</xdp:xdp>'
        for data in (form.encode(), form.encode("utf-16")):
            objects: dict[int, bytes | str] = {100: stream(data[:98]), 101: stream(data[98:], packed=True)}
            found = "link.external" if is_loading else ""
            yield inner, one_page("/AcroForm<</Fields[]/XFA[(a) 100 0 R(b) 101 0 R]>>", objects), found


@flags("a.pdf")
def test_content_of_a_page_that_is_in_another_file_has_a_flag() -> Iterable[Row]:
    specifications = (
        ("(\\\\\\\\server\\\\a.pdf)", "link.external"),
        ("<</FS/URL/F(http://a.example/a.pdf)>>", "link.external"),
        ("<</Type/Filespec/F(a.pdf)/UF<feff002f002f0061002f0062>>>", "link.external"),
        ("102 0 R", "link.external"),
        ("(a.pdf)", ""),
        ("(/c/a.pdf)", ""),
    )
    entries = ("/Ref<</F {}/Page 0>>", "/R#65f 101 0 R", "/OPI<</2.0<</Type/OPI/F {}>>>>", "/OPI<</1.3 101 0 R>>")
    for (specification, found), entry in product(specifications, entries):
        form = "/Type/XObject/Subtype/Form/BBox[0 0 9 9]" + entry.format(specification)
        objects: dict[int, bytes | str] = {
            100: stream(b"q Q", form),
            101: f"<</F {specification}/Version 1.3>>",
            102: "<</Type/Filespec/F(//server/a.pdf)>>",
        }
        yield f"{entry} {specification}", one_page("/X 100 0 R", objects), found
    yield "an element of the structure", one_page("/X 100 0 R", {100: "<</S/P/Ref[101 0 R]>>", 101: "<</S/P>>"}), ""


@flags("a.pdf")
def test_action_that_starts_by_itself_has_the_flags_of_what_it_opens() -> Iterable[Row]:
    actions = (
        ("/S/GoToR/F(//server/a.pdf)/D[0/Fit]", "launch.pdf link.external"),
        ("/S/GoToR/F<</F(x)/UF(\\\\\\\\server\\\\a.pdf)>>/D[0/Fit]", "launch.pdf link.external"),
        ("/S/GoToE/F 101 0 R/D[0/Fit]", "launch.pdf link.external"),
        ("/S/GoToR/F(other.pdf)/D[0/Fit]", ""),
        ("/S/GoTo/D[10 0 R/Fit]", ""),
        ("/S/SubmitForm/F<</FS/URL/F(https://a.example/)>>", "link.external"),
        ("/S/ImportData/F(//server/a.fdf)", "link.external"),
        ("/S/URI/URI(https://a.example/)", "link.external"),
        ("/S/URI/URI(file:///C:/a.exe)", "launch.pdf"),
        ("/S/URI/URI(java\nscript:x)", "script.pdf"),
        ("/S/URI/URI<feff006a006100760061007300630072006900700074003a0078>", "script.pdf"),
        ("/S/GoTo/D[10 0 R/Fit]/Next[102 0 R]", "link.external"),
    )
    triggers = "/OpenAction<<{}>>", "/OpenAction 100 0 R", "/AA<</WC<<{}>>>>", "/AA<</WC 100 0 R>>", "/AA 103 0 R"
    for (action, found), trigger in product(actions, triggers):
        objects: dict[int, bytes | str] = {
            100: f"<<{action}>>",
            101: "<</Type/Filespec/UF(http://a.example/a.pdf)>>",
            102: "<</S/URI/URI(http://a.example/)/Next 100 0 R>>",
            103: "<</O 100 0 R>>",
        }
        if "103" not in trigger and "100 0 R" not in trigger and "102" not in action:
            del objects[100]
        yield f"{action} {trigger}", one_page(trigger.format(action), objects), found
    clicked = (
        ("/S/URI/URI(https://a.example/)", ""),
        ("/S/SubmitForm/F<</FS/URL/F(https://a.example/)>>", ""),
        ("/S/URI/URI(javascript:x\\(\\))", "script.pdf"),
    )
    for (action, found), entry in product(clicked, ("/A<<{}>>", "/AA<</U<<{}>>>>")):
        note = "<</Type/Annot/Subtype/Link/Rect[0 0 9 9]" + entry.format(action) + ">>"
        yield f"{action} to click {entry}", one_page("/X 100 0 R", {100: note}), found


@each_row("levels", [20, 60, 450])
@each_row(("opens", "closes"), [("<</S/GoTo/D[0]/Next", ">>"), ("[", "]"), ("<</A[", "]>>")])
def test_nested_action_of_a_pdf_has_a_flag(levels: int, opens: str, closes: str) -> None:
    levels = levels // len(closes.replace(">>", "]"))
    nested = opens * levels + "<</S/JavaScript/JS(x)>>" + closes * levels
    report = inspect_file(io.BytesIO(one_page(f"/X {nested}")), filename="a.pdf")
    assert (report.flags, report.facts["flags_complete"]) == (("script.pdf",), True)


def test_pdf_that_is_nested_more_deeply_than_its_reader_goes_has_all_flags_of_actions() -> None:
    nested = "<</Next" * 900 + "<</S/JavaScript/JS(x)>>" + ">>" * 900
    report = inspect_file(io.BytesIO(one_page("/X 100 0 R", {100: nested})), filename="a.pdf")
    assert (report.flags, report.facts["flags_complete"]) == (("launch.pdf", "script.pdf"), False)


MODEL = stream(b"u3d", "/Type/3D/Subtype/U3D/OnInstantiate 101 0 R")
MEDIUM = "<</Type/RichMediaActivation/Condition/PV/Scripts[<</Type/Filespec/F(a)/EF<</F 101 0 R>>>>]>>"


@flags("a.pdf")
def test_action_script_or_link_of_a_pdf_has_a_flag() -> Iterable[Row]:
    acting: list[tuple[str, dict[int, bytes | str], str]] = [
        ("/OpenAction<</S/JavaScript/JS(app.alert\\(1\\))>>", {}, "script.pdf"),
        ("/OpenAction<</S/#4aavaScript/#4aS(x)>>", {}, "script.pdf"),
        ("/AA<</WC<</S/JavaScript/JS 100 0 R>>>>", {100: stream(b"app.alert(1)")}, "script.pdf"),
        ("/OpenAction<</S/Launch/F(cmd.exe)>>", {}, "launch.pdf"),
        ("/OpenAction<</S/#4caunch/F(cmd.exe)>>", {}, "launch.pdf"),
        ("/Info<</Title(/JS /Launch /EF)>>", {}, ""),
        ("/AcroForm<</Fields[]/XFA 100 0 R>>", {100: stream(SIMPLE_XFA, packed=True)}, "script.pdf"),
        ("/X 100 0 R", {100: MODEL, 101: stream(b"x")}, "script.pdf"),
        ("/X 100 0 R", {100: MODEL, 101: stream(b"x", packed=True)}, "script.pdf"),
        ("/X 100 0 R", {100: MEDIUM, 101: stream(b"x", "/Type/EmbeddedFile")}, "script.pdf attachment.other"),
        ("/X 100 0 R", {100: stream(b"", "/F<</FS/URL/F(http://a.example/a)>>")}, "link.external"),
    ]
    for catalog, objects, found in acting:
        yield catalog, one_page(catalog, objects), found
    whole = one_page("/OpenAction<</S/JavaScript/JS(x)>>")
    damaged = whole.replace(b"xref", b"xxef").replace(b"startxxef", b"startxref")
    yield "damaged", damaged, "script.pdf"
    packed = resaved(whole, object_stream_mode=pikepdf.ObjectStreamMode.generate)
    assert b"JavaScript" not in packed
    yield "packed", packed, "script.pdf"


@each_row(("user", "expected"), [("secret", True), ("", False)])
def test_password_of_a_pdf(user: str, *, expected: bool) -> None:
    locked = resaved(one_page(), encryption=pikepdf.Encryption(owner="o", user=user, R=6))
    assert facts_of(locked, "a.pdf")["encrypted"] is expected


# Markup


def svg(inner: str, attributes: str = "") -> bytes:
    path = '<path d="M0 0L9 9" stroke="black"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {attributes}>{path}{inner}</svg>'.encode()


def test_size_of_a_drawing_if_it_states_one() -> None:
    facts = facts_of(svg("", 'width="90px" height="45"'), "a.svg")
    assert (facts["width"], facts["height"], facts["pixels"]) == (90, 45, 4050)
    assert "width" not in facts_of(svg("", 'width="100%" height="45"'), "a.svg")


XLINK = 'xmlns:xlink="http://www.w3.org/1999/xlink"'
STYLE_SHEET = b'<?xml-stylesheet type="text/css" href="http://a.example/a.css"?>'


@flags("a.svg")
def test_script_or_external_link_of_a_drawing() -> Iterable[Row]:
    for inner, found in (
        ("<script>x</script>", "script.svg"),
        ('<s:script xmlns:s="http://www.w3.org/2000/svg">x</s:script>', "script.svg"),
        ('<path d="M0 0" onfocusout="x()"/>', "script.svg"),
        ('<a href=" java&#10;script:x()"><path d="M0 0"/></a>', "script.svg"),
        ('<set attributeName="href" to="javascript:x()"/>', "script.svg"),
        ('<a href="https://a.example/"><text>script onload= javascript:</text></a>', ""),
        ('<image href="http://a.example/a.png"/>', "link.external"),
        (f'<image {XLINK} xlink:href="\\\\server\\a.png"/>', "link.external"),
        ('<use href="//a.example/a.svg#a"/>', "link.external"),
        ('<rect fill="url(http://a.example/a.svg#a)"/>', "link.external"),
        ('<rect style="filter: url(&apos;https://a.example/a.svg#a&apos;)"/>', "link.external"),
        ('<style>@import "https://a.example/a.css";</style>', "link.external"),
        ("<style><![CDATA[a{background:url(//a.example/a.png)}]]></style>", "link.external"),
        ('<h:img xmlns:h="http://www.w3.org/1999/xhtml" src="http://a.example/a.png"/>', "link.external"),
        (
            f'<a {XLINK} xlink:href="http://a.example/"><path d="M0 0"/></a><rect fill="url(#a)"/><image href="a.png"/>',
            "",
        ),
    ):
        yield inner, svg(inner), found
    for style in LOADING_STYLES:
        yield style, svg(f"<style><![CDATA[{style}]]></style>"), "link.external"
    for style in PLAIN_STYLES:
        yield style, svg(f"<style><![CDATA[{style}]]></style>"), ""
    html = 'xmlns="http://www.w3.org/1999/xhtml"'
    for inner, found in (
        ('<rect style="fill:u\\72l(http://a.example/a.svg#a)"/>', "link.external"),
        ('<rect fill="image-set(&quot;http://a.example/a.png&quot; 1x)"/>', "link.external"),
        ('<image href="search-ms:query=a"/>', "link.external"),
        ('<image href="data:image/png;base64,AA=="/><rect fill="url(data:image/png;base64,AA==)"/>', ""),
        (
            f'<foreignObject><meta {html} http-equiv="Refresh" content="0;url=http://a.example/"/></foreignObject>',
            "link.external",
        ),
        (f'<foreignObject><meta {html} http-equiv="refresh" content="0; ms-msdt:x"/></foreignObject>', "link.external"),
        (f'<foreignObject><meta {html} http-equiv="refresh" content="30"/></foreignObject>', ""),
        (f'<foreignObject><meta {html} name="a" content="0;url=http://a.example/"/></foreignObject>', ""),
        (
            f'<foreignObject><img {html} srcset="a.png 1x, https://a.example/a.png 2x"/></foreignObject>',
            "link.external",
        ),
        (
            f'<foreignObject><link {html} rel="preload" imagesrcset="//a.example/a.png"/></foreignObject>',
            "link.external",
        ),
    ):
        yield inner, svg(inner), found
    yield "UTF-16", svg("<script>x</script>").decode().encode("utf-16"), "script.svg"
    yield "style sheet", STYLE_SHEET + svg(""), "link.external"


def test_document_that_declares_an_entity_has_its_flags() -> None:
    drawing = b'<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg"><script>x</script></svg>'
    for name in ("a.svg", "a.xml"):
        report = inspect_file(io.BytesIO(drawing), filename=name)
        assert ("script.svg" in report.flags, report.facts["flags_complete"]) == (True, True), name


@flags("a.xml")
def test_included_document_or_style_sheet_elsewhere() -> Iterable[Row]:
    for year in ("2001", "2003"):
        text_ = f'<a><x:include xmlns:x="http://www.w3.org/{year}/XInclude" href="/etc/passwd"/></a>'
        for data in (text_.encode(), text_.encode("utf-16"), text_.replace("XInclude", "X&#73;nclude").encode()):
            yield f"included {data!r}", data, "xinclude"
    yield "plain", b'<?xml version="1.0" encoding="UTF-8"?><a on="1">include script</a>', ""
    yield "style sheet elsewhere", STYLE_SHEET + b"<a/>", "link.external"
    yield "style sheet", STYLE_SHEET.replace(b"http://a.example/", b"") + b"<a/>", ""


@flags("a.html")
def test_script_of_a_web_page_is_found_however_it_is_written() -> Iterable[Row]:
    for inner in (
        "<script>x</script>",
        '<p onclick = "x()">a</p>',
        "<img src=x/onerror=x()>",
        '<a href=" javascript:x()">a</a>',
        "<a href='java&#x09;script:x()'>a</a>",
        "<a href=&#0000106;avascript&colon;x()>a</a>",
        "<a href='&#14; java&NewLine;script:x()'>a</a>",
        "<a\nhref='java\tscript:x()'>a</a>",
        "<form action='JAVA\r\nSCRIPT:x()'></form>",
        "<iframe srcdoc='&lt;script&gt;x&lt;/script&gt;'></iframe>",
        "<iframe srcdoc=&lt;img/onerror&#61;x()&gt;></iframe>",
        "<iframe srcdoc='<iframe srcdoc=&quot;&amp;lt;script&amp;gt;&quot;>'></iframe>",
        "<iframe src='data:text/html,a'></iframe>",
        "<iframe src='da&Tab;ta:text&sol;html;base64,PA=='></iframe>",
        "<object data=data:image/svg+xml,a></object>",
        "<embed src='data:application/xhtml+xml,a'>",
        "<x:script xmlns:x='http://www.w3.org/1999/xhtml'>x</x:script>",
    ):
        yield inner, f"<html><body>a{inner}</body></html>".encode(), "script.html"
    for inner in (  # text about scripts, and links to click
        "<p>The salmon = fish; conclusion = 1</p><a href='https://a.example/'>a</a>",
        "<pre>&lt;script&gt; &lt;a href=&quot;javascript:x&quot;&gt; a&#61;&#34;javascript:x</pre>",
        "<img src='data:image/svg+xml,a'>",
        "<iframe srcdoc='&lt;p&gt;a&lt;/p&gt; &amp;lt;script&amp;gt;'></iframe>",
        "<a href='/java%09script'>a</a> java&#9;script:",
        "<a href='https://a.example/'>a</a>",
        "<img src='a.png' alt='http://a.example'>",
        "<link rel='canonical' href='https://a.example/'>",
        "<form action='https://a.example/'></form>",
        "<p xmlns='http://www.w3.org/1999/xhtml'>url (http://a.example)</p>",
        "<meta name='a' content='https://a.example/'>",
        "<img data-src='http://a.example/a.png' src='data:image/png;base64,AA=='>",
    ):
        yield inner, f"<html><body>a{inner}</body></html>".encode(), ""
    for script in (
        "var b=new Blob([atob(d)]);a.href=URL.createObjectURL(b);a.download='x.iso';a.click()",
        "navigator.msSaveOrOpenBlob(new Blob([x]),'a.zip')",
        "var u=new Uint8Array(9);f(u);link.setAttribute('download','a.exe')",
    ):
        page = f"<html><body><script>{script}</script></body></html>"
        yield script, page.encode(), "script.html smuggling.html"
        yield f"{script} in UTF-16", page.encode("utf-16"), "script.html smuggling.html"
    half = b"<html><body><script>var u = new Uint8Array(9)</script></body></html>"
    yield "one half of smuggling", half, "script.html"


def book_with(page: bytes, name: str = "page.xhtml") -> bytes:
    return package_of(parts_of(epub.FORMAT.sample()) | {name: page})


LOADING = (
    "<img src='http://a.example/a.png'>",
    "<img src=//a.example/a.png>",
    "<img src='\\\\server\\a.png'>",
    "<img src='ht&Tab;tps://a.example/a'>",
    "<img\nsrc='ht\ntps://a.example/a'>",
    "<img srcset='a.png 1x, https://a.example/a.png 2x'>",
    "<video poster='https://a.example/a'></video>",
    "<link href='https://a.example/a.css' rel='stylesheet'>",
    "<style>@import 'https://a.example/a.css';</style>",
    "<p style='background: url(&quot;http://a.example/a.png&quot; )'>a</p>",
    "<meta http-equiv='Refresh' content='0; URL=https://a.example/'>",
    "<base href='http://a.example/'><img src='a.png'>",
    "<svg><image xlink:href='http://a.example/a.png'/></svg>",
    "<picture><source srcset=https://a.example/a.png></picture>",
    "<img srcset=//a.example/a.png>",
    "<img srcset='a.png 1x,\\\\server\\a.png 2x'>",
    "<link rel=preload imagesrcset=https://a.example/a.png>",
    "<iframe src='search-ms:query=x&amp;crumb=location:\\\\server\\a'></iframe>",
    "<iframe src=ms-msdt:/id></iframe>",
    "<embed src='ms-officecmd:x'>",
    "<iframe src=jnlp:x></iframe>",
    "<iframe src='steam://run'></iframe>",
    "<object data='mk:@MSITStore:\\\\server\\a.chm::/a.htm'></object>",
    "<img src='wss://a.example/'>",
    "<meta http-equiv='refresh' content='0;https://a.example/'>",
    "<meta http-equiv=refresh content='1 http://a.example/'>",
    "<meta title='>' http-equiv=refresh content='0,url=ms-msdt:x'>",
    "<link title='a>b' rel=stylesheet href=//a.example/a.css>",
    "<svg><image title='>' href='http://a.example/a.png'/></svg>",
)
LOADING_STYLES = (
    'a{background:image-set("http://a.example/a.png" 1x)}',
    "a{background:-webkit-image-set('a.png' 1x, '//a.example/a.png' 2x)}",
    "a{background:image-set( /* a */ 'ftp://a.example/a.png' type('image/png'))}",
    "a{background:src('https://a.example/a.png')}",
    "a{background:u\\72l(http://a.example/a.png)}",
    "a{background:\\000055 \\52 L('ht\\74p://a.example/a.png')}",
    "a{background:url('ht\\\ntp://a.example/a.png')}",
    "a{background:url(\\68 ttp://a.example/a.png)}",
    "a{background:im\\61ge-\\set('http://a.example/a.png' 1x)}",
    "a{background:url(\\2f\\2f a.example/a.png)}",
    "@\\69mport 'http://a.example/a.css';",
    "@import/**/'http://a.example/a.css';",
    "@import'//a.example/a.css';",
    "@im\\port /* a */ u\\rl( 'http://a.example/a.css' );",
)
PLAIN_STYLES = (
    "a{background:image-set('a.png' 1x, url(b.png) 2x)} /* http://a.example/ */",
    "a::before{content:'\\201C'} b{background:u\\72l(a.png);font:'http://a.example'}",
    "@import 'a.css'; @namespace 'http://www.w3.org/1999/xhtml'; a{background:url(data:image/png;base64,AA==)}",
)


@flags("a.epub")
def test_script_in_a_page_of_a_book_is_found_however_it_is_written() -> Iterable[Row]:
    pages = (
        '<x:html xmlns:x="http://www.w3.org/1999/xhtml"><x:script>x</x:script></x:html>',
        '<html xmlns="http://www.w3.org/1999/xhtml"><a href="java&#x0a;script:x()">a</a></html>',
        '<!DOCTYPE html [<!ENTITY a "java"><!ENTITY b "&a;script&#58;">]><html><a href="&b;x()">a</a></html>',
        "<!DOCTYPE html [<!ENTITY a '&#60;script>x&#60;/script>'>]><html>&a;</html>",
        '<!DOCTYPE html [<!ENTITY a "<p on"><!ENTITY b "click=\'x()\'/>">]><html>&a;&b;</html>',
    )
    for page, name in product(pages, ("page.xhtml", "other.xml", "picture")):
        declared = '<?xml version="1.0" encoding="utf-16"?>' + page
        for data in (page.encode(), page.encode("utf-16"), declared.encode("utf-16-be")):
            yield f"{page} {name}", book_with(data, name), "script.html"
    book = epub.FORMAT.sample()
    yield "sample", book, ""
    name, sample = next((name, page) for name, page in parts_of(book).items() if name.endswith(".xhtml"))
    with_script = sample.replace(b"</body>", b"<script>x</script></body>")
    yield "sample with a script", book_with(with_script, name), "script.html"
    for inner in LOADING:
        yield inner, book_with(f"<html><head></head><body>a{inner}</body></html>".encode()), "link.external"


def test_entities_of_an_honest_book_are_no_script() -> None:
    page = '<!DOCTYPE html [<!ENTITY nbsp "&#160;"><!ENTITY title "On = Off">]><html><p>&nbsp;&title;</p></html>'
    report = inspect_file(io.BytesIO(book_with(page.encode())), filename="a.epub")
    assert facts_of(epub.FORMAT.sample(), "a.epub")["flags_complete"] is True
    assert (report.flags, report.facts["flags_complete"]) == ((), True)


def test_entities_of_a_book_that_multiply_leave_the_flags_incomplete() -> None:
    entities = "".join(f'<!ENTITY a{at} "{f"&a{at + 1};" * 30}">' for at in range(9)) + '<!ENTITY a9 "x">'
    page = f"<!DOCTYPE html [{entities}]><html>&a0;</html>"
    assert facts_of(book_with(page.encode()), "a.epub")["flags_complete"] is False


@flags("a.xhtml")
def test_page_that_loads_something_has_an_external_link() -> Iterable[Row]:
    for inner in (*LOADING, *(f"<style>{style}</style>" for style in LOADING_STYLES)):
        yield inner, f"<html><head></head><body>a{inner}</body></html>".encode(), "link.external"
    yield "style", f'<html><body style="{LOADING_STYLES[4]}" id="&quot;">a</body></html>'.encode(), "link.external"
    yield "reference", b"<html><body style='background:u&#92;72l(//a.example/a)'>a</body></html>", "link.external"
    for inner in (
        *(f"<style>{style}</style>" for style in PLAIN_STYLES),
        "<img srcset='a.png 1x, b.png 2x' alt='//a'><img src=cid:a><img src='data:image/png;base64,AA=='>",
        "<img src=C:\\a.png><img src=chrome-extension://a/a.png><img src=file:///C:/a.png><img src='a: //b'>",
        "<meta http-equiv=refresh content=30><a href='https://a.example/'>a</a>",
        "<meta http-equiv=refresh content='0; url=b.html'><p title='url=http://a.example'>a</p>",
        "<meta name=description content='A refresh'><meta name=a content='a; http://a.example/'>",
        "<link rel=canonical href='https://a.example/'><p>rel=stylesheet</p>",
        "<a href='search-ms:query=a'>a</a><a href='ms-word:ofe|u|https://a.example/'>b</a>",
    ):
        yield inner, f"<html><head></head><body>a{inner}</body></html>".encode(), ""


# Tables


@flags("a.csv")
def test_formula_of_a_table_has_a_flag_and_an_honest_cell_none() -> Iterable[Row]:
    for cell in (
        '=HYPERLINK("http://a.example?x="&A1,"a")', "=SUM(A1:A9)", "+SUM(1)", "-2+CALL(1)", "@SUM(A1)", '"=EXEC(1)"',
        "\t=EXEC(1)", "\uff1dEXEC(1)", "=1+WEBSERVICE(A1)",
    ):  # fmt: skip
        yield cell, f"id;name\n1;{cell}\n".encode(), "formula.csv"
        yield f"{cell} in UTF-16", f"id;name\r\n{cell};1\r\n".encode("utf-16"), "formula.csv"
    for cell in ("=cmd|' /C calc'!A0", "+cmd|'/c calc'!A0", "@x|'y'!z", "-2+3+cmd|' /C calc'!D2"):
        yield cell, f"id,name\n1,{cell}\n".encode(), "formula.csv dde"
    for cell in (
        "-5", "+49 (0)30 12345", "@name", "=", "- see the notes (below)", "a=f(x)", "-", "a@b.example (work)", "+1",
        "=A1+B2", "1|2!3",
    ):  # fmt: skip
        yield cell, f"id,name\n1,{cell}\n".encode(), ""


@flags("a.csv")
def test_separator_that_a_table_states_begins_a_cell() -> Iterable[Row]:
    for separator, lead in product("^x~#0\u00a7", ("sep=", "SEP=", '"sep=')):
        for cell, found in (("=cmd|' /C calc'!A0", "formula.csv dde"), ("=SUM(A1)", "formula.csv"), ("-5", "")):
            text_ = f"{lead}{separator}\r\nname{separator}value\r\n1{separator}{cell}\r\n"
            yield f"{text_!r}", text_.encode(), found
            yield f"{text_!r} in UTF-16", text_.encode("utf-16"), found
    yield "quoted", b"sep=a\n1a\"=cmd|' /C a;b'!A0\"\n", "formula.csv dde"
    yield "semicolon", b"sep=,\n1,=cmd|' /C a;b'!A0\n", "formula.csv dde"
    yield "later", b"name\nsep=x\n1x=SUM(A1)\n", ""


def sylk(*records: str, first: str = "ID;P", end: str = "\n") -> bytes:
    return end.join((first, *records, "E", "")).encode()


def test_symbolic_link_under_the_name_of_a_text_or_table_has_flags() -> None:
    rows: list[tuple[bytes, set[str]]] = [
        (sylk("O;E"), {"macro.sheet"}),
        (sylk("O;L;E;D", first="ID;PWXL;N;E", end="\r\n"), {"macro.sheet"}),
        (sylk("NN;NAuto_open;ER101C1;KOut Flank;F"), {"macro.sheet"}),
        (sylk("NN;Nauto_Open1;ER1C1", end="\r"), {"macro.sheet"}),
        (sylk("NN;Nx;ER1C1;GA"), {"macro.sheet"}),
        (sylk('C;X1;Y101;K0;EEXEC("calc")'), {"macro.sheet", "formula.csv"}),
        (sylk('C;X1;Y101;K0;EE\x1b%8EC("calc")'), {"macro.sheet", "formula.csv"}),
        (sylk("C;X1;Y1;K0;EMSEXCEL|'\\..\\cmd.exe /c a;;b'!A0"), {"dde", "formula.csv"}),
        (sylk("C;X1;Y1;K0;Mcmd|calc!A0"), {"dde", "formula.csv"}),
        (sylk("NN;Nx;Ecmd|calc!A0"), {"dde", "formula.csv"}),
        (sylk('C;X1;Y1;K0;EWEBSERVICE("http://a.example")'), {"link.external", "formula.csv"}),
        (sylk("NE;Fa.xls;ER1C1"), {"link.external"}),
        (sylk("C;X1;Y1;K0;ESUM(R1C1:R2C1)"), {"formula.csv"}),
        (sylk('C;X1;Y1;K"=cmd|calc!A0;;Ecmd|calc!A0"', "C;X1;Y1;K0;ER[-1]C*2", "NN;Nx;ER1C1", "O;L;D;V0;K47", "F;P0;E"), set()),
        (b"ID;Preis;Name\n1;2;O;E\nC1;3;Einheit (kg)\nO1;E\n", set()),
        (b"ID;Name\nE1;a(b)\nC1;E\n", set()),
        (b"name;ID\nO;E\n", set()),
        (b"ID;Firma;Ort\nO;Eisen;+49 (0)30\nNN;Fritz;Gera\n", set()),
    ]  # fmt: skip
    with every_row() as row:
        for (data, found), name in product(rows, ("a.csv", "a.txt", "a.tsv", "a.log", "a.dat", "a.slk")):
            with row(f"{data!r} as {name}"):
                assert flags_of(data, name) == found
    plain = sylk("C;X1;Y1;K0")
    assert [facts_of(plain, name)["flags_complete"] for name in ("a.csv", "a.txt", "a.slk")] == [True] * 3
    endless = sylk("C;X1;Y1;K" + "1" * 2_000_000)
    assert facts_of(endless, "a.txt")["flags_complete"] is False


# Mail


def test_attachments_of_a_mail_have_kinds() -> None:
    mail = (
        "From: a@a.example\r\nSubject: A\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
        "--b\r\nContent-Type: text/plain\r\n\r\nText.\r\n"
        '--b\r\nContent-Type: application/x; name="a.js"\r\nContent-Disposition: attachment\r\n\r\nx\r\n'
        "--b\r\nContent-Type: application/x\r\nContent-Disposition: attachment; filename=photo.jpg\r\n"
        f"Content-Transfer-Encoding: base64\r\n\r\n{base64.b64encode(PROGRAM).decode()}\r\n--b--\r\n"
    ).encode()
    assert flags_of(mail, "a.eml") == {"attachment.script", "attachment.program"}
    assert facts_of(mail, "a.eml")["attachments"] == 2


def test_mail_without_attachments() -> None:
    facts = facts_of(b"From: a@a.example\r\nSubject: A\r\n\r\nText.\r\n", "a.eml")
    assert (facts["attachments"], facts["flags_complete"]) == (0, True)


CELLS = [*",;|\t\r\n =+-@\"'(a_1.!$*/\u00a0\uff1d\uff0b", "A(", "cmd|'x'!A", "=cmd|a!b", "   ", "-1+", "SUM("]


@given(st.lists(st.sampled_from(CELLS), max_size=30).map("".join))
def test_formula_is_found_from_its_sign_as_from_the_beginning_of_its_cell(text: str) -> None:
    assert texts.calls_in_cells(text) == (texts._FORMULA.search(text) is not None)
    assert texts.links_in_cells(text) == (texts._DDE.search(text) is not None)


WORDS = ["<", "script", ">", " on", "load", "=", " ", "'", "src=", "//a", "http://x", "data:text/html,", "SCRIPT", "ON"]
WORDS += [
    "<use ",
    "href=",
    "\u017fcript",
    "<\u0131mage ",
    "<\u0130mage ",
    "\u212a",
    "srcset=",
    "poster",
    "javascript:",
    "/",
]


LatePattern.compile_all()  # which takes longer than Hypothesis gives an example on a busy machine


@given(st.lists(st.sampled_from(WORDS), max_size=9).map("".join))
def test_page_without_the_words_has_nothing_that_the_expressions_find(text: str) -> None:
    lower = pages._small_letters(text)
    is_script = pages._HANDLER.search(lower) or any(word in lower for word in pages._SCRIPT_WORDS)
    assert is_script or not pages._SCRIPT.compiled.search(text)
    assert any(word in lower for word in pages._LOADING_WORDS) or not pages._LOADED.compiled.search(text)
    assert "srcset" in lower or not pages._PICTURES.search(text)
