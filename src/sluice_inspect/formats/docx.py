"""Word documents (.docx and its templates and macro variants): what of them a reader sees. Packages are read by `ooxml`.

Headers and footers are stationery and do not count; neither do prompts of empty form controls, hidden text, white text where nothing is
shaded, and empty tables without lines.
"""

from collections.abc import Mapping
from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.office.drawing import Ink, is_on
from sluice.formats.office.ooxml import Package, check_package, open_package, recognises
from sluice.formats.office.ooxml_sample import make_package
from sluice.formats.source import Source
from sluice.formats.verdict import Limits, Measure

_WORD: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_STRICT: Final = "{http://purl.oclc.org/ooxml/wordprocessingml/main}"
_BORDERS: Final = frozenset({"w:tblBorders", "w:tcBorders", "w:pBdr", "w:pgBorders"})
_NOTHING: Final = frozenset({"", "nil", "none", "0"})
"""What says that there is no line, and no numbering."""
_PLAIN: Final = frozenset({"", "auto", "ffffff"})
_AREAS: Final = frozenset({"w:tcPr", "w:pPr"})
"""Cells and paragraphs, which are coloured even where they are empty."""
_NO_PATTERN: Final = frozenset({"", "clear", "nil"})
_OTHER_PARTS: Final = ("footnotes", "endnotes", "comments")
_SILENT_FIELDS: Final = frozenset({"", "ASK", "FORMTEXT", "HYPERLINK", "PRIVATE", "RD", "SET", "TA", "TC", "XE"})
"""Fields that show nothing, or only the text that stands between their marks; Word writes a number, name or date for all others."""


class _Body(Ink):
    """The ink of one part of a document."""

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
            self._instruction += text

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:
        parent = self.stack[-2] if len(self.stack) > 1 else ""
        if name == "w:r":
            self._run_hidden = self._run_white = False
        elif parent == "w:rPr":
            self._run_property(name, attributes)
        elif (parent in _BORDERS or name == "w:numId") and _value(attributes) not in _NOTHING:
            self.ink_seen()
        elif name == "w:showingPlcHdr" and is_on(_value(attributes) or None):
            self._prompts += 1
        elif name in {"w:fldSimple", "w:fldChar"}:
            self._field(_value(attributes, "instr") or self._instruction)
        elif name == "wp:docPr":
            self._hidden_drawing = "hidden" in attributes and is_on(attributes["hidden"])
        elif name == "w:shd" and parent in _AREAS and (_shade(attributes) not in _PLAIN or _value(attributes) not in _NO_PATTERN):
            self.ink_seen()
        elif name in {"w:tblStyle", "w:background"} or (name == "w:shd" and _shade(attributes) not in _PLAIN):
            self.has_shading = True
            if name == "w:tblStyle" and _value(attributes).lower() not in {"tablenormal", "a1"}:
                self.ink_seen()

    def closed(self, name: str) -> None:
        if name == "w:sdt" and self._prompts:
            self._prompts -= 1
        elif name == "w:drawing":
            self._hidden_drawing = False

    def text_seen(self, _text: str) -> None:
        if self._run_hidden or self._prompts:
            return
        if self._run_white:
            self.has_white_text = True
            return
        self.ink_seen()

    def object_seen(self, _name: str) -> None:
        if not self._hidden_drawing:
            self.ink_seen()

    def picture_seen(self, relation: str) -> None:
        if not self._hidden_drawing:
            super().picture_seen(relation)

    def _field(self, instruction: str) -> None:
        """Take a field of one element, or the mark behind the instruction of one of several."""
        self._instruction = ""
        name = next(iter(instruction.split()), "").upper()
        if name not in _SILENT_FIELDS and not self._run_hidden and not self._prompts:
            self.ink_seen()

    def _run_property(self, name: str, attributes: Mapping[str, str]) -> None:
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


def _shade(attributes: Mapping[str, str]) -> str:
    return _value(attributes, "fill").lower()


def _shows_something(package: Package, part: str) -> bool:
    body = _Body()
    package.read(part, body)
    if body.has_ink or (body.has_white_text and body.has_shading):
        return True
    return any(package.shows_picture(part, relation) for relation in dict.fromkeys(body.pictures))


def blank(source: Source, limits: Limits) -> str | None:
    """Answer that neither the text nor its notes and comments show anything."""
    package = open_package(source, limits)
    if package.main is None:
        return None
    parts = [package.main, *(part for kind in _OTHER_PARTS for part in package.related(package.main, kind))]
    if any(_shows_something(package, part) for part in parts):
        return None
    return "the document shows no text, picture, shape or object"


def check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Judge the package as a document of this family."""
    return check_package(source, limits, "docx")


def sample() -> bytes:
    """Answer a document of one word."""
    return make_package(
        "word/document.xml",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml",
        f'<w:document xmlns:w="{_WORD[1:-1]}"><w:body><w:p><w:r><w:t>Sluice</w:t></w:r></w:p></w:body></w:document>',
    )


KIND: Final = Kind(
    name="docx",
    content_type="application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    extensions=frozenset({"docx", "docm", "dotx", "dotm"}),
    recognises=lambda source: recognises(source, "docx"),
    check=check,
    sample=sample,
    blank=blank,
)
