"""TAR archives, not compressed: every header, every member, and what is packed in those. How archives are walked is in `tar_walk`."""

import io
import tarfile
from functools import partial
from typing import Final

from sluice.formats.archives.nested import blank_archive, check_archive
from sluice.formats.archives.tar_records import BLOCK, looks_like_header
from sluice.formats.archives.tar_walk import TAR
from sluice.formats.kind import Kind
from sluice.formats.source import Source


def recognises(source: Source) -> bool:
    """Whether the first block is a header, or would be one but for its checksum."""
    return looks_like_header(source.head[:BLOCK])


def sample() -> bytes:
    """Answer an archive of one member."""
    content = b"A sluice is a gate.\n"
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("sluice.txt")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


KIND: Final = Kind(
    name="tar",
    content_type="application/x-tar",
    extensions=frozenset({"tar", "ova", "gem"}),
    recognises=recognises,
    check=partial(check_archive, TAR),
    blank=blank_archive,
    sample=sample,
)
