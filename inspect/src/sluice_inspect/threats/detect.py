"""Recognises bytes by how they begin: formats that are opened here, packings that are not."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final

from sluice_inspect.parts import Opener
from sluice_inspect.text.xml_encodings import encodings_of, text_of

COMPOUND_MAGIC: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
ACTIVE_MIME_MAGIC: Final = b"ActiveMime"
_MAIL_FIRST_FIELD: Final = re.compile(
    rb"\s*(?:>?From [^\r\n]{1,998}[\r\n]{1,2})?(?:[!-9;-~]{1,76}[ \t]*:[ \t\r\n]|[A-Za-z][A-Za-z0-9-]{0,75}:)"
)
_XML_ROOT: Final = re.compile(rb"<(?:[A-Za-z_][\w.-]{0,40}:)?([A-Za-z_][\w.-]{0,40})[\s>/]")
# The bracket is outside of the group that ignores case: it alone is searched for, four times as fast.
_HTML: Final = re.compile(rb"<(?i:!doctype\s{1,10}html|html|head|body|script|iframe|table|div|meta)[\s>/]")
_HTML_WITHIN_BYTES: Final = 4096
# What may begin a text in UTF-16, UTF-32 or EBCDIC, or XML in an encoding of its own.
_OTHER_ENCODING: Final = re.compile(
    rb"\xff\xfe|\xfe\xff|\0\0\xfe\xff|\0{0,3}[<\s]\0|\0{1,3}[<\s][^\0]|(?:\xef\xbb\xbf)?<\?xml\s|\x4c\x6f\xa7\x94|\+/v"
)
_JSON: Final = re.compile(rb"[\[{]\s*+[\[{\"]")
_CARD: Final = re.compile(rb"(?i)\s*BEGIN:V(?:CARD|CALENDAR)")


def formats_of(head: bytes) -> list[str]:
    """Return the formats that some reader takes bytes beginning with `head` for, the surest first.

    Byte order marks are skipped; UTF-16 is read as far as ASCII letters need it.
    """
    text = ascii_of(head)
    begin = text.lstrip()
    names = ["compound"] if head.startswith(COMPOUND_MAGIC) else []
    names += (name for name, opener in _openers().items() if opener.begins(head))
    names += ["activemime"] if head.startswith(ACTIVE_MIME_MAGIC) else []
    # Other texts begin with a header field, too, so mail comes last: that costs them a search for encoded parts.
    is_mail = _MAIL_FIRST_FIELD.match(head.removeprefix(b"\xef\xbb\xbf")) is not None
    return [*names, *_text_formats(text, begin), *(["mail"] if is_mail else [])]


@cache
def _openers() -> Mapping[str, Opener]:
    # When they are first needed: the registry loads the formats, and some of them import this module.
    from sluice_inspect.registry import OPENERS  # noqa: PLC0415

    return OPENERS


def ascii_of(text: bytes) -> bytes:
    """Return text without its byte order mark, as single bytes: enough to find ASCII words in it."""
    if _OTHER_ENCODING.match(text):
        encoding = encodings_of(text)[0]
        if encoding != "utf-8":
            return "".join(text_of(iter((text,)), encoding)).encode("ascii", "replace")
    return text.removeprefix(b"\xef\xbb\xbf")


def _text_formats(text: bytes, begin: bytes) -> Iterator[str]:
    root = _root_element(begin) if begin.startswith(b"<") else ""
    if root in {"svg", "?"}:  # long comments in front of the root must not hide a picture
        yield "svg"
    elif root == "html" or _HTML.search(text[:_HTML_WITHIN_BYTES]):
        yield "html"
    elif root or begin.startswith((b"<?", b"<!")):
        yield "xml"
    elif _CARD.match(text):
        yield "card"
    elif _JSON.match(begin):
        yield "json"


def _root_element(text: bytes) -> str:
    """Return the first element behind instructions, comments and DOCTYPE; `?` if those do not end, "" if none."""
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
    found = _XML_ROOT.match(text, at)
    return found[1].decode("ascii", "replace").lower() if found else ""


# Packings are looked up by their first two bytes, which every magic has: most files begin as none of them.
_INDEX_BYTES: Final = 2
_ISO_MAGIC: Final = slice(0x8001, 0x8006)
_LHA_MAGIC: Final = slice(2, 5)
TRAILER_BYTES: Final = 512
"""Length of the trailer of a disk image of macOS."""


def _indexed(magics: Mapping[bytes, str]) -> Mapping[bytes, Sequence[tuple[bytes, str]]]:
    index: dict[bytes, list[tuple[bytes, str]]] = {}
    for magic, packing in magics.items():
        index.setdefault(magic[:_INDEX_BYTES], []).append((magic, packing))
    return MappingProxyType(index)


_OPENED_BY_CLAMD: Final = _indexed({
    b"MSCF": "cab", b"\x60\xea": "arj", b"ITSF": "chm", b"xar!": "xar", b"07070": "cpio", b"\xc7\x71": "cpio",
    b"SZDD": "szdd", b"KWAJ": "kwaj", b"MZ": "program", b"CWS": "swf", b"ZWS": "swf", b"\x78\x9f\x3e\x22": "tnef",
    b"EGGA": "egg",
    b"ALZ\x01": "alz", b"\xef\xbe\xad\xde": "nsis", b"\xe4\x52\x5c\x7b": "onenote",
})  # fmt: skip
_OPENED_BY_NOBODY: Final = _indexed({
    b"\x1f\x9d": "compress", b"LZIP": "lzip", b"\x89LZO": "lzop", b"RE\x7e\x5e": "rar 1.4",
})  # fmt: skip


def packings_of_clamd(head: bytes, tail: bytes = b"") -> Iterator[str]:
    """Yield the packings of bytes that begin with `head` and end with the `TRAILER_BYTES` of `tail`, for clamd only."""
    yield from (name for magic, name in _OPENED_BY_CLAMD.get(head[:_INDEX_BYTES], ()) if head.startswith(magic))
    if head[_ISO_MAGIC] == b"CD001":
        yield "iso"
    if head[_LHA_MAGIC] == b"-lh":
        yield "lha"
    if len(tail) == TRAILER_BYTES and tail.startswith(b"koly"):
        yield "dmg"


def packings_of_nobody(head: bytes) -> Iterator[str]:
    """Yield the packings that bytes beginning with `head` are in and that neither clamd nor we can open."""
    yield from (name for magic, name in _OPENED_BY_NOBODY.get(head[:_INDEX_BYTES], ()) if head.startswith(magic))
