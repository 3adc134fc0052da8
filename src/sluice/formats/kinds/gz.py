"""GZIP files, those that hold a TAR archive included: the streams to their end, and what is packed in them. How streams are read is in `streams`."""

import gzip
from functools import partial
from typing import Final

from sluice.formats.archives.nested import blank_archive, check_archive
from sluice.formats.archives.streams import GZIP
from sluice.formats.kind import Kind

KIND: Final = Kind(
    name="gz",
    content_type="application/gzip",
    extensions=frozenset({"gz", "gzip", "tgz", "taz"}),
    recognises=lambda source: GZIP.begins(source.head),
    check=partial(check_archive, GZIP),
    blank=blank_archive,
    sample=lambda: gzip.compress(b"A sluice is a gate.\n", mtime=0),
)
