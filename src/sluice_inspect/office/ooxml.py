"""Reads the packages of Office Open XML (ECMA-376 part 2): members, content types, relations, the main part. What documents show is known by kinds.

A package is sound when the archive is, every .xml and .rels in it is well-formed, and its root relation leads to a main part of a known family.
"""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from sluice.formats.archives.zip_records import LOCAL, find_end, read_members
from sluice.formats.archives.zipped import Archive, MemberStream, read_archive, refuse_unsafe_names
from sluice.formats.budget import Budget
from sluice.formats.images.embedded import embedded_is_blank
from sluice.formats.office.encrypted_package import check_encrypted_package, names_encrypted_package
from sluice.formats.source import Source
from sluice.formats.text.xmlsafe import Doctype, XmlTarget, parse_xml
from sluice.formats.verdict import Corrupt, Encrypted, Finding, Judgement, Limits, Measure, TooComplex, Unsafe

_TYPES_PART: Final = "[content_types].xml"
_RELATIONS_MOST: Final = 200_000
_FAMILIES: Final = {
    "docx": ("wordprocessingml", "ms-word"),
    "xlsx": ("spreadsheetml", "ms-excel"),
    "pptx": ("presentationml", "ms-powerpoint"),
}
"""What the content type of a main part contains, by family; templates and variants with macros included."""
_FOLDERS: Final = {"docx": b"word/", "xlsx": b"xl/", "pptx": b"ppt/"}
_LIST_BYTES: Final = 1024 * 1024
"""Of a list of parts: documents of thousands of parts have less."""
_DRAINED: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Relation:
    """One arrow from a part to another, or out of the package."""

    kind: str
    """Last segment of the relation's type, as in `image`."""
    target: str
    """Name of the part, lower case, or an address outside."""
    is_external: bool


@dataclass(frozen=True)
class Package:
    """The parts of a document by name. Part names are compared without case, as the standard says."""

    archive: Archive
    limits: Limits
    budget: Budget
    _relations: dict[str, dict[str, Relation]] = field(default_factory=dict, repr=False)

    @cached_property
    def parts(self) -> Mapping[str, int]:
        """Index of each member by its lower-case name."""
        return {name.lower().lstrip("/"): index for name, index in self.archive.by_name.items()}

    @cached_property
    def types(self) -> "_Types":
        """The content types that the package declares."""
        types = _Types()
        self.read(_TYPES_PART, types)
        return types

    @cached_property
    def main(self) -> str | None:
        """Name of the main part, where the root relations lead to one that exists."""
        return next(
            (each.target for each in self.relations("").values() if each.kind == "officedocument" and each.target in self.parts),
            None,
        )

    @cached_property
    def family(self) -> str | None:
        """`docx`, `xlsx` or `pptx` by the content type of the main part."""
        declared = self.types.of(self.main).lower() if self.main else ""
        return next((family for family, words in _FAMILIES.items() if any(word in declared for word in words)), None)

    def open(self, part: str) -> MemberStream:
        """Answer a reader of a part; it raises as `Archive.chunks` does."""
        return self.archive.open(self.parts[part], self.budget)

    def read(self, part: str, target: XmlTarget) -> None:
        """Tell `target` what an XML part holds, or nothing when there is no such part."""
        if part in self.parts:
            parse_xml(self.open(part), self.limits, target=target, doctype=Doctype.FORBIDDEN, where=part)

    def relations(self, part: str) -> Mapping[str, Relation]:
        """Answer the relations of a part by their id; those of the package for an empty name."""
        if part not in self._relations:
            folder, name = posixpath.split(part)
            found = _Relations(folder)
            self.read(posixpath.join(folder, "_rels", f"{name}.rels").lower(), found)
            self._relations[part] = found.by_id
        return self._relations[part]

    def shows_picture(self, part: str, relation: str) -> bool:
        """Whether a picture that `part` places leaves ink. What is missing or outside of the package is in doubt: it does."""
        found = self.relations(part).get(relation)
        if found is None or found.is_external or found.target not in self.parts:
            return True
        return not embedded_is_blank(self.open(found.target), self.limits)

    def related(self, part: str, kind: str) -> Iterator[str]:
        """Answer the existing parts that `part` points to by relations of a kind."""
        for relation in self.relations(part).values():
            if relation.kind == kind and relation.target in self.parts:
                yield relation.target


def open_package(source: Source, limits: Limits) -> Package:
    """Open a document for its blank rule. Raises as `read_archive` does."""
    return Package(read_archive(source, limits), limits, Budget(limits, packed_bytes=source.size))


def check_package(source: Source, limits: Limits, family: str) -> Mapping[str, Measure]:
    """Judge a document of a family whole; answer how many parts it has and what they unpack to."""
    if names_encrypted_package(source):
        check_encrypted_package(source)
        raise Encrypted("the document is protected by a password")
    archive = read_archive(source, limits)
    refuse_unsafe_names(archive.members)
    if archive.prefix_bytes:
        raise Corrupt("there are foreign bytes in front of the document: Office refuses to open it")
    package = Package(archive, limits, Budget(limits, packed_bytes=source.size))
    package.budget.count(len(archive.members))
    _refuse_hollow_lists(package)
    for name, index in package.parts.items():
        _check_part(package, name, index)
    unpacked = package.budget.unpacked_bytes
    if _TYPES_PART not in package.parts:
        raise Corrupt("the document lacks [Content_Types].xml, by which readers find its parts")
    if package.main is None or not archive.members[package.parts[package.main]].unpacked:
        raise Corrupt("the document's root relations lead to no main part with content: it is incomplete")
    if package.family != family:
        raise Corrupt(f"the document's main part {package.main} is declared as {package.types.of(package.main) or 'nothing'}")
    return {
        "parts": len(package.parts),
        "unpacked_bytes": unpacked,
        "macros": any(name.endswith("vbaproject.bin") for name in package.parts),
    }


def recognises(source: Source, family: str) -> bool:
    """Whether the content is a document of a family, or an encrypted one, which may be of any: its name is then believed."""
    return family_of(source) == family or names_encrypted_package(source)


def family_of(source: Source) -> str | None:
    """Answer `docx`, `xlsx` or `pptx`, also for a damaged document as far as its names still show; None for anything else."""
    if not source.head.startswith(LOCAL):
        return None
    if source not in _FAMILY_OF:
        _FAMILY_OF[source] = _look_up_family(source)
    return _FAMILY_OF[source]


_FAMILY_OF: Final[WeakKeyDictionary[Source, str | None]] = WeakKeyDictionary()
"""Three kinds ask the same of one source."""


def _look_up_family(source: Source) -> str | None:
    limits = Limits()
    try:
        end = find_end(source)
        if end is not None:
            names = [member.name.replace("\\", "/").lower() for member in read_members(source, end, limits)]
            if _TYPES_PART not in names:
                return None
        family = open_package(source, limits).family
    except Judgement:
        family = None
    return family or _family_by_names(source)


def _family_by_names(source: Source) -> str | None:
    """Guess the family of a damaged package: content types and a family's folder are named among the headers that are left."""
    seen = source.head + source.tail
    if b"[Content_Types].xml" not in seen:
        return None
    return next(
        (
            family
            for family, folder in _FOLDERS.items()
            if b"\0" + folder in seen or folder + b"_rels" in seen or _begins_name(seen, folder)
        ),
        None,
    )


def _begins_name(seen: bytes, folder: bytes) -> bool:
    at = -1
    while (at := seen.find(LOCAL, at + 1)) >= 0:
        if seen[at + 30 : at + 30 + len(folder)] == folder:
            return True
    return False


def _refuse_hollow_lists(package: Package) -> None:
    """Raise `Unsafe` for a list of parts or relations that packs too well to list anything: each of its entries names another part."""
    for name, index in package.parts.items():
        member = package.archive.members[index]
        is_list = name == _TYPES_PART or name.endswith(".rels")
        if is_list and member.unpacked > max(_LIST_BYTES, package.limits.max_ratio * member.packed):
            raise Unsafe(Finding.ARCHIVE_BOMB, f"{name} unpacks to more than {package.limits.max_ratio} times its size")


def _check_part(package: Package, name: str, index: int) -> None:
    stream = package.archive.open(index, package.budget)
    ill: Corrupt | None = None
    if name.endswith((".xml", ".rels")) and package.archive.members[index].unpacked:  # readers pass over empty parts
        try:
            parse_xml(stream, package.limits, doctype=Doctype.FORBIDDEN, where=name)
        except Corrupt as reason:
            ill = _explained(package, name, index, reason)
    while stream.read(_DRAINED):  # to the end, where the checksum is compared: a wrong one explains more
        pass
    if ill is not None:
        raise ill


def _explained(package: Package, name: str, index: int, reason: Corrupt) -> Corrupt:
    """Answer the reason, after another look for entities that multiply: their DOCTYPE alone would hide what the document is after."""
    if "DOCTYPE" in str(reason):
        parse_xml(package.archive.open(index, package.budget), package.limits, where=name)
    return reason


class _Types(XmlTarget):
    """Reads [Content_Types].xml."""

    def __init__(self) -> None:
        self._by_part: dict[str, str] = {}
        self._by_extension: dict[str, str] = {}

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(self._by_part) > _RELATIONS_MOST:
            raise TooComplex("the document declares too many content types")
        declared = attributes.get("ContentType", "")
        if tag.endswith("}Override"):
            self._by_part[attributes.get("PartName", "").lower().lstrip("/")] = declared
        elif tag.endswith("}Default"):
            self._by_extension[attributes.get("Extension", "").lower()] = declared

    def of(self, part: str) -> str:
        """Answer the content type of a part, empty when none is declared."""
        return self._by_part.get(part) or self._by_extension.get(part.rpartition(".")[2], "")


class _Relations(XmlTarget):
    """Reads a .rels part; targets are resolved against the folder of the part that they start from."""

    def __init__(self, folder: str) -> None:
        self.by_id: dict[str, Relation] = {}
        self._folder = folder

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if not tag.endswith("}Relationship"):
            return
        if len(self.by_id) > _RELATIONS_MOST:
            raise TooComplex("the document declares too many relations")
        target, is_external = attributes.get("Target", ""), attributes.get("TargetMode") == "External"
        if not is_external:
            target = posixpath.normpath(posixpath.join("/", self._folder, unquote(target.replace("\\", "/")))).lower().lstrip("/")
        kind = attributes.get("Type", "").rstrip("/").rpartition("/")[2].lower()
        self.by_id[attributes.get("Id", "")] = Relation(kind, target, is_external)
