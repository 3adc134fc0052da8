"""What a compound file (old Office documents, Outlook items) has besides its text: macros, objects, links."""

import re
from typing import Final

from sluice_inspect.office.compound import CompoundFile
from sluice_inspect.report import FactSheet
from sluice_inspect.source import MemoryBacked
from sluice_inspect.subject import Subject

_MACRO_STORAGES: Final = frozenset({"_vba_project_cur", "macros", "vba", "_vba_project"})
_EMBEDDED_SHEET: Final = re.compile(r"(?:mbd|lnk)[0-9a-f]{8}")
_NATIVE: Final = "\x01ole10native"
_OBJECT_POOL: Final = "objectpool"
_STREAM_BYTES: Final = 64 * 1024**2

# Newer functions are called by the names that a workbook declares for them, in 8 or 16 bits.
LOADING_NAME: Final = re.compile(rb"_xlfn\.(?:WEBSERVICE|IMAGE|FILTERXML)(?![A-Z])", re.IGNORECASE)


def measure_compound(subject: Subject, sheet: FactSheet) -> CompoundFile:
    """Return the container, and add sheets or slides, encryption and flags of its directory.

    Raise `InspectionError` if the container cannot be read.
    """
    if subject.measures:  # the examination read all of it
        sheet.facts["encrypted"] = False
    for name in ("sheets", "slides"):
        count = subject.count(name)
        if count is not None:
            sheet.facts[name] = count
    container = subject.source.cached(CompoundFile)
    _find_in_tree(container, sheet)
    return container


def measure_object(data: bytes, sheet: FactSheet) -> None:
    """Add the flags of an object that is embedded in a document. Raise `InspectionError` if it is damaged."""
    _find_in_tree(CompoundFile(MemoryBacked(data)), sheet)


def _find_in_tree(container: CompoundFile, sheet: FactSheet) -> None:
    for path, entry in container.root.walk():
        name, parent = entry.name.lower(), path.lower().rpartition("/")[0]
        if name in _MACRO_STORAGES:
            sheet.flags.add("macro")
        elif name == _NATIVE:
            sheet.flags |= {"package", "object.ole"}
        elif not entry.is_stream and (parent == _OBJECT_POOL or (not parent and _EMBEDDED_SHEET.fullmatch(name))):
            sheet.flags.add("object.ole")


def read_stream(container: CompoundFile, sheet: FactSheet, *names: str) -> bytes:
    """Return the first of these streams (lower-case names) that is there, as far as it is read."""
    entry = container.root.stream(*names)
    if entry is None:
        sheet.complete = False
        return b""
    sheet.complete &= entry.size <= _STREAM_BYTES
    return container.read(entry, _STREAM_BYTES)
