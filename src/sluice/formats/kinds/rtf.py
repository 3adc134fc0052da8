"""Rich Text Format: its outer brace closes, pictures are digits throughout, and it has no control characters. What it shows is in `rtf_ink.py`.

What follows the outer brace is ignored, as by readers. Text of 8 bits is no RTF, but readers take it, and its bytes may look like braces:
such a file is whole when it ends in a brace.
"""

from collections.abc import Mapping
from typing import Final

from sluice.formats.budget import Deadline
from sluice.formats.kind import Kind
from sluice.formats.office.rtf_ink import rtf_shows
from sluice.formats.office.rtf_tokens import Token, What, tokens
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure, TooComplex

_BEGIN: Final = b"{\\rtf"
_MAY_PRECEDE: Final = b"\xef\xbb\xbf \t\r\n\0"
_DIGITS: Final = b"0123456789abcdefABCDEF \t\r\n"
_CONTROLS: Final = bytes([*range(9), *range(0x0E, 0x1A), *range(0x1B, 0x20), 0x7F])
_BEYOND_ASCII: Final = bytes(range(0x80, 0x100))
_CONTROLS_MOST: Final = 1
_DEPTH_MOST: Final = 10_000
_LOOK_AT_CLOCK: Final = 4096


def _recognises(source: Source) -> bool:
    return source.head[:1024].lstrip(_MAY_PRECEDE).startswith(_BEGIN)


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    walk, deadline = _Walk(), Deadline(limits.soft_seconds)
    for count, token in enumerate(tokens(source.open()), 1):
        walk.take(token)
        if not walk.groups:
            break
        if count % _LOOK_AT_CLOCK == 0 and deadline.has_passed:
            return {"groups": walk.count, "partially_checked": True}
    if walk.groups and not (walk.has_8_bits and source.tail.rstrip(b" \t\r\n\0\x1a").endswith(b"}")):
        raise Corrupt(f"the document is cut: {len(walk.groups)} of its groups are not closed")
    if walk.controls > _CONTROLS_MOST:
        raise Corrupt(f"the document is damaged: {walk.controls} control characters stand in its text")
    return {"groups": walk.count}


class _Walk:
    """The groups that are open, each with whether it is a picture."""

    def __init__(self) -> None:
        self.groups: list[bool] = []
        self.count = 0
        self.controls = 0
        self.has_8_bits = False

    def take(self, token: Token) -> None:
        """Take one token. Raises `Corrupt` for a picture that is none, `TooComplex` for endless groups."""
        if token.what is What.OPEN:
            if len(self.groups) >= _DEPTH_MOST:
                raise TooComplex(f"the document nests more than {_DEPTH_MOST} groups")
            self.groups.append(False)
            self.count += 1
        elif token.what is What.CLOSE:
            self.groups.pop()
        elif token.what is What.WORD:
            if token.text == b"pict" and self.groups:
                self.groups[-1] = True
        elif token.what is What.TEXT:
            self._take_text(token.text)

    def _take_text(self, text: bytes) -> None:
        if self.groups and self.groups[-1] and text.translate(None, _DIGITS):
            raise Corrupt("the document is damaged: a picture in it is not written in hexadecimal digits throughout")
        self.controls += len(text) - len(text.translate(None, _CONTROLS))
        self.has_8_bits = self.has_8_bits or len(text.translate(None, _BEYOND_ASCII)) < len(text)


def _blank(source: Source, limits: Limits) -> str | None:
    return None if rtf_shows(tokens(source.open()), limits) else "the document shows no text, picture, shape or border"


KIND: Final = Kind(
    name="rtf",
    content_type="application/rtf",
    extensions=frozenset({"rtf"}),
    also_named=frozenset({"doc", "dot"}),
    recognises=_recognises,
    check=_check,
    blank=_blank,
    sample=lambda: rb"{\rtf1\ansi\deff0{\fonttbl{\f0 Times New Roman;}}\f0 One line.\par}",
)
