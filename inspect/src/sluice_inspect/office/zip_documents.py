"""Documents that are ZIP archives with a member `mimetype` (OpenDocument, EPUB): media type, parts, check of all."""

import io
import re
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from sluice_inspect.archives.zip.archive import MemberStream, ZipArchive, read_archive, refuse_unsafe_names
from sluice_inspect.archives.zip.records import LOCAL, find_end, read_members
from sluice_inspect.budget import Budget
from sluice_inspect.images.embedded import embedded_is_blank
from sluice_inspect.report import Corrupt, InspectionError, Limits
from sluice_inspect.source import Source
from sluice_inspect.text.xmlsafe import XmlTarget, parse_xml

MANIFEST: Final = "META-INF/manifest.xml"
_MIMETYPE: Final = "mimetype"
_FILE_ENTRY: Final = re.compile(rb"<[\w:]*file-entry\b[^>]*>")
_ROOT_PATH: Final = re.compile(rb"""full-path\s*=\s*["']/["']""")
_STATED_TYPE: Final = re.compile(rb"""media-type\s*=\s*["']([^"']*)""")
_MANIFEST_BYTES: Final = 64 * 1024
_MEDIA_TYPE: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*([a-z]+/[\w.+-]{1,120})")
_MEDIA_TYPE_BYTES: Final = 256
_LOCAL_HEADER: Final = struct.Struct("<4s4xH8xL4xHH")
_STORED: Final = 0
# Sizes that a local header states when they are in a descriptor behind the content, or in the zip64 field.
_SIZES_ELSEWHERE: Final = frozenset({0, 0xFFFFFFFF})
_CHUNK: Final = 256 * 1024


@dataclass(frozen=True)
class ZipDocument:
    """The parts of a document by name."""

    archive: ZipArchive
    limits: Limits
    budget: Budget

    def has(self, part: str) -> bool:
        """Whether there is a part of that name."""
        return part in self.archive.by_name

    def open(self, part: str) -> MemberStream:
        """Return a reader of a part. It raises as `Archive.chunks` does."""
        return self.archive.open(self.archive.by_name[part], self.budget)

    def read(self, part: str, target: XmlTarget) -> None:
        """Parse an XML part into `target`; a part that does not exist is skipped. Raises as `parse_xml` does."""
        if self.has(part):
            parse_xml(self.open(part), self.limits, target=target, where=part)

    def is_picture_visible(self, part: str) -> bool:
        """Whether a picture leaves ink. One that is missing may: True."""
        return not self.has(part) or not embedded_is_blank(self.open(part), self.limits)

    def with_new_budget(self) -> "ZipDocument":
        """Return the same document with nothing spent of its budget: each pass over the parts has the whole one."""
        budget = Budget(self.limits, self.budget.packed_bytes)
        budget.count(len(self.archive.members))
        return replace(self, budget=budget)


def open_document(source: Source, limits: Limits) -> ZipDocument:
    """Open a document. Raise `Corrupt` for bytes in front of it, `Unsafe` for names outside its folder."""
    archive = source.cached(read_archive, limits)
    refuse_unsafe_names(archive.members)
    if archive.prefix_bytes:
        raise Corrupt("there are foreign bytes in front of the document")
    return ZipDocument(archive, limits, Budget(limits, packed_bytes=source.size)).with_new_budget()


def check_parts(document: ZipDocument, is_xml: Callable[[str], bool]) -> None:
    """Unpack every part. Raises `Corrupt` for a wrong checksum, and where `is_xml` for what is not well-formed."""
    for name in document.archive.by_name:
        stream = document.open(name)
        error: Corrupt | None = None
        if is_xml(name):
            try:
                parse_xml(stream, document.limits, where=name)
            except Corrupt as reason:
                error = reason
        while stream.read(_CHUNK):  # to the end, where the checksum is compared: a wrong one explains more
            pass
        if error is not None:
            raise error


def media_type_of(source: Source) -> str:
    """Return what the member `mimetype` states, or "". A damaged archive must begin with that member."""
    return source.cached(_find_media_type) if source.head.startswith(LOCAL) else ""


def _find_media_type(source: Source) -> str:
    return _first_member_type(source.head) or _any_member_type(source)


def _first_member_type(head: bytes) -> str:
    # Both formats ask for `mimetype` as the first member, stored without compression (ODF 1.3 part 2, 3.3; OCF, 4.3).
    if len(head) < _LOCAL_HEADER.size:
        return ""
    _, method, size, name_size, extra_size = _LOCAL_HEADER.unpack_from(head)
    name = head[_LOCAL_HEADER.size : _LOCAL_HEADER.size + name_size]
    if name != _MIMETYPE.encode() or method != _STORED:
        return ""
    content = head[_LOCAL_HEADER.size + name_size + extra_size :]
    return _parse_media_type(content[:size] if size not in _SIZES_ELSEWHERE else content.partition(b"PK")[0])


def _any_member_type(source: Source) -> str:
    """Return what the member `mimetype` states wherever it is, or the OpenDocument manifest where there is none."""
    if not any(name.encode() in end for name in (_MIMETYPE, MANIFEST) for end in (source.tail, source.head)):
        return ""
    limits = Limits()
    try:
        end = source.cached(find_end)
        names = {member.name for member in source.cached(read_members, end, limits)} if end else set()
        if _MIMETYPE in names:
            return _parse_media_type(open_document(source, limits).open(_MIMETYPE).read(_MEDIA_TYPE_BYTES))
        if MANIFEST not in names:
            return ""
        manifest = open_document(source, limits).open(MANIFEST).read(_MANIFEST_BYTES)
    except (InspectionError, KeyError):
        return ""
    # The entry of the path "/" states the media type of the package (ODF 1.3 part 2, 3.4.3).
    root = next((entry for entry in _FILE_ENTRY.findall(manifest) if _ROOT_PATH.search(entry)), b"")
    stated = _STATED_TYPE.search(root)
    return _parse_media_type(stated[1]) if stated else ""


def _parse_media_type(stated: bytes) -> str:
    found = _MEDIA_TYPE.match(stated)
    return found[1].decode("ascii") if found else ""


def make_zip(parts: Mapping[str, str]) -> bytes:
    """Return an archive of these parts, for samples."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()
