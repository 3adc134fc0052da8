"""XML: integrity, safety and blankness."""

import io

from sluice_inspect.formats.xml import FORMAT
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Finding, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.rows import each_row

LAUGHS = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "{}"><!ENTITY d "{}">]><a>&c;</a>'.format("&b;" * 20, "&c;" * 20)


def examine(text: str, encoding: str = "utf-8") -> Examined:
    return examine_bytes(FORMAT, text.encode(encoding))


def in_code_page(name: str, inner: str) -> str:
    return f'<?xml version="1.0" encoding="{name}"?><a>{inner}</a>'


@each_row(
    "text",
    [
        *("<a>text</a>", '<a b="1"/>', "<a><b/><c/></a>", "<!-- note --><a><![CDATA[x]]></a>", "<a>0</a>"),
        '<!DOCTYPE a SYSTEM "a.dtd"><a>&b;</a>',
    ],
)
def test_document_with_content_passes(text: str) -> None:
    result = examine(text)
    assert (result.outcome, result.blank) == (Outcome.OK, None)


@each_row(
    "text", ["<a/>", '<?xml version="1.0"?>\n<a>\n  <b/>\n</a>', "<a>\u00a0\u200b</a>", "<!-- only a note --><a></a>"]
)
def test_document_without_content_is_blank(text: str) -> None:
    assert examine(text).blank
    assert examine(in_code_page("cp037", ""), "cp037").blank


@each_row("text", ["<a>", "<a></b>", "<a/><b/>", "just words", "<a b=c/>", "<a>&nothing</a>"])
def test_malformed_xml_is_corrupt(text: str) -> None:
    assert examine(text).outcome is Outcome.CORRUPT


@each_row("codec", ["cp037", "cp500", "cp273", "cp1140"])
@each_row("line_end", ["\n", "\x85"])
def test_document_in_ebcdic_is_read(codec: str, line_end: str) -> None:
    text = f'<?xml version="1.0" encoding="{codec}"?>{line_end}<a b="ä">words{line_end}</a>'
    assert examine(text, codec).outcome is Outcome.OK
    assert examine_bytes(FORMAT, text.encode(codec)[:-3]).outcome is Outcome.CORRUPT
    assert examine(text.replace("words", ""), codec).blank is None


def test_long_document_in_ebcdic_is_read_to_its_end() -> None:
    text = in_code_page("cp037", "<b>ä ö ü</b>" * 40_000)
    assert examine(text, "cp037").outcome is Outcome.OK
    assert examine(text.replace("</b></a>", "</a>"), "cp037").outcome is Outcome.CORRUPT


@each_row(
    ("text", "encoding", "outcome"),
    [
        *((in_code_page(name, "é"), name, Outcome.OK) for name in ("utf-16", "iso-8859-1", "windows-1252")),
        (in_code_page("IBM-1047", "words"), "cp037", Outcome.OK),
        (in_code_page("IBM-1047", "<![CDATA[words]]>"), "cp500", Outcome.UNSUPPORTED),
        *(
            (in_code_page(name, "words"), "utf-8", Outcome.UNSUPPORTED)
            for name in ("x-mac-ce", "IBM-943", "x-user-defined", "windows-936-2000")
        ),
    ],
)
def test_declared_encoding_is_read_or_unsupported_but_never_corrupt(text: str, encoding: str, outcome: Outcome) -> None:
    assert examine(text, encoding).outcome is outcome


def test_entity_expansion_is_a_bomb() -> None:
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 20}">' for n in range(1, 9))
    assert examine(f'<!DOCTYPE a [<!ENTITY l0 "ha">{entities}]><a>&l8;</a>').finding is Finding.ARCHIVE_BOMB
    assert examine(LAUGHS).finding is Finding.ARCHIVE_BOMB
    assert examine(LAUGHS, "utf-16").finding is Finding.ARCHIVE_BOMB


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
    result = examine(f"<!DOCTYPE a [{declared}]><a>text</a>")
    assert (result.outcome, result.finding) == (Outcome.OK, None)


def test_deep_nesting_is_too_complex() -> None:
    assert examine("<a>" * 300 + "</a>" * 300).outcome is Outcome.TOO_COMPLEX


def test_document_without_an_extension_is_recognised() -> None:
    def report(text: str) -> tuple[str | None, Outcome, Finding | None]:
        found = inspect_file(io.BytesIO(text.encode()), filename="upload")
        return found.format, found.outcome, found.finding

    assert report("<?xml version='1.0'?><a>text</a>")[0] == "xml"
    assert report("<?xml version='1.0'?><a>text</b>")[1] is Outcome.OK
    assert report(LAUGHS.replace("<a>&c;</a>", "<a/>"))[2] is Finding.ARCHIVE_BOMB
