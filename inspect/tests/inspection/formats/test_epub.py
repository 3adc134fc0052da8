"""EPUB: integrity, encryption and blankness."""

from collections.abc import Iterable, Mapping

from sluice_inspect.formats.epub import FORMAT
from tests.inspection.formats.examining import Row, cuts, examine_bytes, verdicts
from tests.inspection.formats.office_packages import package_of, parts_of, picture, with_part_changed, without_part

SAMPLE = FORMAT.sample()
PAGE = '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:svg="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{}</html>'


def with_part(part: str, content: bytes) -> bytes:
    return package_of(parts_of(SAMPLE) | {part: content})


def book(body: str, others: Mapping[str, bytes] | None = None, items: str = "", spine: str = "") -> bytes:
    page = PAGE.format(f"<head><title>A title</title></head><body>{body}</body>").encode()
    opf = parts_of(SAMPLE)["book.opf"].decode()
    opf = opf.replace("</manifest>", items + "</manifest>").replace("</spine>", spine + "</spine>")
    return package_of(parts_of(SAMPLE) | {"page.xhtml": page, "book.opf": opf.encode()} | dict(others or {}))


def encrypted(algorithm: str) -> bytes:
    listed = (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" xmlns:enc="http://www.w3.org/2001/04/xmlenc#">'
        f'<enc:EncryptedData><enc:EncryptionMethod Algorithm="{algorithm}"/></enc:EncryptedData></encryption>'
    )
    return with_part("META-INF/encryption.xml", listed.encode())


CONTAINER = "META-INF/container.xml"
PARTS = parts_of(SAMPLE)
NO_MIMETYPE = without_part(SAMPLE, "mimetype")


@verdicts(FORMAT)
def test_sound_damaged_locked_or_unsafe_book_gets_its_verdict() -> Iterable[Row]:
    yield from cuts(SAMPLE, 0.2, 0.6, 0.97)
    yield "no mimetype", NO_MIMETYPE, "ok"
    yield "malformed page", with_part("page.xhtml", b"<html><body><p></body></html>"), "ok"
    yield "obfuscated fonts", encrypted("http://www.idpf.org/2008/embedding"), "ok"
    yield "password", encrypted("http://www.w3.org/2001/04/xmlenc#aes128-cbc"), "encrypted"
    yield "name outside", with_part("../a", b"x"), "archive_unsafe"
    yield "changed byte", SAMPLE.replace(b"a gate", b"a gape"), "corrupt"
    yield "no container", without_part(SAMPLE, CONTAINER), "corrupt", CONTAINER
    yield "no package document", without_part(SAMPLE, "book.opf"), "corrupt", "book.opf"
    yield "malformed container", with_part(CONTAINER, PARTS[CONTAINER][:-4]), "corrupt"
    yield "malformed package document", with_part("book.opf", PARTS["book.opf"][:-4]), "corrupt"
    yield "no rootfile", with_part_changed(SAMPLE, CONTAINER, "<rootfile ", "<other "), "corrupt"
    yield "other media type", with_part("mimetype", b"application/vnd.oasis.opendocument.text"), "other"


def test_a_cut_book_is_recognised_and_other_documents_are_not() -> None:
    assert all(examine_bytes(FORMAT, SAMPLE[: int(len(SAMPLE) * kept)]).recognised for kept in (0.2, 0.6, 0.97))
    assert not examine_bytes(FORMAT, with_part_changed(NO_MIMETYPE, CONTAINER, "oebps-package", "other")).recognised
    assert not examine_bytes(FORMAT, b"PK\x03\x04" + bytes(60)).recognised


@verdicts(FORMAT)
def test_book_is_blank_when_nothing_in_it_is_visible() -> Iterable[Row]:
    for body in (
        "",
        "<p> \u00a0\u200b</p><br/>",
        "<script>var a = 1;</script><style>p { color: red }</style>",
        "<p hidden=''>word</p>",
        "<div style='display: none'>word <img src='p.png'/></div>",
        "<svg:svg><svg:title>a</svg:title><svg:defs><svg:path d='M0 0'/></svg:defs></svg:svg>",
    ):
        yield body, book(body), "blank"
    for body in (
        "x",
        "<p hidden=''>word</p><p>word</p>",
        "<hr/>",
        "<svg:svg><svg:path d='M0 0L9 9'/></svg:svg>",
        "<video src='v.mp4'/>",
        "<input type='checkbox'/>",
        "<img src='missing.png'/>",
        "<img src='https://example.org/a.png'/>",
        "<div style='background: url(a.png)'/>",
        "<table><tr><td style='border: 1px solid'/></tr></table>",
    ):
        yield body, book(body), "ok"
    nav = '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
    contents = PAGE.format("<body><nav><h1>Contents</h1></nav></body>").encode()
    yield "table of contents", book("", {"nav.xhtml": contents}, items=nav, spine='<itemref idref="nav"/>'), "blank"
    css, cell = '<item id="css" href="s.css" media-type="text/css"/>', "<table><tr><td/></tr></table>"
    for body, style, word in (
        ("", b"p { color: red }", "blank"),
        (cell, b"td { border: none; color: red }", "blank"),
        ("", b'p::before { content: "x" }', "ok"),
        (cell, b"td { border: 0.5pt solid black }", "ok"),
    ):
        yield f"style sheet {style!r}", book(body, {"s.css": style}, items=css), word
    yield "no pages", with_part_changed(SAMPLE, "book.opf", '<itemref idref="page"/>', ""), "blank"
    yield "unlisted page", book("", spine='<itemref idref="gone"/>'), "ok"
    yield "missing page", without_part(book("x"), "page.xhtml"), "ok"
    for body in ("<img src='img/p%20q.png'/>", "<svg:svg><svg:image xlink:href='img/p%20q.png'/></svg:svg>"):
        for shows, word in ((True, "ok"), (False, "blank")):
            yield f"{body} {word}", book(body, {"img/p q.png": picture(shows=shows).getvalue()}), word
