"""HTML: integrity and blankness."""

import base64
import io

import pytest

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
    assert result.outcome is Outcome.OK
    assert result.blank is None


@each_row("data", [page("one\0two"), b"<p>never closed", b"no tag at all"])
def test_errors_that_browsers_ignore_pass(data: bytes) -> None:
    assert examine_bytes(FORMAT, data).outcome is Outcome.OK


@each_row("data", [page("x") + bytes(200) + page("x"), bytes(range(1, 256)) * 40])
def test_binary_data_is_corrupt(data: bytes) -> None:
    assert examine_bytes(FORMAT, data).outcome is Outcome.CORRUPT


@each_row(
    "data",
    [
        pytest.param(page(""), id="an empty body"),
        pytest.param(page("<!-- nothing --> &nbsp; &#8203;<br>"), id="comments and spaces"),
        pytest.param(
            page("<div id=app></div>", "<script>var a=1</script><style>p{}</style>"), id="a script that does nothing"
        ),
        pytest.param(page("<p hidden>x</p><p style='display: none'>x</p><template>x</template>"), id="hidden text"),
        pytest.param(page("<p style='color:#fff'>x</p><font color=white>x</font>"), id="white text"),
        pytest.param(page("<img><img src='http://t.example/p.gif' width=1 height=1>"), id="a tracking pixel"),
        pytest.param(page(image(shows=False)), id="an empty picture"),
        pytest.param(page("<svg width=9 height=9></svg>"), id="an empty drawing"),
        pytest.param(page("<table border=0><tr><td></table><input type=hidden value=x>"), id="an empty table"),
        pytest.param(page("<p style='background: #ffffff; border: none'></p>"), id="a white background"),
        pytest.param(page("", "<link rel=stylesheet href=style.css>"), id="a missing style sheet"),
        pytest.param(b"<?xml version='1.0'?><html/>", id="a root element only"),
    ],
)
def test_page_without_visible_content_is_blank(data: bytes) -> None:
    result = examine_bytes(FORMAT, data)
    assert result.outcome is Outcome.OK
    assert result.blank


@each_row(
    "data",
    [
        pytest.param(b"<p>hi</p>", id="a word"),
        pytest.param(page(" " * 2_000_000 + "x"), id="a letter after much white space"),
        pytest.param(page("<img src=picture.png>"), id="an external picture"),
        pytest.param(page("<img src='' alt='A dog'>"), id="alternative text"),
        pytest.param(page(image(shows=True)), id="an embedded picture"),
        pytest.param(page("<svg><path d='M0 0L9 9'/></svg>"), id="a drawing"),
        pytest.param(page("<iframe src=x></iframe>"), id="a frame"),
        pytest.param(page("<video src=x></video>"), id="a video"),
        pytest.param(page("<audio controls src=x></audio>"), id="a sound with buttons"),
        pytest.param(page("<input>"), id="a field"),
        pytest.param(page("<hr>"), id="a line"),
        pytest.param(page("<table border=1><tr><td></table>"), id="a table with lines"),
        pytest.param(page("<div style='background: url(x.png)'></div>"), id="a background picture"),
        pytest.param(page("<div></div>", "<style>div{background-color:#eef}</style>"), id="a coloured background"),
        pytest.param(page("<div></div>", "<style>div{border:1px solid red}</style>"), id="a border"),
        pytest.param(page("<div></div>", "<style>div::before{content:'x'}</style>"), id="text in a style"),
        pytest.param(page("<p hidden>x</p>", "<script>var a=1</script>"), id="hidden text that a script may show"),
        pytest.param(page("<p style='color:#fff;background:#000'>x</p>"), id="white text on black"),
        pytest.param(page("<div id=root></div><script src=app.js></script>"), id="an external script"),
        pytest.param(page("", "<script>document.write('x')</script>"), id="a script that writes"),
        pytest.param(page("", "<meta http-equiv=refresh content='0; url=x'>"), id="a redirect"),
        pytest.param(page("", "<link rel=stylesheet href='https://x.example/a.css'>"), id="an external style sheet"),
        pytest.param(
            b"<html xmlns='http://www.w3.org/1999/xhtml'><body><![CDATA[x]]></body></html>", id="a CDATA section"
        ),
    ],
)
def test_page_with_visible_content_is_not_blank(data: bytes) -> None:
    assert examine_bytes(FORMAT, data).blank is None


ARCHIVE = (
    b"From: <Saved by Office>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=b\r\n\r\n"
    b"--b\r\nContent-Type: text/html\r\n\r\n<p>One line.</p>\r\n--b--\r\n"
)


@each_row("name", ["a.doc", "a.dot", "a.xls", "a.xlt"])
@each_row(
    ("data", "format_name"),
    [
        pytest.param(page("<table><tr><td>1</table>"), "html", id="a page"),
        pytest.param(b"<table border=1><tr><td>1</td></tr></table>", "html", id="a table alone"),
        pytest.param(page("<p>1").decode().encode("utf-16"), "html", id="a page in UTF-16"),
        pytest.param(ARCHIVE, "eml", id="a web archive"),
        pytest.param(rb"{\rtf1\ansi One line.\par}", "rtf", id="RTF"),
    ],
)  # fmt: skip
def test_pages_and_rtf_pass_under_old_office_extensions(name: str, data: bytes, format_name: str) -> None:
    report = inspect_file(io.BytesIO(data), filename=name)
    assert (report.finding, report.outcome, report.format) == (None, Outcome.OK, format_name)


@each_row("name", ["a.doc", "a.dot", "a.xls", "a.xlt"])
@each_row(
    "data",
    [
        pytest.param(b"name\tvalue\r\nx\t1\r\n", id="a table as text"),
        pytest.param(b"404 page not found\n", id="an error"),
        pytest.param(b'{"error": {"code": 403, "message": "forbidden"}}', id="JSON"),
        pytest.param(b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', id="XML"),
        pytest.param(b"0M8R4KGxGuEAAAAAAAAAAAAAAAAAAAAAPgADAP7/CQAGAAAAAAAAAAAAAAABAAAA\n" * 9, id="base64"),
        pytest.param(b"From: a@b.example\nSubject: x\n\nwords\n", id="a mail"),
    ],
)
def test_other_text_is_a_mismatch_under_old_office_extensions(name: str, data: bytes) -> None:
    report = inspect_file(io.BytesIO(data), filename=name)
    assert (report.finding, report.flags) == (Finding.TYPE_MISMATCH, ())


@each_row("name", ["a.doc", "a.xls"])
def test_page_before_an_office_document_is_a_mismatch(name: str) -> None:
    data = page("504") + make_compound({"WordDocument": bytes(9000)})
    assert inspect_file(io.BytesIO(data), filename=name).finding is Finding.TYPE_MISMATCH
