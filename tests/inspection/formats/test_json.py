import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.formats.kinds import json_text
from sluice.formats.kinds.json_text import KIND
from sluice.formats.text.json_stream import walk
from sluice.formats.verdict import Corrupt, Limits, Outcome, TooComplex
from tests.formats.judging import corpus, judge, needs_corpus

GOOD = [
    '{"a": 1}',
    " [1, 2.5e3, -0]\n",
    "0",
    "false",
    '"x"',
    '\ufeff{"a": "b"}',
    '{"a": 1, "a": 2}',
    '"\\ud800"',
    "1" * 5000,
    '["\\u0000"]',
]
BROKEN = [
    "{",
    "[1,]",
    "{'a': 1}",
    "[1] 2",
    "NaN",
    "[Infinity]",
    "01",
    "+1",
    '"a\nb"',
    "tru",
    '{"a" 1}',
    "[1}",
    "\x0b1",
    '"\\x"',
    "nul",
    '{"a":1,}',
]
EMPTY = ["null", '""', "{}", "[]", "[[], {}, [null]]", '{"a": {"b": ""}}', '["  "]']


def in_pieces(text: str, size: int) -> Iterator[str]:
    return (text[place : place + size] for place in range(0, len(text), size))


def parses(text: str) -> bool:
    try:
        json.loads(text, parse_int=str)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("text", GOOD)
def test_what_the_standard_allows_passes(text: str) -> None:
    judged = judge(KIND, text.encode())
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize("text", BROKEN)
def test_what_the_standard_forbids_is_corrupt(text: str) -> None:
    assert judge(KIND, text.encode()).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("data", ['{"é": 1}'.encode("latin-1"), '{"a": 1}'.encode("utf-16"), b'"\xed\xa0\x80"', b'"\xc0\xaf"'])
def test_other_encodings_than_utf8_are_corrupt(data: bytes) -> None:
    assert judge(KIND, data).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("text", EMPTY)
def test_nests_of_nothing_are_blank(text: str) -> None:
    assert judge(KIND, text.encode()).blank


@pytest.mark.parametrize("depth", [201, 5_000, 200_000])
def test_deep_nesting_is_too_complex(depth: int) -> None:
    assert judge(KIND, b"[" * depth + b"]" * depth).outcome is Outcome.TOO_COMPLEX


def test_nesting_within_the_limit_passes() -> None:
    assert judge(KIND, b"[" * 199 + b"1" + b"]" * 199).outcome is Outcome.OK


@pytest.mark.parametrize("size", [1, 3, 4096])
@pytest.mark.parametrize("text", [text.removeprefix("\ufeff") for text in GOOD])
def test_a_walk_accepts_what_the_parser_accepts(text: str, size: int) -> None:
    assert walk(in_pieces(text, size), Limits()).has_content


@pytest.mark.parametrize("size", [1, 3, 4096])
@pytest.mark.parametrize("text", BROKEN)
def test_a_walk_refuses_what_the_parser_refuses(text: str, size: int) -> None:
    with pytest.raises(Corrupt):
        walk(in_pieces(text, size), Limits())


@pytest.mark.parametrize("text", EMPTY)
def test_a_walk_sees_that_nothing_is_there(text: str) -> None:
    assert not walk(in_pieces(text, 2), Limits()).has_content


LONG = {
    "one string": json.dumps({"data": "x" * 3_000_000, "tail": [True, None, {"y": -1.5e-7}]}),
    "many rows": json.dumps([{"row": row, "name": 'é\\"' * 5} for row in range(60_000)]),
    "deep inside": json.dumps({"a": {"b": {"c": [[list(range(200_000))], "é" * 300_000]}}}),
    "many numbers": '{"a": [' + "1," * 700_000 + '2], "b": {}}',
}


@pytest.mark.parametrize("shape", LONG)
def test_a_walk_enters_what_no_window_holds(shape: str) -> None:
    walked = walk(in_pieces(LONG[shape], 65_536), Limits())
    assert walked.has_content
    assert walked.finished


@pytest.mark.parametrize("shape", LONG)
@pytest.mark.parametrize("damage", ["\x01", '"]', '",'])
def test_a_walk_finds_damage_in_what_no_window_holds(shape: str, damage: str) -> None:
    middle = len(LONG[shape]) * 2 // 3
    broken = LONG[shape][:middle] + damage + LONG[shape][middle:]
    assert not parses(broken)
    with pytest.raises(Corrupt):
        walk(in_pieces(broken, 65_536), Limits())


def test_a_walk_counts_the_depth_around_its_window_too() -> None:
    wide = "[" * 150 + "1," * 1_000_000 + "[" * 60 + "]" * 210
    with pytest.raises(TooComplex):
        walk(in_pieces(wide, 65_536), Limits())


def test_a_walk_that_runs_out_of_time_says_so() -> None:
    walked = walk(in_pieces("[" + "1," * 2_000_000 + "1]", 65_536), Limits(soft_seconds=0))
    assert not walked.finished


def test_large_files_are_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "_WHOLE", 100)
    assert judge(KIND, json.dumps(list(range(100))).encode()).outcome is Outcome.OK
    assert judge(KIND, json.dumps([None] * 100).encode()).blank
    assert judge(KIND, json.dumps(list(range(100))).encode()[:-1]).outcome is Outcome.CORRUPT


@given(st.text(alphabet='[]{},:"\\ntrue1e-. \x01', max_size=40), st.integers(1, 9))
def test_walk_and_parser_agree(text: str, size: int) -> None:
    try:
        walked = walk(in_pieces(text, size), Limits()).finished
    except Corrupt:
        walked = False
    assert walked == parses(text)


@needs_corpus
def test_the_corpus_is_judged_right() -> None:
    assert [
        path.name for path in corpus("json", "valid", "not_blank") if judge(KIND, path.read_bytes()).outcome is not Outcome.OK
    ] == []
    assert [path.name for path in corpus("json", "corrupt") if judge(KIND, path.read_bytes()).outcome is not Outcome.CORRUPT] == []
