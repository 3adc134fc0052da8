"""Formats of text: what drawings and XML documents do, formulas of tables."""

import codecs
import html
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.fields import flags_of_formula, is_remote
from sluice_inspect.facts.flat_office import OfficeReader, begins_as_office, reader_of
from sluice_inspect.facts.pages import loads_by_style, measure_page, redirects
from sluice_inspect.report import FactSheet
from sluice_inspect.subject import Subject
from sluice_inspect.text.plaintext import encoding_of
from sluice_inspect.text.xml_declarations import DeclarationReader
from sluice_inspect.text.xmlsafe import StopParsing, XmlTarget, parse_xml

_CHUNK: Final = 1024**2
# Without one of these words in small letters, an XML document in UTF-8 cannot contain what is searched, whatever its
# prefixes are. Words are searched one by one: an expression of all of them takes ten times as long.
_TELLING_WORDS: Final = (
    b"script", b"xinclude", b"&#", b"<!doctype", b"data:", b"xml-stylesheet", b"w3.org/1999/xhtml",
    b"w3.org/2000/svg", b"<?mso-", b"schemas.microsoft.com", b"schemas-microsoft.com", b"schemas.microsoft-com",
    b"schemas-microsoft-com", b"openoffice.org", b":opendocument:", b"schemas.uof.org",
)  # fmt: skip
_TELLING: Final = (re.compile(rb"on(?<=\son)[a-z]"), re.compile(rb"encoding(?<!\wencoding)"))
_DECLARED_UTF8: Final = re.compile(rb"<\?xml[^>]{0,100}encoding\s*=\s*[\"']utf-8[\"'][^>]{0,100}\?>", re.IGNORECASE)
_ELEMENTS_AT_ONCE: Final = 4096
_INCLUDE: Final = re.compile(r"\{http://www\.w3\.org/200[13]/XInclude\}include")
_BLANKS: Final = re.compile(r"[\x00-\x20]+")
_SCRIPT_ADDRESS: Final = re.compile(
    r"(?:javascript|vbscript|livescript):|data:(?:text/html|image/svg|[^,]{0,80}script)"
)
_LENGTH: Final = re.compile(r"\s*(\d{1,9})(?:\.\d*)?(?:px)?\s*")
_HREFS: Final = frozenset({"href", "{http://www.w3.org/1999/xlink}href", "src", "action", "formaction", "data"})
_LINKS: Final = frozenset({"a", "area", "link", "script"})  # clicked, judged by their kind, or a script anyway
_LOADING: Final = frozenset({"href", "src", "poster", "background", "data"})
_SETS: Final = frozenset({"srcset", "imagesrcset"})
_WITHIN: Final = ("data:", "blob:", "cid:", "about:")
_STYLE_SHEET: Final = re.compile(r"\bhref\s*=\s*[\"']([^\"']*)")
_SHOWN_BY: Final = re.compile(r"stylesheet|icon|preload|prefetch|import|manifest", re.IGNORECASE)
_VALUES: Final = frozenset({"to", "from", "values", "by"})

# "+49 (0)30", "-5" and "@name" are honest values: only what calls a function or names another program counts.
_LONGEST_CELL: Final = 1024
# A first line with the separator of the table; without it, any of the usual ones begins a cell.
_SEPARATOR: Final = re.compile(r"\ufeff?\"?sep=([^\r\n])", re.IGNORECASE)

# Symbolic links (SYLK): Excel opens a file by these first letters as one, whatever its name is.
_SYLK: Final = re.compile(rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?\s*ID[;\r\n]")
_SYLK_TYPE: Final = "application/x-sylk"
_RECORD: Final = re.compile(r"(?<![^\r\n])[ \t]{0,20}(C|O|NN|NE|NU|NL);([^\r\n]*+)")
_FIELD_END: Final = re.compile(r"(?<!;)(?:;;)*;(?!;)")
_ESCAPED: Final = re.compile("\x1b([\x20-\x2f])([\x30-\x3f])")  # any character, by four bits each
_CALL: Final = re.compile(r"[A-Za-z_][\w.]{0,60}\(")
_MACRO_CALL: Final = re.compile(
    r"(?<![\w.])(?:EXEC|CALL|REGISTER|RUN|HALT|RETURN|GOTO|FOPEN|FWRITE(?:LN)?|ALERT|SET\.(?:NAME|VALUE)|FORMULA)\s?\(",
    re.IGNORECASE,
)
_MACRO_NAME: Final = re.compile(r"(?:F|G.?)\Z|N[Aa][Uu][Tt][Oo]_")  # a function, a key, or what runs by itself
_RECORD_LENGTH: Final = 64 * 1024
_TABLE_EXTENSIONS: Final = frozenset({"tsv", "tab"})  # of no format


def measure_text(subject: Subject, sheet: FactSheet) -> None:
    """Add the flags of a text that Office opens as one of its own formats. Raise as `measure_markup` does."""
    if begins_as_office(subject.source.head):
        measure_markup(subject, sheet)
    elif begins_as_sylk(subject.source.head):
        measure_sylk(subject, sheet)


def measure_table_file(subject: Subject, sheet: FactSheet) -> None:
    """Add the flags of a table, or of what Office opens instead. Raise as `measure_markup` does."""
    measure = measure_markup if begins_as_office(subject.source.head) else measure_table
    measure(subject, sheet)


def measure_unknown(subject: Subject, sheet: FactSheet) -> None:
    """Add the flags of content of no format, as far as some program opens it. Raise as `measure_markup` does."""
    if begins_as_office(subject.source.head):
        measure_markup(subject, sheet)
    elif subject.content_type == "text/html":  # under a name that promises something else
        measure_page(subject, sheet)
    elif subject.extension in _TABLE_EXTENSIONS:
        measure_table(subject, sheet)
    elif begins_as_sylk(subject.source.head):
        measure_sylk(subject, sheet)
    else:
        sheet.complete = False


def measure_markup(subject: Subject, sheet: FactSheet, *, is_drawing: bool = False) -> None:
    """Add the flags of XML and SVG, and the stated size of a drawing. Raise `InspectionError` if it is not XML."""
    finder = MarkupReader(sheet, Deadline(subject.limits.soft_seconds), is_drawing=is_drawing)
    if is_drawing or not _is_harmless(subject):
        declarations = DeclarationReader("the document")
        try:
            parse_xml(subject.source.open(), subject.limits, target=finder, declarations=declarations)
        finally:
            if finder.office is not None and declarations.has_doctype:
                sheet.complete = False  # there may be entities, which are not followed
    finder.add_size()


def _is_harmless(subject: Subject) -> bool:
    if encoding_of(subject.source) not in {"utf-8", "utf-8-sig"}:
        return False
    carry = b""
    for at in range(0, subject.source.size, _CHUNK):
        window = carry + subject.source.read_at(at, _CHUNK)
        lower = (_DECLARED_UTF8.sub(b"", window, count=1) if at == 0 else window).lower()
        if any(word in lower for word in _TELLING_WORDS) or any(telling.search(lower) for telling in _TELLING):
            return False
        carry = window[-32:]
    return True


class MarkupReader(XmlTarget):
    """Adds the flags of XML, or of a drawing, and knows the stated size of the drawing and the number of elements."""

    def __init__(self, sheet: FactSheet, deadline: Deadline, *, is_drawing: bool) -> None:
        self.flags = sheet.flags
        self._sheet = sheet
        self._deadline = deadline
        self.elements = 0
        self._application = ""
        self.office: OfficeReader | None = None
        self.size: tuple[int, int] | None = None
        self._is_drawing = is_drawing
        self._has_root = False
        self._style: list[str] | None = None

    def begin(self, tag: str) -> None:
        """Look at the root. A subclass may raise what it is not."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Read the beginning of an element."""
        self.elements += 1
        if not self._has_root:
            self._has_root = True
            self.begin(tag)
            if self._is_drawing:
                self.size = _size_of(attributes)
            else:
                self.office = reader_of(tag, self._application, self._sheet)
        if self.office is not None:
            self.office.start(tag, attributes)
            if self.elements % _ELEMENTS_AT_ONCE == 0 and self._deadline.has_passed:
                self._sheet.complete = False
                raise StopParsing
        namespace, name, is_include = _parts_of_tag(tag)
        if is_include:
            self.flags.add("xinclude")
        # Scripts of XSLT, KML or other formats that run nowhere are none: browsers know these two namespaces.
        if not self._is_drawing and namespace not in {"{http://www.w3.org/1999/xhtml", "{http://www.w3.org/2000/svg"}:
            return
        is_script = name == "script"
        for attribute, value in attributes.items():
            if "(" in value or _is_telling(attribute):
                is_script = is_script or any(map(_runs, attributes, attributes.values()))
                if _loads(name, attributes):
                    self.flags.add("link.external")
                break
        if is_script:
            self.flags.add("script.svg" if self._is_drawing or namespace.endswith("svg") else "script.html")
        if name == "style":
            self._style = []

    def data(self, text: str) -> None:
        """Read a piece of text."""
        if self.office is not None:
            self.office.data(text)
        if self._style is not None:
            self._style.append(text)

    def end(self, tag: str) -> None:
        """Read the end of an element."""
        if self.office is not None:
            self.office.end(tag)
        if self._style is not None:
            if loads_by_style("".join(self._style)):
                self.flags.add("link.external")
            self._style = None

    def pi(self, target: str, data: str | None) -> None:
        """Look at a processing instruction: browsers load a style sheet, InfoPath a form; Windows starts a program."""
        if target in {"xml-stylesheet", "mso-infoPathSolution"}:
            if any(map(is_remote, _STYLE_SHEET.findall(html.unescape(data or "")))):
                self.flags.add("link.external")
        elif target == "mso-application" and not self._has_root:
            self._application = data or target

    def close(self) -> None:
        """End the document."""
        if self.office is not None:
            self.office.close()

    def add_size(self) -> None:
        """Add the stated size of a drawing."""
        if self.size is not None:
            width, height = self.size
            self._sheet.facts |= {"width": width, "height": height, "pixels": width * height}


@lru_cache(maxsize=256)
def _parts_of_tag(tag: str) -> tuple[str, str, bool]:
    """Return the namespace, the name in small letters, and whether it is the element that includes a document."""
    namespace, _, name = tag.rpartition("}")
    return namespace, name.lower(), _INCLUDE.fullmatch(tag) is not None


@lru_cache(maxsize=256)
def _is_telling(attribute: str) -> bool:
    """Return whether an attribute of this name may run or load something, whatever its value is."""
    local = attribute.rpartition("}")[2]
    return (
        local.lower().startswith("on")
        or local.lower() in _VALUES
        or local in _HREFS | _SETS | _LOADING | {"http-equiv"}
        or attribute in _HREFS
    )


def _loads(name: str, attributes: Mapping[str, str]) -> bool:
    """Return whether an element makes its reader load something of another machine by itself."""
    if name == "meta" and attributes.get("http-equiv", "").strip().lower() == "refresh":
        return redirects(attributes.get("content", ""))
    for attribute, value in attributes.items():
        local = attribute.rpartition("}")[2]
        if local in _SETS:
            if any(map(_leads_out, value.split(","))):
                return True
        elif local in _LOADING and _leads_out(value):
            if name not in _LINKS or (name == "link" and _SHOWN_BY.search(attributes.get("rel", ""))):
                return True
        elif "(" in value and loads_by_style(value):
            return True
    return False


def _leads_out(address: str) -> bool:
    plain = _BLANKS.sub("", address)
    return is_remote(plain) and not plain.lower().startswith(_WITHIN)


def _runs(name: str, value: str) -> bool:
    local = name.rpartition("}")[2].lower()
    if local.startswith("on") and local.isalpha() and "}" not in name:
        return bool(value.strip())
    if name in _HREFS or local in _VALUES:
        return _SCRIPT_ADDRESS.match(_BLANKS.sub("", value).lower()) is not None
    return False


def _size_of(attributes: Mapping[str, str]) -> tuple[int, int] | None:
    sides = [_LENGTH.fullmatch(attributes.get(side, "")) for side in ("width", "height")]
    known = [int(side[1]) for side in sides if side is not None]
    return (known[0], known[1]) if len(known) == 2 and all(known) else None


def _expressions_of(separator: str) -> tuple[str, str]:
    """Return what finds formulas and DDE at the beginning of cells. `separator` is stated by the table, or empty."""
    # With a quote, a tab or spaces before it, in wide letters too.
    stated, ends = re.escape(separator), r",;|\t\r\n"
    cells = [(rf"(?:^|[{ends}{stated}])", rf"[^{ends}{stated}]", 500)]
    if stated:  # and any character may be in quotation marks, of which fewer are examined, as each begins a cell
        cells.append((rf"{stated}\s{{0,20}}\"", rf"[^{ends}]", 60))
    formulas, links = [], []
    for begin, within, length in cells:
        lead = rf"{begin}[\s\"'\u00a0\ufeff]{{0,20}}"
        formulas.append(
            rf"{lead}(?:[=\uff1d]{within}{{0,{length}}}?[A-Za-z_][\w.]{{0,60}}\("
            r"|[+\-@\uff0b\uff0d\uff20][-+*/=\d. \t(]{0,40}[A-Za-z_][\w.]{0,60}\()"
        )
        links.append(
            rf"{lead}[=+\-@\uff1d\uff0b\uff0d\uff20]{within}{{0,{min(length, 200)}}}\w[\"']?\|"
            r"(?:[^;|\t\r\n]{0,200}?|\s{0,3}'[^'\r\n]{0,250}')![\w$\"']"
        )
    return "|".join(formulas), "|".join(links)


# The same in a table that states no separator, from the sign on with which a formula begins, since signs are rarer than
# beginnings of cells; what is before the sign is read then.
_LEADS: Final = "\\s\"'\\u00a0\\ufeff"
_SIGN: Final = rf"[=+\-@\uff1d\uff0b\uff0d\uff20](?<=[,;|{_LEADS}].)"
_SIGN_OF_FORMULA: Final = re.compile(
    rf"{_SIGN}(?:(?<=[=\uff1d])(?=[^,;|\t\r\n]{{0,500}}?[A-Za-z_][\w.]{{0,60}}\()"
    r"|(?<![=\uff1d])(?=[-+*/=\d. \t(]{0,40}[A-Za-z_][\w.]{0,60}\())",
)
_SIGN_OF_DDE: Final = re.compile(
    rf"{_SIGN}(?=[^,;|\t\r\n]{{0,200}}\w[\"']?\|(?:[^;|\t\r\n]{{0,200}}?|\s{{0,3}}'[^'\r\n]{{0,250}}')![\w$\"'])"
)
_LEAD: Final = re.compile(rf"(?:^|[,;|\t\r\n])[{_LEADS}]{{0,20}}\Z")
_LONGEST_LEAD: Final = 21

_STATED: Final = "\x1f"
"""A placeholder for the separator that a table states."""
_FORMULA, _DDE = map(re.compile, _expressions_of(""))
_STATED_FORMULA, _STATED_DDE = map(re.compile, _expressions_of(_STATED))


def measure_table(subject: Subject, sheet: FactSheet) -> None:
    """Add the flags of cells that a spreadsheet takes for formulas which call something."""
    if begins_as_sylk(subject.source.head):
        measure_sylk(subject, sheet)
    decoder = codecs.getincrementaldecoder(encoding_of(subject.source))("replace")
    deadline, carry = Deadline(subject.limits.soft_seconds), ""
    stated: str | None = None  # the separator of the table, empty if it states none
    for at in range(0, subject.source.size, _CHUNK):
        window = carry + decoder.decode(subject.source.read_at(at, _CHUNK))
        if stated is None:
            found = _SEPARATOR.match(window)
            stated = found[1] if found else ""
        if calls_in_cells(window, stated):
            sheet.flags.add("formula.csv")
        if links_in_cells(window, stated):
            sheet.flags |= {"formula.csv", "dde"}
        if deadline.has_passed:
            sheet.complete = False
            return
        carry = window[-_LONGEST_CELL:]


def calls_in_cells(text: str, separator: str = "") -> bool:
    """Return whether a cell of a table calls a function. `separator` is the one that the table states."""
    if "(" not in text:
        return False
    if separator:
        return _STATED_FORMULA.search(text.replace(separator, _STATED)) is not None
    return _begins_cell(_SIGN_OF_FORMULA, _FORMULA, text)


def links_in_cells(text: str, separator: str = "") -> bool:
    """Return whether a cell of a table names another program (DDE)."""
    if "|" not in text or "!" not in text:
        return False
    if separator:
        return _STATED_DDE.search(text.replace(separator, _STATED)) is not None
    return _begins_cell(_SIGN_OF_DDE, _DDE, text)


def _begins_cell(sign: re.Pattern[str], cell: re.Pattern[str], text: str) -> bool:
    if cell.match(text):
        return True
    # The lead is searched in a slice, whose beginning is no beginning of a cell unless it is that of the text.
    found = (each.start() for each in sign.finditer(text))
    return any(_LEAD.search(text, max(0, at - _LONGEST_LEAD), at) for at in found)


def begins_as_sylk(head: bytes) -> bool:
    """Return whether Excel may open a file as a symbolic link, whatever its name is."""
    return _SYLK.match(head.replace(b"\0", b"")) is not None


def measure_sylk(subject: Subject, sheet: FactSheet) -> None:
    """Add the flags of the records of a symbolic link. A table whose first column is `ID` has none of them."""
    sheet.complete &= bool(subject.format_name) or subject.content_type == _SYLK_TYPE
    decoder = codecs.getincrementaldecoder(encoding_of(subject.source))("replace")
    deadline, carry = Deadline(subject.limits.soft_seconds), ""
    for at in range(0, subject.source.size, _CHUNK):
        window = carry + decoder.decode(subject.source.read_at(at, _CHUNK))
        end = max(window.rfind("\n"), window.rfind("\r")) + 1
        if deadline.has_passed:
            sheet.complete = False
            return
        if len(window) - end > _RECORD_LENGTH:
            sheet.complete = False
            end = len(window)
        whole, carry = window[:end], window[end:]
        for found in _RECORD.finditer(whole):
            _read_record(found[1], found[2], sheet)
    for found in _RECORD.finditer(carry):
        _read_record(found[1], found[2], sheet)


def _read_record(kind: str, text: str, sheet: FactSheet) -> None:
    fields = [
        _ESCAPED.sub(lambda found: chr((ord(found[1]) & 15) << 4 | ord(found[2]) & 15), field).replace(";;", ";")
        for field in _FIELD_END.split(text)
    ]
    if kind in {"NE", "NU", "NL"}:
        sheet.flags.add("link.external")
    elif kind == "O":
        if "E" in fields:
            sheet.flags.add("macro.sheet")
        return
    elif kind == "NN" and {"N", "E"} <= {field[:1] for field in fields} and any(map(_MACRO_NAME.match, fields)):
        sheet.flags.add("macro.sheet")
    for field in fields:
        if field[:1] in {"E", "M"}:
            formula = field[1:]
            flags = flags_of_formula(formula)
            if _MACRO_CALL.search(formula):
                flags.add("macro.sheet")
            if "dde" in flags or _CALL.search(formula):
                flags.add("formula.csv")
            sheet.flags |= flags
