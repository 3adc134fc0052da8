"""Reads OpenDocument packages (ODF 1.3 part 2): which family, sound or not, encrypted or not. What documents show is known by the kinds.

A package is sound when the archive is, its main parts are well-formed, and it has content. Readers forgive the rest: a `mimetype` that
is packed, not the first member or missing, settings and macros that are no XML.
"""

from collections.abc import Mapping
from typing import Final

from sluice.formats.office.zip_documents import MANIFEST, check_parts, media_type_of, open_document
from sluice.formats.source import Source
from sluice.formats.text.xmlsafe import XmlTarget
from sluice.formats.verdict import Corrupt, Encrypted, Limits, Measure

CONTENT: Final = "content.xml"
_MAIN_PARTS: Final = frozenset({CONTENT, "styles.xml", "meta.xml", "settings.xml"})
_MACROS: Final = ("Basic/", "Scripts/")
_NAMESPACE: Final = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
_TYPE: Final = "application/vnd.oasis.opendocument."


class _Manifest(XmlTarget):
    """Which parts are encrypted."""

    def __init__(self) -> None:
        self.encrypted: set[str] = set()
        self._part = ""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == f"{{{_NAMESPACE}}}file-entry":
            self._part = attributes.get(f"{{{_NAMESPACE}}}full-path", "")
        elif tag == f"{{{_NAMESPACE}}}encryption-data":
            self.encrypted.add(self._part)


def family_of(source: Source) -> str | None:
    """Answer `text`, `spreadsheet`, `presentation` or another family that the package states, templates and masters included."""
    media_type = media_type_of(source)
    return media_type.removeprefix(_TYPE).partition("-")[0] if media_type.startswith(_TYPE) else None


def check_package(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Judge a document whole; answer how many parts it has and what they unpack to. Raises `Encrypted` when any part is behind a password."""
    document = open_document(source, limits)
    manifest = _Manifest()
    document.read(MANIFEST, manifest)

    def is_xml(name: str) -> bool:
        return name not in manifest.encrypted and name.rpartition("/")[2] in _MAIN_PARTS

    check_parts(document, is_xml)
    if manifest.encrypted:
        raise Encrypted("the document is protected by a password")
    if not document.has(CONTENT):
        raise Corrupt("the document lacks content.xml: it is incomplete")
    return {
        "parts": len(document.archive.by_name),
        "unpacked_bytes": document.budget.unpacked_bytes,
        "macros": any(name.startswith(_MACROS) for name in document.archive.by_name),
    }
