"""Excel workbooks (.xlsx, templates, macro variants, binary .xlsb)."""
# Blank without a visible value, or when every sheet with values has column headings alone. Visible pictures, charts,
# shapes and comments are content. Hidden sheets are not read; binary workbooks are never blank.

from collections.abc import Mapping
from functools import partial
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.ooxml import measure_package
from sluice_inspect.format import Family, Format, MatchOrder, SecondFormats, named
from sluice_inspect.office.drawing import DrawingInk, is_on, relation_of, short_name
from sluice_inspect.office.ooxml import BEGINNINGS, Package, examine_package, is_ooxml, make_package
from sluice_inspect.text.header_row import is_heading
from sluice_inspect.text.plaintext import INVISIBLE
from sluice_inspect.text.xmlsafe import StopParsing, XmlTarget

_NAMESPACE: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
# Relations of a workbook or a sheet to what is content by its mere presence.
_CONTENT: Final = frozenset(
    {"chartsheet", "dialogsheet", "xlmacrosheet", "pivottable", "ctrlprop", "oleobject", "package", "control"}
)
_CONTROL: Final = "{urn:schemas-microsoft-com:office:excel}ClientData"
_MAX_TEXTS: Final = 5_000  # more cells of text than this on one sheet are content, whatever they are
_TEXT_KEPT: Final = 1_000
_CLOCK_INTERVAL: Final = 10_000
_WHITE: Final = frozenset({"ffffffff", "00ffffff", "ffffff"})
_HIDING_FORMAT: Final = ";;;"
# With one of these on a sheet, hidden rows may only be filtered out, and white text may be on a coloured ground.
_AMBIGUOUS: Final = frozenset({"s:autoFilter", "s:conditionalFormatting", "s:tableParts"})


def _blank(package: Package) -> str | None:
    main = package.main
    if main is None or not package.is_xml(main):
        return None
    workbook = _HiddenSheets()
    package.read(main, workbook)
    shown = [each for relation, each in package.relations(main).items() if relation not in workbook.relations]
    if any(each.type in _CONTENT for each in shown):
        return None
    sheets = [each.target for each in shown if each.type == "worksheet" and each.target in package.parts]
    if any(_has_objects(package, sheet) for sheet in sheets):
        return None
    return _blank_cells(package, main, sheets)


def _blank_cells(package: Package, main: str, sheets: list[str]) -> str | None:
    formats = _CellFormats()
    for part in package.related(main, "styles"):
        package.read(part, formats)
    headings = 0
    for part in sheets:
        sheet = _SheetCells(formats.invisible, package.limits.soft_seconds)
        package.read(part, sheet)
        if sheet.has_content:
            return None
        rows = _visible_rows(package, main, sheet)
        if len(rows) > 1 or (rows and not is_heading(rows[0])):
            return None
        headings += len(rows)
    if headings:
        return "the workbook has column headings and no row below them"
    return "no sheet of the workbook shows a value or an object"


def _has_objects(package: Package, sheet: str) -> bool:
    relations = package.relations(sheet)
    if any(each.type in _CONTENT for each in relations.values()):
        return True
    # A related image is the background of the sheet.
    if any(each.type == "image" and package.is_picture_visible(sheet, name) for name, each in relations.items()):
        return True
    for each in relations.values():
        if each.target not in package.parts:
            continue
        ink: DrawingInk
        if each.type in {"comments", "threadedcomment"}:
            ink = _CommentInk()
        elif each.type == "vmldrawing":
            ink = _ControlInk()
        elif each.type == "drawing":
            ink = DrawingInk()
        else:
            continue
        package.read(each.target, ink)
        pictures = dict.fromkeys(ink.pictures)
        if ink.has_ink or any(package.is_picture_visible(each.target, relation) for relation in pictures):
            return True
    return False


def _visible_rows(package: Package, main: str, sheet: "_SheetCells") -> list[list[str]]:
    strings = _SharedTexts({cell for row in sheet.rows for cell in row if isinstance(cell, int)})
    if strings.wanted:
        for part in package.related(main, "sharedstrings"):
            package.read(part, strings)
    texts = ([strings.text(cell) if isinstance(cell, int) else cell for cell in row] for row in sheet.rows)
    return [visible for row in texts if (visible := [text for text in row if text])]


class _HiddenSheets(XmlTarget):
    def __init__(self) -> None:
        self.relations: set[str] = set()

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if short_name(tag) == "s:sheet" and attributes.get("state", "visible") != "visible":
            self.relations.add(relation_of(attributes, "id"))


class _CommentInk(DrawingInk):
    def start(self, _tag: str, _attributes: Mapping[str, str]) -> None:
        pass

    def end(self, _tag: str) -> None:
        pass

    def data(self, text: str) -> None:
        if not text.isspace():
            self.mark_ink()


class _ControlInk(DrawingInk):
    """Form controls of a sheet. They are drawn in VML, as the boxes of comments ("notes") are."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == _CONTROL and attributes.get("ObjectType") != "Note":
            self.mark_ink()

    def end(self, _tag: str) -> None:
        pass

    def data(self, _text: str) -> None:
        pass


class _CellFormats(XmlTarget):
    """Which cell formats leave no ink: white letters without a fill, and number formats that show nothing."""

    def __init__(self) -> None:
        self.invisible: set[int] = set()
        self._hiding: set[str] = set()
        self._fonts: list[bool] = []  # whether each font is white
        self._fills: list[bool] = []  # whether each fill is none
        self._stack: list[str] = []
        self._count = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name, parent = short_name(tag), self._stack[-1] if self._stack else ""
        self._stack.append(name)
        if name == "s:numFmt" and attributes.get("formatCode") == _HIDING_FORMAT:
            self._hiding.add(attributes.get("numFmtId", ""))
        elif name == "s:font" and parent == "s:fonts":
            self._fonts.append(False)
        elif name == "s:color" and parent == "s:font" and self._fonts:
            is_theme_white = attributes.get("theme") == "0" and "tint" not in attributes
            self._fonts[-1] = attributes.get("rgb", "").lower() in _WHITE or is_theme_white
        elif name == "s:fill" and parent == "s:fills":
            self._fills.append(False)
        elif name == "s:patternFill" and self._fills:
            self._fills[-1] = attributes.get("patternType", "none") == "none"
        elif name == "s:xf" and parent == "s:cellXfs":
            font, fill = _number(attributes.get("fontId")), _number(attributes.get("fillId", "0"))
            is_white = font < len(self._fonts) and self._fonts[font]
            is_bare = fill < len(self._fills) and self._fills[fill]
            if (is_white and is_bare) or attributes.get("numFmtId", "0") in self._hiding:
                self.invisible.add(self._count)
            self._count += 1

    def end(self, _tag: str) -> None:
        self._stack.pop()


class _SheetCells(XmlTarget):
    """The cells of one sheet. Parsing stops at the first value that is no text."""

    skips_runs = True

    def __init__(self, invisible: set[int], soft_seconds: float) -> None:
        self.rows: list[list[int | str]] = []  # visible texts by row; shared ones as their index
        self._invisible = invisible
        self._deadline = Deadline(soft_seconds)
        self._found = self._hidden_found = self._is_ambiguous = False
        self._row_hidden = False
        self._hidden_columns: list[range] = []
        self._texts = self._cells = 0
        self._attributes: Mapping[str, str] = {}
        self._open: str | None = None
        self._pieces: dict[str, list[str]] = {}

    @property
    def has_content(self) -> bool:
        return self._found or (self._hidden_found and self._is_ambiguous)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = short_name(tag)
        if name == "s:c":
            self._attributes = attributes
            self._pieces = {}
            self._cells += 1
            if self._cells % _CLOCK_INTERVAL == 0 and self._deadline.has_passed:
                self._mark_content()
        elif name in {"s:v", "s:f", "s:t"}:
            self._open = name
        elif name == "s:row":
            self._row_hidden = _flag(attributes, "hidden")
            self._is_ambiguous |= "outlineLevel" in attributes
            self.rows.append([])
        elif name == "s:col" and _flag(attributes, "hidden"):
            self._hidden_columns.append(range(_number(attributes.get("min")), _number(attributes.get("max")) + 1))
        elif name in _AMBIGUOUS:
            self._is_ambiguous = True

    def end(self, tag: str) -> None:
        name = short_name(tag)
        if name == self._open:
            self._open = None
        elif name == "s:c":
            if self._pieces:
                self._close_cell()
        elif name == "s:row" and self.rows and not self.rows[-1]:
            self.rows.pop()

    def data(self, text: str) -> None:
        if self._open:
            self._pieces.setdefault(self._open, []).append(text[:_TEXT_KEPT])

    def _close_cell(self) -> None:
        cell_type = self._attributes.get("t", "n")
        value, inline, formula = ("".join(self._pieces.get(name, ())) for name in ("s:v", "s:t", "s:f"))
        formula = formula.strip().removeprefix("=")
        text: int | str = ""
        if cell_type == "s":
            text = _number(value) if value else ""
        elif cell_type in {"str", "inlineStr"}:
            text = (value + inline).strip(INVISIBLE)
        elif value.strip() or formula not in {"", '""'}:
            self._add_value(None)
        if text != "":
            self._add_value(text)

    def _add_value(self, text: int | str | None) -> None:
        column = _column(self._attributes.get("r", "")) if self._hidden_columns else 0
        if (
            self._row_hidden
            or _number(self._attributes.get("s")) in self._invisible
            or any(column in hidden for hidden in self._hidden_columns)
        ):
            self._hidden_found = True
            return
        self._texts += 1
        if text is None or self._texts > _MAX_TEXTS:
            self._mark_content()
        elif self.rows:
            self.rows[-1].append(text)

    def _mark_content(self) -> None:
        self._found = True
        raise StopParsing


class _SharedTexts(XmlTarget):
    def __init__(self, wanted: set[int]) -> None:
        self.wanted = wanted
        self._last = max(wanted, default=-1)
        self._texts: dict[int, str] = {}
        self._index = -1
        self._is_open = False

    def text(self, index: int) -> str:
        return self._texts.get(index, "").strip(INVISIBLE)

    def start(self, tag: str, _attributes: Mapping[str, str]) -> None:
        name = short_name(tag)
        if name == "s:si":
            self._index += 1
            if self._index > self._last:
                raise StopParsing
        self._is_open = name == "s:t" and self._index in self.wanted

    def end(self, _tag: str) -> None:
        self._is_open = False

    def data(self, text: str) -> None:
        if self._is_open:
            self._texts[self._index] = self._texts.get(self._index, "") + text[:_TEXT_KEPT]


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _flag(attributes: Mapping[str, str], name: str) -> bool:
    return name in attributes and is_on(attributes[name])


def _column(reference: str) -> int:
    """Return 28 for `AB7`."""
    column = 0
    for letter in reference:
        if not "A" <= letter <= "Z":
            break
        column = column * 26 + ord(letter) - 64
    return column


def _sample() -> bytes:
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    rows = '<sheetData><row r="1"><c r="A1"><v>1</v></c></row></sheetData>'
    return make_package(
        "xl/workbook.xml",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml",
        f'<workbook xmlns="{_NAMESPACE}" xmlns:r="{relations}">'
        '<sheets><sheet name="Sluice" sheetId="1" r:id="rId1"/></sheets></workbook>',
        {"xl/sheet1.xml": ("worksheet", f'<worksheet xmlns="{_NAMESPACE}">{rows}</worksheet>')},
    )


FORMAT: Final = Format(
    name="xlsx",
    family=Family.DOCUMENT,
    content_type="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    extensions=frozenset({"xlsx", "xlsm", "xltx", "xltm", "xlam", "xlsb"}),
    begins=BEGINNINGS,
    matches=lambda source: is_ooxml(source, "xlsx"),
    match_order=MatchOrder.IN_CONTAINER,
    examine=partial(examine_package, family="xlsx", blank=_blank),
    facts=partial(measure_package, counted=("sheets", "}sheet")),
    own_facts=frozenset({"encrypted", "sheets"}),
    sample=_sample,
    names=named("Excel ({})", "xlsx xlsm xlsb xltx xltm")
    | named("spreadsheet", "application/vnd.openxmlformats-officedocument.spreadsheetml"),
    second_formats=SecondFormats.AROUND,
    is_office=True,
)
