"""JSON by RFC 8259: strict UTF-8, one value, no NaN, bounded depth. A byte order mark is accepted."""
# Small documents are parsed in one piece; larger ones pass through a window of text, so that memory stays bounded.

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NoReturn

from sluice_inspect.budget import Deadline
from sluice_inspect.format import Examination, Family, Format, has_no_flags
from sluice_inspect.report import Corrupt, Limits, TooComplex
from sluice_inspect.source import Source
from sluice_inspect.text.late_pattern import LatePattern
from sluice_inspect.text.plaintext import read_text

Json = dict[str, "Json"] | list["Json"] | str | bool | None  # a parsed value; numbers stay the text that they were

_ONE_PIECE_BYTES: Final = 1024**2
_WINDOW_CHARACTERS: Final = 64 * 1024  # an array or object up to this length is parsed at once; a longer one is entered
_NUMBER_DIGITS_MAX: Final = 1024 * 1024
_ESCAPE_MAX: Final = len("\\u0000")
_WHITE_SPACE: Final = " \t\n\r"

# Possessive quantifiers: a window costs one pass.
_SPACES: Final = r"[ \t\n\r]*+"
_NUMBER_TEXT: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++|)(?:[eE][+-]?[0-9]++|)"
_PLAIN_STRING: Final = r'"[^"\\\x00-\x1f]*+"'
_SPACE: Final = re.compile(_SPACES)
_NUMBER: Final = re.compile(_NUMBER_TEXT)
_STRING_PART: Final = re.compile(r'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*')
_LITERALS: Final = ("true", "false", "null")
# Many short members at once, each with the comma after it, inside an array and inside an object.
_MEMBER_NAME: Final = {"[": "", "{": rf"{_SPACES}{_PLAIN_STRING}{_SPACES}:"}
_MEMBERS: Final = {
    bracket: LatePattern(rf"(?:{name}{_SPACES}(?:{_NUMBER_TEXT}|true|false|null|{_PLAIN_STRING}){_SPACES},|(?!))++")
    for bracket, name in _MEMBER_NAME.items()
}
# The same with escapes, and with arrays and objects up to this depth: once there is content, nothing else of
# them matters.
_NESTED_LEVELS: Final = 3
_STRING: Final = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+|(?!))*+"'


def _nested_value(levels: int) -> str:
    plain = rf"(?:{_STRING}|{_NUMBER_TEXT}|true|false|null"
    if not levels:
        return f"{plain})"
    value = rf"{_SPACES}{_nested_value(levels - 1)}{_SPACES}"
    member = rf"{_SPACES}{_STRING}{_SPACES}:{value}"
    each_array, each_object = (rf"(?:{each}(?:,{each}|(?!))*+|{_SPACES})" for each in (value, member))
    return rf"{plain}|\{{{each_object}\}}|\[{each_array}\])"


_NESTED_NAME: Final = {"[": "", "{": rf"{_SPACES}{_STRING}{_SPACES}:"}
_NESTED_MEMBERS: Final = {
    bracket: LatePattern(rf"(?:{name}{_SPACES}{_nested_value(_NESTED_LEVELS)}{_SPACES},|(?!))++")
    for bracket, name in _NESTED_NAME.items()
}
_EMPTY_MEMBERS: Final = {
    bracket: LatePattern(rf'(?:{name}{_SPACES}(?:null|"\s*+"){_SPACES},|(?!))++')
    for bracket, name in _MEMBER_NAME.items()
}


def _examine(source: Source, limits: Limits) -> Examination:
    if source.size > _ONE_PIECE_BYTES:
        result = check_stream(read_text(source, "utf-8-sig"), limits)
        is_empty, finished = not result.has_content, result.finished
    else:
        is_empty, finished = _is_empty(_parse("".join(read_text(source, "utf-8-sig")), limits)), True
    blank = "the JSON holds nothing but nulls and empty values" if is_empty else None
    return Examination({} if finished else {"partially_checked": True}, lambda: blank)


def _parse(text: str, limits: Limits) -> Json:
    try:
        value: Json
        value, end = _decoder().raw_decode(text, len(text) - len(text.lstrip(_WHITE_SPACE)))
    except json.JSONDecodeError as error:
        raise Corrupt(f"the JSON breaks in line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise _too_deep(limits) from error
    if text[end:].strip(_WHITE_SPACE):
        raise Corrupt(f"the JSON value ends at character {end}, but more follows it")
    _check_depth(value, limits)
    return value


def _decoder() -> json.JSONDecoder:
    # Numbers stay text, since Python refuses to convert very long ones; NaN and infinities are no JSON.
    return json.JSONDecoder(parse_constant=_refuse_constant, parse_int=str, parse_float=str)


def _refuse_constant(name: str) -> NoReturn:
    raise Corrupt(f"the JSON holds {name}, which is no JSON value")


def _is_empty(value: Json) -> bool:
    """Return whether a value is null, white space, or arrays and objects of such. 0 and false are content."""
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


def _check_depth(value: Json, limits: Limits, outer_depth: int = 0) -> None:
    """Raise `TooComplex` if a value inside `outer_depth` levels nests deeper than the limits allow."""
    level, depth = _containers([value]), outer_depth
    while level:
        depth += 1
        if depth > limits.max_json_depth:
            raise _too_deep(limits)
        level = _containers(
            member
            for container in level
            for member in (container.values() if isinstance(container, dict) else container)
        )


def _containers(values: Iterable[Json]) -> list[dict[str, Json] | list[Json]]:
    return [value for value in values if isinstance(value, dict | list)]


def _too_deep(limits: Limits) -> TooComplex:
    return TooComplex(f"the JSON nests deeper than {limits.max_json_depth} levels")


@dataclass(frozen=True, slots=True)
class StreamResult:
    """Whether a document has anything but nulls and empty values, and whether its end was reached in time."""

    has_content: bool
    finished: bool


def check_stream(pieces: Iterator[str], limits: Limits) -> StreamResult:
    """Check one document to its end, in constant memory. Errors of `pieces` pass through."""
    parser = _StreamParser(_Window(pieces), limits)
    deadline = Deadline(limits.soft_seconds)
    while not parser.is_done():
        if deadline.has_passed:
            return StreamResult(has_content=True, finished=False)
        parser.step()
    return StreamResult(has_content=parser.has_content, finished=True)


class _Window:
    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._discarded = 0
        self.text = ""
        self.position = 0
        self.ended = False

    def fill(self, needed: int) -> None:
        if len(self.text) - self.position >= needed or self.ended:
            return
        parts = [self.text[self.position :]]
        length = len(parts[0])
        while length < needed + _WINDOW_CHARACTERS and not self.ended:
            piece = next(self._pieces, None)
            self.ended = piece is None
            parts.append(piece or "")
            length += len(piece or "")
        self._discarded += self.position
        self.text, self.position = "".join(parts), 0

    def skip_space(self) -> str:
        """Move past white space and return the next character, "" at the end."""
        while True:
            self.fill(1)
            found = _SPACE.match(self.text, self.position)
            self.position = found.end() if found else self.position
            if self.position < len(self.text) or self.ended:
                return self.text[self.position : self.position + 1]

    def refuse(self, expected: str) -> NoReturn:
        raise Corrupt(f"the JSON breaks at character {self._discarded + self.position}: {expected} expected")


class _Expect(Enum):
    VALUE = auto()
    VALUE_OR_END = auto()
    NAME = auto()
    NAME_OR_END = auto()
    NEXT_OR_END = auto()
    NOTHING = auto()


_MAY_END: Final = (_Expect.VALUE_OR_END, _Expect.NAME_OR_END, _Expect.NEXT_OR_END)
_NEEDS_NAME: Final = (_Expect.NAME, _Expect.NAME_OR_END)


@dataclass(slots=True)
class _StreamParser:
    window: _Window
    limits: Limits
    decoder: json.JSONDecoder = field(default_factory=_decoder)
    has_content: bool = False
    open_brackets: list[str] = field(default_factory=list)
    expect: _Expect = _Expect.VALUE

    def is_done(self) -> bool:
        if self.expect is not _Expect.NOTHING:
            return False
        if self.window.skip_space():
            self.window.refuse("the end")
        return True

    def step(self) -> None:
        character = self.window.skip_space()
        if self.expect in _MAY_END and character and character in "]}":
            if self.open_brackets.pop() + character not in {"[]", "{}"}:
                self.window.refuse("the other bracket")
            self.window.position += 1
            self._end_value()
        elif self.expect is _Expect.NEXT_OR_END:
            self._skip(",")
            self._expect_member()
        elif self.open_brackets and self._skip_members():
            self._expect_member()
        elif self.expect in _NEEDS_NAME:
            self._skip_string()
            self.window.skip_space()
            self._skip(":")
            self.expect = _Expect.VALUE
        else:
            self._skip_value(character)

    def _expect_member(self) -> None:
        self.expect = _Expect.NAME if self.open_brackets[-1] == "{" else _Expect.VALUE

    def _end_value(self) -> None:
        self.expect = _Expect.NEXT_OR_END if self.open_brackets else _Expect.NOTHING

    def _skip(self, character: str) -> None:
        self.window.fill(1)
        if not self.window.text.startswith(character, self.window.position):
            self.window.refuse(repr(character))
        self.window.position += 1

    def _skip_members(self) -> bool:
        """Skip the short members of the innermost array or object in the window; return whether there were any."""
        window, bracket = self.window, self.open_brackets[-1]
        if bracket == "{" and self.expect is _Expect.VALUE:  # between a name and its value
            return False
        window.fill(_WINDOW_CHARACTERS)
        may_nest = self.has_content and len(self.open_brackets) + _NESTED_LEVELS <= self.limits.max_json_depth
        members = (_NESTED_MEMBERS if may_nest else _MEMBERS)[bracket]
        found = members.compiled.match(window.text, window.position)
        if found is None:
            return False
        window.position = found.end()
        self.has_content = self.has_content or not _EMPTY_MEMBERS[bracket].compiled.fullmatch(found.group())
        return True

    def _skip_value(self, character: str) -> None:
        if character in {"[", "{"}:
            if not self._skip_container():
                self.open_brackets.append(character)
                if len(self.open_brackets) > self.limits.max_json_depth:
                    raise _too_deep(self.limits)
                self.window.position += 1
                self.expect = _Expect.NAME_OR_END if character == "{" else _Expect.VALUE_OR_END
            return
        if character == '"':
            self.has_content |= self._skip_string()
        elif character and character in "-0123456789":
            self._skip_number()
        else:
            self._skip_literal()
        self._end_value()

    def _skip_container(self) -> bool:
        """Skip an array or object in one piece; return False if it is longer than the window."""
        window = self.window
        window.fill(_WINDOW_CHARACTERS)
        try:
            value, end = self.decoder.raw_decode(window.text, window.position)
        except (ValueError, RecursionError):
            return False
        # Counting brackets is cheaper than walking the value, and never less than its depth.
        brackets = window.text.count("[", window.position, end) + window.text.count("{", window.position, end)
        if len(self.open_brackets) + brackets > self.limits.max_json_depth:
            _check_depth(value, self.limits, len(self.open_brackets))
        window.position = end
        self.has_content = self.has_content or not _is_empty(value)
        self._end_value()
        return True

    def _skip_string(self) -> bool:
        window, visible = self.window, self.has_content
        self._skip('"')
        while True:
            window.fill(_ESCAPE_MAX)
            found = _STRING_PART.match(window.text, window.position)
            end = found.end() if found else window.position
            visible = visible or not _is_empty(self.decoder.decode(f'"{window.text[window.position : end]}"'))
            stuck, window.position = end == window.position, end
            if window.text.startswith('"', end):
                window.position += 1
                return visible
            # Stuck with a whole escape in the window, or at the end of the text: this is no string.
            left = len(window.text) - end
            if (window.ended and (stuck or not left)) or (stuck and left >= _ESCAPE_MAX):
                window.refuse("the rest of a string")

    def _skip_number(self) -> None:
        window = self.window
        window.fill(_NUMBER_DIGITS_MAX)
        found = _NUMBER.match(window.text, window.position)
        if found is None:
            window.refuse("a digit")
        if found.end() - window.position >= _NUMBER_DIGITS_MAX:
            raise TooComplex("the JSON holds a number of a million digits")
        window.position = found.end()
        self.has_content = True

    def _skip_literal(self) -> None:
        window = self.window
        window.fill(len("false"))
        word = next((word for word in _LITERALS if window.text.startswith(word, window.position)), None)
        if word is None:
            window.refuse("a value")
        window.position += len(word)
        self.has_content = self.has_content or word != "null"


FORMAT: Final = Format(
    name="json",
    family=Family.TEXT,
    content_type="application/json",
    extensions=frozenset({"json", "geojson", "jsonld", "ipynb"}),
    examine=_examine,
    facts=has_no_flags,
    sample=lambda: b'{"name": "sample", "values": [1, 2.5, true]}\n',
    is_text=True,
)
