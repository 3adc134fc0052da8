"""ZIP archives: what may stand around one, and the names under which they are known."""
# Text around an archive is allowed, as self-extracting scripts and mail gateways leave it, unless it is HTML: then a
# web server's answer was saved as the file. Formats built on ZIP (docx, epub) are `Format`s of their own.

import io
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from sluice_inspect.archives.nested import examine_archive
from sluice_inspect.archives.safety import refuse_second_format
from sluice_inspect.archives.zip.archive import ZIP, read_archive, show_members
from sluice_inspect.archives.zip.records import CENTRAL, END, LOCAL, find_end, read_members
from sluice_inspect.budget import Budget
from sluice_inspect.facts.archives import measure_archive
from sluice_inspect.format import Family, Format, MatchOrder, SecondFormats, named
from sluice_inspect.report import Corrupt, Finding, InspectionError, Measure, Unsafe
from sluice_inspect.signatures import EXECUTABLES, has_binary_signature, is_web_page
from sluice_inspect.source import RandomAccess, Source
from sluice_inspect.subject import Subject
from sluice_inspect.unpacking import RandomAccessContainer, Visitor

# Marks of archives that were meant to be split into volumes: APPNOTE 8.5.4 and 8.5.5.
_SPANNING_MARKS: Final = (b"PK\x07\x08", b"PK00")
_SPANNING_BYTES: Final = 4
_AES: Final = 99
_MAX_PADDING_BYTES: Final = 512  # bytes behind an archive that is not at the start of its file
# Before and after an archive, this many bytes are searched for a second one.
_MAX_SEARCHED_BYTES: Final = 64 * 1024**2
# Names of formats that are always ZIP archives and have no `Format` of their own.
_EXTENSIONS: Final = frozenset({
    "zip", "zipx", "jar", "war", "ear", "aar", "apk", "aab", "ipa", "whl", "xpi", "cbz", "kmz", "nupkg", "snupkg",
    "vsix",
    "odg", "odf", "odb", "odc", "otg", "sxw", "sxc", "sxi", "vsdx", "vsdm", "vssx", "vstx",
    "xps", "oxps", "3mf", "appx", "msix", "appxbundle", "msixbundle", "idml", "twbx", "pbix", "ggb", "sb2", "sb3",
    "h5p", "imscc",
    "mscz", "usdz", "npz", "ora", "kra", "oxt", "dwfx",
})  # fmt: skip


def matches(source: Source) -> bool:
    """Whether an archive begins at the start, or ends the file behind something that is no HTML page and no program."""
    head = source.head
    if head.startswith((LOCAL, END)) or (head.startswith(_SPANNING_MARKS) and head[4:8] == LOCAL):
        return True
    if END not in source.tail or head.startswith(EXECUTABLES) or is_web_page(head):
        return False
    try:
        end = source.cached(find_end)
    except InspectionError:
        return False
    if end is None or source.read_at(end.directory, len(CENTRAL)) != CENTRAL:
        return False
    return end.end == source.size or (source.size - end.end <= _MAX_PADDING_BYTES and not has_binary_signature(head))


def _walk(source: RandomAccess, budget: Budget, visitor: Visitor) -> Mapping[str, Measure]:
    archive = source.cached(read_archive, budget.limits)
    for start, size in ((0, archive.prefix_bytes), (archive.end.end, archive.suffix_bytes)):
        surroundings = source.read_at(start, min(size, _MAX_SEARCHED_BYTES))
        if is_web_page(surroundings):
            raise Corrupt("an HTML page is saved around the archive: a web server's answer, not the file itself")
        if LOCAL in surroundings:
            raise Unsafe(
                Finding.ARCHIVE_UNSAFE, "the file holds a second archive beside the one that its directory lists"
            )
        if start:
            refuse_second_format(surroundings, "ZIP", start)
    if archive.prefix_bytes > _SPANNING_BYTES and has_binary_signature(source.read_at(0, _MAX_PADDING_BYTES)):
        raise Unsafe(Finding.POLYGLOT, "the file begins as another format and ends as an archive")
    return show_members(archive, budget, visitor)


def sample() -> bytes:
    """Return an archive of one packed and one stored member."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo("stored.txt"), "A sluice is a gate.\n")
        archive.writestr(zipfile.ZipInfo("packed.txt"), "A sluice is a gate.\n" * 8, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def _list_members(subject: Subject) -> Iterator[tuple[str, bool]]:
    end = subject.source.cached(find_end)
    for member in subject.source.cached(read_members, end, subject.limits) if end else ():
        yield member.shown_name, member.is_encrypted or member.method == _AES


FORMAT: Final = Format(
    name="zip",
    family=Family.ARCHIVE,
    content_type="application/zip",
    extensions=_EXTENSIONS,
    matches=matches,
    match_order=MatchOrder.CONTAINER,
    examine=partial(examine_archive, RandomAccessContainer("zip", ZIP.matches, _walk)),
    facts=partial(measure_archive, list_members=_list_members),
    own_facts=frozenset({"encrypted", "encrypted_members"}),
    sample=sample,
    container=ZIP,
    names=named("ZIP archive", "zip application/zip"),
    second_formats=SecondFormats.AROUND,
)
