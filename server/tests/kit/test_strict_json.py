"""Strict JSON: input that parsers could read differently is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.kit.strict_json import MAX_DEPTH, NotStrictJson, read_json
from tests.rows import each_row

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON)
def test_json_of_the_standard_writer_is_read_back(value: object) -> None:
    assert read_json(json.dumps(value).encode()) == value


@each_row(
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
def test_ambiguous_json_is_refused_with_a_reason(raw: bytes, problem: str) -> None:
    with pytest.raises(NotStrictJson, match=problem):
        read_json(raw)


def test_depth_counts_brackets_outside_strings() -> None:
    assert read_json(json.dumps(['[[[["{\\"' * 50])) == ['[[[["{\\"' * 50]
    assert read_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
