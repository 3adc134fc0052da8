"""Bytes that cannot stand where they stand in a PDF: between objects and in dictionaries, outside of strings, names, comments and streams.

Readers rebuild what they damage (a keyword, an offset), so one says nothing; several in one file were not written by any writer.
ISO 32000-1, 7.2: tokens outside of strings, comments, streams and names are numbers, delimiters and keywords, all of them ASCII.
"""

import re
from collections.abc import Iterator
from typing import Final

from sluice.formats.budget import Deadline

_BEGIN: Final = re.compile(rb"(?<!end)stream(?:\r\n?|\n)")
"""Writers also put a lone CR, which readers take."""
_END: Final = b"endstream"
_FIRST: Final = b"%PDF"
_LAST: Final = b"%%EOF"
_TOKEN: Final = re.compile(
    rb"(?P<string>\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*+\))*+\))|%[^\r\n]*+|/[^\0\t\n\f\r ()<>\[\]{}/%]*+"
    rb"|(?P<word>[^\0\t\n\f\r ()<>\[\]{}/%]++)|(?P<open>\()",
    re.DOTALL,
)
_STRAY: Final = re.compile(rb"[\x01-\x08\x0b\x0e-\x1f\x7f-\xff]")
_SECONDS: Final = 0.5
_STRUCTURE_MOST: Final = 8 * 1024**2
"""Bytes outside of streams that are read; a document has far fewer."""


def stray_words(data: bytes, most: int) -> int:
    """Count words with bytes that no word has, up to `most`. Reading ends at a string that does not, since all behind it may be its own."""
    deadline = Deadline(_SECONDS)
    found = read = 0
    for part in _outside_streams(data):
        for token in _TOKEN.finditer(part):
            if token["open"] or deadline.has_passed:
                return found
            found += token["word"] is not None and _STRAY.search(token["word"]) is not None
            if found >= most:
                return found
        read += len(part)
        if read > _STRUCTURE_MOST:
            return found
    return found


def _outside_streams(data: bytes) -> Iterator[bytes]:
    """Yield what stands before, between and behind the streams, from the header to the last end mark."""
    at, end = max(0, data.find(_FIRST)), data.rfind(_LAST)
    end = len(data) if end < 0 else end
    while at < end:
        match = _BEGIN.search(data, at, end)
        yield data[at : match.start() if match else end]
        if match is None:
            return
        at = data.find(_END, match.end())
        if at < 0:
            return
        at += len(_END)
