"""Says of intact files whether they keep samples or bytes as they are, so that changed ones are as good as before. Damages and scores nothing."""

import tempfile
from typing import Final

from sluice.formats.images.tiff_directory import COMPRESSION, Walk, header_of
from sluice.formats.source import Source
from sluice.formats.verdict import Judgement

ALWAYS: Final = frozenset({"wav", "aiff", "bmp", "tar"})
"""Formats without checksums that seldom pack."""
_UNPACKED: Final = 1
_PAGES_MOST: Final = 1000


def are_kept(kind: str, data: bytes) -> bool:
    """Answer whether a file of this kind holds its samples unpacked: always in some formats, by its own word in TIFF and HEIF."""
    if kind == "heic":
        return b"unci" in data[:65536]  # the item type of ISO/IEC 23001-17
    return kind in ALWAYS or (kind == "tiff" and _is_unpacked(data))


def _is_unpacked(data: bytes) -> bool:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        source = Source(file.fileno())
        header = header_of(source)
        try:
            pages = list(Walk(source, header, _PAGES_MOST).pages()) if header else []
        except Judgement:
            return False
        return all(page.number_of(COMPRESSION, _UNPACKED) == _UNPACKED for page in pages)
