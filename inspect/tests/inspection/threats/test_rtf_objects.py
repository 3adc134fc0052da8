"""Objects in Rich Text: found however their digits are written, in linear time, and handed to clamd decoded."""

import random
import struct
import time
from contextlib import suppress

import pytest

from sluice_inspect.formats.rtf.parts import rtf_parts
from sluice_inspect.source import MemorySource
from sluice_inspect.threats.budget import OverBudget
from tests.inspection.growth import assert_linear
from tests.inspection.threats import rtf_readings
from tests.inspection.threats.compound_files import compound, ole_package, packaged
from tests.inspection.threats.packed_files import EICAR, scan_bytes, threat_in, zipped
from tests.inspection.threats.test_containers import scan_with_buffer
from tests.rows import each_row
from tests.run_length import amount

PROGRAM = b"MZ" + bytes(58) + struct.pack("<L", 64) + b"PE\0\0" + bytes(20)


def ole1(
    native: bytes, name: bytes = b"Package\0", topic: bytes = b"", item: bytes = b"", version: int = 0x501
) -> bytes:
    """Return an OLE 1.0 object: MS-OLEDS 2.2.4 and 2.2.5."""
    strings = b"".join(struct.pack("<L", len(each)) + each for each in (name, topic, item))
    return struct.pack("<LL", version, 2) + strings + native


def document(digits: bytes, mark: bytes = rb"{\*\objdata ") -> bytes:
    return rb"{\rtf1\ansi hello {\object\objemb{\*\objclass Package}" + mark + digits + b"}}}"


def spread(data: bytes, between: bytes, every: int = 2) -> bytes:
    digits = data.hex().encode()
    return between.join(digits[at : at + every] for at in range(0, len(digits), every))


# Where `%b` stands, there is what hides between the digits.
BETWEEN = {
    "starred unknown group": rb"{\*\foo abc}",
    "unknown group": rb"{\foo abc}",
    "group without a word": rb"{ab}",
    "known destination": rb"{\pict abc}",
    "nested groups": rb"{\*\foo {\bar 12} 3}",
    "empty groups": b"{{}{}}",
    "control word with a number": rb"\par1234 ",
    "binary data": b"\\bin5 12345",
    "binary data with braces": b"\\bin4 }}{{",
    "character in digits": rb"\'ab",
    "character whose value is a digit": rb"\'31",
    "control symbol": rb"\~",
    "control symbol that is a digit": rb"\1",
    "Unicode with its replacement": rb"\u8364 7",
    "Unicode with two replacements": rb"\uc2\u8364 77",
    "Unicode that replaces a word": rb"\uc2\u8364\par 7",
    "line ends": b"\r\n",
    "characters that are no digits": b"xyz-",
    "escaped braces": rb"\{\}",
    "half a byte in a group": rb"{\*\foo a}",
}


DATA = ole1(ole_package(zipped({"e.com": EICAR})))
DIGITS = DATA.hex().encode()


@pytest.mark.asvs("5.4.3")
@each_row("name", BETWEEN)
def test_virus_is_found_whatever_stands_between_the_digits(name: str) -> None:
    assert threat_in(document(spread(DATA, BETWEEN[name]))) == "Eicar-Test-File"
    assert threat_in(document(spread(DATA, BETWEEN[name], every=7))) == "Eicar-Test-File"  # in the middle of a byte


@each_row("wrap", [rb"{\foo %b}", rb"{\*\foo %b}", rb"{%b}", rb"{\pict %b}", rb"{\result{\foo %b}}"])
@each_row("behind", [b"", rb"{\*\other abc}"])
def test_virus_is_found_in_digits_of_nested_groups(wrap: bytes, behind: bytes) -> None:
    assert threat_in(document(DIGITS[:30] + wrap % DIGITS[30:80] + behind + DIGITS[80:])) == "Eicar-Test-File"


@each_row(
    "mark",
    [
        rb"{\*\objdata ", rb"{\*\objdata0 ", rb"{\*\objdata-12 ", b"{\\objdata\n", rb"{\*\objdata",
        b"{\\*\\objdata\r\n", rb"{\*\objdata123456789 ", rb"\objdata ", rb"{\*\objalias ",
    ],
)  # fmt: skip
def test_object_is_found_by_every_spelling_of_its_mark(mark: bytes) -> None:
    assert threat_in(document(DIGITS, mark)) == "Eicar-Test-File"


LYING = struct.pack("<LLL", 0x501, 2, 0xFFFF) + b"Word.Document.8\0" + bytes(8) + packaged(zipped({"e.com": EICAR}))
BINARY = b"\\bin%d " % (len(DATA) - 60) + DATA[50:-10]


@each_row(
    ("case", "data"),
    [
        ("binary data between digits", document(DIGITS[:100] + BINARY + DIGITS[-20:])),
        ("half a byte that is dropped", document(DIGITS[:40] + rb"5\'41" + DIGITS[40:])),
        ("half a byte that is kept", document(DIGITS[:40] + rb"5{\*\x}" + DIGITS[40:])),
        ("no group of its own, no end", rb"{\rtf1 \objdata " + DIGITS),
        ("object in an object", rb"{\rtf1 {\*\objdata 0105{\*\objdata " + DIGITS + b"} 0000"),
        ("data store", document(compound({"item": zipped({"e.com": EICAR})}).hex().encode(), rb"{\*\datastore ")),
        ("lengths that lie", document(LYING.hex().encode())),
    ],
)
def test_virus_is_found_in_an_odd_object(case: str, data: bytes) -> None:
    assert threat_in(data) == "Eicar-Test-File"


@each_row("name", [b"Package\0", b"package\0", b"PACKAGE\0", b"Package", b"package2\0"])
@each_row(("topic", "item"), [(b"", b""), (b"a topic\0", b""), (b"x" * 300 + b"\0", b"item\0")])
def test_packaged_program_is_a_threat_by_class_topic_and_item_of_any_kind(
    name: bytes, topic: bytes, item: bytes
) -> None:
    data = ole1(ole_package(b"x", b"a.hta"), name, topic, item, version=0x1234567)
    assert threat_in(document(data.hex().encode())) == "Package.Program"


def test_package_is_judged_by_its_temporary_path_and_unicode_names() -> None:
    def text(value: str) -> bytes:
        return struct.pack("<L", len(value)) + value.encode("utf-16-le")

    honest = ole_package(b"x", b"a.txt")
    unicode_names = text("C:\\a.hta") + text("a.txt") + text("C:\\a.txt")
    assert threat_in(document(ole1(honest + unicode_names).hex().encode())) == "Package.Program"
    body = struct.pack("<H", 2) + b"a.txt\0C:\\a.txt\0" + struct.pack("<HHL", 0, 3, 7) + b"a.scr\0\0"
    native = struct.pack("<L", 99) + body + struct.pack("<L", 1) + b"x"
    assert threat_in(document(ole1(native).hex().encode())) == "Package.Program"
    assert threat_in(document(ole1(honest + text("C:\\a.txt") * 3).hex().encode())) is None


def test_decoded_object_is_handed_to_clamd() -> None:
    data = ole1(ole_package(random.Random(4).randbytes(400)))
    for between in (b"", rb"{\*\foo abc}", rb"\par1234 "):
        result, parts = scan_with_buffer(document(spread(data, between)))
        assert result["complete"] is True
        assert data in parts
        assert random.Random(4).randbytes(400) in parts


def test_object_with_more_readings_than_are_tried_is_incomplete() -> None:
    odd = b"".join(b"{\\w%b 1}" % bytes([97 + at % 26, 97 + at // 26]) for at in range(60))
    result = scan_bytes(document(odd + ole1(ole_package(b"x")).hex().encode()))
    assert result["complete"] is False
    assert "in more ways than are tried" in str(result["why"])


def test_ordinary_object_has_one_reading() -> None:
    digits = ole1(ole_package(b"some words" * 99)).hex().encode()
    lines = b"\r\n".join(digits[at : at + 128] for at in range(0, len(digits), 128))
    assert len(list(rtf_parts(MemorySource(bytearray(document(lines)))))) == 1


@each_row(
    "unit",
    [
        rb"\objdata ", rb"{\*\objdata ", rb"{\*\objdata 01}", rb"{\*\objdata ab\par}", rb"{\pict ",
        rb"\objdata\bin9999999 ", rb"{\objdata {\a 1}{\*\b 2}{\c 3}\'31\u5 }", b"{", rb"\objdata\'",
    ],
)  # fmt: skip
def test_search_for_objects_takes_linear_time(unit: bytes) -> None:
    def search(size: int) -> None:
        source = MemorySource(bytearray(rb"{\rtf1 " + unit * (size // len(unit))))
        with suppress(OverBudget):
            for part in rtf_parts(source):
                for _ in part.content:
                    pass

    size = amount("RTF_BYTES", short=8_000, full=500_000)
    assert_linear(search, size, within=max(1.0, size / 100_000))


def test_readings_include_those_of_a_slow_reference_reader() -> None:
    """Compare with `rtf_readings`, which decides again at each construct, on random documents."""
    for seed in range(amount("RTF_READINGS", short=150, full=20_000)):
        assert rtf_readings.missing(random.Random(seed)) is None


def test_thousand_objects_are_all_scanned_and_more_than_any_document_has_refused_in_seconds() -> None:
    unit = rb"{\object{\*\objdata 0105}}"
    assert scan_bytes(rb"{\rtf1 hi" + unit * 1000 + b"}")["complete"] is True
    began = time.process_time()
    assert scan_bytes(rb"{\rtf1 hi" + unit * 150_000 + b"}")["complete"] is False
    assert time.process_time() - began < 10
