"""Packages of Office Open XML (ECMA-376 part 2): members, content types, relations, main part, samples."""
# A package is sound when the archive is, every .xml and .rels in it is well-formed, and its root relation leads to a
# main part of a known family.

import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from sluice_inspect.archives.zip.archive import MemberStream, ZipArchive, read_archive, refuse_unsafe_names
from sluice_inspect.archives.zip.records import LOCAL, find_end, read_members
from sluice_inspect.budget import CHUNK_BYTES, Budget
from sluice_inspect.format import Examination
from sluice_inspect.images.embedded import embedded_is_blank
from sluice_inspect.office.compound import ENCRYPTED, MAGIC, CompoundFile, is_compound_document
from sluice_inspect.office.zip_documents import make_zip
from sluice_inspect.report import Corrupt, Encrypted, Finding, InspectionError, Limits, Measure, TooComplex, Unsafe
from sluice_inspect.source import Source
from sluice_inspect.text.xml_runs import WithoutRuns
from sluice_inspect.text.xmlsafe import Doctype, XmlTarget, parse_xml

_TYPES_PART: Final = "[content_types].xml"
_MAX_RELATIONS: Final = 200_000
# What the content type of a main part contains, templates and variants with macros included.
_FAMILIES: Final = {
    "docx": ("wordprocessingml", "ms-word"),
    "xlsx": ("spreadsheetml", "ms-excel"),
    "pptx": ("presentationml", "ms-powerpoint"),
}
_FOLDERS: Final = {"docx": b"word/", "xlsx": b"xl/", "pptx": b"ppt/"}
_LOCAL_HEADER_BYTES: Final = 30
_LIST_BYTES: Final = 1024 * 1024  # documents of thousands of parts have shorter lists of them
_CHUNK: Final = 256 * 1024
_REPETITIVE_BYTES: Final = 1024 * 1024  # a larger part that packs better than this has runs of the same element
_REPETITIVE_RATIO: Final = 100
_LENGTH_BYTES: Final = 8
_FILL_BYTES: Final = 64  # a run of one byte that no cipher writes
_FILLS: Final = (bytes(_FILL_BYTES), b"\xff" * _FILL_BYTES)

_RELATION_TYPE: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006"


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation from a part to another one, or to an address outside the package."""

    type: str  # the last segment of the relation's type, lower case, as in `image`
    target: str  # the name of a part, lower case, or an address outside
    is_external: bool


@dataclass(frozen=True)
class Package:
    """The parts of a document by lower-case name: part names are compared without case (ECMA-376 part 2, 6.2.2)."""

    archive: ZipArchive
    limits: Limits
    budget: Budget
    _relations: dict[str, dict[str, Relation]] = field(default_factory=dict, repr=False)

    @cached_property
    def parts(self) -> Mapping[str, int]:
        """Index in the archive of each part by its lower-case name."""
        return {name.lower().lstrip("/"): index for name, index in self.archive.by_name.items()}

    @cached_property
    def types(self) -> "_ContentTypes":
        """The content types that the package declares."""
        types = _ContentTypes()
        self.read(_TYPES_PART, types)
        return types

    @cached_property
    def main(self) -> str | None:
        """Name of the main part, None when no root relation leads to an existing one."""
        return next(self.related("", "officedocument"), None)

    @cached_property
    def family(self) -> str | None:
        """`docx`, `xlsx` or `pptx` by the content type of the main part."""
        declared = self.types.of(self.main).lower() if self.main else ""
        return next((family for family, words in _FAMILIES.items() if any(word in declared for word in words)), None)

    def declared(self, part: str) -> str:
        """Return the content type that the package declares for a part, lower case and without parameters."""
        return self.types.of(part).partition(";")[0].strip().lower()

    def is_xml(self, part: str) -> bool:
        """Whether a part is XML: by its name, which readers ignore, or by its content type, which they go by."""
        return part.endswith((".xml", ".rels")) or self.declared(part).endswith(("+xml", "/xml"))

    def open(self, part: str) -> MemberStream:
        """Return a reader of a part. It raises as `Archive.chunks` does."""
        return self.archive.open(self.parts[part], self.budget)

    def read(self, part: str, target: XmlTarget) -> None:
        """Parse an XML part into `target`. A part that does not exist is skipped."""
        if part in self.parts:
            parse_xml(self.open(part), self.limits, target=target, doctype=Doctype.FORBIDDEN, where=part)

    def relations(self, part: str) -> Mapping[str, Relation]:
        """Return the relations of a part by id; those of the package for an empty name."""
        if part not in self._relations:
            folder, name = posixpath.split(part)
            found = _Relations(folder)
            self.read(posixpath.join(folder, "_rels", f"{name}.rels").lower(), found)
            self._relations[part] = found.by_id
        return self._relations[part]

    def related(self, part: str, relation_type: str) -> Iterator[str]:
        """Yield the existing parts that `part` points to by relations of a type."""
        for relation in self.relations(part).values():
            if relation.type == relation_type and relation.target in self.parts:
                yield relation.target

    def is_picture_visible(self, part: str, relation_id: str) -> bool:
        """Whether a picture that `part` places leaves ink. One that is missing or outside the package may: True."""
        found = self.relations(part).get(relation_id)
        if found is None or found.is_external or found.target not in self.parts:
            return True
        return not embedded_is_blank(self.open(found.target), self.limits)


def examine_package(
    source: Source, limits: Limits, *, family: str, blank: Callable[[Package], str | None]
) -> Examination:
    """Check a document of a family. The blank rule gets the package with a new budget.

    Raise `Encrypted` if it is protected by a password, and `Corrupt` if it is incomplete, damaged or of another family.
    """
    if is_compound_document(source, ENCRYPTED):
        _check_encrypted(source)
        raise Encrypted("the document is protected by a password")
    archive = source.cached(read_archive, limits)
    refuse_unsafe_names(archive.members)
    if archive.prefix_bytes:
        raise Corrupt("there are foreign bytes in front of the document: Office refuses to open it")
    package = Package(archive, limits, Budget(limits, packed_bytes=source.size))
    package.budget.count(len(archive.members))
    _refuse_padded_lists(package)
    for name, index in package.parts.items():
        _check_part(package, name, index)
    unpacked = package.budget.unpacked_bytes
    if _TYPES_PART not in package.parts:
        raise Corrupt("the document lacks [Content_Types].xml, by which readers find its parts")
    if package.main is None or not archive.members[package.parts[package.main]].unpacked:
        raise Corrupt("the document's root relations lead to no main part with content: it is incomplete")
    if package.family != family:
        declared = package.types.of(package.main) or "nothing"
        raise Corrupt(f"the document's main part {package.main} is declared as {declared}")
    measures: dict[str, Measure] = {
        "parts": len(package.parts),
        "unpacked_bytes": unpacked,
        "macros": any(name.endswith("vbaproject.bin") for name in package.parts),
    }
    return Examination(measures, lambda: blank(replace(package, budget=Budget(limits, packed_bytes=source.size))))


# How a document begins, the second if it is encrypted.
BEGINNINGS: Final = (LOCAL, MAGIC)


def is_ooxml(source: Source, family: str) -> bool:
    """Whether the content is a document of a family. An encrypted one may be of any, so it matches each of them."""
    is_readable = source.head.startswith(LOCAL) and source.cached(_find_family) == family
    return is_readable or is_compound_document(source, ENCRYPTED)


def _check_encrypted(source: Source) -> None:
    """Raise `Corrupt` when an encrypted document ([MS-OFFCRYPTO] 2.3.4) is incomplete. Nothing is decrypted."""
    container = source.cached(CompoundFile)
    package, info = container.root.stream("encryptedpackage"), container.root.stream("encryptioninfo")
    if package is None or info is None:
        raise Corrupt("the encrypted document lacks its content or the description of its encryption")
    container.check_streams()
    stated = int.from_bytes(container.read(package, _LENGTH_BYTES), "little")
    if stated > package.size - _LENGTH_BYTES:
        raise Corrupt("the encrypted document is shorter than it states")
    file, last = container.open(package), b""
    for at in range(0, _LENGTH_BYTES + stated, CHUNK_BYTES):
        piece = last + file.read(min(CHUNK_BYTES, _LENGTH_BYTES + stated - at))
        if any(run in piece for run in _FILLS):
            raise Corrupt("a part of the encrypted document is missing: one byte fills its place")
        last = piece[-_FILL_BYTES:]


def _find_family(source: Source) -> str | None:
    limits = Limits()
    try:
        end = source.cached(find_end)
        if end is not None:
            names = [member.name.replace("\\", "/").lower() for member in source.cached(read_members, end, limits)]
            if _TYPES_PART not in names:
                return None
        package = Package(source.cached(read_archive, limits), limits, Budget(limits, packed_bytes=source.size))
        family = package.family
    except InspectionError:
        family = None
    return family or _guess_family(source.head + source.tail)


def _guess_family(ends: bytes) -> str | None:
    """Return the family of a damaged package, whose remaining headers name the content types and a family's folder."""
    if b"[Content_Types].xml" not in ends:
        return None
    for family, folder in _FOLDERS.items():
        if b"\0" + folder in ends or folder + b"_rels" in ends or _has_member_in(ends, folder):
            return family
    return None


def _has_member_in(ends: bytes, folder: bytes) -> bool:
    at = -1
    while (at := ends.find(LOCAL, at + 1)) >= 0:
        if ends.startswith(folder, at + _LOCAL_HEADER_BYTES):
            return True
    return False


def _refuse_padded_lists(package: Package) -> None:
    # Each entry of a list of parts or relations names another part, so a list that packs too well is not one.
    ratio = package.limits.max_ratio
    for name, index in package.parts.items():
        member = package.archive.members[index]
        is_list = name == _TYPES_PART or name.endswith(".rels")
        if is_list and member.unpacked > max(_LIST_BYTES, ratio * member.packed):
            raise Unsafe(Finding.ARCHIVE_BOMB, f"{name} unpacks to more than {ratio} times its size")


def _check_part(package: Package, name: str, index: int) -> None:
    stream = package.archive.open(index, package.budget)
    error: Corrupt | None = None
    member = package.archive.members[index]
    if package.is_xml(name) and member.unpacked:  # readers skip empty parts
        is_repetitive = member.unpacked > max(_REPETITIVE_BYTES, _REPETITIVE_RATIO * member.packed)
        try:
            content = WithoutRuns(stream.read) if is_repetitive else stream
            parse_xml(content, package.limits, doctype=Doctype.FORBIDDEN, where=name)
        except Corrupt as reason:
            error = reason
            if "DOCTYPE" in str(reason):
                # Entities that multiply are a bomb, which is worse than the DOCTYPE that declares them: read again.
                parse_xml(package.archive.open(index, package.budget), package.limits, where=name)
    while stream.read(_CHUNK):  # to the end, where the checksum is compared: a wrong one explains more
        pass
    if error is not None:
        raise error


class _ContentTypes(XmlTarget):
    def __init__(self) -> None:
        self._by_part: dict[str, str] = {}
        self._by_extension: dict[str, str] = {}

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(self._by_part) > _MAX_RELATIONS:
            raise TooComplex("the document declares too many content types")
        declared = attributes.get("ContentType", "")
        if tag.endswith("}Override"):
            self._by_part[attributes.get("PartName", "").lower().lstrip("/")] = declared
        elif tag.endswith("}Default"):
            self._by_extension[attributes.get("Extension", "").lower()] = declared

    def of(self, part: str) -> str:
        return self._by_part.get(part) or self._by_extension.get(part.rpartition(".")[2], "")


class _Relations(XmlTarget):
    """Reads a .rels part. Targets are resolved against the folder of the part that they start from."""

    def __init__(self, folder: str) -> None:
        self.by_id: dict[str, Relation] = {}
        self._folder = folder

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if not tag.endswith("}Relationship"):
            return
        if len(self.by_id) > _MAX_RELATIONS:
            raise TooComplex("the document declares too many relations")
        target = attributes.get("Target", "")
        is_external = attributes.get("TargetMode", "").strip().lower() == "external"
        if not is_external:
            path = posixpath.join("/", self._folder, unquote(target.replace("\\", "/")))
            target = posixpath.normpath(path).lower().lstrip("/")
        relation_type = attributes.get("Type", "").rstrip("/").rpartition("/")[2].lower()
        self.by_id[attributes.get("Id", "")] = Relation(relation_type, target, is_external)


def make_package(
    main: str, content_type: str, xml: str, others: Mapping[str, tuple[str, str]] = MappingProxyType({})
) -> bytes:
    """Return the smallest package around a main part. `others` are (relation type, XML) by name, for samples."""
    folder, name = posixpath.split(main)
    types = (
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/{main}" ContentType="{content_type}"/>'
    )
    root = f'<Relationship Id="rId1" Type="{_RELATION_TYPE}/officeDocument" Target="{main}"/>'
    relations = "".join(
        f'<Relationship Id="rId{number}" Type="{_RELATION_TYPE}/{relation_type}" '
        f'Target="{posixpath.relpath(part, folder)}"/>'
        for number, (part, (relation_type, _)) in enumerate(others.items(), start=1)
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">{types}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{root}</Relationships>',
        f"{folder}/_rels/{name}.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{relations}</Relationships>',
        main: xml,
        **{part: content for part, (_, content) in others.items()},
    }
    return make_zip(parts)
