"""The XML parser: encodings, entities and limits."""

import io
from collections.abc import Mapping
from dataclasses import replace

import pytest

from sluice_inspect.report import Corrupt, Finding, Limits, TooComplex, Unsafe, Unsupported
from sluice_inspect.text.xml_declarations import DeclarationReader
from sluice_inspect.text.xmlsafe import Doctype, StopParsing, XmlTarget, parse_xml
from tests.rows import each_row


class Words(XmlTarget):
    def __init__(self) -> None:
        self.text = ""

    def data(self, text: str) -> None:
        self.text += text


class UntilSecond(XmlTarget):
    def __init__(self) -> None:
        self.tags: list[str] = []

    def start(self, tag: str, _attributes: Mapping[str, str]) -> None:
        self.tags.append(tag)
        if len(self.tags) == 2:
            raise StopParsing


def read(
    document: str | bytes,
    limits: Limits | None = None,
    target: XmlTarget | None = None,
    doctype: Doctype = Doctype.INERT,
) -> bool:
    data = document.encode() if isinstance(document, str) else document
    return parse_xml(io.BytesIO(data), limits or Limits(), target=target, doctype=doctype, where="part.xml")


@each_row(
    ("encoding", "text"),
    [("utf-8", "é"), ("utf-8-sig", "é"), ("utf-16", "é"), ("iso-8859-1", "é"), ("shift_jis", "表")],
)
def test_text_in_any_declared_encoding_reaches_the_target_in_document_order(encoding: str, text: str) -> None:
    words = Words()
    head = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>'
    assert read(f"{head}<a>one <b>{text}</b><![CDATA[ three]]></a>".encode(encoding), target=words)
    assert words.text == f"one {text} three"


@each_row("document", ["", "text", "<a>", "<a></b>", "<a x='1' x='2'/>", "<a/>tail", "<a>&nothing;</a>", "<a>\x00</a>"])
def test_malformed_documents_are_corrupt_and_named(document: str) -> None:
    with pytest.raises(Corrupt, match=r"part\.xml"):
        read(document)


def test_target_can_stop_parsing_before_later_damage() -> None:
    target = UntilSecond()
    assert read("<a><b/><c></a>", target=target) is False
    assert target.tags == ["a", "b"]


def test_doctype_is_ignored_when_inert() -> None:
    assert read('<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/x.dtd"><html/>')


@each_row("document", ["<!DOCTYPE a><a/>", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'])
def test_doctype_is_corrupt_when_forbidden(document: str) -> None:
    with pytest.raises(Corrupt, match="DOCTYPE"):
        read(document, doctype=Doctype.FORBIDDEN)


@pytest.mark.asvs("1.5.1")
def test_entity_expansion_is_a_bomb() -> None:
    levels = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9))
    with pytest.raises(Unsafe) as caught:
        read(f'<!DOCTYPE a [<!ENTITY a0 "lol">{levels}]><a>&a9;</a>')
    assert caught.value.finding is Finding.ARCHIVE_BOMB
    with pytest.raises(Unsafe):
        read('<!DOCTYPE a [<!ENTITY b "&c;"><!ENTITY c "&b;">]><a>&b;</a>')


@pytest.mark.asvs("1.5.1")
def test_entities_in_other_files_are_listed_and_never_loaded() -> None:
    document = b'<!DOCTYPE a [<!ENTITY other SYSTEM "other.xml">]><a>&other;</a>'
    words, declarations = Words(), DeclarationReader("part.xml")
    assert parse_xml(io.BytesIO(document), Limits(), target=words, declarations=declarations)
    assert (words.text, declarations.external) == ("", ("other",))


@each_row("limit", [20, 256])
def test_nesting_past_the_limit_is_too_complex(limit: int) -> None:
    limits = replace(Limits(), max_xml_depth=limit)
    assert read("<a>" * limit + "</a>" * limit, limits)
    with pytest.raises(TooComplex):
        read("<a>" * (limit + 2) + "</a>" * (limit + 2), limits)


def test_attribute_past_ten_megabytes_is_too_complex_and_text_of_that_length_is_not() -> None:
    assert read(f"<a>{'x' * 11_000_000}</a>")
    with pytest.raises(TooComplex):
        read(f'<a b="{"x" * 11_000_000}"/>')


@each_row(("encoding", "error"), [("no-such-encoding", Corrupt), ("punycode", Unsupported)])
def test_unknown_encoding_is_corrupt_and_one_that_others_know_unsupported(
    encoding: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        read(f'<?xml version="1.0" encoding="{encoding}"?><a/>')


def test_stream_error_is_propagated() -> None:
    class Broken(io.RawIOBase):
        def read(self, _size: int = -1, /) -> bytes:
            raise Corrupt("member does not inflate")

    with pytest.raises(Corrupt, match="inflate"):
        parse_xml(Broken(), Limits())
