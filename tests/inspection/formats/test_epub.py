from collections.abc import Mapping

import pytest

from sluice.formats.kinds.epub import KIND
from sluice.formats.verdict import Finding, Outcome
from tests.formats.judging import Judged, corpus, judge, needs_corpus
from tests.formats.packages import changed, package_of, parts_of, picture, without

SAMPLE = KIND.sample()
PAGE = '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:svg="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{}</html>'


def judged(data: bytes) -> Judged:
    return judge(KIND, data)


def book(body: str, others: Mapping[str, bytes] | None = None, items: str = "", spine: str = "") -> bytes:
    parts = parts_of(SAMPLE) | {"page.xhtml": PAGE.format(f"<head><title>A title</title></head><body>{body}</body>").encode()}
    opf = parts["book.opf"].decode().replace("</manifest>", items + "</manifest>").replace("</spine>", spine + "</spine>")
    return package_of(parts | {"book.opf": opf.encode()} | dict(others or {}))


def blank(data: bytes) -> bool:
    found = judged(data)
    assert found.outcome is Outcome.OK, found
    return found.blank is not None


def encryption(algorithm: str) -> bytes:
    return (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" xmlns:enc="http://www.w3.org/2001/04/xmlenc#">'
        f'<enc:EncryptedData><enc:EncryptionMethod Algorithm="{algorithm}"/></enc:EncryptedData></encryption>'
    ).encode()


def test_the_sample_is_good() -> None:
    found = judged(SAMPLE)
    assert (found.passes, found.outcome, found.blank) == (True, Outcome.OK, None)


def test_a_book_that_does_not_state_its_type_is_known_by_its_container() -> None:
    assert judged(without(SAMPLE, "mimetype")).passes


@pytest.mark.parametrize("kept", [0.2, 0.6, 0.97])
def test_a_cut_book_is_corrupt(kept: float) -> None:
    found = judged(SAMPLE[: int(len(SAMPLE) * kept)])
    assert (found.recognised, found.outcome) == (True, Outcome.CORRUPT)


def test_a_changed_byte_is_corrupt() -> None:
    assert judged(SAMPLE.replace(b"a gate", b"a gape")).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("part", ["META-INF/container.xml", "book.opf"])
def test_a_book_without_its_container_or_package_document_is_corrupt(part: str) -> None:
    found = judged(without(SAMPLE, part))
    assert found.outcome is Outcome.CORRUPT
    assert part in found.detail


@pytest.mark.parametrize("part", ["META-INF/container.xml", "book.opf"])
def test_a_container_or_package_document_that_is_not_well_formed_is_corrupt(part: str) -> None:
    parts = parts_of(SAMPLE)
    assert judged(package_of(parts | {part: parts[part][:-4]})).outcome is Outcome.CORRUPT


def test_a_container_that_names_nothing_is_corrupt() -> None:
    assert judged(changed(SAMPLE, "META-INF/container.xml", "<rootfile ", "<other ")).outcome is Outcome.CORRUPT


def test_a_page_that_is_not_well_formed_is_forgiven_and_not_blank() -> None:
    data = package_of(parts_of(SAMPLE) | {"page.xhtml": b"<html><body><p></body></html>"})
    assert (judged(data).outcome, judged(data).blank) == (Outcome.OK, None)


def test_a_locked_book_is_encrypted_but_scrambled_fonts_lock_nothing() -> None:
    parts = parts_of(SAMPLE)
    locked = encryption("http://www.w3.org/2001/04/xmlenc#aes128-cbc")
    scrambled = encryption("http://www.idpf.org/2008/embedding")
    assert judged(package_of(parts | {"META-INF/encryption.xml": locked})).outcome is Outcome.ENCRYPTED
    assert judged(package_of(parts | {"META-INF/encryption.xml": scrambled})).outcome is Outcome.OK


def test_names_that_leave_the_folder_are_unsafe() -> None:
    assert judged(package_of(parts_of(SAMPLE) | {"../a": b"x"})).finding is Finding.ARCHIVE_UNSAFE


def test_documents_of_other_kinds_are_not_recognised() -> None:
    parts = parts_of(SAMPLE)
    assert not judged(package_of(parts | {"mimetype": b"application/vnd.oasis.opendocument.text"})).recognised
    assert not judged(without(changed(SAMPLE, "META-INF/container.xml", "oebps-package", "other"), "mimetype")).recognised
    assert not judged(b"PK\x03\x04" + bytes(60)).recognised


NAV = '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
CSS = '<item id="css" href="s.css" media-type="text/css"/>'


@pytest.mark.parametrize(
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
def test_pages_that_show_nothing_are_blank(body: str) -> None:
    assert blank(book(body))


@pytest.mark.parametrize(
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
def test_pages_that_show_anything_are_not_blank(body: str) -> None:
    assert not blank(book(body))


@pytest.mark.parametrize("shows", [True, False])
@pytest.mark.parametrize("body", ["<img src='img/p%20q.png'/>", "<svg:svg><svg:image xlink:href='img/p%20q.png'/></svg:svg>"])
def test_a_picture_counts_if_it_shows_something(body: str, shows: bool) -> None:  # noqa: FBT001  (a parameter of pytest)
    assert blank(book(body, {"img/p q.png": picture(shows=shows).getvalue()})) is not shows


def test_the_table_of_contents_is_no_page() -> None:
    nav = PAGE.format("<body><nav><h1>Contents</h1></nav></body>").encode()
    assert blank(book("", {"nav.xhtml": nav}, items=NAV, spine='<itemref idref="nav"/>'))


def test_a_page_that_is_missing_is_in_doubt() -> None:
    assert not blank(book("", spine='<itemref idref="gone"/>'))
    assert not blank(without(book("x"), "page.xhtml"))


@pytest.mark.parametrize(("sheet", "is_blank"), [(b"p { color: red }", True), (b'p::before { content: "x" }', False)])
def test_style_sheets_may_show_what_pages_do_not_hold(sheet: bytes, is_blank: bool) -> None:  # noqa: FBT001  (a parameter of pytest)
    assert blank(book("", {"s.css": sheet}, items=CSS)) is is_blank


@pytest.mark.parametrize(
    ("sheet", "is_blank"), [(b"td { border: 0.5pt solid black }", False), (b"td { border: none; color: red }", True)]
)
def test_style_sheets_may_draw_the_lines_of_tables(sheet: bytes, is_blank: bool) -> None:  # noqa: FBT001  (a parameter of pytest)
    assert blank(book("<table><tr><td/></tr></table>", {"s.css": sheet}, items=CSS)) is is_blank


def test_a_book_without_pages_is_blank() -> None:
    assert blank(changed(SAMPLE, "book.opf", '<itemref idref="page"/>', ""))


@needs_corpus
def test_corpus_good_files_pass_and_broken_ones_do_not() -> None:
    assert [path.name for path in corpus("epub", "valid") if not judge(KIND, path.read_bytes()).passes] == []
    assert [path.name for path in corpus("epub", "corrupt") if judge(KIND, path.read_bytes()).passes] == []
