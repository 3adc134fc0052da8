"""Regular expressions mean the same on every Python that is supported.

Before Python 3.11.5 a possessive repetition of a group ends where its last attempt failed, not where that attempt began
(gh-106052), unless a last alternative that never matches is tried there: `(?:a[^b]++b|(?!))*+`. Debian 12 has 3.11.2.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

import pytest

import sluice
import sluice_inspect
from sluice_inspect.text.late_pattern import LatePattern
from tests.rows import each_row

_ONE_CHARACTER: Final = {op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY}
_DEEPEST: Final = 4  # tables of patterns within one another


def affected_groups(tree: Any) -> Iterator[Any]:
    """Yield the groups in possessive repetitions that may fail behind their beginning without a last alternative."""
    for kind, value in tree:
        if kind is op.POSSESSIVE_REPEAT and not _ends_at_beginning(value[2]):
            yield value[2]
        for inner in _trees_in(value):
            yield from affected_groups(inner)


def _trees_in(value: Any) -> Iterator[Any]:
    if isinstance(value, parser.SubPattern):
        yield value
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for each in value:
            yield from _trees_in(each)


def _ends_at_beginning(group: Any) -> bool:
    """Return whether a repetition of the group ends at the beginning of the attempt that fails."""
    items = list(group)
    if [kind for kind, _value in items] != [op.BRANCH]:
        return _fails_at_its_beginning(items)
    alternatives = [list(each) for each in items[0][1][1]]
    return _never_matches(alternatives[-1]) or all(map(_fails_at_its_beginning, alternatives))


def _never_matches(items: Sequence[Any]) -> bool:
    """Return whether it is `(?!)`, which Python 3.11 parses as an assertion without content."""
    (kind, value), *others = items
    return not others and kind in {op.ASSERT_NOT, op.FAILURE} and not any(map(len, _trees_in(value)))


def _fails_at_its_beginning(items: Sequence[Any]) -> bool:
    """Return whether it is characters, of which the last may be repeated."""
    *first, (kind, value) = items
    repeats = kind in {op.POSSESSIVE_REPEAT, op.MAX_REPEAT} and _is_one_character(value[2])
    is_last = kind in _ONE_CHARACTER or (repeats and (not first or value[0] == 0))
    return is_last and all(each in _ONE_CHARACTER for each, _value in first)


def _is_one_character(tree: Any) -> bool:
    return [kind in _ONE_CHARACTER for kind, _value in tree] == [True]


def _patterns_in(value: object, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, LatePattern):
        yield value.compiled
    elif isinstance(value, Mapping | list | tuple | frozenset) and depth < _DEEPEST:
        for each in [*value, *value.values()] if isinstance(value, Mapping) else value:
            yield from _patterns_in(each, depth + 1)


@pytest.mark.parametrize("package", [sluice_inspect, sluice], ids=lambda package: package.__name__)
def test_possessive_groups_of_a_package_end_where_their_last_attempt_began(package: Any) -> None:
    names = [each.name for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    found = {
        (pattern.pattern, name)
        for name in names
        if "migrations" not in name and not name.endswith("__main__")
        for value in vars(importlib.import_module(name)).values()
        for pattern in _patterns_in(value)
        if list(affected_groups(parser.parse(pattern.pattern, pattern.flags)))
    }
    assert found == set()


@each_row(("pattern", "found"), [
    ("(?:ab?c)*+", 1),
    ("(?:ab?c|(?!))*+", 0),
    ("x(?:a|b(?!c))++", 1),
    ("x(?:a|b(?!c)|(?!))++", 0),
    (r"(?:[^\\]|\\.)*+", 0),
    (r"(?:[^\\]++|\\.)*+", 0),
    ("(?:ab++)?+", 1),
    ("(?:ab*+)?+", 0),
    ("(?=(?:a(?:bc?d)*+)?)", 1),
    ("(?:(?:a(?!b))++c|(?!))*+", 1),
])  # fmt: skip
def test_group_is_found_unless_it_fails_at_its_beginning_or_never_matches_last(pattern: str, found: int) -> None:
    assert len(list(affected_groups(parser.parse(pattern)))) == found
