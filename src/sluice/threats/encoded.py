"""Base64 within markup, cards and calendars: pictures by `data:` address, and files that XML documents of offices carry.

Reads leniently: what follows one of the marks is decoded, whatever stands around it.
"""

import re
from collections.abc import Iterator
from typing import Final

from sluice.threats import mail
from sluice.threats.bytesview import View, pieces, places
from sluice.threats.part import Part

KINDS: Final = frozenset({"svg", "html", "xml", "card"})
_SIGNS: Final = (b";base64,", b"bindata", b"binarydata", b"binary-data", b"encoding=b")
_MARK: Final = re.compile(
    rb"(?:;base64,|(?:bindata|binarydata|binary-data)\b[^<>]{0,400}(?<!/)>|encoding=b(?:ase64)?[^:\n]{0,200}:)\s{0,80}(?=[a-z0-9+/]{4})"
)
_LONGEST_MARK: Final = 1024
_END: Final = re.compile(rb"[<>\"'(){}\[\]]|\n(?=[A-Z;:-]{3,}[:;])")
_FEWEST_LETTERS: Final = 40
"""Shorter runs hide nothing that is worth a look."""
_MEDIA: Final = (
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"wOFF", b"wOF2", b"\0\1\0\0\0", b"OTTO", b"true", b"II*\0", b"MM\0*", b"ID3",
)  # fmt: skip


def parts(view: View) -> Iterator[Part]:
    """Iterate over what is encoded, but for plain pictures and fonts, in the order in which it stands."""
    offset, carry = 0, b""
    reached = 0
    for piece in pieces(view):
        window = carry + piece
        begin, lower = offset - len(carry), window.lower()
        for sign in places(lower, *_SIGNS):
            found = _MARK.match(lower, sign)
            if found and begin + found.end() > reached:
                reached = begin + found.end()
                yield from _part(view, reached)
        offset += len(piece)
        carry = window[-_LONGEST_MARK:]


def has_mark(window: bytes) -> bool:
    """Answer whether something encoded begins in `window`."""
    lower = window.lower()
    return any(_MARK.match(lower, sign) for sign in places(lower, *_SIGNS))


def _part(view: View, at: int) -> Iterator[Part]:
    letters = view.read_at(at, _FEWEST_LETTERS * 2)
    if len(_END.split(letters, maxsplit=1)[0]) < _FEWEST_LETTERS:
        return
    head = b"".join(mail.from_base64(iter((letters[: _FEWEST_LETTERS // 4 * 4],))))
    if not head.startswith(_MEDIA):
        yield Part("", mail.from_base64(_letters(view, at)), unseen=True)


def _letters(view: View, at: int) -> Iterator[bytes]:
    for piece in pieces(view, at, size=64 * 1024):
        end = _END.search(piece)
        if end is None:
            yield piece
        else:
            yield piece[: end.start()]
            return
