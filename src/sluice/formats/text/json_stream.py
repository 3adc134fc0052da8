"""Walks JSON text that is too long to hold as values: window by window, element by element. What a document must be is said in `kinds/json_text.py`."""

import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NoReturn

from sluice.formats.verdict import Corrupt, Limits, TooComplex

Json = dict[str, "Json"] | list["Json"] | str | bool | None
"""A parsed value; numbers are kept as the text that they were."""

_ATTEMPT: Final = 64 * 1024
"""Characters in which an array or object is tried as a whole; longer ones are entered."""
_SCALAR_MAX: Final = 1024 * 1024
_S: Final = r"[ \t\n\r]*+"
_N: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
_PLAIN: Final = r'"[^"\\\x00-\x1f]*+"'
_SPACE: Final = re.compile(_S)
_NUMBER: Final = re.compile(_N)
_NAMED: Final = {"[": "", "{": rf"{_S}{_PLAIN}{_S}:"}
_RUN: Final = {mark: re.compile(rf"(?:{name}{_S}(?:{_N}|true|false|null|{_PLAIN}){_S},)++") for mark, name in _NAMED.items()}
"""Many short members at once, each with the comma behind it. Possessive, so that a window costs one pass."""
_RUN_OF_NOTHING: Final = {mark: re.compile(rf'(?:{name}{_S}(?:null|""){_S},)++') for mark, name in _NAMED.items()}
_STRING_PART: Final = re.compile(r'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*')
_ESCAPE_LONGEST: Final = 6
_LITERALS: Final = ("true", "false", "null")


class _Expect(Enum):
    VALUE = auto()
    VALUE_OR_END = auto()
    NAME = auto()
    NAME_OR_END = auto()
    NEXT_OR_END = auto()
    NOTHING = auto()


_MAY_END: Final = (_Expect.VALUE_OR_END, _Expect.NAME_OR_END, _Expect.NEXT_OR_END)
_WANTS_NAME: Final = (_Expect.NAME, _Expect.NAME_OR_END)


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk found: anything but nulls and empty values, and whether it reached the end in its time."""

    has_content: bool
    finished: bool


def decoder() -> json.JSONDecoder:
    """Answer a strict decoder that leaves numbers as text, however long, and refuses NaN and infinities."""
    return json.JSONDecoder(parse_constant=_refuse_constant, parse_int=str, parse_float=str)


def is_empty(value: Json) -> bool:
    """Answer whether a value is null, white space, or nothing but such in arrays and objects. 0 and false are content."""
    left = [value]
    while left:
        match left.pop():
            case dict() as members:
                left.extend(members.values())
            case list() as members:
                left.extend(members)
            case str() as text if not text.strip():
                pass
            case None:
                pass
            case _:
                return False
    return True


def keep_shallow(value: Json, limits: Limits, above: int = 0) -> None:
    """Raise `TooComplex` for a value that nests deeper than the limits allow, `above` levels around it counted."""
    level, depth = _containers([value]), above
    while level:
        depth += 1
        if depth > limits.max_json_depth:
            raise TooComplex(f"the JSON nests deeper than {limits.max_json_depth} levels")
        level = _containers(member for container in level for member in _members(container))


def walk(pieces: Iterator[str], limits: Limits) -> Walked:
    """Read one document to its end. Raises `Corrupt` where it is not JSON, `TooComplex` past the depth; errors of `pieces` pass through."""
    walker = _Walker(_Window(pieces), limits)
    deadline = time.monotonic() + limits.soft_seconds
    while not walker.done():
        if time.monotonic() > deadline:
            return Walked(has_content=True, finished=False)
        walker.step()
    return Walked(has_content=walker.has_content, finished=True)


def _containers(values: Iterable[Json]) -> list[dict[str, Json] | list[Json]]:
    return [value for value in values if isinstance(value, dict | list)]


def _members(container: dict[str, Json] | list[Json]) -> Iterable[Json]:
    return container.values() if isinstance(container, dict) else container


def _refuse_constant(name: str) -> NoReturn:
    raise Corrupt(f"the JSON holds {name}, which is no JSON value")


class _Window:
    """The part of the text that is held, and where in it the walk stands."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._passed = 0
        self.text = ""
        self.at = 0
        self.ended = False

    def fill(self, ahead: int) -> None:
        """Hold at least `ahead` characters from here on, or all that are left."""
        if len(self.text) - self.at >= ahead or self.ended:
            return
        parts = [self.text[self.at :]]
        held = len(parts[0])
        while held < ahead + _ATTEMPT and not self.ended:
            piece = next(self._pieces, None)
            self.ended = piece is None
            parts.append(piece or "")
            held += len(piece or "")
        self._passed += self.at
        self.text, self.at = "".join(parts), 0

    def skip_space(self) -> str:
        """Step over white space; answer the next character, or nothing at the end."""
        while True:
            self.fill(1)
            found = _SPACE.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self.text) or self.ended:
                return self.text[self.at : self.at + 1]

    def refuse(self, wanted: str) -> NoReturn:
        raise Corrupt(f"the JSON breaks at character {self._passed + self.at}: {wanted} expected")


@dataclass(slots=True)
class _Walker:
    window: _Window
    limits: Limits
    decoder: json.JSONDecoder = field(default_factory=decoder)
    has_content: bool = False
    around: list[str] = field(default_factory=list)
    expect: _Expect = _Expect.VALUE

    def done(self) -> bool:
        if self.expect is not _Expect.NOTHING:
            return False
        if self.window.skip_space():
            self.window.refuse("the end")
        return True

    def step(self) -> None:
        letter = self.window.skip_space()
        if self.expect in _MAY_END and letter and letter in "]}":
            self._leave(letter)
        elif self.expect is _Expect.NEXT_OR_END:
            self._pass(",")
            self.expect = _Expect.NAME if self.around[-1] == "{" else _Expect.VALUE
        elif self.around and self._run():
            self.expect = _Expect.NAME if self.around[-1] == "{" else _Expect.VALUE
        elif self.expect in _WANTS_NAME:
            self._string()
            self.window.skip_space()
            self._pass(":")
            self.expect = _Expect.VALUE
        else:
            self._value(letter)

    def _run(self) -> bool:
        """Step over as many short members of the innermost array or object as stand in the window; answer whether there were any."""
        window = self.window
        inside_member = self.around[-1] == "{" and self.expect is _Expect.VALUE
        window.fill(_ATTEMPT)
        found = None if inside_member else _RUN[self.around[-1]].match(window.text, window.at)
        if found is None:
            return False
        window.at = found.end()
        self.has_content = self.has_content or not _RUN_OF_NOTHING[self.around[-1]].fullmatch(found.group())
        return True

    def _pass(self, letter: str) -> None:
        self.window.fill(1)
        if not self.window.text.startswith(letter, self.window.at):
            self.window.refuse(repr(letter))
        self.window.at += 1

    def _leave(self, letter: str) -> None:
        if self.around.pop() + letter not in {"[]", "{}"}:
            self.window.refuse("the other bracket")
        self.window.at += 1
        self._value_ended()

    def _value_ended(self) -> None:
        self.expect = _Expect.NEXT_OR_END if self.around else _Expect.NOTHING

    def _value(self, letter: str) -> None:
        if letter in {"[", "{"}:
            if not self._whole():
                self._enter(letter)
            return
        if letter == '"':
            self.has_content |= self._string()
        elif letter and letter in "-0123456789":
            self._number()
        else:
            self._literal()
        self._value_ended()

    def _whole(self) -> bool:
        """Take an array or object in one piece, if it fits into the window."""
        window = self.window
        window.fill(_ATTEMPT)
        try:
            value, end = self.decoder.raw_decode(window.text, window.at)
        except (ValueError, RecursionError):
            return False
        brackets = window.text.count("[", window.at, end) + window.text.count("{", window.at, end)
        if len(self.around) + brackets > self.limits.max_json_depth:
            keep_shallow(value, self.limits, len(self.around))
        window.at = end
        self.has_content = self.has_content or not is_empty(value)
        self._value_ended()
        return True

    def _enter(self, letter: str) -> None:
        self.around.append(letter)
        if len(self.around) > self.limits.max_json_depth:
            raise TooComplex(f"the JSON nests deeper than {self.limits.max_json_depth} levels")
        self.window.at += 1
        self.expect = _Expect.NAME_OR_END if letter == "{" else _Expect.VALUE_OR_END

    def _string(self) -> bool:
        """Step over a string of any length; answer whether it has a visible part."""
        window, visible = self.window, False
        self._pass('"')
        while True:
            window.fill(_ESCAPE_LONGEST)
            found = _STRING_PART.match(window.text, window.at)
            end = found.end() if found else window.at
            visible = visible or bool(window.text[window.at : end].strip())
            stuck, window.at = end == window.at, end
            if window.text.startswith('"', end):
                window.at += 1
                return visible
            left = len(window.text) - end
            if (window.ended and (stuck or not left)) or (stuck and left >= _ESCAPE_LONGEST):
                window.refuse("the rest of a string")

    def _number(self) -> None:
        window = self.window
        window.fill(_SCALAR_MAX)
        found = _NUMBER.match(window.text, window.at)
        if found is None:
            window.refuse("a digit")
        if found.end() - window.at >= _SCALAR_MAX:
            raise TooComplex("the JSON holds a number of a million digits")
        window.at = found.end()
        self.has_content = True

    def _literal(self) -> None:
        self.window.fill(len("false"))
        word = next((word for word in _LITERALS if self.window.text.startswith(word, self.window.at)), None)
        if word is None:
            self.window.refuse("a value")
        self.window.at += len(word)
        self.has_content = self.has_content or word != "null"
