"""OpenDocument without properties and names of authors, macros, objects and what leads out of the document."""
# ODF 1.3 part 2 (packages) and 3 (schema).

from __future__ import annotations

import re
from typing import Final

from lxml import etree

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.fields import flags_of_formula
from sluice_inspect.office.compound import MAGIC
from sluice_inspect.report import Encrypted, TooComplex
from sluice_inspect.sanitise import compound, svg
from sluice_inspect.sanitise.cleaning import Cleaner, Cleaning, NotClean
from sluice_inspect.sanitise.packages import PackageParts, clean_picture, is_picture
from sluice_inspect.sanitise.trees import drop, elements, local, local_name, parse, unwrap, write

_SECONDS: Final = 20.0
_MANIFEST: Final = "META-INF/manifest.xml"
_CONTENTS: Final = frozenset({"content.xml", "styles.xml", "meta.xml", "settings.xml"})
_MACRO_FOLDERS: Final = ("Basic/", "Scripts/", "Dialogs/")
_MACRO_LISTS: Final = ("script-lc.xml", "script-lb.xml", "dialog-lc.xml", "dialog-lb.xml")
_OLD_VERSIONS: Final = ("Versions/", "VersionList.xml")
_SIGNATURES: Final = re.compile(r"META-INF/[^/]*signatures?[^/]*\.xml", re.IGNORECASE)
_HREF: Final = "{http://www.w3.org/1999/xlink}href"
_HEAD_BYTES: Final = 16

# Programs lay a text out otherwise, and calculate a workbook again, if they do not know which one wrote it.
_KEPT: Final = frozenset({"document-statistic", "generator"})
_PROPERTY_WORDS: Final = {
    **dict.fromkeys(("creator", "initial-creator", "printed-by", "contributor", "publisher"), "author"),
    **dict.fromkeys(("date", "creation-date", "print-date", "editing-duration"), "dates"),
    **dict.fromkeys(("title", "subject", "description", "keyword", "user-defined"), "comments"),
}
_IDENTIFIERS: Final = frozenset({"rsid", "paragraph-rsid"})
_NO_DATE: Final = "1970-01-01T00:00:00"
_CHANGES: Final = frozenset({"change-info", "annotation"})
_PEOPLE: Final = frozenset({"creator", "creator-initials", "sender-initials"})
_DATES: Final = frozenset({"date", "date-string"})
_SETTINGS: Final = frozenset({"PrinterName", "PrinterSetup", "PrintFaxName", "Rsid", "RsidRoot"})

_OBJECTS: Final = frozenset({"object-ole", "plugin", "applet", "floating-frame"})
_MACROS: Final = frozenset({"event-listeners", "event-listener", "scripts", "script", "execute-macro"})
_SOURCES: Final = frozenset({
    "dde-source", "dde-connection-decl", "dde-links", "dde-link", "section-source", "table-source", "cell-range-source",
    "database-source-sql", "database-source-query", "database-source-table", "connection-resource", "template",
    "auto-reload", "hyperlink-behaviour", "external-data",
})  # fmt: skip
_LINKS: Final = frozenset({"a", "dde-connection"})
_PICTURES: Final = frozenset({"image", "object", "fill-image"})
_FORMULAS: Final = frozenset({"formula", "expression", "condition", "value"})
_OUTSIDE: Final = re.compile(r"\s*(?:(?!data:)[a-z][a-z0-9+.-]*:|[\\/]|\.\.[\\/]?[^/])", re.IGNORECASE)


def clean(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the document without what is not wanted."""
    return _Document(data, cleaning).clean()


class _Document:
    """One document that is being cleaned."""

    def __init__(self, data: bytes, cleaning: Cleaning) -> None:
        self._data = data
        self._cleaning = cleaning
        self._removed = cleaning.removed
        self._parts = PackageParts(data)
        self._deadline = Deadline(_SECONDS)

    def clean(self) -> bytes:
        parts = self._parts
        manifest = parse(parts.read(_MANIFEST), _MANIFEST, may_have_doctype=True) if _MANIFEST in parts.names else None
        if manifest is not None and any(local(each) == "encryption-data" for each in manifest.iter()):
            raise Encrypted("the document is protected by a password")
        for name in parts.names:
            if self._deadline.has_passed:
                raise TooComplex("the document has too many parts")
            self._clean_part(name)
        if self._cleaning.metadata and not self._removed and parts.has_dates():
            self._removed.add("dates")
        if not self._removed:
            return self._data
        for name in parts.names:
            if _SIGNATURES.fullmatch(name):
                self._cleaning.is_signed = True
                self._removed.add("signatures")
                parts.drop(name)
        if manifest is not None:
            self._write_manifest(manifest)
        return parts.write()

    def _write_manifest(self, manifest: etree._Element) -> None:
        is_changed = False
        for each in list(manifest):
            path = next((str(value) for key, value in each.attrib.items() if local_name(key) == "full-path"), "")
            is_gone = path in self._parts.names and not self._parts.has(path)
            is_empty = path.startswith((*_MACRO_FOLDERS, *_OLD_VERSIONS)) and self._cleaning.active_content
            if is_gone or (is_empty and path not in self._parts.names):
                drop(each)
                is_changed = True
        if is_changed:
            self._parts.change(_MANIFEST, write(manifest))

    def _clean_part(self, name: str) -> None:
        if self._cleaning.metadata and name.startswith("Thumbnails/"):
            self._drop(name, "thumbnail")
        elif self._cleaning.metadata and name.startswith(_OLD_VERSIONS):
            self._drop(name, "other_metadata")
        elif self._cleaning.active_content and name.startswith(_MACRO_FOLDERS):
            # LibreOffice writes lists of macros without any; they are removed without a report.
            is_list = name.endswith(_MACRO_LISTS)
            if not is_list:
                self._removed.add("macros")
            if not is_list or self._removed:
                self._parts.drop(name)
        elif name.rpartition("/")[2] in _CONTENTS:
            data = self._parts.read(name)
            root = parse(data, name, may_have_doctype=True)
            if _Content(root, self._cleaning).clean():
                self._parts.change(name, write(root))
        elif self._cleaning.metadata and self._parts.head(name, _HEAD_BYTES).startswith(MAGIC):
            self._replace(name, compound.clean)
        elif name.endswith(".svg"):
            self._replace(name, svg.clean)
        elif self._cleaning.metadata and is_picture(self._parts.head(name, _HEAD_BYTES)):
            self._replace(name, clean_picture)

    def _drop(self, name: str, word: str) -> None:
        self._removed.add(word)
        self._parts.drop(name)

    def _replace(self, name: str, cleaner: Cleaner) -> None:
        within = Cleaning(self._cleaning.metadata, self._cleaning.active_content, depth=self._cleaning.depth + 1)
        cleaned = cleaner(self._parts.read(name), within)
        if within.removed:
            self._removed |= within.removed
            self._parts.change(name, cleaned)


class _Content:
    """One part of XML."""

    def __init__(self, root: etree._Element, cleaning: Cleaning) -> None:
        self._root = root
        self._cleaning = cleaning
        self._removed = cleaning.removed
        self._is_changed = False

    def clean(self) -> bool:
        """Change the tree; return whether anything was."""
        for each in list(elements(self._root)):
            name = local(each)
            if not name or (each is not self._root and each.getparent() is None):
                continue
            if self._cleaning.metadata:
                self._clean_metadata(each, name)
            if self._cleaning.active_content:
                self._clean_active(each, name)
        return self._is_changed

    def _note(self, word: str) -> None:
        self._removed.add(word)
        self._is_changed = True

    def _drop(self, each: etree._Element, word: str) -> None:
        drop(each)
        self._note(word)

    def _clean_metadata(self, each: etree._Element, name: str) -> None:
        parent = each.getparent()
        holder = "" if parent is None else local(parent)
        if name == "meta" and "office" in str(each.tag):
            for child in [child for child in each if local(child) not in _KEPT]:
                self._drop(child, _PROPERTY_WORDS.get(local(child), "other_metadata"))
        elif holder in _CHANGES and name in _PEOPLE | _DATES:
            self._clean_change(each, name, holder)
        elif name == "config-item" and each.text:
            key = next((str(value) for kind, value in each.attrib.items() if local_name(kind) == "name"), "")
            if key in _SETTINGS:
                self._drop(each, "other_metadata")
        for attribute in [key for key in each.attrib if local_name(key) in _IDENTIFIERS]:
            del each.attrib[attribute]
            self._note("other_metadata")

    def _clean_change(self, each: etree._Element, name: str, holder: str) -> None:
        """Clean who made a change or a remark, and when."""
        if name in _PEOPLE and each.text:
            each.text = ""
            self._note("author")
        elif name == "date" and holder == "change-info":  # which needs one
            if each.text != _NO_DATE:
                each.text = _NO_DATE
                self._note("dates")
        elif name in _DATES:
            self._drop(each, "dates")

    def _clean_active(self, each: etree._Element, name: str) -> None:
        address = each.get(_HREF, "")
        is_outside = _OUTSIDE.match(address) is not None
        if name == "object" and any(local(child) == "binary-data" for child in each):
            raise NotClean("inseparable")
        if word := _word_of(each, name, is_outside=is_outside):
            self._drop(each, word)
            return
        if name in _LINKS and (name != "a" or is_outside):
            self._note("external_links" if name == "a" else "actions")
            unwrap(each)
            return
        if is_outside:
            del each.attrib[_HREF]
            self._note("external_links")
        for attribute, value in list(each.attrib.items()):
            key = local_name(attribute)
            if key in {"database-name", "datasource"} and _OUTSIDE.match(str(value)):
                self._note("external_links")
                del each.attrib[attribute]
            elif key in _FORMULAS and (flags := flags_of_formula(str(value))):
                self._note("actions" if "dde" in flags else "external_links")
                del each.attrib[attribute]


def _word_of(each: etree._Element, name: str, *, is_outside: bool) -> str:
    """Return what an element is that goes with all that is in it, nothing for one that stays."""
    if name in _MACROS and (name != "scripts" or len(each)):
        return "macros"
    if name in _OBJECTS:
        return "embedded_files"
    if name in _SOURCES and ("dde" in name or "database" in name or is_outside):
        return "actions" if "dde" in name else "external_links"
    return "external_links" if is_outside and name in _PICTURES else ""
