"""What it would cost to repair a PDF: qpdf and PDFium search for the end of each stream whose length is wrong."""

import re
from collections.abc import Iterator
from typing import Final

from sluice_inspect.source import RandomAccess

# Expressions that begin with a plain word are searched ten times as fast as those that look behind first: whether the
# word is `endstream` is asked of what was found.
_STREAM_WORD: Final = re.compile(rb"stream(?:\r\n?|\n)?")
_LENGTH: Final = re.compile(rb"/Length\s+(\d{1,12})(?!\s+\d+\s+R|\d)")
_ENDS: Final = tuple(map(re.compile, (rb"endstream", rb"endobj")))
_DICTIONARY_MOST: Final = 2048
# Bytes that a reader may search for the ends of streams: some 9 ns each.
_REPAIR_BYTES: Final = 64 * 1024**2
_REPAIR_TIMES: Final = 16
_STREAM_BYTES: Final = 1024
"""What looking at one stream costs, in bytes."""

Data = bytes | memoryview


def repair_is_costly(source: RandomAccess) -> bool:
    """Return whether a reader would search the document over and over for the ends of its streams."""
    # Where the stated length is wrong it looks for both end words, each as far as it must, and continues behind the
    # first; if one is in no later place, it continues behind the word `stream` itself.
    data = source.mapped()
    left = max(_REPAIR_BYTES, _REPAIR_TIMES * len(data))
    next_at = dict.fromkeys(_ENDS, -1)
    behind = 0
    for match in keywords(_STREAM_WORD, data):
        at = match.end()
        if at < behind:
            continue
        left -= _STREAM_BYTES
        if end := _stated_end(data, match):
            behind = end
            continue
        for word, place in next_at.items():
            if place < at:
                found = word.search(data, at)
                next_at[word] = found.start() if found else len(data)
            left -= next_at[word] - at
        if left < 0:
            return True
        behind = min(next_at.values()) if max(next_at.values()) < len(data) else at
    return False


def keywords(expression: re.Pattern[bytes], data: Data, start: int = 0) -> Iterator[re.Match[bytes]]:
    """Yield the matches of an expression that begins with `stream`, without those of `endstream`."""
    for match in expression.finditer(data, start):
        at = match.start()
        if data[max(0, at - 3) : at] != b"end":
            yield match


def dictionary_before(data: Data, keyword: int) -> bytes:
    """Return the dictionary before the keyword `stream`, or the bytes in its place."""
    before = bytes(data[max(0, keyword - _DICTIONARY_MOST) : keyword])
    return before[max(before.rfind(b"obj"), 0) :]


def _stated_end(data: Data, keyword: re.Match[bytes]) -> int | None:
    """Return where a stream ends by its dictionary, or None if it does not end there."""
    lengths = _LENGTH.findall(dictionary_before(data, keyword.start()))
    end = keyword.end() + int(lengths[-1]) if lengths else len(data)
    return end if bytes(data[end : end + 16]).lstrip().startswith(b"endstream") else None
