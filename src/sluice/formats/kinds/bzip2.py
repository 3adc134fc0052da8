"""bzip2 files, those that hold a TAR archive included: the streams to their end, and what is packed in them. How streams are read is in `streams`."""

import bz2
from functools import partial
from typing import Final

from sluice.formats.archives.nested import blank_archive, check_archive
from sluice.formats.archives.streams import BZIP2
from sluice.formats.kind import Kind

KIND: Final = Kind(
    name="bz2",
    content_type="application/x-bzip2",
    extensions=frozenset({"bz2", "bz", "tbz", "tbz2", "tb2"}),
    recognises=lambda source: BZIP2.begins(source.head),
    check=partial(check_archive, BZIP2),
    blank=blank_archive,
    sample=lambda: bz2.compress(b"A sluice is a gate.\n"),
)
