"""EPUB books: container, package document, every part's checksum, and whether any page of the reading order shows something.

Pages that are not well-formed are forgiven, as most readers do; the container and the package document are not, since without them no
reader finds a page. The table of contents is no page.
"""

import io
import zipfile
from collections.abc import Mapping
from enum import Enum
from typing import Final

from sluice.formats.archives.zip_records import LOCAL
from sluice.formats.images.embedded import read_capped
from sluice.formats.kind import Kind
from sluice.formats.office.epub_pages import STYLE_PAINTS, PageInk
from sluice.formats.office.epub_parts import CONTAINER, ENCRYPTION, Item, Package, is_locked, packages_of
from sluice.formats.office.zip_documents import ZipDocument, check_parts, media_type_of, open_document
from sluice.formats.source import Source
from sluice.formats.text.html_ink import draws
from sluice.formats.verdict import Corrupt, Encrypted, Judgement, Limits, Measure

_MEDIA_TYPE: Final = "application/epub+zip"
_PAGES: Final = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml"})
_STYLE_BYTES: Final = 1024 * 1024


def recognises(source: Source) -> bool:
    """Whether the archive states that it is a book, or at least has the container of one."""
    stated = media_type_of(source)
    if stated or not source.head.startswith(LOCAL):
        return stated == _MEDIA_TYPE
    if CONTAINER.encode() not in source.tail and CONTAINER.encode() not in source.head:
        return False
    try:
        return bool(packages_of(open_document(source, Limits())))
    except Judgement:
        return False


def check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Judge the book whole; answer how many parts and pages it has. Raises `Encrypted` for one that needs a key."""
    document = open_document(source, limits)
    if not document.has(CONTAINER):
        raise Corrupt(f"the book lacks {CONTAINER}, by which readers find its pages")
    packages = packages_of(document)
    check_parts(document, lambda name: name in {CONTAINER, ENCRYPTION, *packages})
    missing = next((name for name in packages if not document.has(name)), None)
    if not packages or missing is not None:
        raise Corrupt(
            f"the book lacks the package document {missing}" if missing else "the book's container names no package document"
        )
    unpacked = document.budget.unpacked_bytes
    if is_locked(document):
        raise Encrypted("the book is protected by a password or a licence")
    pages = sum(len(_package(document, name).pages) for name in packages)
    return {"parts": len(document.archive.by_name), "pages": pages, "unpacked_bytes": unpacked}


def blank(source: Source, limits: Limits) -> str | None:
    """Answer that no page of the reading order shows any text, picture or drawing, nor do its style sheets."""
    document = open_document(source, limits)
    packages = [_package(document, name) for name in packages_of(document)]
    pages = [page for package in packages for page in package.pages]
    looks = [_look(document, page) for page in pages]
    has_cells = any(look is _Look.CELLS for look in looks)
    if _Look.SOMETHING in looks or any(_is_painted(document, package, has_cells=has_cells) for package in packages):
        return None
    return f"none of the book's {len(pages)} pages shows anything" if pages else "the book has no pages"


def _package(document: ZipDocument, name: str) -> Package:
    package = Package(name)
    document.read(name, package)
    return package


class _Look(Enum):
    """What a page shows."""

    NOTHING = 1
    CELLS = 2
    """A table without content: whether it has lines, the style sheets say."""
    SOMETHING = 3


def _look(document: ZipDocument, page: Item | None) -> _Look:
    """Answer what a page shows. What is missing, of another kind or not well-formed is in doubt: something."""
    if page is None or not document.has(page.part):
        return _Look.SOMETHING
    if page.media_type.startswith("image/") and not page.media_type.startswith("image/svg"):
        return _Look.SOMETHING if document.shows_picture(page.part) else _Look.NOTHING
    if page.media_type not in _PAGES:
        return _Look.SOMETHING
    ink = PageInk(page.part)
    document.read(page.part, ink)
    if ink.has_ink or any(document.shows_picture(name) for name in dict.fromkeys(ink.pictures)):
        return _Look.SOMETHING
    return _Look.CELLS if ink.has_cells else _Look.NOTHING


def _is_painted(document: ZipDocument, package: Package, *, has_cells: bool) -> bool:
    styles = (item.part for item in package.items.values() if item.media_type == "text/css" and document.has(item.part))
    sheets = (read_capped(document.open(part), _STYLE_BYTES) for part in styles)
    return any(
        sheet is None or STYLE_PAINTS.search(sheet) or (has_cells and draws(sheet.decode("utf-8", "replace"))) for sheet in sheets
    )


def sample() -> bytes:
    """Answer a book of one page."""
    parts = {
        "mimetype": _MEDIA_TYPE,
        CONTAINER: (
            '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
        ),
        "book.opf": (
            '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><manifest><item id="page" href="page.xhtml" '
            'media-type="application/xhtml+xml"/></manifest><spine><itemref idref="page"/></spine></package>'
        ),
        "page.xhtml": (
            '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>Sluice</title></head><body><p>A sluice is a gate.</p></body></html>'
        ),
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()


KIND: Final = Kind(
    name="epub",
    content_type=_MEDIA_TYPE,
    extensions=frozenset({"epub"}),
    recognises=recognises,
    check=check,
    sample=sample,
    blank=blank,
)
