"""The objects embedded in an RTF document: hexadecimal digits, between which readers pass over much. Reads leniently, judges nothing.

clamd reads such objects as well, but not those with control words or groups between their digits (measured, 1.4.6).
"""

import re
from collections.abc import Iterator
from typing import Final

from sluice.formats.office.rtf_tokens import What, tokens
from sluice.threats.bytesview import Slice, View, as_file, pieces
from sluice.threats.part import Part

_OBJECT: Final = re.compile(rb"\\objdata(?![a-z])")
_LONGEST_MARK: Final = 64
_NOT_HEX: Final = bytes(set(range(256)) - set(b"0123456789abcdefABCDEF"))


def parts(view: View) -> Iterator[Part]:
    """Iterate over the objects in the order in which they stand."""
    for at in _objects(view):
        yield Part("", _decoded(Slice(view, at, view.size)), unseen=True, kind="ole1")


def _objects(view: View) -> Iterator[int]:
    offset, carry, reached = 0, b"", 0
    for piece in pieces(view):
        window = carry + piece
        begin = offset - len(carry)
        for found in _OBJECT.finditer(window):
            if begin + found.end() > reached:
                reached = begin + found.end()
                yield reached
        offset += len(piece)
        carry = window[-_LONGEST_MARK:]


def _decoded(group: View) -> Iterator[bytes]:
    """Read digits until the group closes that the object began in, over groups and control words in between."""
    depth, odd = 0, b""
    for token in tokens(as_file(group)):
        if token.what is What.BINARY:
            yield token.text
        elif token.what is What.OPEN:
            depth += 1
        elif token.what is What.CLOSE:
            depth -= 1
            if depth < 0:
                return
        elif token.what is What.TEXT:
            digits = odd + token.text.translate(None, _NOT_HEX)
            even = len(digits) // 2 * 2
            odd = digits[even:]
            yield bytes.fromhex(digits[:even].decode("ascii"))
