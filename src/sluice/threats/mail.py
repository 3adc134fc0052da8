"""The encoded parts of an e-mail: base64 and quoted-printable, decoded from wherever such a header stands. Reads leniently, judges nothing.

Layout: RFC 5322 header fields, RFC 2045 section 6 encodings. Multipart structure is not followed: every encoded part is found by its
own header, also one that a lying structure would hide.
"""

import binascii
import re
from collections.abc import Iterator
from typing import Final

from sluice.threats.bytesview import View, pieces
from sluice.threats.part import Part

_FIRST_FIELD: Final = re.compile(rb"\s*(?:From [^\n]{1,998}\n)?[!-9;-~]{1,76}:[ \t\r\n]")
_ENCODING: Final = re.compile(rb"(?i)content-transfer-encoding[ \t]*:(?:[^\n]|\n[ \t]){0,80}?(base64|quoted-printable)")
_LONGEST_ENCODING: Final = 256
_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_NAME: Final = re.compile(rb"(?i)name\*?=[ \t]*(?:\"([^\"\n]{1,255})|([^\s;\"]{1,255}))")
_HEADERS_BYTES: Final = 16 * 1024
_NOT_BASE64: Final = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="))
_IN_BYTES: Final = 64 * 1024


def is_mail(head: bytes) -> bool:
    """Answer whether `head` begins with a header field, as messages and mailboxes do. Some other texts do so, too: it costs them a search."""
    return _FIRST_FIELD.match(head.removeprefix(b"\xef\xbb\xbf")) is not None


def has_encoding(window: bytes) -> bool:
    """Answer whether the header of an encoded part lies in `window`."""
    return _ENCODING.search(window) is not None


def parts(view: View) -> Iterator[Part]:
    """Iterate over the encoded parts in the order in which they stand, each up to the line that ends it."""
    offset, carry = 0, b""
    reached = 0
    for piece in pieces(view):
        window = carry + piece
        begin = offset - len(carry)
        for found in _ENCODING.finditer(window):
            at = begin + found.start()
            if at >= reached:
                reached = begin + found.end()
                yield from _part(view, at, is_base64=found[1].lower() == b"base64")
        offset += len(piece)
        carry = window[-_LONGEST_ENCODING:]


def from_base64(encoded: Iterator[bytes]) -> Iterator[bytes]:
    """Decode pieces of base64: every run of letters between padding, since some readers go on after it, and what they see must be looked at."""
    carry = b""
    for piece in encoded:
        *runs, last = (carry + piece.translate(None, _NOT_BASE64)).split(b"=")
        whole = len(last) // 4 * 4
        carry = last[whole:]
        yield b"".join(map(_a2b, [*runs, last[:whole]]))
    yield _a2b(carry)


def _part(view: View, at: int, *, is_base64: bool) -> Iterator[Part]:
    after = view.read_at(at, _HEADERS_BYTES)
    blank = _BLANK_LINE.search(after)
    if blank is None:
        return
    before = view.read_at(max(0, at - _HEADERS_BYTES), min(at, _HEADERS_BYTES))
    own = [match.end() for match in _BLANK_LINE.finditer(before)]
    headers = before[own[-1] if own else 0 :] + after[: blank.start()]
    name = _NAME.search(headers)
    encoded = _body(view, at + blank.end())
    content = from_base64(encoded) if is_base64 else _from_quoted_printable(encoded)
    yield Part((name[1] or name[2]).decode("utf-8", "replace") if name else "", content)


def _body(view: View, start: int) -> Iterator[bytes]:
    last = b"\n"
    for piece in pieces(view, start, size=_IN_BYTES):
        end = (last + piece).find(b"\n--")
        if end >= 0:
            yield piece[: max(0, end - len(last) + 1)]
            return
        yield piece
        last = piece[-2:]


def _a2b(letters: bytes) -> bytes:
    usable = letters[:-1] if len(letters) % 4 == 1 else letters  # a single letter over says nothing
    return binascii.a2b_base64(usable + b"=" * (-len(usable) % 4))


def _from_quoted_printable(encoded: Iterator[bytes]) -> Iterator[bytes]:
    carry = b""
    for piece in encoded:
        lines, newline, carry = (carry + piece).rpartition(b"\n")
        yield binascii.a2b_qp(lines + newline)
    yield binascii.a2b_qp(carry)
