"""Text in any encoding, read in constant memory: detection of the encoding, decoding, and checks of every text."""

import codecs
import re
from collections.abc import Iterator
from typing import Final

from sluice_inspect.report import Corrupt
from sluice_inspect.source import Source

# Characters without a mark on a page: controls, spaces of all widths, joiners, variation selectors, byte order marks.
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

_CHUNK: Final = 256 * 1024
# UTF-32 before UTF-16: the little-endian mark of UTF-16 begins that of UTF-32.
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_BEYOND_ASCII: Final = bytes(range(0x80, 0x100))
# Bytes that text does not use. It does use bell, tab, line and form feeds, the DOS end of file (1A) and escape (1B).
_CONTROL_BYTES: Final = bytes([*range(0x07), *range(0x0E, 0x1A), *range(0x1C, 0x20), 0x7F])
_CONTROL_CHARACTERS: Final = re.compile("[\x00-\x06\x0e-\x19\x1c-\x1f\x7f]")
_EBCDIC_WORDS: Final = bytes([
    *b"\x15\x25\x40\x4b\x6b", *range(0x81, 0x8A), *range(0x91, 0x9A), *range(0xA2, 0xAA), *range(0xC1, 0xCA),
    *range(0xD1, 0xDA), *range(0xE2, 0xEA), *range(0xF0, 0xFA),
])  # fmt: skip
_CONTROLS_SHARE_MAX: Final = 0.02
_CONTROLS_ALWAYS_ALLOWED: Final = 2


def encoding_of(source: Source) -> str:
    """Return the encoding: by byte order mark or zero bytes (UTF-32, -16), else UTF-8, EBCDIC or `latin-1`."""
    return source.cached(_detect_encoding)


def _detect_encoding(source: Source) -> str:
    for mark, name in _BYTE_ORDER_MARKS:
        if source.head.startswith(mark):
            return name
    return (
        _utf32_without_mark(source.head)
        or _utf16_without_mark(source.head)
        or ("utf-8" if _is_utf8(source) else "cp037" if _is_ebcdic(source.head) else "latin-1")
    )


def _is_ebcdic(head: bytes) -> bool:
    # Words, numbers, spaces and line ends of these code pages are hardly any of other codes' characters.
    return head.count(b"\x40") > 0.02 * len(head) and len(head.translate(None, _EBCDIC_WORDS)) < 0.15 * len(head)


def _utf32_without_mark(head: bytes) -> str | None:
    # Four arbitrary bytes are a character in one of 4,000 cases: a head that decodes throughout is no accident.
    for name in ("utf-32-le", "utf-32-be"):
        try:
            text = head.decode(name)
        except UnicodeDecodeError:
            continue
        if text and "\0" not in text:
            return name
    return None


def _utf16_without_mark(head: bytes) -> str | None:
    # The zero bytes of UTF-16 are all on one side: in Latin text on a third or more of its places, in others on few.
    even, odd = head[0::2].count(0), head[1::2].count(0)
    beyond_ascii = len(head) - len(head.translate(None, _BEYOND_ASCII))
    least_share = 0.005 if beyond_ascii > len(head) * 0.1 else 0.3
    for zeros, others, name in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if zeros and zeros >= len(head) // 2 * least_share and not others:
            return name
    return None


def _is_utf8(source: Source) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for chunk in _read_chunks(source):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def read_text(source: Source, encoding: str | None = None) -> Iterator[str]:
    """Yield the text in pieces, in `encoding` or the detected one. Raise `Corrupt` where the bytes do not decode."""
    encoding = encoding or encoding_of(source)
    decoder = codecs.getincrementaldecoder(encoding)()
    offset = 0
    try:
        for chunk in _read_chunks(source):
            yield decoder.decode(chunk)
            offset += len(chunk)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        # The decoder may hold up to three bytes of the chunk before.
        name = encoding.removesuffix("-sig").upper()
        raise Corrupt(f"the text is not {name} after byte {max(0, offset - 4)}: {error.reason}") from error


def check_text(source: Source, *, zeros: int = 1) -> dict[str, str | int]:
    """Return the `encoding` of a file that is text throughout.

    Fewer than `zeros` zero bytes in a row count as control characters: readers of some languages ignore them. Raise
    `Corrupt` if the file is not text.
    """
    encoding = encoding_of(source)
    if encoding in {"utf-8", "utf-8-sig", "latin-1"}:
        _check_bytes(source, bytes(zeros))
    if encoding not in {"utf-8", "latin-1"}:  # detection decoded these two throughout
        _check_characters(source, encoding)
    return {"encoding": encoding}


def _check_bytes(source: Source, zeros: bytes) -> None:
    offset = controls = 0
    for chunk in _read_chunks(source):
        if (zero := chunk.find(zeros)) >= 0:
            raise Corrupt(f"the text holds a zero byte at byte {offset + zero}")
        controls += len(chunk) - len(chunk.translate(None, _CONTROL_BYTES))
        offset += len(chunk)
    _limit_controls(controls, offset, "bytes")


def _check_characters(source: Source, encoding: str) -> None:
    characters = controls = 0
    is_counted = encoding.startswith(("utf-16", "utf-32", "cp"))  # the others were counted as bytes
    for piece in read_text(source, encoding):
        characters += len(piece)
        if is_counted:
            controls += len(_CONTROL_CHARACTERS.findall(piece))
            if "\x00" in piece:
                raise Corrupt(f"the text holds a zero character within the first {characters} characters")
    _limit_controls(controls, characters, "characters")


def _limit_controls(controls: int, total: int, unit: str) -> None:
    if controls > max(_CONTROLS_ALWAYS_ALLOWED, total * _CONTROLS_SHARE_MAX):
        raise Corrupt(f"{controls} of the {total} {unit} are control characters, which text does not have")


def has_visible_text(source: Source) -> bool:
    """Return whether any character of the text leaves a mark on a page."""
    return any(piece.strip(INVISIBLE) for piece in read_text(source))


def is_white_space(source: Source) -> bool:
    """Return whether the file is nothing but white space after a byte order mark: empty in every language of text."""
    if source.head.removeprefix(codecs.BOM_UTF8)[:64].strip():
        return False
    start = len(codecs.BOM_UTF8) if source.head.startswith(codecs.BOM_UTF8) else 0
    return not any(chunk.strip() for chunk in _read_chunks(source, start))


def _read_chunks(source: Source, start: int = 0) -> Iterator[bytes]:
    stream = source.open()
    stream.seek(start)
    while chunk := stream.read(_CHUNK):
        yield chunk
