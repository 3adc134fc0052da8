import gzip
import struct
from collections.abc import Callable

import brotli
import cramjam
import lz4.block
import pytest
import zstandard

from sluice.formats.kinds.parquet import KIND
from sluice.formats.tables.parquet_sample import closed, file_of, page, sample_parquet, thrift
from sluice.formats.tables.thrift import BadThrift, Reader
from sluice.formats.verdict import Limits, Outcome
from tests.formats.judging import Judged, corpus, needs_corpus, source_of
from tests.formats.judging import judge as judge_kind

NUMBERS = struct.pack("<500l", *range(500))
OPTIONAL = {3: 1}
REPEATED = {3: 2}
TEXT = {1: 6}


def judge(data: bytes, limits: Limits | None = None) -> Judged:
    return judge_kind(KIND, data, limits)


def levels(*runs: tuple[int, int]) -> bytes:
    """Answer levels as runs of (length, level), their bytes in front."""
    data = b"".join(bytes([length << 1, level]) for length, level in runs)
    return struct.pack("<L", len(data)) + data


def second_version(front: tuple[bytes, bytes], data: bytes, values: int, nulls: int, rows: int) -> bytes:
    repetitions, definitions = front
    told = {1: values, 2: nulls, 3: rows, 4: 0, 5: len(definitions), 6: len(repetitions)}
    whole = repetitions + definitions + data
    return thrift({1: 3, 2: len(whole), 3: len(whole), 8: told}) + whole


def with_dictionary(entries: int, numbers: bytes, values: int) -> bytes:
    dictionary = NUMBERS[: 4 * entries]
    header = thrift({1: 2, 2: len(dictionary), 3: len(dictionary), 7: {1: entries, 2: 0}})
    return file_of(header + dictionary + page(numbers, values, encoding=8), values, values)


def test_a_table_is_sound_and_not_blank() -> None:
    judged = judge(sample_parquet())
    assert judged.recognised
    assert judged.outcome is Outcome.OK, judged.detail
    assert judged.blank is None


def test_it_measures_rows_and_columns() -> None:
    with source_of(file_of(page(NUMBERS, 500), 500, 500)) as source:
        assert KIND.check(source, Limits()) == {"rows": 500, "columns": 1}


@pytest.mark.parametrize("part", range(1, 40))
def test_a_cut_table_is_corrupt(part: int) -> None:
    data = file_of(page(NUMBERS, 500), 500, 500)
    assert judge(data[: len(data) * part // 40]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
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
    assert judge(file_of(page(NUMBERS, 500, packed=packed), 500, 500, codec=codec)).outcome is Outcome.OK
    for wrong in (packed[:-2], pack(NUMBERS[:-4]), pack(NUMBERS + b"more")):
        assert judge(file_of(page(NUMBERS, 500, packed=wrong), 500, 500, codec=codec)).outcome is Outcome.CORRUPT


def test_hadoop_puts_the_sizes_in_front_of_lz4() -> None:
    block = lz4.block.compress(NUMBERS, store_size=False)
    packed = struct.pack(">LL", len(NUMBERS), len(block)) + block
    assert judge(file_of(page(NUMBERS, 500, packed=packed), 500, 500, codec=5)).outcome is Outcome.OK


def test_gzip_may_come_in_members() -> None:
    packed = gzip.compress(NUMBERS[:1000]) + gzip.compress(NUMBERS[1000:])
    assert judge(file_of(page(NUMBERS, 500, packed=packed), 500, 500, codec=2)).outcome is Outcome.OK


def test_a_codec_that_is_not_known_is_no_damage() -> None:
    with source_of(file_of(page(NUMBERS, 500, packed=b"lzo"), 500, 500, codec=3)) as source:
        assert KIND.check(source, Limits())["partially_checked"] is True


def test_a_wrong_checksum_is_corrupt() -> None:
    data = file_of(page(NUMBERS, 500), 500, 500)
    assert "checksum" in judge(data.replace(NUMBERS[40:44], b"\1\2\3\4", 1)).detail


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(file_of(page(NUMBERS[:-4], 500), 500, 500), id="a value too few"),
        pytest.param(file_of(page(NUMBERS, 499), 500, 500), id="a page that has fewer values than its column"),
        pytest.param(file_of(page(NUMBERS, 500), 499, 499), id="a page that has more"),
        pytest.param(file_of(page(NUMBERS, 500), 500, 499), id="fewer rows than values"),
        pytest.param(file_of(page(NUMBERS, 500), 500, 500, leaf={1: 8}), id="no such type"),
        pytest.param(file_of(page(NUMBERS, 500), 500, 500, leaf={3: 7}), id="no such repetition"),
        pytest.param(file_of(page(b"\5\0\0\0ab", 1), 1, 1, leaf=TEXT), id="a text longer than its page"),
        pytest.param(file_of(page(levels((4, 2)) + NUMBERS[:16], 4), 4, 4, leaf=OPTIONAL), id="a level too high"),
        pytest.param(file_of(page(levels((3, 1)) + NUMBERS[:16], 4), 4, 4, leaf=OPTIONAL), id="too few levels"),
        pytest.param(
            file_of(page(levels((1, 1), (3, 0)) + levels((4, 1)) + NUMBERS[:16], 4), 4, 3, leaf=REPEATED),
            id="a row that goes on first",
        ),
        pytest.param(with_dictionary(4, bytes([3, 8 << 1, 4]), 8), id="an entry that the dictionary lacks"),
        pytest.param(with_dictionary(4, bytes([33, 8 << 1, 4]), 8), id="an impossible width"),
        pytest.param(file_of(page(bytes([1, 8 << 1, 0]), 8, encoding=8), 8, 8), id="no dictionary"),
        pytest.param(file_of(b"", 3, 3), id="no page"),
        pytest.param(closed(b"", [{4: b"schema", 5: 2}, {1: 1, 3: 0, 4: b"a"}], [], 0), id="half a schema"),
        pytest.param(closed(b"", [], [], 0), id="no schema"),
        pytest.param(b"PAR1" + bytes(20) + b"PAR1", id="no footer"),
        pytest.param(b"PAR1PAR1", id="nothing"),
    ],
)
def test_what_does_not_add_up_is_corrupt(data: bytes) -> None:
    assert judge(data).outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(file_of(page(levels((2, 1), (2, 0)) + NUMBERS[:8], 4), 4, 4, leaf=OPTIONAL), id="nulls"),
        pytest.param(file_of(page(levels((1, 0), (3, 1)) + levels((4, 1)) + NUMBERS[:16], 4), 4, 1, leaf=REPEATED), id="a list"),
        pytest.param(file_of(page(b"\2\0\0\0ab\0\0\0\0", 2), 2, 2, leaf=TEXT), id="texts"),
        pytest.param(with_dictionary(4, bytes([2, 3, 0b11100100, 0b11100100]), 8), id="packed numbers of a dictionary"),
        pytest.param(file_of(page(NUMBERS[:2000], 500) + page(NUMBERS, 500), 1000, 1000), id="two pages"),
        pytest.param(
            file_of(second_version((b"", bytes([4 << 1, 1])), NUMBERS[:16], 4, 0, 4), 4, 4, leaf=OPTIONAL), id="second version"
        ),
        pytest.param(file_of(page(b"\x80\1\4\4\2" + b"\2" + bytes(4), 4, encoding=5), 4, 4), id="differences"),
    ],
)
def test_every_encoding_is_followed(data: bytes) -> None:
    judged = judge(data)
    assert judged.outcome is Outcome.OK, judged.detail
    assert judged.blank is None


def test_levels_that_contradict_their_header_are_corrupt() -> None:
    data = second_version((b"", bytes([4 << 1, 1])), NUMBERS[:16], 4, 1, 4)
    assert judge(file_of(data, 4, 4, leaf=OPTIONAL)).outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    "data",
    [
        closed(b"", [{4: b"schema", 5: 1}, {1: 1, 3: 0, 4: b"a"}], [], 0),
        file_of(page(levels((4, 0)), 4), 4, 4, leaf=OPTIONAL),
        file_of(second_version((b"", bytes([4 << 1, 0])), b"", 4, 4, 4), 4, 4, leaf=OPTIONAL),
    ],
)
def test_a_table_without_rows_or_values_is_blank(data: bytes) -> None:
    judged = judge(data)
    assert judged.outcome is Outcome.OK, judged.detail
    assert judged.blank


def test_an_encrypted_footer_is_encrypted() -> None:
    assert judge(b"PARE" + bytes(40) + struct.pack("<L", 30) + b"PARE").outcome is Outcome.ENCRYPTED


def test_the_rest_passes_when_the_time_is_over() -> None:
    with source_of(file_of(page(NUMBERS, 500), 500, 500)) as source:
        assert KIND.check(source, Limits(soft_seconds=-1))["partially_checked"] is True


@pytest.mark.parametrize(
    "data",
    [b"", b"\x15", b"\x15\x80", b"\x1c" * 40, b"\x19\xfc\xff\xff\xff\xff\x0f", b"\x15\2\x05\2\2\0", b"\x1f\0", b"\x18\x7fshort"],
)
def test_what_is_no_structure_is_told(data: bytes) -> None:
    with pytest.raises(BadThrift):
        Reader(data).fields()


def test_structures_are_read_as_they_were_written() -> None:
    fields = {1: -3, 2: b"text", 5: [1, 2, 3], 15: {1: 2**40}}
    assert Reader(thrift(fields)).fields() == fields


@needs_corpus
def test_the_files_of_the_corpus_are_judged_right() -> None:
    assert [path.name for path in corpus("parquet", "valid", "not_blank") if not judge(path.read_bytes()).passes] == []
    assert [path.name for path in corpus("parquet", "blank") if not judge(path.read_bytes()).blank] == []
    assert [path.name for path in corpus("parquet", "not_blank") if judge(path.read_bytes()).blank] == []
