"""Reads the parts that hold an EPUB together (EPUB 3.3, OCF): container, package document, encryption. What pages show is known elsewhere."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from sluice.formats.office.zip_documents import ZipDocument
from sluice.formats.text.xmlsafe import XmlTarget
from sluice.formats.verdict import TooComplex

CONTAINER: Final = "META-INF/container.xml"
ENCRYPTION: Final = "META-INF/encryption.xml"
_PACKAGE_TYPE: Final = "application/oebps-package+xml"
_OBFUSCATIONS: Final = frozenset({"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"})
"""Fonts are scrambled by these against copying; no reader needs a password for them."""
_ITEMS_MOST: Final = 100_000


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a package document's manifest."""

    part: str
    media_type: str
    is_navigation: bool


class _Container(XmlTarget):
    def __init__(self) -> None:
        self.packages: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag.endswith("}rootfile") and attributes.get("media-type", _PACKAGE_TYPE).strip() == _PACKAGE_TYPE:
            self.packages.append(unquote(attributes.get("full-path", "")).lstrip("/"))


class _Encryption(XmlTarget):
    def __init__(self) -> None:
        self.locks = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag.endswith("}EncryptionMethod"):
            self.locks |= attributes.get("Algorithm", "") not in _OBFUSCATIONS


class Package(XmlTarget):
    """The manifest and the reading order of one package document."""

    def __init__(self, part: str) -> None:
        self._folder = posixpath.dirname(part)
        self.items: dict[str, Item] = {}
        self.spine: list[str] = []
        """Ids of items."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open an element."""
        if tag.endswith("}item"):
            if len(self.items) > _ITEMS_MOST:
                raise TooComplex("the book's package document lists too many parts")
            self.items[attributes.get("id", "")] = Item(
                part=resolve(self._folder, attributes.get("href", "")),
                media_type=attributes.get("media-type", "").strip(),
                is_navigation="nav" in attributes.get("properties", "").split(),
            )
        elif tag.endswith("}itemref") and len(self.spine) < _ITEMS_MOST:
            self.spine.append(attributes.get("idref", ""))

    @property
    def pages(self) -> list[Item | None]:
        """The items in reading order, without the table of contents; None for one that the manifest lacks."""
        found = (self.items.get(item_id) for item_id in dict.fromkeys(self.spine))
        return [item for item in found if item is None or not item.is_navigation]


def resolve(folder: str, href: str) -> str:
    """Answer the part that a reference from a part in `folder` names."""
    return posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0])))


def packages_of(document: ZipDocument) -> list[str]:
    """Answer the package documents that the container names; none when it is no EPUB's."""
    container = _Container()
    document.read(CONTAINER, container)
    return container.packages


def is_locked(document: ZipDocument) -> bool:
    """Whether any part is encrypted so that a reader needs a key."""
    encryption = _Encryption()
    document.read(ENCRYPTION, encryption)
    return encryption.locks
