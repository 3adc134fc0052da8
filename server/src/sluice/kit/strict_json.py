"""A strict JSON parser for untrusted input: what other parsers could read differently is refused."""

import json
import math
from collections.abc import Iterator
from typing import Final, NoReturn

MAX_DEPTH: Final = 32


class NotStrictJson(ValueError):
    """The text is not JSON, or ambiguous. `str()` names the problem."""


def read_json(raw: bytes | str, *, max_depth: int = MAX_DEPTH) -> object:
    """Parse one JSON text (RFC 8259) in UTF-8.

    Raise `NotStrictJson`, also for what parsers read differently or cannot store: duplicate names, NaN and Infinity,
    lone surrogates, and nesting deeper than `max_depth`.
    """
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
    except UnicodeDecodeError as error:
        raise NotStrictJson("not UTF-8") from error
    if not text.strip():
        raise NotStrictJson("expected JSON, found nothing")
    if _nesting_depth(text) > max_depth:
        raise NotStrictJson(f"nested deeper than {max_depth} levels")
    try:
        value = json.loads(
            text, object_pairs_hook=_unique_members, parse_constant=_refuse_constant, parse_float=_finite_float
        )
    except json.JSONDecodeError as error:
        raise NotStrictJson(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except ValueError as error:
        raise NotStrictJson(
            str(error) if isinstance(error, NotStrictJson) else "a number too long to be read"
        ) from error
    for string in _strings(value):
        if not string.isascii() and any("\ud800" <= letter <= "\udfff" for letter in string):
            raise NotStrictJson("a string with a lone surrogate")
    return value


def _unique_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotStrictJson("an object that names a member twice")
    return found


def _finite_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise NotStrictJson("a number too large to be read")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise NotStrictJson(f"{name} is not JSON")


def _nesting_depth(text: str) -> int:
    """Return the deepest nesting of brackets outside strings, without recursion."""
    depth = deepest = 0
    inside = escaped = False
    for letter in text:
        if inside:
            inside = escaped or letter != '"'
            escaped = not escaped and letter == "\\"
        elif letter == '"':
            inside = True
        elif letter in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in "]}":
            depth -= 1
    return deepest


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from _strings(member)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
