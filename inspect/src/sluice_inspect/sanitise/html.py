"""Web pages without scripts, forms and what they load or open: only elements and attributes that are known stay."""
# Readers disagree on where the tags of a page are. So the page is read once and written from what was read, if it
# has anything that may be active for any reader.

from __future__ import annotations

import re
from typing import Final

from lxml import etree

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.pages import examine_page
from sluice_inspect.report import Corrupt, FactSheet, TooComplex
from sluice_inspect.sanitise.cleaning import Cleaning, NotClean
from sluice_inspect.sanitise.svg import clean_style
from sluice_inspect.sanitise.trees import (
    LARGEST_XML,
    around,
    drop,
    drop_around,
    elements,
    is_comment,
    is_element,
    local,
    unwrap,
)
from sluice_inspect.source import MemoryBacked
from sluice_inspect.text.plaintext import read_text

_SECONDS: Final = 20.0
_KEPT: Final = frozenset({
    "html", "head", "title", "style", "body", "p", "div", "span", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "a",
    "b", "i", "u", "s", "em", "strong", "small", "big", "sub", "sup", "del", "ins", "mark", "q", "blockquote", "cite",
    "code", "pre", "kbd", "samp", "var", "tt", "abbr", "acronym", "address", "ul", "ol", "li", "dl", "dt", "dd",
    "table", "caption", "colgroup", "col", "thead", "tbody", "tfoot", "tr", "th", "td", "img", "figure", "figcaption",
    "header", "footer", "main", "nav", "section", "article", "aside", "center", "font", "strike", "details",
    "summary", "time", "wbr", "bdi", "bdo", "dfn", "data", "ruby", "rt", "rp", "rb", "hgroup", "picture", "map",
    "area", "meta",
})  # fmt: skip
_ATTRIBUTES: Final = frozenset({
    "class", "id", "style", "title", "alt", "lang", "dir", "align", "valign", "width", "height", "colspan", "rowspan",
    "span", "border", "cellpadding", "cellspacing", "bgcolor", "color", "face", "size", "href", "src", "name",
    "charset", "content", "start", "type", "value", "reversed", "scope", "headers", "abbr", "datetime", "nowrap",
    "hspace", "vspace", "clear", "compact", "noshade", "open", "role", "shape", "coords", "xml:lang", "cite-text",
})  # fmt: skip
# Those that go with all that is in them.
_WITH_CONTENT: Final = {
    **dict.fromkeys(("script", "noscript", "template", "math", "svg", "xml", "xmp", "plaintext", "noembed", "noframes"),
                    "scripts"),
    **dict.fromkeys(("iframe", "frame", "frameset", "object", "embed", "applet", "audio", "video", "canvas", "portal"),
                    "embedded_files"),
    **dict.fromkeys(("link", "base"), "external_links"),
    **dict.fromkeys(("select", "textarea", "datalist", "option"), "forms"),
}  # fmt: skip
_FORMS: Final = frozenset({"form", "input", "button", "label", "fieldset", "legend", "keygen", "isindex", "output"})
_REMARKS: Final = frozenset(
    {"author", "generator", "date", "description", "keywords", "copyright", "creator", "progid"}
)
_TYPE_OF_META: Final = frozenset({"content-type", "content-language", "default-style"})
_PICTURE: Final = re.compile(r"data:image/(?:png|jpe?g|gif|webp|bmp|avif)[;,]", re.IGNORECASE)
_RUN: Final = ("javascript:", "vbscript:", "data:")
_LOADING: Final = frozenset({
    "srcset", "action", "formaction", "background", "poster", "data", "ping", "manifest", "srcdoc", "longdesc",
    "profile", "usemap", "codebase", "classid", "lowsrc", "dynsrc", "imagesrcset", "archive",
})  # fmt: skip
_GAPS: Final = re.compile(r"[\x00-\x20]")
_MARKUP: Final = re.compile(r"[<>\[]")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # which no tree can hold
_DETAIL: Final = 300
_ACTIVE_FLAGS: Final = frozenset({"script.html", "smuggling.html", "link.external"})


def clean(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the page without what is not wanted."""
    text = _CONTROLS.sub("", "".join(read_text(MemoryBacked(data))))
    deadline = Deadline(_SECONDS)
    root = _parse(text)
    for each in list(elements(root)):
        if deadline.has_passed:
            raise TooComplex("the page has too many elements")
        if each is not root and each.getparent() is None:
            continue
        if cleaning.metadata:
            _clean_metadata(each, cleaning.removed)
        if cleaning.active_content:
            _clean_active(each, root, cleaning.removed)
    if not cleaning.removed:
        if cleaning.active_content and _is_active(text, deadline):
            raise NotClean("inseparable")  # for other readers, the page is another one
        return data
    is_empty = not _has_picture(root) and not any(str(piece).strip() for piece in _body(root).itertext())
    if cleaning.active_content and is_empty:
        raise NotClean("empty")
    for each in around(root):
        drop_around(each)
    page = _write(root, is_xml=text.lstrip().startswith("<?xml"))
    if cleaning.active_content and _is_active(page.decode("utf-8", "replace"), deadline):
        raise NotClean("inseparable")
    return page


def _parse(text: str) -> etree._Element:
    if len(text) > LARGEST_XML:
        raise TooComplex("the page is too large to be changed")
    parser = etree.HTMLParser(no_network=True, huge_tree=False, encoding="utf-8")
    try:
        root: etree._Element | None = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except (etree.XMLSyntaxError, ValueError, LookupError, AssertionError) as error:
        raise Corrupt(f"the page cannot be read: {error}"[:_DETAIL]) from error
    if root is None or local(root) != "html":
        raise NotClean("empty")
    return root


def _write(root: etree._Element, *, is_xml: bool) -> bytes:
    for each in root.iter("meta"):
        if each.get("charset"):
            each.set("charset", "utf-8")
        elif (each.get("http-equiv") or "").strip().lower() == "content-type":
            each.set("content", "text/html; charset=utf-8")
    page: bytes
    if is_xml:
        page = etree.tostring(root, encoding="utf-8", xml_declaration=True, with_tail=False)
        return page
    page = etree.tostring(root, method="html", encoding="utf-8", with_tail=False)
    return b"<!DOCTYPE html>\n" + page


def _is_active(text: str, deadline: Deadline) -> bool:
    sheet = FactSheet()
    examine_page(text, sheet, deadline)
    return not _ACTIVE_FLAGS.isdisjoint(sheet.flags)


def _body(root: etree._Element) -> etree._Element:
    return next((each for each in root if local(each) == "body"), root)


def _has_picture(root: etree._Element) -> bool:
    return any(local(each) == "img" and each.get("src") for each in root.iter())


def _clean_metadata(each: etree._Element, removed: set[str]) -> None:
    if is_comment(each):
        removed.add("comments")
        drop(each)
    elif local(each) == "meta":
        name = (each.get("name") or each.get("property") or each.get("itemprop") or "").lower()
        if name.rpartition(".")[2].rpartition(":")[2] in _REMARKS:
            removed.add("author" if name.endswith(("author", "creator", "copyright")) else "other_metadata")
            drop(each)


def _clean_active(each: etree._Element, root: etree._Element, removed: set[str]) -> None:
    name = local(each).lower()
    if not is_element(each):
        if not is_comment(each) or _MARKUP.search(each.text or ""):
            removed.add("scripts")
            drop(each)
    elif word := _word_of(each, name):
        removed.add(word)
        drop(each)
    elif name in _FORMS:
        removed.add("forms")
        unwrap(each)
    elif name not in _KEPT and each is not root:
        removed.add("scripts")
        unwrap(each)
    else:
        _clean_attributes(each, name, removed)
        cleaned = clean_style(each.text or "").replace("<", "") if name == "style" else each.text or ""
        if cleaned != (each.text or ""):
            removed.add("external_links")
            each.text = cleaned


def _word_of(each: etree._Element, name: str) -> str:
    """Return what an element is that goes with all that is in it, nothing for one that stays."""
    kind = (each.get("http-equiv") or "").strip().lower() if name == "meta" else ""
    if kind and kind not in _TYPE_OF_META:
        return "actions"
    return _WITH_CONTENT.get(name, "")


def _clean_attributes(each: etree._Element, name: str, removed: set[str]) -> None:
    for attribute, value in list(each.attrib.items()):
        key, text = str(attribute).lower(), str(value)
        if word := _word_of_attribute(name, key, text):
            removed.add(word)
            del each.attrib[attribute]
        elif key == "style" and (cleaned := clean_style(text)) != text:
            removed.add("external_links")
            each.attrib[attribute] = cleaned


def _word_of_attribute(name: str, key: str, value: str) -> str:
    """Return what an attribute is that goes, nothing for one that stays."""
    bare = _GAPS.sub("", value)
    if key.startswith("on"):
        return "scripts"
    if key in {"href", "src"}:
        if not bare or bare.startswith("#") or (name == "img" and key == "src" and _PICTURE.match(bare)):
            return ""
        return "scripts" if bare.lower().startswith(_RUN) else "external_links"
    if key in _LOADING:
        return "external_links"
    is_known = key in _ATTRIBUTES or key.startswith(("data-", "aria-", "xmlns", "xml:"))
    return "scripts" if not is_known and ":" in key else ""
