"""EPUB books (EPUB 3.3, OCF): container, package document, checksums of all parts, ink of the pages."""
# Pages need not be well-formed; container and package document must be, since no reader finds a page without them.

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final
from urllib.parse import unquote

from sluice_inspect.archives.zip.archive import read_archive
from sluice_inspect.archives.zip.records import LOCAL
from sluice_inspect.budget import Budget, Deadline
from sluice_inspect.facts.pages import examine_page
from sluice_inspect.format import Examination, Family, Format, MatchOrder, SecondFormats, named
from sluice_inspect.images.embedded import read_capped
from sluice_inspect.office.zip_documents import ZipDocument, check_parts, make_zip, media_type_of, open_document
from sluice_inspect.report import Corrupt, Encrypted, FactSheet, InspectionError, Limits, TooComplex
from sluice_inspect.source import Source
from sluice_inspect.subject import Subject
from sluice_inspect.text.html_ink import has_visible_box
from sluice_inspect.text.plaintext import INVISIBLE
from sluice_inspect.text.xml_encodings import encodings_of, text_of
from sluice_inspect.text.xmlsafe import StopParsing, XmlTarget

_MEDIA_TYPE: Final = "application/epub+zip"
_CONTAINER_PART: Final = "META-INF/container.xml"
_ENCRYPTION_PART: Final = "META-INF/encryption.xml"
_PACKAGE_TYPE: Final = "application/oebps-package+xml"
_PAGE_TYPES: Final = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml"})
# These scramble fonts against copying. No reader needs a password for them.
_OBFUSCATIONS: Final = frozenset({"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"})
_MAX_ITEMS: Final = 100_000
_STYLE_BYTES: Final = 1024 * 1024
# Pages that are searched for what a flag names, in unpacked bytes, and how one begins.
_SEARCHED_BYTES: Final = 16 * 1024**2
_HEAD_BYTES: Final = 64
_MARKUP: Final = re.compile(rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?[\s\0]*<|\x4c\x6f\xa7\x94")

_MUTED: Final = frozenset({"head", "script", "style", "template", "title", "desc", "metadata", "defs"})
# Ink by their mere presence.
_OBJECTS: Final = frozenset({
    "video", "audio", "object", "embed", "iframe", "canvas", "input", "select", "textarea", "button", "meter",
    "progress", "hr", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "use", "foreignObject",
})  # fmt: skip
_TABLES: Final = frozenset({"table", "td", "th"})
_HIDDEN: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden")
_PAINTED: Final = re.compile(r"url\s*\(")
_XLINK_HREF: Final = "{http://www.w3.org/1999/xlink}href"
# What in a style sheet may put something on a page that its text does not hold.
_PAINTING_STYLE: Final = re.compile(rb"content\s*:\s*[\"'][^\"']|background[^;}]{0,200}url\s*\(")


def _matches(source: Source) -> bool:
    stated = media_type_of(source)
    if stated or not source.head.startswith(LOCAL):
        return stated == _MEDIA_TYPE
    if _CONTAINER_PART.encode() not in source.tail and _CONTAINER_PART.encode() not in source.head:
        return False
    try:
        return bool(_package_names(open_document(source, Limits())))
    except InspectionError:
        return False


def _examine(source: Source, limits: Limits) -> Examination:
    document = open_document(source, limits)
    if not document.has(_CONTAINER_PART):
        raise Corrupt(f"the book lacks {_CONTAINER_PART}, by which readers find its pages")
    names = _package_names(document)
    check_parts(document, lambda name: name in {_CONTAINER_PART, _ENCRYPTION_PART, *names})
    missing = next((name for name in names if not document.has(name)), None)
    if missing:
        raise Corrupt(f"the book lacks the package document {missing}")
    if not names or missing is not None:
        raise Corrupt("the book's container names no package document")
    unpacked = document.budget.unpacked_bytes
    encryption = _Encryption()
    document.read(_ENCRYPTION_PART, encryption)
    if encryption.needs_key:
        raise Encrypted("the book is protected by a password or a licence")
    packages = [PackageDocument(name) for name in names]
    for name, package in zip(names, packages, strict=True):
        document.read(name, package)
    pages = sum(len(package.pages) for package in packages)
    measures = {"parts": len(document.archive.by_name), "pages": pages, "unpacked_bytes": unpacked}
    return Examination(measures, lambda: _blank(document.with_new_budget(), packages))


def page_parts(document: ZipDocument) -> Iterator[str]:
    """Yield the parts of a book that are its pages in XHTML, in reading order. Raise `Encrypted` behind a licence."""
    encryption = _Encryption()
    document.read(_ENCRYPTION_PART, encryption)
    if encryption.needs_key:
        raise Encrypted("the book is protected by a password or a licence")
    for name in _package_names(document):
        package = PackageDocument(name)
        document.read(name, package)
        for page in package.pages:
            if page is not None and page.media_type in _PAGE_TYPES and document.has(page.part):
                yield page.part


def _blank(document: ZipDocument, packages: Sequence["PackageDocument"]) -> str | None:
    pages = [page for package in packages for page in package.pages]
    shown = [_page_content(document, page) for page in pages]
    has_tables = _PageContent.TABLES in shown
    if _PageContent.INK in shown or any(
        _has_painting_style(document, each, has_tables=has_tables) for each in packages
    ):
        return None
    return f"none of the book's {len(pages)} pages shows anything" if pages else "the book has no pages"


class _PageContent(Enum):
    """What a page shows. Of a table without content (`TABLES`), the style sheets state whether it has lines."""

    NOTHING = auto()
    TABLES = auto()
    INK = auto()


def _page_content(document: ZipDocument, page: "ManifestItem | None") -> _PageContent:
    """Return what a page shows. One that is missing, of another type or not well-formed may show something: `INK`."""
    if page is None or not document.has(page.part):
        return _PageContent.INK
    if page.media_type.startswith("image/") and not page.media_type.startswith("image/svg"):
        return _PageContent.INK if document.is_picture_visible(page.part) else _PageContent.NOTHING
    if page.media_type not in _PAGE_TYPES:
        return _PageContent.INK
    ink = _PageInk(page.part)
    document.read(page.part, ink)
    if ink.has_ink or any(document.is_picture_visible(name) for name in dict.fromkeys(ink.pictures)):
        return _PageContent.INK
    return _PageContent.TABLES if ink.has_tables else _PageContent.NOTHING


def _has_painting_style(document: ZipDocument, package: "PackageDocument", *, has_tables: bool) -> bool:
    for item in package.items.values():
        if item.media_type != "text/css" or not document.has(item.part):
            continue
        sheet = read_capped(document.open(item.part), _STYLE_BYTES)
        if sheet is None or _PAINTING_STYLE.search(sheet):
            return True
        if has_tables and has_visible_box(sheet.decode("utf-8", "replace")):
            return True
    return False


@dataclass(frozen=True, slots=True)
class ManifestItem:
    """One entry of a package document's manifest."""

    part: str
    media_type: str
    is_navigation: bool


class PackageDocument(XmlTarget):
    """The manifest of one package document, and its reading order (`spine`: ids of items)."""

    def __init__(self, part: str) -> None:
        self.items: dict[str, ManifestItem] = {}
        self.spine: list[str] = []
        self._folder = posixpath.dirname(part)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open an element."""
        if tag.endswith("}item"):
            if len(self.items) > _MAX_ITEMS:
                raise TooComplex("the book's package document lists too many parts")
            self.items[attributes.get("id", "")] = ManifestItem(
                part=_resolve(self._folder, attributes.get("href", "")),
                media_type=attributes.get("media-type", "").strip(),
                is_navigation="nav" in attributes.get("properties", "").split(),
            )
        elif tag.endswith("}itemref") and len(self.spine) < _MAX_ITEMS:
            self.spine.append(attributes.get("idref", ""))

    @property
    def pages(self) -> list[ManifestItem | None]:
        """The items in reading order, without the table of contents; None for one that the manifest lacks."""
        found = (self.items.get(item_id) for item_id in dict.fromkeys(self.spine))
        return [item for item in found if item is None or not item.is_navigation]


class _Container(XmlTarget):
    def __init__(self) -> None:
        self.packages: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag.endswith("}rootfile") and attributes.get("media-type", _PACKAGE_TYPE).strip() == _PACKAGE_TYPE:
            self.packages.append(unquote(attributes.get("full-path", "")).lstrip("/"))


def _package_names(document: ZipDocument) -> list[str]:
    container = _Container()
    document.read(_CONTAINER_PART, container)
    return container.packages


class _Encryption(XmlTarget):
    def __init__(self) -> None:
        self.needs_key = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag.endswith("}EncryptionMethod"):
            self.needs_key |= attributes.get("Algorithm", "") not in _OBFUSCATIONS


class _PageInk(XmlTarget):
    """Reads one page until there is ink for sure. `pictures` are part names; `has_tables`: styles may draw lines."""

    def __init__(self, part: str) -> None:
        self.has_ink = False
        self.has_tables = False
        self.pictures: list[str] = []
        self._folder = posixpath.dirname(part)
        self._depth = 0
        self._muted_depth = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._muted_depth:
            return
        name, style = tag.rpartition("}")[2], attributes.get("style", "")
        if name in _MUTED or "hidden" in attributes or _HIDDEN.search(style):
            self._muted_depth = self._depth
        elif name in _OBJECTS or _PAINTED.search(style) or has_visible_box(style):
            self._mark_ink()
        elif name in _TABLES:
            self.has_tables = True
        elif name in {"img", "image"}:
            target = attributes.get("src") or attributes.get(_XLINK_HREF) or attributes.get("href", "")
            if ":" in target:
                self._mark_ink()  # an address outside the book
            if target:
                self.pictures.append(_resolve(self._folder, target))

    def end(self, _tag: str) -> None:
        if self._muted_depth == self._depth:
            self._muted_depth = 0
        self._depth -= 1

    def data(self, text: str) -> None:
        if not self._muted_depth and text.strip(INVISIBLE):
            self._mark_ink()

    def _mark_ink(self) -> None:
        self.has_ink = True
        raise StopParsing


def _resolve(folder: str, href: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0])))


def _sample() -> bytes:
    return make_zip(
        {
            "mimetype": _MEDIA_TYPE,
            _CONTAINER_PART: (
                '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
                '<rootfile full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
            ),
            "book.opf": (
                '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><manifest>'
                '<item id="page" href="page.xhtml" media-type="application/xhtml+xml"/></manifest>'
                '<spine><itemref idref="page"/></spine></package>'
            ),
            "page.xhtml": (
                '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>Sluice</title></head>'
                "<body><p>A sluice is a gate.</p></body></html>"
            ),
        }
    )


def _facts(subject: Subject, sheet: FactSheet) -> None:
    archive = subject.source.cached(read_archive, subject.limits)
    budget = Budget(subject.limits, packed_bytes=subject.source.size)
    deadline = Deadline(subject.limits.soft_seconds)
    if subject.measures:  # the examination read all of it
        sheet.facts["encrypted"] = False
    left = _SEARCHED_BYTES
    for index in archive.by_name.values():
        member = archive.open(index, budget)
        head = member.read(_HEAD_BYTES)
        if not _MARKUP.match(head):  # its name says nothing: the package may list any part as a page
            continue
        left -= archive.members[index].unpacked
        if left < 0 or deadline.has_passed:
            sheet.complete = False
            return
        data = head + member.read(-1)
        for encoding in encodings_of(data):
            examine_page("".join(text_of(iter((data,)), encoding)), sheet, deadline)


FORMAT: Final = Format(
    name="epub",
    family=Family.DOCUMENT,
    content_type=_MEDIA_TYPE,
    extensions=frozenset({"epub"}),
    begins=(LOCAL,),
    matches=_matches,
    match_order=MatchOrder.IN_CONTAINER,
    examine=_examine,
    facts=_facts,
    own_facts=frozenset({"encrypted"}),
    sample=_sample,
    names=named("document", "application/epub"),
    second_formats=SecondFormats.AROUND,
)
