"""Determine whether an intact file stores its samples uncompressed, so that changed samples are still valid."""

import tempfile
from typing import Final

from sluice_inspect.formats.tiff.directory import COMPRESSION, DirectoryReader, read_header
from sluice_inspect.report import InspectionError
from sluice_inspect.source import Source

ALWAYS: Final = frozenset({"wav", "aiff", "bmp", "tar"})
"""Formats without checksums that are rarely compressed."""
_UNCOMPRESSED: Final = 1
_MAX_PAGES: Final = 1000


def are_uncompressed(kind: str, data: bytes) -> bool:
    """Return whether a file has uncompressed samples: always in some formats, as declared in TIFF and HEIF."""
    if kind == "heic":
        return b"unci" in data[:65536]  # the item type of ISO/IEC 23001-17
    return kind in ALWAYS or (kind == "tiff" and _is_uncompressed(data))


def _is_uncompressed(data: bytes) -> bool:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        source = Source(file.fileno())
        header = read_header(source)
        try:
            pages = list(DirectoryReader(source, header, _MAX_PAGES).pages()) if header else []
        except InspectionError:
            return False
        return all(page.first_number(COMPRESSION, _UNCOMPRESSED) == _UNCOMPRESSED for page in pages)
