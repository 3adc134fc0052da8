"""What bytes are, as far as the rules and openers need it, told by how they begin; and what a name promises. Judges nothing."""

import re
from typing import Final

from sluice.threats import mail

COMPOUND_MAGIC: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
SEVEN_ZIP_MAGIC: Final = b"7z\xbc\xaf\x27\x1c"
RAR_MAGICS: Final = (b"Rar!\x1a\x07\x00", b"Rar!\x1a\x07\x01\x00")
_TEXT: Final = re.compile("csv|css|eml|html?|json|log|markdown|md|srt|svg|tsv|txt|xml|ya?ml")
_DOCUMENT: Final = re.compile(
    "pdf|do[ct][xm]?|xls[xmb]?|pp[ts][xm]?|od[tspg]|rtf|epub|msg|one|pub|vsdx?"
    "|jpe?g|jpe|jfif|png|gif|webp|bmp|tiff?|hei[cf]|avif|jp2|ico|psd"
    "|mp3|mp4|m4[av]|mov|avi|mkv|webm|wav|flac|ogg|opus|aac|aiff?|wm[av]|mpe?g"
)
_PDF_WITHIN: Final = 1024
_ROOT: Final = re.compile(rb"<(?:[A-Za-z_][\w.-]{0,40}:)?([A-Za-z_][\w.-]{0,40})[\s>/]")
_HTML: Final = re.compile(rb"<(?i:!doctype\s{1,10}html|html|head|body|script|iframe|table|div|meta)[\s>/]")
"""The bracket stands outside of what ignores case: it alone is searched for, four times as fast."""
_HTML_WITHIN: Final = 4096
_CARD: Final = re.compile(rb"(?i)\s*BEGIN:V(?:CARD|CALENDAR)")


def kinds_of(head: bytes) -> list[str]:
    """Answer what bytes that begin with `head` are to some reader, the surest first.

    `compound`, `7z`, `rar`, `pdf`, `rtf`, `mail`, and one of `svg`, `html`, `xml`, `card`. Byte order marks are passed over; UTF-16 is looked
    through as far as plain letters need it.
    """
    text = plain(head)
    begin = text.lstrip()
    found = {
        "compound": head.startswith(COMPOUND_MAGIC),
        "7z": head.startswith(SEVEN_ZIP_MAGIC),
        "rar": head.startswith(RAR_MAGICS),
        "pdf": b"%PDF-" in head[:_PDF_WITHIN],
        "rtf": begin.startswith(b"{\\rt"),
        "mail": mail.is_mail(head),
    }
    return [kind for kind, holds in found.items() if holds] + _kinds_of_text(text, begin)


def plain(text: bytes) -> bytes:
    """Answer text without its byte order mark, UTF-16 as single bytes: enough to find words of ASCII in it."""
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        return text[2:].replace(b"\0", b"")
    return text.removeprefix(b"\xef\xbb\xbf")


def says(extension: str) -> str:
    """Answer what a name with that extension promises: `document` (pictures and recordings included), `text`, or nothing."""
    if _DOCUMENT.fullmatch(extension):
        return "document"
    return "text" if _TEXT.fullmatch(extension) else ""


def extension_of(name: str) -> str:
    """Answer the last extension, lower case and without its dot, after trailing dots and spaces; empty where there is none."""
    if not name:
        return ""
    last = re.split(r"[/\\]", name)[-1].rstrip(". ")
    return last.rpartition(".")[2].lower() if "." in last else ""


def _kinds_of_text(text: bytes, begin: bytes) -> list[str]:
    root = _root(begin) if begin.startswith(b"<") else ""
    if root in {"svg", "?"}:
        return ["svg"]  # also when no root is in sight: comments in front of it shall not hide a picture
    if root == "html" or _HTML.search(text[:_HTML_WITHIN]):
        return ["html"]
    if root:
        return ["xml"]
    return ["card"] if _CARD.match(text) else []


def _root(text: bytes) -> str:
    """Answer the name of the first element, behind instructions, comments and a document type; `?` when those do not end, nothing for no markup."""
    at = 0
    while text.startswith((b"<?", b"<!"), at):
        closing = b"?>" if text.startswith(b"<?", at) else b"-->" if text.startswith(b"<!--", at) else b">"
        end = text.find(closing, at)
        subset = text.find(b"[", at, end)
        if closing == b">" and subset >= 0:
            inner = text.find(b"]", subset)
            end = -1 if inner < 0 else text.find(b">", inner)
        if end < 0:
            return "?"
        at = end + len(closing)
        at += len(text[at:]) - len(text[at:].lstrip())
    found = _ROOT.match(text, at)
    return found[1].decode("ascii", "replace").lower() if found else ""
