"""Splits Rich Text Format into groups, control words and text (RTF 1.9.1), in constant memory. What the words mean is known elsewhere."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import BinaryIO, Final

_TOKEN: Final = re.compile(rb"[{}]|\\(?:([a-zA-Z]{1,32})(-?\d{1,10})? ?|'([0-9a-fA-F]{2})|(.))|[^{}\\]+", re.DOTALL)
_LONGEST: Final = 64
"""Bytes that a control word takes at most."""
_CHUNK: Final = 256 * 1024
_BINARY: Final = b"bin"


class What(Enum):
    """The kinds of tokens."""

    OPEN = auto()
    CLOSE = auto()
    WORD = auto()
    """A control word; `number` is its parameter."""
    SYMBOL = auto()
    """A control symbol: `text` is the character."""
    BYTE = auto()
    """A character in two hexadecimal digits: `text` is the byte."""
    TEXT = auto()
    BINARY = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """One token; text and binary data come in pieces."""

    what: What
    text: bytes = b""
    number: int | None = None


_OPEN_TOKEN: Final = Token(What.OPEN)
_CLOSE_TOKEN: Final = Token(What.CLOSE)


def tokens(stream: BinaryIO) -> Iterator[Token]:
    """Yield what a stream holds, from its first brace to its end."""
    buffer, at, ended = b"", 0, False
    while True:
        if not ended and len(buffer) - at < _LONGEST:
            more = stream.read(_CHUNK)
            buffer, at, ended = buffer[at:] + more, 0, not more
            continue
        found = _TOKEN.match(buffer, at)
        if found is None:
            return
        at = found.end()
        if found[1] == _BINARY:
            for piece in _binary(buffer, at, max(0, int(found[2] or 0)), stream):
                yield Token(What.BINARY, piece)
            length = max(0, int(found[2] or 0))
            taken = min(length, len(buffer) - at)
            at += taken
        else:
            yield _token(found)


def _binary(buffer: bytes, at: int, length: int, stream: BinaryIO) -> Iterator[bytes]:
    piece = buffer[at : at + length]
    while piece:
        yield piece
        length -= len(piece)
        piece = stream.read(min(_CHUNK, length)) if length else b""


def _token(found: "re.Match[bytes]") -> Token:
    word, number, digits, symbol = found.groups()
    if word is not None:
        return Token(What.WORD, word, None if number is None else int(number))
    if digits is not None:
        return Token(What.BYTE, bytes.fromhex(digits.decode("ascii")))
    if symbol is not None:
        return Token(What.SYMBOL, symbol)
    text = found.group()
    if text == b"{":
        return _OPEN_TOKEN
    return _CLOSE_TOKEN if text == b"}" else Token(What.TEXT, text)
