"""Word documents (.docx, templates, macro variants)."""
# The blank rule leaves out headers and footers, which are stationery, prompts of empty form controls, hidden text,
# white text where nothing is shaded, and empty tables without lines.

from collections.abc import Mapping
from functools import partial
from typing import Final

from sluice_inspect.facts.ooxml import measure_package
from sluice_inspect.format import Family, Format, MatchOrder, SecondFormats, named
from sluice_inspect.office.drawing import DrawingInk, is_on
from sluice_inspect.office.ooxml import BEGINNINGS, Package, examine_package, is_ooxml, make_package

_WORD: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_STRICT: Final = "{http://purl.oclc.org/ooxml/wordprocessingml/main}"
_BORDERS: Final = frozenset({"w:tblBorders", "w:tcBorders", "w:pBdr", "w:pgBorders"})
_NOTHING: Final = frozenset({"", "nil", "none", "0"})  # values that mean no line, and no numbering
_UNCOLOURED: Final = frozenset({"", "auto", "ffffff"})
_AREAS: Final = frozenset({"w:tcPr", "w:pPr"})  # cells and paragraphs show their colour even where they are empty
_NO_PATTERN: Final = frozenset({"", "clear", "nil"})
_OTHER_PARTS: Final = ("footnotes", "endnotes", "comments")
_INSTRUCTION_KEPT: Final = 100  # characters of a field, of which the first word counts
# Fields that show nothing, or only the text between their marks. Word computes a number, name or date for all others.
_SILENT_FIELDS: Final = frozenset({"", "ASK", "FORMTEXT", "HYPERLINK", "PRIVATE", "RD", "SET", "TA", "TC", "XE"})


def _blank(package: Package) -> str | None:
    if package.main is None:
        return None
    parts = [package.main, *(part for each in _OTHER_PARTS for part in package.related(package.main, each))]
    if any(_has_ink(package, part) for part in parts):
        return None
    return "the document shows no text, picture, shape or object"


def _has_ink(package: Package, part: str) -> bool:
    body = _BodyInk()
    package.read(part, body)
    if body.has_ink or (body.has_white_text and body.has_shading):
        return True
    return any(package.is_picture_visible(part, relation) for relation in dict.fromkeys(body.pictures))


class _BodyInk(DrawingInk):
    def __init__(self) -> None:
        super().__init__()
        self.has_white_text = False
        self.has_shading = False
        self._run_hidden = False
        self._run_white = False
        self._prompts = 0
        self._hidden_drawing = False
        self._instruction = ""

    def data(self, text: str) -> None:
        super().data(text)
        if self.stack[-1:] == ["w:instrText"]:
            self._instruction = (self._instruction + text).lstrip()[:_INSTRUCTION_KEPT]

    def on_start(self, name: str, attributes: Mapping[str, str]) -> None:
        parent = self.stack[-2] if len(self.stack) > 1 else ""
        if name == "w:r":
            self._run_hidden = self._run_white = False
        elif parent == "w:rPr":
            self._on_run_property(name, attributes)
        elif (parent in _BORDERS or name == "w:numId") and _value(attributes) not in _NOTHING:
            self.mark_ink()
        elif name == "w:showingPlcHdr" and is_on(_value(attributes) or None):
            self._prompts += 1
        elif name in {"w:fldSimple", "w:fldChar"}:
            self._on_field(_value(attributes, "instr") or self._instruction)
        elif name == "wp:docPr":
            self._hidden_drawing = "hidden" in attributes and is_on(attributes["hidden"])
        elif name in {"w:shd", "w:tblStyle", "w:background"}:
            self._on_ground(name, parent, attributes)

    def on_end(self, name: str) -> None:
        if name == "w:sdt" and self._prompts:
            self._prompts -= 1
        elif name == "w:drawing":
            self._hidden_drawing = False

    def on_text(self, _text: str) -> None:
        if self._run_hidden or self._prompts:
            return
        if self._run_white:
            self.has_white_text = True
            return
        self.mark_ink()

    def on_object(self, _name: str) -> None:
        if not self._hidden_drawing:
            self.mark_ink()

    def on_picture(self, relation: str) -> None:
        if not self._hidden_drawing:
            super().on_picture(relation)

    def _on_field(self, instruction: str) -> None:
        # Called for a field of one element, and for the mark behind the instruction of a field of several elements.
        self._instruction = ""
        name = next(iter(instruction.split()), "").upper()
        if name not in _SILENT_FIELDS and not self._run_hidden and not self._prompts:
            self.mark_ink()

    def _on_ground(self, name: str, parent: str, attributes: Mapping[str, str]) -> None:
        if name == "w:shd":
            is_coloured = _value(attributes, "fill").lower() not in _UNCOLOURED
            if parent in _AREAS and (is_coloured or _value(attributes) not in _NO_PATTERN):
                self.mark_ink()
            self.has_shading |= is_coloured
            return
        self.has_shading = True
        # Other table styles have lines or colours. "a1" is the plain one in some localised versions of Word.
        if name == "w:tblStyle" and _value(attributes).lower() not in {"tablenormal", "a1"}:
            self.mark_ink()

    def _on_run_property(self, name: str, attributes: Mapping[str, str]) -> None:
        if "w:r" not in self.stack[-3:]:
            return
        if name == "w:vanish":
            self._run_hidden = is_on(_value(attributes) or None)
        elif name == "w:color":
            self._run_white = _value(attributes).lower() == "ffffff"
        elif name in {"w:highlight", "w:shd"}:
            self.has_shading = True


def _value(attributes: Mapping[str, str], name: str = "val") -> str:
    return attributes.get(_WORD + name) or attributes.get(_STRICT + name, "")


FORMAT: Final = Format(
    name="docx",
    family=Family.DOCUMENT,
    content_type="application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    extensions=frozenset({"docx", "docm", "dotx", "dotm"}),
    begins=BEGINNINGS,
    matches=lambda source: is_ooxml(source, "docx"),
    match_order=MatchOrder.IN_CONTAINER,
    examine=partial(examine_package, family="docx", blank=_blank),
    facts=partial(measure_package, counted=("pages", "}Pages")),
    own_facts=frozenset({"encrypted", "pages"}),
    sample=lambda: make_package(
        "word/document.xml",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml",
        f'<w:document xmlns:w="{_WORD[1:-1]}"><w:body><w:p><w:r><w:t>Sluice</w:t></w:r></w:p></w:body></w:document>',
    ),
    names=named("Word ({})", "docx docm dotx dotm")
    | named("document", "application/vnd.openxmlformats-officedocument.wordprocessingml"),
    second_formats=SecondFormats.AROUND,
    is_office=True,
)
