"""A second reader of objects in Rich Text, slow and simple: one character at a time, as one reader with fixed habits.

It shares no code with `sluice_inspect.formats.rtf.parts`, whose readings must include that of every such reader.
"""

import random
from dataclasses import dataclass

from sluice_inspect.formats.rtf.parts import rtf_parts
from sluice_inspect.source import MemorySource
from sluice_inspect.threats.budget import OverBudget

_HEX = b"0123456789abcdefABCDEF"
_WORDS = (b"foo", b"bar", b"par", b"pict")


@dataclass(frozen=True)
class Habits:
    """How one reader takes what other readers take differently."""

    skipped: frozenset[tuple[bool, bytes]]  # groups by whether they are starred, and their first word
    binary_counts: bool
    byte: str  # "nothing", "digits" or "drops"
    symbol_counts: bool
    follows_unicode: bool
    keeps_half: bool


def read(document: bytes, at: int, habits: Habits) -> bytes:  # noqa: C901, PLR0912  (one loop, to be read at a glance)
    """Return what a reader with these habits decodes from `at` to the end of the group."""
    out, half, depth, skip = bytearray(), "", 0, 0
    skipped_from = 0  # the depth of the outermost group that does not count, 0 for none
    while at < len(document):
        byte = document[at : at + 1]
        if not byte.isspace() and byte not in _as_bytes(_HEX) and byte in b"{}\\" and not habits.keeps_half:
            half = ""
        if byte == b"{":
            depth, skip, at = depth + 1, 0, at + 1
            if not skipped_from and _head(document, at) in habits.skipped:
                skipped_from = depth
        elif byte == b"}":
            if depth == 0:
                break
            skipped_from = 0 if skipped_from == depth else skipped_from
            depth, skip, at = depth - 1, 0, at + 1
        elif byte == b"\\":
            word, number, at = _control(document, at + 1)
            if word == b"bin":
                if skip:  # RTF 1.9.1: binary data counts as one character
                    skip -= 1
                elif not skipped_from and habits.binary_counts:
                    out += document[at : at + number]
                at += number
            elif word == b"'":
                digits = document[at : at + 2].decode()
                at += 2
                if skip:
                    skip -= 1
                elif not skipped_from and habits.byte == "digits":
                    half, out = _add(half, out, digits)
                elif not skipped_from and habits.byte == "drops":
                    half = ""
            elif word == b"u" and habits.follows_unicode:
                skip = 1
            elif len(word) == 1 and word in _as_bytes(b"0123456789"):
                if skip:
                    skip -= 1
                elif not skipped_from and habits.symbol_counts:
                    half, out = _add(half, out, word.decode())
            elif len(word) == 1 and not word.isalpha() and skip:
                skip -= 1
        else:
            at += 1
            if skipped_from or byte in {b"\r", b"\n"}:
                continue
            if skip:
                skip -= 1
            elif byte in _as_bytes(_HEX):
                half, out = _add(half, out, byte.decode())
    return bytes(out)


def _as_bytes(letters: bytes) -> set[bytes]:
    return {bytes([each]) for each in letters}


def _add(half: str, out: bytearray, digits: str) -> tuple[str, bytearray]:
    for digit in digits:
        half += digit
        if len(half) == 2:
            out.append(int(half, 16))
            half = ""
    return half, out


def _head(document: bytes, at: int) -> tuple[bool, bytes]:
    starred = document[at : at + 2] == b"\\*"
    at += 2 if starred else 0
    if document[at : at + 1] != b"\\" or not document[at + 1 : at + 2].isalpha():
        return starred, b""
    return starred, _control(document, at + 1)[0]


def _control(document: bytes, at: int) -> tuple[bytes, int, int]:
    """Return word or symbol, number, and where they end."""
    start = at
    if not document[at : at + 1].isalpha():
        return document[at : at + 1], 0, at + 1
    while document[at : at + 1].isalpha():
        at += 1
    word, start = document[start:at], at
    if document[at : at + 1] == b"-":
        at += 1
    while document[at : at + 1].isdigit():
        at += 1
    number = int(document[start:at] or b"0")
    return word, number, at + (document[at : at + 1] == b" ")


def missing(source: random.Random) -> str | None:
    """Return a random document and a reader whose decoded object is not among the readings, or None."""
    document = _document(source)
    groups = [(starred, word) for starred in (False, True) for word in (*_WORDS, b"")]
    habits = Habits(
        frozenset(source.sample(groups, source.randrange(4))),
        source.random() < 0.5,
        source.choice(["nothing", "digits", "drops"]),
        source.random() < 0.5,
        source.random() < 0.5,
        source.random() < 0.5,
    )
    expected = read(document, document.index(b"\\objdata ") + 9, habits)
    try:
        found = [b"".join(part.content) for part in rtf_parts(MemorySource(bytearray(document)))]
    except OverBudget:
        return None
    return None if expected in found else f"{document!r} by {habits}"


def _document(source: random.Random) -> bytes:
    def digits() -> bytes:
        return source.randbytes(source.randrange(6)).hex().encode()[source.randrange(2) :]

    kinds = source.sample(range(7), source.randrange(1, 4))
    word = source.choice(_WORDS)
    parts = [digits()]
    for _ in range(source.randrange(6)):
        match source.choice(kinds):
            case 0:
                parts.append(b"{\\%b %b}" % (word, digits()))
            case 1:
                parts.append(b"{\\*\\%b %b{%b}}" % (word, digits(), digits()))
            case 2:
                binary = source.randbytes(source.randrange(4))
                parts.append(b"\\bin%d " % len(binary) + binary)
            case 3:
                parts.append(b"\\'%02x" % source.randrange(256))
            case 4:
                parts.append(b"\\%d" % source.randrange(10))
            case 5:
                parts.append(b"\\u8364 " + digits())
            case _:
                parts.append(b"\\%b \r\n" % word)
        parts.append(digits())
    return b"{\\rtf1{\\*\\objdata " + b"".join(parts) + b"}}"
