"""Odd XML documents by number, and what other readers would load from outside of them or expand."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeVar
from urllib.parse import urljoin
from xml.parsers import expat

from lxml import etree

from sluice_inspect.formats.xml import FORMAT
from sluice_inspect.report import Outcome
from tests.inspection.formats.examining import examine_bytes

T = TypeVar("T")

BASE: Final = "file:///base/folder/"
_KNOWN: Final = ("http://www.w3.org/", "https://www.w3.org/")
_EXPANDED_MAX: Final = 1024**2  # far beyond what any generated document holds or may make of its entities

_ADDRESSES: Final = (
    "file:///etc/passwd", "/etc/passwd", "http://127.0.0.1:9/a", "//127.0.0.1/a", "../../etc/passwd", "a/../../../b",
    "%2e%2e/b", " http://127.0.0.1:9/a", "other.xml", "sub/other.dtd", "http://www.w3.org/a.dtd", "", "C:\\a", "x:y",
    "http://www.w3.org@127.0.0.1/", "\\\\host\\share", "HTTP://127.0.0.1:9/", "ftp://127.0.0.1/a", "./b", "a..b",
)  # fmt: skip
_ENCODINGS: Final = (
    "utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-7",
    "iso-8859-1", "cp1252", "ascii", "shift_jis", "iso2022_jp", "gb18030", "big5", "koi8-r", "cp037", "cp500", "hz",
)  # fmt: skip
_NAMES: Final = ("a", "b", "c", "d", "lt", "x.y", "é")


@dataclass(slots=True)
class Opened:
    """What a reader did: the addresses that it asked for, and the characters of text that it got."""

    addresses: list[str]
    characters: int = 0

    def harm(self) -> str:
        """Return what no accepted document may cause, or an empty string."""
        for address in self.addresses:
            if not address.startswith((BASE, *_KNOWN)):
                return f"loads {address!r}"
        return f"expands to {self.characters} characters" if self.characters > _EXPANDED_MAX else ""


def is_accepted(data: bytes) -> bool:
    """Return whether the format check lets a document pass."""
    result = examine_bytes(FORMAT, data)
    return result.finding is None and result.outcome is not Outcome.CORRUPT


def document(number: int) -> bytes:
    """Return the document of a number."""
    return _Maker(random.Random(number)).document()


class _Maker:
    def __init__(self, source: random.Random) -> None:
        self._random = source

    def document(self) -> bytes:
        encoding = self._pick(_ENCODINGS)
        declared = encoding if self._chance(0.8) else self._pick(_ENCODINGS)
        if self._chance(0.7) and declared in {"utf-16-le", "utf-16-be", "utf-32-le", "utf-8-sig"}:
            declared = declared.rpartition("-")[0]
        space = self._pick(("", " ", "\n\t", " " * 50)) if self._chance(0.2) else ""
        declaration = f'<?xml version="{self._pick(("1.0", "1.0", "1.1"))}"{space} encoding="{declared}"?>'
        if self._chance(0.2):
            declaration = ""
        text = declaration + self._filling() + self._doctype() + self._filling() + self._content()
        data = text.encode(encoding, "xmlcharrefreplace" if encoding != "utf-7" else "strict")
        if encoding == "utf-7" and declaration:
            head = declaration.encode()
            rest = text[len(declaration) :].encode("utf-7")
            data = head + rest.replace(b"<", b"+ADw-") if self._chance(0.5) else head + rest
        return self._changed(data) if self._chance(0.25) else data

    def _doctype(self) -> str:
        if self._chance(0.05):
            return ""
        external = self._pick(("", "", "", f" {self._external()}"))
        subset = f" [{''.join(self._declaration(2) for _ in range(self._random.randint(0, 8)))}]"
        return f"<!DOCTYPE {self._pick(('r', 'r', 'svg'))}{external}{self._pick((subset, subset, subset, ''))}>"

    def _external(self) -> str:
        quote = self._pick("\"'")
        address = f"{quote}{self._pick(_ADDRESSES)}{quote}"
        return self._pick((f"SYSTEM {address}", f'PUBLIC "-//W3C//DTD SVG 1.1//EN" {address}', f"SYSTEM\n{address}"))

    def _declaration(self, depth: int) -> str:
        name, mark = self._pick(_NAMES), self._pick(("", "", "% "))
        match self._random.randrange(12):
            case 0 | 1:
                return f"<!ENTITY {mark}{name} {self._external()}>"
            case 2:
                return f"<!ENTITY {name} {self._external()} NDATA n>"
            case 3 | 4 | 5:
                return f"<!ENTITY {mark}{name} {self._literal(depth)}>"
            case 6 | 7:
                return f"%{name};"
            case 8:
                return f"<!ATTLIST r {name} CDATA {self._literal(0)}>"
            case 9:
                return self._filling()
            case 10:
                return self._pick(('<!NOTATION n SYSTEM "file:///n">', "<!ELEMENT r ANY>", "<![INCLUDE[x]]>", "]>"))
            case _:
                return self._pick((" ", "\n", "<!-- ]> <!ENTITY x SYSTEM 'file:///c'> -->", "<?p ]>?>"))

    def _literal(self, depth: int) -> str:
        quote = self._pick("\"'")
        inner = "".join(self._pieces(depth))
        for special in self._pick(("%", "%<", "%&", "%<&", "")):
            inner = inner.replace(special, self._pick((f"&#{ord(special)};", f"&#x{ord(special):x};")))
        return quote + inner.replace(quote, f"&#{ord(quote)};") + quote

    def _pieces(self, depth: int) -> Iterator[str]:
        for _ in range(self._pick((1, 1, 2, 3, 20))):
            match self._random.randrange(4):
                case 0 if depth:
                    yield self._declaration(depth - 1)
                case 1:
                    yield f"%{self._pick(_NAMES)};"
                case 2:
                    yield f"&{self._pick(_NAMES)};"
                case _:
                    yield self._pick(("text", "é", "&#65;", " ", "<e/>", "x" * 30))

    def _content(self) -> str:
        name = self._pick(_NAMES)
        body = "".join(
            self._pick((f"&{self._pick(_NAMES)};", "words", "<![CDATA[<!DOCTYPE a>]]>", "<!-- c -->", "<e/>"))
            for _ in range(self._random.randint(0, 4))
        )
        attribute = self._pick(("", f"a='&{name};'", "b='c'"))
        return f"<r {attribute}>{body}</r>"

    def _filling(self) -> str:
        size = 70_000 if self._chance(0.05) else 3
        return self._pick(("", "", f"<!-- {'x' * size} -->", f"<?p {'y' * size}?>", "\n" * size))

    def _changed(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self._random.choice((1, 1, 2, 5))):
            at = self._random.randrange(len(changed) + 1)
            match self._random.randrange(4):
                case 0:
                    changed[at : at + 1] = self._random.randbytes(1)
                case 1:
                    del changed[at : at + self._random.choice((1, 2, 8))]
                case 2:
                    changed[at:at] = self._pick(
                        (b"<", b">", b"&", b"%", b"\0", b"+ADw-", b"\x1b$B", b"\xff\xfe", b"]>")
                    )
                case _:
                    changed[at:at] = changed[at : at + 40]
        return bytes(changed)

    def _pick(self, values: Sequence[T]) -> T:
        return self._random.choice(values)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share


def read_by_expat(data: bytes) -> Opened:
    """Return what expat does that resolves everything."""
    opened = Opened([])

    def new_parser(parser: expat.XMLParserType) -> None:
        parser.ExternalEntityRefHandler = lambda *reference: on_reference(parser, *reference)
        parser.CharacterDataHandler = on_text

    def on_text(text: str) -> None:
        opened.characters += len(text)

    def on_reference(
        parser: expat.XMLParserType, context: str | None, _base: str | None, address: str | None, _public: str | None
    ) -> int:
        if address:
            opened.addresses.append(urljoin(BASE, address.strip()))
        parser.ExternalEntityParserCreate(context).Parse(b"", True)
        return 1

    parser = expat.ParserCreate()
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
    new_parser(parser)
    with suppress(expat.ExpatError, LookupError, ValueError):
        parser.Parse(data, True)
    return opened


class _Resolver(etree.Resolver):
    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def resolve(self, system_url: str, _public_id: str, context: object) -> object:  # type: ignore[override]  # stubs
        """Note an address, and give an empty file for it."""
        if system_url:
            self._opened.addresses.append(urljoin(BASE, system_url))
        return self.resolve_string("", context)  # type: ignore[call-arg]  # the stubs lack it


def read_by_libxml2(data: bytes) -> Opened:
    """Return what lxml does that resolves everything, and loads DTDs."""
    opened = Opened([])
    parser = etree.XMLParser(load_dtd=True, attribute_defaults=True, resolve_entities=True, no_network=False)
    parser.resolvers.add(_Resolver(opened))
    with suppress(etree.XMLSyntaxError, LookupError, AssertionError, ValueError):
        root = etree.fromstring(data, parser, base_url=f"{BASE}document.xml")
        opened.characters = sum(len(text) for text in root.itertext(None))
        opened.characters += sum(len(str(value)) for value in root.attrib.values())
    # The document itself is no address outside of it.
    opened.addresses = [address for address in opened.addresses if address != f"{BASE}document.xml"]
    return opened


READERS: Final = MappingProxyType[str, Callable[[bytes], Opened]]({"expat": read_by_expat, "libxml2": read_by_libxml2})
