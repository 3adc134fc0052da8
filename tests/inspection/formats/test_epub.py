"""EPUB: integrity, encryption and blankness."""

from collections.abc import Mapping

from sluice_inspect.formats.epub import FORMAT
from sluice_inspect.report import Finding, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.office_packages import package_of, parts_of, picture, with_part_changed, without_part
from tests.rows import each_row

SAMPLE = FORMAT.sample()
PAGE = '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:svg="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{}</html>'


def examine(data: bytes) -> Examined:
    return examine_bytes(FORMAT, data)


def book(body: str, others: Mapping[str, bytes] | None = None, items: str = "", spine: str = "") -> bytes:
    parts = parts_of(SAMPLE) | {
        "page.xhtml": PAGE.format(f"<head><title>A title</title></head><body>{body}</body>").encode()
    }
    opf = (
        parts["book.opf"].decode().replace("</manifest>", items + "</manifest>").replace("</spine>", spine + "</spine>")
    )
    return package_of(parts | {"book.opf": opf.encode()} | dict(others or {}))


def blank(data: bytes) -> bool:
    result = examine(data)
    assert result.outcome is Outcome.OK, result
    return result.blank is not None


def encryption(algorithm: str) -> bytes:
    return (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" xmlns:enc="http://www.w3.org/2001/04/xmlenc#">'
        f'<enc:EncryptedData><enc:EncryptionMethod Algorithm="{algorithm}"/></enc:EncryptedData></encryption>'
    ).encode()


def test_book_without_mimetype_is_recognised_by_its_container() -> None:
    assert examine(without_part(SAMPLE, "mimetype")).passes


@each_row("kept", [0.2, 0.6, 0.97])
def test_truncated_book_is_corrupt(kept: float) -> None:
    result = examine(SAMPLE[: int(len(SAMPLE) * kept)])
    assert (result.recognised, result.outcome) == (True, Outcome.CORRUPT)


def test_changed_byte_is_corrupt() -> None:
    assert examine(SAMPLE.replace(b"a gate", b"a gape")).outcome is Outcome.CORRUPT


@each_row("part", ["META-INF/container.xml", "book.opf"])
def test_book_without_its_container_or_package_document_is_corrupt(part: str) -> None:
    result = examine(without_part(SAMPLE, part))
    assert result.outcome is Outcome.CORRUPT
    assert part in result.detail


@each_row("part", ["META-INF/container.xml", "book.opf"])
def test_malformed_container_or_package_document_is_corrupt(part: str) -> None:
    parts = parts_of(SAMPLE)
    assert examine(package_of(parts | {part: parts[part][:-4]})).outcome is Outcome.CORRUPT


def test_container_without_rootfile_is_corrupt() -> None:
    assert (
        examine(with_part_changed(SAMPLE, "META-INF/container.xml", "<rootfile ", "<other ")).outcome is Outcome.CORRUPT
    )


def test_malformed_page_passes_and_is_not_blank() -> None:
    data = package_of(parts_of(SAMPLE) | {"page.xhtml": b"<html><body><p></body></html>"})
    assert (examine(data).outcome, examine(data).blank) == (Outcome.OK, None)


def test_book_is_encrypted_unless_only_its_fonts_are_obfuscated() -> None:
    parts = parts_of(SAMPLE)
    locked = encryption("http://www.w3.org/2001/04/xmlenc#aes128-cbc")
    scrambled = encryption("http://www.idpf.org/2008/embedding")
    assert examine(package_of(parts | {"META-INF/encryption.xml": locked})).outcome is Outcome.ENCRYPTED
    assert examine(package_of(parts | {"META-INF/encryption.xml": scrambled})).outcome is Outcome.OK


def test_name_outside_the_folder_is_unsafe() -> None:
    assert examine(package_of(parts_of(SAMPLE) | {"../a": b"x"})).finding is Finding.ARCHIVE_UNSAFE


def test_other_documents_are_not_recognised() -> None:
    parts = parts_of(SAMPLE)
    assert not examine(package_of(parts | {"mimetype": b"application/vnd.oasis.opendocument.text"})).recognised
    assert not examine(
        without_part(with_part_changed(SAMPLE, "META-INF/container.xml", "oebps-package", "other"), "mimetype")
    ).recognised
    assert not examine(b"PK\x03\x04" + bytes(60)).recognised


NAV = '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
CSS = '<item id="css" href="s.css" media-type="text/css"/>'


@each_row(
    "body",
    [
        "",
        "<p> \u00a0\u200b</p><br/>",
        "<script>var a = 1;</script><style>p { color: red }</style>",
        "<p hidden=''>word</p>",
        "<div style='display: none'>word <img src='p.png'/></div>",
        "<svg:svg><svg:title>a title</svg:title><svg:defs><svg:path d='M0 0'/></svg:defs></svg:svg>",
    ],
)
def test_pages_without_visible_content_are_blank(body: str) -> None:
    assert blank(book(body))


@each_row(
    "body",
    [
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
    ],
)
def test_pages_with_visible_content_are_not_blank(body: str) -> None:
    assert not blank(book(body))


@each_row("shows", [True, False])
@each_row("body", ["<img src='img/p%20q.png'/>", "<svg:svg><svg:image xlink:href='img/p%20q.png'/></svg:svg>"])
def test_picture_is_content_only_when_it_is_not_blank(body: str, shows: bool) -> None:  # noqa: FBT001  (a parameter of pytest)
    assert blank(book(body, {"img/p q.png": picture(shows=shows).getvalue()})) is not shows


def test_table_of_contents_is_not_content() -> None:
    nav = PAGE.format("<body><nav><h1>Contents</h1></nav></body>").encode()
    assert blank(book("", {"nav.xhtml": nav}, items=NAV, spine='<itemref idref="nav"/>'))


def test_book_with_a_missing_page_is_not_blank() -> None:
    assert not blank(book("", spine='<itemref idref="gone"/>'))
    assert not blank(without_part(book("x"), "page.xhtml"))


@each_row(("sheet", "is_blank"), [(b"p { color: red }", True), (b'p::before { content: "x" }', False)])
def test_style_sheet_with_generated_text_is_content(sheet: bytes, is_blank: bool) -> None:  # noqa: FBT001  (a parameter of pytest)
    assert blank(book("", {"s.css": sheet}, items=CSS)) is is_blank


@each_row(
    ("sheet", "is_blank"), [(b"td { border: 0.5pt solid black }", False), (b"td { border: none; color: red }", True)]
)
def test_style_sheet_with_table_borders_is_content(sheet: bytes, is_blank: bool) -> None:  # noqa: FBT001  (a parameter of pytest)
    assert blank(book("<table><tr><td/></tr></table>", {"s.css": sheet}, items=CSS)) is is_blank


def test_book_without_pages_is_blank() -> None:
    assert blank(with_part_changed(SAMPLE, "book.opf", '<itemref idref="page"/>', ""))
