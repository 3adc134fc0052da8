"""YAML: text, since strict parsers refuse what others read. Aliases that multiply are a bomb, as in XML."""
# Blank when it holds nothing but comments, nulls and empty values, in whatever keys and lists.

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.format import Examination, Family, Format, has_no_flags, named
from sluice_inspect.report import Finding, Limits, Unsafe
from sluice_inspect.source import Source
from sluice_inspect.text.plaintext import INVISIBLE, check_text, read_text

_ANCHOR_OR_ALIAS: Final = re.compile(r"(?:^|(?<=[\s\[{,]))([&*])([^\s\[\]{},]{1,200})")
_NODES_MAX: Final = 1_000_000
_ENCLOSING_MAX: Final = 64
_LINE_MAX: Final = 64 * 1024
_LINES_PER_DEADLINE_CHECK: Final = 4096
_EMPTY_LINE_MAX: Final = 4096  # a longer line is content, unless it is a comment
_EMPTY_VALUES: Final = frozenset({"", "-", "~", "null", "Null", "NULL", '""', "''"})
_NOT_PLAIN_KEY: Final = "\"'&*!|>%@`{[?,"  # first characters of a key that is more than a plain word


@dataclass(frozen=True, slots=True)
class _Anchor:
    name: str
    indent: int
    is_item: bool

    def ends_before(self, indent: int, *, is_item: bool) -> bool:
        # A value ends where the indentation returns, except that the items of a list may stand right below its key.
        return indent < self.indent or (indent == self.indent and (self.is_item or not is_item))


def _examine(source: Source, limits: Limits) -> Examination:
    measures = check_text(source)
    stream = source.open()
    if any(b"&" in piece for piece in iter(lambda: stream.read(_LINE_MAX), b"")):
        _refuse_multiplication(_read_lines(source), Deadline(limits.soft_seconds))

    def blank() -> str | None:
        if all(_is_empty(line.strip(INVISIBLE)) for line in _read_lines(source)):
            return "the YAML holds nothing but comments, nulls and empty values"
        return None

    return Examination(measures, blank)


def _refuse_multiplication(lines: Iterator[str], deadline: Deadline) -> None:
    """Raise `Unsafe` if aliases stand for far more than is written."""
    # An alias weighs as much as its anchor, which weighs one and the aliases in its value.
    weights: dict[str, int] = {}
    enclosing: list[_Anchor] = []
    for number, line in enumerate(lines):
        text = line.lstrip(" ")
        indent, is_item = len(line) - len(text), text.startswith("-")
        while text and enclosing and enclosing[-1].ends_before(indent, is_item=is_item):
            enclosing.pop()
        for mark, name in _ANCHOR_OR_ALIAS.findall(text):
            if mark == "&":
                weights[name] = 1
                enclosing = [*enclosing[-_ENCLOSING_MAX:], _Anchor(name, indent, is_item)]
                continue
            for holder in {anchor.name for anchor in enclosing} - {name}:
                weights[holder] += weights.get(name, 0)
                if weights[holder] > _NODES_MAX:
                    detail = "the YAML holds aliases that multiply into far more than the file holds"
                    raise Unsafe(Finding.ARCHIVE_BOMB, detail)
        if number % _LINES_PER_DEADLINE_CHECK == 0 and deadline.has_passed:
            return


def _read_lines(source: Source) -> Iterator[str]:
    rest = ""
    for piece in read_text(source):
        *lines, rest = (rest + piece).splitlines() or [""]
        yield from lines
        if len(rest) > _LINE_MAX:
            yield rest
            rest = ""
    yield rest


def _is_empty(line: str) -> bool:
    """Return whether a line is a comment, a mark between documents, or a key or an item whose value is empty."""
    if not line or line.startswith(("#", "%")) or line in {"---", "..."}:
        return True
    if len(line) > _EMPTY_LINE_MAX:
        return False
    line = line.removeprefix("--- ")
    while line.startswith("- "):
        line = line[2:].lstrip()
    key, colon, value = line.partition(":")
    if colon and (key[:1] in _NOT_PLAIN_KEY or (value and not value.startswith(" "))):
        return False
    rest = f" {value if colon else line} ".split(" #")[0].strip()
    return rest in _EMPTY_VALUES or rest.replace(" ", "") in {"{}", "[]"}


FORMAT: Final = Format(
    name="yaml",
    family=Family.TEXT,
    content_type="application/yaml",
    extensions=frozenset({"yaml", "yml"}),
    examine=_examine,
    facts=has_no_flags,
    sample=lambda: b"name: sample\nvalues: [1, 2.5, true]\n",
    is_text=True,
    names=named("YAML", "yml"),
)
