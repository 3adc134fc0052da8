"""TAR archives, not compressed: every header, every member, and what is packed in those."""

import io
import tarfile
from functools import partial
from typing import Final

from sluice_inspect.archives.nested import examine_archive
from sluice_inspect.archives.tar import TAR
from sluice_inspect.archives.tar_headers import BLOCK, claims_header
from sluice_inspect.facts.archives import measure_archive
from sluice_inspect.format import Family, Format, MatchOrder, SecondFormats, named


def sample() -> bytes:
    """Return an archive of one member."""
    content = b"A sluice is a gate.\n"
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("sluice.txt")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


FORMAT: Final = Format(
    name="tar",
    family=Family.ARCHIVE,
    content_type="application/x-tar",
    extensions=frozenset({"tar", "ova", "gem"}),
    matches=lambda source: claims_header(source.head[:BLOCK]),
    match_order=MatchOrder.CHECKSUM,
    examine=partial(examine_archive, TAR),
    facts=measure_archive,
    container=TAR,
    sample=sample,
    names=named("TAR archive", "tar application/x-tar"),
    second_formats=SecondFormats.NOWHERE,
)
