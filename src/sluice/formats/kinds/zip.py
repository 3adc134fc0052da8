"""ZIP archives: layout, names, every member's content, archives within archives. Formats that are built on ZIP have kinds of their own.

Text in front of or behind an archive is allowed, as self-extracting scripts and mail gateways leave it, unless it is HTML: then a web
server's answer was saved as the file.
"""

import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sluice.formats.budget import Budget
from sluice.formats.kind import Kind
from sluice.formats.magics import PROGRAMS, begins_otherwise
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Encrypted, Finding, Judgement, Limits, Measure, Unsafe, Unsupported
from sluice.formats.webpage import is_web_page
from sluice.formats.zip_records import CENTRAL, END, LOCAL, Member, RandomAccess, find_end
from sluice.formats.zipped import Archive, read_archive, refuse_unsafe_names

_SPANNING_MARKS: Final = (b"PK\x07\x08", b"PK00")
_SPANNING_BYTES: Final = 4
_PADDING_MOST: Final = 512
"""Bytes behind an archive that is not at the start of its file."""
_EXTENSIONS: Final = frozenset({
    "zip", "zipx", "jar", "war", "ear", "aar", "apk", "aab", "ipa", "whl", "xpi", "cbz", "kmz", "nupkg", "snupkg", "vsix", "epub", "odt",
    "ods", "odp", "odg", "odf", "odb", "odc", "odm", "ott", "ots", "otp", "otg", "sxw", "sxc", "sxi", "vsdx", "vsdm", "vssx", "vstx",
    "xps", "oxps", "3mf", "appx", "msix", "appxbundle", "msixbundle", "idml", "twbx", "pbix", "ggb", "sb2", "sb3", "h5p", "imscc", "mscz", "usdz", "npz",
    "ora", "kra", "oxt", "dwfx",
})  # fmt: skip
"""Names of formats that are always ZIP archives and have no kind of their own, or not yet."""
_NESTED_MOST: Final = 64 * 1024**2
"""Bytes of an archive within an archive that are held to look into it; a larger one is only unpacked."""
_NOTHING: Final = b"\0 \t\n\r\f\v\xef\xbb\xbf"
_LITTER: Final = frozenset({".ds_store", "thumbs.db", "desktop.ini"})
"""What file managers leave in folders on their own."""


@dataclass(frozen=True, slots=True)
class Held:
    """An archive within an archive, unpacked into memory."""

    data: bytes

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self.data)

    def read_at(self, offset: int, length: int) -> bytes:
        """Answer up to `length` bytes from `offset`."""
        return self.data[offset : offset + length]


@dataclass(frozen=True, slots=True)
class Nested:
    """A kind of archive that is looked into where it is a member of another."""

    magic: bytes
    check: Callable[[Held, Budget, int], None]
    """Raises `Unsafe`; other judgements do not speak against the archive around it."""
    has_content: Callable[[Held, Budget, int], bool]


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


def check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Judge the archive whole; answer how many members it has and what they unpack to."""
    archive = read_archive(source, limits)
    _refuse_beside(archive)
    budget = Budget(limits, packed_bytes=source.size)
    unread = _check_archive(archive, budget, depth=1)
    if any(isinstance(reason, Encrypted) for reason in unread):
        raise Encrypted(f"{len(unread)} of {len(archive.members)} members are protected by a password")
    if unread:
        raise unread[0]
    return {
        "members": budget.members,
        "unpacked_bytes": budget.unpacked_bytes,
        "gap_bytes": archive.gap_bytes,
        "prefix_bytes": archive.prefix_bytes,
        "suffix_bytes": archive.suffix_bytes,
    }


def blank(source: Source, limits: Limits) -> str | None:
    """Answer that no member holds anything: folders, empty files, white space, zeros, litter of file managers, archives of those."""
    archive = read_archive(source, limits)
    if _has_content(archive, Budget(limits, packed_bytes=source.size), depth=1):
        return None
    return (
        "the archive is empty" if not archive.members else f"none of the archive's {len(archive.members)} members has any content"
    )


def _refuse_beside(archive: Archive) -> None:
    for start, size in ((0, archive.prefix_bytes), (archive.end.end, archive.suffix_bytes)):
        beside = archive.source.read_at(start, min(size, _NESTED_MOST))
        if is_web_page(beside):
            raise Corrupt("an HTML page is saved around the archive: a web server's answer, not the file itself")
        if LOCAL in beside:
            raise Unsafe(Finding.ARCHIVE_UNSAFE, "the file holds a second archive beside the one that its directory lists")
    if (
        archive.prefix_bytes
        and begins_otherwise(archive.source.read_at(0, _PADDING_MOST))
        and archive.prefix_bytes > _SPANNING_BYTES
    ):
        raise Unsafe(Finding.POLYGLOT, "the file begins as another format and ends as an archive")


def _check_archive(archive: Archive, budget: Budget, depth: int) -> list[Judgement]:
    """Unpack every member; answer why some could not be unpacked here, raise for the first that is damaged or unsafe."""
    budget.count(len(archive.members))
    refuse_unsafe_names(archive.members)
    unread: list[Judgement] = []
    for index in range(len(archive.members)):
        try:
            _check_member(archive, index, budget, depth)
        except (Encrypted, Unsupported) as reason:
            unread.append(reason)
    return unread


def _check_member(archive: Archive, index: int, budget: Budget, depth: int) -> None:
    chunks = archive.chunks(index, budget)
    first = next(chunks, b"")
    nested = _nested(first)
    if nested is None or archive.members[index].unpacked > _NESTED_MOST:
        for _ in chunks:
            pass
        return
    held = Held(first + b"".join(chunks))
    if depth >= budget.limits.max_depth:
        raise Unsafe(Finding.ARCHIVE_BOMB, f"archives are nested more than {budget.limits.max_depth} deep")
    try:
        nested.check(held, budget, depth + 1)
    except Unsafe as reason:
        raise Unsafe(reason.finding or Finding.ARCHIVE_UNSAFE, f"in {archive.members[index].name!r}: {reason}") from reason
    except Judgement:
        return


def _has_content(archive: Archive, budget: Budget, depth: int) -> bool:
    return any(
        _member_has_content(archive, index, budget, depth) for index, member in enumerate(archive.members) if not _is_litter(member)
    )


def _member_has_content(archive: Archive, index: int, budget: Budget, depth: int) -> bool:
    chunks = archive.chunks(index, budget)
    first = next(chunks, b"")
    nested = _nested(first)
    if nested is not None and depth < budget.limits.max_depth and archive.members[index].unpacked <= _NESTED_MOST:
        return nested.has_content(Held(first + b"".join(chunks)), budget, depth + 1)
    return bool(first.strip(_NOTHING)) or any(chunk.strip(_NOTHING) for chunk in chunks)


def _is_litter(member: Member) -> bool:
    parts = member.name.replace("\\", "/").rstrip("/").split("/")
    return member.is_directory or "__MACOSX" in parts or parts[-1].lower() in _LITTER


def _nested(head: bytes) -> Nested | None:
    return next((nested for nested in NESTED if head.startswith(nested.magic)), None)


def _check_nested_zip(held: RandomAccess, budget: Budget, depth: int) -> None:
    _check_archive(read_archive(held, budget.limits), budget, depth)


def _nested_zip_has_content(held: RandomAccess, budget: Budget, depth: int) -> bool:
    try:
        return _has_content(read_archive(held, budget.limits), budget, depth)
    except Judgement:
        return True


def sample() -> bytes:
    """Answer an archive of one packed and one stored member."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo("stored.txt"), "A sluice is a gate.\n")
        archive.writestr(zipfile.ZipInfo("packed.txt"), "A sluice is a gate.\n" * 8, zipfile.ZIP_DEFLATED)
    return file.getvalue()


NESTED: Final = (Nested(LOCAL, _check_nested_zip, _nested_zip_has_content), Nested(END, _check_nested_zip, _nested_zip_has_content))
"""To look into another kind of archive, add it here."""

KIND: Final = Kind(
    name="zip",
    content_type="application/zip",
    extensions=_EXTENSIONS,
    recognises=recognises,
    check=check,
    sample=sample,
    blank=blank,
)
