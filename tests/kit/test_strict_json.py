"""JSON from strangers is read in one way or not at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.kit.strict_json import MAX_DEPTH, NotStrictJson, read_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON)
def test_what_a_strict_writer_wrote_is_read_back(value: object) -> None:
    assert read_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "found nothing"),
        (b" \n", "found nothing"),
        (b"{", "line 1, column 2"),
        (b'{"a":1,}', "not JSON"),
        (b'{"a":1}{}', "Extra data"),
        (b'{"a":1,"a":2}', "twice"),
        (b'{"x":{"a":1,"a":1}}', "twice"),
        (b"NaN", "NaN"),
        (b"[-Infinity]", "-Infinity"),
        (b"1e999", "too large"),
        (b"1" * 5000, "too long"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\udfff":1}', "surrogate"),
        (b'"\xff"', "UTF-8"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "deeper"),
        (b"[" * 100_000, "deeper"),
    ],
)
@pytest.mark.asvs("1.5.3")
def test_what_parsers_read_differently_is_refused_with_its_reason(raw: bytes, problem: str) -> None:
    with pytest.raises(NotStrictJson, match=problem):
        read_json(raw)


def test_depth_is_counted_in_brackets_and_not_in_strings() -> None:
    assert read_json(json.dumps(['[[[["{\\"' * 50])) == ['[[[["{\\"' * 50]
    assert read_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
