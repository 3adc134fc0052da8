"""OpenDocument texts, presentations and spreadsheets: integrity and blankness."""

import io
import zipfile
from dataclasses import replace

from sluice_inspect.format import Format
from sluice_inspect.formats.opendocument.format import ODT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.office_packages import package_of, parts_of, picture, without_part
from tests.inspection.formats.opendocument_samples import (
    FORMATS_BY_FAMILY,
    NAMESPACES,
    document,
    is_blank,
    paragraph,
    style,
)
from tests.rows import each_row

each_format = each_row("format_", FORMATS_BY_FAMILY.values(), ids=FORMATS_BY_FAMILY)


@each_format
def test_sample_passes_and_is_recognised_by_its_own_format_only(format_: Format) -> None:
    result = examine_bytes(format_, format_.sample())
    assert (result.passes, result.outcome, result.blank) == (True, Outcome.OK, None)
    assert [
        other.name for other in FORMATS_BY_FAMILY.values() if examine_bytes(other, format_.sample()).recognised
    ] == [format_.name]


@each_row("variant", ["-template", "-master", "-web", ""])
def test_variants_of_the_media_type_pass(variant: str) -> None:
    parts = parts_of(ODT.sample())
    parts["mimetype"] += variant.encode()
    assert examine_bytes(ODT, package_of(parts)).passes


def test_compressed_or_late_mimetype_member_is_read() -> None:
    parts = parts_of(ODT.sample())
    assert examine_bytes(ODT, package_of({"content.xml": parts["content.xml"], "mimetype": parts["mimetype"]})).passes


@each_format
def test_document_without_mimetype_is_recognised_by_its_manifest(format_: Format) -> None:
    parts = parts_of(format_.sample())
    del parts["mimetype"]
    assert examine_bytes(format_, package_of(parts)).passes
    del parts["META-INF/manifest.xml"]
    assert not examine_bytes(format_, package_of(parts)).recognised


def test_mimetype_member_with_zip64_header_is_read() -> None:
    with zipfile.ZipFile(io.BytesIO(ODT.sample())) as sample, zipfile.ZipFile(made := io.BytesIO(), "w") as archive:
        for name in sample.namelist():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(sample.read(name))
    assert examine_bytes(ODT, made.getvalue()).passes


@each_format
@each_row("kept", [0.3, 0.6, 0.95])
def test_truncated_document_is_corrupt(format_: Format, kept: float) -> None:
    data = format_.sample()
    result = examine_bytes(format_, data[: int(len(data) * kept)])
    assert (result.recognised, result.outcome) == (True, Outcome.CORRUPT)


def test_changed_byte_of_content_is_corrupt() -> None:
    data = bytearray(document("text", paragraph("some words " * 500)))
    data[data.index(b"content.xml") + 40] ^= 0x10
    assert examine_bytes(ODT, bytes(data)).outcome is Outcome.CORRUPT


def test_document_without_content_is_corrupt() -> None:
    result = examine_bytes(ODT, without_part(ODT.sample(), "content.xml"))
    assert result.outcome is Outcome.CORRUPT
    assert "content.xml" in result.detail


@each_row("part", ["content.xml", "styles.xml", "meta.xml", "Object 1/content.xml", "META-INF/manifest.xml"])
def test_malformed_main_part_is_corrupt(part: str) -> None:
    assert examine_bytes(ODT, package_of(parts_of(ODT.sample()) | {part: b"<a><b></a>"})).outcome is Outcome.CORRUPT


@each_row("part", ["Configurations2/accelerator/current.xml", "Pictures/broken.xml"])
def test_other_parts_named_xml_need_not_be_xml(part: str) -> None:
    assert examine_bytes(ODT, package_of(parts_of(ODT.sample()) | {part: b""})).passes


def test_doctype_is_ignored_and_entity_expansion_is_a_bomb() -> None:
    parts = parts_of(ODT.sample())
    entities = "".join(f'<!ENTITY e{each} "' + f"&e{each - 1};" * 10 + '">' for each in range(1, 9))
    laughs = f'<!DOCTYPE a [<!ENTITY e0 "lol">{entities}]><a>&e8;</a>'
    assert examine_bytes(ODT, package_of(parts | {"meta.xml": b'<!DOCTYPE a SYSTEM "a.dtd"><a/>'})).passes
    assert examine_bytes(ODT, package_of(parts | {"content.xml": laughs.encode()})).finding is Finding.ARCHIVE_BOMB


def test_password_protected_document_is_encrypted_and_not_parsed() -> None:
    space = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
    manifest = f'<m:manifest xmlns:m="{space}"><m:file-entry m:full-path="content.xml"><m:encryption-data/></m:file-entry></m:manifest>'
    parts = parts_of(ODT.sample()) | {"content.xml": bytes(range(256)), "META-INF/manifest.xml": manifest.encode()}
    assert examine_bytes(ODT, package_of(parts)).outcome is Outcome.ENCRYPTED
    encrypted_package = {
        "mimetype": parts["mimetype"],
        "encrypted-package": b"\x00\x01",
        "META-INF/manifest.xml": manifest.encode(),
    }
    assert examine_bytes(ODT, package_of(encrypted_package)).outcome is Outcome.ENCRYPTED


def test_leading_bytes_are_corrupt_and_names_outside_the_folder_unsafe() -> None:
    assert examine_bytes(ODT, b"xx" + ODT.sample()).outcome is Outcome.CORRUPT
    assert examine_bytes(ODT, package_of(parts_of(ODT.sample()) | {"../a": b"x"})).finding is Finding.ARCHIVE_UNSAFE


def test_high_compression_ratio_is_a_bomb() -> None:
    data = package_of(parts_of(ODT.sample()) | {"Pictures/zeros": bytes(3_000_000)})
    assert examine_bytes(ODT, data, replace(Limits(), ratio_floor_bytes=1_000_000)).finding is Finding.ARCHIVE_BOMB


@each_row("data", [b"", b"text", b"PK\x05\x06" + bytes(18), b"PK\x03\x04" + bytes(10)])
def test_other_content_is_not_recognised(data: bytes) -> None:
    assert not examine_bytes(ODT, data).recognised


def test_plain_archive_is_not_recognised() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype.txt", "application/vnd.oasis.opendocument.text")
    assert not examine_bytes(ODT, file.getvalue()).recognised


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
        (
            "<text:p><text:note><text:note-body><text:p>a footnote</text:p></text:note-body></text:note></text:p>",
            "",
            False,
        ),
        (
            "<text:p><office:annotation><dc:creator>Someone</dc:creator><text:p>hm</text:p></office:annotation></text:p>",
            "",
            False,
        ),
        ("<text:p><draw:rect/></text:p>", "", False),
        ("<text:p><draw:frame><draw:object/></draw:frame></text:p>", "", False),
        ("<text:p><draw:control/></text:p>", "", False),
        ('<text:p><draw:frame><draw:image xlink:href="http://example.org/a.png"/></draw:frame></text:p>', "", False),
        (TABLE, LINED, False),
        (TABLE, style("A1", "table-cell", '<style:table-cell-properties fo:background-color="#ffff00"/>'), False),
        (paragraph("", "P"), YELLOW, False),
        (
            paragraph("", "P"),
            style("P", "paragraph", '<style:paragraph-properties fo:border-bottom="1pt solid #000000"/>'),
            False,
        ),
        (paragraph("", "Horizontal_20_Line"), "", False),
        (SPAN, WHITE + YELLOW, False),
        (SPAN + paragraph("x"), HIDDEN, False),
    ],
)
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
        (
            page('<draw:frame presentation:class="chart" presentation:placeholder="true"><draw:object/></draw:frame>'),
            True,
        ),
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
        (
            f"<draw:page><presentation:notes>{frame('<text:p>say this</text:p>')}</presentation:notes></draw:page>",
            False,
        ),
    ],
)
def test_presentation_is_blank_when_nothing_in_it_is_visible(body: str, *, blank: bool) -> None:
    assert is_blank("presentation", body, UNDRAWN + FILLED + WHITE) is blank
