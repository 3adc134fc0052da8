"""Parquet: integrity, encryption and blankness."""

import gzip
import struct
from collections.abc import Callable

import brotli
import cramjam
import lz4.block
import pytest
import zstandard

from sluice_inspect.formats.parquet.format import FORMAT
from sluice_inspect.formats.parquet.sample import encode_file, encode_page, encode_sample, encode_struct, encode_table
from sluice_inspect.formats.parquet.thrift import CompactReader, ThriftError
from sluice_inspect.report import Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes, source_of
from tests.rows import each_row

NUMBERS = struct.pack("<500l", *range(500))
OPTIONAL = {3: 1}
REPEATED = {3: 2}
TEXT = {1: 6}


def examine(data: bytes, limits: Limits | None = None) -> Examined:
    return examine_bytes(FORMAT, data, limits)


def levels(*runs: tuple[int, int]) -> bytes:
    """Return levels as runs of (length, level), preceded by their size in bytes."""
    data = b"".join(bytes([length << 1, level]) for length, level in runs)
    return struct.pack("<L", len(data)) + data


def page_of_version_2(front: tuple[bytes, bytes], data: bytes, values: int, nulls: int, rows: int) -> bytes:
    repetitions, definitions = front
    fields = {1: values, 2: nulls, 3: rows, 4: 0, 5: len(definitions), 6: len(repetitions)}
    body = repetitions + definitions + data
    return encode_struct({1: 3, 2: len(body), 3: len(body), 8: fields}) + body


def with_dictionary(entries: int, numbers: bytes, values: int) -> bytes:
    dictionary = NUMBERS[: 4 * entries]
    header = encode_struct({1: 2, 2: len(dictionary), 3: len(dictionary), 7: {1: entries, 2: 0}})
    return encode_table(header + dictionary + encode_page(numbers, values, encoding=8), values, values)


def test_table_is_sound_and_not_blank() -> None:
    result = examine(encode_sample())
    assert result.recognised
    assert result.outcome is Outcome.OK, result.detail
    assert result.blank is None


def test_rows_and_columns_are_measured() -> None:
    with source_of(encode_table(encode_page(NUMBERS, 500), 500, 500)) as source:
        assert FORMAT.examine(source, Limits()).measures == {"rows": 500, "columns": 1}


@each_row("part", range(1, 40))
def test_truncated_table_is_corrupt(part: int) -> None:
    data = encode_table(encode_page(NUMBERS, 500), 500, 500)
    assert examine(data[: len(data) * part // 40]).outcome is Outcome.CORRUPT


@each_row(
    ("codec", "pack"),
    {
        1: lambda data: bytes(cramjam.snappy.compress_raw(data)),
        2: gzip.compress,
        4: brotli.compress,
        5: lambda data: lz4.block.compress(data, store_size=False),
        6: zstandard.ZstdCompressor().compress,
        7: lambda data: lz4.block.compress(data, store_size=False),
    }.items(),
)
def test_every_codec_is_unpacked(codec: int, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(NUMBERS)
    assert examine(encode_table(encode_page(NUMBERS, 500, packed=packed), 500, 500, codec=codec)).outcome is Outcome.OK
    for wrong in (packed[:-2], pack(NUMBERS[:-4]), pack(NUMBERS + b"more")):
        assert (
            examine(encode_table(encode_page(NUMBERS, 500, packed=wrong), 500, 500, codec=codec)).outcome
            is Outcome.CORRUPT
        )


def test_lz4_with_hadoop_size_prefix_passes() -> None:
    block = lz4.block.compress(NUMBERS, store_size=False)
    packed = struct.pack(">LL", len(NUMBERS), len(block)) + block
    assert examine(encode_table(encode_page(NUMBERS, 500, packed=packed), 500, 500, codec=5)).outcome is Outcome.OK


def test_gzip_page_of_several_members_passes() -> None:
    packed = gzip.compress(NUMBERS[:1000]) + gzip.compress(NUMBERS[1000:])
    assert examine(encode_table(encode_page(NUMBERS, 500, packed=packed), 500, 500, codec=2)).outcome is Outcome.OK


def test_unknown_codec_is_partially_checked() -> None:
    with source_of(encode_table(encode_page(NUMBERS, 500, packed=b"lzo"), 500, 500, codec=3)) as source:
        assert FORMAT.examine(source, Limits()).measures["partially_checked"] is True


def test_wrong_checksum_is_corrupt() -> None:
    data = encode_table(encode_page(NUMBERS, 500), 500, 500)
    assert "checksum" in examine(data.replace(NUMBERS[40:44], b"\1\2\3\4", 1)).detail


@each_row(
    "data",
    [
        pytest.param(encode_table(encode_page(NUMBERS[:-4], 500), 500, 500), id="a value too few"),
        pytest.param(
            encode_table(encode_page(NUMBERS, 499), 500, 500), id="a page that has fewer values than its column"
        ),
        pytest.param(
            encode_table(encode_page(NUMBERS, 500), 499, 499), id="a page that has more values than its column"
        ),
        pytest.param(encode_table(encode_page(NUMBERS, 500), 500, 499), id="fewer rows than values"),
        pytest.param(encode_table(encode_page(NUMBERS, 500), 500, 500, leaf={1: 8}), id="no such type"),
        pytest.param(encode_table(encode_page(NUMBERS, 500), 500, 500, leaf={3: 7}), id="no such repetition"),
        pytest.param(encode_table(encode_page(b"\5\0\0\0ab", 1), 1, 1, leaf=TEXT), id="a text longer than its page"),
        pytest.param(
            encode_table(encode_page(levels((4, 2)) + NUMBERS[:16], 4), 4, 4, leaf=OPTIONAL), id="a level too high"
        ),
        pytest.param(
            encode_table(encode_page(levels((3, 1)) + NUMBERS[:16], 4), 4, 4, leaf=OPTIONAL), id="too few levels"
        ),
        pytest.param(
            encode_table(encode_page(levels((1, 1), (3, 0)) + levels((4, 1)) + NUMBERS[:16], 4), 4, 3, leaf=REPEATED),
            id="a first row that continues another",
        ),
        pytest.param(with_dictionary(4, bytes([3, 8 << 1, 4]), 8), id="an entry that the dictionary lacks"),
        pytest.param(with_dictionary(4, bytes([33, 8 << 1, 4]), 8), id="an impossible width"),
        pytest.param(encode_table(encode_page(bytes([1, 8 << 1, 0]), 8, encoding=8), 8, 8), id="no dictionary"),
        pytest.param(encode_table(b"", 3, 3), id="no page"),
        pytest.param(encode_file(b"", [{4: b"schema", 5: 2}, {1: 1, 3: 0, 4: b"a"}], [], 0), id="an incomplete schema"),
        pytest.param(encode_file(b"", [], [], 0), id="no schema"),
        pytest.param(b"PAR1" + bytes(20) + b"PAR1", id="no footer"),
        pytest.param(b"PAR1PAR1", id="nothing"),
    ],
)
def test_inconsistent_table_is_corrupt(data: bytes) -> None:
    assert examine(data).outcome is Outcome.CORRUPT


@each_row(
    "data",
    [
        pytest.param(
            encode_table(encode_page(levels((2, 1), (2, 0)) + NUMBERS[:8], 4), 4, 4, leaf=OPTIONAL), id="nulls"
        ),
        pytest.param(
            encode_table(encode_page(levels((1, 0), (3, 1)) + levels((4, 1)) + NUMBERS[:16], 4), 4, 1, leaf=REPEATED),
            id="a list",
        ),
        pytest.param(encode_table(encode_page(b"\2\0\0\0ab\0\0\0\0", 2), 2, 2, leaf=TEXT), id="texts"),
        pytest.param(with_dictionary(4, bytes([2, 3, 0b11100100, 0b11100100]), 8), id="packed numbers of a dictionary"),
        pytest.param(
            encode_table(encode_page(NUMBERS[:2000], 500) + encode_page(NUMBERS, 500), 1000, 1000), id="two pages"
        ),
        pytest.param(
            encode_table(page_of_version_2((b"", bytes([4 << 1, 1])), NUMBERS[:16], 4, 0, 4), 4, 4, leaf=OPTIONAL),
            id="second version",
        ),
        pytest.param(
            encode_table(encode_page(b"\x80\1\4\4\2" + b"\2" + bytes(4), 4, encoding=5), 4, 4), id="differences"
        ),
    ],
)
def test_every_encoding_passes(data: bytes) -> None:
    result = examine(data)
    assert result.outcome is Outcome.OK, result.detail
    assert result.blank is None


def test_levels_that_contradict_their_header_are_corrupt() -> None:
    data = page_of_version_2((b"", bytes([4 << 1, 1])), NUMBERS[:16], 4, 1, 4)
    assert examine(encode_table(data, 4, 4, leaf=OPTIONAL)).outcome is Outcome.CORRUPT


@each_row(
    "data",
    [
        encode_file(b"", [{4: b"schema", 5: 1}, {1: 1, 3: 0, 4: b"a"}], [], 0),
        encode_table(encode_page(levels((4, 0)), 4), 4, 4, leaf=OPTIONAL),
        encode_table(page_of_version_2((b"", bytes([4 << 1, 0])), b"", 4, 4, 4), 4, 4, leaf=OPTIONAL),
    ],
)
def test_table_without_rows_or_values_is_blank(data: bytes) -> None:
    result = examine(data)
    assert result.outcome is Outcome.OK, result.detail
    assert result.blank


def test_encrypted_footer_is_encrypted() -> None:
    assert examine(b"PARE" + bytes(40) + struct.pack("<L", 30) + b"PARE").outcome is Outcome.ENCRYPTED


def test_table_past_the_time_limit_is_partially_checked() -> None:
    with source_of(encode_table(encode_page(NUMBERS, 500), 500, 500)) as source:
        assert FORMAT.examine(source, Limits(soft_seconds=-1)).measures["partially_checked"] is True


@each_row(
    "data",
    [
        b"",
        b"\x15",
        b"\x15\x80",
        b"\x1c" * 40,
        b"\x19\xfc\xff\xff\xff\xff\x0f",
        b"\x15\2\x05\2\2\0",
        b"\x1f\0",
        b"\x18\x7fshort",
    ],
)
def test_invalid_thrift_raises_an_error(data: bytes) -> None:
    with pytest.raises(ThriftError):
        CompactReader(data).read_struct()


def test_thrift_structures_round_trip() -> None:
    values = {1: -3, 2: b"text", 5: [1, 2, 3], 15: {1: 2**40}}
    assert CompactReader(encode_struct(values)).read_struct() == values
