"""What a Word document has besides its text: pages, fields that start or load something."""

import re
import struct
from typing import Final

from sluice_inspect.facts.fields import spells_dde
from sluice_inspect.facts.ole import measure_compound, read_stream
from sluice_inspect.office.compound import CompoundFile
from sluice_inspect.report import FactSheet
from sluice_inspect.subject import Subject

_SUMMARY: Final = "\x05summaryinformation"
_PAGE_COUNT: Final = 14  # [MS-OSHARED] 2.3.3.2.1
_SUMMARY_BYTES: Final = 64 * 1024
_INTEGER: Final = 3

# A field is its mark, its instruction, and another mark ([MS-DOC] 2.8.25); text is in 8 bits or in UTF-16.
_DDE_FIELD: Final = re.compile(rb"\x13[ \x01-\x0c]{0,200}DDE|\x13\0(?:[ \x01-\x0c]\0){0,200}D\0D\0E\0", re.IGNORECASE)
_LINKED_FIELD: Final = re.compile(
    rb"\x13[ ]{0,20}(?:INCLUDE(?:PICTURE|TEXT)?|IMPORT|LINK)\s|"
    rb"\x13\0(?:[ ]\0){0,20}(?:I\0N\0C\0L\0U\0D\0E\0|I\0M\0P\0O\0R\0T\0 \0|L\0I\0N\0K\0 \0)",
    re.IGNORECASE,
)


def measure_word(subject: Subject, sheet: FactSheet) -> None:
    """Add pages, encryption and flags. Raise `InspectionError` if the container cannot be read."""
    container = measure_compound(subject, sheet)
    pages = _page_count(container)
    if pages:
        sheet.facts["pages"] = pages
    text = read_stream(container, sheet, "worddocument")
    if _DDE_FIELD.search(text) or spells_dde(text.replace(b"\0", b"").decode("latin-1")):
        sheet.flags.add("dde")
    if _LINKED_FIELD.search(text):
        sheet.flags.add("link.external")


def _page_count(container: CompoundFile) -> int:
    """Return the pages that the summary states ([MS-OLEPS] 2.21), 0 if it does not."""
    entry = container.root.stream(_SUMMARY)
    data = b"" if entry is None else container.read(entry, _SUMMARY_BYTES)
    try:
        start: int = struct.unpack_from("<L", data, 44)[0]
        count = min(struct.unpack_from("<L", data, start + 4)[0], 1000)
        for index in range(count):
            number, offset = struct.unpack_from("<LL", data, start + 8 + 8 * index)
            if number == _PAGE_COUNT:
                value_type, value = struct.unpack_from("<Ll", data, start + offset)
                return max(0, value) if value_type == _INTEGER else 0
    except struct.error:
        return 0
    return 0
