"""Zstandard files, those that hold a TAR archive included: the frames to their end, and what is packed in them. How frames are read is in `frames`."""

from functools import partial
from typing import Final

from sluice.formats.archives.frames import ZSTANDARD
from sluice.formats.archives.nested import blank_archive, check_archive
from sluice.formats.kind import Kind

_SAMPLE: Final = b"\x28\xb5\x2f\xfd\x20\x14\xa1\x00\x00A sluice is a gate.\n"
"""A frame of one segment of 20 bytes, in one raw block that is the last."""

KIND: Final = Kind(
    name="zst",
    content_type="application/zstd",
    extensions=frozenset({"zst", "zstd", "tzst"}),
    recognises=lambda source: ZSTANDARD.begins(source.head),
    check=partial(check_archive, ZSTANDARD),
    blank=blank_archive,
    sample=lambda: _SAMPLE,
)
