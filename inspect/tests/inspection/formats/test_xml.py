"""XML: integrity, safety and blankness; what other readers would load from outside is refused."""

import io
from collections.abc import Iterable
from itertools import product

from sluice_inspect.formats.xml import FORMAT
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Finding, Outcome
from tests.inspection.formats.examining import Row, verdicts
from tests.inspection.formats.xml_documents import READERS, document, is_accepted
from tests.rows import each_row
from tests.run_length import amount

LAUGHS = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "{}"><!ENTITY d "{}">]><a>&c;</a>'.format("&b;" * 20, "&c;" * 20)


def in_code_page(name: str, inner: str) -> str:
    return f'<?xml version="1.0" encoding="{name}"?><a>{inner}</a>'


@verdicts(FORMAT)
def test_every_document_gets_its_verdict() -> Iterable[Row]:
    for text in (
        "<a>text</a>", '<a b="1"/>', "<a><b/><c/></a>", "<!-- note --><a><![CDATA[x]]></a>", "<a>0</a>",
        '<!DOCTYPE a SYSTEM "a.dtd"><a>&b;</a>',
    ):  # fmt: skip
        yield text, text.encode(), "ok"
    for text in (
        "<a/>",
        '<?xml version="1.0"?>\n<a>\n  <b/>\n</a>',
        "<a>\u00a0\u200b</a>",
        "<!-- only a note --><a></a>",
    ):
        yield text, text.encode(), "blank"
    yield "empty in EBCDIC", in_code_page("cp037", "").encode("cp037"), "blank"
    for text in ("<a>", "<a></b>", "<a/><b/>", "just words", "<a b=c/>", "<a>&nothing</a>"):
        yield text, text.encode(), "corrupt"
    for codec, line_end in product(("cp037", "cp500", "cp273", "cp1140"), ("\n", "\x85")):
        text = f'<?xml version="1.0" encoding="{codec}"?>{line_end}<a b="ä">words{line_end}</a>'
        yield f"{codec} {line_end!r}", text.encode(codec), "ok"
        yield f"{codec} {line_end!r} cut", text.encode(codec)[:-3], "corrupt"
        yield f"{codec} {line_end!r} with an attribute alone", text.replace("words", "").encode(codec), "ok"
    long = in_code_page("cp037", "<b>ä ö ü</b>" * 40_000)
    yield "long in EBCDIC", long.encode("cp037"), "ok"
    yield "damaged at the end in EBCDIC", long.replace("</b></a>", "</a>").encode("cp037"), "corrupt"
    for name in ("utf-16", "iso-8859-1", "windows-1252"):
        yield f"declared {name}", in_code_page(name, "é").encode(name), "ok"
    yield "declared IBM-1047", in_code_page("IBM-1047", "words").encode("cp037"), "ok"
    yield "declared IBM-1047, other", in_code_page("IBM-1047", "<![CDATA[words]]>").encode("cp500"), "unsupported"
    for name in ("x-mac-ce", "IBM-943", "x-user-defined", "windows-936-2000"):
        yield f"declared {name}", in_code_page(name, "words").encode(), "unsupported"
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 20}">' for n in range(1, 9))
    laughs = f'<!DOCTYPE a [<!ENTITY l0 "ha">{entities}]><a>&l8;</a>'
    for data in (laughs.encode(), LAUGHS.encode(), LAUGHS.encode("utf-16")):
        yield f"entities that multiply {data[:9]!r}", data, "archive_bomb"
    for declared in (
        '<!ENTITY b "words">',
        '<!ENTITY b "words"><!ENTITY c "&b; and &b;">',
        '<!ENTITY b SYSTEM "chapter.xml">',
        '<!ENTITY % b PUBLIC "-//W3C//ENTITIES Latin 1//EN" "http://www.w3.org/lat1.ent">',
        '<!NOTATION g SYSTEM "gif"><!ENTITY b SYSTEM "file:///a.gif" NDATA g>',
        '<!-- <!ENTITY b SYSTEM "file:///etc/passwd"> -->',
        "<!ELEMENT a (#PCDATA)>",
    ):
        yield f"harmless {declared}", f"<!DOCTYPE a [{declared}]><a>text</a>".encode(), "ok"
    yield "deep nesting", b"<a>" * 300 + b"</a>" * 300, "too_complex"


def test_document_without_an_extension_is_recognised() -> None:
    def report(text: str) -> tuple[str | None, Outcome, Finding | None]:
        found = inspect_file(io.BytesIO(text.encode()), filename="upload")
        return found.format, found.outcome, found.finding

    assert report("<?xml version='1.0'?><a>text</a>")[0] == "xml"
    assert report("<?xml version='1.0'?><a>text</b>")[1] is Outcome.OK
    assert report(LAUGHS.replace("<a>&c;</a>", "<a/>"))[2] is Finding.ARCHIVE_BOMB


@each_row("reader", list(READERS))
def test_accepted_documents_lead_no_reader_outside(reader: str) -> None:
    cases = amount("XML_DOCUMENTS", short=3_000, full=60_000)
    harmed = {number: READERS[reader](data).harm() for number in range(cases) if (data := document(number))}
    outside = [number for number, harm in harmed.items() if harm]
    assert len(outside) > cases / 50, "the generator makes nothing that this reader loads"
    assert {number: harmed[number] for number in outside if is_accepted(document(number))} == {}
