"""Web pages without scripts, forms and what they load or open: only elements and attributes that are known stay."""
# Readers disagree on where the tags of a page are. So the page is read once and written anew from what was read, if it
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
from sluice_inspect.sanitise.trees import LARGEST_XML, drop, elements, local, unwrap
from sluice_inspect.source import MemoryBacked
from sluice_inspect.text.plaintext import read_text

_SECONDS: Final = 20.0
_KEPT: Final = frozenset("""
    html head title style body p div span br hr h1 h2 h3 h4 h5 h6 a b i u s em strong small big sub sup del ins mark q
    blockquote cite code pre kbd samp var tt abbr acronym address ul ol li dl dt dd table caption colgroup col thead
    tbody tfoot tr th td img figure figcaption header footer main nav section article aside center font strike details
    summary time wbr bdi bdo dfn data ruby rt rp rb hgroup picture map area meta
""".split())  # fmt: skip
_ATTRIBUTES: Final = frozenset("""
    class id style title alt lang dir align valign width height colspan rowspan span border cellpadding cellspacing
    bgcolor color face size href src name charset content start type value reversed scope headers abbr datetime nowrap
    hspace vspace clear compact noshade open role shape coords xml:lang cite-text
""".split())  # fmt: skip
# Those that go with all that is in them.
_WITH_CONTENT: Final = {
    **dict.fromkeys(("script", "noscript", "template", "math", "svg", "xml", "xmp", "plaintext", "noembed", "noframes"),
                    "scripts"),
    **dict.fromkeys(("iframe", "frame", "frameset", "object", "embed", "applet", "audio", "video", "canvas", "portal"),
                    "embedded_files"),
    **dict.fromkeys(("select", "textarea", "datalist", "option"), "forms"),
}  # fmt: skip
_FORMS: Final = frozenset({"form", "input", "button", "label", "fieldset", "legend", "keygen", "isindex", "output"})
_REMARKS: Final = frozenset({"author", "generator", "date", "description", "keywords", "copyright", "creator", "progid"})
_TYPE_OF_META: Final = frozenset({"content-type", "content-language", "default-style"})
_PICTURE: Final = re.compile(r"data:image/(?:png|jpe?g|gif|webp|bmp|avif)[;,]", re.IGNORECASE)
_GAPS: Final = re.compile(r"[\x00-\x20]")
_SHOWN: Final = re.compile(r"\S")
_ACTIVE_FLAGS: Final = frozenset({"script.html", "smuggling.html", "link.external"})


def clean(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the page without what is not wanted."""
    if len(data) > LARGEST_XML:
        raise TooComplex("the page is too large to be changed")
    text = "".join(read_text(MemoryBacked(data))).replace("\0", "")
    deadline = Deadline(_SECONDS)
    parser = etree.HTMLParser(no_network=True, huge_tree=False, encoding="utf-8")
    try:
        root = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except (etree.XMLSyntaxError, ValueError, LookupError, AssertionError) as error:
        raise Corrupt(f"the page cannot be read: {error}"[:300]) from error
    if root is None or local(root) != "html":
        raise NotClean("empty")
    for each in list(elements(root)):
        if deadline.has_passed:
            raise TooComplex("the page has too many elements")
        if each is not root and each.getparent() is None:
            continue
        if cleaning.metadata:
            _clean_metadata(each, cleaning.removed)
        if cleaning.active_content:
            _clean_active(each, root, cleaning.removed)
    flags = FactSheet()
    examine_page(text, flags, deadline)
    if cleaning.active_content and flags.flags & _ACTIVE_FLAGS and not cleaning.removed:
        raise NotClean("inseparable")  # other readers see something active
    if not cleaning.removed:
        return data
    if cleaning.active_content and not any(_SHOWN.search(piece) for piece in root.itertext()) and not _has_picture(root):
        raise NotClean("empty")
    for each in [*root.itersiblings(preceding=True), *root.itersiblings()]:
        if not isinstance(each.tag, str):
            etree.Element("holder").append(each)
    page = b"<!DOCTYPE html>\n" + etree.tostring(root, method="html", encoding="utf-8", doctype=None, with_tail=False)
    if cleaning.active_content:
        flags = FactSheet()
        examine_page(page.decode("utf-8", "replace"), flags, deadline)
        if flags.flags & _ACTIVE_FLAGS:
            raise NotClean("inseparable")
    return page


def _has_picture(root: etree._Element) -> bool:
    return any(local(each) == "img" and each.get("src") for each in root.iter())


def _clean_metadata(each: etree._Element, removed: set[str]) -> None:
    if each.tag is etree.Comment:
        removed.add("comments")
        drop(each)
    elif local(each) == "meta":
        name = (each.get("name") or each.get("property") or each.get("itemprop") or "").lower()
        if name.rpartition(".")[2].rpartition(":")[2] in _REMARKS:
            removed.add("author" if name.endswith(("author", "creator", "copyright")) else "other_metadata")
            drop(each)


def _clean_active(each: etree._Element, root: etree._Element, removed: set[str]) -> None:
    if not isinstance(each.tag, str):
        if each.tag is not etree.Comment or re.search(r"[<>\[]", each.text or ""):
            removed.add("scripts")
            drop(each)
        return
    name = str(each.tag).lower()
    if name in _WITH_CONTENT:
        removed.add(_WITH_CONTENT[name])
        drop(each)
        return
    if name in _FORMS:
        removed.add("forms")
        unwrap(each)
        return
    if name == "meta":
        kind = (each.get("http-equiv") or "").strip().lower()
        if kind and kind not in _TYPE_OF_META:
            removed.add("actions")
            drop(each)
            return
    if name in {"link", "base"}:
        removed.add("external_links")
        drop(each)
        return
    if name not in _KEPT and each is not root:
        removed.add("scripts")
        unwrap(each)
        return
    _clean_attributes(each, name, removed)
    if name == "style":
        text = each.text or ""
        cleaned = clean_style(text).replace("<", "")
        if cleaned != text:
            removed.add("external_links")
            each.text = cleaned


def _clean_attributes(each: etree._Element, name: str, removed: set[str]) -> None:
    for attribute, value in list(each.attrib.items()):
        key, text = str(attribute).lower(), str(value)
        bare = _GAPS.sub("", text)
        word = ""
        if key.startswith("on"):
            word = "scripts"
        elif key in {"href", "src"}:
            is_within = bare.startswith("#") or not bare or (name == "img" and key == "src" and _PICTURE.match(bare))
            if not is_within:
                word = "scripts" if re.match(r"(?:javascript|vbscript|data):", bare, re.IGNORECASE) else "external_links"
        elif key == "style":
            cleaned = clean_style(text)
            if cleaned != text:
                removed.add("external_links")
                each.attrib[attribute] = cleaned
        elif key in {"srcset", "action", "formaction", "background", "poster", "data", "ping", "manifest", "srcdoc",
                     "longdesc", "profile", "usemap", "codebase", "classid", "lowsrc", "dynsrc", "xlink:href"}:  # fmt: skip
            word = "external_links"
        elif key not in _ATTRIBUTES and not key.startswith(("data-", "aria-", "xmlns", "xml:")) and ":" in key:
            word = "scripts"
        if word:
            removed.add(word)
            del each.attrib[attribute]
