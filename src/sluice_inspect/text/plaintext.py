"""Reads a file as characters, whatever their encoding, in constant memory. What the characters mean is for the kinds."""

import codecs
import re
from collections.abc import Iterator
from typing import Final
from weakref import WeakKeyDictionary

from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt

INVISIBLE: Final = "".join(
    chr(code)
    for code in (
        *range(0x21),
        *range(0x7F, 0xA1),
        *(0xAD, 0x034F, 0x061C, 0x115F, 0x1160, 0x1680, 0x17B4, 0x17B5, *range(0x180B, 0x180F)),
        *range(0x2000, 0x2010),
        *range(0x2028, 0x2030),
        *range(0x205F, 0x2070),
        *(0x2800, 0x3000, 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0, *range(0xFFF9, 0xFFFC)),
    )
)
"""Characters that leave no mark on a page: controls, spaces of all widths, joiners, variation selectors, byte order marks."""

_encodings: Final[WeakKeyDictionary[Source, str]] = WeakKeyDictionary()
_CHUNK: Final = 256 * 1024
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS: Final = bytes([*range(0x07), *range(0x0E, 0x1A), *range(0x1C, 0x20), 0x7F])
"""Bytes that text does not use. Bell, tab, line and form feeds, the DOS end of file (1A) and escape (1B) are used."""
_BEYOND_ASCII: Final = bytes(range(0x80, 0x100))
_CONTROLS_MAX: Final = 0.02
_CONTROL_LETTERS: Final = re.compile("[\x00-\x06\x0e-\x19\x1c-\x1f\x7f]")


def encoding_of(source: Source) -> str:
    """Answer the encoding: by byte order mark, by the zero bytes that UTF-32 and UTF-16 have, UTF-8 if it is that throughout, else `latin-1` for any of 8 bits."""
    if source not in _encodings:
        _encodings[source] = _guess_encoding(source)
    return _encodings[source]


def _guess_encoding(source: Source) -> str:
    for mark, name in _BOMS:
        if source.head.startswith(mark):
            return name
    return _utf32_without_mark(source.head) or _utf16_without_mark(source.head) or ("utf-8" if _is_utf8(source) else "latin-1")


def read_text(source: Source, encoding: str) -> Iterator[str]:
    """Answer the text in pieces. Raises `Corrupt` where the bytes do not decode."""
    decoder = codecs.getincrementaldecoder(encoding)()
    stream = source.open()
    place = 0
    try:
        while chunk := stream.read(_CHUNK):
            yield decoder.decode(chunk)
            place += len(chunk)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise Corrupt(
            f"the text is not {encoding.removesuffix('-sig').upper()} after byte {max(0, place - 4)}: {error.reason}"
        ) from error


def check_text(source: Source, *, zeros: int = 1) -> dict[str, str | int]:
    """Answer `encoding` of a file that is text throughout. Raises `Corrupt` for zero bytes, many control characters, or what does not decode.

    `zeros` is how many zero bytes in a row are damage; fewer are control characters like others, as readers of some languages take them.
    """
    encoding = encoding_of(source)
    if encoding in {"utf-8", "utf-8-sig", "latin-1"}:
        _check_bytes(source, bytes(zeros))
    if encoding not in {"utf-8", "latin-1"}:
        _check_letters(source, encoding)
    return {"encoding": encoding}


def has_visible_text(source: Source, encoding: str) -> bool:
    """Answer whether any character of the text leaves a mark."""
    return any(piece.strip(INVISIBLE) for piece in read_text(source, encoding))


def is_mere_space(source: Source) -> bool:
    """Answer whether the file holds nothing but white space and a byte order mark, which no language written in text means anything by."""
    if source.head.removeprefix(codecs.BOM_UTF8)[:64].strip():
        return False
    stream = source.open()
    stream.seek(len(codecs.BOM_UTF8) if source.head.startswith(codecs.BOM_UTF8) else 0)
    return not any(chunk.strip() for chunk in iter(lambda: stream.read(_CHUNK), b""))


def _utf16_without_mark(head: bytes) -> str | None:
    """Answer the byte order of UTF-16, whose zero bytes all stand on one side: in Latin text a third or more of that side, in others few."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    beyond_ascii = len(head) - len(head.translate(None, _BEYOND_ASCII))
    least = 0.005 if beyond_ascii > len(head) * 0.1 else 0.3
    for zeros, others, name in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if zeros and zeros >= len(head) // 2 * least and not others:
            return name
    return None


def _utf32_without_mark(head: bytes) -> str | None:
    """Answer the byte order of text whose every four bytes are a character: of other words of 32 bits one in 4,000 would be."""
    for name in ("utf-32-le", "utf-32-be"):
        try:
            text = head.decode(name)
        except UnicodeDecodeError:
            continue
        if text and "\0" not in text:
            return name
    return None


def _is_utf8(source: Source) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    stream = source.open()
    try:
        while chunk := stream.read(_CHUNK):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _check_bytes(source: Source, zeros: bytes) -> None:
    stream = source.open()
    place = controls = 0
    while chunk := stream.read(_CHUNK):
        if (zero := chunk.find(zeros)) >= 0:
            raise Corrupt(f"the text holds a zero byte at byte {place + zero}")
        controls += len(chunk) - len(chunk.translate(None, _CONTROLS))
        place += len(chunk)
    if controls > max(2, place * _CONTROLS_MAX):
        raise Corrupt(f"{controls} of the {place} bytes are control characters, which text does not have")


def _check_letters(source: Source, encoding: str) -> None:
    letters = controls = 0
    wide = encoding.startswith(("utf-16", "utf-32"))
    for piece in read_text(source, encoding):
        letters += len(piece)
        if wide:
            controls += len(_CONTROL_LETTERS.findall(piece))
            if "\x00" in piece:
                raise Corrupt(f"the text holds a zero character within the first {letters} characters")
    if controls > max(2, letters * _CONTROLS_MAX):
        raise Corrupt(f"{controls} of the {letters} characters are control characters, which text does not have")
