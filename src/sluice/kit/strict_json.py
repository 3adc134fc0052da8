"""Reading JSON from strangers in exactly one way. What the values mean is judged by the schemas."""

import json
import math
from collections.abc import Iterator
from typing import Final, NoReturn

MAX_DEPTH: Final = 32


class NotStrictJson(ValueError):
    """The text is not JSON, or could be read in two ways. `str()` names the problem."""


def read_json(raw: bytes | str, *, max_depth: int = MAX_DEPTH) -> object:
    """Answer the value of one JSON text (RFC 8259), UTF-8.

    Refuses what parsers read differently or cannot store: duplicate names, NaN and Infinity, lone surrogates, nesting deeper than
    `max_depth`. Raises `NotStrictJson`.
    """
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
    except UnicodeDecodeError as fault:
        raise NotStrictJson("not UTF-8") from fault
    if not text.strip():
        raise NotStrictJson("expected JSON, found nothing")
    if _deepest(text) > max_depth:
        raise NotStrictJson(f"nested deeper than {max_depth} levels")
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as fault:
        raise NotStrictJson(f"not JSON: {fault.msg} at line {fault.lineno}, column {fault.colno}") from fault
    except ValueError as fault:
        raise NotStrictJson(str(fault) if isinstance(fault, NotStrictJson) else "a number too long to be read") from fault
    for string in _strings(value):
        if not string.isascii() and any("\ud800" <= letter <= "\udfff" for letter in string):
            raise NotStrictJson("a string with a lone surrogate")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotStrictJson("an object that names a member twice")
    return found


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise NotStrictJson("a number too large to be read")
    return number


def _no_constant(name: str) -> NoReturn:
    raise NotStrictJson(f"{name} is not JSON")


def _deepest(text: str) -> int:
    """Count brackets outside strings: an upper bound of the depth that needs no recursion."""
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
