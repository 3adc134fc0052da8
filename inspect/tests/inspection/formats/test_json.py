"""JSON: integrity, limits and blankness, as one piece and as a stream."""

import json
from collections.abc import Iterable, Iterator
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice_inspect.formats import json as json_format
from sluice_inspect.formats.json import FORMAT, check_stream
from sluice_inspect.report import Corrupt, Limits, Outcome, TooComplex
from sluice_inspect.text.late_pattern import LatePattern
from tests.inspection.formats.examining import Row, examine_bytes, verdicts
from tests.rows import each_row

LatePattern.compile_all()  # which takes longer than Hypothesis gives an example on a busy machine

GOOD = [
    '{"a": 1}', " [1, 2.5e3, -0]\n", "0", "false", '"x"', '\ufeff{"a": "b"}', '{"a": 1, "a": 2}', '"\\ud800"',
    "1" * 5000, '["\\u0000"]',
]  # fmt: skip
BROKEN = [
    "{", "[1,]", "{'a': 1}", "[1] 2", "NaN", "[Infinity]", "01", "+1", '"a\nb"', "tru", '{"a" 1}', "[1}", "\x0b1",
    '"\\x"', "nul", '{"a":1,}',
]  # fmt: skip
EMPTY = ["null", '""', "{}", "[]", "[[], {}, [null]]", '{"a": {"b": ""}}', '["  "]', '["  ", "\\n", ""]']


def in_pieces(text: str, size: int) -> Iterator[str]:
    return (text[place : place + size] for place in range(0, len(text), size))


def parses(text: str) -> bool:
    try:
        json.loads(text, parse_int=str)
    except ValueError:
        return False
    return True


@each_row("text", GOOD)
def test_standard_json_passes(text: str) -> None:
    result = examine_bytes(FORMAT, text.encode())
    assert (result.outcome, result.blank) == (Outcome.OK, None)
    for size in (1, 3, 4096):
        assert check_stream(in_pieces(text.removeprefix("\ufeff"), size), Limits()).has_content


@each_row("text", BROKEN)
def test_invalid_json_is_corrupt(text: str) -> None:
    assert examine_bytes(FORMAT, text.encode()).outcome is Outcome.CORRUPT
    for size in (1, 3, 4096):
        with pytest.raises(Corrupt):
            check_stream(in_pieces(text, size), Limits())


@each_row("text", EMPTY)
def test_nested_empty_values_are_blank(text: str) -> None:
    assert examine_bytes(FORMAT, text.encode()).blank
    assert not check_stream(in_pieces(text, 2), Limits()).has_content


@verdicts(FORMAT)
def test_other_encoding_is_corrupt_and_deep_nesting_too_complex() -> Iterable[Row]:
    for data in ('{"é": 1}'.encode("latin-1"), '{"a": 1}'.encode("utf-16"), b'"\xed\xa0\x80"', b'"\xc0\xaf"'):
        yield f"{data!r}", data, "corrupt"
    for depth, word in ((199, "ok"), *((depth, "too_complex") for depth in (201, 5_000, 200_000))):
        yield f"depth {depth}", b"[" * depth + b"1" + b"]" * depth, word


@cache
def long() -> dict[str, str]:
    return {
        "one string": json.dumps({"data": "x" * 700_000, "tail": [True, None, {"y": -1.5e-7}]}),
        "many rows": json.dumps([{"row": row, "name": 'é\\"' * 5} for row in range(15_000)]),
        "deep inside": json.dumps({"a": {"b": {"c": [[list(range(50_000))], "é" * 100_000]}}}),
        "many numbers": '{"a": [' + "1," * 200_000 + '2], "b": {}}',
    }


@each_row("shape", long)
def test_stream_check_reads_values_larger_than_its_window_and_finds_damage_in_them(shape: str) -> None:
    walked = check_stream(in_pieces(long()[shape], 65_536), Limits())
    assert (walked.has_content, walked.finished) == (True, True)
    middle = len(long()[shape]) * 2 // 3
    for damage in ("\x01", '"]', '",'):
        broken = long()[shape][:middle] + damage + long()[shape][middle:]
        assert not parses(broken)
        with pytest.raises(Corrupt):
            check_stream(in_pieces(broken, 65_536), Limits())


def test_stream_check_counts_depth_across_windows() -> None:
    wide = "[" * 150 + "1," * 1_000_000 + "[" * 60 + "]" * 210
    with pytest.raises(TooComplex):
        check_stream(in_pieces(wide, 65_536), Limits())


def test_stream_check_past_the_time_limit_is_unfinished() -> None:
    walked = check_stream(in_pieces("[" + "1," * 2_000_000 + "1]", 65_536), Limits(soft_seconds=0))
    assert not walked.finished


def test_large_files_are_checked_as_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_format, "_ONE_PIECE_BYTES", 100)
    assert examine_bytes(FORMAT, json.dumps(list(range(100))).encode()).outcome is Outcome.OK
    assert examine_bytes(FORMAT, json.dumps([None] * 100).encode()).blank
    assert examine_bytes(FORMAT, json.dumps(list(range(100))).encode()[:-1]).outcome is Outcome.CORRUPT


@given(st.text(alphabet='[]{},:"\\ntrue1e-. \x01', max_size=40), st.integers(1, 9))
def test_stream_check_agrees_with_the_parser(text: str, size: int) -> None:
    try:
        walked = check_stream(in_pieces(text, size), Limits()).finished
    except Corrupt:
        walked = False
    assert walked == parses(text)
