"""The DOCTYPE of XML: whatever a reader would load from outside of the document, however it is declared and encoded."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import pytest

from sluice_inspect.formats import svg, xml
from sluice_inspect.report import Finding, Outcome, Unsafe
from sluice_inspect.text.xml_declarations import DeclarationReader
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.growth import assert_linear
from tests.rows import each_row

SUBSETS: Final = {
    "entity": '<!ENTITY a SYSTEM "{0}">',
    "public entity": '<!ENTITY a PUBLIC "-//W3C//ENTITIES Latin 1//EN" "{0}">',
    "parameter entity": '<!ENTITY % a SYSTEM "{0}"> %a;',
    "second entity": '<!ENTITY a "words"><!ENTITY b SYSTEM "{0}">',
    "built by a parameter entity": "<!ENTITY % p '<!ENTITY a SYSTEM \"{0}\">'> %p;",
    "built with character references": "<!ENTITY % p '&#60;!ENTITY a &#x53;YSTEM \"{0}\">'> %p;",
    "built in two steps": (
        "<!ENTITY % p '<!ENTITY a SYSTEM \"{0}\">'><!ENTITY % q '&#37;p;'> %q;"
    ),
    "behind a parameter entity elsewhere": '<!ENTITY % p SYSTEM "other.ent"> %p; <!ENTITY a SYSTEM "{0}">',
    "behind an attribute list": '<!ATTLIST a b CDATA "]>"><!ENTITY a SYSTEM "{0}">',
    "behind a bracket in a comment": '<!-- ]> --><!ENTITY a SYSTEM "{0}">',
}  # fmt: skip
ADDRESSES: Final = (
    "file:///etc/passwd", "/etc/passwd", "http://example.org/a", "//example.org/a", "\\\\host\\a", " php://filter/a",
    "htt\tp://example.org/a", ".\t./a", "/\r/example.org/a", "..", "%2e%2E", "a/%2e.", " ..?a",
    "../../etc/passwd", "a/%2e%2E/%2e%2e/b", "http://www.w3.org@example.org/a.dtd", "http://www.w3.org.example.org/a",
    "data://text/plain;base64,YQ==", "C:\\a",
)  # fmt: skip
CODECS: Final = {
    "utf-8": ("utf-8", b""), "utf-8 with mark": ("utf-8", b"\xef\xbb\xbf"), "utf-16": ("utf-16", b""),
    "utf-16, little-endian": ("utf-16-le", b""), "utf-16, big-endian": ("utf-16-be", b""), "utf-7": ("utf-7", b""),
    "utf-32": ("utf-32", b""), "utf-32, no mark": ("utf-32-be", b""), "latin-1": ("iso-8859-1", b""),
    "windows-1252": ("cp1252", b""), "iso-2022-jp": ("iso2022_jp", b""), "shift_jis": ("shift_jis", b""),
}  # fmt: skip
DECLARED: Final = {"utf-16-le": "utf-16", "utf-16-be": "utf-16", "utf-32-be": "utf-32", "iso2022_jp": "iso-2022-jp"}
PADDING: Final = {
    "none": "", "comment": f"<!--{'x' * 70_000}-->", "white space": " \n" * 40_000,
    "instruction": f"<?x {'y' * 70_000}?>", "entities": "".join(f'<!ENTITY x{n} "y">' for n in range(5_000)),
}  # fmt: skip


def document(doctype: str, codec: str = "utf-8", mark: bytes = b"", root: str = "a") -> bytes:
    head = f'<?xml version="1.0" encoding="{DECLARED.get(codec, codec)}"?>'
    if codec == "utf-7":  # the declaration is what tells readers to decode the rest
        hidden = (doctype + f"<{root}>text</{root}>").encode("utf-7").replace(b"!", b"+ACE-").replace(b"<", b"+ADw-")
        return head.encode() + hidden
    return mark + f"{head}{doctype}<{root}>text</{root}>".encode(codec)


def spellings() -> Iterator[tuple[str, bytes]]:
    """Yield one document for each pair of values of any two dimensions, rather than all 6,000."""
    dimensions: tuple[tuple[str, ...], ...] = (tuple(SUBSETS), ADDRESSES, tuple(CODECS), tuple(PADDING))
    plain = tuple(each[0] for each in dimensions)
    seen = set()
    for first, second in itertools.combinations(range(len(dimensions)), 2):
        for one, other in itertools.product(dimensions[first], dimensions[second]):
            values = list(plain)
            values[first], values[second] = one, other
            seen.add(tuple(values))
    for subset, address, codec, padding in sorted(seen):
        escaped = address.replace("%", "&#37;") if subset.startswith("built") else address
        doctype = f"<!DOCTYPE a [{PADDING[padding]}{SUBSETS[subset].format(escaped)}]>"
        yield f"{subset}, {address}, {codec}, {padding}", document(doctype, *CODECS[codec])


@pytest.mark.asvs("1.5.1")
def test_address_outside_of_the_document_is_unsafe_in_every_spelling() -> None:
    tried, passed = 0, []
    for name, data in spellings():
        tried += 1
        if examine_bytes(xml.FORMAT, data).finding is not Finding.ARCHIVE_UNSAFE:
            passed.append(name)
    assert passed == []
    assert tried > 300


@each_row("codec", list(CODECS))
@each_row("doctype", ['SYSTEM "http://example.org/a.dtd"', "PUBLIC '-//W3C//DTD SVG 1.1//EN' 'file:///a.dtd'"])
def test_dtd_outside_of_the_document_is_unsafe(codec: str, doctype: str) -> None:
    data = document(f"<!DOCTYPE svg {doctype}>", *CODECS[codec], root="svg")
    assert examine_bytes(xml.FORMAT, data).finding is Finding.ARCHIVE_UNSAFE
    assert examine_bytes(svg.FORMAT, data).finding is Finding.ARCHIVE_UNSAFE


@each_row(
    "doctype",
    [
        'a [<!ENTITY b SYSTEM "http://www.w3.org/TR/xhtml1/DTD/b.txt">]',
        'a SYSTEM "http://www.w3.org:22/a.dtd"',
        'a [<!ENTITY % b SYSTEM "http://www.w3.org:8080/a.dtd">]',
    ],
)
def test_known_host_excuses_only_dtds_at_its_usual_port(doctype: str) -> None:
    assert examine_bytes(xml.FORMAT, document(f"<!DOCTYPE {doctype}>")).finding is Finding.ARCHIVE_UNSAFE
    dtd = 'a [<!ENTITY % b PUBLIC "c" "http://www.w3.org:80/TR/xhtml1/DTD/xhtml-lat1.ent">]'
    assert examine_bytes(xml.FORMAT, document(f"<!DOCTYPE {dtd}>")).outcome is Outcome.OK


@each_row("codec", ["cp037", "cp500", "cp1140", "cp1026", "cp273"])
def test_address_in_ebcdic_is_unsafe(codec: str) -> None:
    head = f'<?xml version="1.0" encoding="IBM{codec[2:].zfill(3)}"?>'
    data = f'{head}<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'.encode(codec)
    assert examine_bytes(xml.FORMAT, data).finding is Finding.ARCHIVE_UNSAFE


def test_declaration_in_an_encoding_that_the_parser_does_not_know_is_unsafe_or_without_an_end_corrupt() -> None:
    data = b'<?xml version="1.0" encoding="punycode"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///a">]><a>&b;</a>'
    assert examine_bytes(xml.FORMAT, data).finding is Finding.ARCHIVE_UNSAFE
    endless = b"<?xml version='1.0'" + b" " * 200_000 + b"encoding='utf-7'?>+ADw-a/+AD4-"
    assert examine_bytes(xml.FORMAT, endless).outcome is Outcome.CORRUPT


@each_row(
    "doctype",
    [
        'svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd"',
        'html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd"',
        'plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd"',
        'ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/ncx-2005-1.dtd"',
        'properties SYSTEM "http://java.sun.com/dtd/properties.dtd"',
        'Configure PUBLIC "-//Jetty//Configure//EN" "https://jetty.org/configure_10_0.dtd"',
        'manifest:manifest PUBLIC "-//OpenOffice.org//DTD Manifest 1.0//EN" "Manifest.dtd"',
        "html",
    ],
)
def test_well_known_dtds_pass(doctype: str) -> None:
    root = doctype.split(maxsplit=1)[0].replace("manifest:manifest", "manifest")
    assert examine_bytes(xml.FORMAT, document(f"<!DOCTYPE {doctype}>", root=root)).outcome is Outcome.OK


@each_row(
    "before", ["%undeclared;", "<!ENTITY % p '<!ENTITY z \"&#37;undeclared;\">'> %p;", "<!ENTITY z '%undeclared;'>"]
)
def test_declarations_that_one_of_two_readers_ignores_are_corrupt(before: str) -> None:
    result = examine_bytes(xml.FORMAT, document(f"<!DOCTYPE a [{before}<!ENTITY b SYSTEM 'file:///a'>]>"))
    assert result.outcome is Outcome.CORRUPT


def test_name_that_one_of_two_readers_does_not_know_is_corrupt_in_front_of_a_doctype() -> None:
    named = "<?\u1778 x?>"  # a letter for names since the fifth edition of XML 1.0
    assert examine_bytes(xml.FORMAT, f"{named}<a>text</a>".encode()).outcome is Outcome.OK
    data = f"{named}<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///a'>]><a>text</a>".encode()
    assert examine_bytes(xml.FORMAT, data).outcome is Outcome.CORRUPT


@each_row("count", [2_000, 100_000])
def test_chain_of_parameter_entities_is_a_bomb(count: int) -> None:
    chain = "".join(f"<!ENTITY % p{n} '&#37;p{n - 1};'>" for n in range(1, count))
    data = document(f"<!DOCTYPE a [<!ENTITY % p0 ''>{chain} %p{count - 1};]>")
    assert examine_bytes(xml.FORMAT, data).finding is Finding.ARCHIVE_BOMB


def test_parameter_entities_that_multiply_are_a_bomb() -> None:
    levels = "".join(f"<!ENTITY % p{n} '{f'&#37;p{n - 1};' * 10}'>" for n in range(1, 9))
    data = document(f"<!DOCTYPE a [<!ENTITY % p0 '<!-- x -->'>{levels} %p8;]>")
    assert examine_bytes(xml.FORMAT, data).finding is Finding.ARCHIVE_BOMB


def read_declarations(data: bytes) -> None:
    reader = DeclarationReader("the document")
    for at in range(0, len(data), 32_768):
        reader.feed(data[at : at + 32_768])
    reader.close()


GROWING: Final[dict[str, Callable[[int], str]]] = {
    "comment": lambda n: f"<!--{'x' * n * 20}-->",
    "white space": lambda n: " " * n * 20,
    "entities": lambda n: "".join(f'<!ENTITY e{i} "text {i}">' for i in range(n)),
    "repeated entity": lambda n: '<!ENTITY e "text text">' * n,
    "attributes": lambda n: "".join(f"<!ATTLIST a b{i} CDATA #IMPLIED>" for i in range(n // 4)),
    "unfinished entity": lambda n: f'<!ENTITY e "{"text " * n}',
    "references": lambda n: f'<!ENTITY e "{"&f;" * n}">',
    "address": lambda n: f'<!ENTITY e SYSTEM "{"./" * n * 5}">',
    "dots": lambda n: f'<!ENTITY e SYSTEM "{"." * n * 5}">',
    "instructions": lambda n: "<?x y?>" * n,
}


@each_row("kind", list(GROWING))
def test_declarations_are_read_in_linear_time(kind: str) -> None:
    def read(size: int) -> None:
        with suppress(Unsafe):
            read_declarations(f"<!DOCTYPE a [{GROWING[kind](size)}]><a/>".encode())

    # each entity is an object, and more of them leave the cache of the processor
    assert_linear(read, 8_000 if kind == "entities" else 40_000)
