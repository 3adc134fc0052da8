"""Does a Rich Text document show anything? Follows its groups as a reader does. Whether the document is whole is judged by the kind.

As with DOCX, headers and footers do not count, nor does text that is hidden, or white where nothing is shaded; notes and comments count. A
picture counts when it shows something; shapes, objects, borders count. In doubt (metafiles, what is too large) there is something.
"""

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from sluice.formats.budget import Deadline
from sluice.formats.images.embedded import embedded_is_blank
from sluice.formats.office.rtf_tokens import Token, What
from sluice.formats.text.plaintext import INVISIBLE
from sluice.formats.verdict import Limits


def _words(text: str) -> frozenset[bytes]:
    return frozenset(text.encode("ascii").split())


_DEAD: Final = _words("""
    aftncn aftnsep aftnsepc author background bkmkend bkmkstart buptim category colorschememapping comment company creatim datafield datastore
    defchp defpap doccomm docvar falt file filetbl fldinst fontemb fontfile fonttbl footer footerf footerl footerr ftncn ftnsep ftnsepc
    generator header headerf headerl headerr hlinkbase info keywords latentstyles listoverridetable listpicture listtable manager mmathPr
    nonshppict operator panose password passwordhash pgdsctbl pgptbl printim private protusertbl revtbl revtim rsidtbl rxe shprslt
    stylesheet subject tc tcn template themedata title txe userprops wgrffmtfilter xe xmlnstbl
""")
"""Destinations of which nothing is on the page."""
_WORDLESS: Final = _words("blipuid picprop sn sp sv atnid atnauthor atndate atntime atnref atnicn atnparent formfield")
"""Destinations whose text is no text, though pictures and switches in them matter."""
_SHOWN_THOUGH_STARRED: Final = _words("annotation footnote pntext listtext shpinst shppict shptxt result shpgrp")
"""Starred destinations are passed over by readers that do not know them; these are known to all."""
_DRAWN: Final = _words(
    "bullet chdate chdpa chdpl chftn chpgn chtime do emdash endash ldblquote lquote object objattph rdblquote rquote sectnum"
)
_LINES: Final = _words("""
    brdrs brdrth brdrsh brdrdb brdrdot brdrdash brdrhair brdrdashsm brdrdashd brdrdashdd brdrdashdot brdrdashdotdot brdrtriple brdrwavy
    brdrwavydb brdrtnthsg brdrthtnsg brdrtnthtnsg brdrtnthmg brdrthtnmg brdrtnthlg brdrthtnlg brdremboss brdrengrave brdrinset brdroutset
""")
_GROUNDS: Final = _words("highlight cb chcbpat cbpat clcbpat trcbpat chshdng shading clshdng")
_AREAS: Final = _words("clcbpat cbpat")
"""The colours of cells and paragraphs, which are seen even where they are empty."""
_UNSEEN: Final = ([None] * 3, [255, 255, 255])
_BITMAPS: Final = _words("pngblip jpegblip")
_DRAWN_FIELDS: Final = frozenset({1, 2})
"""Form fields of these types are boxes to check and lists to drop down."""
_PICTURE_MOST: Final = 32 * 1024**2
_DEPTH_MOST: Final = 10_000
_LOOK_AT_CLOCK: Final = 4096


@dataclass(slots=True)
class _Picture:
    """A picture whose content is being collected."""

    is_bitmap: bool = False
    content: bytes = b""
    digits: bytearray | None = None


@dataclass(slots=True)
class _Group:
    """What holds within a group; groups within begin with a copy."""

    dead: bool = False
    wordless: bool = False
    hidden: bool = False
    white: bool = False
    fallback: int = 1
    """How many characters follow one in Unicode, for readers that cannot show it."""
    at_start: bool = True
    """Whether the next word may name the group's destination."""
    starred: bool = False
    in_colours: bool = False
    is_shape: bool = False
    picture: _Picture | None = None


class _Enough(Exception):
    """Something shows."""


def rtf_shows(found: Iterable[Token], limits: Limits) -> bool:
    """Whether a document, given in tokens, shows anything to a reader."""
    ink = _Ink(limits)
    try:
        ink.read(found)
    except _Enough:
        return True
    return ink.has_white_on_ground


class _Ink:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._deadline = Deadline(limits.soft_seconds)
        self._group = _Group()
        self._groups: list[_Group] = []
        self._colours: list[list[int | None]] = [[None] * 3]
        self._skip = 0
        self._pictures = 0
        self._has_white = self._has_ground = False
        self._take: dict[What, Callable[[Token], None]] = {
            What.OPEN: self._open,
            What.CLOSE: self._close,
            What.WORD: self._word,
            What.SYMBOL: self._symbol,
            What.BYTE: self._byte,
            What.TEXT: self._text,
            What.BINARY: self._binary,
        }

    @property
    def has_white_on_ground(self) -> bool:
        """Whether there is white text, and something is shaded on which it may stand."""
        return self._has_white and self._has_ground

    def read(self, found: Iterable[Token]) -> None:
        """Read until something shows, which raises, or to the end."""
        for count, token in enumerate(found, 1):
            self._take[token.what](token)
            if count % _LOOK_AT_CLOCK == 0 and self._deadline.has_passed:
                raise _Enough

    def _open(self, _token: Token) -> None:
        if len(self._groups) > _DEPTH_MOST:
            raise _Enough
        self._groups.append(self._group)
        self._group = replace(self._group, at_start=True, starred=False, is_shape=False, picture=None)
        self._skip = 0

    def _close(self, _token: Token) -> None:
        closed = self._group
        if self._groups:
            self._group = self._groups.pop()
        self._skip = 0
        if closed.picture is not None:
            self._pictures += 1
            if not closed.dead and self._picture_shows(closed.picture):
                raise _Enough
        if closed.is_shape and not closed.dead and not self._pictures:
            raise _Enough

    def _word(self, token: Token) -> None:
        group, word, number = self._group, token.text, token.number
        if group.at_start:
            self._begin(word)
        group.at_start = False
        if word == b"u" and number is not None:
            self._show(chr(number % 0x10000))
            self._skip = group.fallback
        elif word == b"uc":
            group.fallback = number or 0
        elif word == b"v":
            group.hidden = number != 0
        elif word == b"cf":
            group.white = 0 <= (number or 0) < len(self._colours) and self._colours[number or 0] == [255, 255, 255]
        elif word == b"plain":
            group.hidden = group.white = False
        elif group.in_colours and word in {b"red", b"green", b"blue"}:
            self._colours[-1][(b"red", b"green", b"blue").index(word)] = number or 0
        elif word == b"fftype" and number in _DRAWN_FIELDS and not group.dead:
            raise _Enough
        elif group.picture is not None:
            group.picture.is_bitmap |= word in _BITMAPS
        else:
            self._draw(word, number)

    def _begin(self, word: bytes) -> None:
        """Take the word that names a group's destination, if it does."""
        group = self._group
        group.dead |= word in _DEAD or (group.starred and word not in _SHOWN_THOUGH_STARRED | _WORDLESS)
        group.wordless |= word in _WORDLESS
        if word == b"pict":
            group.picture = _Picture()
        elif word == b"shp":
            group.is_shape, self._pictures = True, 0
        elif word == b"colortbl":
            group.dead = group.in_colours = True

    def _draw(self, word: bytes, number: int | None) -> None:
        group = self._group
        if group.dead or group.wordless:
            return
        self._has_ground |= word in _GROUNDS and number != 0
        if word in _AREAS and 0 < (number or 0) < len(self._colours) and self._colours[number or 0] not in _UNSEEN:
            raise _Enough
        if word in _LINES or (word in _DRAWN and not group.hidden):
            raise _Enough

    def _symbol(self, token: Token) -> None:
        if token.text == b"*":
            self._group.starred = True
            return
        self._group.at_start = False
        if token.text in b"\\{}_":
            self._letters(token.text)
        else:
            self._skip = max(0, self._skip - 1)

    def _byte(self, token: Token) -> None:
        self._group.at_start = False
        self._letters(token.text)

    def _text(self, token: Token) -> None:
        group = self._group
        text = token.text.translate(None, b"\r\n")
        if text:
            group.at_start = False
        if group.picture is not None:
            self._collect(group.picture, text)
        elif group.in_colours:
            self._colours.extend([None] * 3 for _ in range(min(text.count(b";"), 1000)))
        else:
            self._letters(text)

    def _binary(self, token: Token) -> None:
        picture = self._group.picture
        if picture is not None:
            picture.content += token.text
            if len(picture.content) > _PICTURE_MOST and not self._group.dead:
                raise _Enough

    def _letters(self, text: bytes) -> None:
        taken = min(self._skip, len(text))
        self._skip -= taken
        self._show(text[taken:].decode("cp1252", "replace"))

    def _show(self, text: str) -> None:
        group = self._group
        if group.dead or group.wordless or group.hidden or group.picture is not None or not text.strip(INVISIBLE):
            return
        if not group.white:
            raise _Enough
        self._has_white = True

    def _collect(self, picture: _Picture, text: bytes) -> None:
        if self._group.dead:
            return
        picture.digits = picture.digits or bytearray()
        picture.digits += text.translate(None, b" \t")
        if len(picture.digits) > 2 * _PICTURE_MOST:
            raise _Enough

    def _picture_shows(self, picture: _Picture) -> bool:
        try:
            content = picture.content or bytes.fromhex((picture.digits or b"").decode("ascii"))
        except ValueError:
            return True
        return bool(content) and (not picture.is_bitmap or not embedded_is_blank(io.BytesIO(content), self._limits))
