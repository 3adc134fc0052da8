"""Documents that are ZIP archives with a member `mimetype`: OpenDocument and EPUB. Opens them, reads their parts; what parts mean is known elsewhere."""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from sluice.formats.archives.zip_records import LOCAL, find_end, read_members
from sluice.formats.archives.zipped import Archive, MemberStream, read_archive, refuse_unsafe_names
from sluice.formats.budget import Budget
from sluice.formats.images.embedded import embedded_is_blank
from sluice.formats.source import Source
from sluice.formats.text.xmlsafe import XmlTarget, parse_xml
from sluice.formats.verdict import Corrupt, Judgement, Limits

_MIMETYPE: Final = "mimetype"
MANIFEST: Final = "META-INF/manifest.xml"
_LISTED: Final = re.compile(rb"<[\w:]*file-entry\b[^>]*>")
_LIST_BYTES: Final = 64 * 1024
_MEDIA_TYPE: Final = re.compile(rb"\s*([a-z]+/[\w.+-]{1,120})")
_FIRST_HEADER: Final = struct.Struct("<4s4xH8xL4xHH")
_STORED: Final = 0
_SIZES_ELSEWHERE: Final = frozenset({0, 0xFFFFFFFF})
"""What a header says whose size stands behind the content, or in its zip64 field."""
_DRAINED: Final = 256 * 1024
_TYPE_BYTES: Final = 256


@dataclass(frozen=True)
class ZipDocument:
    """The parts of a document by name."""

    archive: Archive
    limits: Limits
    budget: Budget

    def has(self, part: str) -> bool:
        """Whether there is a part of that name."""
        return part in self.archive.by_name

    def open(self, part: str) -> MemberStream:
        """Answer a reader of a part; it raises as `Archive.chunks` does."""
        return self.archive.open(self.archive.by_name[part], self.budget)

    def read(self, part: str, target: XmlTarget) -> None:
        """Tell `target` what an XML part holds, or nothing when there is no such part. Raises as `parse_xml` does."""
        if self.has(part):
            parse_xml(self.open(part), self.limits, target=target, where=part)

    def shows_picture(self, part: str) -> bool:
        """Whether a picture leaves ink. What is missing is in doubt: it does."""
        return not self.has(part) or not embedded_is_blank(self.open(part), self.limits)


def open_document(source: Source, limits: Limits) -> ZipDocument:
    """Open a document. Raises as `read_archive` does, and `Corrupt` for bytes in front of it, `Unsafe` for names that leave its folder."""
    archive = read_archive(source, limits)
    refuse_unsafe_names(archive.members)
    if archive.prefix_bytes:
        raise Corrupt("there are foreign bytes in front of the document")
    document = ZipDocument(archive, limits, Budget(limits, packed_bytes=source.size))
    document.budget.count(len(archive.members))
    return document


def check_parts(document: ZipDocument, is_xml: Callable[[str], bool]) -> None:
    """Unpack every part to its checksum. Raises `Corrupt` for a damaged one, and for one that must be XML and is not well-formed."""
    for name in document.archive.by_name:
        stream = document.open(name)
        ill: Corrupt | None = None
        if is_xml(name):
            try:
                parse_xml(stream, document.limits, where=name)
            except Corrupt as reason:
                ill = reason
        while stream.read(_DRAINED):  # to the end, where the checksum is compared: a wrong one explains more
            pass
        if ill is not None:
            raise ill


def media_type_of(source: Source) -> str:
    """Answer the media type that the member `mimetype` states, also of a damaged archive that begins with it; empty where there is none."""
    if not source.head.startswith(LOCAL):
        return ""
    if source not in _TYPES:
        _TYPES[source] = _first_member(source.head) or _any_member(source)
    return _TYPES[source]


_TYPES: Final[WeakKeyDictionary[Source, str]] = WeakKeyDictionary()
"""Several kinds ask the same of one source."""


def _first_member(head: bytes) -> str:
    """Answer what the archive's first member says, if it is the one and stored as it is: so the formats ask for."""
    if len(head) < _FIRST_HEADER.size:
        return ""
    _, method, size, name_size, extra_size = _FIRST_HEADER.unpack_from(head)
    name = head[_FIRST_HEADER.size : _FIRST_HEADER.size + name_size]
    if name != _MIMETYPE.encode() or method != _STORED:
        return ""
    content = head[_FIRST_HEADER.size + name_size + extra_size :]
    return _media_type(content[:size] if size not in _SIZES_ELSEWHERE else content.partition(b"PK")[0])


def _any_member(source: Source) -> str:
    """Answer what the member says wherever it lies, or an OpenDocument's list of parts where there is no such member."""
    if not any(name.encode() in part for name in (_MIMETYPE, MANIFEST) for part in (source.tail, source.head)):
        return ""
    limits = Limits()
    try:
        end = find_end(source)
        names = {member.name for member in read_members(source, end, limits)} if end else set()
        if _MIMETYPE in names:
            return _media_type(open_document(source, limits).open(_MIMETYPE).read(_TYPE_BYTES))
        return _listed_type(open_document(source, limits).open(MANIFEST).read(_LIST_BYTES)) if MANIFEST in names else ""
    except (Judgement, KeyError):
        return ""


def _listed_type(manifest: bytes) -> str:
    """Answer the media type of the whole package; ODF 1.3 part 2, 3.4.3."""
    whole = next((entry for entry in _LISTED.findall(manifest) if re.search(rb"""full-path\s*=\s*["']/["']""", entry)), b"")
    said = re.search(rb"""media-type\s*=\s*["']([^"']*)""", whole)
    return _media_type(said[1]) if said else ""


def _media_type(said: bytes) -> str:
    found = _MEDIA_TYPE.match(said.removeprefix(b"\xef\xbb\xbf"))
    return found[1].decode("ascii") if found else ""
