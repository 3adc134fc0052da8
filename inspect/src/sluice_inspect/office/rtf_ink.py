"""Ink in Rich Text: whether a document, given in tokens, shows anything. Groups are followed as by a reader."""
# As with DOCX, headers and footers do not count, nor does text that is hidden, or white where nothing is shaded; notes,
# comments, shapes, objects, borders and pictures that show something do. In doubt (metafiles) it is ink.

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.images.embedded import embedded_is_blank
from sluice_inspect.office.rtf_tokens import Token, TokenType
from sluice_inspect.report import Limits
from sluice_inspect.text.plaintext import INVISIBLE


def _words(text: str) -> frozenset[bytes]:
    return frozenset(text.encode("ascii").split())


# Destinations of which nothing is on the page.
OFF_PAGE: Final = _words("""
    aftncn aftnsep aftnsepc author background bkmkend bkmkstart buptim category colorschememapping comment company
    creatim datafield datastore defchp defpap doccomm docvar falt file filetbl fldinst fontemb fontfile fonttbl footer
    footerf footerl footerr ftncn ftnsep ftnsepc generator header headerf headerl headerr hlinkbase info keywords
    latentstyles listoverridetable listpicture listtable manager mmathPr nonshppict operator panose password
    passwordhash pgdsctbl pgptbl printim private protusertbl revtbl revtim rsidtbl rxe shprslt stylesheet subject tc tcn
    template themedata title txe userprops wgrffmtfilter xe xmlnstbl
""")
# Destinations whose text is not shown, though pictures and control words in them matter.
TEXTLESS: Final = _words("blipuid picprop sn sp sv atnid atnauthor atndate atntime atnref atnicn atnparent formfield")
# Readers skip starred destinations that they do not know; all of them know these.
_KNOWN_STARRED: Final = _words("annotation footnote pntext listtext shpinst shppict shptxt result shpgrp")
_INK_WORDS: Final = _words("""
    bullet chdate chdpa chdpl chftn chpgn chtime do emdash endash ldblquote lquote object objattph rdblquote rquote
    sectnum
""")
# The text that control words stand for.
_WRITTEN: Final[Mapping[bytes, str]] = {
    **dict.fromkeys(_words("par line row sect page"), "\n"),
    **dict.fromkeys(_words("tab cell nestcell"), "\t"),
    b"bullet": "\u2022", b"emdash": "\u2014", b"endash": "\u2013", b"ldblquote": "\u201c", b"lquote": "\u2018",
    b"rdblquote": "\u201d", b"rquote": "\u2019",
}  # fmt: skip
_LINES: Final = _words("""
    brdrs brdrth brdrsh brdrdb brdrdot brdrdash brdrhair brdrdashsm brdrdashd brdrdashdd brdrdashdot brdrdashdotdot
    brdrtriple brdrwavy brdrwavydb brdrtnthsg brdrthtnsg brdrtnthtnsg brdrtnthmg brdrthtnmg brdrtnthlg brdrthtnlg
    brdremboss brdrengrave brdrinset brdroutset
""")
_SHADES: Final = _words("highlight cb chcbpat cbpat clcbpat trcbpat chshdng shading clshdng")
_AREAS: Final = _words("clcbpat cbpat")  # colours of cells and paragraphs, which are visible even where those are empty
_WHITE: Final = [255, 255, 255]
_INVISIBLE_COLOURS: Final = ([None] * 3, _WHITE)
_BITMAPS: Final = _words("pngblip jpegblip")
_DRAWN_FIELDS: Final = frozenset({1, 2})  # form fields that are check boxes and drop-down lists
_MAX_PICTURE_BYTES: Final = 32 * 1024**2
_MAX_DEPTH: Final = 10_000
_MAX_COLOURS: Final = 1000
_CLOCK_INTERVAL: Final = 4096


def has_rtf_ink(tokens: Iterable[Token], limits: Limits) -> bool:
    """Whether a document shows anything to a reader."""
    ink = RtfInk(limits)
    for token in tokens:
        if not ink.needs(token):
            break
    return ink.shows_something


def rtf_text(tokens: Iterable[Token], limits: Limits, most: int) -> str:
    """Return the text on the pages of a document, at least `most` characters of a longer one."""
    text = _RtfText(limits)
    for token in tokens:
        if not text.needs(token) or text.size >= most:
            break
    # Letters beyond the first 65,536 come as two halves.
    return "".join(text.parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _InkFound(Exception):
    """Something shows: reading ends."""


@dataclass(slots=True)
class _Picture:
    is_bitmap: bool = False
    content: bytearray = field(default_factory=bytearray)
    digits: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class _Group:
    """What holds within a group; groups within begin with a copy."""

    # `fallback`: how many characters follow one in Unicode; `at_start`: the next word may name the destination.
    off_page: bool = False
    textless: bool = False
    hidden: bool = False
    white: bool = False
    fallback: int = 1
    at_start: bool = True
    starred: bool = False
    in_colours: bool = False
    is_shape: bool = False
    picture: _Picture | None = None


class RtfInk:
    """Whether a document, read token by token, shows anything to a reader."""

    def __init__(self, limits: Limits) -> None:
        self._is_found = self._has_white_text = self._has_shading = False
        self._count = 0
        self._limits = limits
        self._deadline = Deadline(limits.soft_seconds)
        self._group = _Group()
        self._groups: list[_Group] = []
        self._colours: list[list[int | None]] = [[None] * 3]
        self._skip = 0
        self._pictures = 0
        self._handlers: dict[TokenType, Callable[[Token], None]] = {
            TokenType.OPEN: self._on_open,
            TokenType.CLOSE: self._on_close,
            TokenType.WORD: self._on_word,
            TokenType.SYMBOL: self._on_symbol,
            TokenType.BYTE: self._on_byte,
            TokenType.TEXT: self._on_text,
            TokenType.BINARY: self._on_binary,
        }

    @property
    def shows_something(self) -> bool:
        """Whether the tokens that were read show anything."""
        return self._is_found or (self._has_white_text and self._has_shading)

    def needs(self, token: Token) -> bool:
        """Read a token. Return whether the next one is needed; it is not once something shows."""
        try:
            self._handlers[token.type](token)
        except _InkFound:
            self._is_found = True
        self._count += 1
        if self._count % _CLOCK_INTERVAL == 0 and self._deadline.has_passed:
            self._is_found = True
        return not self._is_found

    def _on_open(self, _token: Token) -> None:
        if len(self._groups) > _MAX_DEPTH:
            raise _InkFound
        self._groups.append(self._group)
        self._group = replace(self._group, at_start=True, starred=False, is_shape=False, picture=None)
        self._skip = 0

    def _on_close(self, _token: Token) -> None:
        closed = self._group
        if self._groups:
            self._group = self._groups.pop()
        self._skip = 0
        if closed.picture is not None:
            self._pictures += 1
            if not closed.off_page and self._is_visible(closed.picture):
                raise _InkFound
        # A shape that holds pictures is their frame: the pictures decide. Any other shape counts.
        if closed.is_shape and not closed.off_page and not self._pictures:
            raise _InkFound

    def _on_word(self, token: Token) -> None:
        group, word, number = self._group, token.text, token.number
        if group.at_start:
            self._set_destination(word)
        group.at_start = False
        if word == b"u" and number is not None:
            self._add_text(chr(number % 0x10000))
            self._skip = group.fallback
        elif word == b"uc":
            group.fallback = number or 0
        elif word == b"v":
            group.hidden = number != 0
        elif word == b"cf":
            group.white = 0 <= (number or 0) < len(self._colours) and self._colours[number or 0] == _WHITE
        elif word == b"plain":
            group.hidden = group.white = False
        elif group.in_colours and word in {b"red", b"green", b"blue"}:
            self._colours[-1][(b"red", b"green", b"blue").index(word)] = number or 0
        else:
            self._on_drawing_word(word, number)

    def _on_drawing_word(self, word: bytes, number: int | None) -> None:
        group = self._group
        if word == b"fftype" and number in _DRAWN_FIELDS and not group.off_page:
            raise _InkFound
        if group.picture is not None:
            group.picture.is_bitmap |= word in _BITMAPS
        elif not group.off_page and not group.textless:
            self._has_shading |= word in _SHADES and number != 0
            is_colour = word in _AREAS and 0 < (number or 0) < len(self._colours)
            if is_colour and self._colours[number or 0] not in _INVISIBLE_COLOURS:
                raise _InkFound
            if word in _LINES or (word in _INK_WORDS and not group.hidden):
                raise _InkFound

    def _set_destination(self, word: bytes) -> None:
        # The first word of a group names its destination, if it is the name of one.
        group = self._group
        group.off_page |= word in OFF_PAGE or (group.starred and word not in _KNOWN_STARRED | TEXTLESS)
        group.textless |= word in TEXTLESS
        if word == b"pict":
            group.picture = _Picture()
        elif word == b"shp":
            group.is_shape, self._pictures = True, 0
        elif word == b"colortbl":
            group.off_page = group.in_colours = True

    def _on_symbol(self, token: Token) -> None:
        if token.text == b"*":
            self._group.starred = True
            return
        self._group.at_start = False
        if token.text in b"\\{}_":
            self._add_bytes(token.text)
        else:
            self._skip = max(0, self._skip - 1)

    def _on_byte(self, token: Token) -> None:
        self._group.at_start = False
        self._add_bytes(token.text)

    def _on_text(self, token: Token) -> None:
        group = self._group
        text = token.text.translate(None, b"\r\n")
        if text:
            group.at_start = False
        if group.picture is not None:
            if not group.off_page:
                group.picture.digits += text.translate(None, b" \t")
                if len(group.picture.digits) > 2 * _MAX_PICTURE_BYTES:
                    raise _InkFound
        elif group.in_colours:
            self._colours.extend([None] * 3 for _ in range(min(text.count(b";"), _MAX_COLOURS)))
        else:
            self._add_bytes(text)

    def _on_binary(self, token: Token) -> None:
        picture = self._group.picture
        if picture is not None:
            picture.content += token.text
            if len(picture.content) > _MAX_PICTURE_BYTES and not self._group.off_page:
                raise _InkFound

    def _add_bytes(self, text: bytes) -> None:
        taken = min(self._skip, len(text))
        self._skip -= taken
        self._add_text(text[taken:].decode("cp1252", "replace"))

    def _add_text(self, text: str) -> None:
        group = self._group
        if group.off_page or group.textless or group.hidden or group.picture is not None or not text.strip(INVISIBLE):
            return
        if not group.white:
            raise _InkFound
        self._has_white_text = True

    def _is_visible(self, picture: _Picture) -> bool:
        try:
            content = picture.content or bytes.fromhex(picture.digits.decode("ascii"))
        except ValueError:
            return True
        return bool(content) and (not picture.is_bitmap or not embedded_is_blank(io.BytesIO(content), self._limits))


class _RtfText(RtfInk):
    """Keeps the text that a document shows, to the end of the document."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.parts: list[str] = []
        self.size = 0

    def needs(self, token: Token) -> bool:
        """Read a token. Return whether there is time for another one."""
        try:
            self._handlers[token.type](token)
        except _InkFound:
            if len(self._groups) > _MAX_DEPTH:
                return False
        self._count += 1
        return self._count % _CLOCK_INTERVAL != 0 or not self._deadline.has_passed

    def _on_word(self, token: Token) -> None:
        if token.text in _WRITTEN:
            self._add_text(_WRITTEN[token.text])
        super()._on_word(token)

    def _on_text(self, token: Token) -> None:
        if self._group.picture is None:  # which may be large, and is not drawn
            super()._on_text(token)

    def _on_binary(self, token: Token) -> None:
        """Leave out the data of a picture."""

    def _add_text(self, text: str) -> None:
        group = self._group
        if not (group.off_page or group.textless or group.hidden or group.picture is not None):
            self.parts.append(text)
            self.size += len(text)

    def _is_visible(self, _picture: _Picture) -> bool:
        return False
