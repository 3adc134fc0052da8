"""The pages of one column chunk of a Parquet file: headers, checksums, unpacking, and what they hold taken together."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import brotli
import cramjam
import lz4.block
import zstandard

from sluice.formats.budget import Deadline
from sluice.formats.source import Source
from sluice.formats.tables.parquet_footer import Chunk, number, structure
from sluice.formats.tables.parquet_values import BadPage, Counted, bits_for, check_levels, check_values, hybrid, levels_in_front
from sluice.formats.tables.thrift import BadThrift, Fields, Reader

_DATA, _INDEX, _DICTIONARY, _DATA_2 = 0, 1, 2, 3
_CHECKSUM: Final = 4
_PLAIN_CODEC: Final = 0
_HEADER_AT_ONCE: Final = 4096
_HEADER_MOST: Final = 16 * 1024**2
_UNPACKED_MOST: Final = 64 * 1024**2
_PACKED_MOST: Final = 64 * 1024**2
_VALUES_MOST: Final = 4_000_000
"""More values in one page are not followed: their levels would fill the memory."""


@dataclass(slots=True)
class Read:
    """What was read of a chunk so far."""

    values: int = 0
    present: int = 0
    rows: int = 0
    dictionary: int | None = None
    is_sure: bool = True
    """Whether all of it was unpacked and followed."""
    pages: int = 0


def read_chunk(source: Source, chunk: Chunk, end: int, deadline: Deadline) -> Read:
    """Read the pages of a chunk until they have its values. Raises `BadPage`; stops when the time is over."""
    read = Read()
    at = chunk.start
    while read.values < chunk.values:
        if deadline.has_passed:
            read.is_sure = False
            return read
        fields, at = _header(source, at, end)
        try:
            at = _Page(source, chunk, read, fields).read_at(at, end)
        except BadThrift as error:
            raise BadPage(f"the header of its page {read.pages + 1} is damaged: {error}") from error
        read.pages += 1
    if read.values != chunk.values:
        raise BadPage(f"it has {read.values} values of {chunk.values}")
    if read.is_sure and read.rows != chunk.rows:
        raise BadPage(f"it has {read.rows} rows of {chunk.rows}")
    return read


def _header(source: Source, at: int, end: int) -> tuple[Fields, int]:
    """Answer the header of the page that begins at `at`, and where its data begins."""
    size = _HEADER_AT_ONCE
    while True:
        reader = Reader(source.read_at(at, min(size, end - at)))
        try:
            return reader.fields(), at + reader.at
        except BadThrift as error:
            if size >= min(end - at, _HEADER_MOST):
                raise BadPage(f"the header of the page at byte {at} is damaged: {error}") from error
            size *= 16


class _Page:
    def __init__(self, source: Source, chunk: Chunk, read: Read, fields: Fields) -> None:
        self._source = source
        self._chunk = chunk
        self._read = read
        self._fields = fields
        self._kind = number(fields, 1)
        self._unpacked = number(fields, 2)
        self._packed = number(fields, 3)

    def read_at(self, at: int, end: int) -> int:
        """Read the page whose data begins at `at`; answer where it ends."""
        if self._packed < 0 or self._unpacked < 0 or at + self._packed > end:
            raise BadPage(f"its page {self._read.pages + 1} would lie behind the pages")
        if self._kind == _INDEX:
            return at + self._packed
        told = structure(self._fields.get({_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}.get(self._kind, 0)))
        values = number(told, 1)
        if values < 0:
            raise BadPage(f"its page {self._read.pages + 1} has {values} values")
        data = self._data(at) if values <= _VALUES_MOST else None
        if self._kind == _DICTIONARY:
            self._take_dictionary(data, values)
        else:
            self._take_values(data, told, values)
        return at + self._packed

    def _data(self, at: int) -> bytes | None:
        """Answer the packed data, None when there is too much of it."""
        if self._packed > _PACKED_MOST or self._unpacked > _UNPACKED_MOST:
            return None
        data = self._source.read_at(at, self._packed)
        if _CHECKSUM in self._fields and zlib.crc32(data) != number(self._fields, _CHECKSUM) & 0xFFFFFFFF:
            raise BadPage(f"the checksum of its page {self._read.pages + 1} is wrong")
        return data

    def _take_dictionary(self, packed: bytes | None, values: int) -> None:
        self._read.dictionary = values
        data = _unpack(packed, self._chunk.codec, self._unpacked) if packed is not None else None
        if data is None:
            self._read.is_sure = False
        else:
            check_values(data, self._chunk.column, 0, values, None)

    def _take_values(self, packed: bytes | None, told: Fields, values: int) -> None:
        read = self._read
        is_first = not read.values
        read.values += values
        if read.values > self._chunk.values:
            raise BadPage(f"it has {read.values} values of {self._chunk.values}")
        if packed is None:
            read.is_sure = False
            return
        counted = self._levels_and_values(packed, told, values, is_first=is_first)
        if counted is None:
            read.is_sure = False
            return
        read.present += counted.present
        read.rows += counted.rows

    def _levels_and_values(self, packed: bytes, told: Fields, values: int, *, is_first: bool) -> Counted | None:
        column, codec = self._chunk.column, self._chunk.codec
        if self._kind == _DATA_2:
            return self._second_version(packed, told, values, is_first=is_first)
        data = _unpack(packed, codec, self._unpacked)
        if data is None:
            return None
        repetitions, at = levels_in_front(data, column.repeated, values, number(told, 4))
        definitions, behind = levels_in_front(data[at:], column.optional, values, number(told, 3))
        counted = check_levels(column, repetitions, definitions, values, is_first=is_first)
        known = check_values(data[at + behind :], column, number(told, 2), counted.present, self._read.dictionary)
        self._read.is_sure &= known
        return counted

    def _second_version(self, packed: bytes, told: Fields, values: int, *, is_first: bool) -> Counted | None:
        """Read a page whose levels stand in front of the packed part."""
        column = self._chunk.column
        of_definitions, of_repetitions = number(told, 5), number(told, 6)
        front = of_definitions + of_repetitions
        if min(of_definitions, of_repetitions) < 0 or front > len(packed):
            raise BadPage("its levels are cut")
        repetitions = hybrid(packed[:of_repetitions], bits_for(column.repeated), values) if column.repeated else None
        definitions = hybrid(packed[of_repetitions:front], bits_for(column.optional), values) if column.optional else None
        counted = check_levels(column, repetitions, definitions, values, is_first=is_first)
        nulls, rows = number(told, 2), number(told, 3)
        if counted.present != values - nulls or (column.repeated and counted.rows != rows):
            raise BadPage(f"its levels say {counted.present} values in {counted.rows} rows, its header {values - nulls} in {rows}")
        codec = self._chunk.codec if told.get(7, True) and packed[front:] else _PLAIN_CODEC
        data = _unpack(packed[front:], codec, self._unpacked - front)
        if data is None:
            return None
        self._read.is_sure &= check_values(data, column, number(told, 4), counted.present, self._read.dictionary)
        return counted


def _unpack(data: bytes, codec: int, size: int) -> bytes | None:
    """Answer a page unpacked, None where its codec is not known here. Raises `BadPage` when it does not unpack to `size` bytes."""
    unpack = _CODECS.get(codec)
    if unpack is None:
        return None
    if size < 0:
        raise BadPage("a page is smaller than its levels")
    try:
        unpacked = unpack(data, size)
    except (
        zlib.error,
        zstandard.ZstdError,
        brotli.error,
        lz4.block.LZ4BlockError,
        cramjam.DecompressionError,
        ValueError,
    ) as error:
        raise BadPage(f"a page does not unpack: {error}") from error
    if len(unpacked) != size:
        raise BadPage(f"a page unpacks to {len(unpacked)} bytes of {size}")
    return unpacked


def _snappy(data: bytes, size: int) -> bytes:
    if not data and not size:
        return b""
    if cramjam.snappy.decompress_raw_len(data) != size:
        raise BadPage("a page states another size than its header does")
    return bytes(cramjam.snappy.decompress_raw(data))


def _gzip(data: bytes, size: int) -> bytes:
    """Unpack members one after the other: some writers make several."""
    parts, left = [], size + 1
    while data and left > 0:
        member = zlib.decompressobj(wbits=47)
        part = member.decompress(data, left)
        parts.append(part)
        left -= len(part)
        if not member.eof and not member.unconsumed_tail:
            raise ValueError("it is cut")
        data = member.unused_data
        if not part and not member.eof:
            break
    return b"".join(parts)


def _brotli(data: bytes, size: int) -> bytes:
    unpacking, parts, left = brotli.Decompressor(), [], size + 1
    while left > 0 and not unpacking.is_finished():
        part = unpacking.process(data, output_buffer_limit=left)
        parts.append(part)
        left -= len(part)
        if not part and unpacking.can_accept_more_data():
            break
        data = b""
    if not unpacking.is_finished():
        raise ValueError("it is cut")
    return b"".join(parts)


def _zstandard(data: bytes, size: int) -> bytes:
    with zstandard.ZstdDecompressor(max_window_size=_UNPACKED_MOST).stream_reader(data, read_across_frames=True) as reader:
        parts, left = [], size + 1
        while left > 0 and (part := reader.read(left)):
            parts.append(part)
            left -= len(part)
    return b"".join(parts)


def _lz4_raw(data: bytes, size: int) -> bytes:
    return lz4.block.decompress(data, uncompressed_size=size) if size or data else b""


def _lz4(data: bytes, size: int) -> bytes:
    """Unpack what Hadoop writes, blocks with both sizes in front, or a bare block, as other writers have it under the same name."""
    try:
        return _hadoop(data, size)
    except (lz4.block.LZ4BlockError, ValueError):
        return _lz4_raw(data, size)


def _hadoop(data: bytes, size: int) -> bytes:
    parts, at, left = [], 0, size
    while at < len(data):
        unpacked, packed = int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at + 4 : at + 8], "big")
        if unpacked > left or at + 8 + packed > len(data) or not packed:
            raise ValueError("its blocks are not whole")
        parts.append(lz4.block.decompress(data[at + 8 : at + 8 + packed], uncompressed_size=unpacked))
        at, left = at + 8 + packed, left - unpacked
    if left:
        raise ValueError("its blocks are not all there")
    return b"".join(parts)


_CODECS: Final[Mapping[int, Callable[[bytes, int], bytes]]] = {
    _PLAIN_CODEC: lambda data, _size: data,
    1: _snappy,
    2: _gzip,
    4: _brotli,
    5: _lz4,
    6: _zstandard,
    7: _lz4_raw,
}
