"""The strings of Excel's binary workbooks ([MS-XLS] 2.5.293 and 2.5.294): single ones, and the table that all sheets share. Knows no cells."""

import struct
from collections.abc import Sequence
from typing import Final

from sluice.formats.verdict import Corrupt

_TABLE_HEADER: Final = struct.Struct("<4xL")
_WIDE: Final = 1
_PHONETIC: Final = 4
_RICH: Final = 8
_RUN_BYTES: Final = 4
_KEPT: Final = 1000
"""Characters of a string that are kept."""


def read_string(body: bytes, at: int, *, has_flags: bool) -> str:
    """Answer the string with a length of two bytes at a place of a record; in workbooks before Excel 97 it has no flags."""
    length = int.from_bytes(body[at : at + 2], "little")
    if not has_flags:
        return body[at + 2 : at + 2 + length].decode("cp1252", "replace")
    if len(body) < at + 3:
        return ""
    flags, at = body[at + 2], at + 3
    at += (2 if flags & _RICH else 0) + (4 if flags & _PHONETIC else 0)
    return _decoded(body[at : at + length * (1 + (flags & _WIDE))], flags)


class SharedStrings:
    """Walks the table of shared strings, which lies in one record and those that continue it. Raises `Corrupt` when it ends too early."""

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self._bodies = bodies
        self._body = bodies[0]
        self._index = 0
        self._at = _TABLE_HEADER.size
        self.count: int = _TABLE_HEADER.unpack_from(self._body)[0] if len(self._body) >= _TABLE_HEADER.size else 0

    def walk(self, wanted: frozenset[int] = frozenset()) -> dict[int, str]:
        """Read all strings; answer the beginnings of the wanted ones. Writers miscount: `count` is then how many there are."""
        texts: dict[int, str] = {}
        for index in range(self.count):
            if self._is_at_end:
                self.count = index
                break
            text = self._string(keeps=index in wanted)
            if index in wanted:
                texts[index] = text
        return texts

    @property
    def _is_at_end(self) -> bool:
        return self._at >= len(self._body) and self._index + 1 >= len(self._bodies)

    def _string(self, *, keeps: bool) -> str:
        length, flags = struct.unpack("<HB", self._take(3))
        runs = int.from_bytes(self._take(2), "little") if flags & _RICH else 0
        phonetic = int.from_bytes(self._take(4), "little") if flags & _PHONETIC else 0
        text = self._letters(length, flags, keeps=keeps)
        self._skip(_RUN_BYTES * runs + phonetic)
        return text

    def _letters(self, length: int, flags: int, *, keeps: bool) -> str:
        text = ""
        while length:
            if self._at >= len(self._body):
                self._turn()
                flags = self._take(1)[0]
            width = 1 + (flags & _WIDE)
            held = min(length, (len(self._body) - self._at) // width)
            if not held:
                raise Corrupt("the workbook is damaged: a shared text is torn within a letter")
            if keeps and len(text) < _KEPT:
                text += _decoded(self._body[self._at : self._at + held * width], flags)
            self._at += held * width
            length -= held
        return text

    def _take(self, size: int) -> bytes:
        taken = self._body[self._at : self._at + size]
        self._at += len(taken)
        while len(taken) < size:
            self._turn()
            more = self._body[: size - len(taken)]
            self._at = len(more)
            taken += more
        return taken

    def _skip(self, size: int) -> None:
        while size > (held := len(self._body) - self._at):
            size -= held
            self._turn()
        self._at += size

    def _turn(self) -> None:
        """Go on to the next record."""
        self._index += 1
        if self._index >= len(self._bodies):
            raise Corrupt("the workbook is damaged: its last shared text is shorter than stated")
        self._body, self._at = self._bodies[self._index], 0


def _decoded(letters: bytes, flags: int) -> str:
    return letters.decode("utf-16-le" if flags & _WIDE else "latin-1", "replace")
