"""Outlook items (.msg): what of them a reader sees. Their properties are read by `mapi`.

A message is blank without a subject, an attachment with content, and a body that shows anything. Items that are no mail (appointments,
contacts, tasks) have fields of their own and are never blank.
"""

import io
from collections.abc import Mapping
from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.office.compound import CompoundFile, Entry
from sluice.formats.office.compound_family import open_container, recognises
from sluice.formats.office.mapi import BINARY, BYTES_TEXT, TEXT, attachments, check_item, stream_of, unpack_rtf
from sluice.formats.office.msg_sample import make_message
from sluice.formats.office.rtf_ink import rtf_shows
from sluice.formats.office.rtf_tokens import tokens
from sluice.formats.source import Source
from sluice.formats.text.html_ink import html_shows
from sluice.formats.text.plaintext import INVISIBLE
from sluice.formats.verdict import Limits, Measure

_CLASS: Final = 0x001A
_SUBJECTS: Final = (0x0037, 0x0E1D, 0x0070)
_BODY: Final = 0x1000
_RTF: Final = 0x1009
_HTML: Final = 0x1013
_MAIL: Final = "ipm.note"
_BODY_MOST: Final = 32 * 1024**2
_ATTACHED: Final = "__substg1.0_3701"


def check(source: Source, _limits: Limits) -> Mapping[str, Measure]:
    """Judge the container, and whether every listed property is there as it is listed."""
    container, measures = open_container(source)
    properties = check_item(container, container.root)
    return {**measures, "properties": properties, "attachments": sum(1 for _ in attachments(container.root))}


def blank(source: Source, limits: Limits) -> str | None:
    """Answer that a mail has no subject, no attachment, and a body that shows nothing."""
    container = CompoundFile(source)
    mail = container.root
    if not _text(container, mail, _CLASS).lower().startswith(_MAIL):
        return None
    if any(_text(container, mail, number).strip(INVISIBLE) for number in (*_SUBJECTS, _BODY)):
        return None
    if any(_has_content(attachment) for attachment in attachments(mail)) or _formatted_shows(container, mail, limits):
        return None
    return "the message has no subject, no attachment, and a body that shows nothing"


def _text(container: CompoundFile, mail: Entry, number: int) -> str:
    """Answer a property of text; one that is too large is read as far as it takes to see that it is."""
    for kind, encoding in ((TEXT, "utf-16-le"), (BYTES_TEXT, "cp1252")):
        entry = stream_of(mail, number, kind)
        if entry is not None:
            return container.read(entry, _BODY_MOST).decode(encoding, "replace") + ("" if entry.size <= _BODY_MOST else "…")
    return ""


def _has_content(attachment: Entry) -> bool:
    return any(name.startswith(_ATTACHED) and (not entry.is_stream or entry.size) for name, entry in attachment.children.items())


def _formatted_shows(container: CompoundFile, mail: Entry, limits: Limits) -> bool:
    html = stream_of(mail, _HTML, BINARY, BYTES_TEXT, TEXT)
    if html is not None:
        encoding = "utf-16-le" if html.name.lower().endswith("001f") else "latin-1"
        if html.size > _BODY_MOST or html_shows([container.read(html).decode(encoding, "replace")], limits):
            return True
    rtf = stream_of(mail, _RTF, BINARY)
    return rtf is not None and (rtf.size > _BODY_MOST or rtf_shows(tokens(io.BytesIO(unpack_rtf(container.read(rtf)))), limits))


KIND: Final = Kind(
    name="msg",
    content_type="application/vnd.ms-outlook",
    extensions=frozenset({"msg", "oft"}),
    recognises=lambda source: recognises(source, "msg"),
    check=check,
    sample=lambda: make_message({0x0037: "Sluice", 0x1000: "One line."}),
    blank=blank,
)
