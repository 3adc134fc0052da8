"""What the entities that a document declares would do to a reader that believes in them. Nothing is loaded or expanded here; XML is read in `xmlsafe`."""

import re
from collections.abc import Mapping
from typing import Final

from sluice.formats.verdict import Finding, Unsafe

_BYTE_ORDER_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_COMMENT: Final = re.compile(rb"<!--.*?-->", re.DOTALL)
_DECLARATION: Final = re.compile(
    rb"""<!ENTITY\s+(?:%\s+)?([^\s"'<>]+)\s+(?:SYSTEM\s+(?:"([^"]*)"|'([^']*)')(?!\s+NDATA)|"([^"]*)"|'([^']*)')"""
)
_REFERENCE: Final = re.compile(rb"[&%]([^\s;&%#\"'<>]+);")
_ELSEWHERE: Final = re.compile(rb"\s*(?:[a-z][a-z0-9+.-]*:|/|\\)", re.IGNORECASE)
_PIECES_MOST: Final = 256
"""Pieces of text that one entity may be made of through others: documents that use entities need a handful."""


def refuse_entities(head: bytes, where: str = "the document") -> None:
    """Raise `Unsafe` for a document whose first bytes declare entities that multiply, or that are files or addresses outside of it.

    Names beside the document pass, as books in several files have them, and public identifiers, which readers know by heart: neither is
    loaded here, and neither leads anywhere else. Unparsed entities (NDATA) are never loaded by a parser.
    """
    if head.startswith(_BYTE_ORDER_MARKS):
        head = head.decode("utf-16", "replace").encode()
    if b"<!ENTITY" not in head:
        return
    texts: dict[bytes, bytes] = {}
    for match in _DECLARATION.finditer(_COMMENT.sub(b"", head)):
        name, *values = match.groups()
        address = values[0] or values[1] or b""
        if _ELSEWHERE.match(address):
            raise Unsafe(
                Finding.ARCHIVE_UNSAFE,
                f"{where} asks its reader to load {_shown(address)} from elsewhere, as its entity {_shown(name)}",
            )
        texts.setdefault(name, values[2] or values[3] or b"")
    _refuse_multiplication(texts, where)


def _refuse_multiplication(texts: Mapping[bytes, bytes], where: str) -> None:
    """Count from the entities without references up; those that stand in a circle are never reached, and left to the parser."""
    references = {name: _REFERENCE.findall(text) for name, text in texts.items()}
    pieces: dict[bytes, int] = {}
    left = list(references)
    while left:
        ready = [name for name in left if all(other in pieces or other not in texts for other in references[name])]
        if not ready:
            return
        for name in ready:
            pieces[name] = max(1, sum(pieces.get(other, 1) for other in references[name]))
            if pieces[name] > _PIECES_MOST and len(references[name]) < pieces[name]:
                raise Unsafe(
                    Finding.ARCHIVE_BOMB,
                    f"{where} declares entities that multiply: {_shown(name)} is made of {pieces[name]} pieces",
                )
        left = [name for name in left if name not in pieces]


def _shown(name: bytes) -> str:
    return repr(name[:100].decode("utf-8", "replace"))
