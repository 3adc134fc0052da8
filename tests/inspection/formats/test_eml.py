"""Mail messages: integrity and blankness."""

import base64
import io
from email.message import EmailMessage

from sluice_inspect.formats.eml import FORMAT
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Finding, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.office_packages import picture
from tests.rows import each_row

FIELDS = "From: a@example.com\r\nTo: b@example.com\r\nDate: Mon, 1 Jan 2024 00:00:00 +0000\r\n"
MULTIPART = b"Content-Type: multipart/mixed; boundary=x"


def mail(
    text: str = "",
    *,
    subject: str = "",
    html: str = "",
    attached: bytes | None = None,
    media_type: str = "application/pdf",
) -> bytes:
    message = EmailMessage()
    message["From"] = "a@example.com"
    if subject:
        message["Subject"] = subject
    message.set_content(text)
    if html:
        message.add_alternative(html, subtype="html")
    if attached is not None:
        main, _, sub = media_type.partition("/")
        message.add_attachment(attached, maintype=main, subtype=sub, filename="a.bin")
    return message.as_bytes()


@each_row("before", ["", "\ufeff", "\r\n\r\n", "From a@example.com Mon Jan  1 00:00:00 2024\r\n", "garbage\r\n"])
def test_mail_with_any_prefix_is_sound(before: str) -> None:
    result = examine_bytes(FORMAT, (before + FIELDS + "\r\nhi\r\n").encode())
    assert (result.outcome, result.blank) == (Outcome.OK, None)


@each_row(
    ("case", "data", "outcome"),
    [
        ("8 bits", FIELDS.encode() + "\r\nGrüße".encode("cp1252"), Outcome.OK),
        ("a zero", FIELDS.encode() + b"\r\na \0 zero", Outcome.OK),
        ("UTF-16", FIELDS.encode("utf-16"), Outcome.OK),
        ("binary", FIELDS.encode() + b"Content-Transfer-Encoding: binary\r\n\r\n" + bytes(4000), Outcome.OK),
        ("no last boundary", FIELDS.encode() + MULTIPART + b"\r\n\r\n--x\r\n\r\nhi", Outcome.OK),
        ("no field", b"no field at all\r\n\r\nFrom: a\r\n", Outcome.CORRUPT),
        ("a line end", b"\r\n", Outcome.CORRUPT),
        ("zeros", FIELDS.encode() + bytes(900), Outcome.CORRUPT),
    ],
)
def test_unusual_mail_that_readers_accept_passes(case: str, data: bytes, outcome: Outcome) -> None:
    assert examine_bytes(FORMAT, data).outcome is outcome


def test_web_page_named_eml_is_a_mismatch() -> None:
    assert inspect_file(io.BytesIO(b"<html><body>504</body></html>"), filename="a.eml").finding is Finding.TYPE_MISMATCH


@each_row(
    ("case", "data", "blank"),
    lambda: [
        ("nothing", FIELDS.encode() + b"\r\n", True),
        ("spaces", mail(" \u00a0\n\u200b"), True),
        ("an empty page", mail(html="<html><body>&nbsp;</body></html>"), True),
        ("an attachment without content", mail(attached=b""), True),
        ("an empty picture", mail(attached=picture(shows=False).getvalue(), media_type="image/png"), True),
        ("spaces in base64",
         FIELDS.encode() + b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.b64encode(b" \n"), True),
        ("a subject", mail(subject="x"), False),
        ("a full stop", mail("."), False),
        ("a page", mail(html="<p>x</p>"), False),
        ("an attachment", mail(attached=b"x"), False),
        ("a picture", mail(attached=picture(shows=True).getvalue(), media_type="image/png"), False),
        ("an embedded mail",
         FIELDS.encode() + b"Content-Type: message/rfc822\r\n\r\n" + FIELDS.encode() + b"\r\n", False),
        ("an unknown charset", FIELDS.encode() + b"Content-Type: text/plain; charset=nowhere\r\n\r\n\xe9", False),
        ("more text than is examined", FIELDS.encode() + b"\r\n" + b" " * 3_000_000, False),
    ],
)  # fmt: skip
def test_mail_is_blank_when_nothing_in_it_is_visible(case: str, data: bytes, *, blank: bool) -> None:
    result = examine_bytes(FORMAT, data)
    assert (result.outcome, bool(result.blank)) == (Outcome.OK, blank)


def test_endlessly_nested_multipart_is_not_blank() -> None:
    nested = b"".join(b"--b%d\r\nContent-Type: multipart/mixed; boundary=b%d\r\n\r\n" % (n, n + 1) for n in range(3000))
    assert (
        examine_bytes(FORMAT, FIELDS.encode() + b"Content-Type: multipart/mixed; boundary=b0\r\n\r\n" + nested).blank
        is None
    )
