"""Parquet: integrity, encryption and blankness."""

import gzip
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import brotli
import cramjam
import lz4.block
import pytest
import zstandard

from sluice_inspect.formats.parquet.format import FORMAT
from sluice_inspect.formats.parquet.sample import encode_file, encode_page, encode_sample, encode_struct, encode_table
from sluice_inspect.formats.parquet.thrift import CompactReader, ThriftError
from sluice_inspect.report import Limits, Measure
from tests.inspection.formats.examining import Row, cuts, replaced, source_of, verdicts
from tests.rows import each_row

NUMBERS = struct.pack("<500l", *range(500))
TEXT = {1: 6}


def levels(*runs: tuple[int, int]) -> bytes:
    """Return levels as runs of (length, level), preceded by their size in bytes."""
    data = b"".join(bytes([length << 1, level]) for length, level in runs)
    return struct.pack("<L", len(data)) + data


def with_dictionary(entries: int, numbers: bytes, values: int) -> bytes:
    dictionary = NUMBERS[: 4 * entries]
    header = encode_struct({1: 2, 2: len(dictionary), 3: len(dictionary), 7: {1: entries, 2: 0}})
    return encode_table(header + dictionary + encode_page(numbers, values, encoding=8), values, values)


def table(page: bytes, values: int = 500, rows: int | None = None, **more: Any) -> bytes:
    return encode_table(page, values, values if rows is None else rows, **more)


def optional(*runs: tuple[int, int], values: bytes = NUMBERS[:16]) -> bytes:
    return table(encode_page(levels(*runs) + values, 4), 4, leaf={3: 1})


def repeated(rows: int, *runs: tuple[int, int]) -> bytes:
    return table(encode_page(levels(*runs) + levels((4, 1)) + NUMBERS[:16], 4), 4, rows, leaf={3: 2})


def second_version(definitions: bytes, values: bytes, nulls: int) -> bytes:
    fields = {1: 4, 2: nulls, 3: 4, 4: 0, 5: len(definitions), 6: 0}
    body = definitions + values
    page = encode_struct({1: 3, 2: len(body), 3: len(body), 8: fields}) + body
    return table(page, 4, leaf={3: 1})


def measures(data: bytes, limits: Limits | None = None) -> Mapping[str, Measure]:
    with source_of(data) as source:
        return FORMAT.examine(source, limits or Limits()).measures


NUMBERED = table(encode_page(NUMBERS, 500))
CODECS: dict[int, Callable[[bytes], bytes]] = {
    1: lambda data: bytes(cramjam.snappy.compress_raw(data)),
    2: gzip.compress,
    4: brotli.compress,
    5: lambda data: lz4.block.compress(data, store_size=False),
    6: zstandard.ZstdCompressor().compress,
    7: lambda data: lz4.block.compress(data, store_size=False),
}


def test_rows_and_columns_are_measured() -> None:
    assert measures(NUMBERED) == {"rows": 500, "columns": 1}


def test_unknown_codec_or_time_limit_leaves_the_table_partially_checked() -> None:
    assert measures(table(encode_page(NUMBERS, 500, packed=b"lzo"), codec=3))["partially_checked"] is True
    assert measures(NUMBERED, Limits(soft_seconds=-1))["partially_checked"] is True


@verdicts(FORMAT)
def test_every_codec_is_unpacked() -> Iterable[Row]:
    block = lz4.block.compress(NUMBERS, store_size=False)
    for codec, pack in CODECS.items():
        packed = pack(NUMBERS)
        yield f"codec {codec}", table(encode_page(NUMBERS, 500, packed=packed), codec=codec), "ok"
        for wrong in (packed[:-2], pack(NUMBERS[:-4]), pack(NUMBERS + b"more")):
            yield f"wrong data, codec {codec}", table(encode_page(NUMBERS, 500, packed=wrong), codec=codec), "corrupt"
    for case, codec, packed in (
        ("LZ4 with the sizes of Hadoop", 5, struct.pack(">LL", len(NUMBERS), len(block)) + block),
        ("gzip of several members", 2, gzip.compress(NUMBERS[:1000]) + gzip.compress(NUMBERS[1000:])),
    ):
        yield case, table(encode_page(NUMBERS, 500, packed=packed), codec=codec), "ok"


@verdicts(FORMAT)
def test_truncated_or_inconsistent_table_is_corrupt_and_one_without_values_blank() -> Iterable[Row]:
    yield from cuts(NUMBERED, *(part / 40 for part in range(1, 40)))
    yield "wrong checksum", replaced(NUMBERED, NUMBERS[40:44], b"\1\2\3\4"), "corrupt", "checksum"
    column = {1: 1, 3: 0, 4: b"a"}
    for case, data in {
        "a value too few": table(encode_page(NUMBERS[:-4], 500)),
        "a page that has fewer values than its column": table(encode_page(NUMBERS, 499)),
        "a page that has more values than its column": table(encode_page(NUMBERS, 500), 499),
        "fewer rows than values": table(encode_page(NUMBERS, 500), 500, 499),
        "no such type": table(encode_page(NUMBERS, 500), leaf={1: 8}),
        "no such repetition": table(encode_page(NUMBERS, 500), leaf={3: 7}),
        "a text longer than its page": table(encode_page(b"\5\0\0\0ab", 1), 1, leaf=TEXT),
        "a level too high": optional((4, 2)),
        "too few levels": optional((3, 1)),
        "levels that contradict their header": second_version(bytes([4 << 1, 1]), NUMBERS[:16], 1),
        "a first row that continues another": repeated(3, (1, 1), (3, 0)),
        "an entry that the dictionary lacks": with_dictionary(4, bytes([3, 8 << 1, 4]), 8),
        "an impossible width": with_dictionary(4, bytes([33, 8 << 1, 4]), 8),
        "no dictionary": table(encode_page(bytes([1, 8 << 1, 0]), 8, encoding=8), 8),
        "no page": table(b"", 3),
        "an incomplete schema": encode_file(b"", [{4: b"schema", 5: 2}, column], [], 0),
        "no schema": encode_file(b"", [], [], 0),
        "no footer": b"PAR1" + bytes(20) + b"PAR1",
        "nothing": b"PAR1PAR1",
    }.items():
        yield case, data, "corrupt"
    for case, data in {
        "sample": encode_sample(),
        "nulls": optional((2, 1), (2, 0), values=NUMBERS[:8]),
        "a list": repeated(1, (1, 0), (3, 1)),
        "texts": table(encode_page(b"\2\0\0\0ab\0\0\0\0", 2), 2, leaf=TEXT),
        "packed numbers of a dictionary": with_dictionary(4, bytes([2, 3, 0b11100100, 0b11100100]), 8),
        "two pages": table(encode_page(NUMBERS[:2000], 500) + encode_page(NUMBERS, 500), 1000),
        "second version": second_version(bytes([4 << 1, 1]), NUMBERS[:16], 0),
        "differences": table(encode_page(b"\x80\1\4\4\2" + b"\2" + bytes(4), 4, encoding=5), 4),
    }.items():
        yield case, data, "ok"
    yield "no rows", encode_file(b"", [{4: b"schema", 5: 1}, column], [], 0), "blank"
    yield "nulls only", optional((4, 0), values=b""), "blank"
    yield "nulls only, second version", second_version(bytes([4 << 1, 0]), b"", 4), "blank"
    yield "encrypted footer", b"PARE" + bytes(40) + struct.pack("<L", 30) + b"PARE", "encrypted"


@each_row(
    "data",
    [
        *(b"", b"\x15", b"\x15\x80", b"\x1c" * 40, b"\x19\xfc\xff\xff\xff\xff\x0f", b"\x15\2\x05\2\2\0"),
        *(b"\x1f\0", b"\x18\x7fshort"),
    ],
)
def test_invalid_thrift_raises_an_error(data: bytes) -> None:
    with pytest.raises(ThriftError):
        CompactReader(data).read_struct()


def test_thrift_structures_round_trip() -> None:
    values = {1: -3, 2: b"text", 5: [1, 2, 3], 15: {1: 2**40}}
    assert CompactReader(encode_struct(values)).read_struct() == values
