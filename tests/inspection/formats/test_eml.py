import base64
import io
from email.message import EmailMessage

import pytest

from sluice.formats.check import check_file
from sluice.formats.kinds.eml import KIND
from sluice.formats.verdict import Finding, Outcome
from tests.formats.judging import corpus, judge, needs_corpus
from tests.formats.packages import picture

FIELDS = "From: a@example.com\r\nTo: b@example.com\r\nDate: Mon, 1 Jan 2024 00:00:00 +0000\r\n"


def mail(
    text: str = "", *, subject: str = "", html: str = "", attached: bytes | None = None, kind: str = "application/pdf"
) -> bytes:
    message = EmailMessage()
    message["From"] = "a@example.com"
    if subject:
        message["Subject"] = subject
    message.set_content(text)
    if html:
        message.add_alternative(html, subtype="html")
    if attached is not None:
        main, _, sub = kind.partition("/")
        message.add_attachment(attached, maintype=main, subtype=sub, filename="a.bin")
    return message.as_bytes()


@pytest.mark.parametrize("before", ["", "\ufeff", "\r\n\r\n", "From a@example.com Mon Jan  1 00:00:00 2024\r\n", "garbage\r\n"])
def test_a_mail_is_sound_whatever_stands_in_front(before: str) -> None:
    judged = judge(KIND, (before + FIELDS + "\r\nhi\r\n").encode())
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(FIELDS.encode() + "\r\nGrüße".encode("cp1252"), id="8 bits"),
        pytest.param(FIELDS.encode() + b"\r\na \0 zero", id="a zero"),
        pytest.param(FIELDS.encode("utf-16"), id="UTF-16"),
        pytest.param(FIELDS.encode() + b"Content-Transfer-Encoding: binary\r\n\r\n" + bytes(4000), id="binary content"),
        pytest.param(FIELDS.encode() + b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\nhi", id="no last boundary"),
    ],
)
def test_odd_mail_that_readers_take_passes(data: bytes) -> None:
    assert judge(KIND, data).outcome is Outcome.OK


@pytest.mark.parametrize("data", [b"no field at all\r\n\r\nFrom: a\r\n", b"\r\n", FIELDS.encode() + bytes(900)])
def test_what_is_no_mail_is_corrupt(data: bytes) -> None:
    assert judge(KIND, data).outcome is Outcome.CORRUPT


def test_a_page_under_the_name_of_a_mail_is_a_mismatch() -> None:
    assert check_file(io.BytesIO(b"<html><body>504</body></html>"), filename="a.eml").finding is Finding.TYPE_MISMATCH


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(FIELDS.encode() + b"\r\n", id="nothing"),
        pytest.param(mail(" \u00a0\n\u200b"), id="spaces"),
        pytest.param(mail(html="<html><body>&nbsp;</body></html>"), id="an empty page"),
        pytest.param(mail(attached=b""), id="an attachment without content"),
        pytest.param(mail(attached=picture(shows=False).getvalue(), kind="image/png"), id="an empty picture"),
        pytest.param(
            FIELDS.encode() + b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.b64encode(b" \n"), id="spaces in base64"
        ),
    ],
)
def test_a_mail_that_shows_nothing_is_blank(data: bytes) -> None:
    assert judge(KIND, data).blank


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(mail(subject="x"), id="a subject"),
        pytest.param(mail("."), id="a full stop"),
        pytest.param(mail(html="<p>x</p>"), id="a page"),
        pytest.param(mail(attached=b"x"), id="an attachment"),
        pytest.param(mail(attached=picture(shows=True).getvalue(), kind="image/png"), id="a picture"),
        pytest.param(FIELDS.encode() + b"Content-Type: message/rfc822\r\n\r\n" + FIELDS.encode() + b"\r\n", id="a mail within"),
        pytest.param(FIELDS.encode() + b"Content-Type: text/plain; charset=nowhere\r\n\r\n\xe9", id="an unknown charset"),
        pytest.param(FIELDS.encode() + b"\r\n" + b" " * 3_000_000, id="more than is looked through"),
    ],
)
def test_a_mail_that_shows_something_is_not_blank(data: bytes) -> None:
    judged = judge(KIND, data)
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


def test_boundaries_without_end_are_not_followed() -> None:
    nested = b"".join(b"--b%d\r\nContent-Type: multipart/mixed; boundary=b%d\r\n\r\n" % (n, n + 1) for n in range(3000))
    assert judge(KIND, FIELDS.encode() + b"Content-Type: multipart/mixed; boundary=b0\r\n\r\n" + nested).blank is None


@needs_corpus
def test_the_corpus_is_judged_as_labelled() -> None:
    assert [
        path.name for path in corpus("eml", "valid", "not_blank") if judge(KIND, path.read_bytes()).outcome is not Outcome.OK
    ] == []
    assert [path.name for path in corpus("eml", "blank") if not judge(KIND, path.read_bytes()).blank] == []
    assert [path.name for path in corpus("eml", "not_blank") if judge(KIND, path.read_bytes()).blank] == []
