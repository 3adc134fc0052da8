"""SVG without metadata, scripts, event handlers and what it loads from outside."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final
from urllib.parse import unquote_to_bytes

from lxml import etree

from sluice_inspect.report import Corrupt
from sluice_inspect.sanitise.cleaning import Cleaning, NotClean
from sluice_inspect.sanitise.packages import clean_picture
from sluice_inspect.sanitise.trees import (
    around,
    doctype_of,
    drop,
    drop_around,
    elements,
    is_comment,
    is_element,
    local,
    parse,
    write,
)

_XLINK: Final = "{http://www.w3.org/1999/xlink}"
# How the names of elements and attributes begin that editors write for themselves.
_EDITORS: Final = (
    "{http://www.inkscape.org/",
    "{http://sodipodi.sourceforge.net/",
    "{http://ns.adobe.com/",
    "{https://ns.adobe.com/",
    "{http://www.bohemiancoding.com/",
    "{http://www.w3.org/1999/02/22-rdf",
    "{http://purl.org/dc/",
    "{http://creativecommons.org/",
    "{http://web.resource.org/",
    "{http://www.serif.com/",
    "{http://schemas.microsoft.com/visio/",
    "{http://xmlns.boxy-svg.com",
    "{https://boxy-svg.com",
    "{http://vectornator.io",
    "{http://www.figma.com",
)
_REMARKS: Final = frozenset({"metadata"})
_SCRIPTS: Final = frozenset({"script", "handler", "listener"})
_FOREIGN: Final = frozenset({"foreignObject", "iframe", "embed", "object", "audio", "video", "form", "html", "body"})
_ANIMATIONS: Final = frozenset({"set", "animate", "animateMotion", "animateTransform", "animateColor"})
_ADDRESSES: Final = frozenset({"href", "src", "action", "formaction", "data", "base"})
_RUN: Final = ("javascript:", "vbscript:", "data:")
_GAPS: Final = re.compile(r"[\x00-\x20\x7f-\xa0]")  # which readers skip within an address
_SHAPES: Final = frozenset({
    "path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text", "image", "use", "tspan", "switch",
})  # fmt: skip
_DATA: Final = re.compile(r"\s*data:([^,;]*)((?:;[^,;]*)*),(.*)", re.IGNORECASE | re.DOTALL)
_PICTURE_TYPES: Final = re.compile(r"image/(?!svg)[a-z0-9.+-]+", re.IGNORECASE)
_STYLE_URL: Final = re.compile(
    r"url\(\s*(?![\"']?\s*(?:#|data:image/(?!svg)|data:font/|data:application/[\w-]*font))[^)]*\)?", re.IGNORECASE
)
_STYLE_ESCAPE: Final = re.compile(r"\\([0-9a-f]{1,6})\s?", re.IGNORECASE)
_STYLE_IMPORT: Final = re.compile(
    r"@import\b[^;]*;?|expression\s*\([^)]*\)?|-moz-binding[^;}]*|(?<![\w-])behavior\s*:[^;}]*"
    r"|(?:image-set|cross-fade|\bsrc)\s*\([^;}]*",
    re.IGNORECASE,
)


def clean(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the drawing without what is not wanted."""
    root = parse(data, "the drawing", may_have_doctype=True)
    if local(root) != "svg":
        raise Corrupt("the root of the drawing is not svg")
    _clean_around(root, cleaning)
    for each in list(elements(root)):
        if each is not root and each.getparent() is None:
            continue
        if cleaning.metadata:
            _clean_metadata(each, root, cleaning.removed)
        if cleaning.active_content:
            _clean_active(each, root, cleaning.removed)
    if not cleaning.removed:
        return data
    if cleaning.active_content and not any(local(each) in _SHAPES for each in root.iter()):
        raise NotClean("empty")
    if cleaning.metadata:
        etree.cleanup_namespaces(root.getroottree(), keep_ns_prefixes=["xlink"])
    return write(root)


def _clean_around(root: etree._Element, cleaning: Cleaning) -> None:
    """Clean what is around the root. A DOCTYPE is noted, and not written again."""
    declared = doctype_of(root)
    if declared is not None and next(root.iter(etree.Entity), None) is not None:
        raise NotClean("inseparable")  # its text is made of entities
    if declared is not None and cleaning.active_content:
        cleaning.removed.add("external_links")
    for each in around(root):
        if is_comment(each) and cleaning.metadata:
            cleaning.removed.add("comments")
            drop_around(each)
        elif not is_comment(each) and cleaning.active_content:  # an instruction, which names a style sheet
            cleaning.removed.add("external_links")
            drop_around(each)


def _clean_metadata(each: etree._Element, root: etree._Element, removed: set[str]) -> None:
    if is_comment(each):
        removed.add("comments")
        drop(each)
        return
    if not is_element(each):
        return
    if each is not root and (local(each) in _REMARKS or str(each.tag).startswith(_EDITORS)):
        removed.add("xmp" if local(each) in _REMARKS else "other_metadata")
        drop(each)
        return
    for attribute in list(each.attrib):
        if str(attribute).startswith(_EDITORS) or (each is root and str(attribute) == "content"):
            removed.add("other_metadata")
            del each.attrib[attribute]
    address = _address_of(each)
    if address and local(each) in {"image", "feImage"}:
        _clean_inline(each, removed)


def _clean_inline(each: etree._Element, removed: set[str]) -> None:
    """Take metadata out of a picture that is written in the drawing."""
    for attribute in ("href", f"{_XLINK}href"):
        found = _DATA.match(each.get(attribute, ""))
        if found is None:
            continue
        try:
            is_base64 = "base64" in found[2].lower()
            content = base64.b64decode(unquote_to_bytes(found[3])) if is_base64 else unquote_to_bytes(found[3])
        except (binascii.Error, ValueError):
            continue
        within = Cleaning(metadata=True, active_content=False)
        cleaned = clean_picture(content, within)
        if within.removed:
            removed |= within.removed
            each.set(attribute, f"data:{found[1]};base64,{base64.b64encode(cleaned).decode()}")


def _address_of(each: etree._Element) -> str:
    return each.get("href") or each.get(f"{_XLINK}href") or ""


def _is_outside(address: str, *, picture: bool) -> bool:
    """Return whether an address leads out of the drawing. White space within one is skipped by readers."""
    bare = _GAPS.sub("", address)
    if not bare or bare.startswith("#"):
        return False
    found = _DATA.match(bare)
    return not (picture and found is not None and _PICTURE_TYPES.fullmatch(found[1]))


def _clean_active(each: etree._Element, root: etree._Element, removed: set[str]) -> None:
    name = local(each)
    if not is_element(each):
        if not is_comment(each):
            removed.add("scripts")
            drop(each)
        return
    if each is not root and (word := _word_of(each, name)):
        removed.add(word)
        drop(each)
        return
    for attribute, value in list(each.attrib.items()):
        if word := _word_of_attribute(name, str(attribute), str(value)):
            removed.add(word)
            del each.attrib[attribute]
        elif (cleaned := clean_style(str(value))) != value:
            removed.add("external_links")
            each.attrib[attribute] = cleaned
    if name == "style":
        text = "".join(str(piece) for piece in each.itertext())
        cleaned = clean_style(text)
        if cleaned != text:
            removed.add("external_links")
            for child in list(each):
                drop(child)
            each.text = cleaned


def _word_of(each: etree._Element, name: str) -> str:
    """Return what an element is that goes with all that is in it, nothing for one that stays."""
    if name in _SCRIPTS:
        return "scripts"
    if name in _FOREIGN:
        return "embedded_files"
    changed = each.get("attributeName", "").strip().rpartition(":")[2].lower()
    return "scripts" if name in _ANIMATIONS and (changed == "href" or changed.startswith("on")) else ""


def _word_of_attribute(name: str, attribute: str, value: str) -> str:
    """Return what an attribute is that goes, nothing for one that stays."""
    key = attribute.rpartition("}")[2].lower()
    if key.startswith("on"):
        return "scripts"
    if key not in _ADDRESSES or not _is_outside(value, picture=name in {"image", "feImage"}):
        return ""
    return "scripts" if _GAPS.sub("", value).lower().startswith(_RUN) else "external_links"


def clean_style(text: str) -> str:
    """Return CSS without what loads something from outside or runs a script; escapes are only undone if it has some."""
    if "(" not in text and "@" not in text and "\\" not in text and ":" not in text:
        return text
    plain = _STYLE_ESCAPE.sub(_unescape, text)
    cleaned = _STYLE_URL.sub("none", _STYLE_IMPORT.sub("", plain))
    return text if cleaned == plain else cleaned


def _unescape(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
