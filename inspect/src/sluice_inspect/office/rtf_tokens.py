"""Tokenizer of Rich Text Format (RTF 1.9.1): groups, control words and text, in constant memory."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import BinaryIO, Final

_TOKEN: Final = re.compile(rb"[{}]|\\(?:([a-zA-Z]{1,32})(-?\d{1,20})? ?|'([0-9a-fA-F]{2})|(.))|[^{}\\]+", re.DOTALL)
_LONGEST: Final = 64  # bytes that a control word takes at most
_CHUNK: Final = 256 * 1024
_BINARY: Final = b"bin"


class TokenType(Enum):
    """The types of tokens. `BYTE` is a character in two hexadecimal digits, `BINARY` the data behind the word `bin`."""

    OPEN = auto()
    CLOSE = auto()
    WORD = auto()
    SYMBOL = auto()
    BYTE = auto()
    TEXT = auto()
    BINARY = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `number` is the parameter of a control word, or the size of binary data.

    Text and binary data come in pieces. The first piece of binary data has the number, and may be empty.
    """

    type: TokenType
    text: bytes = b""
    number: int | None = None


_OPEN_TOKEN: Final = Token(TokenType.OPEN)
_CLOSE_TOKEN: Final = Token(TokenType.CLOSE)


def read_tokens(stream: BinaryIO, skip: Callable[[bytes, int, int], int] | None = None) -> Iterator[Token]:
    """Yield the tokens of a stream, to its end.

    `skip` is called before each token with the buffer, the token's offset, and the end of the complete tokens. It
    returns the offset at which to continue: of a later token, or the same.
    """
    buffer, at, ended = b"", 0, False
    while True:
        if not ended and len(buffer) - at < _LONGEST:
            more = stream.read(_CHUNK)
            buffer, at, ended = buffer[at:] + more, 0, not more
            continue
        if skip is not None:
            at = skip(buffer, at, len(buffer) - _LONGEST)
        found = _TOKEN.match(buffer, at)
        if found is None:
            return
        at = found.end()
        if found[1] != _BINARY:
            yield _token(found)
            continue
        size = left = max(0, int(found[2] or 0))
        piece = buffer[at : at + left]
        at += len(piece)
        yield Token(TokenType.BINARY, piece, size)
        while left := left - len(piece):
            piece = stream.read(min(_CHUNK, left))
            if not piece:
                break
            yield Token(TokenType.BINARY, piece)


def _token(found: "re.Match[bytes]") -> Token:
    word, number, digits, symbol = found.groups()
    if word is not None:
        return Token(TokenType.WORD, word, None if number is None else int(number))
    if digits is not None:
        return Token(TokenType.BYTE, bytes.fromhex(digits.decode("ascii")))
    if symbol is not None:
        return Token(TokenType.SYMBOL, symbol)
    text = found.group()
    if text == b"{":
        return _OPEN_TOKEN
    return _CLOSE_TOKEN if text == b"}" else Token(TokenType.TEXT, text)
