"""Runs of the same empty element, of which a small archive may hold millions: all but two of a run are left out."""

import re
from collections.abc import Callable
from typing import Final

# Of tags in an encoding of one byte for each ASCII character; others are read one by one.
_LEAST_AGAIN: Final = 15
_RUN: Final = re.compile(rb"(<[^<>]{1,200}+(?<=/)>)\1{%d}" % _LEAST_AGAIN)
_UNITS: Final = 64
_READ_BYTES: Final = 256 * 1024


class WithoutRuns:
    """Passes an XML document on without runs: two stay of each, and of each part of one that is read at once.

    For readers to which many empty elements are the same as two, of documents whose damage is found otherwise.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._rest = b""
        self._at = 0

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, none at the end."""
        if self._at >= len(self._rest):
            self._rest, self._at = without_runs(self._read(_READ_BYTES)), 0
        piece = self._rest[self._at : self._at + size]
        self._at += size
        return piece


def without_runs(data: bytes) -> bytes:
    """Return a document, or a stretch of one, with two elements of each run."""
    if data.count(b"/><") < _LEAST_AGAIN:
        return data
    pieces, at = [], 0
    while found := _RUN.search(data, at):
        unit, end = found[1], found.end()
        for block in (unit * _UNITS, unit):
            while data.startswith(block, end):
                end += len(block)
        pieces += [data[at : found.start()], unit * 2]
        at = end
    return b"".join(pieces) + data[at:] if pieces else data
