"""Files attached to a mail, by kind."""

import email
import email.policy
from typing import Final

from sluice_inspect.facts.subject import Subject
from sluice_inspect.programs import HEAD_BYTES, attachment_flag
from sluice_inspect.report import FactSheet

_READ_BYTES: Final = 8 * 1024**2
_BOUNDARIES_MAX: Final = 100


def measure_mail(subject: Subject, sheet: FactSheet) -> None:
    """Add how many there are, and their kinds."""
    if subject.source.size > _READ_BYTES:
        sheet.complete = False
        return
    data = subject.source.read_at(0, subject.source.size)
    lower = data.lower()
    if b"name" not in lower and b"attachment" not in lower:
        sheet.facts["attachments"] = 0
        return
    if lower.count(b"boundary") > _BOUNDARIES_MAX:
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
