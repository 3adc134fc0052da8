"""The control words of a document that its facts and the scan ask for, found in one search of its bytes."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from sluice_inspect.source import RandomAccess

_WORD: Final = re.compile(
    rb"\\(uc|pict|template|fldinst|datastore|obj(?:data|class|emb|ocx|link|autlink|update|alias))(?![A-Za-z])(-?\d+)? ?"
)
_SKIP_COUNT: Final = b"uc"
_KEPT: Final = 50_000  # words; a document that has more is searched again behind them
_SHORT_DIGITS: Final = 3
_DIGITS: Final = 20
_LONG_COUNTS: Final = 16  # more than are tried


class RtfWord(NamedTuple):
    """A control word: where its backslash is, the digits behind it, and where what follows begins."""

    start: int
    text: bytes
    number: bytes
    end: int


class RtfReading:
    """The bytes of a document, and its words."""

    def __init__(self, source: RandomAccess) -> None:
        self.data = source.mapped()
        # How many characters one in Unicode may replace, as `\uc` states it, in up to three digits; None: no number.
        self.short_skip_counts: dict[int | None, None] = {}
        # The same in more digits or below zero, up to the number at which the readings are not tried.
        self.long_skip_counts: dict[int, None] = {}
        self._kept: list[RtfWord] = []
        self._searched_again_from: int | None = None
        for word in self._search(0):
            if word.text == _SKIP_COUNT:
                self._add_skip_count(word.number)
            elif len(self._kept) < _KEPT:
                self._kept.append(word)
            elif self._searched_again_from is None:
                self._searched_again_from = word.start

    def words(self) -> Iterator[RtfWord]:
        """Yield the words in their order, without the numbers of replaced characters."""
        yield from self._kept
        if self._searched_again_from is not None:
            yield from (word for word in self._search(self._searched_again_from) if word.text != _SKIP_COUNT)

    def _search(self, start: int) -> Iterator[RtfWord]:
        for found in _WORD.finditer(self.data, start):
            yield RtfWord(found.start(), found[1], found[2] or b"", found.end())

    def _add_skip_count(self, number: bytes) -> None:
        if not number:
            self.short_skip_counts[None] = None
        elif len(number) <= _SHORT_DIGITS and number.isdigit():
            self.short_skip_counts[int(number)] = None
        elif len(self.long_skip_counts) < _LONG_COUNTS:
            self.long_skip_counts[int(number[:_DIGITS])] = None
