"""Internet mail (.eml, RFC 5322): text that begins with a header. Readers take nearly anything else, so no syntax is enforced.

A mail is blank without a subject, an attachment with content, and a body that shows anything.
"""

import email
import email.parser
import email.policy
import io
import re
from collections.abc import Mapping
from email.message import Message
from typing import Final

from sluice.formats.images.embedded import embedded_is_blank
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.text.html_ink import html_shows
from sluice.formats.text.plaintext import INVISIBLE, check_text, encoding_of
from sluice.formats.verdict import Corrupt, Limits, Measure

_ZEROS: Final = 64
_FIELD: Final = re.compile(rb"[!-9;-~]+[ \t]*:")
_LINES_OF_HEADER: Final = 200
_BINARY: Final = re.compile(rb"^content-transfer-encoding:\s*binary", re.IGNORECASE | re.MULTILINE)
_READ_MOST: Final = 2 * 1024**2
"""A larger mail is not looked through: not blank."""
_PARTS_MOST: Final = 100


def _recognises(_source: Source) -> bool:
    return False


def _check(source: Source, _limits: Limits) -> Mapping[str, Measure]:
    _check_header(source)
    if _BINARY.search(source.head):
        return {"encoding": "binary"}
    return check_text(source, zeros=_ZEROS)


def _check_header(source: Source) -> None:
    head = source.head
    if encoding_of(source).startswith(("utf-16", "utf-32")):
        head = head.replace(b"\0", b"").removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff")
    lines = head.removeprefix(b"\xef\xbb\xbf").lstrip().splitlines()[:_LINES_OF_HEADER]
    for line in lines:
        if not line.strip():
            break
        if _FIELD.match(line):
            return
    raise Corrupt("the mail has no header: its first lines are no fields, as From and Subject are")


def _blank(source: Source, limits: Limits) -> str | None:
    if source.size > _READ_MOST:
        return None
    data = source.read_at(0, source.size)
    if data.lower().count(b"boundary") > _PARTS_MOST:
        return None
    mail = email.message_from_bytes(data.removeprefix(b"\xef\xbb\xbf").lstrip(), policy=email.policy.compat32)
    if str(mail.get("Subject", "")).strip(INVISIBLE) or any(_shows(part, limits) for part in mail.walk()):
        return None
    return "the mail has no subject, no attachment, and a body that shows nothing"


def _shows(part: "Message[str, str]", limits: Limits) -> bool:
    """Whether one part of a mail has content."""
    if part.get_content_maintype() in {"multipart", "message"}:
        return part.get_content_maintype() == "message"
    payload = part.get_payload(decode=True)
    content = payload if isinstance(payload, bytes) else b""
    if part.get_content_maintype() == "image":
        return bool(content) and not embedded_is_blank(io.BytesIO(content), limits)
    if part.get_content_maintype() != "text":
        return bool(content.strip())
    text = _decoded(content, part.get_content_charset("latin-1"))
    return html_shows([text], limits) if part.get_content_subtype() == "html" else bool(text.strip(INVISIBLE))


def _decoded(content: bytes, charset: str) -> str:
    try:
        return content.decode(charset)
    except (LookupError, ValueError):
        return content.decode("latin-1")


KIND: Final = Kind(
    name="eml",
    content_type="message/rfc822",
    extensions=frozenset({"eml"}),
    recognises=_recognises,
    check=_check,
    blank=_blank,
    sample=lambda: b"From: a@example.com\r\nTo: b@example.com\r\nSubject: Sample\r\n\r\nOne line.\r\n",
    is_text=True,
)
