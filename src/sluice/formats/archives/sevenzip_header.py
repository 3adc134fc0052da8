"""Reads the headers of 7z archives: the signature header, the tables of packed streams, folders and files. Unpacks nothing; that is in `sevenzip_walk`.

Layout: 7zFormat.txt of the LZMA SDK. A "folder" there is a chain of coders, whose one output holds the content of several files.
"""

import struct
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from sluice.formats.verdict import Corrupt, Finding, Limits, Unsafe

END, HEADER, ARCHIVE_PROPERTIES, MORE_STREAMS, MAIN_STREAMS, FILES = range(6)
PACK_INFO, UNPACK_INFO, SUBSTREAMS, SIZE, CRC, FOLDER, UNPACK_SIZE, UNPACK_STREAMS = range(6, 14)
EMPTY_STREAM, EMPTY_FILE, ANTI, NAMES = range(14, 18)
ATTRIBUTES: Final = 0x15
ENCODED_HEADER: Final = 0x17

_CODERS_MOST: Final = 32
_STREAMS_MOST: Final = 64
_ID_SIZE, _IS_COMPLEX, _HAS_PROPERTIES, _RESERVED = 0x0F, 0x10, 0x20, 0x80


@dataclass(frozen=True, slots=True)
class Coder:
    """One step of unpacking."""

    method: bytes
    properties: bytes
    inputs: int
    outputs: int


@dataclass(slots=True)
class Folder:
    """A chain of coders; streams are numbered over all of its coders."""

    coders: list[Coder]
    bonds: dict[int, int]
    """Output that feeds an input, by input."""
    packed_inputs: list[int]
    unpacked_sizes: list[int] = field(default_factory=list)
    """By output."""
    crc: int | None = None

    @property
    def main_output(self) -> int:
        """The output that feeds no other coder: the content."""
        return next(output for output in range(sum(coder.outputs for coder in self.coders)) if output not in self.bonds.values())

    @property
    def size(self) -> int:
        """Bytes of content."""
        return self.unpacked_sizes[self.main_output]


@dataclass(frozen=True, slots=True)
class Substream:
    """The content of one file within that of its folder."""

    size: int
    crc: int | None


@dataclass(slots=True)
class Streams:
    """Where packed bytes lie and what they unpack to."""

    pack_offset: int = 0
    """Of the first packed stream behind the signature header."""
    pack_sizes: list[int] = field(default_factory=list)
    folders: list[Folder] = field(default_factory=list)
    substreams: list[list[Substream]] = field(default_factory=list)
    """By folder."""


@dataclass(frozen=True, slots=True)
class File:
    """One entry of the table of files."""

    name: str
    has_stream: bool
    attributes: int


class Fields:
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
        """Answer the next bytes."""
        if size > self.left:
            raise Corrupt("the archive's header is damaged: a field in it runs past its end")
        self._at += size
        return self._data[self._at - size : self._at]

    def byte(self) -> int:
        """Answer the next byte."""
        return self.raw(1)[0]

    def number(self) -> int:
        """Answer a number of variable length: the leading ones of the first byte count the bytes that follow."""
        first = self.byte()
        extra = 0
        while extra < 8 and first & (0x80 >> extra):  # noqa: PLR2004  (bits of a byte)
            extra += 1
        low = int.from_bytes(self.raw(extra), "little")
        return low | (first & ((1 << max(0, 7 - extra)) - 1)) << (8 * extra)

    def count(self, what: str) -> int:
        """Answer a number of things. Raises `Unsafe` for more than the limit of members."""
        number = self.number()
        if number > self.left * 8:
            raise Corrupt(f"the archive's header is damaged: it counts {number} {what}, for which it has no room")
        if number > self.limits.max_members:
            raise Unsafe(
                Finding.ARCHIVE_BOMB, f"the archive counts {number} {what}, more than the {self.limits.max_members} allowed"
            )
        return number

    def bits(self, count: int) -> list[bool]:
        """Answer a vector of flags, the highest bit of a byte first."""
        data = self.raw((count + 7) // 8)
        return [bool(data[index // 8] & (0x80 >> index % 8)) for index in range(count)]

    def flags(self, count: int) -> list[bool]:
        """Answer a vector of flags, or all of them set, which is said by one byte."""
        return [True] * count if self.byte() else self.bits(count)

    def checksums(self, count: int) -> list[int | None]:
        """Answer checksums, None where one is not given."""
        return [struct.unpack("<L", self.raw(4))[0] if given else None for given in self.flags(count)]

    def expect(self, field_id: int) -> None:
        """Pass over a field's id. Raises `Corrupt` when it is another."""
        found = self.number()
        if found != field_id:
            raise Corrupt(f"the archive's header is damaged: it has field {found} where field {field_id} must be")


def read_streams(fields: Fields) -> Streams:
    """Answer a table of streams."""
    streams = Streams()
    field_id = fields.number()
    if field_id == PACK_INFO:
        _read_pack_info(fields, streams)
        field_id = fields.number()
    if field_id == UNPACK_INFO:
        _read_folders(fields, streams)
        field_id = fields.number()
    streams.substreams = [[Substream(folder.size, folder.crc)] for folder in streams.folders]
    if field_id == SUBSTREAMS:
        _read_substreams(fields, streams)
        field_id = fields.number()
    if field_id != END:
        raise Corrupt(f"the archive's header is damaged: it has field {field_id} where its table of streams must end")
    if sum(len(folder.packed_inputs) for folder in streams.folders) != len(streams.pack_sizes):
        raise Corrupt("the archive's header is damaged: its folders ask for another number of packed streams than there are")
    return streams


def _read_pack_info(fields: Fields, streams: Streams) -> None:
    streams.pack_offset = fields.number()
    count = fields.count("packed streams")
    while (field_id := fields.number()) != END:
        if field_id == SIZE:
            streams.pack_sizes = [fields.number() for _ in range(count)]
        elif field_id == CRC:
            fields.checksums(count)
        else:
            raise Corrupt(f"the archive's header is damaged: it has field {field_id} in the table of packed streams")
    if len(streams.pack_sizes) != count:
        raise Corrupt("the archive's header is damaged: the sizes of its packed streams are missing")


def _read_folders(fields: Fields, streams: Streams) -> None:
    fields.expect(FOLDER)
    count = fields.count("folders")
    if fields.byte():
        raise Corrupt("the archive's header is damaged: its folders are said to lie outside of it")
    streams.folders = [_read_folder(fields) for _ in range(count)]
    fields.expect(UNPACK_SIZE)
    for folder in streams.folders:
        folder.unpacked_sizes = [fields.number() for coder in folder.coders for _ in range(coder.outputs)]
    while (field_id := fields.number()) != END:
        if field_id != CRC:
            raise Corrupt(f"the archive's header is damaged: it has field {field_id} in the table of folders")
        for folder, crc in zip(streams.folders, fields.checksums(count), strict=True):
            folder.crc = crc


def _read_folder(fields: Fields) -> Folder:
    coders = [_read_coder(fields) for _ in range(_within(fields.number(), 1, _CODERS_MOST, "coders"))]
    inputs, outputs = (sum(getattr(coder, side) for coder in coders) for side in ("inputs", "outputs"))
    bonds = {fields.number(): fields.number() for _ in range(outputs - 1)}
    free = [number for number in range(inputs) if number not in bonds]
    packed = _within(inputs - len(bonds), 1, _STREAMS_MOST, "packed streams")
    packed_inputs = free if packed == 1 else [fields.number() for _ in range(packed)]
    if len(bonds) != outputs - 1 or len(set(bonds.values())) != len(bonds) or sorted(packed_inputs) != free:
        raise Corrupt("the archive's header is damaged: the coders of a folder are not connected")
    if any(number >= inputs for number in bonds) or any(number >= outputs for number in bonds.values()):
        raise Corrupt("the archive's header is damaged: the coders of a folder are not connected")
    return Folder(coders, bonds, packed_inputs)


def _read_coder(fields: Fields) -> Coder:
    flags = fields.byte()
    if flags & _RESERVED:
        raise Corrupt("the archive's header is damaged: a coder has a flag that no version defines")
    method = fields.raw(flags & _ID_SIZE)
    inputs = _within(fields.number(), 1, _STREAMS_MOST, "inputs") if flags & _IS_COMPLEX else 1
    outputs = _within(fields.number(), 1, _STREAMS_MOST, "outputs") if flags & _IS_COMPLEX else 1
    properties = fields.raw(fields.number()) if flags & _HAS_PROPERTIES else b""
    return Coder(method, properties, inputs, outputs)


def _within(number: int, least: int, most: int, what: str) -> int:
    if not least <= number <= most:
        raise Corrupt(f"the archive's header is damaged: a folder has {number} {what}")
    return number


def _read_substreams(fields: Fields, streams: Streams) -> None:
    counts = [1] * len(streams.folders)
    field_id = fields.number()
    if field_id == UNPACK_STREAMS:
        counts = [fields.number() for _ in streams.folders]
        field_id = fields.number()
    if sum(counts) > fields.limits.max_members:
        raise Unsafe(
            Finding.ARCHIVE_BOMB, f"the archive counts {sum(counts)} files, more than the {fields.limits.max_members} allowed"
        )
    sizes = [
        _substream_sizes(fields, folder, count, field_id == SIZE) for folder, count in zip(streams.folders, counts, strict=True)
    ]
    if field_id == SIZE:
        field_id = fields.number()
    unknown = [not (count == 1 and folder.crc is not None) for folder, count in zip(streams.folders, counts, strict=True)]
    given: list[int | None] = []
    while field_id != END:
        if field_id != CRC:
            raise Corrupt(f"the archive's header is damaged: it has field {field_id} in the table of files within folders")
        given = fields.checksums(sum(count for count, asked in zip(counts, unknown, strict=True) if asked))
        field_id = fields.number()
    ends = list(accumulate(count if asked else 0 for count, asked in zip(counts, unknown, strict=True)))
    for index, (folder, count) in enumerate(zip(streams.folders, counts, strict=True)):
        crcs = (given[ends[index] - count : ends[index]] or [None] * count) if unknown[index] else [folder.crc]
        streams.substreams[index] = [Substream(size, crc) for size, crc in zip(sizes[index], crcs, strict=True)]


def _substream_sizes(fields: Fields, folder: Folder, count: int, given: bool) -> list[int]:  # noqa: FBT001  (a private step of one reader)
    """Answer the sizes of the files in a folder; the last is what the others leave over."""
    if not count:
        return []
    sizes = [fields.number() for _ in range(count - 1)] if given else []
    rest = folder.size - sum(sizes)
    if rest < 0 or len(sizes) != count - 1:
        raise Corrupt("the archive's header is damaged: the files of a folder are larger than the folder")
    return [*sizes, rest]


def read_files(fields: Fields) -> list[File]:
    """Answer the table of files."""
    count = fields.count("files")
    names, attributes = [""] * count, [0] * count
    empty = [False] * count
    while (field_id := fields.number()) != END:
        data = Fields(fields.raw(fields.number()), fields.limits)
        if field_id == EMPTY_STREAM:
            empty = data.bits(count)
        elif field_id == NAMES:
            names = _read_names(data, count)
        elif field_id == ATTRIBUTES:
            attributes = _read_attributes(data, count)
    return [File(name, not is_empty, bits) for name, is_empty, bits in zip(names, empty, attributes, strict=True)]


def _read_names(data: Fields, count: int) -> list[str]:
    if data.byte():
        raise Corrupt("the archive's header is damaged: its file names are said to lie outside of it")
    names = data.raw(data.left).decode("utf-16-le", "replace").split("\0")
    if len(names) != count + 1 or names[-1]:
        raise Corrupt(f"the archive's header is damaged: it names {len(names) - 1} files, not the {count} that it has")
    return names[:-1]


def _read_attributes(data: Fields, count: int) -> list[int]:
    given = data.flags(count)
    if data.byte():
        raise Corrupt("the archive's header is damaged: its attributes are said to lie outside of it")
    return [struct.unpack("<L", data.raw(4))[0] if is_given else 0 for is_given in given]
