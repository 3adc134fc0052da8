"""OpenDocument texts, presentations and spreadsheets: integrity and blankness."""

import io
import zipfile
from dataclasses import replace

from sluice_inspect.format import Format
from sluice_inspect.formats.opendocument.format import ODT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.office_packages import package_of, parts_of, picture, without_part
from tests.inspection.formats.opendocument_samples import FAMILIES, NAMESPACES, document, is_blank, paragraph, style
from tests.rows import each_row

each_format = each_row("format_", FAMILIES.values(), ids=FAMILIES)
SAMPLE = ODT.sample()
PARTS = parts_of(SAMPLE)
SPACE = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
LOCKED = f'<m:manifest xmlns:m="{SPACE}"><m:file-entry m:full-path="content.xml"><m:encryption-data/></m:file-entry></m:manifest>'
MANIFEST = "META-INF/manifest.xml"
ENTITIES = "".join(f'<!ENTITY e{each} "' + f"&e{each - 1};" * 10 + '">' for each in range(1, 9))
LAUGHS = f'<!DOCTYPE a [<!ENTITY e0 "lol">{ENTITIES}]><a>&e8;</a>'
LONG = document("text", paragraph("some words " * 500))
CONTENT = LONG.index(b"content.xml") + 40


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


@each_row(
    ("case", "data", "verdict"),
    [
        *((kind, with_part("mimetype", PARTS["mimetype"] + kind), Outcome.OK) for kind in (b"-template", b"-master", b"-web")),
        ("late mimetype", package_of({name: PARTS[name] for name in ("content.xml", "mimetype")}), Outcome.OK),
        ("headers of ZIP64", with_zip64_headers(), Outcome.OK),
        ("other part named XML", with_part("Configurations2/accelerator/current.xml", b""), Outcome.OK),
        ("picture named XML", with_part("Pictures/broken.xml", b""), Outcome.OK),
        ("DOCTYPE", with_part("meta.xml", b'<!DOCTYPE a SYSTEM "a.dtd"><a/>'), Outcome.OK),
        ("entities that multiply", with_part("content.xml", LAUGHS.encode()), Finding.ARCHIVE_BOMB),
        ("changed byte", LONG[:CONTENT] + bytes([LONG[CONTENT] ^ 0x10]) + LONG[CONTENT + 1 :], Outcome.CORRUPT),
        *(
            (f"malformed {part}", with_part(part, b"<a><b></a>"), Outcome.CORRUPT)
            for part in ("content.xml", "styles.xml", "meta.xml", "Object 1/content.xml", MANIFEST)
        ),
        ("password",
         package_of(PARTS | {"content.xml": bytes(range(256)), MANIFEST: LOCKED.encode()}), Outcome.ENCRYPTED),
        (
            "encrypted package",
            package_of({"mimetype": PARTS["mimetype"], "encrypted-package": b"\x00\x01", MANIFEST: LOCKED.encode()}),
            Outcome.ENCRYPTED,
        ),
        ("bytes before the document", b"xx" + SAMPLE, Outcome.CORRUPT),
        ("name outside", with_part("../a", b"x"), Finding.ARCHIVE_UNSAFE),
    ],
)  # fmt: skip
def test_text_document_gets_its_verdict(case: object, data: bytes, verdict: Outcome | Finding) -> None:
    assert examine_bytes(ODT, data).verdict is verdict


def test_document_without_content_is_corrupt() -> None:
    result = examine_bytes(ODT, without_part(SAMPLE, "content.xml"))
    assert result.outcome is Outcome.CORRUPT
    assert "content.xml" in result.detail


def test_high_compression_ratio_is_a_bomb() -> None:
    data = with_part("Pictures/zeros", bytes(3_000_000))
    assert examine_bytes(ODT, data, replace(Limits(), ratio_floor_bytes=1_000_000)).finding is Finding.ARCHIVE_BOMB


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


@each_row(
    ("body", "styles", "blank"),
    [
        ("", "", True),
        ("<text:p/>" * 20, "", True),
        ("<text:p>\u00a0\u200b \u2003<text:tab/><text:s/></text:p>", "", True),
        ("<text:p><text:placeholder>&lt;Click here&gt;</text:placeholder></text:p>", "", True),
        ('<text:p><text:hidden-text text:is-hidden="true">word</text:hidden-text></text:p>', "", True),
        ('<text:section text:display="none"><text:p>word</text:p></text:section>', "", True),
        (TABLE, BARE, True),
        (TABLE, style("A1", "table-cell", '<style:table-cell-properties fo:background-color="#ffffff"/>'), True),
        (SPAN, WHITE, True),
        (SPAN, HIDDEN, True),
        ('<text:p><draw:rect draw:style-name="g"/></text:p>', UNDRAWN, True),
        ("<text:p><draw:frame><draw:text-box><text:p/></draw:text-box></draw:frame></text:p>", "", True),
        ("<text:p><office:annotation><dc:creator>Someone</dc:creator><text:p/></office:annotation></text:p>", "", True),
        (paragraph("."), "", False),
        ("<text:h>x</text:h>", "", False),
        ("<text:list><text:list-item><text:p>x</text:p></text:list-item></text:list>", "", False),
        ("<text:p><text:note><text:note-body><text:p>a footnote</text:p></text:note-body></text:note></text:p>",
         "", False),
        ("<text:p><office:annotation><dc:creator>Someone</dc:creator><text:p>hm</text:p></office:annotation></text:p>",
         "", False),
        ("<text:p><draw:rect/></text:p>", "", False),
        ("<text:p><draw:frame><draw:object/></draw:frame></text:p>", "", False),
        ("<text:p><draw:control/></text:p>", "", False),
        ('<text:p><draw:frame><draw:image xlink:href="http://example.org/a.png"/></draw:frame></text:p>', "", False),
        (TABLE, LINED, False),
        (TABLE, style("A1", "table-cell", '<style:table-cell-properties fo:background-color="#ffff00"/>'), False),
        (paragraph("", "P"), YELLOW, False),
        (paragraph("", "P"),
         style("P", "paragraph", '<style:paragraph-properties fo:border-bottom="1pt solid #000000"/>'), False),
        (paragraph("", "Horizontal_20_Line"), "", False),
        (SPAN, WHITE + YELLOW, False),
        (SPAN + paragraph("x"), HIDDEN, False),
    ],
)  # fmt: skip
def test_text_document_is_blank_when_nothing_in_it_is_visible(body: str, styles: str, *, blank: bool) -> None:
    assert is_blank("text", body, styles) is blank


def test_white_text_on_a_coloured_page_is_not_blank() -> None:
    page = f'<office:document-styles {NAMESPACES}><style:page-layout-properties fo:background-color="#003366"/></office:document-styles>'
    assert not is_blank("text", SPAN, WHITE, {"styles.xml": page.encode()})


@each_row(("shows", "name"), [(True, "Pictures/a.png"), (False, "./Pictures/a.png")])
def test_picture_is_content_only_when_it_is_not_blank(shows: bool, name: str) -> None:  # noqa: FBT001  (a parameter of pytest)
    body = f'<text:p><draw:frame><draw:image xlink:href="{name}"/></draw:frame></text:p>'
    assert is_blank("text", body, others={"Pictures/a.png": picture(shows=shows).getvalue()}) is not shows


def page(inner: str) -> str:
    return f"<draw:page>{inner}<presentation:notes><draw:page-thumbnail/></presentation:notes></draw:page>"


def frame(inner: str, more: str = "") -> str:
    return f"<draw:frame {more}><draw:text-box>{inner}</draw:text-box></draw:frame>"


@each_row(
    ("body", "blank"),
    [
        ("", True),
        (page(""), True),
        (page(frame("<text:p/>")), True),
        (page(frame("<text:p/>", 'presentation:placeholder="true" draw:style-name="f"')), True),
        (page('<draw:frame presentation:class="chart" presentation:placeholder="true"><draw:object/></draw:frame>'),
         True),
        (page(frame("<text:p><text:page-number>1</text:page-number></text:p>")), True),
        (page(frame("<text:p>1 January</text:p>", 'presentation:class="date-time"')), True),
        (page('<draw:custom-shape draw:style-name="g"><text:p/></draw:custom-shape>'), True),
        (page(frame("<text:p>x</text:p>")), False),
        (page("") + page(frame(SPAN)), False),
        (page(frame("<text:p>x</text:p>", 'presentation:placeholder="true"')), False),
        (page(frame("", 'presentation:placeholder="true"') + "<draw:custom-shape/>"), False),
        (page(frame("", 'draw:style-name="f"')), False),
        (page("<draw:frame><table:table/></draw:frame>"), False),
        (page("<draw:line/>"), False),
        (page("<office:annotation><text:p>a comment</text:p></office:annotation>"), False),
        (f"<draw:page><presentation:notes>{frame('<text:p>say this</text:p>')}</presentation:notes></draw:page>",
         False),
    ],
)  # fmt: skip
def test_presentation_is_blank_when_nothing_in_it_is_visible(body: str, *, blank: bool) -> None:
    assert is_blank("presentation", body, UNDRAWN + FILLED + WHITE) is blank
