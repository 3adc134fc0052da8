"""Internet mail (RFC 5322): text that begins with a header. Blank without subject, attachment and visible body."""

from __future__ import annotations

import email
import email.parser
import email.policy
import io
import re
from typing import TYPE_CHECKING, Final

from sluice_inspect.format import Examination, Family, Format, SecondFormats, named
from sluice_inspect.images.embedded import embedded_is_blank
from sluice_inspect.programs import HEAD_BYTES, attachment_flag
from sluice_inspect.report import Corrupt, FactSheet, Limits, Measure
from sluice_inspect.source import Source
from sluice_inspect.subject import Subject
from sluice_inspect.text.html_ink import has_visible_html
from sluice_inspect.text.mail_fields import has_many_parameters
from sluice_inspect.text.plaintext import INVISIBLE, check_text, encoding_of

if TYPE_CHECKING:
    from email.message import Message

_ZEROS_OF_DAMAGE: Final = 64  # in a row; mail readers ignore a few
_FIELD: Final = re.compile(rb"[!-9;-~]+[ \t]*:")  # RFC 5322 section 2.2, with the obsolete space before the colon
_HEADER_LINES: Final = 200
# RFC 2045 section 6.2: such a mail holds any bytes, so that it cannot be checked as text.
_BINARY: Final = re.compile(rb"^content-transfer-encoding:\s*binary", re.IGNORECASE | re.MULTILINE)

_SEARCH_BYTES: Final = 2 * 1024**2  # a mail beyond these is not searched for visible parts: not blank
_BOUNDARIES_MAX: Final = 100
_SEARCHED_BYTES: Final = 8 * 1024**2


def _examine(source: Source, limits: Limits) -> Examination:
    _require_header(source)
    measures: dict[str, Measure] = {"encoding": "binary"}
    if not _BINARY.search(source.head):
        measures.update(check_text(source, zeros=_ZEROS_OF_DAMAGE))
    return Examination(measures, lambda: _find_blank(source, limits))


def _require_header(source: Source) -> None:
    head = source.head
    if encoding_of(source).startswith(("utf-16", "utf-32")):
        head = head.replace(b"\0", b"").removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff")
    for line in head.removeprefix(b"\xef\xbb\xbf").lstrip().splitlines()[:_HEADER_LINES]:
        if not line.strip():
            break
        if _FIELD.match(line):
            return
    raise Corrupt("the mail has no header: its first lines are no fields, as From and Subject are")


def _find_blank(source: Source, limits: Limits) -> str | None:
    if source.size > _SEARCH_BYTES:
        return None
    data = source.read_at(0, source.size)
    if data.lower().count(b"boundary") > _BOUNDARIES_MAX or has_many_parameters(data):
        return None
    mail = email.message_from_bytes(data.removeprefix(b"\xef\xbb\xbf").lstrip(), policy=email.policy.compat32)
    if str(mail.get("Subject", "")).strip(INVISIBLE) or any(_is_visible(part, limits) for part in mail.walk()):
        return None
    return "the mail has no subject, no attachment, and a body that shows nothing"


def _is_visible(part: Message[str, str], limits: Limits) -> bool:
    match part.get_content_maintype():
        case "message":
            return True
        case "multipart":
            return False
    payload = part.get_payload(decode=True)
    content = payload if isinstance(payload, bytes) else b""
    match part.get_content_maintype():
        case "image":
            return bool(content) and not embedded_is_blank(io.BytesIO(content), limits)
        case "text":
            text = _decode(content, part.get_content_charset("latin-1"))
            is_html = part.get_content_subtype() == "html"
            return has_visible_html([text], limits) if is_html else bool(text.strip(INVISIBLE))
    return bool(content.strip())


def _decode(content: bytes, charset: str) -> str:
    try:
        return content.decode(charset)
    except (LookupError, ValueError):
        return content.decode("latin-1")


def _facts(subject: Subject, sheet: FactSheet) -> None:
    if subject.source.size > _SEARCHED_BYTES:
        sheet.complete = False
        return
    data = subject.source.read_at(0, subject.source.size)
    lower = data.lower()
    if b"name" not in lower and b"attachment" not in lower:
        sheet.facts["attachments"] = 0
        return
    if lower.count(b"boundary") > _BOUNDARIES_MAX or has_many_parameters(data):
        sheet.complete = False
        return
    mail = email.message_from_bytes(data.removeprefix(b"\xef\xbb\xbf").lstrip(), policy=email.policy.compat32)
    count = 0
    for part in mail.walk():
        name = part.get_filename()
        is_attached = str(part.get("Content-Disposition", "")).strip().lower().startswith("attachment")
        if part.is_multipart() or (name is None and not is_attached):
            continue
        payload = part.get_payload(decode=True)
        head = payload[:HEAD_BYTES] if isinstance(payload, bytes) else b""
        count += 1
        sheet.flags.add(attachment_flag(name or "", head))
    sheet.facts["attachments"] = count


FORMAT: Final = Format(
    name="eml",
    family=Family.DOCUMENT,
    content_type="message/rfc822",
    extensions=frozenset({"eml"}),
    examine=_examine,
    facts=_facts,
    own_facts=frozenset({"attachments"}),
    sample=lambda: b"From: a@example.com\r\nTo: b@example.com\r\nSubject: Sample\r\n\r\nOne line.\r\n",
    is_text=True,
    names=named("e-mail", "eml message/rfc822"),
    second_formats=SecondFormats.NOWHERE,
)
