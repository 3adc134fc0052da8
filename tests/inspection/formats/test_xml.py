"""XML: integrity, safety and blankness."""

import io

from sluice_inspect.formats.xml import FORMAT
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Finding, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.rows import each_row


@each_row(
    "text",
    [
        "<a>text</a>", '<a b="1"/>', "<a><b/><c/></a>", "<!-- note --><a><![CDATA[x]]></a>", "<a>0</a>",
        '<!DOCTYPE a SYSTEM "a.dtd"><a>&b;</a>',
    ],
)  # fmt: skip
def test_document_with_content_passes(text: str) -> None:
    result = examine_bytes(FORMAT, text.encode())
    assert result.outcome is Outcome.OK
    assert result.blank is None


@each_row(
    "text", ["<a/>", '<?xml version="1.0"?>\n<a>\n  <b/>\n</a>', "<a>\u00a0\u200b</a>", "<!-- only a note --><a></a>"]
)
def test_document_without_content_is_blank(text: str) -> None:
    assert examine_bytes(FORMAT, text.encode()).blank


@each_row("text", ["<a>", "<a></b>", "<a/><b/>", "just words", "<a b=c/>", "<a>&nothing</a>"])
def test_malformed_xml_is_corrupt(text: str) -> None:
    assert examine_bytes(FORMAT, text.encode()).outcome is Outcome.CORRUPT


@each_row("codec", ["cp037", "cp500", "cp273", "cp1140"])
@each_row("line_end", ["\n", "\x85"])
def test_document_in_ebcdic_is_read(codec: str, line_end: str) -> None:
    text = f'<?xml version="1.0" encoding="{codec}"?>{line_end}<a b="ä">words{line_end}</a>'
    assert examine_bytes(FORMAT, text.encode(codec)).outcome is Outcome.OK
    assert examine_bytes(FORMAT, text.encode(codec)[:-3]).outcome is Outcome.CORRUPT
    assert examine_bytes(FORMAT, text.replace("words", "").encode(codec)).blank is None


def test_long_document_in_ebcdic_is_read_to_its_end() -> None:
    text = '<?xml version="1.0" encoding="cp037"?><a>' + "<b>ä ö ü</b>" * 40_000 + "</a>"
    assert examine_bytes(FORMAT, text.encode("cp037")).outcome is Outcome.OK
    assert examine_bytes(FORMAT, text.replace("</b></a>", "</a>").encode("cp037")).outcome is Outcome.CORRUPT


def test_empty_document_in_ebcdic_is_blank() -> None:
    assert examine_bytes(FORMAT, '<?xml version="1.0" encoding="cp037"?><a/>'.encode("cp037")).blank


def test_document_in_an_unknown_code_page_is_never_corrupt() -> None:
    text = '<?xml version="1.0" encoding="IBM-1047"?><a>words</a>'
    assert examine_bytes(FORMAT, text.encode("cp037")).outcome is Outcome.OK
    odd = '<?xml version="1.0" encoding="IBM-1047"?><a><![CDATA[words]]></a>'
    assert examine_bytes(FORMAT, odd.encode("cp500")).outcome is Outcome.UNSUPPORTED


@each_row("name", ["x-mac-ce", "IBM-943", "x-user-defined", "windows-936-2000"])
def test_encoding_that_only_other_readers_know_is_unsupported(name: str) -> None:
    data = f'<?xml version="1.0" encoding="{name}"?><a>words</a>'.encode()
    assert examine_bytes(FORMAT, data).outcome is Outcome.UNSUPPORTED


@each_row("encoding", ["utf-16", "iso-8859-1", "windows-1252"])
def test_declared_encodings_are_read(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?><a>é</a>'
    assert examine_bytes(FORMAT, text.encode(encoding)).outcome is Outcome.OK


def test_entity_expansion_is_a_bomb() -> None:
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 20}">' for n in range(1, 9))
    laughs = f'<!DOCTYPE a [<!ENTITY l0 "ha">{entities}]><a>&l8;</a>'
    assert examine_bytes(FORMAT, laughs.encode()).finding is Finding.ARCHIVE_BOMB


def test_small_entity_expansion_is_a_bomb() -> None:
    laughs = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "{}"><!ENTITY d "{}">]><a>&c;</a>'.format("&b;" * 20, "&c;" * 20)
    assert examine_bytes(FORMAT, laughs.encode()).finding is Finding.ARCHIVE_BOMB
    assert examine_bytes(FORMAT, laughs.encode("utf-16")).finding is Finding.ARCHIVE_BOMB


@each_row(
    "address", ["file:///etc/passwd", "/etc/passwd", "http://example.org/a", "data://text/plain;base64,YQ==", "C:\\a"]
)
@each_row("mark", ["", "% "])
def test_entity_with_an_absolute_address_is_unsafe(address: str, mark: str) -> None:
    text = f'<!DOCTYPE a [<!ENTITY {mark}b SYSTEM "{address}">]><a>text</a>'
    assert examine_bytes(FORMAT, text.encode()).finding is Finding.ARCHIVE_UNSAFE


@each_row(
    "declared",
    [
        '<!ENTITY b "words">',
        '<!ENTITY b "words"><!ENTITY c "&b; and &b;">',
        '<!ENTITY b SYSTEM "chapter.xml">',
        '<!ENTITY % b PUBLIC "-//W3C//ENTITIES Latin 1//EN" "http://www.w3.org/lat1.ent">',
        '<!NOTATION g SYSTEM "gif"><!ENTITY b SYSTEM "file:///a.gif" NDATA g>',
        '<!-- <!ENTITY b SYSTEM "file:///etc/passwd"> -->',
        "<!ELEMENT a (#PCDATA)>",
    ],
)
def test_harmless_declarations_pass(declared: str) -> None:
    result = examine_bytes(FORMAT, f"<!DOCTYPE a [{declared}]><a>text</a>".encode())
    assert (result.outcome, result.finding) == (Outcome.OK, None)


def test_deep_nesting_is_too_complex() -> None:
    assert examine_bytes(FORMAT, b"<a>" * 300 + b"</a>" * 300).outcome is Outcome.TOO_COMPLEX


def test_document_without_an_extension_is_recognised() -> None:
    assert inspect_file(io.BytesIO(b"<?xml version='1.0'?><a>text</a>"), filename="upload").format == "xml"
    assert inspect_file(io.BytesIO(b"<?xml version='1.0'?><a>text</b>"), filename="upload").outcome is Outcome.OK
    laughs = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "{}"><!ENTITY d "{}">]><a/>'.format("&b;" * 20, "&c;" * 20)
    assert inspect_file(io.BytesIO(laughs.encode()), filename="upload").finding is Finding.ARCHIVE_BOMB
