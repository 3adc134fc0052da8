"""Scripts in SVG: what the XML parser reads, in every encoding that some reader takes the drawing for."""
# An element, attribute, address or instruction that makes a browser run something. Names count without their prefix,
# values after entities are replaced. A damaged drawing is searched for tags and attributes wherever they are: some
# readers take it for HTML.

import binascii
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from html import unescape
from typing import Final
from urllib.parse import unquote_to_bytes
from xml.parsers import expat

from sluice_inspect.parts import Part
from sluice_inspect.source import MemorySource, RandomAccess, read_pieces
from sluice_inspect.text.late_pattern import LatePattern
from sluice_inspect.text.xml_declarations import ATTRIBUTES_MOST, OutsideSkipper
from sluice_inspect.text.xml_encodings import DECLARATION_BYTES_MAX, declaration_ends, encodings_of, growing, text_of
from sluice_inspect.threats.budget import OverBudget

_PIECE_BYTES: Final = 64 * 1024
_OVERLAP: Final = 8 * 1024  # longer than what is found within one attribute but for data
# Each entity that is made of others takes expat one level deeper on its stack.
_REFERRING_MAX: Final = 500
_NESTED_MAX: Final = 8  # drawings within drawings, as data addresses

_RUNS: Final = frozenset({"script", "handler"})
_EMBEDS: Final = frozenset({"iframe", "frame", "frameset", "embed", "object", "applet", "portal", "fencedframe"})
_EMBEDS_IN: Final = frozenset({"", "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"})
# XML Events: a listener, or an attribute of any element, names what runs.
_LISTENS: Final = "listener"
_XML_EVENTS: Final = "http://www.w3.org/2001/xml-events"
_LISTENS_IN: Final = _EMBEDS_IN | {_XML_EVENTS}
_EVENT: Final = re.compile(r"on[a-z]{3,}", re.IGNORECASE)
_ADDRESSES: Final = frozenset("""
    href src from to by values action formaction data background poster cite longdesc ping codebase classid manifest
    dynsrc lowsrc base profile archive icon code url content handler
""".split())  # fmt: skip  # noqa: SIM905  (a list of names)
_LISTS: Final = frozenset({"values", "from", "to", "by"})

# Readers of addresses skip spaces and controls in front of and within a scheme.
_SKIPPED: Final = r"[\x00-\x20\x7f-\xa0\xad\u200b-\u200f\u2028\u2029\u2060\ufeff]*"


def _spread(word: str) -> str:
    return _SKIPPED.join(map(re.escape, word))


_SCRIPT_SCHEME: Final = "|".join(
    _spread(f"{scheme}:") for scheme in ("javascript", "vbscript", "livescript", "mocha", "jscript", "vbs")
)
_OUTER_SCHEME: Final = "|".join(_spread(f"{scheme}:") for scheme in ("view-source", "feed", "jar", "mhtml"))
_RUN_ADDRESS: Final = LatePattern(f"{_SKIPPED}(?:(?:{_OUTER_SCHEME}){_SKIPPED})*(?:{_SCRIPT_SCHEME})", re.IGNORECASE)
_DATA_ADDRESS: Final = LatePattern(f"{_SKIPPED}{_spread('data:')}{_SKIPPED}([^,]{{0,1000}}),", re.IGNORECASE)
_RUN_TYPES: Final = re.compile(r"text/html|[^;]*(?:java|ecma|vb|live|j)script|[^;]*/xslt?\b", re.IGNORECASE)
_TRANSFORM_TYPES: Final = re.compile(r"x[ms]l|script", re.IGNORECASE)
_SKIPPED_ANYWHERE: Final = re.compile(_SKIPPED)
_MARKUP_TYPES: Final = re.compile(r"[\w.-]+/(?:[\w.+-]+\+)?xml\b", re.IGNORECASE)
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)

_CSS_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_CSS_ESCAPE: Final = re.compile(r"\\(?:([0-9a-f]{1,6})[ \t\r\n\f]?|\r?\n|(.))", re.IGNORECASE)
_CSS_ADDRESS: Final = re.compile(r"(?:url\s*\(|@import\b)\s*([\"']?)", re.IGNORECASE)
_CSS_RUNS: Final = re.compile(r"\bexpression\s*\(|-moz-binding\s*:|(?<![\w-])behavior\s*:\s*url", re.IGNORECASE)
_PSEUDO_ATTRIBUTE: Final = re.compile(r"([\w:-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
# What is read of a damaged drawing.
_TAG: Final = re.compile(r"<([A-Za-z][^\s<>/]{0,100})")
_ATTRIBUTE: Final = re.compile(r"(?<![^\s\"'/])([^\s\"'<>/=]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+))")


def drawing_parts(source: RandomAccess, *, named: bool, begins: bool) -> Iterator[Part]:
    """Yield the first script of a drawing, if it has any.

    It is one if its name says so, if its root is `svg`, or if it `begins` as one and is damaged in front of the root.
    Raise `OverBudget` for what cannot be read to its end.
    """
    for found in _scripts_in(source, named=named, begins=begins, nested=0):
        yield Part("", iter((found.encode("utf-8", "replace"),)), format_name="svg_script")


def _scripts_in(source: RandomAccess, *, named: bool, begins: bool, nested: int) -> Iterator[str]:
    """Yield what runs in a document, in a few words."""
    if nested > _NESTED_MAX:
        raise OverBudget(f"drawings nested more than {_NESTED_MAX} times")
    head = source.read_at(0, DECLARATION_BYTES_MAX)
    if source.size > len(head) and not declaration_ends(head):
        raise OverBudget("an XML declaration that does not end")
    rules = _Rules(nested)
    damaged = []
    try:
        for encoding in encodings_of(head):
            with suppress(_OtherRoot):
                damaged.append(_Xml(rules, named=named, begins=begins).read(_text(source, encoding)))
        if damaged and all(damaged):
            _read_damaged(rules, _text(source, encodings_of(head)[0]))
    except _Found as found:
        yield str(found)


def _text(source: RandomAccess, encoding: str) -> Iterator[str]:
    return text_of(read_pieces(source, piece_bytes=_PIECE_BYTES), encoding)


class _Found(Exception):
    """What runs. `str()` says it in a few words."""


class _OtherRoot(Exception):
    """The document is no drawing."""


class _Rules:
    """Judges what is read. Raises `_Found`."""

    def __init__(self, nested: int) -> None:
        self._nested = nested

    def element(self, name: str, namespace: str = "") -> None:
        is_listener = name == _LISTENS and namespace in _LISTENS_IN
        if name in _RUNS or is_listener or (name in _EMBEDS and namespace in _EMBEDS_IN):
            raise _Found(f"element {name}")

    def attribute(self, name: str, value: str) -> None:
        if _EVENT.fullmatch(name):
            raise _Found(f"attribute {name}")
        if name == "attributename" and _EVENT.fullmatch(value.strip().rpartition(":")[2]):
            raise _Found(f"animation of {value.strip()}")
        if name == "srcdoc":
            _read_damaged(self, iter((value,)))
        if name in _ADDRESSES:
            # `content` states an address behind the seconds of a refresh.
            self.address(value.partition("=")[2] if name == "content" else value)
            if name in _LISTS and ";" in value:
                for each in value.split(";"):
                    self.address(each)
        if name == "style":
            self.css(value)
        elif "(" in value and ("\\" in value or "url" in value.lower()):
            self.css_addresses(_css_decoded(value))

    def address(self, value: str) -> None:
        if _RUN_ADDRESS.compiled.match(value):
            raise _Found("address of a script")
        data = _DATA_ADDRESS.compiled.match(value)
        if data is None:
            return
        kind = _SKIPPED_ANYWHERE.sub("", data[1])
        if _RUN_TYPES.match(kind):
            raise _Found("data that runs")
        if _MARKUP_TYPES.match(kind):
            document = MemorySource(bytearray(_data_of(value[data.end() :], kind)))
            for found in _scripts_in(document, named=True, begins=True, nested=self._nested + 1):
                raise _Found(f"{found} in data")

    def css(self, text: str) -> None:
        text = _css_decoded(text)
        if _CSS_RUNS.search(text):
            raise _Found("style that runs")
        self.css_addresses(text)

    def css_addresses(self, text: str) -> None:
        for found in _CSS_ADDRESS.finditer(text):
            end = text.find(found[1] or ")", found.end())
            self.address(text[found.end() : end if end >= 0 else len(text)])
            if end < 0:  # all that follows belongs to this address
                return

    def instruction(self, target: str, data: str) -> None:
        if target.lower() != "xml-stylesheet":
            return
        stated = {found[1]: unescape(found[2] or found[3] or "") for found in _PSEUDO_ATTRIBUTE.finditer(data)}
        if _TRANSFORM_TYPES.search(stated.get("type", "")):
            raise _Found("style sheet that runs")
        self.address(stated.get("href", ""))

    def comment(self, text: str) -> None:
        if text.startswith((">", "->")):  # HTML ends the comment there, and what follows is markup
            _read_damaged(self, iter((text,)))


def _split_name(name: str) -> tuple[str, str]:
    """Return the namespace of a name that expat gives, and the name in small letters."""
    namespace, _, local = name.rpartition(" ")
    return namespace, local.lower()


_split_short_name: Final = lru_cache(maxsize=1024)(_split_name)
_SHORT: Final = 200  # longer names are not kept in memory


@lru_cache(maxsize=1024)
def _is_judged(attribute: str) -> bool:
    """Return whether an attribute of this name may run something though its value has no bracket."""
    named = attribute in _ADDRESSES or attribute in {"attributename", "srcdoc", "style"}
    return named or _EVENT.fullmatch(attribute) is not None


class _Xml:
    """One reading of a document by expat, as far as it is well-formed."""

    def __init__(self, rules: _Rules, *, named: bool, begins: bool) -> None:
        self._rules = rules
        self._named = named
        self._is_drawing = named or begins
        self._has_root = False
        self._style: list[str] | None = None
        self._referring = self._attributes = 0
        parser = self._parser = expat.ParserCreate("utf-8", " ")
        parser.buffer_text = True
        self._outside = OutsideSkipper(parser)
        parser.EntityDeclHandler = self._on_entity
        parser.AttlistDeclHandler = self._on_attribute
        parser.StartElementHandler = self._on_start
        parser.ProcessingInstructionHandler = self._on_instruction
        parser.CommentHandler = self._on_comment

    def read(self, text: Iterator[str]) -> bool:
        """Read the document and return whether it is a drawing that is damaged."""
        try:
            for piece in growing(text):
                self._parser.Parse(piece.encode("utf-8", "replace"), False)
            self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            if error.code == _MULTIPLIED:
                raise OverBudget("a drawing whose entities multiply") from error
            return self._is_drawing
        if not self._outside.is_complete:
            raise OverBudget("a drawing whose declarations readers understand in different ways")
        return False

    def _on_start(self, name: str, attributes: Mapping[str, str]) -> None:
        namespace, local = (_split_short_name if len(name) <= _SHORT else _split_name)(name)
        if not self._has_root:
            self._has_root = True
            self._is_drawing = self._named or local == "svg"
            if not self._is_drawing:
                raise _OtherRoot
        self._rules.element(local, namespace)
        for key, value in attributes.items():
            attribute_namespace, attribute = (_split_short_name if len(key) <= _SHORT else _split_name)(key)
            if attribute_namespace == _XML_EVENTS and key.endswith(" handler"):
                raise _Found("attribute handler")
            if "(" in value or len(attribute) > _SHORT or _is_judged(attribute):
                self._rules.attribute(attribute, value)
        if local == "style" and self._style is None:
            self._style = []
            self._parser.CharacterDataHandler = self._style.append
            self._parser.EndElementHandler = self._on_end

    def _on_end(self, name: str) -> None:
        if self._style is not None and name.rpartition(" ")[2].lower() == "style":
            self._rules.css("".join(self._style))
            self._style = None
            self._parser.CharacterDataHandler = self._parser.EndElementHandler = None

    def _on_instruction(self, target: str, data: str) -> None:
        if self._is_drawing or not self._has_root:
            self._rules.instruction(target, data)

    def _on_comment(self, text: str) -> None:
        if self._has_root:
            self._rules.comment(text)

    def _on_attribute(self, *_declaration: object) -> None:
        self._attributes += 1
        if self._attributes > ATTRIBUTES_MOST:
            raise OverBudget(f"a drawing that declares more than {ATTRIBUTES_MOST} attributes")

    def _on_entity(self, _name: str, _is_parameter: object, text: str | None, *_others: object) -> None:
        self._referring += text is not None and ("&" in text or "%" in text)
        if self._referring > _REFERRING_MAX:
            raise OverBudget(f"a drawing with more than {_REFERRING_MAX} entities that are made of others")


_MULTIPLIED: Final = expat.errors.codes["limit on input amplification factor (from DTD and entities) breached"]


def _read_damaged(rules: _Rules, pieces: Iterator[str]) -> None:
    """Judge all that looks like a tag, an attribute or a style."""
    carry = ""
    for piece in pieces:
        text = carry + piece
        for tag in _TAG.finditer(text):
            rules.element(tag[1].rpartition(":")[2].lower())
        for found in _ATTRIBUTE.finditer(text):
            value = unescape(found[2] or found[3] or found[4] or "")
            rules.attribute(found[1].rpartition(":")[2].lower(), value)
        rules.css(text)
        carry = text[-_OVERLAP:]


def _data_of(content: str, kind: str) -> bytes:
    """Return the document in a data address, as UTF-8 if the address states another encoding."""
    data = unquote_to_bytes(content.partition("#")[0])
    if kind.lower().endswith(";base64"):
        letters = data.translate(None, _NOT_BASE64)
        usable = letters[:-1] if len(letters) % 4 == 1 else letters
        data = binascii.a2b_base64(usable + b"=" * (-len(usable) % 4))
    charset = _CHARSET.search(kind)
    if charset is None:
        return data
    stated = f"<?xml version='1.0' encoding='{charset[1]}'?>".encode()
    return "".join(text_of(iter((data,)), encodings_of(stated)[0])).encode("utf-8", "replace")


_NOT_BASE64: Final = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))


def _css_decoded(text: str) -> str:
    if "\\" in text or "/*" in text:
        return css_unescaped(_CSS_COMMENT.sub("", text))
    return text


def css_unescaped(text: str) -> str:
    """Return a text with the escapes of CSS replaced."""
    return _CSS_ESCAPE.sub(_css_character, text)


def _css_character(escape: re.Match[str]) -> str:
    if escape[1]:
        code = int(escape[1], 16)
        return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
    return escape[2] or ""
