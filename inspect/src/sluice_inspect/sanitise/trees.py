"""XML as a tree that is changed and written again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from lxml import etree

from sluice_inspect.report import Corrupt, TooComplex

LARGEST_XML: Final = 64 * 1024**2  # its tree takes up to ten times as much memory
_DETAIL: Final = 300


def parse(data: bytes, where: str, *, keeps_comments: bool = True, may_have_doctype: bool = False) -> etree._Element:
    """Return the root. Nothing that the document names is loaded. Raise `Corrupt`, and `TooComplex` if it is large."""
    if len(data) > LARGEST_XML:
        raise TooComplex(f"{where} is too large to be changed")
    parser = etree.XMLParser(
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        remove_comments=not keeps_comments,
        strip_cdata=False,
    )
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, LookupError, AssertionError, ValueError) as error:
        raise Corrupt(f"{where} is not well-formed XML: {error}"[:_DETAIL]) from error
    if not may_have_doctype and doctype_of(root) is not None:
        raise Corrupt(f"{where} has a DOCTYPE, which this format forbids")
    return root


def write(root: etree._Element) -> bytes:
    """Return the document in UTF-8, without its DOCTYPE."""
    tree = root.getroottree()
    standalone: Any = tree.docinfo.standalone  # None if it is not stated
    written: bytes = etree.tostring(tree, encoding="UTF-8", xml_declaration=True, standalone=standalone, doctype="")
    return written


def doctype_of(root: etree._Element) -> Any | None:
    """Return the DTD that a document declares or names, None if it has no DOCTYPE."""
    return cast("Any | None", root.getroottree().docinfo.internalDTD)


def around(root: etree._Element) -> list[etree._Element]:
    """Return the comments and instructions in front of the root and behind it."""
    return [*root.itersiblings(preceding=True), *root.itersiblings()]


def drop_around(sibling: etree._Element) -> None:
    """Take a comment or an instruction out that is around the root."""
    etree.Element("holder").append(sibling)


def is_comment(each: etree._Element) -> bool:
    """Whether a node is a comment."""
    return isinstance(each, etree._Comment)  # noqa: SLF001  (the class has no other name)


def is_element(each: etree._Element) -> bool:
    """Whether a node is an element: no comment, instruction or reference to an entity."""
    return isinstance(cast("object", each.tag), str)


def local(element: etree._Element) -> str:
    """Return the name of an element without its namespace, nothing for comments and the like."""
    return element.tag.rpartition("}")[2] if is_element(element) else ""


def local_name(attribute: str | bytes) -> str:
    """Return the name of an attribute without its namespace."""
    return str(attribute).rpartition("}")[2]


def elements(root: etree._Element) -> Iterator[etree._Element]:
    """Yield all elements, and comments and instructions. What is dropped on the way is not entered."""
    waiting = [root]
    while waiting:
        each = waiting.pop()
        yield each
        if each is root or each.getparent() is not None:
            waiting += reversed(each)


def drop(element: etree._Element) -> None:
    """Take an element out; the text behind it stays."""
    parent = element.getparent()
    if parent is None:
        return
    if element.tail:
        _add_text(parent, element.getprevious(), element.tail)
    parent.remove(element)


def unwrap(element: etree._Element) -> None:
    """Put what is in an element in its place."""
    parent = element.getparent()
    if parent is None:
        return
    at = parent.index(element)
    if element.text:
        _add_text(parent, element.getprevious(), element.text)
    for number, child in enumerate(list(element)):
        parent.insert(at + number, child)
    drop(element)


def _add_text(parent: etree._Element, before: etree._Element | None, text: str) -> None:
    if before is None:
        parent.text = (parent.text or "") + text
    else:
        before.tail = (before.tail or "") + text
