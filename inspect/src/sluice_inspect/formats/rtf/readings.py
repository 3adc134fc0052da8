"""The text of a destination of Rich Text (RTF 1.9.1) in every way that readers have: an instruction, an address."""
# The first reading is that of Word. Readers differ on some constructs: each that is there is read in each of its ways,
# the others as Word does, and then in combination. What programs write has one reading, or a few.

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import Final

from sluice_inspect.office.rtf_ink import OFF_PAGE, TEXTLESS
from sluice_inspect.office.rtf_tokens import Token, TokenType

_MAX_READINGS: Final = 128

# A construct on which readers differ: what it is, and its control word if that matters.
_Construct = tuple[str, bytes]
# In how many ways readers take each construct; 0 is that of Word.
_WAYS: Final[Mapping[str, int]] = {
    "starred": 2,  # a starred word of no known destination: what follows in its group does not count; 1: it does
    "known": 2,  # the same of destinations without a star
    "deleted": 2,  # 1: deleted text does not count
    "upr": 3,  # 0: the second group counts; 1: the first; 2: both
    "uc": 2,  # without a number it is 1; 1: 0
    "unicode": 2,  # 1: `\u` is not known
    "counted": 2,  # a control word, symbol or binary data is one of the characters that are skipped; 1: it is none
    "blank": 2,  # a tab, an end of a line, a picture is a blank; 1: nothing
    "mark": 2,  # a hyphen or joiner that does not show is nothing; 1: a blank
    "half": 3,  # how many characters behind `\'` belong to it if they are no digits
    "binary": 2,  # binary data is nothing; 1: text
    "long": 2,  # a control word ends after 32 letters; 1: after all of them
}


def _words(text: str) -> frozenset[bytes]:
    return frozenset(text.encode("ascii").split())


# Destinations whose text belongs to the one around them, with or without a star.
_INCLUDED: Final = _words("field fldinst fldrslt objclass objdata object result template ud upr")
# Destinations whose text does not. Every reader leaves out those with a star; without it, some may not know them.
_LEFT_OUT: Final = (OFF_PAGE | TEXTLESS) - _INCLUDED | _words("""
    annotation atrfend atrfstart bkmkcolf bkmkcoll bkmkpub colortbl do dptxbxtext ebcend ebcstart factoidname fchars
    ffdeftext ffentrymcr ffexitmcr ffformat ffhelptext ffl ffname ffstattext fldtype fname fonttbl footnote g gridtbl hl
    hlfr hlloc hlsrc htmltag keycode lchars levelnumbers leveltext lfolevel linkval list listlevel listname listoverride
    liststylename listtext mailmerge nextfile nonesttables objalias objname objsect objtime oldcprops oldpprops
    oldsprops oldtprops oleclsid pgp pict pn pnseclvl pntext pntxta pntxtb propname protend protstart pxe shp shpgrp
    shpinst shppict shptxt staticval svb writereservation writereservhash xform xmlattrname xmlattrvalue xmlclose
    xmlname xmlopen
""")
_BLANKS: Final = _words("""
    annotation bullet cell chatn chdate chdpa chdpl chftn chpgn chtime column emdash emspace endash enspace footnote
    ldblquote line lquote nestcell nestrow page par pict qmspace rdblquote row rquote sect sectnum shp softcol softline
    softpage tab
""")
_MARKS: Final = _words("ltrmark rtlmark zwbo zwj zwnbo zwnj")
_BLANK_SYMBOLS: Final = frozenset({b"~", b"\t", b"\r", b"\n"})
_CHARACTERS: Final = frozenset({b"\\", b"{", b"}", b"_"})
_STAR, _BYTE = b"*", b"'"
_FIRST_SHOWN: Final = 0x20  # characters before are blanks
_LONGEST_WORD: Final = 32
_REST_OF_WORD: Final = re.compile(rb"\A[A-Za-z]*-?[0-9]* ?")


def readings_of(
    tokens: Sequence[Token], skip_counts: Collection[int], *, is_hexadecimal: bool = False
) -> Iterator[str | None]:
    """Yield what a destination says, and None at the end if it has more readings than are tried.

    `skip_counts` are the numbers of characters that one in Unicode may replace where the destination begins. With
    `is_hexadecimal` it is data in digits, of which binary data is a part.
    """
    constructs = _constructs(tokens)
    starts = list(skip_counts) if ("unicode", b"") in constructs else [1]
    ways = [range(_WAYS[name]) for name, _ in constructs]
    single = ({each: way} for each, its_ways in zip(constructs, ways, strict=True) for way in its_ways[1:])
    combined = (dict(zip(constructs, each, strict=True)) for each in product(*ways) if sum(map(bool, each)) > 1)
    for count, (choice, start) in enumerate(
        (choice, start) for choice in chain(({},), single, combined) for start in starts
    ):
        if count == _MAX_READINGS:
            yield None
            return
        yield _Reader(choice, start, is_hexadecimal=is_hexadecimal).read(tokens)


def _constructs(tokens: Sequence[Token]) -> Sequence[_Construct]:
    """Return the constructs that a destination has."""
    found: set[_Construct] = set()
    starred = replaces = False
    previous: Token | None = None
    for token in tokens:
        kind, text = token.type, token.text
        if kind is TokenType.OPEN or kind is TokenType.CLOSE:
            starred = replaces = False
        elif kind is TokenType.TEXT:
            if previous is not None and previous.type is TokenType.WORD and len(previous.text) == _LONGEST_WORD:
                found.add(("long", b""))
        elif kind is TokenType.BYTE:
            if text[0] < _FIRST_SHOWN:
                found.add(("blank", b""))
        else:
            if replaces:
                found.add(("counted", b""))
            if kind is TokenType.BINARY:
                found.add(("binary", b""))
            elif kind is TokenType.SYMBOL:
                starred = starred or text == _STAR
                if text not in _CHARACTERS and text != _STAR:
                    name = "blank" if text in _BLANK_SYMBOLS else "half" if text == _BYTE else "mark"
                    found.add((name, b""))
            else:
                found.update(_constructs_of_word(token, starred=starred))
                starred = False
                replaces = replaces or (text == b"u" and token.number is not None)
        previous = token
    return sorted(found)


def _constructs_of_word(token: Token, *, starred: bool) -> Iterator[_Construct]:
    word, number = token.text, token.number
    group = _group_construct(word, starred=starred)
    if group is not None:
        yield group
    if word == b"uc" and number is None:
        yield ("uc", b"")
    elif word == b"u" and number is not None:
        yield ("unicode", b"")
        if number & 0xFFFF < _FIRST_SHOWN:
            yield ("blank", b"")
    elif word == b"upr":
        yield ("upr", b"")
    elif word in _BLANKS:
        yield ("blank", b"")
    elif word in _MARKS:
        yield ("mark", b"")


def _group_construct(word: bytes, *, starred: bool) -> _Construct | None:
    """Return the construct that a word makes of the rest of its group, if readers differ on whether that counts."""
    if word == b"deleted":
        return ("deleted", b"")
    if word in _LEFT_OUT:
        return None if starred else ("known", b"")
    return ("starred", word) if starred and word not in _INCLUDED else None


class _Reader:
    """Reads a destination in one way: `choice` has the way by construct, 0 where none is given."""

    def __init__(self, choice: Mapping[_Construct, int], skip_count: int, *, is_hexadecimal: bool) -> None:
        self._choice = choice
        self._way = {name: choice.get((name, b""), 0) for name in _WAYS}
        self._is_hexadecimal = is_hexadecimal
        self._blank, self._mark = "" if self._way["blank"] else " ", " " if self._way["mark"] else ""
        self._out: list[str] = []
        # Of the group: whether its text counts, how many characters one in Unicode replaces, and, if it is `\upr`,
        # whether it would count without that.
        self._counts, self._skip_count = True, skip_count
        self._upr: bool | None = None
        self._groups: list[tuple[bool, int, bool | None]] = []
        self._skip = 0
        self._is_starred = self._skips_binary = False

    def read(self, tokens: Sequence[Token]) -> str:
        previous: Token | None = None
        for token in tokens:
            kind = token.type
            if kind is TokenType.TEXT:
                self._read_text(token.text, previous)
            elif kind is TokenType.BYTE:
                self._add_character(token.text[0])
            elif kind is TokenType.OPEN:
                self._open()
            elif kind is TokenType.CLOSE:
                self._skip, self._is_starred = 0, False
                if self._groups:
                    self._counts, self._skip_count, self._upr = self._groups.pop()
            elif kind is TokenType.WORD:
                self._read_word(token.text, token.number)
            elif kind is TokenType.SYMBOL:
                self._read_symbol(token.text)
            else:
                self._read_binary(token)
            previous = token
        return "".join(self._out)

    def _open(self) -> None:
        self._groups.append((self._counts, self._skip_count, self._upr))
        if self._upr is not None:
            self._counts = self._upr and self._way["upr"] != 0
        self._upr = None
        self._skip, self._is_starred = 0, False

    def _read_text(self, text: bytes, previous: Token | None) -> None:
        characters = text.translate(None, b"\r\n\0")
        if previous is not None and previous.type is TokenType.SYMBOL and previous.text == _BYTE:
            characters = characters[self._way["half"] :]
        elif self._way["long"] and previous is not None and len(previous.text) == _LONGEST_WORD:
            characters = _REST_OF_WORD.sub(b"", characters) if previous.type is TokenType.WORD else characters
        taken = min(self._skip, len(characters))
        self._skip -= taken
        if self._counts:
            self._out.append(characters[taken:].decode("latin-1"))

    def _add_character(self, code: int) -> None:
        if self._skip:
            self._skip -= 1
        else:
            self._add(self._blank if code < _FIRST_SHOWN else chr(code))

    def _add(self, text: str) -> None:
        if self._counts:
            self._out.append(text)

    def _is_skipped(self) -> bool:
        """Return whether a control word, a symbol or binary data is one of the characters that are skipped."""
        if not self._skip or self._way["counted"]:
            return False
        self._skip -= 1
        return True

    def _read_binary(self, token: Token) -> None:
        if token.number is not None:  # the first piece
            self._skips_binary = self._is_skipped()
        if self._skips_binary:
            return
        if self._is_hexadecimal:
            self._add("" if self._way["binary"] else token.text.hex())
        elif self._way["binary"]:
            self._add(token.text.decode("latin-1"))

    def _read_symbol(self, text: bytes) -> None:
        if text in _CHARACTERS:
            self._add_character(b"-\\{}"[b"_\\{}".index(text)])
        elif self._is_skipped():
            return
        elif text == _STAR:
            self._is_starred = True
        elif text != _BYTE:
            self._add(self._blank if text in _BLANK_SYMBOLS else self._mark)

    def _read_word(self, word: bytes, number: int | None) -> None:
        if self._is_skipped():
            return
        if word == b"u" and number is not None:
            if not self._way["unicode"]:
                self._skip = 0
                self._add_character(number & 0xFFFF)
                self._skip = self._skip_count
        elif word == b"uc":
            self._skip_count = 1 - self._way["uc"] if number is None else max(0, number)
        elif word == b"upr":
            self._upr = self._counts
        elif word == b"ud":
            upr = self._groups[-1][2] if self._groups else None
            self._counts = self._counts if upr is None else upr and self._way["upr"] != 1
        else:
            self._read_other_word(word)
        self._is_starred = False

    def _read_other_word(self, word: bytes) -> None:
        if word in _BLANKS:
            self._add(self._blank)
        elif word in _MARKS:
            self._add(self._mark)
        group = _group_construct(word, starred=self._is_starred)
        if group is not None:
            self._counts = self._counts and bool(self._choice.get(group, 0)) == (group[0] != "deleted")
        elif self._is_starred and word in _LEFT_OUT:
            self._counts = False
