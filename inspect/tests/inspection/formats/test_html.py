"""HTML: integrity and blankness."""

import base64
import io
import time
from collections.abc import Iterable

from sluice_inspect.formats.html import FORMAT
from sluice_inspect.inspection import inspect_file
from sluice_inspect.office.compound import make_compound
from sluice_inspect.report import Finding, Outcome
from tests.inspection.formats.examining import Row, examine_bytes, verdicts
from tests.inspection.formats.office_packages import picture
from tests.inspection.growth import slowness
from tests.rows import each_row

OLD_NAMES = ("a.doc", "a.dot", "a.xls", "a.xlt")


def page(body: str, head: str = "") -> bytes:
    return f"<!DOCTYPE html><html><head><title>A page</title>{head}</head><body>{body}</body></html>".encode()


def image(*, shows: bool) -> str:
    return f"<img src='data:image/png;base64,{base64.b64encode(picture(shows=shows).getvalue()).decode()}'>"


@verdicts(FORMAT)
def test_binary_data_is_corrupt_and_errors_that_browsers_ignore_pass() -> Iterable[Row]:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252", "koi8_r"):
        yield encoding, page("<p>Straße, Привет</p>").decode().encode(encoding, "replace"), "ok"
    for data in (page("one\0two"), b"<p>never closed", b"no tag at all"):
        yield f"{data[:40]!r}", data, "ok"
    yield "zeros", page("x") + bytes(200) + page("x"), "corrupt"
    yield "all bytes", bytes(range(1, 256)) * 40, "corrupt"


@verdicts(FORMAT)
def test_page_is_blank_when_nothing_on_it_is_visible() -> Iterable[Row]:
    for body, head in (
        ("", ""),
        ("<!-- nothing --> &nbsp; &#8203;<br>", ""),
        ("<div id=app></div>", "<script>var a=1</script><style>p{}</style>"),
        ("<p hidden>x</p><p style='display: none'>x</p><template>x</template>", ""),
        ("<p style='color:#fff'>x</p><font color=white>x</font>", ""),
        ("<img><img src='http://t.example/p.gif' width=1 height=1>", ""),
        (image(shows=False), ""),
        ("<svg width=9 height=9></svg>", ""),
        ("<table border=0><tr><td></table><input type=hidden value=x>", ""),
        ("<p style='background: #ffffff; border: none'></p>", ""),
        ("", "<link rel=stylesheet href=style.css>"),
    ):
        yield head + body, page(body, head), "blank"
    yield "a root element only", b"<?xml version='1.0'?><html/>", "blank"
    for body, head in (
        (" " * 2_000_000 + "x", ""),
        ("<img src=picture.png>", ""),
        ("<img src='' alt='A dog'>", ""),
        (image(shows=True), ""),
        ("<svg><path d='M0 0L9 9'/></svg>", ""),
        ("<iframe src=x></iframe>", ""),
        ("<video src=x></video>", ""),
        ("<audio controls src=x></audio>", ""),
        ("<input>", ""),
        ("<hr>", ""),
        ("<table border=1><tr><td></table>", ""),
        ("<div style='background: url(x.png)'></div>", ""),
        ("<div></div>", "<style>div{background-color:#eef}</style>"),
        ("<div></div>", "<style>div{border:1px solid red}</style>"),
        ("<div></div>", "<style>div::before{content:'x'}</style>"),
        ("<p hidden>x</p>", "<script>var a=1</script>"),
        ("<p style='color:#fff;background:#000'>x</p>", ""),
        ("<div id=root></div><script src=app.js></script>", ""),
        ("", "<script>document.write('x')</script>"),
        ("", "<meta http-equiv=refresh content='0; url=x'>"),
        ("", "<link rel=stylesheet href='https://x.example/a.css'>"),
    ):
        yield (head + body)[-80:], page(body, head), "ok"
    yield "a word", b"<p>hi</p>", "ok"
    cdata = b"<html xmlns='http://www.w3.org/1999/xhtml'><body><![CDATA[x]]></body></html>"
    yield "a CDATA section", cdata, "ok"


ARCHIVE = (
    b"From: <Saved by Office>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=b\r\n\r\n"
    b"--b\r\nContent-Type: text/html\r\n\r\n<p>One line.</p>\r\n--b--\r\n"
)


@each_row("name", OLD_NAMES)
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


@each_row("name", OLD_NAMES)
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
    assert (report.finding, report.flags) == (Finding.TYPE_MISMATCH, ()), report
    before = page("504") + make_compound({"WordDocument": bytes(9000)})
    assert inspect_file(io.BytesIO(before), filename=name).finding is Finding.TYPE_MISMATCH


def test_elements_without_attributes_take_little_time() -> None:
    data = page("<div>" * 100_000)
    began = time.process_time()
    assert examine_bytes(FORMAT, data).blank
    assert time.process_time() - began < 0.5 * slowness()


@each_row("tag", ["div", "b", "font", "table", "img", "audio", "input"])
def test_element_without_attributes_shows_as_much_as_with_one_that_says_nothing(tag: str) -> None:
    for content in ("", "text"):
        bare, named = (examine_bytes(FORMAT, page(f"<{tag}{more}>{content}")).blank for more in ("", " lang=en"))
        assert bare == named
        hidden = [
            examine_bytes(FORMAT, page(f"<p hidden><{tag}{more}>{content}</p>")).blank for more in ("", " lang=en")
        ]
        assert hidden[0] == hidden[1]
