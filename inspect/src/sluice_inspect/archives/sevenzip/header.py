"""The headers of 7z archives (7zFormat.txt of the LZMA SDK): tables of packed streams, folders and files."""
# A "folder" is a chain of coders whose one output holds the content of several files.

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate
from typing import Final

from sluice_inspect.report import Corrupt, Finding, Limits, Unsafe


class Property(IntEnum):
    """Ids of header fields."""

    END = 0x00
    HEADER = 0x01
    ARCHIVE_PROPERTIES = 0x02
    ADDITIONAL_STREAMS = 0x03
    MAIN_STREAMS = 0x04
    FILES = 0x05
    PACK_INFO = 0x06
    UNPACK_INFO = 0x07
    SUBSTREAMS = 0x08
    SIZE = 0x09
    CRC = 0x0A
    FOLDER = 0x0B
    UNPACK_SIZE = 0x0C
    UNPACK_STREAMS = 0x0D
    EMPTY_STREAM = 0x0E
    NAMES = 0x11
    ATTRIBUTES = 0x15
    ENCODED_HEADER = 0x17


_PADDING: Final = 0x19
_MAX_CODERS: Final = 32
_MAX_STREAMS: Final = 64
_ID_SIZE, _IS_COMPLEX, _HAS_PROPERTIES, _RESERVED = 0x0F, 0x10, 0x20, 0x80


def _damaged(detail: str) -> Corrupt:
    return Corrupt(f"the archive's header is damaged: {detail}")


@dataclass(frozen=True, slots=True)
class Coder:
    """One step of unpacking."""

    method: bytes
    properties: bytes
    inputs: int
    outputs: int


@dataclass(slots=True)
class Folder:
    """A chain of coders; inputs and outputs are numbered over all of its coders."""

    coders: list[Coder]
    bonds: dict[int, int]  # output that feeds an input, by input
    packed_inputs: list[int]
    unpacked_sizes: list[int] = field(default_factory=list)  # by output
    crc: int | None = None

    @property
    def size(self) -> int:
        """Bytes of content: of the output that feeds no other coder."""
        outputs = range(sum(coder.outputs for coder in self.coders))
        return self.unpacked_sizes[next(output for output in outputs if output not in self.bonds.values())]


@dataclass(frozen=True, slots=True)
class Substream:
    """The content of one file within that of its folder."""

    size: int
    crc: int | None


@dataclass(slots=True)
class StreamTable:
    """Where packed bytes are and what they unpack to."""

    pack_offset: int = 0  # of the first packed stream, behind the signature header
    pack_sizes: list[int] = field(default_factory=list)
    folders: list[Folder] = field(default_factory=list)
    substreams: list[list[Substream]] = field(default_factory=list)  # by folder


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One entry of the table of files."""

    name: str
    has_stream: bool
    attributes: int


class HeaderFields:
    """Reads a header field by field. Raises `Corrupt` past its end."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self._data = data
        self._at = 0
        self.limits = limits

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return len(self._data) - self._at

    def raw(self, size: int) -> bytes:
        """Return the next bytes."""
        if size > self.left:
            raise _damaged("a field in it runs past its end")
        self._at += size
        return self._data[self._at - size : self._at]

    def byte(self) -> int:
        """Return the next byte."""
        return self.raw(1)[0]

    def number(self) -> int:
        """Return a number of variable length: the leading one-bits of the first byte count the bytes that follow."""
        first = self.byte()
        extra = 0
        while extra < 8 and first & (0x80 >> extra):
            extra += 1
        low = int.from_bytes(self.raw(extra), "little")
        return low | (first & ((1 << max(0, 7 - extra)) - 1)) << (8 * extra)

    def count(self, subject: str) -> int:
        """Return how many there are of something. Raise `Unsafe` if they are more than the limit of members."""
        number = self.number()
        if number > self.left * 8:
            raise _damaged(f"it counts {number} {subject}, for which it has no room")
        if number > self.limits.max_members:
            raise Unsafe(
                Finding.ARCHIVE_BOMB,
                f"the archive counts {number} {subject}, more than the {self.limits.max_members} allowed",
            )
        return number

    def bits(self, count: int) -> list[bool]:
        """Return a vector of flags, the highest bit of a byte first."""
        data = self.raw((count + 7) // 8)
        return [bool(data[index // 8] & (0x80 >> index % 8)) for index in range(count)]

    def flags(self, count: int) -> list[bool]:
        """Return a vector of flags behind a byte that states whether all of them are set."""
        return [True] * count if self.byte() else self.bits(count)

    def checksums(self, count: int) -> list[int | None]:
        """Return checksums, None where one is not given."""
        return [struct.unpack("<L", self.raw(4))[0] if given else None for given in self.flags(count)]

    def expect(self, property_id: Property) -> None:
        """Read the id of a field. Raise `Corrupt` if it is another one."""
        found = self.number()
        if found != property_id:
            raise _damaged(f"it has field {found} where field {property_id:d} must be")


def read_streams(fields: HeaderFields) -> StreamTable:
    """Return a table of streams."""
    table = StreamTable()
    property_id = fields.number()
    if property_id == Property.PACK_INFO:
        _read_pack_info(fields, table)
        property_id = fields.number()
    if property_id == Property.UNPACK_INFO:
        _read_folders(fields, table)
        property_id = fields.number()
    table.substreams = [[Substream(folder.size, folder.crc)] for folder in table.folders]
    if property_id == Property.SUBSTREAMS:
        _read_substreams(fields, table)
        property_id = fields.number()
    if property_id != Property.END:
        raise _damaged(f"it has field {property_id} where its table of streams must end")
    if sum(len(folder.packed_inputs) for folder in table.folders) != len(table.pack_sizes):
        raise _damaged("its folders ask for another number of packed streams than there are")
    return table


def _read_pack_info(fields: HeaderFields, table: StreamTable) -> None:
    table.pack_offset = fields.number()
    count = fields.count("packed streams")
    while (property_id := fields.number()) != Property.END:
        if property_id == Property.SIZE:
            table.pack_sizes = [fields.number() for _ in range(count)]
        elif property_id == Property.CRC:
            fields.checksums(count)
        else:
            raise _damaged(f"it has field {property_id} in the table of packed streams")
    if len(table.pack_sizes) != count:
        raise _damaged("the sizes of its packed streams are missing")


def _read_folders(fields: HeaderFields, table: StreamTable) -> None:
    fields.expect(Property.FOLDER)
    count = fields.count("folders")
    if fields.byte():
        raise _damaged("its folders are said to lie outside of it")
    table.folders = [_read_folder(fields) for _ in range(count)]
    fields.expect(Property.UNPACK_SIZE)
    for folder in table.folders:
        folder.unpacked_sizes = [fields.number() for coder in folder.coders for _ in range(coder.outputs)]
    while (property_id := fields.number()) != Property.END:
        if property_id != Property.CRC:
            raise _damaged(f"it has field {property_id} in the table of folders")
        for folder, crc in zip(table.folders, fields.checksums(count), strict=True):
            folder.crc = crc


def _read_folder(fields: HeaderFields) -> Folder:
    coders = [_read_coder(fields) for _ in range(_bounded(fields.number(), _MAX_CODERS, "coders"))]
    inputs, outputs = sum(coder.inputs for coder in coders), sum(coder.outputs for coder in coders)
    bonds = {fields.number(): fields.number() for _ in range(outputs - 1)}
    free = [number for number in range(inputs) if number not in bonds]
    packed = _bounded(inputs - len(bonds), _MAX_STREAMS, "packed streams")
    packed_inputs = free if packed == 1 else [fields.number() for _ in range(packed)]
    if (
        len(bonds) != outputs - 1
        or len(set(bonds.values())) != len(bonds)
        or sorted(packed_inputs) != free
        or any(number >= inputs for number in bonds)
        or any(number >= outputs for number in bonds.values())
    ):
        raise _damaged("the coders of a folder are not connected")
    return Folder(coders, bonds, packed_inputs)


def _read_coder(fields: HeaderFields) -> Coder:
    flags = fields.byte()
    if flags & _RESERVED:
        raise _damaged("a coder has a flag that no version defines")
    method = fields.raw(flags & _ID_SIZE)
    inputs = _bounded(fields.number(), _MAX_STREAMS, "inputs") if flags & _IS_COMPLEX else 1
    outputs = _bounded(fields.number(), _MAX_STREAMS, "outputs") if flags & _IS_COMPLEX else 1
    properties = fields.raw(fields.number()) if flags & _HAS_PROPERTIES else b""
    return Coder(method, properties, inputs, outputs)


def _bounded(number: int, most: int, subject: str) -> int:
    if not 1 <= number <= most:
        raise _damaged(f"a folder has {number} {subject}")
    return number


def _read_substreams(fields: HeaderFields, table: StreamTable) -> None:
    counts = [1] * len(table.folders)
    property_id = fields.number()
    if property_id == Property.UNPACK_STREAMS:
        counts = [fields.number() for _ in table.folders]
        property_id = fields.number()
    if sum(counts) > fields.limits.max_members:
        raise Unsafe(
            Finding.ARCHIVE_BOMB,
            f"the archive counts {sum(counts)} files, more than the {fields.limits.max_members} allowed",
        )
    has_sizes = property_id == Property.SIZE
    sizes = [
        _substream_sizes(fields, folder, count, has_sizes=has_sizes)
        for folder, count in zip(table.folders, counts, strict=True)
    ]
    if has_sizes:
        property_id = fields.number()
    # Checksums follow for all files but the one of a folder that has a checksum and no other file.
    asked = [
        0 if count == 1 and folder.crc is not None else count
        for folder, count in zip(table.folders, counts, strict=True)
    ]
    given: list[int | None] = []
    while property_id != Property.END:
        if property_id != Property.CRC:
            raise _damaged(f"it has field {property_id} in the table of files within folders")
        given = fields.checksums(sum(asked))
        property_id = fields.number()
    for index, (folder, end) in enumerate(zip(table.folders, accumulate(asked), strict=True)):
        if counts[index] == 1 and not asked[index]:
            crcs = [folder.crc]
        else:
            crcs = given[end - counts[index] : end] or [None] * counts[index]
        table.substreams[index] = [Substream(size, crc) for size, crc in zip(sizes[index], crcs, strict=True)]


def _substream_sizes(fields: HeaderFields, folder: Folder, count: int, *, has_sizes: bool) -> list[int]:
    """Return the sizes of the files in a folder; the last one is what the others leave."""
    if not count:
        return []
    sizes = [fields.number() for _ in range(count - 1)] if has_sizes else []
    rest = folder.size - sum(sizes)
    if rest < 0 or len(sizes) != count - 1:
        raise _damaged("the files of a folder are larger than the folder")
    return [*sizes, rest]


def read_files(fields: HeaderFields) -> list[FileEntry]:
    """Return the table of files."""
    count = fields.count("files")
    names, attributes = [""] * count, [0] * count
    empty = [False] * count
    read = set[int]()
    while (property_id := fields.number()) != Property.END:
        if property_id in read and property_id != _PADDING:
            raise _damaged(f"it has field {property_id} of its files twice")
        read.add(property_id)
        data = HeaderFields(fields.raw(fields.number()), fields.limits)
        if property_id == Property.EMPTY_STREAM:
            empty = data.bits(count)
        elif property_id == Property.NAMES:
            names = _read_names(data, count)
        elif property_id == Property.ATTRIBUTES:
            given = data.flags(count)
            if data.byte():
                raise _damaged("its attributes are said to lie outside of it")
            attributes = [struct.unpack("<L", data.raw(4))[0] if is_given else 0 for is_given in given]
    return [FileEntry(name, not is_empty, bits) for name, is_empty, bits in zip(names, empty, attributes, strict=True)]


def _read_names(data: HeaderFields, count: int) -> list[str]:
    if data.byte():
        raise _damaged("its file names are said to lie outside of it")
    names = data.raw(data.left).decode("utf-16-le", "replace").split("\0")
    if len(names) != count + 1 or names[-1]:
        raise _damaged(f"it names {len(names) - 1} files, not the {count} that it has")
    return names[:-1]
