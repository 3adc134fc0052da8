"""PDF: integrity, encryption and bombs."""

import base64
import random
import time
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pikepdf

from sluice_inspect.formats.pdf.format import FORMAT
from sluice_inspect.formats.pdf.raw import refuse_costly_repair
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.pdf_samples import HELVETICA, assembled, pdf, resaved, stream, text
from tests.inspection.growth import assert_linear
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
WORD = pdf(text("Sluice"))
NOISE = random.Random(1).randbytes(40_000)
HTML = b"<html><body>502 Bad Gateway</body></html>\n"


def with_objects(objects: Mapping[int, bytes | str]) -> bytes:
    return pdf(text("Sluice"), objects=objects)


def with_streams(count: int, *damaged: bytes) -> bytes:
    """Return a page with a word, and further compressed streams, like those of fonts and pictures."""
    data = bytearray(with_objects({100 + number: stream(NOISE, packed=True) for number in range(count)}))
    for number in damaged:
        data[data.index(number + b" 0 obj") + 20_000] ^= 0xFF
    return bytes(data)


def with_hole(data: bytes, start: int, length: int) -> bytes:
    return data[:start] + bytes(length) + data[start + length :]


def protected(*, user: str) -> bytes:
    return resaved(WORD, encryption=pikepdf.Encryption(owner="owner", user=user))


def long_document(*, user: str = "", streams: bool = False) -> bytes:
    """Return twenty pages of incompressible words, with its table of objects as a table or packed in a stream."""
    words = [text(base64.b64encode(NOISE[at : at + 1500]).decode()) for at in range(0, 30_000, 1500)]
    mode = pikepdf.ObjectStreamMode.generate if streams else pikepdf.ObjectStreamMode.disable
    encryption = pikepdf.Encryption(owner="owner", user=user) if user else False
    return resaved(pdf(*words), object_stream_mode=mode, encryption=encryption)


@each_row("streams", [False, True])
@each_row("user", ["", "secret"])
@each_row("begin", [0.2, 0.4, 0.6])
def test_document_without_a_quarter_of_its_bytes_is_corrupt(*, begin: float, user: str, streams: bool) -> None:
    data = long_document(user=user, streams=streams)
    assert examine(data).outcome is (Outcome.ENCRYPTED if user else Outcome.OK)
    start = int(len(data) * begin)
    assert examine(data[:start] + data[start + len(data) // 4 :]).outcome is Outcome.CORRUPT


@each_row("place", [0.2, 0.4, 0.6, 0.8])
def test_hole_in_a_document_with_a_password_is_corrupt(place: float) -> None:
    data = long_document(user="secret")
    assert examine(with_hole(data, int(len(data) * place), 4096)).outcome is Outcome.CORRUPT


def grey_scan(level: int) -> bytes:
    rows = bytes([level]) * 4000 + bytes(30_000) + bytes([level]) * 6000
    entries = "/Type/XObject/Subtype/Image/Width 200/Height 200/ColorSpace/DeviceGray/BitsPerComponent 8"
    return with_objects({100: stream(rows, entries)})


def with_content(packed: bytes, filters: str) -> bytes:
    return pdf("", objects={11: stream(packed, f"/Filter{filters}")})


PLAIN = text("Sluice").encode()
FIVE_PAGES = pdf(*[text("Sluice") * 90] * 5)
SIGNATURE = b"<</Type/Sig/Contents(" + bytes(range(128, 256)) * 20 + bytes(5000) + b")>>"
NOISES = {number: stream(random.Random(number).randbytes(900)) for number in range(100, 110)}
WRONG_CHECKSUM = stream(zlib.compress(NOISE[:900])[:-4] + bytes(4), "/Filter/FlateDecode")
REVISION = b"100 0 obj\n<<>>\nendobj\nxref\n0 0\ntrailer\n<</Size 101/Root 1 0 R>>\nstartxref\n9\n"
ODD = b"(\x01\x8f \xff (\x02) \\) \x90)/N\xc3\xa4me %\x8f\xff\n"
SKIPPED = {
    1: b"<</Type/Catalog/Pages 2 0 R>>",
    2: b"<</Type/Pages/Kids[10 0 R]/Count 1>>",
    9: b"<</Broken",
    10: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 11 0 R>>",
    11: stream(b"0 0 9 9 re f"),
}
SOUND = {
    "a word": WORD,
    "lines before the header": b"\n\n" + WORD,
    "header of HTTP before the header": b"HTTP/1.1 200 OK\r\n\r\n" + WORD,
    "commands of a printer before the header": b"\x1b%-12345X@PJL\r\n" + WORD,
    "letters before the header": b"x" * 1000 + WORD,
    "lines after the end": WORD + b"\n" * 5000,
    "zeros after the end": WORD + bytes(5000),
    "text after the end": WORD + b"\r\n-- signed\r\n",
    "page after the end": WORD + HTML,
    "only an owner password": protected(user=""),
    "ASCIIHexDecode": with_content(PLAIN.hex().encode() + b">", "/ASCIIHexDecode"),
    "ASCII85Decode": with_content(base64.a85encode(PLAIN) + b"~>", "/ASCII85Decode"),
    "two filters": with_content(zlib.compress(PLAIN).hex().encode() + b">", "[/ASCIIHexDecode/FlateDecode]"),
    "RunLengthDecode": with_content(bytes([len(PLAIN) - 1]) + PLAIN + b"\x80", "/RunLengthDecode"),
    "edited by hand": FIVE_PAGES.replace(PLAIN * 40, b""),
    "black in a black picture": grey_scan(0),
    "black in a grey picture": grey_scan(60),
    "black in a bright picture": grey_scan(200),
    "wrong startxref": WORD.replace(b"startxref\n", b"startxref\n9"),
    "opens in one reader only": WORD.replace(b"trailer", b"tr"),
    "revision without an end mark": WORD + REVISION,
    "large stream": with_objects({100: stream(NOISE)}),
    "one damaged picture or font": with_streams(3, b"100"),
    "few wrong checksums among many streams": with_streams(30, b"100", b"101"),
    "wrong checksums throughout": with_objects(dict.fromkeys((100, 101, 102), WRONG_CHECKSUM)),
    "any byte in strings, names, comments, streams": with_objects(
        dict.fromkeys(range(100, 109), b"<</A" + ODD + b">>") | {200: stream(NOISE)}
    ),
    "string padded with zeros": pdf(text("words"), objects={100: SIGNATURE}),
    "streams after a lone carriage return": pdf(text("words"), objects=NOISES).replace(b">>stream\n", b">>stream\r"),
    "zeros in data": with_objects({100: stream(NOISE[:99] + bytes(5000) + NOISE[:99])}),
    "zeros between objects": WORD.replace(b"endobj\n10 0 obj", b"endobj\n" + bytes(5000) + b"\n10 0 obj"),
    "text in text mode": WORD.replace(b"\n", b"\r\n"),
    "broken object that readers skip": assembled(SKIPPED),
    "name with invalid UTF-8": pdf(
        text("one"), catalog="/Stra\\e", objects={100: stream(b"abc", "/Filter/Fl\\te")}
    ).replace(b"\\", b"\xdf"),
    "length out of range": pdf(text("one"), page="/Wrong 1").replace(b"/Wrong 1", b"/Length 6333333333333333333000"),
    "rotation out of range": pdf(text("one"), page="/Wrong 1").replace(b"/Wrong 1", b"/Rotate 6333333333333333333000"),
}


@each_row(("case", "data"), SOUND.items())
def test_document_that_readers_open_passes(case: str, data: bytes) -> None:
    assert examine(data) == Examined(recognised=True, outcome=Outcome.OK)


def test_page_whose_content_is_not_decoded_passes() -> None:
    assert examine(with_content(NOISE[:99], "/LZWDecode")).passes
    assert examine(pdf("", objects={11: "<</Length 9>>"})).passes


IMPOSSIBLE = [b"end\xefbj", b"\x8f\x02\x93", b"0\x0134"]
ZEROED = with_streams(1).index(b"100 0 obj") + 10_000
UNDECODABLE = [b"not zlib at all, but said to be", b"x\x9c" + b"\xff" * 500]
LARGE = with_objects({100: stream(NOISE)})
OBJECTS = with_objects(
    {100 + number: f"<</Length1 {number}/Some (text that is not short at all)>>" for number in range(100)}
)


def with_second_page(content: bytes) -> bytes:
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 101 0 R>>"
    return pdf(text("one"), text("two"), objects={101: stream(content, "/Filter/FlateDecode"), 12: page})


@each_row(
    ("case", "data", "detail"),
    [
        *((f"cut at {kept}", with_streams(2)[: int(len(with_streams(2)) * kept)], "cut") for kept in (0.1, 0.5, 0.95)),
        ("cut in a later revision", WORD + b"6 0 obj\n<</Length 60000>>stream\n" + NOISE, ""),
        ("a part of a large stream is missing", LARGE[:15_000] + LARGE[25_000:], ""),
        *(("undecodable content of a page", with_second_page(content), "page 2") for content in UNDECODABLE),
        ("no pages", pdf(), ""),
        ("no objects", b"%PDF-1.4\nnothing here\nstartxref\n0\n%%EOF\n", ""),
        ("several damaged streams", with_streams(3, b"100", b"101"), ""),
        *(("impossible bytes between objects", WORD.replace(b"endobj", word, 3), "") for word in IMPOSSIBLE),
        ("zeros in packed data", with_hole(with_streams(1), ZEROED, 4096), str(ZEROED)),
        ("zeros in place of objects", with_hole(OBJECTS, OBJECTS.index(b"120 0 obj") + 5, 2000), ""),
        ("binary in text mode", with_streams(1).replace(b"\n", b"\r\n"), "text mode"),
    ],
)
def test_damaged_document_is_corrupt(case: str, data: bytes, detail: str) -> None:
    result = examine(data)
    assert result.outcome is Outcome.CORRUPT
    assert detail in result.detail


@each_row(
    "front", [HTML, b"x" * 1025, b"PK\x03\x04" + bytes(40), b"\x89PNG\r\n\x1a\n", bytes(257) + b"ustar" + bytes(250)]
)
def test_pdf_after_another_format_is_not_recognised(front: bytes) -> None:
    assert not examine(front + WORD).recognised


def test_unknown_filter_with_invalid_utf8_in_its_name_is_read() -> None:
    content = stream(text("one").encode(), "/Filter/Fl\\te").replace(b"\\", b"\xe9")
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>"
    objects = {1: SKIPPED[1], 2: b"<</Type/Pages/Kids[3 0 R]/Count 1>>", 3: page, 4: content, 5: HELVETICA.encode()}
    assert examine(assembled(objects)).outcome in {Outcome.OK, Outcome.CORRUPT}


def test_content_that_unpacks_to_too_much_is_a_bomb_and_a_large_even_picture_is_none() -> None:
    limits = replace(Limits(), ratio_floor_bytes=4 * 1024**2)
    assert examine(pdf(b" " * 8 * 1024**2, packed=True), limits).finding is Finding.ARCHIVE_BOMB
    twice = zlib.compress(zlib.compress(bytes(20_000_000)))
    assert examine(with_content(twice, "[/FlateDecode/FlateDecode]"), limits).finding is Finding.ARCHIVE_BOMB
    entries = "/Type/XObject/Subtype/Image/Width 4000/Height 4000/ColorSpace/DeviceGray/BitsPerComponent 8"
    assert examine(with_objects({100: stream(bytes(16_000_000), entries, packed=True)}), limits).passes


def test_password_protected_document_is_encrypted() -> None:
    assert examine(protected(user="secret")).outcome is Outcome.ENCRYPTED


def test_document_past_the_time_limit_passes_and_is_not_blank() -> None:
    assert examine(pdf("", ""), replace(Limits(), soft_seconds=0.0)) == Examined(recognised=True, outcome=Outcome.OK)


def with_unended(unit: bytes, count: int, last: bytes = b"") -> bytes:
    at = WORD.rindex(b"trailer")
    return WORD[:at] + unit * count + last + WORD[at:]


@each_row(
    ("case", "unit", "last"),
    [
        ("neither word", b"9 0 obj<</Length 1>>stream\n", b""),
        ("no end of the object", b"9 0 obj<</Length 1>>stream\nwords\nendstream\n", b""),
        ("end of the object at the end", b"9 0 obj<</Length 1>>stream\nwords\nendstream\n", b"endobj\n"),
        ("no end of the stream", b"9 0 obj<</Length 1>>stream\nwords\nendobj\n", b""),
    ],
)
def test_thousands_of_streams_without_end_are_refused_before_they_are_searched(
    case: str, unit: bytes, last: bytes
) -> None:
    data = with_unended(unit, 4000, last)
    began = time.process_time()
    assert examine(data).outcome is Outcome.TOO_COMPLEX
    assert time.process_time() - began < 2


def test_few_streams_without_end_pass() -> None:
    assert examine(with_unended(b"9 0 obj<</Length 1>>stream\n", 20)).passes


def test_ends_of_streams_are_searched_in_linear_time() -> None:
    assert_linear(lambda size: refuse_costly_repair(b"9 0 obj<</Length 9>>stream\nx endstream endobj\n" * size), 10_000)
