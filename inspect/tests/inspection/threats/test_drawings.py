"""Scripts in SVG: every spelling that an XML parser reads, and the drawings that have none."""

import base64
import gzip
import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final
from urllib.parse import quote

import pytest

from sluice_inspect.source import MemorySource
from sluice_inspect.threats.budget import OverBudget
from sluice_inspect.threats.drawing import drawing_parts
from tests.inspection.formats.examining import corpus_files, needs_corpus
from tests.inspection.growth import assert_linear
from tests.inspection.threats.packed_files import scan_bytes, threat_in, zipped
from tests.rows import each_row
from tests.run_length import amount

SVG: Final = "http://www.w3.org/2000/svg"
XHTML: Final = "http://www.w3.org/1999/xhtml"
NAMESPACES: Final = f'xmlns="{SVG}" xmlns:s="{SVG}" xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:h="{XHTML}"'
INNER: Final = f'<svg xmlns="{SVG}" onload="x()"/>'

SCRIPT_ADDRESSES: Final = (
    "javascript:x()", " \t\n javascript:x()", "JaVaScRiPt:x()", "&#106;avascript:x()", "java&#10;script:x()",
    "java&#x9;script&#13;:x()", "&#1;javascript:x()".replace("&#1;", "&#x20;&#x85;"), "vbscript:x()",
    "&colon;".replace("&colon;", "javascript&#58;x()"), "data:text/html,x", " DATA:text/html;base64,eA==",
    "data:application/javascript,x", f"data:image/svg+xml,{quote(INNER)}", f"data:text/xml,{quote(INNER)}",
    f"data:image/svg+xml;base64,{base64.b64encode(INNER.encode()).decode()}",
    f"data:image/svg+xml;charset=utf-16le;base64,{base64.b64encode(INNER.encode('utf-16-le')).decode()}",
    "view-source:javascript:x()",
)  # fmt: skip
HOLDERS: Final = (
    '<a href="{0}"/>', "<a xlink:href='{0}'/>", '<s:a s:href="{0}"/>', '<use href="{0}"/>', '<set to="{0}"/>',
    '<animate attributeName="xlink:href" values="{0}"/>', '<animate from="{0}" to="b"/>', '<animate by="{0}"/>',
    '<foreignObject><h:form action="{0}"/></foreignObject>', '<h:button formaction="{0}"/>', '<h:img src="{0}"/>',
    '<image href="{0}"/>', '<rect fill="url({0})"/>', "<rect style=\"fill: URL( '{0}' )\"/>", '<g xml:base="{0}"/>',
    "<style>@import '{0}';</style>", "<style>a {{ b: url({0}) }}</style>", '<h:link rel="a" href="{0}"/>',
    '<h:meta http-equiv="refresh" content="0;url={0}"/>',
)  # fmt: skip
ACTIVE: Final = (
    "<script>x()</script>", "<script/>", "<s:script/>", '<script xmlns=""/>', '<o:script xmlns:o="other"/>',
    "<h:script>x()</h:script>", "<s:SCRIPT/>", "<s:script\n>x</s:script\n>", "<handler>x</handler>",
    "<script href='a.js'/>", "<defs><g><script/></g></defs>", "<h:iframe src='a'/>", "<h:embed src='a'/>",
    "<foreignObject><h:object data='a'/></foreignObject>",
    '<foreignObject><iframe xmlns="' + XHTML + '"/></foreignObject>',
    "<g onload='x()'/>", "<g\nonmouseenter\n=\n'x()'/>", "<g onpointerrawupdate='x'/>", "<g OnClick='x'/>",
    "<g onwebkitanimationend='x'/>", "<h:p onbeforetoggle='x'/>", "<set attributeName='onmouseover' to='x()'/>",
    "<set attributeName=' on&#99;lick ' to='x()'/>", "<animate attributeName='s:onload' values='x()'/>",
    "<animate values='a; javascript:x()'/>",
    "<h:iframe srcdoc='a'/>", "<h:p srcdoc='&lt;script>x&lt;/script>'/>",
    '<listener xmlns="http://www.w3.org/2001/xml-events" event="load" handler="#a"/>', "<listener handler='#a'/>",
    '<g xmlns:e="http://www.w3.org/2001/xml-events" e:event="load" e:handler="a.svg#b"/>',
    "<g handler='javascript:x()'/>",
    "<g style='a: expression(x())'/>",
    "<g style='a: exp\\72 ession(x())'/>", "<style>a { b: ex/**/pression(x()) }</style>",
    "<style><![CDATA[ a { -moz-binding: url(a.xml#b) } ]]></style>", "<style>a { behavior: url(a.htc) }</style>",
    "<rect fill='u\\72 l(javascript:x())'/>",
    "<style>@im\\70ort 'java\\73 cript:x()'</style>",
    "<!--><img src=x onerror=x()>-->", "<!---><script>x</script>-->",
    "<?xml-stylesheet type='text/xsl' href='#a'?>", "<?xml-stylesheet href='&#106;avascript:x()'?>",
    "<?xml-stylesheet type='text/css' href='data:text/html,x'?>",
)  # fmt: skip
SUBSETS: Final = {
    "entity with a script": ("<!ENTITY e '<script>x()</script>'>", "&e;"),
    "entity in an address": ("<!ENTITY e 'javascript'>", '<a href="&e;:x()"/>'),
    "entity in an address, in pieces": ("<!ENTITY e 'java'><!ENTITY f '&e;script:'>", '<a href="&f;x()"/>'),
    "entity from a parameter entity": ("<!ENTITY % p '<!ENTITY e \"<script/>\">'> %p;", "&e;"),
    "entity behind another file": ("<!ENTITY % p SYSTEM 'a'> %p; <!ENTITY e '<script/>'>", "&e;"),
    "default of an attribute": ("<!ATTLIST g onload CDATA 'x()'>", "<g/>"),
    "default of an address": ("<!ATTLIST a href CDATA 'javascript:x()'>", "<a/>"),
    "bracket in a comment": ("<!-- ]> <html> -->", "<script/>"),
    "bracket in an entity": ("<!ENTITY e ']>x'>", "<script/>"),
    "character references": ("<!ENTITY e '&#60;script/>'>", "&e;"),
}
CODECS: Final = {
    "utf-8": "utf-8", "utf-8-sig": "utf-8", "utf-16": "utf-16", "utf-16-le": "utf-16", "utf-16-be": "utf-16",
    "utf-32": "utf-32", "utf-32-le": "utf-32", "utf-7": "utf-7", "cp037": "IBM037", "cp500": "IBM500",
    "cp1026": "IBM1026", "iso8859-1": "iso-8859-1", "cp1252": "windows-1252", "iso2022_jp": "iso-2022-jp",
    "shift_jis": "Shift_JIS", "gb18030": "GB18030",
}  # fmt: skip
CARRIERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "plain": bytes,
    "svgz": gzip.compress,
    "epub": lambda data: zipped({"mimetype": b"application/epub+zip", "OPS/images/a.svg": data}),
    "part of a package": lambda data: zipped({"[Content_Types].xml": b"<Types/>", "word/media/image1.bin": data}),
    "data address in a page": lambda data: (
        b"<html><img src='data:image/svg+xml;base64," + base64.b64encode(data) + b"'>"
    ),
    "mail": lambda data: (
        b"From: a@example.org\nContent-Type: image/svg+xml; name=a.svg\n"
        b"Content-Transfer-Encoding: base64\n\n" + base64.b64encode(data)
    ),
}


def drawing(inside: str, subset: str = "", codec: str = "utf-8", padding: str = "") -> bytes:
    declaration = f'<?xml version="1.0" encoding="{CODECS[codec]}"?>'
    doctype = f"<!DOCTYPE svg [{subset}]>" if subset else ""
    text = f"{padding}{doctype}<svg {NAMESPACES}>{inside}</svg>"
    if codec == "utf-7":
        return declaration.encode() + text.encode(codec).replace(b"<", b"+ADw-").replace(b"o", b"+AG8-")
    return (declaration + text).encode(codec)


def spellings() -> Iterator[tuple[str, bytes]]:
    bodies = [("", inside) for inside in ACTIVE]
    bodies += [("", holder.format(address)) for holder, address in itertools.product(HOLDERS, SCRIPT_ADDRESSES)]
    bodies += SUBSETS.values()
    codecs, paddings = itertools.cycle(CODECS), itertools.cycle(("", "<!-- " + "x" * 70_000 + " -->", "<?x ?>\n"))
    for subset, inside in bodies:
        yield f"{subset} {inside}", drawing(subset=subset, inside=inside)
        codec, padding = next(codecs), next(paddings)
        yield f"{subset} {inside} in {codec}", drawing(inside, subset, codec, padding)


@pytest.mark.asvs("1.3.4")
def test_every_spelling_of_a_script_is_a_threat() -> None:
    found = {name: threat_in(data) for name, data in spellings()}
    assert [name for name, threat in found.items() if threat != "Svg.Script"] == []
    assert len(found) > 600


@each_row("codec", list(CODECS))
@each_row("name", ["", "a.svg"])
def test_script_is_found_in_every_encoding(codec: str, name: str) -> None:
    assert threat_in(drawing("<g/><s:script/>", codec=codec), name) == "Svg.Script"


@each_row("carrier", list(CARRIERS))
@each_row("inside", ["<s:script/>", '<a href="java&#9;script:x()"/>', "<g onfocusin='x'/>"])
def test_script_is_found_in_every_carrier(carrier: str, inside: str) -> None:
    assert threat_in(CARRIERS[carrier](drawing(inside))) == "Svg.Script"


@each_row(
    "data",
    [
        b"<svg onload=x()>", b"<svg><script>x()", b"<svg><g></p><a xlink:href='javascript:x()'/></svg>",
        b"<svg><a x:href='java&Tab;script:x()'/></svg>", b"<svg>&nbsp;<style>a{b:expression(x())}</style>",
    ],
)  # fmt: skip
def test_script_in_a_damaged_drawing_is_a_threat(data: bytes) -> None:
    assert threat_in(data, "a.svg") == "Svg.Script"


@each_row(
    "inside",
    [
        '<a href="http://example.org/javascript:"/>',
        '<o:listener xmlns:o="other"/><g handler="a"/>',
        '<a xlink:href="page.html?onload=x"><text>onload = "x()" and javascript: in a text</text></a>',
        "<!-- <script>x()</script> onload='x' -->",
        "<desc><![CDATA[<script>x()</script>]]></desc>",
        "<text>&lt;script&gt; javascript:</text>",
        "<style>@import url(https://fonts.example.org/css); a { scroll-behavior: smooth }</style>",
        "<image href='data:image/png;base64,iVBORw0KGgo='/>",
        "<image href='data:image/svg+xml," + quote(f'<svg xmlns="{SVG}"><g/></svg>') + "'/>",
        "<style>a { background: url(\"data:image/svg+xml;utf8,<svg xmlns='x'/>\") }</style>".replace("<svg", "&lt;svg"),
        "<foreignObject><h:div><h:p>words</h:p><h:img src='a.png'/></h:div></foreignObject>",
        "<set attributeName='xlink:href' to='#b'/><animate attributeName='d' values='M0 0;M1 1'/>",
        "<metadata><o:object xmlns:o='other'/></metadata><g o:one='1' xmlns:o='other'/>",
        "<g aria-label='javascript: the good parts' data-on='x'/>",
        "<?xml-stylesheet type='text/css' href='a.css'?>",
        "<use href='other.svg#a'/><rect fill='url(#gradient)' transform='rotate(45)'/>",
    ],
)
def test_drawing_without_a_script_is_no_threat(inside: str) -> None:
    for codec in CODECS:
        result = scan_bytes(drawing(inside, codec=codec), "a.svg")
        assert (result["threat"], result["complete"], result["flags"]) == (None, True, []), codec


def test_script_in_other_xml_is_no_threat() -> None:
    assert threat_in(b"<?xml version='1.0'?><feed><script>x()</script></feed>", "a.xml") is None
    assert threat_in(f"<html xmlns='{XHTML}'><script>x()</script></html>".encode(), "a.xhtml") is None


def test_entities_that_multiply_leave_the_scan_incomplete() -> None:
    levels = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 20}'>" for n in range(1, 9))
    assert scan_bytes(drawing("&e8;", f"<!ENTITY e0 'ha'>{levels}"))["complete"] is False


def test_chain_of_entities_leaves_the_scan_incomplete() -> None:
    chain = "".join(f"<!ENTITY e{n} '&e{n - 1};'>" for n in range(1, 50_000))
    assert scan_bytes(drawing("&e49999;", f"<!ENTITY e0 'ha'>{chain}"))["complete"] is False


def test_drawings_nested_without_end_leave_the_scan_incomplete() -> None:
    inner = "<g/>"
    for _ in range(10):
        inner = f"<image href='data:image/svg+xml;base64,{base64.b64encode(drawing(inner)).decode()}'/>"
    assert scan_bytes(drawing(inner))["complete"] is False


GROWING: Final[dict[str, Callable[[int], str]]] = {
    "elements": lambda n: "<g a='b'/>" * n,
    "attributes": lambda n: "<g " + " ".join(f"a{i}='b'" for i in range(n // 8)) + "/>",
    "long value": lambda n: f"<g d='{'M0 0 ' * n * 4}'/>",
    "spaces in an address": lambda n: f"<a href='j{'&#10;' * n}x'/>",
    "spaces before a scheme": lambda n: f"<a href='{'&#10;' * n}x'/>",
    "list of addresses": lambda n: f"<animate values='{'a;' * n}'/>",
    "style with addresses": lambda n: f"<style>{'a { b: url(c) }' * n}</style>",
    "style with data": lambda n: "<style>" + 'url("data:image/svg+xml,x' * (n // 8) + "</style>",
    "style with quotes": lambda n: "<style>" + 'url("' * n + "</style>",
    "style without end of comment": lambda n: f"<style>{'/*' * n}</style>",
    "style with escapes": lambda n: "<style>" + "\\61 " * n + "</style>",
    "style with spaces": lambda n: f"<style>url{' ' * n}</style>",
    "pseudo-attributes": lambda n: f"<?xml-stylesheet {'a=' * n}?>",
    "pseudo-attributes without end": lambda n: "<?xml-stylesheet " + 'a="' * n + "?>",
    "damage, tags": lambda n: "<g " * n,
    "damage, names": lambda n: "<g> & " + "a" * n,
    "damage, equals": lambda n: "<g> & " + "a = " * n,
    "damage, quotes": lambda n: "<g> & " + "a=\"b='c" * n,
    "damage, spaces": lambda n: "<g> & a" + " " * n,
    "damage, brackets": lambda n: "<g> & " + "<" * n,
    "data address": lambda n: f"<image href='data:image/svg+xml,{'%20' * n}'/>",
    "kind of data": lambda n: f"<image href='data:{'a/b;' * n}'/>",
}


@each_row("kind", list(GROWING))
def test_drawings_are_read_in_linear_time(kind: str) -> None:
    def read(size: int) -> None:
        source = MemorySource(bytearray(f"<svg>{GROWING[kind](size)}</svg>".encode()))
        with suppress(OverBudget):
            list(drawing_parts(source, named=True, begins=True))

    assert_linear(read, amount("FLOOD", short=20_000, full=80_000))


@needs_corpus
def test_drawings_of_the_corpus_are_no_threats() -> None:
    good = [path for label in ("valid", "not_blank", "blank") for path in corpus_files("svg", label)]
    assert [path.name for path in good if threat_in(path.read_bytes(), path.name)] == []
