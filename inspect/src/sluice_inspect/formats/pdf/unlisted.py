"""Objects that are in a PDF but not in its cross-reference tables: older versions, and what stands behind the end."""
# Readers that repair a document read it from object to object, whatever the tables say, so that another object, script
# or attachment comes up. Such objects are put into a document of their own.

import re
from bisect import bisect_left
from collections.abc import Set as AbstractSet
from typing import Final

from sluice_inspect.threats.budget import OverBudget

_OBJECT: Final = re.compile(rb"(?<!\d)(\d{1,10})[\0\t\n\f\r ]+(\d{1,5})[\0\t\n\f\r ]+obj(?![a-z])")
_REFERENCE: Final = re.compile(rb"(?<!\d)(\d{1,10})[\0\t\n\f\r ]+\d{1,5}[\0\t\n\f\r ]+R(?![A-Za-z])")
_STREAM: Final = re.compile(rb"(?<!end)stream[\r\n]")
_MAX_OBJECTS: Final = 20_000
_MAX_READ_TIMES: Final = 2
_READ_FLOOR_BYTES: Final = 1024**2
_FIRST: Final = 3  # the number of the first such object, behind the catalog and the pages


def unlisted_objects(data: bytes, listed: AbstractSet[tuple[int, int]]) -> bytes | None:
    """Return a document of the objects that a table leaves out, None if there are none. Raise `OverBudget`.

    `listed` has the numbers and generations that a reader of the tables knows. Of a number that is there several times,
    all objects are returned, since the tables lead to one of them.
    """
    found = [(int(mark[1]), int(mark[2]), mark.end()) for mark in _OBJECT.finditer(data)]
    counts: dict[tuple[int, int], int] = {}
    for number, generation, _ in found:
        counts[number, generation] = counts.get((number, generation), 0) + 1
    left_out = [each for each in found if counts[each[:2]] > 1 or each[:2] not in listed]
    if not left_out:
        return None
    if len(left_out) > _MAX_OBJECTS:
        raise OverBudget(f"a PDF with more than {_MAX_OBJECTS} objects that its tables leave out")
    ends = _Ends(data)
    unread = _MAX_READ_TIMES * len(data) + _READ_FLOOR_BYTES
    numbers: dict[int, int] = {}
    bodies: list[bytes] = []
    for number, _, start in left_out:
        end = ends.of_object(start)
        unread -= end - start
        if unread < 0:
            raise OverBudget("a PDF whose objects overlap")
        if b"<<" in data[start:end]:  # others, such as lengths, hold nothing to look at
            bodies.append(data[start:end])
            numbers[number] = len(bodies) + _FIRST - 1  # references mean the last of a number
    return _document(bodies, numbers) if bodies else None


def _document(bodies: list[bytes], numbers: dict[int, int]) -> bytes:
    """Return a document of these objects, renumbered: qpdf takes large numbers in small files for damage."""

    def renumbered(reference: re.Match[bytes]) -> bytes:
        return b"%d 0 R" % numbers.get(int(reference[1]), 0)

    out, offsets = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate((b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[]/Count 0>>", *bodies), 1):
        offsets.append(len(out))
        head, keyword, content = body.partition(b"stream") if number >= _FIRST else (body, b"", b"")
        if number >= _FIRST:
            head = _REFERENCE.sub(renumbered, head)
        out += b"%d 0 obj\n%b%b%b\nendobj\n" % (number, head, keyword, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    head = b"xref\n0 %d\n0000000000 65535 f \n%btrailer\n" % (len(offsets) + 1, table)
    return bytes(out) + head + b"<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(offsets) + 1, len(out))


class _Ends:
    """Where objects end. The file is searched once, however many are asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._objects = [found.start() for found in re.finditer(rb"endobj", data)]
        self._streams = [found.start() for found in _STREAM.finditer(data)]
        self._stream_ends = [found.start() for found in re.finditer(rb"endstream", data)]

    def of_object(self, start: int) -> int:
        end = self._next(self._objects, start)
        if self._next(self._streams, start) < end:
            # Its data may hold the word, so that it ends behind its stream.
            stream_end = self._next(self._stream_ends, start)
            end = stream_end + len(b"endstream") if stream_end < len(self._data) else end
        return end

    def _next(self, places: list[int], start: int) -> int:
        index = bisect_left(places, start)
        return places[index] if index < len(places) else len(self._data)
