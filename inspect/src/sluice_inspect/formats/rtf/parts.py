"""The objects that Rich Text carries as hexadecimal digits (RTF 1.9.1), decoded in every reading that readers have."""
# Readers agree on digits and white space. Between digits they differ: on text in groups with unknown or starred words,
# on `\bin`, `\'hh` and `\u`, and on half a byte before any of them. Each construct that is there is read in each of its
# ways, the others kept, and then in combination; what is left over when the limit is reached ends the scan as
# incomplete. Objects that programs write have none of these constructs, and one reading.

import re
from binascii import unhexlify
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain, product
from typing import Final

from sluice_inspect.formats.rtf.reading import RtfReading
from sluice_inspect.parts import Certainty, Opener, Part
from sluice_inspect.source import RandomAccess
from sluice_inspect.threats.budget import OverBudget
from sluice_inspect.threats.detect import ascii_of

_DESTINATIONS: Final = frozenset({b"objdata", b"objalias", b"datastore", b"pict"})
_TOKEN: Final = re.compile(
    rb"(?P<brace>[{}])|[^{}\\]+"
    rb"|\\(?:(?P<word>[A-Za-z]+)(?P<number>-?\d+)? ?|'(?P<byte>[^{}\\]{1,2})?|(?P<symbol>[^A-Za-z']))",
    re.DOTALL,
)
_NOT_HEX: Final = bytes(set(range(256)) - set(b"0123456789abcdefABCDEF"))
_JUNK: Final = re.compile(rb"[^0-9a-fA-F\s]+")
_WORD_LETTERS: Final = 32  # of which the specification says that no control word has more
_NUMBER_DIGITS: Final = 10
_BYTE_DIGITS: Final = 2

_MAX_TOKENS: Final = 200_000  # in all objects of a file; an honest object has a few, a picture some dozens
_MAX_OBJECTS: Final = 10_000  # each is scanned by itself; pictures are not counted
_MAX_READINGS: Final = 64
# Work over all objects of a file: a token is one unit, as is this number of bytes of text; a reading begins with some.
_MAX_WORK: Final = 500_000
_BYTES_PER_UNIT: Final = 512
_UNITS_PER_READING: Final = 20
_MAX_READ_TIMES: Final = 4  # how often the file may be read because objects nest, or have no end
_READ_FLOOR_BYTES: Final = 64 * 1024


class _Type(Enum):
    OPEN = auto()
    CLOSE = auto()
    WORD = auto()
    SYMBOL = auto()
    BYTE = auto()
    TEXT = auto()
    BINARY = auto()


# The types of tokens that may be digits or bytes for some readers, and what they are called as constructs.
_PLAIN: Final = {_Type.BYTE: "byte", _Type.BINARY: "binary", _Type.SYMBOL: "symbol"}
# A construct on which readers differ: its type, whether it is starred, and its control word.
_Construct = tuple[str, bool, bytes]


@dataclass(frozen=True, slots=True)
class _Token:
    """One token. `tail` is text for readers that end a control word or its number early."""

    type: _Type
    text: bytes = b""
    number: int | None = None
    tail: bytes = b""
    starred: bool = False


@dataclass(slots=True)
class _RtfGroup:
    opened_at: int
    starred: bool = False
    word: bytes | None = None  # the first control word, which may name a destination
    has_digits: bool = False
    later_words: set[_Construct] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Object:
    """The tokens of one object. `groups` has the construct of each group, by the index of the token that opens it."""

    tokens: Sequence[_Token]
    end: int
    groups: Mapping[int, _Construct]
    constructs: frozenset[_Construct]


def rtf_parts(source: RandomAccess) -> Iterator[Part]:
    """Yield embedded objects, linked data and pictures. Raise `OverBudget` if there are more readings than are tried.

    Objects and data that mislead are yielded once for each different reading.
    """
    # clamd reads such objects, but not those with control words or groups between their digits (measured, 1.4.6).
    reading = source.cached(RtfReading)
    data = reading.data
    unread, tokens_left = _MAX_READ_TIMES * len(data) + _READ_FLOOR_BYTES, _MAX_TOKENS
    readings, objects = _Readings(_skip_counts(reading)), 0
    for mark in reading.words():
        if mark.text not in _DESTINATIONS:
            continue
        is_ole = mark.text in {b"objdata", b"objalias"}
        objects += mark.text != b"pict"
        if objects > _MAX_OBJECTS:
            raise OverBudget(f"a Rich Text document with more than {_MAX_OBJECTS} objects")
        starts = [mark.end]
        if len(mark.number) > _NUMBER_DIGITS:  # for some readers, these are the first digits of the object
            starts.append(mark.start + 1 + len(mark.text))
        has_binary = True
        for start, with_binary in product(starts, (True, False)):
            if not with_binary and not has_binary:
                continue
            found = _read_object(data, start, tokens_left, with_binary=with_binary)
            tokens_left -= len(found.tokens)
            unread -= found.end - start
            if unread < 0:
                raise OverBudget("a Rich Text document whose objects overlap")
            if mark.text == b"pict":
                yield Part("", iter((_decode(found, {}, 1),)))
                break
            has_binary = any(token.type is _Type.BINARY for token in found.tokens)
            for content in readings.of(found):
                yield Part("", iter((content,)), hidden_from_clamd=True, format_name="ole1" if is_ole else "")
    if readings.left_over:
        raise OverBudget("a Rich Text object that readers read in more ways than are tried")


def _skip_counts(reading: RtfReading) -> list[int]:
    """Return how many characters a Unicode character may replace where an object begins, the default of one first."""
    return [1, *sorted({count for count in reading.short_skip_counts if count is not None} - {1})]


def _read_object(data: memoryview, at: int, most: int, *, with_binary: bool) -> _Object:
    """Return the tokens from `at` to the end of the group around it. Raise `OverBudget` for more than `most`."""
    tokens: list[_Token] = []
    stack = [_RtfGroup(-1)]
    groups: dict[int, _Construct] = {}
    constructs: set[_Construct] = set()
    starred = False
    while found := _TOKEN.match(data, at):
        at = found.end()
        token = _token(found, starred=starred)
        starred = token.type is _Type.SYMBOL and token.text == b"*"
        if token.type is _Type.OPEN:
            stack.append(_RtfGroup(len(tokens)))
        elif token.type is _Type.CLOSE:
            if len(stack) == 1:
                break
            _close(stack, groups, constructs)
        elif token.type is _Type.WORD:
            group = stack[-1]
            if group.word is None:
                group.word, group.starred = token.text, token.starred
            elif len(stack) > 1:
                group.later_words.add(("word", token.starred, token.text))
            if token.text == b"bin" and with_binary:
                size = max(0, min(token.number or 0, len(data) - at))
                token = _Token(_Type.BINARY, bytes(data[at : at + size]))
                at += size
        _note(token, stack[-1], constructs)
        tokens.append(token)
        if len(tokens) > most:
            raise OverBudget(f"a Rich Text document with objects of more than {_MAX_TOKENS} tokens")
    while len(stack) > 1:
        _close(stack, groups, constructs)
    return _Object(tokens, at, groups, frozenset(constructs))


def _token(found: "re.Match[bytes]", *, starred: bool) -> _Token:
    if brace := found["brace"]:
        return _Token(_Type.OPEN if brace == b"{" else _Type.CLOSE)
    if word := found["word"]:
        digits = found["number"] or b""
        number = max(-(2**31), min(int(digits[:20]), 2**31)) if digits.strip(b"-") else None
        tail = b""
        if len(word) > _WORD_LETTERS:
            tail = word[_WORD_LETTERS:] + digits
        elif len(digits) > _NUMBER_DIGITS:
            tail = digits[_NUMBER_DIGITS:]
        return _Token(_Type.WORD, word, number, tail, starred)
    if (symbol := found["symbol"]) is not None:
        return _Token(_Type.SYMBOL, symbol)
    if found.group().startswith(b"\\'"):
        text = found["byte"] or b""
        return _Token(_Type.BYTE, text, tail=b"" if len(text.translate(None, _NOT_HEX)) == _BYTE_DIGITS else b"?")
    return _Token(_Type.TEXT, found.group())


def _close(stack: list[_RtfGroup], groups: dict[int, _Construct], constructs: set[_Construct]) -> None:
    group = stack.pop()
    construct = ("group", group.starred, group.word or b"")
    groups[group.opened_at] = construct
    if group.has_digits:
        constructs.add(construct)
        constructs |= group.later_words
        stack[-1].has_digits = True


def _note(token: _Token, group: _RtfGroup, constructs: set[_Construct]) -> None:
    """Note the construct that a token is, if readers differ on it, and digits in its group."""
    if token.type is _Type.TEXT:
        group.has_digits = group.has_digits or bool(token.text.translate(None, _NOT_HEX))
        if _JUNK.search(token.text):
            constructs.add(("junk", False, b""))
        return
    constructs.add(("half", False, b""))
    name = _PLAIN.get(token.type, "")
    if token.type is _Type.SYMBOL and not token.text.translate(None, _NOT_HEX):
        name = ""
    if name:
        constructs.add((name, False, b""))
    if token.tail:
        constructs.add(("tail", False, b""))
    if token.type is _Type.WORD and token.text == b"u" and token.number is not None:
        constructs.add(("unicode", False, b""))
    group.has_digits = group.has_digits or bool(name or token.tail)


class _Readings:
    """The readings of all objects of a file. `left_over`: there are more than were tried."""

    def __init__(self, skip_counts: Sequence[int]) -> None:
        self.left_over = False
        self._skip_counts = skip_counts
        self._work = 0

    def of(self, found: _Object) -> Iterator[bytes]:
        """Yield what an object decodes to, each result once."""
        size = (
            _UNITS_PER_READING + len(found.tokens) + sum(len(token.text) for token in found.tokens) // _BYTES_PER_UNIT
        )
        seen: set[bytes] = set()
        # A word that is too long ends after a number of letters that differs between readers.
        self.left_over = self.left_over or any(name == "tail" for name, *_ in found.constructs)
        for count, (choice, skip) in enumerate(self._choices(found.constructs)):
            self._work += size
            if count >= _MAX_READINGS or (count and self._work > _MAX_WORK):
                self.left_over = True
                return
            content = _decode(found, choice, skip)
            if content not in seen:
                seen.add(content)
                yield content

    def _choices(self, constructs: frozenset[_Construct]) -> Iterator[tuple[Mapping[_Construct, int], int]]:
        """Yield the default, every way of each single construct, then all combinations."""
        ordered = sorted(constructs)
        skips = self._skip_counts if ("unicode", False, b"") in constructs else [1]
        ways = [range(_WAYS[name]) for name, *_ in ordered]
        single = ({each: way} for each, its_ways in zip(ordered, ways, strict=True) for way in its_ways[1:])
        combined = (dict(zip(ordered, each, strict=True)) for each in product(*ways))
        known: set[tuple[tuple[tuple[_Construct, int], ...], int]] = set()
        for choice in chain(({},), (dict.fromkeys(ordered, 1),), single, combined):
            for skip in skips:
                key = (tuple(sorted((each, way) for each, way in choice.items() if way)), skip)
                if key not in known:
                    known.add(key)
                    yield choice, skip


_BYTE_AS_CHARACTER, _BYTE_DROPS_HALF = 2, 3
_COUNTS_WORDS: Final = 2
# In how many ways readers take each construct; 0 is the default, as Word has it.
_WAYS: Final[Mapping[str, int]] = {
    "group": 2,  # its digits do not count if it is starred, and count otherwise; 1 is the opposite
    "word": 2,  # 1: the rest of its group does not count
    "binary": 2,  # 1: its bytes do not count
    "byte": 4,  # 1: its digits count as digits; 2: as the character that they stand for; 3: it drops half a byte
    "symbol": 2,  # 1: a digit behind a backslash counts
    "tail": 2,  # 1: the word or number ends early
    "unicode": 3,  # 1: nothing behind `\u` is skipped; 2: control words behind it count as skipped
    "junk": 2,  # 1: other characters drop half a byte
    "half": 2,  # 1: whatever is no digit or white space drops half a byte
}


def _decode(found: _Object, choice: Mapping[_Construct, int], skip_count: int) -> bytes:
    """Return the bytes of an object, read as `choice` says: the way by construct, 0 where none is given."""
    # One loop over the tokens, since it runs for each reading.
    plain = {name: choice.get((name, False, b""), 0) for name in _WAYS}
    out = _Digits(drops_at_junk=bool(plain["junk"]))
    counts, states, skip = True, [(True, skip_count)], 0
    for index, token in enumerate(found.tokens):
        kind = token.type
        if kind is not _Type.TEXT and plain["half"]:
            out.drop_half()
        if kind is _Type.WORD:
            if skip and plain["unicode"] == _COUNTS_WORDS:
                skip -= 1
                continue
            if token.text == b"uc":
                skip_count = max(0, 1 if token.number is None else token.number)
            elif token.text == b"u" and token.number is not None and plain["unicode"] != 1:
                skip = skip_count
            counts = counts and not (len(states) > 1 and choice.get(("word", token.starred, token.text), 0))
            out.add(token.tail if counts and plain["tail"] else b"")
        elif kind is _Type.OPEN or kind is _Type.CLOSE:
            skip = 0
            if kind is _Type.OPEN:
                states.append((counts, skip_count))
                construct = found.groups[index]
                counts = counts and construct[1] == bool(choice.get(construct, 0))
            else:
                counts, skip_count = states.pop()
        elif counts:
            characters = token.text.translate(None, b"\r\n") if kind is _Type.TEXT else b"?"
            if len(characters) > skip:
                _add(out, token, characters[skip:] if skip else token.text, plain)
            skip = max(0, skip - len(characters))
    return bytes(out.content)


def _add(out: "_Digits", token: _Token, text: bytes, plain: Mapping[str, int]) -> None:
    if token.type is _Type.TEXT or (token.type is _Type.SYMBOL and plain["symbol"]):
        out.add(text)
    elif token.type is _Type.BINARY:
        out.content += b"" if plain["binary"] else text
    elif token.type is _Type.BYTE and plain["byte"] == _BYTE_DROPS_HALF:
        out.drop_half()
    elif token.type is _Type.BYTE and plain["byte"]:
        digits = text.translate(None, _NOT_HEX)
        out.add(unhexlify(digits) if plain["byte"] == _BYTE_AS_CHARACTER and len(digits) == _BYTE_DIGITS else digits)


class _Digits:
    """Hexadecimal digits in pieces, decoded."""

    def __init__(self, *, drops_at_junk: bool) -> None:
        self.content = bytearray()
        self._half = b""
        self._drops_at_junk = drops_at_junk

    def add(self, text: bytes) -> None:
        for number, run in enumerate(_JUNK.split(text) if self._drops_at_junk else (text,)):
            if number:
                self._half = b""
            digits = self._half + run.translate(None, _NOT_HEX)
            even = len(digits) // 2 * 2
            self._half = digits[even:]
            self.content += unhexlify(digits[:even])

    def drop_half(self) -> None:
        self._half = b""


OPENER: Final = Opener(
    begins=lambda head: ascii_of(head).lstrip().startswith(b"{\\rt"), certainty=Certainty.WORD, parts=rtf_parts
)
