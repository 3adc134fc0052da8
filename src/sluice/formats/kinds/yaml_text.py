"""YAML: text as in `plaintext.py`, since strict parsers refuse what others read. Aliases that multiply are a bomb, as entities of XML are.

Blank when it holds nothing but comments, nulls and empty values, in whatever keys and lists.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sluice.formats.budget import Deadline
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.text.plaintext import INVISIBLE, check_text, encoding_of, read_text
from sluice.formats.verdict import Finding, Limits, Measure, Unsafe

_MARK: Final = re.compile(r"(?:^|(?<=[\s\[{,]))([&*])([^\s\[\]{},]{1,200})")
_NODES_MOST: Final = 1_000_000
_HOLDERS_MOST: Final = 64
_LINE_MOST: Final = 64 * 1024
_LOOK_AT_CLOCK: Final = 4096
_SHORT: Final = 4096
"""A longer line is content, unless it is a comment."""
_NOTHING: Final = frozenset({"", "-", "~", "null", "Null", "NULL", '""', "''"})
_NO_PLAIN_KEY: Final = "\"'&*!|>%@`{[?,"
"""What a key does not begin with, unless it is more than a plain word."""


def _recognises(_source: Source) -> bool:
    return False


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    measures = check_text(source)
    if _has_anchor(source):
        _refuse_multiplying(_lines(source), Deadline(limits.soft_seconds))
    return measures


def _has_anchor(source: Source) -> bool:
    stream = source.open()
    return any(b"&" in piece for piece in iter(lambda: stream.read(_LINE_MOST), b""))


@dataclass(frozen=True, slots=True)
class _Anchor:
    """A name for a value, and the line on which the value begins."""

    name: str
    indent: int
    is_item: bool

    def ends_before(self, indent: int, *, is_item: bool) -> bool:
        """Whether the value ends before such a line: where the indentation comes back, but for the items of a list right below its key."""
        return indent < self.indent or (indent == self.indent and (self.is_item or not is_item))


def _refuse_multiplying(lines: Iterator[str], deadline: Deadline) -> None:
    """Raise `Unsafe` when aliases stand for far more than is written: each counts as much as those within what it stands for."""
    weights: dict[str, int] = {}
    within: list[_Anchor] = []
    for count, line in enumerate(lines):
        text = line.lstrip(" ")
        indent, is_item = len(line) - len(text), text.startswith("-")
        while text and within and within[-1].ends_before(indent, is_item=is_item):
            within.pop()
        for kind, name in _MARK.findall(text):
            if kind == "&":
                weights[name] = 1
                within = [*within[-_HOLDERS_MOST:], _Anchor(name, indent, is_item)]
            else:
                _weigh(weights, {anchor.name for anchor in within} - {name}, weights.get(name, 0))
        if count % _LOOK_AT_CLOCK == 0 and deadline.has_passed:
            return


def _weigh(weights: dict[str, int], holders: set[str], weight: int) -> None:
    for holder in holders:
        weights[holder] += weight
        if weights[holder] > _NODES_MOST:
            raise Unsafe(Finding.ARCHIVE_BOMB, "the YAML holds aliases that multiply into far more than the file holds")


def _lines(source: Source) -> Iterator[str]:
    """Yield the lines, overlong ones in pieces."""
    rest = ""
    for piece in read_text(source, encoding_of(source)):
        *lines, rest = (rest + piece).splitlines() or [""]
        yield from lines
        if len(rest) > _LINE_MOST:
            yield rest
            rest = ""
    yield rest


def _blank(source: Source, _limits: Limits) -> str | None:
    if all(_says_nothing(line.strip(INVISIBLE)) for line in _lines(source)):
        return "the YAML holds nothing but comments, nulls and empty values"
    return None


def _says_nothing(line: str) -> bool:
    """Whether a line is empty, a comment, a mark between documents, or a key or an item whose value is empty."""
    if not line or line.startswith(("#", "%")) or line in {"---", "..."}:
        return True
    if len(line) > _SHORT:
        return False
    line = line.removeprefix("--- ")
    while line.startswith("- "):
        line = line[2:].lstrip()
    key, colon, value = line.partition(":")
    if colon and (key[:1] in _NO_PLAIN_KEY or (value and not value.startswith(" "))):
        return False
    rest = f" {value if colon else line} ".split(" #")[0].strip()
    return rest in _NOTHING or rest.replace(" ", "") in {"{}", "[]"}


KIND: Final = Kind(
    name="yaml",
    content_type="application/yaml",
    extensions=frozenset({"yaml", "yml"}),
    recognises=_recognises,
    check=_check,
    blank=_blank,
    sample=lambda: b"name: sample\nvalues: [1, 2.5, true]\n",
    is_text=True,
)
