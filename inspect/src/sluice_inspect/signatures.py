"""First bytes that reveal content of another format than the present one: web pages, programs, binary formats."""

import codecs
import re
from typing import Final

EXECUTABLES: Final = (b"MZ", b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe")

# Formats that hold other formats, or are put in front of them: a self-extracting program ends in an archive and is
# none.
_BINARY_SIGNATURES: Final = (
    b"PK\x03\x04", b"PK\x05\x06", b"%PDF", b"\xd0\xcf\x11\xe0", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM",
    b"II*\0", b"MM\0*", b"\0\0\0", b"ID3", b"OggS", b"fLaC", b"Rar!", b"7z\xbc\xaf", b"\x1f\x8b", b"BZh", b"\xfd7zXZ",
    b"\x28\xb5\x2f\xfd", b"SQLite", b"PAR1", b"\x1aE\xdf\xa3", *EXECUTABLES,
)  # fmt: skip
_TAR_MAGIC: Final = slice(257, 262)

# Possessive quantifiers throughout: hostile bytes cost one pass.
_PAGE: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?+\s*+(?:<\?xml[^>]{0,200}+>\s*+|(?!))?+(?:<!--(?:(?!-->).|(?!))*+-->\s*+|(?!))*+"
    rb"<(?:!doctype\s++html|html|head|body|title|script|meta|h1|center)\b",
    re.IGNORECASE | re.DOTALL,
)
# The tags by which browsers take a text without a stated type for a page: WHATWG MIME Sniffing, 7.1. A comment that is
# longer than what is examined here counts as a page, too.
_SNIFFED_PAGE: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?+\s*+(?:<!--(?:(?!-->).|(?!))*+-->\s*+|(?!))*+"
    rb"<(?:(?:iframe|h1|div|font|table|a|style|title|b|body|br|p)[ >]|(?P<open>!--))",
    re.IGNORECASE | re.DOTALL,
)
_WEB_ARCHIVE: Final = re.compile(
    rb"(?:[!-9;-~]{1,76}:[^\n]{0,998}\n(?:[ \t][^\n]{0,998}\n)*){0,40}?MIME-Version:", re.IGNORECASE
)
_WEB_ARCHIVE_TYPE: Final = re.compile(rb"content-type:\s*(?:multipart/related|text/html)", re.IGNORECASE)
# The header of a mail (RFC 5322, section 2.2) and fields that most mails have.
_MAIL_HEADER: Final = re.compile(
    rb"(?:[!-9;-~]{1,76}+:[^\n]{0,998}+\n(?:[ \t][^\n]{0,998}+\n|(?!))*+|(?!)){2,200}+\r?\n"
)
_MAIL_FIELD: Final = re.compile(rb"^(?:date|from|message-id|received|subject|to):", re.IGNORECASE | re.MULTILINE)
_PAGE_HEAD_BYTES: Final = 64 * 1024  # a page may begin with a long comment
_WIDE_HEAD_BYTES: Final = 4 * _PAGE_HEAD_BYTES

# How a page begins in an encoding of more than one byte: by its mark, UTF-32 before UTF-16, whose mark begins alike …
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"), (b"+/v", "utf-7"),
)  # fmt: skip
# … or by its first letter, which is white space or a bracket. UTF-7 is what old browsers guess from an encoded bracket.
_FIRST: Final = rb"[\t\n\f\r <]"
_FIRST_LETTERS: Final = tuple(
    (re.compile(pattern, re.DOTALL), encoding)
    for pattern, encoding in (
        (_FIRST + rb"\0\0\0", "utf-32-le"),
        (rb"\0\0\0" + _FIRST, "utf-32-be"),
        (_FIRST + rb"\0[^\0]", "utf-16-le"),
        (rb"\0" + _FIRST + rb"\0", "utf-16-be"),
        (rb"\s{0,64}+\+AD[w-z]", "utf-7"),
    )
)
_WIDE: Final = re.compile(rb"[\xff\xfe\0+]|[\t\n\f\r <](?:\0|\s{0,64}+\+AD)")


def is_web_page(head: bytes) -> bool:
    """Return whether content with these first bytes is an HTML page, such as an error page saved in place of a file."""
    return _PAGE.match(_single_bytes(head)) is not None


def is_sniffed_as_page(head: bytes) -> bool:
    """Return whether browsers show a plain text with these first bytes as a page."""
    text = _single_bytes(head)
    found = _SNIFFED_PAGE.match(text)
    return found is not None and (found["open"] is None or len(text) == _PAGE_HEAD_BYTES)


def is_web_archive(head: bytes) -> bool:
    """Return whether content with these first bytes is a page with its parts as one message (MHTML, RFC 2557)."""
    return _WEB_ARCHIVE.match(head) is not None and _WEB_ARCHIVE_TYPE.search(head) is not None


def is_mail(head: bytes) -> bool:
    """Return whether content with these first bytes is a mail: a header with two of the fields that most have."""
    header = _MAIL_HEADER.match(head)
    return header is not None and len({name.lower() for name in _MAIL_FIELD.findall(header[0])}) > 1


def _single_bytes(head: bytes) -> bytes:
    """Return the first letters of a text with a byte for each: what does not fit becomes a question mark."""
    if not _WIDE.match(head):
        return head[:_PAGE_HEAD_BYTES]
    by_mark = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    encoding = by_mark or next((name for first, name in _FIRST_LETTERS if first.match(head)), None)
    # Most of what begins so is no text: 1,000 bytes tell.
    if encoding is None or not head[:1000].decode(encoding, "replace").lstrip("\ufeff \t\r\n\f").startswith("<"):
        return head[:_PAGE_HEAD_BYTES]
    text = head[:_WIDE_HEAD_BYTES].decode(encoding, "replace").removeprefix("\ufeff")
    return text[:_PAGE_HEAD_BYTES].encode("ascii", "replace")


def has_binary_signature(head: bytes) -> bool:
    """Return whether these are the first bytes of a well-known binary format."""
    return head.startswith(_BINARY_SIGNATURES) or head[_TAR_MAGIC] == b"ustar"
