"""PDF: integrity, encryption and bombs."""

import base64
import random
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import product

import pikepdf

from sluice_inspect.formats.pdf.format import FORMAT
from sluice_inspect.formats.pdf.repair import repair_is_costly
from sluice_inspect.report import Limits, Outcome
from sluice_inspect.source import MemorySource
from tests.inspection.formats.examining import Row, examine_bytes, verdicts
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


def long_document(*, user: str = "", locked: bool = False, streams: bool = False) -> bytes:
    """Return twenty pages of incompressible words, with its table of objects as a table or packed in a stream."""
    words = [text(base64.b64encode(NOISE[at : at + 1500]).decode()) for at in range(0, 30_000, 1500)]
    mode = pikepdf.ObjectStreamMode.generate if streams else pikepdf.ObjectStreamMode.disable
    encryption = pikepdf.Encryption(owner="owner", user=user) if user or locked else False
    return resaved(pdf(*words), object_stream_mode=mode, encryption=encryption)


@verdicts(FORMAT)
def test_document_without_a_quarter_of_its_bytes_or_with_a_hole_is_corrupt() -> Iterable[Row]:
    for user, streams in product(("", "secret"), (False, True)):
        data = long_document(user=user, streams=streams)
        yield f"whole {user} {streams}", data, "encrypted" if user else "ok"
        for start in (int(len(data) * begin) for begin in (0.2, 0.4, 0.6)):
            yield f"from {start} {user} {streams}", data[:start] + data[start + len(data) // 4 :], "corrupt"
    data = long_document(user="secret")
    for place in (0.2, 0.4, 0.6, 0.8):
        yield f"hole at {place}", with_hole(data, int(len(data) * place), 4096), "corrupt"
    yield "password", protected(user="secret"), "encrypted"


@verdicts(FORMAT)
def test_noise_over_objects_is_corrupt_whether_or_not_the_document_is_locked() -> Iterable[Row]:
    for (user, locked), streams in product((("", False), ("", True), ("secret", True)), (False, True)):
        data = long_document(user=user, locked=locked, streams=streams)
        yield f"{user} {locked} {streams}", data, "encrypted" if user else "ok"
        for tenths in range(2, 8):
            at = len(data) * tenths // 10
            noisy = data[:at] + NOISE[-2048:] + data[at + 2048 :]
            yield f"{user} {locked} {streams}: noise after {tenths} tenths", noisy, "corrupt"


@verdicts(FORMAT)
def test_table_that_leads_into_a_stream_or_past_text_passes() -> Iterable[Row]:
    data = pdf(text("Sluice"), *[text(str(page)) for page in range(9)], objects={100: stream(NOISE)})
    packed = data.index(NOISE)
    entry = data.index(b" 00000 n", data.rindex(b"xref\n0")) - 10
    for case, place in (("stream", packed + 500), ("text", data.index(b"/Type")), ("nowhere", len(data) + 9)):
        yield case, data[:entry] + b"%010d" % place + data[entry + 10 :], "ok"


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


@verdicts(FORMAT)
def test_document_that_readers_open_passes() -> Iterable[Row]:
    for case, data in {
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
        "streams after a lone carriage return": pdf(text("words"), objects=NOISES).replace(
            b">>stream\n", b">>stream\r"
        ),
        "zeros in data": with_objects({100: stream(NOISE[:99] + bytes(5000) + NOISE[:99])}),
        "zeros between objects": WORD.replace(b"endobj\n10 0 obj", b"endobj\n" + bytes(5000) + b"\n10 0 obj"),
        "text in text mode": WORD.replace(b"\n", b"\r\n"),
        "broken object that readers skip": assembled(SKIPPED),
        "name with invalid UTF-8": pdf(
            text("one"), catalog="/Stra\\e", objects={100: stream(b"abc", "/Filter/Fl\\te")}
        ).replace(b"\\", b"\xdf"),
        "length out of range": pdf(text("one"), page="/Wrong 1").replace(
            b"/Wrong 1", b"/Length 6333333333333333333000"
        ),
        "rotation out of range": pdf(text("one"), page="/Wrong 1").replace(
            b"/Wrong 1", b"/Rotate 6333333333333333333000"
        ),
    }.items():
        yield case, data, "ok"


def test_page_whose_content_is_not_decoded_passes() -> None:
    assert examine(with_content(NOISE[:99], "/LZWDecode")).passes
    assert examine(pdf("", objects={11: "<</Length 9>>"})).passes


ZEROED = with_streams(1).index(b"100 0 obj") + 10_000
LARGE = with_objects({100: stream(NOISE)})
OBJECTS = with_objects(
    {100 + number: f"<</Length1 {number}/Some (text that is not short at all)>>" for number in range(100)}
)


def with_second_page(content: bytes) -> bytes:
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 101 0 R>>"
    return pdf(text("one"), text("two"), objects={101: stream(content, "/Filter/FlateDecode"), 12: page})


@verdicts(FORMAT)
def test_damaged_document_is_corrupt() -> Iterable[Row]:
    for kept in (0.1, 0.5, 0.95):
        yield f"cut at {kept}", with_streams(2)[: int(len(with_streams(2)) * kept)], "corrupt", "cut"
    yield "cut in a later revision", WORD + b"6 0 obj\n<</Length 60000>>stream\n" + NOISE, "corrupt"
    yield "a part of a large stream is missing", LARGE[:15_000] + LARGE[25_000:], "corrupt"
    for content in (b"not zlib at all, but said to be", b"x\x9c" + b"\xff" * 500):
        yield f"undecodable content {content[:9]!r}", with_second_page(content), "corrupt", "page 2"
    yield "no pages", pdf(), "corrupt"
    yield "no objects", b"%PDF-1.4\nnothing here\nstartxref\n0\n%%EOF\n", "corrupt"
    yield "several damaged streams", with_streams(3, b"100", b"101"), "corrupt"
    for word in (b"end\xefbj", b"\x8f\x02\x93", b"0\x0134"):
        yield f"impossible bytes between objects {word!r}", WORD.replace(b"endobj", word, 3), "corrupt"
    yield "zeros in packed data", with_hole(with_streams(1), ZEROED, 4096), "corrupt", str(ZEROED)
    yield "zeros in place of objects", with_hole(OBJECTS, OBJECTS.index(b"120 0 obj") + 5, 2000), "corrupt"
    yield "binary in text mode", with_streams(1).replace(b"\n", b"\r\n"), "corrupt", "text mode"
    limits = replace(Limits(), ratio_floor_bytes=4 * 1024**2)
    yield "spaces that unpack to too much", pdf(b" " * 8 * 1024**2, packed=True), "archive_bomb", limits
    twice = zlib.compress(zlib.compress(bytes(20_000_000)))
    yield "zeros packed twice", with_content(twice, "[/FlateDecode/FlateDecode]"), "archive_bomb", limits
    entries = "/Type/XObject/Subtype/Image/Width 4000/Height 4000/ColorSpace/DeviceGray/BitsPerComponent 8"
    even = with_objects({100: stream(bytes(16_000_000), entries, packed=True)})
    yield "a large even picture, which is no bomb", even, "ok", limits
    yield "past the time limit", pdf("", ""), "ok", replace(Limits(), soft_seconds=0.0)


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
    def search(count: int) -> None:
        repair_is_costly(MemorySource(bytearray(b"9 0 obj<</Length 9>>stream\nx endstream endobj\n" * count)))

    assert_linear(search, 10_000)
