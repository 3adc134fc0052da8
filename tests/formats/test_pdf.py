import base64
import io
import random
import zlib
from dataclasses import replace

import pikepdf
import pytest

from sluice.formats.kinds.pdf import KIND
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.judging import Judged, corpus, judge, needs_corpus
from tests.formats.pdfs import HELVETICA, assembled, pdf, stream, text

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


def test_names_whose_bytes_are_no_characters_are_read() -> None:
    page = pdf(text("one"), catalog="/Stra\\e", objects={100: stream(b"abc", "/Filter/Fl\\te")}).replace(b"\\", b"\xdf")
    assert judge(KIND, page).outcome is Outcome.OK
    unknown = assembled_with_content(stream(text("one").encode(), "/Filter/Fl\\te").replace(b"\\", b"\xe9"))
    assert judge(KIND, unknown).outcome in {Outcome.OK, Outcome.CORRUPT}


@pytest.mark.parametrize("wrong", [b"/Length 6333333333333333333000", b"/Rotate 6333333333333333333000"])
def test_numbers_beyond_all_bounds_leave_the_document_to_the_other_reader(wrong: bytes) -> None:
    page = pdf(text("one"), page="/Wrong 1").replace(b"/Wrong 1", wrong)
    assert judge(KIND, page).outcome is Outcome.OK


def assembled_with_content(content: bytes) -> bytes:
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>"
    pages = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
    return assembled({1: b"<</Type/Catalog/Pages 2 0 R>>", 2: pages, 3: page, 4: content, 5: HELVETICA.encode()})


def test_a_document_without_pages_is_corrupt() -> None:
    assert judged(pdf()).outcome is Outcome.CORRUPT


def test_a_file_of_no_objects_is_corrupt() -> None:
    assert judged(b"%PDF-1.4\nnothing here\nstartxref\n0\n%%EOF\n").outcome is Outcome.CORRUPT


def test_one_damaged_picture_or_font_is_no_reason_to_refuse() -> None:
    data = bytearray(with_streams(3))
    data[data.index(b"100 0 obj") + 20_000] ^= 0xFF
    assert judged(bytes(data)).passes


def test_checksums_that_are_wrong_throughout_are_their_writers_habit() -> None:
    packed = zlib.compress(NOISE[:900])[:-4] + bytes(4)
    objects = {100 + number: stream(packed, "/Filter/FlateDecode") for number in range(3)}
    assert judged(pdf(text("Sluice"), objects=objects)).passes


def test_a_revision_that_ends_without_the_last_mark_passes() -> None:
    revision = WORD + b"100 0 obj\n<<>>\nendobj\nxref\n0 0\ntrailer\n<</Size 101/Root 1 0 R>>\nstartxref\n9\n"
    assert judged(revision).passes


def test_several_damaged_streams_are_corrupt() -> None:
    data = bytearray(with_streams(3))
    for number in (b"100", b"101"):
        data[data.index(number + b" 0 obj") + 20_000] ^= 0xFF
    assert judged(bytes(data)).outcome is Outcome.CORRUPT


def test_a_few_wrong_checksums_among_many_streams_are_no_reason_to_refuse() -> None:
    data = bytearray(with_streams(30))
    for number in (b"100", b"101"):
        data[data.index(number + b" 0 obj") + 20_000] ^= 0xFF
    assert judged(bytes(data)).passes


def test_page_content_behind_a_filter_of_dialects_passes_unread() -> None:
    assert judged(pdf("", objects={11: stream(NOISE[:99], "/Filter/LZWDecode")})).passes


def test_a_page_whose_content_is_no_stream_passes() -> None:
    assert judged(pdf("", objects={11: "<</Length 9>>"})).passes


def test_one_reader_that_shows_the_pages_suffices() -> None:
    assert judged(WORD.replace(b"trailer", b"tr")).passes


@pytest.mark.parametrize("word", [b"end\xefbj", b"\x8f\x02\x93", b"0\x0134"])
def test_impossible_bytes_between_objects_are_corrupt_where_there_are_several(word: bytes) -> None:
    assert judged(WORD.replace(b"endobj", word, 3)).outcome is Outcome.CORRUPT


def test_any_byte_may_stand_in_strings_names_comments_and_streams() -> None:
    odd = b"(\x01\x8f \xff (\x02) \\) \x90)/N\xc3\xa4me %\x8f\xff\n"
    objects = {100 + each: b"<</A" + odd + b">>" for each in range(9)} | {200: stream(NOISE)}
    assert judged(pdf(text("Sluice"), objects=objects)).passes


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


def test_a_string_that_is_filled_up_with_zeros_is_no_hole() -> None:
    signed = pdf(text("words"), objects={100: b"<</Type/Sig/Contents(" + bytes(range(128, 256)) * 20 + bytes(5000) + b")>>"})
    assert judge(KIND, signed).passes


def test_streams_behind_a_lone_carriage_return_are_streams() -> None:
    data = pdf(text("words"), objects={number: stream(random.Random(number).randbytes(900)) for number in range(100, 110)})
    assert judge(KIND, data.replace(b">>stream\n", b">>stream\r")).passes


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
def test_corpus_bomb_is_found() -> None:
    assert {judged(path.read_bytes()).finding for path in corpus("pdf", "bomb")} == {Finding.ARCHIVE_BOMB}
