import io
from collections.abc import Mapping
from dataclasses import replace

import pytest

from sluice.formats.text.xmlsafe import Doctype, Enough, XmlTarget, external_entities, parse_xml
from sluice.formats.verdict import Corrupt, Finding, Limits, TooComplex, Unsafe, Unsupported


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
            raise Enough


def read(
    document: str | bytes, limits: Limits | None = None, target: XmlTarget | None = None, doctype: Doctype = Doctype.INERT
) -> bool:
    data = document.encode() if isinstance(document, str) else document
    return parse_xml(io.BytesIO(data), limits or Limits(), target=target, doctype=doctype, where="part.xml")


def test_text_of_a_document_reaches_the_target_in_order() -> None:
    words = Words()
    assert read("<a>one <b>two</b><![CDATA[ three]]></a>", target=words)
    assert words.text == "one two three"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "shift_jis"])
def test_declared_encodings_are_followed(encoding: str) -> None:
    words = Words()
    text = "é" if encoding != "shift_jis" else "表"
    declared = "utf-8" if encoding == "utf-8-sig" else encoding
    assert read(f'<?xml version="1.0" encoding="{declared}"?><a>{text}</a>'.encode(encoding), target=words)
    assert words.text == text


@pytest.mark.parametrize(
    "document", ["", "text", "<a>", "<a></b>", "<a x='1' x='2'/>", "<a/>tail", "<a>&nothing;</a>", "<a>\x00</a>"]
)
def test_documents_that_are_not_well_formed_are_corrupt_and_named(document: str) -> None:
    with pytest.raises(Corrupt, match=r"part\.xml"):
        read(document)


def test_a_target_that_has_enough_ends_the_reading_before_damage_behind_it() -> None:
    target = UntilSecond()
    assert read("<a><b/><c></a>", target=target) is False
    assert target.tags == ["a", "b"]


def test_a_doctype_is_read_over_where_it_is_inert() -> None:
    assert read('<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://127.0.0.1:9/x.dtd"><html/>')


@pytest.mark.parametrize("document", ["<!DOCTYPE a><a/>", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'])
def test_a_doctype_is_damage_where_it_is_forbidden(document: str) -> None:
    with pytest.raises(Corrupt, match="DOCTYPE"):
        read(document, doctype=Doctype.FORBIDDEN)


@pytest.mark.asvs("1.5.1")
def test_entities_that_multiply_are_a_bomb() -> None:
    levels = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9))
    with pytest.raises(Unsafe) as caught:
        read(f'<!DOCTYPE a [<!ENTITY a0 "lol">{levels}]><a>&a9;</a>')
    assert caught.value.finding is Finding.ARCHIVE_BOMB


def test_an_entity_that_contains_itself_is_a_bomb() -> None:
    with pytest.raises(Unsafe):
        read('<!DOCTYPE a [<!ENTITY b "&c;"><!ENTITY c "&b;">]><a>&b;</a>')


@pytest.mark.asvs("1.5.1")
def test_external_entities_are_named_and_never_loaded() -> None:
    document = '<!DOCTYPE a [<!ENTITY secret SYSTEM "file:///etc/hostname">]><a>&secret;</a>'
    words = Words()
    assert read(document, target=words)
    assert words.text == ""
    assert external_entities(document.encode()) == ("secret",)
    assert external_entities(b"<a/>") == ()


@pytest.mark.parametrize("most", [20, 256])
def test_nesting_past_the_limit_is_too_complex(most: int) -> None:
    limits = replace(Limits(), max_xml_depth=most)
    assert read("<a>" * most + "</a>" * most, limits)
    with pytest.raises(TooComplex):
        read("<a>" * (most + 2) + "</a>" * (most + 2), limits)


def test_one_attribute_past_ten_megabytes_is_too_complex() -> None:
    with pytest.raises(TooComplex):
        read(f'<a b="{"x" * 11_000_000}"/>')


def test_much_text_is_not_too_complex() -> None:
    assert read(f"<a>{'x' * 11_000_000}</a>")


def test_an_encoding_that_exists_nowhere_is_corrupt() -> None:
    with pytest.raises(Corrupt):
        read('<?xml version="1.0" encoding="no-such-encoding"?><a/>')


def test_an_encoding_that_only_others_know_is_unsupported() -> None:
    with pytest.raises(Unsupported):
        read('<?xml version="1.0" encoding="punycode"?><a/>')


def test_an_error_of_the_stream_passes_through() -> None:
    class Broken(io.RawIOBase):
        def read(self, _size: int = -1, /) -> bytes:
            raise Corrupt("member does not inflate")

    with pytest.raises(Corrupt, match="inflate"):
        parse_xml(Broken(), Limits())
