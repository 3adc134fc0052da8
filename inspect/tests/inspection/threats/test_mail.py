"""Parts of mails are found in every reading: line ends, comments, junk in base64, boundaries that mislead."""

import base64
import gzip
import random
from contextlib import suppress

import pytest

from sluice_inspect.source import MemorySource
from sluice_inspect.threats.budget import OverBudget
from sluice_inspect.threats.mail import mail_parts
from tests.inspection.growth import assert_linear
from tests.inspection.threats import mail_readings
from tests.inspection.threats.containers import pdf_with, rtf_object, uuencoded
from tests.inspection.threats.packed_files import EICAR, scan_bytes, threat_in, zipped
from tests.inspection.threats.test_containers import scan_with_buffer
from tests.rows import each_row
from tests.run_length import amount

ZIP = zipped({"e.com": EICAR})


def letters(data: bytes = ZIP, line: int = 76) -> bytes:
    text = base64.b64encode(data)
    return b"\n".join(text[at : at + line] for at in range(0, len(text), line))


def mail(body: bytes, encoding: bytes = b"base64", before: bytes = b"") -> bytes:
    return (
        b"From: a@b.c\nSubject: x\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=q\n\n--q\n\nhello\n--q\n"
        b"Content-Type: application/zip; name=a.zip\n%bContent-Transfer-Encoding: %b\n\n%b\n--q--\n"
    ) % (before, encoding, body)


def quoted(data: bytes, between: bytes = b"") -> bytes:
    return between.join(b"=%02X" % each for each in data)


ODD_MAILS = {
    "CR only": mail(letters()).replace(b"\n", b"\r"),
    "CR LF": mail(letters()).replace(b"\n", b"\r\n"),
    "CR only in the headers": mail(b"").replace(b"\n", b"\r").replace(b"\r\r--q--", b"\r\r" + letters() + b"\r--q--"),
    "comment behind the encoding": mail(letters(), b"base64 (as usual)"),
    "comment before the encoding": mail(letters(), b"(as usual) base64"),
    "long comment before the encoding": mail(letters(), b"(" + b"usual " * 60 + b")base64"),
    "nested comments": mail(letters(), b"(as (ever) usual) (really) base64"),
    "comment before the colon": mail(letters()).replace(b"Encoding:", b"Encoding (x) :"),
    "folded with CR only": mail(letters(), b"\r base64"),
    "quotes": mail(letters(), b'"base64"'),
    "two encodings, the second true": mail(letters(), b"base64", b"Content-Transfer-Encoding: 7bit\n"),
    "two encodings, the first true": mail(letters(), b"7bit", b"Content-Transfer-Encoding: base64\n"),
    "junk between the letters": mail(letters().replace(b"A", b"!A\xe4")),
    "comments between the letters": mail(letters(line=40).replace(b"\n", b"\n(a comment, not data)\n")),
    "padding between the letters": mail(letters().replace(b"\n", b"=\n")),
    "padding within groups": mail(b"=".join(letters()[at : at + 3] for at in range(0, len(letters()), 3))),
    "lines that are no groups of four": mail(
        b"\n".join(base64.b64encode(ZIP[at : at + 10]).rstrip(b"=") for at in range(0, len(ZIP), 10))
    ),
    "line with two dashes in the body": mail(letters()[:20] + b"\n--\n" + letters()[20:]),
    "unstated boundary in the body": mail(letters()[:20] + b"\n--!!!!\n" + letters()[20:]),
    **{
        f"boundary {stated!r}": mail(letters()[:20] + b"\n--!!!!\n" + letters()[20:]).replace(
            b"=q\n", b"=%b\n" % stated
        )
        for stated in (b'"q"(a comment)', b'"q"a', b'"\\q" (a) ')
    },
    "quoted-printable with CR only": mail(quoted(ZIP), b"quoted-printable").replace(b"\n", b"\r"),
    "quoted-printable with soft breaks of CR only": mail(quoted(ZIP, b"=\r"), b"quoted-printable"),
    "quoted-printable with spaces behind what is no soft break": mail(
        quoted(b"\x1f\x8b\x08\x04" + bytes(6) + b"\3\0") + b"= \n" + quoted(gzip.compress(EICAR)[10:]),
        b"quoted-printable",
    ),
    "quoted-printable with spaces behind soft breaks": mail(quoted(ZIP, b"= \t\n"), b"quoted-printable"),
    "field without a space": b"Subject:x\nContent-Transfer-Encoding:base64\n\n" + letters(),
    "line that is no field instead of a blank line": mail(letters()).replace(
        b"Encoding: base64\n\n" + letters()[:20], b"Encoding: base64\n" + letters()[:20] + b"\n\n"
    ),
    "message in a message": b"Subject: x\nContent-Type: message/rfc822\n\n" + mail(letters()),
}


def xxencoded(data: bytes) -> bytes:
    """Return a file in the letters that xxencode has for those of uuencode."""
    order = b"+-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    begin, *lines = uuencoded(data).replace(b"`", b" ").split(b"\n")
    packed = b"\n".join(lines).removesuffix(b"end\n")
    return begin + b"\n" + packed.translate(bytes.maketrans(bytes(range(0x20, 0x60)), order)) + b"end\n"


@pytest.mark.asvs("5.4.3")
@each_row("name", ODD_MAILS)
def test_virus_is_found_in_a_mail_that_only_some_readers_forgive(name: str) -> None:
    assert threat_in(ODD_MAILS[name]) == "Eicar-Test-File"


@each_row(
    ("case", "data"),
    [
        ("uuencoded part", mail(uuencoded(ZIP), b"x-uuencode")),
        ("uuencoded text", b"Subject: x\n\nhello\n" + uuencoded(ZIP)),
        ("uuencoded text with CR only", (b"Subject: x\n\nhello\n" + uuencoded(ZIP)).replace(b"\n", b"\r")),
        ("uuencoded text with small letters", b"Subject: x\n\n" + uuencoded(ZIP).replace(b"`\nend", b"junk\n`\nend")),
        ("xxencoded part", mail(xxencoded(ZIP), b"x-xxencode")),
        ("xxencoded text", b"Subject: x\n\nhello\n" + xxencoded(ZIP)),
        ("letters of addresses", mail(base64.urlsafe_b64encode(ZIP * 3))),
        (
            "parts encoded together",
            mail(letters(b"--c\nContent-Transfer-Encoding: base64\n\n" + letters() + b"\n--c--\n")).replace(
                b"Content-Transfer", b"Content-Type: multipart/mixed; boundary=c\nContent-Transfer", 1
            ),
        ),
        ("text with marks of base64", b"Subject: x\n\nbegin-base64 644 a.zip\n" + letters() + b"\n====\n"),
        ("RTF that is not encoded", mail(rtf_object(ZIP), b"7bit")),
        ("PDF that is not encoded", mail(pdf_with(ZIP), b"binary")),
    ],
)
def test_virus_is_found_in_texts_and_in_documents_that_are_not_encoded(case: str, data: bytes) -> None:
    assert threat_in(data) == "Eicar-Test-File"


def test_odd_parts_are_handed_to_clamd() -> None:
    content = random.Random(3).randbytes(300)
    for name in ("comment behind the encoding", "CR only", "padding between the letters"):
        odd = ODD_MAILS[name]
        carried = letters() if name != "CR only" else letters().replace(b"\n", b"\r")
        spelled = letters(content) if name != "CR only" else letters(content).replace(b"\n", b"\r")
        if name == "padding between the letters":
            carried, spelled = carried.replace(b"\n", b"=\n"), spelled.replace(b"\n", b"=\n")
        assert carried in odd
        assert any(content in part for part in scan_with_buffer(odd.replace(carried, spelled))[1])


def test_ordinary_parts_are_read_once() -> None:
    whole = mail(letters(random.Random(3).randbytes(3000)))
    assert len(list(mail_parts(MemorySource(bytearray(whole))))) == 1
    assert scan_with_buffer(whole)[1] == []


def test_text_of_paragraphs_with_colons_is_no_nest_of_mails() -> None:
    result = scan_bytes(b"note: something\n\n" * 400 + b"<div>")
    assert (result["complete"], result["threat"]) == (True, None)


def test_mbox_of_many_messages_is_scanned_to_its_end() -> None:
    message = b"From a@b.c Mon Jan 1\nSubject: x\nContent-Transfer-Encoding: base64\n\n" + letters(bytes(900)) + b"\n\n"
    assert scan_bytes(message * 400)["complete"] is True
    assert threat_in(message * 400 + message.replace(letters(bytes(900)), letters())) == "Eicar-Test-File"


@each_row(
    "unit",
    [
        b"content-transfer-encoding: base64\n\n", b"content-transfer-encoding: base64\n", b"--q\n", b"--q\n\n",
        b"--\n", b"--:\n", b"a:\n", b"\n", b"begin 644 a\n", b"=", b"= \n", b"\r", b"(",
        b"--q\ncontent-type: multipart/mixed; boundary=q\n\n", b"content-type: message/rfc822\n\n",
    ],
)  # fmt: skip
def test_parts_are_found_in_linear_time(unit: bytes) -> None:
    head = b"Content-Type: multipart/mixed; boundary=q\n\n--q\nContent-Transfer-Encoding: base64\n\n"

    def read(size: int) -> None:
        source = MemorySource(bytearray(head + unit * (size // len(unit))))
        with suppress(OverBudget):
            for part in mail_parts(source):
                for _ in part.content:
                    pass

    size = amount("MAIL_BYTES", short=100_000, full=1_000_000)
    assert_linear(read, size, within=size / 400_000)


def test_parts_include_what_the_email_package_extracts() -> None:
    for seed in range(amount("MAIL_READINGS", short=200, full=20_000)):
        assert mail_readings.missing(random.Random(seed)) is None
