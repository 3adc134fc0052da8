"""The syntax of the sentences: the part of ICU MessageFormat that the catalogues use.

`{name}` is a parameter. `{name, plural, one {# page} other {# pages}}` chooses words by the plural category of
a number in the language (CLDR), with `#` for the number itself; the words may hold parameters. Quoting is not
supported: sentences use typographic apostrophes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

_TOKEN: Final = re.compile(r"[{}#]|[^{}#]+")
_NAME: Final = re.compile(r"[a-z][a-z_]*")
_CATEGORY: Final = re.compile(r"zero|one|two|few|many|other")


class BadPattern(ValueError):
    """A sentence that cannot be read."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for the text of a parameter."""

    name: str


@dataclass(frozen=True, slots=True)
class Plural:
    """Words that depend on a number, by plural category; `other` is always among them."""

    name: str
    words: Mapping[str, "Pattern"]


Part = str | Slot | Plural
Pattern = tuple[Part, ...]


@cache
def parse(text: str) -> Pattern:
    """Return the parts of a sentence; raise `BadPattern`. Only sentences of the catalogues are kept."""
    tokens = iter(_TOKEN.findall(text))
    pattern = tuple(_parts(tokens, None))
    if next(tokens, None) is not None:
        raise BadPattern(f"a brace too many: {text}")
    return pattern


def names_in(pattern: Pattern) -> frozenset[str]:
    """Return the names of all parameters of a pattern."""
    names: set[str] = set()
    for part in pattern:
        if isinstance(part, Slot | Plural):
            names.add(part.name)
        if isinstance(part, Plural):
            names.update(*(names_in(words) for words in part.words.values()))
    return frozenset(names)


def plurals_in(pattern: Pattern) -> Iterator[Plural]:
    """Yield every choice by number in a pattern."""
    for part in pattern:
        if isinstance(part, Plural):
            yield part
            for words in part.words.values():
                yield from plurals_in(words)


def _parts(tokens: Iterator[str], counted: str | None) -> Iterator[Part]:
    """Yield the parts up to the brace that closes them, or to the end; `#` is the parameter `counted`."""
    for piece in tokens:
        if piece == "}":
            if counted is None:
                raise BadPattern("a closing brace without an opening one")
            return
        if piece == "{":
            yield _placeholder(tokens)
        elif piece == "#" and counted is not None:
            yield Slot(counted)
        else:
            yield piece
    if counted is not None:
        raise BadPattern("a closing brace is missing")


def _placeholder(tokens: Iterator[str]) -> Slot | Plural:
    name, *rest = (word.strip() for word in next(tokens, "").split(","))
    if not _NAME.fullmatch(name):
        raise BadPattern(f"expected the name of a parameter, found {name!r}")
    if not rest:
        if next(tokens, None) != "}":
            raise BadPattern(f"expected a closing brace after {name!r}")
        return Slot(name)
    kind, category = rest[0], rest[-1]
    if kind != "plural" or len(rest) != 2:  # noqa: PLR2004  (the type and the first category)
        raise BadPattern(f"expected `plural` and a category after {name!r}")
    words: dict[str, Pattern] = {}
    while category:
        if not _CATEGORY.fullmatch(category) or category in words or next(tokens, None) != "{":
            raise BadPattern(f"expected the words of a plural category, found {category!r}")
        words[category] = tuple(_parts(tokens, name))
        follows = next(tokens, None)
        category = "" if follows == "}" else (follows or "missing").strip()
        if not category and follows != "}":
            category = "" if next(tokens, None) == "}" else "missing"
    if "other" not in words:
        raise BadPattern(f"the plural of {name!r} has no `other`")
    return Plural(name, words)
