"""OLE objects within documents without their properties: who wrote them, and when."""
# [MS-OLEPS] 2.21 (property sets), [MS-CFB].

import struct
from typing import Final

from sluice_inspect.office.compound import CompoundFile
from sluice_inspect.sanitise.cleaning import Cleaning
from sluice_inspect.source import MemoryBacked

_PROPERTIES: Final = frozenset({"\5summaryinformation", "\5documentsummaryinformation"})
# A set of one section that has no property. Its identifier, in front of the offset of the section, is the one it had.
_HEAD_BYTES: Final = 28
_IDENTIFIER: Final = slice(28, 44)
_SECTION: Final = struct.pack("<LLL", 48, 8, 0)
_OBJECTS_MOST: Final = 100


def clean(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the object without properties, if that is wanted. Nothing in it moves."""
    if not cleaning.metadata:
        return data
    for _ in range(_OBJECTS_MOST):
        found = _without_one(data)
        if found is None:
            return data
        data = found
        cleaning.removed |= {"author", "dates", "comments"}
    return data


def _without_one(data: bytes) -> bytes | None:
    with MemoryBacked(data) as source:
        container = CompoundFile(source)
        for _path, entry in container.root.walk():
            if entry.is_stream and entry.size and entry.name.lower() in _PROPERTIES:
                content = container.read(entry)
                empty = struct.pack("<HH20xL", 0xFFFE, 0, 1) + content[_IDENTIFIER] + _SECTION
                empty = empty.ljust(entry.size, b"\0")[: entry.size]
                if content != empty:
                    return container.with_stream(entry, empty)
    return None
