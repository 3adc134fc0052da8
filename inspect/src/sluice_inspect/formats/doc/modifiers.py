"""Property modifiers ("sprms") of Word's binary format ([MS-DOC] 2.6): parser, and which of them draw or hide."""

import struct
from collections.abc import Iterator
from typing import Any, Final

_WORD: Final = struct.Struct("<H")
# Bytes of the operand, by the three highest bits of the code; None where a byte in front of the operand states them.
_LENGTHS: Final = (1, 1, 2, 4, 2, 2, None, 3)
_TABLE_ROW: Final = 0xD608
_TABLE_ROWS: Final = frozenset({0xD606, _TABLE_ROW})  # their length takes two bytes and is one too high
_TABS: Final = 0xC615
_TABS_LONG: Final = 255

_HIDDEN, _COLOUR, _COLOUR_INDEX = 0x083C, 0x6870, 0x2A42
_WHITE: Final = b"\xff\xff\xff\x00"
_WHITE_INDEX: Final = 8
_HIGHLIGHT: Final = 0x2A0C
# Shades by colour index: five bits for the colour of the pattern, five for the one behind it, six for the pattern.
_SHADES_SHORT: Final = frozenset({0x4866, 0x442D, 0xD609})
_SHADES_LONG: Final = frozenset({0xCA71, 0xC64D, 0xD60C, 0xD612, 0xD616, 0xD660, 0xD670, 0xD671, 0xD672})
_SHADE: Final = struct.Struct("<4x4sH")  # the colour of the pattern (skipped), the one behind it, the pattern
_NO_SHADE: Final = 0xFFFF
_AUTOMATIC: Final = b"\x00\x00\x00\xff"

# Borders of four bytes: width, style, colour, space.
_LINES_SHORT: Final = frozenset({0x6424, 0x6425, 0x6426, 0x6427, 0x6428, 0x6629, 0xD605, 0xD620})
# Borders of eight bytes: colour in four, width, style, two more.
_LINES_LONG: Final = frozenset({0xC64E, 0xC64F, 0xC650, 0xC651, 0xC652, 0xC653, 0xD613, 0xD62F})
_CELL_BYTES: Final = 20


class CutModifier(Exception):
    """A list of modifiers whose last one is cut off."""


def parse_modifiers(modifiers: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the code and the operand of each modifier. Raises `CutModifier` where the list ends within one."""
    at, end = 0, len(modifiers)
    while at < end:
        if end - at < _WORD.size:
            if modifiers[at]:
                raise CutModifier
            return  # one zero byte at the end is padding
        code: int = _WORD.unpack_from(modifiers, at)[0]
        at += _WORD.size
        prefix, length = _operand_length(code, modifiers, at)
        if at + prefix + length > end:
            raise CutModifier
        yield code, modifiers[at + prefix : at + prefix + length]
        at += prefix + length


def _operand_length(code: int, modifiers: bytes, at: int) -> tuple[int, int]:
    fixed = _LENGTHS[code >> 13]
    if fixed is not None:
        return 0, fixed
    if at >= len(modifiers):
        raise CutModifier
    if code in _TABLE_ROWS and at + 1 < len(modifiers):
        return _WORD.size, max(0, _WORD.unpack_from(modifiers, at)[0] - 1)
    if code != _TABS or modifiers[at] != _TABS_LONG:
        return 1, modifiers[at]
    # A list of tabs that is too long for one byte: its length follows from the tabs it deletes and adds.
    deleted = modifiers[at + 1] if at + 1 < len(modifiers) else 0
    added_at = at + 2 + 4 * deleted
    added = modifiers[added_at] if added_at < len(modifiers) else 0
    return 1, 2 + 4 * deleted + 3 * added


def hides(code: int, operand: bytes) -> bool:
    """Whether a modifier hides a run of text."""
    return code == _HIDDEN and operand[0] == 1


def whitens(code: int, operand: bytes) -> bool:
    """Whether a modifier makes a run of text white."""
    return (code == _COLOUR and operand == _WHITE) or (code == _COLOUR_INDEX and operand[0] == _WHITE_INDEX)


def shades(code: int, operand: bytes) -> bool:
    """Whether a modifier puts a colour behind text, on which white is visible."""
    if code == _HIGHLIGHT:
        return operand[0] not in {0, _WHITE_INDEX}
    if code in _SHADES_SHORT:
        return any(
            value not in {0, _NO_SHADE} and (value >> 10 or value >> 5 & 0x1F not in {0, _WHITE_INDEX})
            for (value,) in _unpack_all(_WORD, operand)
        )
    if code in _SHADES_LONG:
        return any(
            pattern or back not in {_AUTOMATIC, _WHITE}
            for back, pattern in _unpack_all(_SHADE, operand)
            if pattern != _NO_SHADE
        )
    return False


def _unpack_all(each: struct.Struct, operand: bytes) -> Iterator[tuple[Any, ...]]:
    return each.iter_unpack(operand[: len(operand) // each.size * each.size])


def draws_line(code: int, operand: bytes) -> bool:
    """Whether a modifier draws a border of a paragraph, a table or a cell."""
    if code == _TABLE_ROW:
        return _has_row_line(operand)
    if code in _LINES_SHORT:
        start = 3 if code == 0xD620 else 0
        return any(_is_line(operand[at + 1]) for at in range(start, len(operand) - 3, 4))
    if code in _LINES_LONG:
        start = 3 if code == 0xD62F else 0
        return any(_is_line(operand[at + 5]) for at in range(start, len(operand) - 7, 8))
    return False


def _has_row_line(operand: bytes) -> bool:
    cells = operand[0] if operand else 0
    first = 1 + 2 * (cells + 1)
    for cell in range(first, min(len(operand), first + cells * _CELL_BYTES), _CELL_BYTES):
        if any(_is_line(operand[at + 1]) for at in range(cell + 4, min(cell + _CELL_BYTES, len(operand) - 3), 4)):
            return True
    return False


def _is_line(style: int) -> bool:
    return style not in {0, 0xFF}
