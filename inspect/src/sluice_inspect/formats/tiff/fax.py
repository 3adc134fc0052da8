"""The codes of a group 4 fax (ITU-T T.6, the tables of T.4), followed row by row without drawing."""
# Decoders draw something whatever the codes are. Group 3 is not judged: lines damaged by the telephone are usual in it.

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import numpy as np

from sluice_inspect.budget import Deadline

BYTES_MOST: Final = 4 * 1024**2
# Codes of runs of 0 to 63 pixels, then of multiples of 64. Those from 1792 on are the same for both colours (`_LONG`).
_WHITE: Final = (
    "00110101 000111 0111 1000 1011 1100 1110 1111 10011 10100 00111 01000 001000 000011 110100 110101 101010 "
    "101011 0100111 0001100 0001000 0010111 0000011 0000100 0101000 0101011 0010011 0100100 0011000 00000010 "
    "00000011 00011010 00011011 00010010 00010011 00010100 00010101 00010110 00010111 00101000 00101001 00101010 "
    "00101011 00101100 00101101 00000100 00000101 00001010 00001011 01010010 01010011 01010100 01010101 00100100 "
    "00100101 01011000 01011001 01011010 01011011 01001010 01001011 00110010 00110011 00110100 11011 10010 010111 "
    "0110111 00110110 00110111 01100100 01100101 01101000 01100111 011001100 011001101 011010010 011010011 "
    "011010100 011010101 011010110 011010111 011011000 011011001 011011010 011011011 010011000 010011001 "
    "010011010 011000 010011011 "
)
_BLACK: Final = (
    "0000110111 010 11 10 011 0011 0010 00011 000101 000100 0000100 0000101 0000111 00000100 00000111 000011000 "
    "0000010111 0000011000 0000001000 00001100111 00001101000 00001101100 00000110111 00000101000 00000010111 "
    "00000011000 000011001010 000011001011 000011001100 000011001101 000001101000 000001101001 000001101010 "
    "000001101011 000011010010 000011010011 000011010100 000011010101 000011010110 000011010111 000001101100 "
    "000001101101 000011011010 000011011011 000001010100 000001010101 000001010110 000001010111 000001100100 "
    "000001100101 000001010010 000001010011 000000100100 000000110111 000000111000 000000100111 000000101000 "
    "000001011000 000001011001 000000101011 000000101100 000001011010 000001100110 000001100111 0000001111 "
    "000011001000 000011001001 000001011011 000000110011 000000110100 000000110101 0000001101100 0000001101101 "
    "0000001001010 0000001001011 0000001001100 0000001001101 0000001110010 0000001110011 0000001110100 "
    "0000001110101 0000001110110 0000001110111 0000001010010 0000001010011 0000001010100 0000001010101 "
    "0000001011010 0000001011011 0000001100100 0000001100101 "
)
_LONG: Final = (
    "00000001000 00000001100 00000001101 000000010010 000000010011 000000010100 000000010101 000000010110 "
    "000000010111 000000011100 000000011101 000000011110 000000011111 "
)
# How a change of colour relates to that of the row above. Numbers are pixels to the right of it.
_MODES: Final[Mapping[str, str | int]] = {
    "0001": "pass", "001": "horizontal", "1": 0, "011": 1, "000011": 2, "0000011": 3, "010": -1, "000010": -2,
    "0000010": -3, "0000001": "extension", "000000000001": "end",
}  # fmt: skip
_WINDOW: Final = 13
_TERMINATING: Final = 64
_PADDING: Final = 4  # ends of the row behind its last change, so that a search to the right of it finds one
_Meaning = TypeVar("_Meaning")


class InvalidFax(Exception):
    """The codes are not valid. `str()` is the reason."""


def _runs(codes: str) -> dict[str, int]:
    return {
        code: number if number < _TERMINATING else 64 * (number - 63)
        for number, code in enumerate((codes + _LONG).split())
    }


def _by_window(codes: Mapping[str, _Meaning]) -> list[tuple[_Meaning, int] | None]:
    """Return a table from the next 13 bits to the code that they begin with, and its number of bits."""
    table: list[tuple[_Meaning, int] | None] = [None] * 2**_WINDOW
    for code, meaning in codes.items():
        free = _WINDOW - len(code)
        first = int(code, 2) << free
        table[first : first + 2**free] = [(meaning, len(code))] * 2**free
    return table


_RUNS_OF: Final = (_by_window(_runs(_WHITE)), _by_window(_runs(_BLACK)))
_MODE_OF: Final = _by_window(_MODES)


def has_all_rows(data: bytes, width: int, rows: int, deadline: Deadline) -> bool:
    """Follow `rows` rows; return whether all are valid, False if not all were followed.

    An end code before the last row is accepted. Rows are not followed in uncompressed mode, nor past the deadline.
    Raise `InvalidFax` if the codes are not valid.
    """
    fax = _FaxRows(data)
    above = [width] * _PADDING
    for number in range(rows):
        if deadline.has_passed:
            return False
        row = fax.row(above, width, number + 1)
        if row is None:
            return fax.ended
        above = row
    return True


class _FaxRows:
    def __init__(self, data: bytes) -> None:
        # The 13 bits behind every bit position, computed at once: shifting bits one by one in Python is too slow.
        padded = np.frombuffer(data + bytes(4), dtype=np.uint8).astype(np.uint32)
        whole = padded[:-3] << 24 | padded[1:-2] << 16 | padded[2:-1] << 8 | padded[3:]
        shifts = np.arange(32 - _WINDOW, 32 - _WINDOW - 8, -1, dtype=np.uint32)
        windows = (whole[:, None] >> shifts & (2**_WINDOW - 1)).astype(np.uint16)
        self._windows = memoryview(windows.tobytes()).cast("H")
        self._bits = 8 * len(data)
        self._at = 0
        self.ended = False

    def row(self, above: list[int], width: int, number: int) -> list[int] | None:
        """Return where the colour changes in the next row, None if the page ends or its mode is not followed here."""
        row: list[int] = []
        position, colour, index = -1, 0, 0
        while position < width:
            mode = self._next(_MODE_OF, number)
            if mode == "pass":
                position = above[index + 1]
                index += 2
            elif mode == "horizontal":
                for _ in range(2):
                    position = max(position, 0) + self._run(colour, number)
                    colour ^= 1
                    row.append(position)
            elif isinstance(mode, int):
                changed = above[index] + mode
                if changed < max(position, 0):
                    raise InvalidFax(f"row {number} goes backwards")
                position = changed
                row.append(position)
                colour ^= 1
                index = index + 1 if mode >= 0 or not index else index - 1
            else:
                self.ended = mode == "end"
                return None
            if position > width:
                raise InvalidFax(f"row {number} is longer than {width} pixels")
            # The reference is the next change to the opposite colour in the row above (T.6, 2.2.1).
            while above[index] <= position < width:
                index += 2
        return row + [width] * _PADDING

    def _run(self, colour: int, number: int) -> int:
        run = 0
        while True:
            part = self._next(_RUNS_OF[colour], number)
            run += part
            if part < _TERMINATING:
                return run

    def _next(self, table: list[tuple[_Meaning, int] | None], number: int) -> _Meaning:
        if self._at >= self._bits:
            raise InvalidFax(f"the data ends in row {number}")
        found = table[self._windows[self._at]]
        if found is None:
            raise InvalidFax(f"row {number} has an invalid code")
        meaning, bits = found
        self._at += bits
        return meaning
