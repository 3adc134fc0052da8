"""The elements of EBML files (Matroska, WebM; RFC 8794 and 9559): their headers, nesting and check sums. Which must be there is said in `matroska.py`."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sluice.formats.source import Source
from sluice.formats.verdict import TooComplex

HEADER: Final = 0x1A45DFA3
VOID: Final = 0xEC
CRC32: Final = 0xBF

_ID_MAX: Final = 4
_SIZE_MAX: Final = 8
_CRC_ELEMENT_BYTES: Final = 6
_MOST: Final = 300_000
"""Elements within one: writers begin a new cluster every few seconds."""
_READ_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Element:
    """One element as its header declares it, in bytes from the start of the file."""

    id: int
    offset: int
    body: int
    end: int | None
    """None for a size that was not known when it was written: the element ends where one of a higher level begins."""


def element_at(source: Source, offset: int) -> Element | None:
    """Answer the element whose header stands at `offset`, or None when there is none."""
    head = source.read_at(offset, _ID_MAX + _SIZE_MAX)
    if not head:
        return None
    id_bytes = 9 - head[0].bit_length()
    if id_bytes > _ID_MAX or len(head) <= id_bytes:
        return None
    size_bytes = 9 - head[id_bytes].bit_length()
    body = id_bytes + size_bytes
    if size_bytes > _SIZE_MAX or len(head) < body:
        return None
    mask = (1 << 7 * size_bytes) - 1
    size = int.from_bytes(head[id_bytes:body], "big") & mask
    number = int.from_bytes(head[:id_bytes], "big")
    return Element(number, offset, offset + body, None if size == mask else offset + body + size)


def children(source: Source, start: int, end: int) -> Iterator[Element]:
    """Answer the elements from `start` up to the first that is none, passes `end` or has no known size; the last two included.

    Raises `TooComplex` for far more of them than any writer puts into one.
    """
    offset = start
    for _ in range(_MOST):
        element = element_at(source, offset) if offset < end else None
        if element is None:
            return
        yield element
        if element.end is None or element.end > end:
            return
        offset = element.end
    raise TooComplex(f"more than {_MOST} elements stand behind byte {start} of the file")


def has_its_sum(source: Source, parent: Element) -> bool | None:
    """Answer whether the content of an element agrees with the CRC-32 that it begins with; None where it begins with none."""
    first = element_at(source, parent.body)
    if first is None or first.id != CRC32 or first.end != parent.body + _CRC_ELEMENT_BYTES or parent.end is None:
        return None
    stated = int.from_bytes(source.read_at(first.body, 4), "little")
    found, offset = 0, first.end
    while offset < parent.end and (data := source.read_at(offset, min(_READ_BYTES, parent.end - offset))):
        found = zlib.crc32(data, found)
        offset += len(data)
    return found == stated


def number(source: Source, element: Element) -> int:
    """Answer the unsigned number that an element holds, 0 for an empty one."""
    return int.from_bytes(source.read_at(element.body, min(_SIZE_MAX, (element.end or element.body) - element.body)), "big")


def text(source: Source, element: Element) -> str:
    """Answer the ASCII text that an element of at most 64 bytes holds."""
    return (
        source.read_at(element.body, min(64, (element.end or element.body) - element.body)).rstrip(b"\0").decode("ascii", "replace")
    )
