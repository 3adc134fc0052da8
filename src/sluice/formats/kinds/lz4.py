"""LZ4 files, those that hold a TAR archive included: the frames to their end, and what is packed in them. How frames are read is in `frames`."""

from functools import partial
from typing import Final

from sluice.formats.archives.frames import LZ4
from sluice.formats.archives.nested import blank_archive, check_archive
from sluice.formats.kind import Kind

_SAMPLE: Final = b"\x04\x22\x4d\x18\x60\x40\x82\x14\x00\x00\x80A sluice is a gate.\n\x00\x00\x00\x00"
"""A frame of one block that is stored as it is, and the end mark."""

KIND: Final = Kind(
    name="lz4",
    content_type="application/x-lz4",
    extensions=frozenset({"lz4", "tlz4"}),
    recognises=lambda source: LZ4.begins(source.head),
    check=partial(check_archive, LZ4),
    blank=blank_archive,
    sample=lambda: _SAMPLE,
)
