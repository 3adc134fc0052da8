"""Recognition of a format by extension and content."""

import io

from sluice_inspect import sniff
from sluice_inspect.format import Format
from sluice_inspect.inspection import inspect_file
from sluice_inspect.registry import FORMATS, format_of
from sluice_inspect.report import UNKNOWN_TYPE, Finding
from sluice_inspect.signatures import is_web_page
from sluice_inspect.sniff import extension_of
from tests.inspection.formats.examining import source_of
from tests.inspection.formats.test_tar import archive, entry
from tests.rows import each_row


@each_row(
    ("name", "extension"),
    [
        ("a.PDF", "pdf"), ("archive.tar.gz", "gz"), ("folder/file.Txt. .", "txt"), ("C:\\files\\scan.JPG", "jpg"),
        ("folder.d/file", ""), (".htaccess", ""), ("", ""), (None, ""), ("dot.", ""),
    ],
)  # fmt: skip
def test_last_extension_is_used(name: str | None, extension: str) -> None:
    assert extension_of(name) == extension


def test_format_names_and_extensions_are_unique() -> None:
    promised = [extension for format_ in FORMATS for extension in format_.extensions]
    assert len(promised) == len(set(promised))
    assert len({format_.name for format_ in FORMATS}) == len(FORMATS)


@each_row("format_", [format_ for format_ in FORMATS if not format_.is_text], ids=lambda format_: format_.name)
def test_sample_is_recognised_as_its_own_format_under_any_extension(format_: Format) -> None:
    with source_of(format_.sample()) as source:
        assert sniff.recognise(source, None) is format_
        assert sniff.recognise(source, format_of("mp4")) is format_


@each_row("format_", [format_ for format_ in FORMATS if format_.begins], ids=lambda format_: format_.name)
def test_content_that_matches_a_format_begins_as_it_declares(format_: Format) -> None:
    sample = format_.sample()
    before = next(at for at in range(len(sample)) if sample.startswith(format_.begins or (), at))
    assert before <= format_.begins_within
    with source_of(b"\0" * before + b"?" + sample[before + 1 :]) as source:
        assert not format_.matches(source)


def test_format_of_the_extension_is_tried_first() -> None:
    document, archive = format_of("docx"), format_of("zip")
    assert document is not None
    with source_of(document.sample()) as source:
        assert sniff.recognise(source, archive) is archive


@each_row(
    ("text", "page"),
    [
        (b"<!DOCTYPE html><p>", True),
        (b"\xef\xbb\xbf \r\n<HTML lang='en'>", True),
        (b'<?xml version="1.0"?>\n<html xmlns="x">', True),
        (b"<!-- saved from --><head>", True),
        *(
            (text, False)
            for text in (b"<note>html</note>", b"see <html>", b"<htmlish>", b"", b"<!-- a comment without an end")
        ),
    ],
)
def test_web_page_is_recognised_by_its_start(text: bytes, *, page: bool) -> None:
    with source_of(text) as source:
        assert is_web_page(source.head) is page


@each_row("mark", ["", "\ufeff"])
@each_row(
    "page",
    [
        "<!DOCTYPE html><script>x()</script>",
        "\r\n <HTML>",
        "<!-- Größe 日本 --><head>",
        "<!--" + "x" * 20_000 + "--><html>",
    ],
)
@each_row("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-16", "utf-32", "utf-7"])
def test_web_page_is_recognised_in_every_encoding(encoding: str, page: str, mark: str) -> None:
    if encoding == "utf-7":
        page = page.replace("<", "+ADw-").replace("ö", "oe").replace("日本", "Japan")
        data = (b"+/v8-" if mark else b"") + page.encode("ascii", "replace")
    else:
        data = (mark + page).encode(encoding)
    assert is_web_page(data)


@each_row("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-32-be", "utf-7"])
@each_row("text", ["see <html>", "< html", "a,b\n<html>,1", "+1 for <html>", "日本 <html>"])
def test_text_that_mentions_a_page_is_none_in_any_encoding(encoding: str, text: str) -> None:
    assert not is_web_page(text.encode(encoding))


@each_row(
    ("data", "content_type"),
    [
        (b"\x1f\x8b\x08\0" + bytes(20), "application/gzip"),
        (archive(entry("member")), "application/x-tar"),
        (b"fLaC\0\0\0\x22" + bytes(40), "audio/flac"),
        (b"\x8f\x03\x01\xd1\x93" * 40, UNKNOWN_TYPE),
        (b"", UNKNOWN_TYPE),
    ],
)
def test_media_type_of_unknown_content_comes_from_libmagic(data: bytes, content_type: str) -> None:
    with source_of(data) as source:
        assert sniff.content_type_of(source) == content_type


def test_text_is_distinguished_from_binary_by_its_start() -> None:
    with source_of("GIF89a is a format. Grüße\n".encode()) as source:
        assert sniff.is_plain_text(source)
    with source_of(b"GIF89a\x01\x00\x01\x00") as source:
        assert not sniff.is_plain_text(source)


@each_row(
    "text",
    [
        b"<iframe src=javascript:alert(1)>",
        b'\n <a href="javascript:alert(1)">x</a>',
        b"<!-- words --><B>hello</B><script>alert(1)</script>",
        b"<!--" + b"x" * 70_000 + b"--><html><script>alert(1)</script>",
    ],
    ids=["frame", "link", "behind a comment", "behind a long comment"],
)
def test_text_that_browsers_show_as_a_page_is_a_mismatch(text: bytes) -> None:
    for extension in ("txt", "csv"):
        assert inspect_file(io.BytesIO(text), filename=f"a.{extension}").finding is Finding.TYPE_MISMATCH
    assert inspect_file(io.BytesIO(b"words " + text), filename="a.txt").finding is None


def test_comment_and_tags_in_markdown_and_other_brackets_in_a_text_pass() -> None:
    for filename, text in (
        ("a.md", b'<!-- words -->\n<p align="center"><a href="b">c</a></p>\n'),
        ("a.txt", b"<!-- words -->\nmore words\n"),
        ("a.txt", b"<ann@example.org> wrote:\n"),
        ("a.csv", b"<!-- words\n1,2\n"),
    ):
        assert inspect_file(io.BytesIO(text), filename=filename).finding is None
