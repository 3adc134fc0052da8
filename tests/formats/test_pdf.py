import base64
import io
import random
import zlib
from dataclasses import replace

import numpy as np
import pikepdf
import pytest
from PIL import Image

from sluice.formats.kinds.pdf import KIND
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.judging import Judged, corpus, judge, needs_corpus
from tests.formats.pdfs import assembled, pdf, stream, text

WORD = pdf(text("Sluice"))
NOISE = random.Random(1).randbytes(40_000)
HTML = b"<html><body>502 Bad Gateway</body></html>\n"


def judged(data: bytes, limits: Limits | None = None) -> Judged:
    return judge(KIND, data, limits)


def with_streams(count: int) -> bytes:
    """Answer a page of a word beside packed streams, as fonts and pictures are."""
    return pdf(text("Sluice"), objects={100 + number: stream(NOISE, packed=True) for number in range(count)})


def protected(*, user: str) -> bytes:
    file = io.BytesIO()
    with pikepdf.open(io.BytesIO(WORD)) as opened:
        opened.save(file, encryption=pikepdf.Encryption(owner="owner", user=user))
    return file.getvalue()


def scan(pixels: "np.ndarray[tuple[int, int], np.dtype[np.uint8]]", **more: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=75)
    height, width = pixels.shape
    entries = f"/Type/XObject/Subtype/Image/Width {width}/Height {height}/ColorSpace/DeviceGray/BitsPerComponent 8/Filter/DCTDecode"
    content = "q 595 0 0 842 0 0 cm /I Do Q " + more.get("over", "")
    return pdf(content, resources="/XObject<</I 100 0 R>>", objects={100: stream(file.getvalue(), entries)})


def paper(*, ink: bool = False) -> "np.ndarray[tuple[int, int], np.dtype[np.uint8]]":
    pixels = np.random.default_rng(1).normal(240, 3, (1100, 780)).clip(0, 255)
    if ink:
        pixels[500:512, 300:304] = 40
        pixels[500:503, 300:340] = 40
    grey: np.ndarray[tuple[int, int], np.dtype[np.uint8]] = pixels.astype(np.uint8)
    return grey


def annotated(entries: str, appearance: str = "") -> bytes:
    form = stream(appearance.encode(), "/Type/XObject/Subtype/Form/BBox[0 0 100 100]")
    shown = "/AP<</N 101 0 R>>" if appearance else ""
    note = f"<</Type/Annot/Rect[100 100 200 200]{shown}{entries}>>"
    return pdf("", page="/Annots[100 0 R]", objects={100: note, 101: form})


def test_a_page_of_a_word_is_good() -> None:
    assert judged(WORD) == Judged(recognised=True, outcome=Outcome.OK)


def test_the_sample_is_good() -> None:
    assert judged(KIND.sample()) == Judged(recognised=True, outcome=Outcome.OK)


@pytest.mark.parametrize("front", [b"\n\n", b"HTTP/1.1 200 OK\r\n\r\n", b"\x1b%-12345X@PJL\r\n", b"x" * 1000])
def test_bytes_in_front_of_the_header_pass(front: bytes) -> None:
    assert judged(front + WORD).passes


@pytest.mark.parametrize(
    "front", [HTML, b"x" * 1025, b"PK\x03\x04" + bytes(40), b"\x89PNG\r\n\x1a\n", bytes(257) + b"ustar" + bytes(250)]
)
def test_a_pdf_behind_another_format_is_not_recognised(front: bytes) -> None:
    assert not judged(front + WORD).recognised


@pytest.mark.parametrize("behind", [b"\n" * 5000, bytes(5000), b"\r\n-- signed\r\n", HTML])
def test_bytes_behind_the_end_pass(behind: bytes) -> None:
    assert judged(WORD + behind).passes


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.95])
def test_a_cut_file_is_corrupt(kept: float) -> None:
    data = with_streams(2)
    found = judged(data[: int(len(data) * kept)])
    assert found.outcome is Outcome.CORRUPT
    assert "cut" in found.detail


def test_a_cut_later_revision_is_corrupt() -> None:
    revision = b"6 0 obj\n<</Length 60000>>stream\n" + NOISE
    assert judged(WORD + revision).outcome is Outcome.CORRUPT


def test_a_wrong_table_of_offsets_is_no_damage() -> None:
    assert judged(WORD.replace(b"startxref\n", b"startxref\n9")).passes


@pytest.mark.parametrize("content", [b"not zlib at all, but said to be", b"x\x9c" + b"\xff" * 500])
def test_page_content_that_does_not_decode_is_corrupt_and_the_page_named(content: bytes) -> None:
    objects = {101: stream(content, "/Filter/FlateDecode"), 12: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 101 0 R>>"}
    found = judged(pdf(text("one"), text("two"), objects=objects))
    assert found.outcome is Outcome.CORRUPT
    assert "page 2" in found.detail


@pytest.mark.parametrize("filters", ["/ASCIIHexDecode", "/ASCII85Decode", "[/ASCIIHexDecode/FlateDecode]", "/RunLengthDecode"])
def test_content_behind_other_filters_is_decoded(filters: str) -> None:
    plain = text("Sluice").encode()
    packed = {
        "/ASCIIHexDecode": plain.hex().encode() + b">",
        "/ASCII85Decode": base64.a85encode(plain) + b"~>",
        "[/ASCIIHexDecode/FlateDecode]": zlib.compress(plain).hex().encode() + b">",
        "/RunLengthDecode": bytes([len(plain) - 1]) + plain + b"\x80",
    }[filters]
    assert judged(pdf("", objects={11: stream(packed, f"/Filter{filters}")})) == Judged(recognised=True, outcome=Outcome.OK)


def test_a_document_without_pages_is_corrupt() -> None:
    assert judged(pdf()).outcome is Outcome.CORRUPT


def test_a_file_of_no_objects_is_corrupt() -> None:
    assert judged(b"%PDF-1.4\nnothing here\nstartxref\n0\n%%EOF\n").outcome is Outcome.CORRUPT


def test_one_damaged_picture_or_font_is_no_reason_to_refuse() -> None:
    data = bytearray(with_streams(3))
    data[data.index(b"100 0 obj") + 20_000] ^= 0xFF
    assert judged(bytes(data)).passes


def test_several_damaged_streams_are_corrupt() -> None:
    data = bytearray(with_streams(3))
    for number in (b"100", b"101"):
        data[data.index(number + b" 0 obj") + 20_000] ^= 0xFF
    assert judged(bytes(data)).outcome is Outcome.CORRUPT


def test_a_hole_of_zeros_in_packed_data_is_corrupt() -> None:
    data = with_streams(1)
    at = data.index(b"100 0 obj") + 10_000
    found = judged(data[:at] + bytes(4096) + data[at + 4096 :])
    assert found.outcome is Outcome.CORRUPT
    assert str(at) in found.detail


def test_a_hole_of_zeros_over_objects_is_corrupt() -> None:
    objects = {100 + number: f"<</Length1 {number}/Some (text that is not short at all)>>" for number in range(100)}
    data = pdf(text("Sluice"), objects=objects)
    at = data.index(b"120 0 obj") + 5
    assert judged(data[:at] + bytes(2000) + data[at + 2000 :]).outcome is Outcome.CORRUPT


def test_zeros_in_unpacked_data_and_between_objects_are_no_hole() -> None:
    padding = WORD.replace(b"endobj\n10 0 obj", b"endobj\n" + bytes(5000) + b"\n10 0 obj")
    assert judged(pdf(text("Sluice"), objects={100: stream(NOISE[:99] + bytes(5000) + NOISE[:99])})).passes
    assert judged(padding).passes


def test_a_transfer_in_text_mode_is_corrupt() -> None:
    data = with_streams(1).replace(b"\n", b"\r\n")
    found = judged(data)
    assert found.outcome is Outcome.CORRUPT
    assert "text mode" in found.detail


def test_a_text_pdf_survives_a_transfer_in_text_mode() -> None:
    assert judged(WORD.replace(b"\n", b"\r\n")).passes


def test_a_content_stream_that_fills_memory_is_a_bomb() -> None:
    limits = replace(Limits(), ratio_floor_bytes=4 * 1024**2)
    assert judged(pdf(b" " * 8 * 1024**2, packed=True), limits).finding is Finding.ARCHIVE_BOMB


def test_a_bomb_packed_twice_is_found() -> None:
    twice = zlib.compress(zlib.compress(bytes(100_000_000)))
    assert judged(pdf("", objects={100: stream(twice, "/Filter[/FlateDecode/FlateDecode]")})).finding is Finding.ARCHIVE_BOMB


def test_a_large_even_picture_is_no_bomb() -> None:
    entries = "/Type/XObject/Subtype/Image/Width 9000/Height 9000/ColorSpace/DeviceGray/BitsPerComponent 8"
    assert judged(pdf(text("Sluice"), objects={100: stream(bytes(81_000_000), entries, packed=True)})).passes


def test_a_document_that_asks_for_a_password_is_encrypted() -> None:
    assert judged(protected(user="secret")).outcome is Outcome.ENCRYPTED


def test_a_document_that_opens_without_its_owners_password_is_judged_like_others() -> None:
    assert judged(protected(user="")) == Judged(recognised=True, outcome=Outcome.OK)


def test_past_the_soft_budget_a_document_is_good_and_not_blank() -> None:
    assert judged(pdf("", ""), replace(Limits(), soft_seconds=0.0)) == Judged(recognised=True, outcome=Outcome.OK)


LAYER_OFF = (
    "/OCProperties<</OCGs[100 0 R]/D<</OFF[100 0 R]/Order[100 0 R]>>>>",
    "/Properties<</L 100 0 R>>",
)
BLANK = {
    "no content": pdf(""),
    "five pages": pdf(*[""] * 5),
    "white text": pdf(text("secret", before="1 g")),
    "invisible text": pdf(text("secret", before="3 Tr")),
    "text off the page": pdf(text("secret", at=(900, 500))),
    "clipped text": pdf("q 0 0 10 10 re W n " + text("secret") + " Q"),
    "text under white": pdf(text("secret") + " 1 g 0 0 595 842 re f"),
    "text on a layer that is off": pdf(
        f"/OC /L BDC {text('secret')} EMC", catalog=LAYER_OFF[0], resources=LAYER_OFF[1], objects={100: "<</Type/OCG/Name(L)>>"}
    ),
    "solid black": pdf("0 g 0 0 595 842 re f"),
    "page numbers": pdf(*(text(str(number), at=(297, 30)) for number in (1, 2, 3))),
    "page numbers in words": pdf(*(text(f"Page {number} of 2", at=(280, 800)) for number in (1, 2))),
    "scan of an empty sheet": scan(paper()),
    "scan of an empty sheet with invisible text": scan(paper(), over=text("secret", before="3 Tr")),
    "hidden note": annotated("/Subtype/Text/F 2/Contents(secret)"),
    "link": annotated("/Subtype/Link/Contents(elsewhere)"),
}
CONTENT = {
    "one small word": pdf(text("ok", size=8)),
    "a full stop": pdf(text(".", size=6)),
    "on the last page": pdf(*[""] * 20, text("ok")),
    "hairline": pdf("0 w 100 400 m 300 400 l S"),
    "pale grey": pdf("0.97 g 100 400 50 50 re f"),
    "yellow on white": pdf("1 1 0 rg 100 400 50 50 re f"),
    "text on white in an odd mode": pdf(text("outline", before="1 Tr 1 g")),
    "number in the middle": pdf(text("1", at=(297, 400))),
    "other number at the foot": pdf(text("17", at=(297, 30))),
    "small text on a large page": pdf(text("ok", at=(2000, 2000)), box=(0, 0, 3370, 4768)),
    "text on a huge page": pdf(text("ok", at=(2000, 2000), size=6), box=(0, 0, 14000, 14000)),
    "dot on a tiny page": pdf("10 10 1 1 re f", box=(0, 0, 40, 20)),
    "scan with ink": scan(paper(ink=True)),
    "shading": pdf(
        "/S sh",
        resources="/Shading<</S<</ShadingType 2/ColorSpace/DeviceGray/Coords[0 0 595 0]/Function<</FunctionType 2/Domain[0 1]/N 1/C0[0]/C1[1]>>>>>>",
    ),
    "inline picture": pdf("q 90 0 0 90 100 100 cm BI /W 2 /H 2 /CS /G /BPC 8 ID \x00\x7f\x7f\x00 EI Q"),
    "stamp with a look of its own": annotated("/Subtype/Stamp", "1 0 0 rg 0 0 100 100 re f"),
    "ink drawing": annotated("/Subtype/Ink/InkList[[100 100 200 200]]/C[1 0 0]", "1 0 0 RG 0 0 m 100 100 l S"),
    "note": annotated("/Subtype/Text/Contents(please check)"),
    "filled field without a look": pdf(
        "", catalog="/AcroForm<</Fields[100 0 R]/NeedAppearances true>>", objects={100: "<</FT/Tx/T(a)/V(Smith)>>"}
    ),
    "attachment": pdf("", catalog="/Names<</EmbeddedFiles<</Names[(a) 100 0 R]>>>>", objects={100: "<</Type/Filespec/F(a)>>"}),
    "letters of a font that is not here": pdf(
        "BT /C 20 Tf 100 500 Td <4E2D6587> Tj ET",
        resources="",
        objects={
            5: "<</Type/Font/Subtype/Type0/BaseFont/Missing/Encoding/UniGB-UCS2-H/DescendantFonts[100 0 R]>>",
            100: "<</Type/Font/Subtype/CIDFontType0/BaseFont/Missing/CIDSystemInfo<</Registry(Adobe)/Ordering(GB1)/Supplement 4>>/FontDescriptor 101 0 R>>",
            101: "<</Type/FontDescriptor/FontName/Missing/Flags 4/FontBBox[0 0 1 1]/ItalicAngle 0/Ascent 1/Descent 0/CapHeight 1/StemV 1>>",
        },
    ).replace(b"/C 20 Tf", b"/F 20 Tf"),
}


@pytest.mark.parametrize("name", BLANK)
def test_a_document_that_shows_nothing_is_blank(name: str) -> None:
    found = judged(BLANK[name])
    assert found.passes
    assert found.blank


@pytest.mark.parametrize("name", CONTENT)
def test_a_document_that_shows_anything_is_not_blank(name: str) -> None:
    found = judged(CONTENT[name])
    assert found.passes
    assert found.blank is None


def test_an_object_that_readers_skip_is_no_damage() -> None:
    objects = {1: b"<</Type/Catalog/Pages 2 0 R>>", 2: b"<</Type/Pages/Kids[10 0 R]/Count 1>>", 9: b"<</Broken"}
    objects |= {10: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 11 0 R>>", 11: stream(b"0 0 9 9 re f")}
    assert judged(assembled(objects)).passes


@needs_corpus
def test_corpus_good_and_encrypted_files_pass() -> None:
    assert [
        path.name for path in corpus("pdf", "valid", "not_blank", "password_protected") if not judged(path.read_bytes()).passes
    ] == []


@needs_corpus
def test_corpus_files_with_content_are_not_blank() -> None:
    assert [path.name for path in corpus("pdf", "not_blank") if judged(path.read_bytes()).blank] == []


@needs_corpus
def test_corpus_bomb_is_found() -> None:
    assert {judged(path.read_bytes()).finding for path in corpus("pdf", "bomb")} == {Finding.ARCHIVE_BOMB}
