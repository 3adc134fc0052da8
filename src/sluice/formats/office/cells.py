"""Reads the cells of a workbook's sheet as far as it takes to know whether they show anything. Sheets, charts and drawings are found by the kind."""

from collections.abc import Mapping
from typing import Final

from sluice.formats.budget import Deadline
from sluice.formats.office.drawing import is_on, short_name
from sluice.formats.text.plaintext import INVISIBLE
from sluice.formats.text.xmlsafe import Enough, XmlTarget

_TEXTS_MOST: Final = 5_000
"""More cells of text than this on one sheet are content, whatever they say."""
_LOOK_AT_CLOCK: Final = 10_000
_WHITE: Final = frozenset({"ffffffff", "00ffffff", "ffffff"})
_SHOWS_NOTHING: Final = ";;;"
_DOUBTFUL: Final = frozenset({"s:autoFilter", "s:conditionalFormatting", "s:tableParts"})
"""With these on a sheet, hidden rows may only be filtered out, and white text may stand on colour."""


class Styles(XmlTarget):
    """Which cell formats leave no ink: white letters on no fill, and number formats that show nothing."""

    def __init__(self) -> None:
        self.invisible: set[int] = set()
        self._formats: set[str] = set()
        self._fonts: list[bool] = []
        self._fills: list[bool] = []
        self._place: list[str] = []
        self._count = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open an element."""
        name, parent = short_name(tag), self._place[-1] if self._place else ""
        self._place.append(name)
        if name == "s:numFmt" and attributes.get("formatCode") == _SHOWS_NOTHING:
            self._formats.add(attributes.get("numFmtId", ""))
        elif name == "s:font" and parent == "s:fonts":
            self._fonts.append(False)
        elif name == "s:color" and parent == "s:font" and self._fonts:
            self._fonts[-1] = attributes.get("rgb", "").lower() in _WHITE or (
                attributes.get("theme") == "0" and "tint" not in attributes
            )
        elif name == "s:fill" and parent == "s:fills":
            self._fills.append(False)
        elif name == "s:patternFill" and self._fills:
            self._fills[-1] = attributes.get("patternType", "none") == "none"
        elif name == "s:xf" and parent == "s:cellXfs":
            self._add(attributes)

    def end(self, _tag: str) -> None:
        """Close an element."""
        self._place.pop()

    def _add(self, attributes: Mapping[str, str]) -> None:
        white, bare = _item(self._fonts, attributes.get("fontId")), _item(self._fills, attributes.get("fillId", "0"))
        if (white and bare) or attributes.get("numFmtId", "0") in self._formats:
            self.invisible.add(self._count)
        self._count += 1


class Sheet(XmlTarget):
    """The cells of one sheet. Reading ends with the first that is content by itself: a number, a truth value, an error, a formula's result."""

    def __init__(self, invisible: set[int], soft_seconds: float) -> None:
        self.rows: list[list[int | str]] = []
        """Texts by row: visible ones as they are, shared ones as their index."""
        self._invisible = invisible
        self._deadline = Deadline(soft_seconds)
        self._found = self._hidden_found = self._doubtful = False
        self._row_hidden = False
        self._hidden_columns: list[range] = []
        self._texts = self._cells = 0
        self._attributes: Mapping[str, str] = {}
        self._taking: str | None = None
        self._pieces: dict[str, str] = {}

    @property
    def has_content(self) -> bool:
        """Whether a cell is content by itself."""
        return self._found or (self._hidden_found and self._doubtful)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open an element."""
        name = short_name(tag)
        if name == "s:c":
            self._open_cell(attributes)
        elif name in {"s:v", "s:f", "s:t"}:
            self._taking = name
        elif name == "s:row":
            self._row_hidden = _flag(attributes, "hidden")
            self._doubtful |= "outlineLevel" in attributes
            self.rows.append([])
        elif name == "s:col" and _flag(attributes, "hidden"):
            self._hidden_columns.append(range(_number(attributes.get("min")), _number(attributes.get("max")) + 1))
        elif name in _DOUBTFUL:
            self._doubtful = True

    def end(self, tag: str) -> None:
        """Close an element."""
        name = short_name(tag)
        if name == self._taking:
            self._taking = None
        elif name == "s:c":
            self._close_cell()
        elif name == "s:row" and self.rows and not self.rows[-1]:
            self.rows.pop()

    def data(self, text: str) -> None:
        """Take a piece of text."""
        if self._taking:
            self._pieces[self._taking] = self._pieces.get(self._taking, "") + text[:1000]

    def _open_cell(self, attributes: Mapping[str, str]) -> None:
        self._attributes = attributes
        self._pieces = {}
        self._cells += 1
        if self._cells % _LOOK_AT_CLOCK == 0 and self._deadline.has_passed:
            self._show()

    def _close_cell(self) -> None:
        if not self._pieces:
            return
        kind = self._attributes.get("t", "n")
        value, inline = self._pieces.get("s:v", ""), self._pieces.get("s:t", "")
        formula = self._pieces.get("s:f", "").strip().removeprefix("=")
        text: int | str = ""
        if kind == "s":
            text = _number(value) if value else ""
        elif kind in {"str", "inlineStr"}:
            text = (value + inline).strip(INVISIBLE)
        elif value.strip() or formula not in {"", '""'}:
            self._note(None)
        if text != "":
            self._note(text)

    def _note(self, text: int | str | None) -> None:
        if self._is_hidden():
            self._hidden_found = True
            return
        self._texts += 1
        if text is None or self._texts > _TEXTS_MOST:
            self._show()
        elif self.rows:
            self.rows[-1].append(text)

    def _is_hidden(self) -> bool:
        column = _column(self._attributes.get("r", "")) if self._hidden_columns else 0
        style = _number(self._attributes.get("s"))
        return self._row_hidden or style in self._invisible or any(column in hidden for hidden in self._hidden_columns)

    def _show(self) -> None:
        self._found = True
        raise Enough


class SharedStrings(XmlTarget):
    """The wanted ones of a workbook's shared strings; reading ends with the last of them."""

    def __init__(self, wanted: set[int]) -> None:
        self.wanted = wanted
        self._last = max(wanted, default=-1)
        self._texts: dict[int, str] = {}
        self._index = -1
        self._taking = False

    def text(self, index: int) -> str:
        """Answer what a string shows, up to its first thousand characters; empty when that is nothing."""
        return self._texts.get(index, "").strip(INVISIBLE)

    def start(self, tag: str, _attributes: Mapping[str, str]) -> None:
        """Open an element."""
        name = short_name(tag)
        if name == "s:si":
            self._index += 1
            if self._index > self._last:
                raise Enough
        self._taking = name == "s:t" and self._index in self.wanted

    def end(self, _tag: str) -> None:
        """Close an element."""
        self._taking = False

    def data(self, text: str) -> None:
        """Take a piece of text."""
        if self._taking:
            self._texts[self._index] = self._texts.get(self._index, "") + text[:1000]


def _item(flags: list[bool], index: str | None) -> bool:
    place = _number(index)
    return place < len(flags) and flags[place]


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0  # noqa: PLR2004  (no index has more digits)


def _flag(attributes: Mapping[str, str], name: str) -> bool:
    return name in attributes and is_on(attributes[name])


def _column(reference: str) -> int:
    """Answer 28 for `AB7`."""
    column = 0
    for letter in reference:
        if not "A" <= letter <= "Z":
            break
        column = column * 26 + ord(letter) - 64
    return column
