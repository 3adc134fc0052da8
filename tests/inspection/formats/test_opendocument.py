"""OpenDocument texts, presentations and spreadsheets: sound or not, and what of them a reader sees."""

import io
import zipfile
from dataclasses import replace

import pytest

from sluice.formats.kind import Kind
from sluice.formats.kinds import odt
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.judging import corpus, judge, needs_corpus
from tests.formats.odf_documents import KINDS, NAMESPACES, blank, document, paragraph, style
from tests.formats.packages import package_of, parts_of, picture, without

each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@each_kind
def test_the_sample_is_good_and_of_no_other_kind(kind: Kind) -> None:
    found = judge(kind, kind.sample())
    assert (found.passes, found.outcome, found.blank) == (True, Outcome.OK, None)
    assert [other.name for other in KINDS.values() if judge(other, kind.sample()).recognised] == [kind.name]


@pytest.mark.parametrize("variant", ["-template", "-master", "-web", ""])
def test_variants_of_a_family_belong_to_it(variant: str) -> None:
    parts = parts_of(odt.KIND.sample())
    parts["mimetype"] += variant.encode()
    assert judge(odt.KIND, package_of(parts)).passes


def test_a_media_type_that_is_packed_or_not_the_first_member_is_read() -> None:
    parts = parts_of(odt.KIND.sample())
    assert judge(odt.KIND, package_of({"content.xml": parts["content.xml"], "mimetype": parts["mimetype"]})).passes


@each_kind
def test_a_document_without_the_media_type_member_is_known_by_its_manifest(kind: Kind) -> None:
    parts = parts_of(kind.sample())
    del parts["mimetype"]
    assert judge(kind, package_of(parts)).passes
    del parts["META-INF/manifest.xml"]
    assert not judge(kind, package_of(parts)).recognised


def test_a_media_type_whose_header_is_of_a_zip64_archive_is_read() -> None:
    with zipfile.ZipFile(io.BytesIO(odt.KIND.sample())) as sample, zipfile.ZipFile(made := io.BytesIO(), "w") as archive:
        for name in sample.namelist():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(sample.read(name))
    assert judge(odt.KIND, made.getvalue()).passes


@each_kind
@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
def test_a_cut_document_is_corrupt(kind: Kind, kept: float) -> None:
    data = kind.sample()
    found = judge(kind, data[: int(len(data) * kept)])
    assert (found.recognised, found.outcome) == (True, Outcome.CORRUPT)


def test_a_changed_byte_of_content_is_corrupt() -> None:
    data = bytearray(document("text", paragraph("some words " * 500)))
    data[data.index(b"content.xml") + 40] ^= 0x10
    assert judge(odt.KIND, bytes(data)).outcome is Outcome.CORRUPT


def test_a_document_without_content_is_corrupt() -> None:
    found = judge(odt.KIND, without(odt.KIND.sample(), "content.xml"))
    assert found.outcome is Outcome.CORRUPT
    assert "content.xml" in found.detail


@pytest.mark.parametrize("part", ["content.xml", "styles.xml", "meta.xml", "Object 1/content.xml", "META-INF/manifest.xml"])
def test_a_main_part_that_is_not_well_formed_is_corrupt(part: str) -> None:
    assert judge(odt.KIND, package_of(parts_of(odt.KIND.sample()) | {part: b"<a><b></a>"})).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("part", ["Configurations2/accelerator/current.xml", "Pictures/broken.xml"])
def test_other_parts_need_not_be_xml_whatever_their_name(part: str) -> None:
    assert judge(odt.KIND, package_of(parts_of(odt.KIND.sample()) | {part: b""})).passes


def test_a_doctype_is_read_over_but_entities_that_multiply_are_a_bomb() -> None:
    parts = parts_of(odt.KIND.sample())
    entities = "".join(f'<!ENTITY e{each} "' + f"&e{each - 1};" * 10 + '">' for each in range(1, 9))
    laughs = f'<!DOCTYPE a [<!ENTITY e0 "lol">{entities}]><a>&e8;</a>'
    assert judge(odt.KIND, package_of(parts | {"meta.xml": b'<!DOCTYPE a SYSTEM "a.dtd"><a/>'})).passes
    assert judge(odt.KIND, package_of(parts | {"content.xml": laughs.encode()})).finding is Finding.ARCHIVE_BOMB


def test_a_document_behind_a_password_is_encrypted_and_its_ciphertext_not_read_as_xml() -> None:
    space = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
    manifest = (
        f'<m:manifest xmlns:m="{space}"><m:file-entry m:full-path="content.xml"><m:encryption-data/></m:file-entry></m:manifest>'
    )
    parts = parts_of(odt.KIND.sample()) | {"content.xml": bytes(range(256)), "META-INF/manifest.xml": manifest.encode()}
    assert judge(odt.KIND, package_of(parts)).outcome is Outcome.ENCRYPTED
    whole = {"mimetype": parts["mimetype"], "encrypted-package": b"\x00\x01", "META-INF/manifest.xml": manifest.encode()}
    assert judge(odt.KIND, package_of(whole)).outcome is Outcome.ENCRYPTED


def test_bytes_in_front_are_corrupt_and_names_that_leave_the_folder_unsafe() -> None:
    assert judge(odt.KIND, b"xx" + odt.KIND.sample()).outcome is Outcome.CORRUPT
    assert judge(odt.KIND, package_of(parts_of(odt.KIND.sample()) | {"../a": b"x"})).finding is Finding.ARCHIVE_UNSAFE


def test_much_from_little_is_a_bomb() -> None:
    data = package_of(parts_of(odt.KIND.sample()) | {"Pictures/zeros": bytes(3_000_000)})
    assert judge(odt.KIND, data, replace(Limits(), ratio_floor_bytes=1_000_000)).finding is Finding.ARCHIVE_BOMB


@pytest.mark.parametrize("data", [b"", b"text", b"PK\x05\x06" + bytes(18), b"PK\x03\x04" + bytes(10)])
def test_other_content_is_not_recognised(data: bytes) -> None:
    assert not judge(odt.KIND, data).recognised


def test_a_plain_archive_is_not_recognised() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype.txt", "application/vnd.oasis.opendocument.text")
    assert not judge(odt.KIND, file.getvalue()).recognised


LINED = style("A1", "table-cell", '<style:table-cell-properties fo:border-left="none" fo:border-top="0.5pt solid #000000"/>')
BARE = style("A1", "table-cell", '<style:table-cell-properties fo:border="none"/>')
WHITE = style("T", "text", '<style:text-properties fo:color="#FFFFFF"/>')
YELLOW = style("P", "paragraph", '<style:paragraph-properties fo:background-color="#ffff00"/>')
HIDDEN = style("T", "text", '<style:text-properties text:display="none"/>')
FILLED = style("f", "graphic", '<style:graphic-properties draw:fill="solid"/>')
UNDRAWN = style("g", "graphic", '<style:graphic-properties draw:fill="none" draw:stroke="none"/>')
TABLE = '<table:table><table:table-row><table:table-cell table:style-name="A1"><text:p/></table:table-cell></table:table-row></table:table>'
SPAN = '<text:p><text:span text:style-name="T">word</text:span></text:p>'


@pytest.mark.parametrize(
    ("body", "styles"),
    [
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
    ],
)
def test_a_text_that_shows_nothing_is_blank(body: str, styles: str) -> None:
    assert blank("text", body, styles)


@pytest.mark.parametrize(
    ("body", "styles"),
    [
        (paragraph("."), ""),
        ("<text:h>x</text:h>", ""),
        ("<text:list><text:list-item><text:p>x</text:p></text:list-item></text:list>", ""),
        ("<text:p><text:note><text:note-body><text:p>a footnote</text:p></text:note-body></text:note></text:p>", ""),
        ("<text:p><office:annotation><dc:creator>Someone</dc:creator><text:p>hm</text:p></office:annotation></text:p>", ""),
        ("<text:p><draw:rect/></text:p>", ""),
        ("<text:p><draw:frame><draw:object/></draw:frame></text:p>", ""),
        ("<text:p><draw:control/></text:p>", ""),
        ('<text:p><draw:frame><draw:image xlink:href="http://example.org/a.png"/></draw:frame></text:p>', ""),
        (TABLE, LINED),
        (TABLE, style("A1", "table-cell", '<style:table-cell-properties fo:background-color="#ffff00"/>')),
        (paragraph("", "P"), YELLOW),
        (paragraph("", "P"), style("P", "paragraph", '<style:paragraph-properties fo:border-bottom="1pt solid #000000"/>')),
        (paragraph("", "Horizontal_20_Line"), ""),
        (SPAN, WHITE + YELLOW),
        (SPAN + paragraph("x"), HIDDEN),
    ],
)
def test_a_text_that_shows_anything_is_not_blank(body: str, styles: str) -> None:
    assert not blank("text", body, styles)


def test_white_text_counts_where_the_page_is_coloured() -> None:
    page = f'<office:document-styles {NAMESPACES}><style:page-layout-properties fo:background-color="#003366"/></office:document-styles>'
    assert not blank("text", SPAN, WHITE, {"styles.xml": page.encode()})


@pytest.mark.parametrize(("shows", "name"), [(True, "Pictures/a.png"), (False, "./Pictures/a.png")])
def test_a_picture_counts_if_it_shows_something(shows: bool, name: str) -> None:  # noqa: FBT001  (a parameter of pytest)
    body = f'<text:p><draw:frame><draw:image xlink:href="{name}"/></draw:frame></text:p>'
    assert blank("text", body, others={"Pictures/a.png": picture(shows=shows).getvalue()}) is not shows


def page(inner: str) -> str:
    return f"<draw:page>{inner}<presentation:notes><draw:page-thumbnail/></presentation:notes></draw:page>"


def frame(inner: str, more: str = "") -> str:
    return f"<draw:frame {more}><draw:text-box>{inner}</draw:text-box></draw:frame>"


@pytest.mark.parametrize(
    "body",
    [
        "",
        page(""),
        page(frame("<text:p/>")),
        page(frame("<text:p/>", 'presentation:placeholder="true" draw:style-name="f"')),
        page('<draw:frame presentation:class="chart" presentation:placeholder="true"><draw:object/></draw:frame>'),
        page(frame("<text:p><text:page-number>1</text:page-number></text:p>")),
        page(frame("<text:p>1 January</text:p>", 'presentation:class="date-time"')),
        page('<draw:custom-shape draw:style-name="g"><text:p/></draw:custom-shape>'),
    ],
)
def test_a_presentation_that_shows_nothing_is_blank(body: str) -> None:
    assert blank("presentation", body, UNDRAWN + FILLED)


@pytest.mark.parametrize(
    "body",
    [
        page(frame("<text:p>x</text:p>")),
        page("") + page(frame(SPAN)),
        page(frame("<text:p>x</text:p>", 'presentation:placeholder="true"')),
        page(frame("", 'presentation:placeholder="true"') + "<draw:custom-shape/>"),
        page(frame("", 'draw:style-name="f"')),
        page("<draw:frame><table:table/></draw:frame>"),
        page("<draw:line/>"),
        page("<office:annotation><text:p>a comment</text:p></office:annotation>"),
        f"<draw:page><presentation:notes>{frame('<text:p>say this</text:p>')}</presentation:notes></draw:page>",
    ],
)
def test_a_presentation_that_shows_anything_is_not_blank(body: str) -> None:
    assert not blank("presentation", body, FILLED + WHITE)


@needs_corpus
@each_kind
def test_corpus_good_files_pass(kind: Kind) -> None:
    assert [path.name for path in corpus(kind.name, "valid", "not_blank") if not judge(kind, path.read_bytes()).passes] == []


@needs_corpus
@each_kind
def test_corpus_blank_files_are_found_and_no_others(kind: Kind) -> None:
    assert [path.name for path in corpus(kind.name, "blank") if not judge(kind, path.read_bytes()).blank] == []
    assert [path.name for path in corpus(kind.name, "not_blank") if judge(kind, path.read_bytes()).blank] == []
