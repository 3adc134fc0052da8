"""PDF: integrity, encryption and bombs."""

import base64
import io
import random
import time
import zlib
from dataclasses import replace

import pikepdf

from sluice_inspect.formats.pdf.format import FORMAT
from sluice_inspect.formats.pdf.raw import refuse_costly_repair
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.pdf_samples import HELVETICA, assembled, pdf, stream, text
from tests.inspection.growth import assert_linear
from tests.rows import each_row

WORD = pdf(text("Sluice"))
NOISE = random.Random(1).randbytes(40_000)
HTML = b"<html><body>502 Bad Gateway</body></html>\n"


def examine(data: bytes, limits: Limits | None = None) -> Examined:
    return examine_bytes(FORMAT, data, limits)


def with_streams(count: int) -> bytes:
    """Return a page with a word, and further compressed streams, like those of fonts and pictures."""
    return pdf(text("Sluice"), objects={100 + number: stream(NOISE, packed=True) for number in range(count)})


def protected(*, user: str) -> bytes:
    file = io.BytesIO()
    with pikepdf.open(io.BytesIO(WORD)) as opened:
        opened.save(file, encryption=pikepdf.Encryption(owner="owner", user=user))
    return file.getvalue()


def long_document(*, user: str = "", streams: bool = False) -> bytes:
    """Return twenty pages of incompressible words, with its table of objects as a table or packed in a stream."""
    words = [text(base64.b64encode(NOISE[at : at + 1500]).decode()) for at in range(0, 30_000, 1500)]
    file = io.BytesIO()
    with pikepdf.open(io.BytesIO(pdf(*words))) as opened:
        mode = pikepdf.ObjectStreamMode.generate if streams else pikepdf.ObjectStreamMode.disable
        encryption = pikepdf.Encryption(owner="owner", user=user) if user else None
        opened.save(file, object_stream_mode=mode, encryption=encryption or False)
    return file.getvalue()


@each_row("streams", [False, True])
@each_row("user", ["", "secret"])
@each_row("begin", [0.2, 0.4, 0.6])
def test_document_without_a_quarter_of_its_bytes_is_corrupt(*, begin: float, user: str, streams: bool) -> None:
    data = long_document(user=user, streams=streams)
    assert examine(data).outcome is (Outcome.ENCRYPTED if user else Outcome.OK)
    start = int(len(data) * begin)
    assert examine(data[:start] + data[start + len(data) // 4 :]).outcome is Outcome.CORRUPT


def test_document_without_a_part_of_a_large_stream_is_corrupt() -> None:
    data = pdf(text("Sluice"), objects={100: stream(NOISE)})
    assert examine(data).passes
    assert examine(data[:15_000] + data[25_000:]).outcome is Outcome.CORRUPT


def test_document_that_was_edited_by_hand_passes() -> None:
    data = pdf(*[text("Sluice") * 90] * 5)
    assert examine(data.replace(text("Sluice").encode() * 40, b"")).passes


@each_row("place", [0.2, 0.4, 0.6, 0.8])
def test_hole_in_a_document_with_a_password_is_corrupt(place: float) -> None:
    data = long_document(user="secret")
    start = int(len(data) * place)
    assert examine(data[:start] + bytes(4096) + data[start + 4096 :]).outcome is Outcome.CORRUPT


@each_row("level", [0, 60, 200])
def test_black_in_a_picture_that_is_not_packed_is_no_hole(level: int) -> None:
    rows = bytes([level]) * 4000 + bytes(30_000) + bytes([level]) * 6000
    entries = "/Type/XObject/Subtype/Image/Width 200/Height 200/ColorSpace/DeviceGray/BitsPerComponent 8"
    assert examine(pdf(text("Sluice"), objects={100: stream(rows, entries)})).passes


def test_page_with_a_word_passes() -> None:
    assert examine(WORD) == Examined(recognised=True, outcome=Outcome.OK)


@each_row("front", [b"\n\n", b"HTTP/1.1 200 OK\r\n\r\n", b"\x1b%-12345X@PJL\r\n", b"x" * 1000])
def test_bytes_before_the_header_pass(front: bytes) -> None:
    assert examine(front + WORD).passes


@each_row(
    "front", [HTML, b"x" * 1025, b"PK\x03\x04" + bytes(40), b"\x89PNG\r\n\x1a\n", bytes(257) + b"ustar" + bytes(250)]
)
def test_pdf_after_another_format_is_not_recognised(front: bytes) -> None:
    assert not examine(front + WORD).recognised


@each_row("trailing", [b"\n" * 5000, bytes(5000), b"\r\n-- signed\r\n", HTML])
def test_bytes_after_the_end_pass(trailing: bytes) -> None:
    assert examine(WORD + trailing).passes


@each_row("kept", [0.1, 0.5, 0.95])
def test_truncated_file_is_corrupt(kept: float) -> None:
    data = with_streams(2)
    result = examine(data[: int(len(data) * kept)])
    assert result.outcome is Outcome.CORRUPT
    assert "cut" in result.detail


def test_truncated_later_revision_is_corrupt() -> None:
    revision = b"6 0 obj\n<</Length 60000>>stream\n" + NOISE
    assert examine(WORD + revision).outcome is Outcome.CORRUPT


def test_wrong_startxref_passes() -> None:
    assert examine(WORD.replace(b"startxref\n", b"startxref\n9")).passes


@each_row("content", [b"not zlib at all, but said to be", b"x\x9c" + b"\xff" * 500])
def test_undecodable_page_content_is_corrupt_and_names_the_page(content: bytes) -> None:
    objects = {
        101: stream(content, "/Filter/FlateDecode"),
        12: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 101 0 R>>",
    }
    result = examine(pdf(text("one"), text("two"), objects=objects))
    assert result.outcome is Outcome.CORRUPT
    assert "page 2" in result.detail


@each_row("filters", ["/ASCIIHexDecode", "/ASCII85Decode", "[/ASCIIHexDecode/FlateDecode]", "/RunLengthDecode"])
def test_content_with_other_filters_is_decoded(filters: str) -> None:
    plain = text("Sluice").encode()
    packed = {
        "/ASCIIHexDecode": plain.hex().encode() + b">",
        "/ASCII85Decode": base64.a85encode(plain) + b"~>",
        "[/ASCIIHexDecode/FlateDecode]": zlib.compress(plain).hex().encode() + b">",
        "/RunLengthDecode": bytes([len(plain) - 1]) + plain + b"\x80",
    }[filters]
    assert examine(pdf("", objects={11: stream(packed, f"/Filter{filters}")})) == Examined(
        recognised=True, outcome=Outcome.OK
    )


def test_names_with_invalid_utf8_are_read() -> None:
    page = pdf(text("one"), catalog="/Stra\\e", objects={100: stream(b"abc", "/Filter/Fl\\te")}).replace(b"\\", b"\xdf")
    assert examine_bytes(FORMAT, page).outcome is Outcome.OK
    unknown = assembled_with_content(stream(text("one").encode(), "/Filter/Fl\\te").replace(b"\\", b"\xe9"))
    assert examine_bytes(FORMAT, unknown).outcome in {Outcome.OK, Outcome.CORRUPT}


@each_row("wrong", [b"/Length 6333333333333333333000", b"/Rotate 6333333333333333333000"])
def test_out_of_range_numbers_are_left_to_the_second_reader(wrong: bytes) -> None:
    page = pdf(text("one"), page="/Wrong 1").replace(b"/Wrong 1", wrong)
    assert examine_bytes(FORMAT, page).outcome is Outcome.OK


def assembled_with_content(content: bytes) -> bytes:
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>"
    pages = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
    return assembled({1: b"<</Type/Catalog/Pages 2 0 R>>", 2: pages, 3: page, 4: content, 5: HELVETICA.encode()})


def test_document_without_pages_is_corrupt() -> None:
    assert examine(pdf()).outcome is Outcome.CORRUPT


def test_file_without_objects_is_corrupt() -> None:
    assert examine(b"%PDF-1.4\nnothing here\nstartxref\n0\n%%EOF\n").outcome is Outcome.CORRUPT


def test_one_damaged_picture_or_font_stream_passes() -> None:
    data = bytearray(with_streams(3))
    data[data.index(b"100 0 obj") + 20_000] ^= 0xFF
    assert examine(bytes(data)).passes


def test_consistently_wrong_checksums_pass() -> None:
    packed = zlib.compress(NOISE[:900])[:-4] + bytes(4)
    objects = {100 + number: stream(packed, "/Filter/FlateDecode") for number in range(3)}
    assert examine(pdf(text("Sluice"), objects=objects)).passes


def test_revision_without_end_of_file_marker_passes() -> None:
    revision = WORD + b"100 0 obj\n<<>>\nendobj\nxref\n0 0\ntrailer\n<</Size 101/Root 1 0 R>>\nstartxref\n9\n"
    assert examine(revision).passes


def test_several_damaged_streams_are_corrupt() -> None:
    data = bytearray(with_streams(3))
    for number in (b"100", b"101"):
        data[data.index(number + b" 0 obj") + 20_000] ^= 0xFF
    assert examine(bytes(data)).outcome is Outcome.CORRUPT


def test_few_wrong_checksums_among_many_streams_pass() -> None:
    data = bytearray(with_streams(30))
    for number in (b"100", b"101"):
        data[data.index(number + b" 0 obj") + 20_000] ^= 0xFF
    assert examine(bytes(data)).passes


def test_page_content_with_lzw_filter_passes_undecoded() -> None:
    assert examine(pdf("", objects={11: stream(NOISE[:99], "/Filter/LZWDecode")})).passes


def test_page_whose_content_is_not_a_stream_passes() -> None:
    assert examine(pdf("", objects={11: "<</Length 9>>"})).passes


def test_pdf_that_only_one_reader_opens_passes() -> None:
    assert examine(WORD.replace(b"trailer", b"tr")).passes


@each_row("word", [b"end\xefbj", b"\x8f\x02\x93", b"0\x0134"])
def test_several_impossible_bytes_between_objects_are_corrupt(word: bytes) -> None:
    assert examine(WORD.replace(b"endobj", word, 3)).outcome is Outcome.CORRUPT


def test_any_byte_passes_in_strings_names_comments_and_streams() -> None:
    odd = b"(\x01\x8f \xff (\x02) \\) \x90)/N\xc3\xa4me %\x8f\xff\n"
    objects = {100 + each: b"<</A" + odd + b">>" for each in range(9)} | {200: stream(NOISE)}
    assert examine(pdf(text("Sluice"), objects=objects)).passes


def test_zeroed_bytes_in_compressed_data_are_corrupt() -> None:
    data = with_streams(1)
    at = data.index(b"100 0 obj") + 10_000
    result = examine(data[:at] + bytes(4096) + data[at + 4096 :])
    assert result.outcome is Outcome.CORRUPT
    assert str(at) in result.detail


def test_zeroed_objects_are_corrupt() -> None:
    objects = {100 + number: f"<</Length1 {number}/Some (text that is not short at all)>>" for number in range(100)}
    data = pdf(text("Sluice"), objects=objects)
    at = data.index(b"120 0 obj") + 5
    assert examine(data[:at] + bytes(2000) + data[at + 2000 :]).outcome is Outcome.CORRUPT


def test_zero_padded_string_passes() -> None:
    signed = pdf(
        text("words"), objects={100: b"<</Type/Sig/Contents(" + bytes(range(128, 256)) * 20 + bytes(5000) + b")>>"}
    )
    assert examine_bytes(FORMAT, signed).passes


def test_streams_after_a_lone_carriage_return_pass() -> None:
    data = pdf(
        text("words"), objects={number: stream(random.Random(number).randbytes(900)) for number in range(100, 110)}
    )
    assert examine_bytes(FORMAT, data.replace(b">>stream\n", b">>stream\r")).passes


def test_zeros_in_uncompressed_data_and_between_objects_pass() -> None:
    padding = WORD.replace(b"endobj\n10 0 obj", b"endobj\n" + bytes(5000) + b"\n10 0 obj")
    assert examine(pdf(text("Sluice"), objects={100: stream(NOISE[:99] + bytes(5000) + NOISE[:99])})).passes
    assert examine(padding).passes


def test_binary_pdf_transferred_in_text_mode_is_corrupt() -> None:
    data = with_streams(1).replace(b"\n", b"\r\n")
    result = examine(data)
    assert result.outcome is Outcome.CORRUPT
    assert "text mode" in result.detail


def test_text_pdf_transferred_in_text_mode_passes() -> None:
    assert examine(WORD.replace(b"\n", b"\r\n")).passes


def test_huge_content_stream_is_a_bomb() -> None:
    limits = replace(Limits(), ratio_floor_bytes=4 * 1024**2)
    assert examine(pdf(b" " * 8 * 1024**2, packed=True), limits).finding is Finding.ARCHIVE_BOMB


def test_doubly_compressed_bomb_is_detected() -> None:
    twice = zlib.compress(zlib.compress(bytes(100_000_000)))
    assert (
        examine(pdf("", objects={100: stream(twice, "/Filter[/FlateDecode/FlateDecode]")})).finding
        is Finding.ARCHIVE_BOMB
    )


def test_large_uniform_picture_is_not_a_bomb() -> None:
    entries = "/Type/XObject/Subtype/Image/Width 9000/Height 9000/ColorSpace/DeviceGray/BitsPerComponent 8"
    assert examine(pdf(text("Sluice"), objects={100: stream(bytes(81_000_000), entries, packed=True)})).passes


def test_password_protected_document_is_encrypted() -> None:
    assert examine(protected(user="secret")).outcome is Outcome.ENCRYPTED


def test_document_with_only_an_owner_password_is_checked() -> None:
    assert examine(protected(user="")) == Examined(recognised=True, outcome=Outcome.OK)


def test_document_past_the_time_limit_passes_and_is_not_blank() -> None:
    assert examine(pdf("", ""), replace(Limits(), soft_seconds=0.0)) == Examined(recognised=True, outcome=Outcome.OK)


def test_broken_object_that_readers_skip_passes() -> None:
    objects = {1: b"<</Type/Catalog/Pages 2 0 R>>", 2: b"<</Type/Pages/Kids[10 0 R]/Count 1>>", 9: b"<</Broken"}
    objects |= {10: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 11 0 R>>", 11: stream(b"0 0 9 9 re f")}
    assert examine(assembled(objects)).passes


UNENDED = {
    "neither word": (b"9 0 obj<</Length 1>>stream\n", b""),
    "no end of the object": (b"9 0 obj<</Length 1>>stream\nwords\nendstream\n", b""),
    "end of the object at the end": (b"9 0 obj<</Length 1>>stream\nwords\nendstream\n", b"endobj\n"),
    "no end of the stream": (b"9 0 obj<</Length 1>>stream\nwords\nendobj\n", b""),
}


@each_row("kind", list(UNENDED))
def test_thousands_of_streams_without_end_are_refused_before_they_are_searched(kind: str) -> None:
    unit, last = UNENDED[kind]
    at = WORD.rindex(b"trailer")
    data = WORD[:at] + unit * 4000 + last + WORD[at:]
    began = time.process_time()
    result = examine(data)
    assert result.outcome is Outcome.TOO_COMPLEX
    assert time.process_time() - began < 2


def test_few_streams_without_end_pass() -> None:
    at = WORD.rindex(b"trailer")
    assert examine(WORD[:at] + UNENDED["neither word"][0] * 20 + WORD[at:]).passes


def test_ends_of_streams_are_searched_in_linear_time() -> None:
    assert_linear(lambda size: refuse_costly_repair(b"9 0 obj<</Length 9>>stream\nx endstream endobj\n" * size), 5000)
