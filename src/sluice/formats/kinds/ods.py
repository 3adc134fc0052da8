"""OpenDocument spreadsheets (.ods, templates): what of them a reader sees. Packages are read by `odf`, ink besides cells is found by `odf_ink`.

A workbook is blank without a visible value, or with column headings alone on every sheet that has any; pictures that show something,
charts, shapes, comments are content, colours and lines of empty cells are not. Sheets that are not displayed are not looked at.
"""

from collections.abc import Mapping
from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.office.odf import check_package, family_of
from sluice.formats.office.odf_ink import Ink, shows_something
from sluice.formats.office.odf_names import OFFICE, TABLE
from sluice.formats.office.odf_sample import make_package
from sluice.formats.office.zip_documents import open_document
from sluice.formats.source import Source
from sluice.formats.text.header_row import is_heading
from sluice.formats.text.plaintext import INVISIBLE
from sluice.formats.verdict import Limits

_CELLS: Final = frozenset({"table:table-cell", "table:covered-table-cell"})
_GROUPS: Final = frozenset({"table:table-row-group", "table:table-column-group"})
_BESIDE_CELLS: Final = frozenset({"office:annotation", "table:shapes"})
_OF_THE_LOOK: Final = _CELLS | {"text:p", "text:h"}
_TEXTS_MOST: Final = 5_000
"""More cells of text than this on one sheet are content, whatever they say."""
_TEXT_MOST: Final = 1_000
_DIGITS_MOST: Final = 9


class _Sheets(Ink):
    """The cells of all sheets. Reading ends with the first that is content by itself: a number, a date, a truth value."""

    def __init__(self, soft_seconds: float) -> None:
        super().__init__(soft_seconds)
        self.headings = 0
        self._rows: list[list[str]] = []
        self._row: list[str] = []
        self._row_repeated = 1
        self._sheet_off = self._row_hidden = self._cell_hidden = False
        self._hidden_columns: list[range] = []
        self._column = self._repeated = self._groups = self._beside = self._texts = 0
        self._text: str | None = None
        """Of the open cell."""
        self._awaits_result = False
        """Whether the open cell has a formula, but neither a value nor the paragraph of an empty text."""

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in _CELLS:
            self._open_cell(attributes)
        elif name == "table:table-row":
            self._open_row(attributes)
        elif name == "table:table-column":
            self._add_column(attributes)
        elif name == "table:table":
            self._sheet_off = self.styles.look("table", attributes.get(TABLE + "style-name")).is_off
            self._rows, self._hidden_columns, self._column = [], [], 0
        elif name in _BESIDE_CELLS or name.startswith("draw:"):
            self._beside += 1
        elif name == "text:p":
            self._awaits_result = False
        self._groups += name in _GROUPS

    def closed(self, name: str) -> None:
        if name in _CELLS:
            self._close_cell()
        elif name == "table:table-row":
            self._rows += [self._row] * min(2, self._row_repeated) if self._row else []
            self._row = []
        elif name == "table:table":
            self._close_sheet()
        elif name in _BESIDE_CELLS or name.startswith("draw:"):
            self._beside -= 1
        self._groups -= name in _GROUPS

    def text_seen(self, text: str, *, white: bool) -> None:
        if self._beside or self._text is None:
            super().text_seen(text, white=white)
        elif not white:
            self._text += text[:_TEXT_MOST]

    def object_seen(self, name: str) -> None:
        if name not in _OF_THE_LOOK:
            super().object_seen(name)

    def ink_seen(self) -> None:
        if not self._sheet_off:
            super().ink_seen()

    def _add_column(self, attributes: Mapping[str, str]) -> None:
        count = _number(attributes.get(TABLE + "number-columns-repeated"))
        if attributes.get(TABLE + "visibility") == "collapse" and not self._groups:
            self._hidden_columns.append(range(self._column, self._column + count))
        self._column += count

    def _open_row(self, attributes: Mapping[str, str]) -> None:
        self._row_hidden = attributes.get(TABLE + "visibility") == "collapse" and not self._groups
        self._row_repeated = _number(attributes.get(TABLE + "number-rows-repeated"))
        self._column = 0

    def _open_cell(self, attributes: Mapping[str, str]) -> None:
        look = self.styles.look("table-cell", attributes.get(TABLE + "style-name"))
        is_invisible = bool(look.is_white) and not look.has_ground and not look.is_conditional and look.parent in {"", "Default"}
        self._cell_hidden = self._row_hidden or is_invisible or any(self._column in hidden for hidden in self._hidden_columns)
        self._repeated = _number(attributes.get(TABLE + "number-columns-repeated"))
        self._column += self._repeated
        kind = attributes.get(OFFICE + "value-type") or attributes.get(TABLE + "value-type")
        self._awaits_result = kind is None and TABLE + "formula" in attributes
        self._text = attributes.get(OFFICE + "string-value", "").strip(INVISIBLE)[:_TEXT_MOST]
        if kind not in {None, "string"} and not self._cell_hidden:
            self.ink_seen()

    def _close_cell(self) -> None:
        text, self._text = self._text or "", None
        if self._cell_hidden:
            return
        if self._awaits_result and not text:
            self.ink_seen()
        if text:
            self._texts += 1
            self._row += [text.strip(INVISIBLE)] * min(2, self._repeated)
            if self._texts > _TEXTS_MOST:
                self.ink_seen()

    def _close_sheet(self) -> None:
        if len(self._rows) > 1 or (self._rows and not is_heading(self._rows[0])):
            self.ink_seen()
        self.headings += 0 if self._sheet_off else len(self._rows)
        self._sheet_off = False


def _number(text: str | None) -> int:
    """Answer how often something is repeated."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= _DIGITS_MOST else 1


def blank(source: Source, limits: Limits) -> str | None:
    """Answer that no displayed sheet has a visible value or object, or that all there is are column headings."""
    sheets = _Sheets(limits.soft_seconds)
    if shows_something(open_document(source, limits), sheets):
        return None
    if sheets.headings:
        return "the workbook has column headings and no row below them"
    return "no sheet of the workbook shows a value or an object"


KIND: Final = Kind(
    name="ods",
    content_type="application/vnd.oasis.opendocument.spreadsheet",
    extensions=frozenset({"ods", "ots"}),
    recognises=lambda source: family_of(source) == "spreadsheet",
    check=check_package,
    sample=lambda: make_package(
        "spreadsheet",
        '<table:table table:name="Sluice"><table:table-row><table:table-cell office:value-type="float" office:value="1"><text:p>1</text:p>'
        "</table:table-cell></table:table-row></table:table>",
    ),
    blank=blank,
)
