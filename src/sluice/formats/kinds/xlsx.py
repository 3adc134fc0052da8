"""Excel workbooks (.xlsx, its templates and macro variants, .xlsb): what of them a reader sees. Packages are read by `ooxml`, cells by `cells`.

A workbook is blank without a visible value, or with column headings alone on every sheet that has any; pictures that show something,
charts, shapes, comments are content. Sheets that are hidden are not looked at; binary workbooks are never blank.
"""

from collections.abc import Mapping
from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.office.cells import SharedStrings, Sheet, Styles
from sluice.formats.office.drawing import Ink, relation_of, short_name
from sluice.formats.office.ooxml import Package, check_package, open_package, recognises
from sluice.formats.office.ooxml_sample import make_package
from sluice.formats.source import Source
from sluice.formats.text.header_row import is_heading
from sluice.formats.text.xmlsafe import XmlTarget
from sluice.formats.verdict import Limits, Measure

_NAMESPACE: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_CONTENT: Final = frozenset(
    {"chartsheet", "dialogsheet", "xlmacrosheet", "pivottable", "ctrlprop", "oleobject", "package", "control"}
)
"""Relations of a workbook or a sheet to what is content by its mere presence."""
_CONTROL: Final = "{urn:schemas-microsoft-com:office:excel}ClientData"
_COMMENTS: Final = frozenset({"comments", "threadedcomment"})


class _Workbook(XmlTarget):
    """Which sheets are shown, by the ids of their relations."""

    def __init__(self) -> None:
        self.hidden: set[str] = set()

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if short_name(tag) == "s:sheet" and attributes.get("state", "visible") != "visible":
            self.hidden.add(relation_of(attributes, "id"))


class _Comments(Ink):
    """Any character in a part of comments."""

    def start(self, _tag: str, _attributes: Mapping[str, str]) -> None:
        """Element names do not matter here."""

    def end(self, _tag: str) -> None:
        """Element names do not matter here."""

    def data(self, text: str) -> None:
        if not text.isspace():
            self.ink_seen()


class _Controls(Ink):
    """Controls of a sheet, which are drawn by VML as its comments are."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Only what a control is matters here."""
        if tag == _CONTROL and attributes.get("ObjectType") != "Note":
            self.ink_seen()

    def end(self, _tag: str) -> None:
        """Only what a control is matters here."""

    def data(self, _text: str) -> None:
        """Only what a control is matters here."""


def blank(source: Source, limits: Limits) -> str | None:
    """Answer that no shown sheet has a visible value or object, or that all there is are column headings."""
    package = open_package(source, limits)
    main = package.main
    if main is None or not main.endswith(".xml"):
        return None
    workbook = _Workbook()
    package.read(main, workbook)
    shown = [each for relation, each in package.relations(main).items() if relation not in workbook.hidden]
    if any(each.kind in _CONTENT for each in shown):
        return None
    sheets = [each.target for each in shown if each.kind == "worksheet" and each.target in package.parts]
    if any(_has_objects(package, sheet) for sheet in sheets):
        return None
    return _blank_cells(package, main, sheets)


def _blank_cells(package: Package, main: str, sheets: list[str]) -> str | None:
    styles = Styles()
    for part in package.related(main, "styles"):
        package.read(part, styles)
    headings = 0
    for part in sheets:
        sheet = Sheet(styles.invisible, package.limits.soft_seconds)
        package.read(part, sheet)
        if sheet.has_content:
            return None
        rows = _rows(package, main, sheet)
        if len(rows) > 1 or (rows and not is_heading(rows[0])):
            return None
        headings += len(rows)
    return (
        "the workbook has column headings and no row below them"
        if headings
        else "no sheet of the workbook shows a value or an object"
    )


def _rows(package: Package, main: str, sheet: Sheet) -> list[list[str]]:
    """Answer the visible texts of a sheet by row."""
    strings = SharedStrings({cell for row in sheet.rows for cell in row if isinstance(cell, int)})
    if strings.wanted:
        for part in package.related(main, "sharedstrings"):
            package.read(part, strings)
    texts = ([strings.text(cell) if isinstance(cell, int) else cell for cell in row] for row in sheet.rows)
    return [visible for row in texts if (visible := [text for text in row if text])]


def _has_objects(package: Package, sheet: str) -> bool:
    relations = package.relations(sheet)
    if any(each.kind in _CONTENT for each in relations.values()):
        return True
    if any(each.kind == "image" and package.shows_picture(sheet, name) for name, each in relations.items()):
        return True  # the sheet's background
    for each in relations.values():
        if each.target not in package.parts:
            continue
        if each.kind in _COMMENTS and _has_ink(package, each.target, _Comments()):
            return True
        if each.kind == "vmldrawing" and _has_ink(package, each.target, _Controls()):
            return True
        if each.kind == "drawing" and _has_ink(package, each.target, Ink()):
            return True
    return False


def _has_ink(package: Package, part: str, ink: Ink) -> bool:
    package.read(part, ink)
    return ink.has_ink or any(package.shows_picture(part, relation) for relation in dict.fromkeys(ink.pictures))


def check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Judge the package as a workbook."""
    return check_package(source, limits, "xlsx")


def sample() -> bytes:
    """Answer a workbook of one number."""
    return make_package(
        "xl/workbook.xml",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml",
        f'<workbook xmlns="{_NAMESPACE}" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">'
        '<sheets><sheet name="Sluice" sheetId="1" r:id="rId1"/></sheets></workbook>',
        {
            "xl/sheet1.xml": (
                "worksheet",
                f'<worksheet xmlns="{_NAMESPACE}"><sheetData><row r="1"><c r="A1"><v>1</v></c></row></sheetData></worksheet>',
            )
        },
    )


KIND: Final = Kind(
    name="xlsx",
    content_type="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    extensions=frozenset({"xlsx", "xlsm", "xltx", "xltm", "xlam", "xlsb"}),
    recognises=lambda source: recognises(source, "xlsx"),
    check=check,
    sample=sample,
    blank=blank,
)
