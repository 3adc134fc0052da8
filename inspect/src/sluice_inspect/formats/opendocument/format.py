"""OpenDocument (ODF 1.3): check of the package, and the formats `ODT`, `ODS`, `ODP` with their blank rules."""
# Readers forgive a `mimetype` that is compressed, not first or missing, and settings and macros that are not XML.

import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from sluice_inspect.archives.zip.records import LOCAL
from sluice_inspect.facts.opendocument import measure_opendocument
from sluice_inspect.format import Examination, Family, Format, MatchOrder, SecondFormats, named
from sluice_inspect.formats.opendocument.ink import (
    CONTENT,
    OFFICE,
    PRESENTATION,
    TABLE,
    ContentInk,
    has_document_ink,
)
from sluice_inspect.office.zip_documents import (
    MANIFEST,
    ZipDocument,
    check_parts,
    make_zip,
    media_type_of,
    open_document,
)
from sluice_inspect.report import Corrupt, Encrypted, Limits, Measure
from sluice_inspect.source import Source
from sluice_inspect.text.header_row import is_heading
from sluice_inspect.text.plaintext import INVISIBLE
from sluice_inspect.text.xmlsafe import XmlTarget

_MAIN_PARTS: Final = frozenset({CONTENT, "styles.xml", "meta.xml", "settings.xml"})
_MACROS: Final = ("Basic/", "Scripts/")
_MANIFEST_NAMESPACE: Final = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
_MEDIA_TYPE: Final = "application/vnd.oasis.opendocument."
_FURNITURE: Final = frozenset({"date-time", "footer", "header", "page-number"})
_FIELDS: Final = frozenset({"presentation:date-time", "presentation:footer", "presentation:header", "text:page-number"})
_TABLES: Final = re.compile(rb"<(?:[\w.-]+:)?table[\s/>]")
_SLIDES: Final = re.compile(rb"<(?:[\w.-]+:)?page[\s/>]")
_CELLS: Final = frozenset({"table:table-cell", "table:covered-table-cell"})
_GROUPS: Final = frozenset({"table:table-row-group", "table:table-column-group"})
_BESIDE_CELLS: Final = frozenset({"office:annotation", "table:shapes"})
_STYLED_ONLY: Final = _CELLS | {"text:p", "text:h"}  # objects only by their colours and lines
_MAX_TEXTS: Final = 5_000  # more cells of text than this on one sheet are content, whatever they are
_TEXT_KEPT: Final = 1_000
_MAX_DIGITS: Final = 9
_SAMPLE_NAMESPACES: Final = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{namespace}:1.0"'
    for prefix, namespace in (
        ("office", "office"),
        ("text", "text"),
        ("table", "table"),
        ("draw", "drawing"),
        ("svg", "svg-compatible"),
    )
)


def _family_of(source: Source) -> str | None:
    """Return `text`, `spreadsheet`, `presentation` or another family that the package states, templates included."""
    media_type = media_type_of(source)
    return media_type.removeprefix(_MEDIA_TYPE).partition("-")[0] if media_type.startswith(_MEDIA_TYPE) else None


def _check_package(source: Source, limits: Limits) -> tuple[ZipDocument, Mapping[str, Measure]]:
    """Check a document whole. Return it and its measures. Raises `Encrypted` when any part is behind a password."""
    document = open_document(source, limits)
    manifest = _EncryptedParts()
    document.read(MANIFEST, manifest)
    # Encrypted parts are unpacked to their checksums like all others, but are not XML.
    check_parts(document, lambda name: name not in manifest.parts and name.rpartition("/")[2] in _MAIN_PARTS)
    if manifest.parts:
        raise Encrypted("the document is protected by a password")
    if not document.has(CONTENT):
        raise Corrupt("the document lacks content.xml: it is incomplete")
    names = document.archive.by_name
    return document, {
        "parts": len(names),
        "unpacked_bytes": document.budget.unpacked_bytes,
        "macros": any(name.startswith(_MACROS) for name in names),
    }


def has_encrypted_parts(document: ZipDocument) -> bool:
    """Return whether the manifest of a document lists a part behind a password."""
    manifest = _EncryptedParts()
    document.read(MANIFEST, manifest)
    return bool(manifest.parts)


class _EncryptedParts(XmlTarget):
    """Names of the parts that the manifest lists as encrypted."""

    def __init__(self) -> None:
        self.parts: set[str] = set()
        self._part = ""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == f"{{{_MANIFEST_NAMESPACE}}}file-entry":
            self._part = attributes.get(f"{{{_MANIFEST_NAMESPACE}}}full-path", "")
        elif tag == f"{{{_MANIFEST_NAMESPACE}}}encryption-data":
            self.parts.add(self._part)


def _examine_text(source: Source, limits: Limits) -> Examination:
    document, measures = _check_package(source, limits)

    def blank() -> str | None:
        # Headers and footers are stationery and are not read; prompts, hidden text, white text where nothing is
        # coloured, and empty tables without lines do not count. Notes and comments do.
        if has_document_ink(document, ContentInk(limits.soft_seconds)):
            return None
        return "the document shows no text, picture, shape or object"

    return Examination(measures, blank)


def _examine_spreadsheet(source: Source, limits: Limits) -> Examination:
    document, measures = _check_package(source, limits)

    def blank() -> str | None:
        # Blank without a visible value, or when every sheet that has values has column headings alone. Pictures that
        # show something, charts, shapes and comments are content.
        sheets = _SheetsInk(limits.soft_seconds)
        if has_document_ink(document, sheets):
            return None
        if sheets.headings:
            return "the workbook has column headings and no row below them"
        return "no sheet of the workbook shows a value or an object"

    return Examination(measures, blank)


def _examine_presentation(source: Source, limits: Limits) -> Examination:
    document, measures = _check_package(source, limits)

    def blank() -> str | None:
        if has_document_ink(document, _SlidesInk(limits.soft_seconds)):
            return None
        return "no slide shows any text, picture, shape or object"

    return Examination(measures, blank)


class _SheetsInk(ContentInk):
    """The ink of all displayed sheets. `headings` is the number of those that have column headings alone."""

    # Parsing stops at the first value that is no text. Colours and lines of empty cells do not count.
    skips_runs = False  # each cell and column without a value moves the next

    def __init__(self, soft_seconds: float) -> None:
        super().__init__(soft_seconds)
        self.headings = 0
        self._rows: list[list[str]] = []
        self._row: list[str] = []
        self._row_repeated = 1
        self._sheet_hidden = self._row_hidden = self._cell_hidden = False
        self._hidden_columns: list[range] = []
        self._column = self._repeated = self._groups = self._beside = self._texts = 0
        self._text: list[str] | None = None  # of the open cell
        # Whether the open cell has a formula, but neither a value nor the paragraph of an empty text.
        self._awaits_result = False

    def on_start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in _CELLS:
            self._open_cell(attributes)
        elif name == "table:table-row":
            # Rows and columns of a group may be collapsed only for the moment: those are not hidden.
            self._row_hidden = attributes.get(TABLE + "visibility") == "collapse" and not self._groups
            self._row_repeated = _repeated(attributes.get(TABLE + "number-rows-repeated"))
            self._column = 0
        elif name == "table:table-column":
            count = _repeated(attributes.get(TABLE + "number-columns-repeated"))
            if attributes.get(TABLE + "visibility") == "collapse" and not self._groups:
                self._hidden_columns.append(range(self._column, self._column + count))
            self._column += count
        elif name == "table:table":
            self._sheet_hidden = self.styles.find("table", attributes.get(TABLE + "style-name")).is_sheet_hidden
            self._rows, self._hidden_columns, self._column = [], [], 0
        elif name in _BESIDE_CELLS or name.startswith("draw:"):
            self._beside += 1
        elif name == "text:p":
            self._awaits_result = False
        self._groups += name in _GROUPS

    def on_end(self, name: str) -> None:
        if name in _CELLS:
            self._close_cell()
        elif name == "table:table-row":
            # Two rows or two cells already decide, so a repetition of millions is kept as two.
            self._rows += [self._row] * min(2, self._row_repeated) if self._row else []
            self._row = []
        elif name == "table:table":
            if len(self._rows) > 1 or (self._rows and not is_heading(self._rows[0])):
                self.mark_ink()
            self.headings += 0 if self._sheet_hidden else len(self._rows)
            self._sheet_hidden = False
        elif name in _BESIDE_CELLS or name.startswith("draw:"):
            self._beside -= 1
        self._groups -= name in _GROUPS

    def on_text(self, text: str, *, white: bool) -> None:
        if self._beside or self._text is None:
            super().on_text(text, white=white)
        elif not white:
            self._text.append(text[:_TEXT_KEPT])

    def on_object(self, name: str) -> None:
        if name not in _STYLED_ONLY:
            super().on_object(name)

    def mark_ink(self) -> None:
        if not self._sheet_hidden:
            super().mark_ink()

    def _open_cell(self, attributes: Mapping[str, str]) -> None:
        style = self.styles.find("table-cell", attributes.get(TABLE + "style-name"))
        # A parent or a condition may give a cell of white text a coloured ground.
        is_plain = not style.has_ground and not style.is_conditional and style.parent in {"", "Default"}
        is_in_hidden_column = any(self._column in hidden for hidden in self._hidden_columns)
        self._cell_hidden = self._row_hidden or (bool(style.is_white) and is_plain) or is_in_hidden_column
        self._repeated = _repeated(attributes.get(TABLE + "number-columns-repeated"))
        self._column += self._repeated
        value_type = attributes.get(OFFICE + "value-type") or attributes.get(TABLE + "value-type")
        self._awaits_result = value_type is None and TABLE + "formula" in attributes
        self._text = [attributes.get(OFFICE + "string-value", "").strip(INVISIBLE)[:_TEXT_KEPT]]
        if value_type not in {None, "string"} and not self._cell_hidden:
            self.mark_ink()

    def _close_cell(self) -> None:
        text, self._text = "".join(self._text or ()), None
        if self._cell_hidden:
            return
        if self._awaits_result and not text:
            self.mark_ink()
        if text:
            self._texts += 1
            self._row += [text.strip(INVISIBLE)] * min(2, self._repeated)
            if self._texts > _MAX_TEXTS:
                self.mark_ink()


def _repeated(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else 1


class _SlidesInk(ContentInk):
    """The ink of all slides and their notes, without empty placeholders, slide numbers, dates, footers."""

    white_is_invisible = False

    def __init__(self, soft_seconds: float) -> None:
        super().__init__(soft_seconds)
        # The depth of the open placeholder, 0 outside of any. What is drawn in one is drawn for the author only.
        self._placeholder_depth = 0

    def is_muted(self, name: str, attributes: Mapping[str, str]) -> bool:
        is_furniture = name in _FIELDS or attributes.get(PRESENTATION + "class") in _FURNITURE
        return is_furniture or super().is_muted(name, attributes)

    def on_start(self, name: str, attributes: Mapping[str, str]) -> None:
        if attributes.get(PRESENTATION + "placeholder") == "true" and not self._placeholder_depth:
            self._placeholder_depth = len(self.stack)
        if name == "table:table":
            self.on_object(name)

    def on_end(self, _name: str) -> None:
        if len(self.stack) < self._placeholder_depth:
            self._placeholder_depth = 0

    def on_object(self, name: str) -> None:
        if not self._placeholder_depth:
            super().on_object(name)


def _make_package(family: str, body: str) -> bytes:
    media_type = f"{_MEDIA_TYPE}{family}"
    content = (
        f"<office:document-content {_SAMPLE_NAMESPACES}><office:body>"
        f"<office:{family}>{body}</office:{family}></office:body></office:document-content>"
    )
    manifest = (
        f'<m:manifest xmlns:m="{_MANIFEST_NAMESPACE}">'
        f'<m:file-entry m:full-path="/" m:media-type="{media_type}"/>'
        '<m:file-entry m:full-path="content.xml" m:media-type="text/xml"/></m:manifest>'
    )
    return make_zip({"mimetype": media_type, CONTENT: content, MANIFEST: manifest})


ODT: Final = Format(
    name="odt",
    family=Family.DOCUMENT,
    content_type="application/vnd.oasis.opendocument.text",
    extensions=frozenset({"odt", "ott", "odm", "otm", "oth"}),
    begins=(LOCAL,),
    matches=lambda source: _family_of(source) == "text",
    match_order=MatchOrder.IN_CONTAINER,
    examine=_examine_text,
    facts=partial(measure_opendocument, states_pages=True),
    own_facts=frozenset({"encrypted", "pages"}),
    sample=lambda: _make_package("text", "<text:p>Sluice</text:p>"),
    names=named("OpenDocument ({})", "odt") | named("document", "application/vnd.oasis.opendocument.text"),
    second_formats=SecondFormats.AROUND,
)

ODS: Final = Format(
    name="ods",
    family=Family.DOCUMENT,
    content_type="application/vnd.oasis.opendocument.spreadsheet",
    extensions=frozenset({"ods", "ots"}),
    begins=(LOCAL,),
    matches=lambda source: _family_of(source) == "spreadsheet",
    match_order=MatchOrder.IN_CONTAINER,
    examine=_examine_spreadsheet,
    facts=partial(measure_opendocument, counted=("sheets", _TABLES)),
    own_facts=frozenset({"encrypted", "sheets"}),
    sample=lambda: _make_package(
        "spreadsheet",
        '<table:table table:name="Sluice"><table:table-row>'
        '<table:table-cell office:value-type="float" office:value="1"><text:p>1</text:p></table:table-cell>'
        "</table:table-row></table:table>",
    ),
    names=named("OpenDocument ({})", "ods") | named("spreadsheet", "application/vnd.oasis.opendocument.spreadsheet"),
    second_formats=SecondFormats.AROUND,
)

ODP: Final = Format(
    name="odp",
    family=Family.DOCUMENT,
    content_type="application/vnd.oasis.opendocument.presentation",
    extensions=frozenset({"odp", "otp"}),
    begins=(LOCAL,),
    matches=lambda source: _family_of(source) == "presentation",
    match_order=MatchOrder.IN_CONTAINER,
    examine=_examine_presentation,
    facts=partial(measure_opendocument, counted=("slides", _SLIDES)),
    own_facts=frozenset({"encrypted", "slides"}),
    sample=lambda: _make_package(
        "presentation",
        "<draw:page><draw:frame><draw:text-box><text:p>Sluice</text:p></draw:text-box></draw:frame></draw:page>",
    ),
    names=named("OpenDocument ({})", "odp") | named("presentation", "application/vnd.oasis.opendocument.presentation"),
    second_formats=SecondFormats.AROUND,
)
