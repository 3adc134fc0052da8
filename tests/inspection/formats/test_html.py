"""HTML: integrity and blankness."""

import base64
import io

from sluice_inspect.formats.html import FORMAT
from sluice_inspect.inspection import inspect_file
from sluice_inspect.office.compound import make_compound
from sluice_inspect.report import Finding, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.office_packages import picture
from tests.rows import each_row


def page(body: str, head: str = "") -> bytes:
    return f"<!DOCTYPE html><html><head><title>A page</title>{head}</head><body>{body}</body></html>".encode()


def image(*, shows: bool) -> str:
    return f"<img src='data:image/png;base64,{base64.b64encode(picture(shows=shows).getvalue()).decode()}'>"


@each_row("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "koi8_r"])
def test_page_passes_in_any_encoding(encoding: str) -> None:
    result = examine_bytes(FORMAT, page("<p>Straße, Привет</p>").decode().encode(encoding, "replace"))
    assert (result.outcome, result.blank) == (Outcome.OK, None)


@each_row(
    ("data", "outcome"),
    [
        *((data, Outcome.OK) for data in (page("one\0two"), b"<p>never closed", b"no tag at all")),
        *((data, Outcome.CORRUPT) for data in (page("x") + bytes(200) + page("x"), bytes(range(1, 256)) * 40)),
    ],
)
def test_binary_data_is_corrupt_and_errors_that_browsers_ignore_pass(data: bytes, outcome: Outcome) -> None:
    assert examine_bytes(FORMAT, data).outcome is outcome


@each_row(
    ("case", "data", "blank"),
    [
        ("an empty body", page(""), True),
        ("comments and spaces", page("<!-- nothing --> &nbsp; &#8203;<br>"), True),
        ("a script that does nothing", page("<div id=app></div>", "<script>var a=1</script><style>p{}</style>"), True),
        ("hidden text", page("<p hidden>x</p><p style='display: none'>x</p><template>x</template>"), True),
        ("white text", page("<p style='color:#fff'>x</p><font color=white>x</font>"), True),
        ("a tracking pixel", page("<img><img src='http://t.example/p.gif' width=1 height=1>"), True),
        ("an empty picture", page(image(shows=False)), True),
        ("an empty drawing", page("<svg width=9 height=9></svg>"), True),
        ("an empty table", page("<table border=0><tr><td></table><input type=hidden value=x>"), True),
        ("a white background", page("<p style='background: #ffffff; border: none'></p>"), True),
        ("a missing style sheet", page("", "<link rel=stylesheet href=style.css>"), True),
        ("a root element only", b"<?xml version='1.0'?><html/>", True),
        ("a word", b"<p>hi</p>", False),
        ("a letter after much white space", page(" " * 2_000_000 + "x"), False),
        ("an external picture", page("<img src=picture.png>"), False),
        ("alternative text", page("<img src='' alt='A dog'>"), False),
        ("an embedded picture", page(image(shows=True)), False),
        ("a drawing", page("<svg><path d='M0 0L9 9'/></svg>"), False),
        ("a frame", page("<iframe src=x></iframe>"), False),
        ("a video", page("<video src=x></video>"), False),
        ("a sound with buttons", page("<audio controls src=x></audio>"), False),
        ("a field", page("<input>"), False),
        ("a line", page("<hr>"), False),
        ("a table with lines", page("<table border=1><tr><td></table>"), False),
        ("a background picture", page("<div style='background: url(x.png)'></div>"), False),
        ("a coloured background", page("<div></div>", "<style>div{background-color:#eef}</style>"), False),
        ("a border", page("<div></div>", "<style>div{border:1px solid red}</style>"), False),
        ("text in a style", page("<div></div>", "<style>div::before{content:'x'}</style>"), False),
        ("hidden text that a script may show", page("<p hidden>x</p>", "<script>var a=1</script>"), False),
        ("white text on black", page("<p style='color:#fff;background:#000'>x</p>"), False),
        ("an external script", page("<div id=root></div><script src=app.js></script>"), False),
        ("a script that writes", page("", "<script>document.write('x')</script>"), False),
        ("a redirect", page("", "<meta http-equiv=refresh content='0; url=x'>"), False),
        ("an external style sheet", page("", "<link rel=stylesheet href='https://x.example/a.css'>"), False),
        ("a CDATA section", b"<html xmlns='http://www.w3.org/1999/xhtml'><body><![CDATA[x]]></body></html>", False),
    ],
)
def test_page_is_blank_when_nothing_on_it_is_visible(case: str, data: bytes, *, blank: bool) -> None:
    result = examine_bytes(FORMAT, data)
    assert (result.outcome, bool(result.blank)) == (Outcome.OK, blank)


ARCHIVE = (
    b"From: <Saved by Office>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=b\r\n\r\n"
    b"--b\r\nContent-Type: text/html\r\n\r\n<p>One line.</p>\r\n--b--\r\n"
)


@each_row("name", ["a.doc", "a.dot", "a.xls", "a.xlt"])
@each_row(
    ("case", "data", "format_name"),
    [
        ("a page", page("<table><tr><td>1</table>"), "html"),
        ("a table alone", b"<table border=1><tr><td>1</td></tr></table>", "html"),
        ("a page in UTF-16", page("<p>1").decode().encode("utf-16"), "html"),
        ("a web archive", ARCHIVE, "eml"),
        ("RTF", rb"{\rtf1\ansi One line.\par}", "rtf"),
    ],
)  # fmt: skip
def test_pages_and_rtf_pass_under_old_office_extensions(case: str, name: str, data: bytes, format_name: str) -> None:
    report = inspect_file(io.BytesIO(data), filename=name)
    assert (report.finding, report.outcome, report.format) == (None, Outcome.OK, format_name)


@each_row("name", ["a.doc", "a.dot", "a.xls", "a.xlt"])
@each_row(
    ("case", "data"),
    [
        ("a table as text", b"name\tvalue\r\nx\t1\r\n"),
        ("an error", b"404 page not found\n"),
        ("JSON", b'{"error": {"code": 403, "message": "forbidden"}}'),
        ("XML", b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>'),
        ("base64", b"0M8R4KGxGuEAAAAAAAAAAAAAAAAAAAAAPgADAP7/CQAGAAAAAAAAAAAAAAABAAAA\n" * 9),
        ("a mail", b"From: a@b.example\nSubject: x\n\nwords\n"),
    ],
)
def test_other_text_is_a_mismatch_under_old_office_extensions(case: str, name: str, data: bytes) -> None:
    report = inspect_file(io.BytesIO(data), filename=name)
    assert (report.finding, report.flags) == (Finding.TYPE_MISMATCH, ())


@each_row("name", ["a.doc", "a.xls"])
def test_page_before_an_office_document_is_a_mismatch(name: str) -> None:
    data = page("504") + make_compound({"WordDocument": bytes(9000)})
    assert inspect_file(io.BytesIO(data), filename=name).finding is Finding.TYPE_MISMATCH
