"""OpenDocument texts, presentations and spreadsheets: integrity and blankness."""

import io
import zipfile
from collections.abc import Iterable
from dataclasses import replace

from sluice_inspect.format import Format
from sluice_inspect.formats.opendocument.format import ODP, ODS, ODT
from sluice_inspect.report import Limits, Outcome
from tests.inspection.formats.examining import Examined, Row, examine_bytes, verdicts
from tests.inspection.formats.office_packages import package_of, parts_of, picture, without_part
from tests.inspection.formats.opendocument_samples import FAMILIES, NAMESPACES, document, paragraph, style
from tests.rows import each_row

each_format = each_row("format_", FAMILIES.values(), ids=FAMILIES)
SAMPLE = ODT.sample()
PARTS = parts_of(SAMPLE)
MANIFEST = "META-INF/manifest.xml"


def with_part(part: str, content: bytes) -> bytes:
    return package_of(PARTS | {part: content})


def with_zip64_headers() -> bytes:
    with zipfile.ZipFile(made := io.BytesIO(), "w") as archive:
        for name, content in PARTS.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(content)
    return made.getvalue()


@each_format
def test_sample_is_recognised_by_its_own_format_only(format_: Format) -> None:
    sample = format_.sample()
    assert examine_bytes(format_, sample) == Examined(recognised=True, outcome=Outcome.OK)
    recognised = [other.name for other in FAMILIES.values() if examine_bytes(other, sample).recognised]
    assert recognised == [format_.name]


@each_format
def test_document_without_mimetype_is_recognised_by_its_manifest(format_: Format) -> None:
    without_mimetype = without_part(format_.sample(), "mimetype")
    assert examine_bytes(format_, without_mimetype).passes
    assert not examine_bytes(format_, without_part(without_mimetype, MANIFEST)).recognised


@each_format
@each_row("kept", [0.3, 0.6, 0.95])
def test_truncated_document_is_corrupt(format_: Format, kept: float) -> None:
    data = format_.sample()
    result = examine_bytes(format_, data[: int(len(data) * kept)])
    assert (result.recognised, result.outcome) == (True, Outcome.CORRUPT)


@verdicts(ODT)
def test_text_document_gets_its_verdict() -> Iterable[Row]:
    for kind in (b"-template", b"-master", b"-web"):
        yield f"{kind!r}", with_part("mimetype", PARTS["mimetype"] + kind), "ok"
    yield "late mimetype", package_of({name: PARTS[name] for name in ("content.xml", "mimetype")}), "ok"
    yield "headers of ZIP64", with_zip64_headers(), "ok"
    yield "other part named XML", with_part("Configurations2/accelerator/current.xml", b""), "ok"
    yield "picture named XML", with_part("Pictures/broken.xml", b""), "ok"
    yield "DOCTYPE", with_part("meta.xml", b'<!DOCTYPE a SYSTEM "a.dtd"><a/>'), "ok"
    entities = "".join(f'<!ENTITY e{each} "' + f"&e{each - 1};" * 10 + '">' for each in range(1, 9))
    laughs = f'<!DOCTYPE a [<!ENTITY e0 "lol">{entities}]><a>&e8;</a>'
    yield "entities that multiply", with_part("content.xml", laughs.encode()), "archive_bomb"
    long = document("text", paragraph("some words " * 500))
    at = long.index(b"content.xml") + 40
    yield "changed byte", long[:at] + bytes([long[at] ^ 0x10]) + long[at + 1 :], "corrupt"
    for part in ("content.xml", "styles.xml", "meta.xml", "Object 1/content.xml", MANIFEST):
        yield f"malformed {part}", with_part(part, b"<a><b></a>"), "corrupt"
    data = '<m:file-entry m:full-path="content.xml"><m:encryption-data/></m:file-entry>'
    locked = {
        MANIFEST: f'<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">{data}</m:manifest>'.encode()
    }
    yield "password", package_of(PARTS | {"content.xml": bytes(range(256))} | locked), "encrypted"
    whole = {"mimetype": PARTS["mimetype"], "encrypted-package": b"\x00\x01"}
    yield "encrypted package", package_of(whole | locked), "encrypted"
    yield "bytes before the document", b"xx" + SAMPLE, "corrupt"
    yield "name outside", with_part("../a", b"x"), "archive_unsafe"
    yield "no content", without_part(SAMPLE, "content.xml"), "corrupt", "content.xml"
    limits = replace(Limits(), ratio_floor_bytes=1_000_000)
    yield "high ratio", with_part("Pictures/zeros", bytes(3_000_000)), "archive_bomb", limits


@each_row(
    "data",
    [
        b"", b"text", b"PK\x05\x06" + bytes(18), b"PK\x03\x04" + bytes(10),
        package_of({"mimetype.txt": PARTS["mimetype"]}),
    ],
)  # fmt: skip
def test_other_content_is_not_recognised(data: bytes) -> None:
    assert not examine_bytes(ODT, data).recognised


LINED = style(
    "A1", "table-cell", '<style:table-cell-properties fo:border-left="none" fo:border-top="0.5pt solid #000000"/>'
)
BARE = style("A1", "table-cell", '<style:table-cell-properties fo:border="none"/>')
WHITE = style("T", "text", '<style:text-properties fo:color="#FFFFFF"/>')
YELLOW = style("P", "paragraph", '<style:paragraph-properties fo:background-color="#ffff00"/>')
HIDDEN = style("T", "text", '<style:text-properties text:display="none"/>')
FILLED = style("f", "graphic", '<style:graphic-properties draw:fill="solid"/>')
UNDRAWN = style("g", "graphic", '<style:graphic-properties draw:fill="none" draw:stroke="none"/>')
TABLE = '<table:table><table:table-row><table:table-cell table:style-name="A1"><text:p/></table:table-cell></table:table-row></table:table>'
SPAN = '<text:p><text:span text:style-name="T">word</text:span></text:p>'


@verdicts(ODT)
def test_text_document_is_blank_when_nothing_in_it_is_visible() -> Iterable[Row]:
    for body, styles in (
        ("", ""),
        ("<text:p/>" * 20, ""),
        ("<text:p>\u00a0\u200b \u2003<text:tab/><text:s/></text:p>", ""),
        ("<text:p><text:placeholder>&lt;Click here&gt;</text:placeholder></text:p>", ""),
        ('<text:p><text:hidden-text text:is-hidden="true">word</text:hidden-text></text:p>', ""),
        ('<text:section text:display="none"><text:p>word</text:p></text:section>', ""),
        (TABLE, BARE),
        (TABLE, style("A1", "table-cell", '<style:table-cell-properties fo:background-color="#ffffff"/>')),
        (SPAN, WHITE),
        (SPAN, HIDDEN),
        ('<text:p><draw:rect draw:style-name="g"/></text:p>', UNDRAWN),
        ("<text:p><draw:frame><draw:text-box><text:p/></draw:text-box></draw:frame></text:p>", ""),
        ("<text:p><office:annotation><dc:creator>Someone</dc:creator><text:p/></office:annotation></text:p>", ""),
    ):
        yield body, document("text", body, styles), "blank"
    for body, styles in (
        (paragraph("."), ""),
        ("<text:h>x</text:h>", ""),
        ("<text:list><text:list-item><text:p>x</text:p></text:list-item></text:list>", ""),
        ("<text:p><text:note><text:note-body><text:p>a footnote</text:p></text:note-body></text:note></text:p>", ""),
        (
            "<text:p><office:annotation><dc:creator>Someone</dc:creator><text:p>hm</text:p></office:annotation></text:p>",
            "",
        ),
        ("<text:p><draw:rect/></text:p>", ""),
        ("<text:p><draw:frame><draw:object/></draw:frame></text:p>", ""),
        ("<text:p><draw:control/></text:p>", ""),
        ('<text:p><draw:frame><draw:image xlink:href="http://example.org/a.png"/></draw:frame></text:p>', ""),
        (TABLE, LINED),
        (TABLE, style("A1", "table-cell", '<style:table-cell-properties fo:background-color="#ffff00"/>')),
        (paragraph("", "P"), YELLOW),
        (
            paragraph("", "P"),
            style("P", "paragraph", '<style:paragraph-properties fo:border-bottom="1pt solid #000000"/>'),
        ),
        (paragraph("", "Horizontal_20_Line"), ""),
        (SPAN, WHITE + YELLOW),
        (SPAN + paragraph("x"), HIDDEN),
    ):
        yield body, document("text", body, styles), "ok"
    page = f'<office:document-styles {NAMESPACES}><style:page-layout-properties fo:background-color="#003366"/></office:document-styles>'
    yield "white text on a coloured page", document("text", SPAN, WHITE, {"styles.xml": page.encode()}), "ok"
    for shows, name in ((True, "Pictures/a.png"), (False, "./Pictures/a.png")):
        body = f'<text:p><draw:frame><draw:image xlink:href="{name}"/></draw:frame></text:p>'
        others = {"Pictures/a.png": picture(shows=shows).getvalue()}
        yield name, document("text", body, others=others), "ok" if shows else "blank"


def page(inner: str) -> str:
    return f"<draw:page>{inner}<presentation:notes><draw:page-thumbnail/></presentation:notes></draw:page>"


def frame(inner: str, more: str = "") -> str:
    return f"<draw:frame {more}><draw:text-box>{inner}</draw:text-box></draw:frame>"


@verdicts(ODP)
def test_presentation_is_blank_when_nothing_in_it_is_visible() -> Iterable[Row]:
    for body in (
        "",
        page(""),
        page(frame("<text:p/>")),
        page(frame("<text:p/>", 'presentation:placeholder="true" draw:style-name="f"')),
        page('<draw:frame presentation:class="chart" presentation:placeholder="true"><draw:object/></draw:frame>'),
        page(frame("<text:p><text:page-number>1</text:page-number></text:p>")),
        page(frame("<text:p>1 January</text:p>", 'presentation:class="date-time"')),
        page('<draw:custom-shape draw:style-name="g"><text:p/></draw:custom-shape>'),
    ):
        yield body, document("presentation", body, UNDRAWN + FILLED + WHITE), "blank"
    for body in (
        page(frame("<text:p>x</text:p>")),
        page("") + page(frame(SPAN)),
        page(frame("<text:p>x</text:p>", 'presentation:placeholder="true"')),
        page(frame("", 'presentation:placeholder="true"') + "<draw:custom-shape/>"),
        page(frame("", 'draw:style-name="f"')),
        page("<draw:frame><table:table/></draw:frame>"),
        page("<draw:line/>"),
        page("<office:annotation><text:p>a comment</text:p></office:annotation>"),
        f"<draw:page><presentation:notes>{frame('<text:p>say this</text:p>')}</presentation:notes></draw:page>",
    ):
        yield body, document("presentation", body, UNDRAWN + FILLED + WHITE), "ok"


def cell(text: str = "", more: str = 'office:value-type="string"') -> str:
    return f"<table:table-cell {more}><text:p>{text}</text:p></table:table-cell>"


def row(*cells: str, more: str = "") -> str:
    return f"<table:table-row {more}>{''.join(cells)}</table:table-row>"


def sheet(*rows: str, more: str = "", columns: str = "") -> str:
    return f"<table:table {more}>{columns}{''.join(rows)}</table:table>"


OFF = style("off", "table", '<style:table-properties table:display="false"/>')
WHITE_CELL = style("w", "table-cell", '<style:text-properties fo:color="#ffffff"/>', "Default")
HEADINGS = row(cell("Name"), cell("Date"), cell("Amount"))
NUMBER = cell("1", 'office:value-type="float" office:value="1"')


@verdicts(ODS)
def test_spreadsheet_is_blank_without_values_or_with_headings_only() -> Iterable[Row]:
    for body in (
        "",
        sheet(row("<table:table-cell/>", more='table:number-rows-repeated="1048576"')),
        sheet(row(cell(" \u00a0"))),
        sheet(row(cell("", "table:formula='of:=\"\"'"))),
        sheet(HEADINGS),
        sheet(HEADINGS) + sheet(),
        sheet(row(NUMBER), more='table:style-name="off"') + sheet(),
        sheet(row(NUMBER, more='table:visibility="collapse"')),
        sheet(row(NUMBER), columns='<table:table-column table:visibility="collapse"/>'),
        sheet(row(cell("word", 'office:value-type="string" table:style-name="w"'))),
        sheet(row('<table:table-cell table:style-name="A1"/>')),
    ):
        yield body, document("spreadsheet", body, OFF + WHITE_CELL + LINED), "blank"
    for body in (
        sheet(row(cell("0", 'office:value-type="float" office:value="0"'))),
        sheet(row(cell("", 'office:value-type="boolean" office:boolean-value="false"'))),
        sheet() + sheet(row(NUMBER)),
        sheet(row(cell("a text"))),
        sheet(row("<table:table-cell office:value-type='string' office:string-value='a text'/>")),
        sheet(HEADINGS, row(cell("Ann"))),
        sheet(row(cell("Name"), cell("Date"), more='table:number-rows-repeated="3"')),
        sheet(row("<table:table-cell table:formula='of:=[.A1]'/>")),
        sheet(row(NUMBER, more='table:visibility="filter"')),
        sheet("<table:table-row-group>" + row(NUMBER, more='table:visibility="collapse"') + "</table:table-row-group>"),
        sheet(
            row(
                cell("", "")
                + "<table:table-cell><office:annotation><text:p>hm</text:p></office:annotation></table:table-cell>"
            )
        ),
        sheet("<table:shapes><draw:frame><draw:object/></draw:frame></table:shapes>"),
        sheet(row("<table:table-cell><draw:rect><text:p>x</text:p></draw:rect></table:table-cell>")),
        sheet(row(NUMBER), columns='<table:table-column/><table:table-column table:visibility="collapse"/>'),
    ):
        yield body, document("spreadsheet", body, OFF + WHITE_CELL + LINED), "ok"
