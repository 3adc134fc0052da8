"""ZIP archives: what may stand around one, and by which names they go. How archives are read is in `zipped`; formats built on ZIP have kinds of their own.

Text in front of or behind an archive is allowed, as self-extracting scripts and mail gateways leave it, unless it is HTML: then a web
server's answer was saved as the file.
"""

import io
import zipfile
from collections.abc import Mapping
from functools import partial
from typing import Final

from sluice.formats.archives.containers import RandomAccess, Visitor, WholeContainer
from sluice.formats.archives.nested import blank_archive, check_archive
from sluice.formats.archives.trailing import refuse_second_format
from sluice.formats.archives.zip_records import CENTRAL, END, LOCAL, find_end
from sluice.formats.archives.zip_walk import ZIP, show_members
from sluice.formats.archives.zipped import Archive, read_archive
from sluice.formats.budget import Budget
from sluice.formats.kind import Kind
from sluice.formats.magics import PROGRAMS, begins_otherwise
from sluice.formats.source import Source
from sluice.formats.text.webpage import is_web_page
from sluice.formats.verdict import Corrupt, Finding, Judgement, Measure, Unsafe

_SPANNING_MARKS: Final = (b"PK\x07\x08", b"PK00")
_SPANNING_BYTES: Final = 4
_PADDING_MOST: Final = 512
"""Bytes behind an archive that is not at the start of its file."""
_EXTENSIONS: Final = frozenset({
    "zip", "zipx", "jar", "war", "ear", "aar", "apk", "aab", "ipa", "whl", "xpi", "cbz", "kmz", "nupkg", "snupkg", "vsix",
    "odg", "odf", "odb", "odc", "otg", "sxw", "sxc", "sxi", "vsdx", "vsdm", "vssx", "vstx",
    "xps", "oxps", "3mf", "appx", "msix", "appxbundle", "msixbundle", "idml", "twbx", "pbix", "ggb", "sb2", "sb3", "h5p", "imscc", "mscz", "usdz", "npz",
    "ora", "kra", "oxt", "dwfx",
})  # fmt: skip
"""Names of formats that are always ZIP archives and have no kind of their own, or not yet."""
_BESIDE_MOST: Final = 64 * 1024**2
"""Bytes in front of and behind an archive that are searched for a second one."""


def recognises(source: Source) -> bool:
    """Whether an archive begins at the start, or ends the file behind something else that is no HTML page and no program."""
    head = source.head
    if head.startswith((LOCAL, END)) or (head.startswith(_SPANNING_MARKS) and head[4:8] == LOCAL):
        return True
    if END not in source.tail or head.startswith(PROGRAMS) or is_web_page(head):
        return False
    try:
        end = find_end(source)
    except Judgement:
        return False
    if end is None or source.read_at(end.directory, len(CENTRAL)) != CENTRAL:
        return False
    return end.end == source.size or (source.size - end.end <= _PADDING_MOST and not begins_otherwise(head))


def _walk(source: RandomAccess, budget: Budget, visitor: Visitor) -> Mapping[str, Measure]:
    archive = read_archive(source, budget.limits)
    _refuse_beside(archive)
    return show_members(archive, budget, visitor)


def _refuse_beside(archive: Archive) -> None:
    for start, size in ((0, archive.prefix_bytes), (archive.end.end, archive.suffix_bytes)):
        beside = archive.source.read_at(start, min(size, _BESIDE_MOST))
        if is_web_page(beside):
            raise Corrupt("an HTML page is saved around the archive: a web server's answer, not the file itself")
        if LOCAL in beside:
            raise Unsafe(Finding.ARCHIVE_UNSAFE, "the file holds a second archive beside the one that its directory lists")
        refuse_second_format(beside if start else b"", "ZIP", start)
    if (
        archive.prefix_bytes
        and begins_otherwise(archive.source.read_at(0, _PADDING_MOST))
        and archive.prefix_bytes > _SPANNING_BYTES
    ):
        raise Unsafe(Finding.POLYGLOT, "the file begins as another format and ends as an archive")


def sample() -> bytes:
    """Answer an archive of one packed and one stored member."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo("stored.txt"), "A sluice is a gate.\n")
        archive.writestr(zipfile.ZipInfo("packed.txt"), "A sluice is a gate.\n" * 8, zipfile.ZIP_DEFLATED)
    return file.getvalue()


KIND: Final = Kind(
    name="zip",
    content_type="application/zip",
    extensions=_EXTENSIONS,
    recognises=recognises,
    check=partial(check_archive, WholeContainer("zip", ZIP.begins, _walk)),
    sample=sample,
    blank=blank_archive,
)
