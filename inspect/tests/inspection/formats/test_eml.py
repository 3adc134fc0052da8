"""Mail messages: integrity and blankness."""

import base64
import io
from collections.abc import Iterable
from email.message import EmailMessage

from sluice_inspect.formats.eml import FORMAT
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Finding
from tests.inspection.formats.examining import Row, verdicts
from tests.inspection.formats.office_packages import picture

FIELDS = b"From: a@example.com\r\nTo: b@example.com\r\nDate: Mon, 1 Jan 2024 00:00:00 +0000\r\n"
MULTIPART = b"Content-Type: multipart/mixed; boundary="


def mail(
    text: str = "", *, subject: str = "", html: str = "", attached: bytes | None = None, media_type: str = "image/png"
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


@verdicts(FORMAT)
def test_unusual_mail_that_readers_accept_passes() -> Iterable[Row]:
    for before in ("", "\ufeff", "\r\n\r\n", "From a@example.com Mon Jan  1 00:00:00 2024\r\n", "garbage\r\n"):
        yield f"prefix {before!r}", before.encode() + FIELDS + b"\r\nhi\r\n", "ok"
    yield "8 bits", FIELDS + "\r\nGrüße".encode("cp1252"), "ok"
    yield "a zero", FIELDS + b"\r\na \0 zero", "ok"
    yield "UTF-16", FIELDS.decode().encode("utf-16"), "ok"
    yield "binary", FIELDS + b"Content-Transfer-Encoding: binary\r\n\r\n" + bytes(4000), "blank"
    yield "no last boundary", FIELDS + MULTIPART + b"x\r\n\r\n--x\r\n\r\nhi", "ok"
    yield "no field", b"no field at all\r\n\r\nFrom: a\r\n", "corrupt"
    yield "a line end", b"\r\n", "corrupt"
    yield "zeros", FIELDS + bytes(900), "corrupt"


def test_web_page_named_eml_is_a_mismatch() -> None:
    assert inspect_file(io.BytesIO(b"<html><body>504</body></html>"), filename="a.eml").finding is Finding.TYPE_MISMATCH


@verdicts(FORMAT)
def test_mail_is_blank_when_nothing_in_it_is_visible() -> Iterable[Row]:
    yield "nothing", FIELDS + b"\r\n", "blank"
    yield "spaces", mail(" \u00a0\n\u200b"), "blank"
    yield "an empty page", mail(html="<html><body>&nbsp;</body></html>"), "blank"
    yield "an attachment without content", mail(attached=b"", media_type="application/pdf"), "blank"
    yield "an empty picture", mail(attached=picture(shows=False).getvalue()), "blank"
    spaces = b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.b64encode(b" \n")
    yield "spaces in base64", FIELDS + spaces, "blank"
    yield "a subject", mail(subject="x"), "ok"
    yield "a full stop", mail("."), "ok"
    yield "a page", mail(html="<p>x</p>"), "ok"
    yield "an attachment", mail(attached=b"x", media_type="application/pdf"), "ok"
    yield "a picture", mail(attached=picture(shows=True).getvalue()), "ok"
    yield "an embedded mail", FIELDS + b"Content-Type: message/rfc822\r\n\r\n" + FIELDS + b"\r\n", "ok"
    yield "an unknown charset", FIELDS + b"Content-Type: text/plain; charset=nowhere\r\n\r\n\xe9", "ok"
    yield "more text than is examined", FIELDS + b"\r\n" + b" " * 3_000_000, "ok"
    nested = b"".join(b"--b%d\r\n%bb%d\r\n\r\n" % (n, MULTIPART, n + 1) for n in range(3000))
    yield "endlessly nested parts", FIELDS + MULTIPART + b"b0\r\n\r\n" + nested, "ok"
