"""The pages of one column chunk of a Parquet file: headers, checksums, decompression, and the sum of their values."""

import zlib
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final

import brotli
import cramjam
import lz4.block
import zstandard

from sluice_inspect.budget import Deadline
from sluice_inspect.formats.parquet.footer import ColumnChunk
from sluice_inspect.formats.parquet.thrift import CompactReader, Fields, ThriftError, require_int, require_struct
from sluice_inspect.formats.parquet.values import (
    PageCounts,
    PageError,
    check_levels,
    check_values,
    read_levels_v1,
    read_levels_v2,
)
from sluice_inspect.source import Source

_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 1, 2, 3
_UNCOMPRESSED: Final = 0
_HEADER_READ_BYTES: Final = 4096
_MAX_HEADER_BYTES: Final = 16 * 1024**2
_MAX_UNCOMPRESSED_BYTES: Final = 64 * 1024**2
_MAX_COMPRESSED_BYTES: Final = 64 * 1024**2
_MAX_VALUES: Final = 4_000_000  # more values in one page are not followed: their levels would fill the memory


# Field numbers of `parquet.thrift`.
class _PageHeader(IntEnum):
    TYPE = 1
    UNCOMPRESSED_SIZE = 2
    COMPRESSED_SIZE = 3
    CRC = 4
    DATA_PAGE_HEADER = 5
    DICTIONARY_PAGE_HEADER = 7
    DATA_PAGE_HEADER_V2 = 8


class _DataPageHeader(IntEnum):
    NUM_VALUES = 1
    ENCODING = 2
    DEFINITION_LEVEL_ENCODING = 3
    REPETITION_LEVEL_ENCODING = 4


class _DataPageHeaderV2(IntEnum):
    NUM_NULLS = 2
    NUM_ROWS = 3
    ENCODING = 4
    DEFINITION_LEVELS_BYTES = 5
    REPETITION_LEVELS_BYTES = 6
    IS_COMPRESSED = 7


_HEADERS: Final = {
    _DATA_PAGE: _PageHeader.DATA_PAGE_HEADER,
    _DICTIONARY_PAGE: _PageHeader.DICTIONARY_PAGE_HEADER,
    _DATA_PAGE_V2: _PageHeader.DATA_PAGE_HEADER_V2,
}


class ChunkReader:
    """Reads the pages of a chunk, which all end before `end`, and counts what they hold."""

    def __init__(self, source: Source, chunk: ColumnChunk, end: int) -> None:
        self._source = source
        self._chunk = chunk
        self._end = end
        self._pages = 0
        self._values = 0
        self._rows = 0
        # The number of entries in the dictionary, None without one.
        self._dictionary: int | None = None
        # Values that are not null.
        self.present = 0
        # Whether every page was decompressed and followed.
        self.is_complete = True

    def read_pages(self, deadline: Deadline) -> None:
        """Read pages until all values of the chunk are found, or until the deadline. Raise `PageError`."""
        chunk, offset = self._chunk, self._chunk.offset
        while self._values < chunk.values:
            if deadline.has_passed:
                self.is_complete = False
                return
            header, offset = self._read_header(offset)
            try:
                offset = self._read_page(header, offset)
            except ThriftError as error:
                raise PageError(f"the header of its page {self._pages + 1} is damaged: {error}") from error
            self._pages += 1
        if self._values != chunk.values:
            raise PageError(f"it has {self._values} values of {chunk.values}")
        if self.is_complete and self._rows != chunk.rows:
            raise PageError(f"it has {self._rows} rows of {chunk.rows}")

    def _read_header(self, offset: int) -> tuple[Fields, int]:
        """Return the header of the page at `offset`, and where its data begin."""
        size = _HEADER_READ_BYTES  # the size of a header is not stated: read more until it parses
        while True:
            reader = CompactReader(self._source.read_at(offset, min(size, self._end - offset)))
            try:
                return reader.read_struct(), offset + reader.offset
            except ThriftError as error:
                if size >= min(self._end - offset, _MAX_HEADER_BYTES):
                    raise PageError(f"the header of the page at byte {offset} is damaged: {error}") from error
                size *= 16

    def _read_page(self, header: Fields, offset: int) -> int:
        """Read the page whose data begin at `offset`. Return where they end."""
        page_type = require_int(header, _PageHeader.TYPE)
        size = require_int(header, _PageHeader.UNCOMPRESSED_SIZE)
        compressed_size = require_int(header, _PageHeader.COMPRESSED_SIZE)
        end = offset + compressed_size
        if compressed_size < 0 or size < 0 or end > self._end:
            raise PageError(f"its page {self._pages + 1} would reach into the footer")
        if page_type == _INDEX_PAGE:
            return end
        details = require_struct(header.get(_HEADERS.get(page_type, 0)))
        values = require_int(details, _DataPageHeader.NUM_VALUES)
        if values < 0:
            raise PageError(f"its page {self._pages + 1} has {values} values")
        data: bytes | None = None
        if values <= _MAX_VALUES and compressed_size <= _MAX_COMPRESSED_BYTES and size <= _MAX_UNCOMPRESSED_BYTES:
            data = self._source.read_at(offset, compressed_size)
            # The CRC-32 is optional, signed in the header, and over the compressed data.
            if _PageHeader.CRC in header and zlib.crc32(data) != require_int(header, _PageHeader.CRC) & 0xFFFFFFFF:
                raise PageError(f"the checksum of its page {self._pages + 1} is wrong")
        if page_type == _DICTIONARY_PAGE:
            self._read_dictionary(data, size, values)
            return end
        is_first = not self._values
        self._values += values
        if self._values > self._chunk.values:
            raise PageError(f"it has {self._values} values of {self._chunk.values}")
        read = self._read_data_v2 if page_type == _DATA_PAGE_V2 else self._read_data_v1
        counts = None if data is None else read(data, size, details, values, is_first=is_first)
        if counts is None:
            self.is_complete = False
            return end
        self.present += counts.present
        self._rows += counts.rows
        return end

    def _read_dictionary(self, compressed: bytes | None, size: int, values: int) -> None:
        self._dictionary = values
        data = None if compressed is None else _decompress(compressed, self._chunk.codec, size)
        if data is None:
            self.is_complete = False
        else:
            check_values(data, self._chunk.column, 0, values, None)

    def _read_data_v1(
        self, compressed: bytes, size: int, details: Fields, values: int, *, is_first: bool
    ) -> PageCounts | None:
        """Read a page whose levels are compressed with the values. Return None if its codec is unknown."""
        column = self._chunk.column
        data = _decompress(compressed, self._chunk.codec, size)
        if data is None:
            return None
        repetition_encoding = require_int(details, _DataPageHeader.REPETITION_LEVEL_ENCODING)
        repetitions, length = read_levels_v1(data, column.max_repetition, values, repetition_encoding)
        data = data[length:]
        definition_encoding = require_int(details, _DataPageHeader.DEFINITION_LEVEL_ENCODING)
        definitions, length = read_levels_v1(data, column.max_definition, values, definition_encoding)
        counts = check_levels(column, repetitions, definitions, values, is_first=is_first)
        encoding = require_int(details, _DataPageHeader.ENCODING)
        self.is_complete &= check_values(data[length:], column, encoding, counts.present, self._dictionary)
        return counts

    def _read_data_v2(
        self, page: bytes, size: int, details: Fields, values: int, *, is_first: bool
    ) -> PageCounts | None:
        """Read a page whose levels come before the compressed values. Return None if its codec is unknown."""
        column = self._chunk.column
        definition_bytes = require_int(details, _DataPageHeaderV2.DEFINITION_LEVELS_BYTES)
        repetition_bytes = require_int(details, _DataPageHeaderV2.REPETITION_LEVELS_BYTES)
        level_bytes = definition_bytes + repetition_bytes
        if min(definition_bytes, repetition_bytes) < 0 or level_bytes > len(page):
            raise PageError("its levels are cut")
        repetitions = read_levels_v2(page[:repetition_bytes], column.max_repetition, values)
        definitions = read_levels_v2(page[repetition_bytes:level_bytes], column.max_definition, values)
        counts = check_levels(column, repetitions, definitions, values, is_first=is_first)
        present = values - require_int(details, _DataPageHeaderV2.NUM_NULLS)
        rows = require_int(details, _DataPageHeaderV2.NUM_ROWS)
        if counts.present != present or (column.max_repetition and counts.rows != rows):
            raise PageError(
                f"its levels state {counts.present} values in {counts.rows} rows, its header {present} in {rows}"
            )
        compressed = page[level_bytes:]
        is_compressed = details.get(_DataPageHeaderV2.IS_COMPRESSED, True) and compressed
        data = _decompress(compressed, self._chunk.codec if is_compressed else _UNCOMPRESSED, size - level_bytes)
        if data is None:
            return None
        encoding = require_int(details, _DataPageHeaderV2.ENCODING)
        self.is_complete &= check_values(data, column, encoding, counts.present, self._dictionary)
        return counts


def _decompress(data: bytes, codec: int, size: int) -> bytes | None:
    """Return `size` decompressed bytes, None if the codec is unknown. Raise `PageError` if there are fewer or more."""
    decompress = _CODECS.get(codec)
    if decompress is None:
        return None
    if size < 0:
        raise PageError("a page is smaller than its levels")
    try:
        decompressed = decompress(data, size)
    except (
        zlib.error,
        zstandard.ZstdError,
        brotli.error,
        lz4.block.LZ4BlockError,
        cramjam.DecompressionError,
        ValueError,
    ) as error:
        raise PageError(f"a page does not decompress: {error}") from error
    if len(decompressed) != size:
        raise PageError(f"a page decompresses to {len(decompressed)} bytes of {size}")
    return decompressed


# The functions below return at most one byte more than `size`, so that no page costs more than its header states.


def _snappy(data: bytes, size: int) -> bytes:
    if not data and not size:
        return b""
    if cramjam.snappy.decompress_raw_len(data) != size:
        raise PageError("a page states another size than its header does")
    return bytes(cramjam.snappy.decompress_raw(data))


def _gzip(data: bytes, size: int) -> bytes:
    parts, left = [], size + 1
    while data and left > 0:  # some writers make several members
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
    decompressor, parts, left = brotli.Decompressor(), [], size + 1
    while left > 0 and not decompressor.is_finished():
        part = decompressor.process(data, output_buffer_limit=left)
        parts.append(part)
        left -= len(part)
        if not part and decompressor.can_accept_more_data():
            break
        data = b""
    if not decompressor.is_finished():
        raise ValueError("it is cut")
    return b"".join(parts)


def _zstandard(data: bytes, size: int) -> bytes:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_UNCOMPRESSED_BYTES)
    with decompressor.stream_reader(data, read_across_frames=True) as reader:
        parts, left = [], size + 1
        while left > 0 and (part := reader.read(left)):
            parts.append(part)
            left -= len(part)
    return b"".join(parts)


def _lz4_raw(data: bytes, size: int) -> bytes:
    return lz4.block.decompress(data, uncompressed_size=size) if size or data else b""


def _lz4(data: bytes, size: int) -> bytes:
    # This codec was never specified: Hadoop writes blocks after both their sizes, other writers a bare block.
    try:
        return _lz4_hadoop(data, size)
    except (lz4.block.LZ4BlockError, ValueError):
        return _lz4_raw(data, size)


def _lz4_hadoop(data: bytes, size: int) -> bytes:
    parts, offset, left = [], 0, size
    while offset < len(data):
        block_size = int.from_bytes(data[offset : offset + 4], "big")
        compressed_size = int.from_bytes(data[offset + 4 : offset + 8], "big")
        offset += 8
        if block_size > left or offset + compressed_size > len(data) or not compressed_size:
            raise ValueError("its blocks are incomplete")
        block = data[offset : offset + compressed_size]
        parts.append(lz4.block.decompress(block, uncompressed_size=block_size))
        offset, left = offset + compressed_size, left - block_size
    if left:
        raise ValueError("its blocks are not all there")
    return b"".join(parts)


# By the numbers of `CompressionCodec`. LZO (3) has no reader here.
_CODECS: Final[Mapping[int, Callable[[bytes, int], bytes]]] = {
    _UNCOMPRESSED: lambda data, _size: data, 1: _snappy, 2: _gzip, 4: _brotli, 5: _lz4, 6: _zstandard, 7: _lz4_raw,
}  # fmt: skip
