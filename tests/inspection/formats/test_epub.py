"""EPUB: integrity, encryption and blankness."""

from collections.abc import Mapping
from functools import partial

from sluice_inspect.formats.epub import FORMAT
from sluice_inspect.report import Finding, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.office_packages import package_of, parts_of, picture, with_part_changed, without_part
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
SAMPLE = FORMAT.sample()
PAGE = '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:svg="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{}</html>'


def with_part(part: str, content: bytes) -> bytes:
    return package_of(parts_of(SAMPLE) | {part: content})


def book(body: str, others: Mapping[str, bytes] | None = None, items: str = "", spine: str = "") -> bytes:
    page = PAGE.format(f"<head><title>A title</title></head><body>{body}</body>").encode()
    opf = parts_of(SAMPLE)["book.opf"].decode()
    opf = opf.replace("</manifest>", items + "</manifest>").replace("</spine>", spine + "</spine>")
    return package_of(parts_of(SAMPLE) | {"page.xhtml": page, "book.opf": opf.encode()} | dict(others or {}))


def blank(data: bytes) -> bool:
    result = examine(data)
    assert result.outcome is Outcome.OK, result
    return result.blank is not None


def encrypted(algorithm: str) -> bytes:
    listed = (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" xmlns:enc="http://www.w3.org/2001/04/xmlenc#">'
        f'<enc:EncryptedData><enc:EncryptionMethod Algorithm="{algorithm}"/></enc:EncryptedData></encryption>'
    )
    return with_part("META-INF/encryption.xml", listed.encode())


CONTAINER = "META-INF/container.xml"
PARTS = parts_of(SAMPLE)
NO_MIMETYPE = without_part(SAMPLE, "mimetype")


@each_row(
    ("case", "data", "verdict", "detail"),
    [
        ("no mimetype", NO_MIMETYPE, Outcome.OK, ""),
        ("malformed page", with_part("page.xhtml", b"<html><body><p></body></html>"), Outcome.OK, ""),
        ("obfuscated fonts", encrypted("http://www.idpf.org/2008/embedding"), Outcome.OK, ""),
        ("password", encrypted("http://www.w3.org/2001/04/xmlenc#aes128-cbc"), Outcome.ENCRYPTED, ""),
        ("name outside", with_part("../a", b"x"), Finding.ARCHIVE_UNSAFE, ""),
        ("changed byte", SAMPLE.replace(b"a gate", b"a gape"), Outcome.CORRUPT, ""),
        ("no container", without_part(SAMPLE, CONTAINER), Outcome.CORRUPT, CONTAINER),
        ("no package document", without_part(SAMPLE, "book.opf"), Outcome.CORRUPT, "book.opf"),
        ("malformed container", with_part(CONTAINER, PARTS[CONTAINER][:-4]), Outcome.CORRUPT, ""),
        ("malformed package document", with_part("book.opf", PARTS["book.opf"][:-4]), Outcome.CORRUPT, ""),
        ("no rootfile", with_part_changed(SAMPLE, CONTAINER, "<rootfile ", "<other "), Outcome.CORRUPT, ""),
        ("other media type", with_part("mimetype", b"application/vnd.oasis.opendocument.text"), None, ""),
    ],
)
def test_book_gets_its_verdict(case: str, data: bytes, verdict: Outcome | Finding | None, detail: str) -> None:
    result = examine(data)
    assert result.verdict is verdict
    assert detail in result.detail


@each_row("kept", [0.2, 0.6, 0.97])
def test_truncated_book_is_corrupt(kept: float) -> None:
    result = examine(SAMPLE[: int(len(SAMPLE) * kept)])
    assert (result.recognised, result.outcome) == (True, Outcome.CORRUPT)


def test_other_documents_are_not_recognised() -> None:
    assert not examine(with_part_changed(NO_MIMETYPE, CONTAINER, "oebps-package", "other")).recognised
    assert not examine(b"PK\x03\x04" + bytes(60)).recognised


NAV = '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
NAV_PAGE = PAGE.format("<body><nav><h1>Contents</h1></nav></body>").encode()
CSS = '<item id="css" href="s.css" media-type="text/css"/>'
CELL = "<table><tr><td/></tr></table>"


@each_row(
    ("case", "data"),
    [
        ("no text", book("")),
        ("spaces", book("<p> \u00a0\u200b</p><br/>")),
        ("script and style", book("<script>var a = 1;</script><style>p { color: red }</style>")),
        ("hidden text", book("<p hidden=''>word</p>")),
        ("hidden by a style", book("<div style='display: none'>word <img src='p.png'/></div>")),
        ("undrawn path", book("<svg:svg><svg:title>a</svg:title><svg:defs><svg:path d='M0 0'/></svg:defs></svg:svg>")),
        ("table of contents", book("", {"nav.xhtml": NAV_PAGE}, items=NAV, spine='<itemref idref="nav"/>')),
        ("style sheet without text", book("", {"s.css": b"p { color: red }"}, items=CSS)),
        ("style sheet without borders", book(CELL, {"s.css": b"td { border: none; color: red }"}, items=CSS)),
        ("no pages", with_part_changed(SAMPLE, "book.opf", '<itemref idref="page"/>', "")),
    ],
)
def test_book_without_visible_content_is_blank(case: str, data: bytes) -> None:
    assert blank(data)


@each_row(
    ("case", "data"),
    [
        ("a letter", book("x")),
        ("hidden and other text", book("<p hidden=''>word</p><p>word</p>")),
        ("line", book("<hr/>")),
        ("drawn path", book("<svg:svg><svg:path d='M0 0L9 9'/></svg:svg>")),
        ("video", book("<video src='v.mp4'/>")),
        ("box to tick", book("<input type='checkbox'/>")),
        ("missing picture", book("<img src='missing.png'/>")),
        ("picture elsewhere", book("<img src='https://example.org/a.png'/>")),
        ("background", book("<div style='background: url(a.png)'/>")),
        ("borders", book("<table><tr><td style='border: 1px solid'/></tr></table>")),
        ("text in a style sheet", book("", {"s.css": b'p::before { content: "x" }'}, items=CSS)),
        ("borders in a style sheet", book(CELL, {"s.css": b"td { border: 0.5pt solid black }"}, items=CSS)),
        ("unlisted page", book("", spine='<itemref idref="gone"/>')),
        ("missing page", without_part(book("x"), "page.xhtml")),
        ("malformed page", with_part("page.xhtml", b"<html><body><p></body></html>")),
    ],
)
def test_book_with_visible_content_or_a_missing_page_is_not_blank(case: str, data: bytes) -> None:
    assert not blank(data)


@each_row("shows", [True, False])
@each_row("body", ["<img src='img/p%20q.png'/>", "<svg:svg><svg:image xlink:href='img/p%20q.png'/></svg:svg>"])
def test_picture_is_content_only_when_it_is_not_blank(body: str, *, shows: bool) -> None:
    assert blank(book(body, {"img/p q.png": picture(shows=shows).getvalue()})) is not shows
