"""Rich Text Format: the outer group closes, pictures are hexadecimal digits, there are no control characters."""
# Readers ignore what follows the outer group. They accept text of 8 bits, whose bytes may look like braces: such a file
# is complete when it ends in a brace.

import re
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.format import Examination, Family, Format, named
from sluice_inspect.formats.rtf.facts import measure_rtf
from sluice_inspect.formats.rtf.parts import OPENER
from sluice_inspect.office.rtf_ink import RtfInk
from sluice_inspect.office.rtf_tokens import Token, TokenType, read_tokens
from sluice_inspect.report import Corrupt, Limits, TooComplex
from sluice_inspect.source import Source

_MAGIC: Final = b"{\\rtf"
_MAY_PRECEDE: Final = b"\xef\xbb\xbf \t\r\n\0"
_DIGITS: Final = b"0123456789abcdefABCDEF \t\r\n"
_CONTROLS: Final = bytes([*range(9), *range(0x0E, 0x1A), *range(0x1B, 0x20), 0x7F])
_BEYOND_ASCII: Final = bytes(range(0x80, 0x100))
# Tokens that the check only counts: text without control characters, words but `pict` and `bin`, and groups of those.
# Braces and backslashes that are escaped are read one by one, so that each brace here is one of a group.
_WORD: Final = rb"\\(?:(?!(?:pict|bin)(?![a-zA-Z]))[a-zA-Z]{1,32}|'[0-9a-fA-F]{2}|[ -&(-@\[\]-`|~])"
_ASCII_TEXT: Final = rb"\t-\r\x1a -\[\]-z|~"
_MAX_CONTROLS: Final = 1
_MAX_DEPTH: Final = 10_000
_CLOCK_INTERVAL: Final = 4096


def _examine(source: Source, limits: Limits) -> Examination:
    # One pass over the tokens for both questions, as reading them takes longer than answering.
    check, ink, deadline = _TokenCheck(), _Ink(limits), Deadline(limits.soft_seconds)

    def skip(buffer: bytes, at: int, whole: int) -> int:
        return check.skip(buffer, at, whole) if ink.is_done else at

    for count, token in enumerate(read_tokens(source.open(), skip), 1):
        if not check.is_done:
            check.add(token)
        if not ink.is_done:
            ink.add(token)
        if check.is_done and ink.is_done:
            break
        if count % _CLOCK_INTERVAL == 0 and deadline.has_passed:
            if not check.is_done:
                return Examination({"groups": check.count, "partially_checked": True})
            return Examination({"groups": check.count})
    if check.groups and not (check.has_8_bits and source.tail.rstrip(b" \t\r\n\0\x1a").endswith(b"}")):
        raise Corrupt(f"the document is cut: {len(check.groups)} of its groups are not closed")
    if check.controls > _MAX_CONTROLS:
        raise Corrupt(f"the document is damaged: {check.controls} control characters stand in its text")
    blank = None if ink.may_show_something else "the document shows no text, picture, shape or border"
    return Examination({"groups": check.count}, lambda: blank)


_PLAIN, _PLAIN_8_BITS = (
    re.compile(rb"(?:[%b]++|%b|\{(?:[%b]++|%b|(?!))*+\}|(?!))*+" % (text, _WORD, text, _WORD))
    for text in (_ASCII_TEXT, _ASCII_TEXT + rb"\x80-\xff")
)


class _Ink:
    """Whether the document shows anything; it does if that cannot be read."""

    def __init__(self, limits: Limits) -> None:
        self.is_done = False
        self._has_failed = False
        self._ink = RtfInk(limits)

    @property
    def may_show_something(self) -> bool:
        return self._has_failed or self._ink.shows_something

    def add(self, token: Token) -> None:
        try:
            self.is_done = not self._ink.needs(token)
        except Exception:  # noqa: BLE001  (a blank rule that fails leaves the file not blank)
            self.is_done = self._has_failed = True


class _TokenCheck:
    def __init__(self) -> None:
        self.groups: list[bool] = []
        self.is_done = False  # the outer group is closed
        self.count = 0
        self.controls = 0
        self.has_8_bits = False

    def skip(self, buffer: bytes, at: int, whole: int) -> int:
        """Count tokens that cannot be damage, and return the place of the next one."""
        if not self.groups or self.groups[-1] or len(self.groups) >= _MAX_DEPTH:
            return at
        found = (_PLAIN_8_BITS if self.has_8_bits else _PLAIN).match(buffer, at)
        end = found.end() if found else at
        if end > whole:
            end = max(at, buffer.rfind(b"\\", at, max(at, whole)))  # where a word begins
        opened = buffer.count(b"{", at, end)
        self.count += opened
        self.groups += [False] * (opened - buffer.count(b"}", at, end))
        return end

    def add(self, token: Token) -> None:
        if token.type is TokenType.OPEN:
            if len(self.groups) >= _MAX_DEPTH:
                raise TooComplex(f"the document nests more than {_MAX_DEPTH} groups")
            self.groups.append(False)
            self.count += 1
        elif token.type is TokenType.CLOSE:
            self.groups.pop()
        elif token.type is TokenType.WORD:
            if token.text == b"pict" and self.groups:
                self.groups[-1] = True
        elif token.type is TokenType.TEXT:
            text = token.text
            if self.groups and self.groups[-1] and text.translate(None, _DIGITS):
                raise Corrupt(
                    "the document is damaged: a picture in it is not written in hexadecimal digits throughout"
                )
            self.controls += len(text) - len(text.translate(None, _CONTROLS))
            self.has_8_bits = self.has_8_bits or len(text.translate(None, _BEYOND_ASCII)) < len(text)
        self.is_done = not self.groups


FORMAT: Final = Format(
    name="rtf",
    family=Family.TEXT,
    content_type="application/rtf",
    extensions=frozenset({"rtf"}),
    may_be_text=True,
    tolerated_extensions=frozenset({"doc", "dot", "xls", "xlt"}),
    begins=(_MAGIC,),
    begins_within=1024,
    matches=lambda source: source.head[:1024].lstrip(_MAY_PRECEDE).startswith(_MAGIC),
    examine=_examine,
    facts=measure_rtf,
    opener=OPENER,
    sample=lambda: rb"{\rtf1\ansi\deff0{\fonttbl{\f0 Times New Roman;}}\f0 One line.\par}",
    names=named("document", "application/rtf"),
    disguise="disguised.rtf",
)
