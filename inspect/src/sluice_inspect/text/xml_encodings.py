"""The encodings in which some reader reads an XML document, and its text in one of them."""
# By byte order mark, by the zero bytes of UTF-16 and UTF-32, by the first letters of EBCDIC, else by the declaration
# (XML 1.0, appendix F). Readers that do not know a declared encoding take the bytes for UTF-8: where that would give
# other markup, there are several readings.

import codecs
import encodings
import pkgutil
import re
from collections.abc import Iterator
from encodings.aliases import aliases
from functools import cache
from typing import Final

# The bytes that must be available to find out the encoding. No writer pads a declaration, which is about 40 bytes.
DECLARATION_BYTES_MAX: Final = 64 * 1024

_BEGIN_BYTES: Final = 4096
_GROWN_MAX: Final = 16 * 1024**2
# All names. A locked child looks up what its zygote has loaded: see `child.jobs`.
ENCODINGS: Final = frozenset(
    {*aliases, *aliases.values(), *(module.name for module in pkgutil.iter_modules(encodings.__path__))}
)

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"), (b"+/v", "utf-7"),
)  # fmt: skip
_ZEROS: Final = (
    (re.compile(rb"[^\0]\0\0\0"), "utf-32-le"), (re.compile(rb"\0\0\0[^\0]"), "utf-32-be"),
    (re.compile(rb"[^\0]\0"), "utf-16-le"), (re.compile(rb"\0[^\0]"), "utf-16-be"),
)  # fmt: skip
_EBCDIC_DECLARATION: Final = "<?xm".encode("cp037")
_EBCDIC: Final = "cp037"
_EBCDIC_BRACKETS: Final = ("cp037", "cp500")  # the two places at which code pages have the brackets of a DOCTYPE
# Any character for the quote: code pages of EBCDIC have it in different places.
_DECLARED: Final = re.compile(r"<\?xml\s[^?>]*?\bencoding\s*=\s*.\s*([A-Za-z][\w.:-]*)", re.DOTALL)
_ENCODING: Final = re.compile(r"\s+encoding\s*=\s*(?:'[^'?]*'|\"[^\"?]*\")")
_ASCII: Final = bytes(range(0x80))
# Every byte beyond ASCII is one character in these, so that no reader sees other markup.
_SINGLE_BYTE: Final = bytes(range(0x80, 0x100))


def declaration_ends(head: bytes | bytearray) -> bool:
    """Return whether the XML declaration ends in `head`, or the document has none."""
    begin = head.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xfe\xff")
    if begin.startswith(_EBCDIC_DECLARATION):
        return "?>".encode(_EBCDIC) in begin
    return len(begin) > len(b"<?xml") and (not begin.startswith(b"<?xml") or b"?>" in begin)


def encodings_of(head: bytes) -> tuple[str, ...]:
    """Return the names of the codecs by which readers read a document that begins with `head`, the likeliest first."""
    marked = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    marked = marked or next((name for zeros, name in _ZEROS if zeros.match(head)), None)
    if marked and marked.startswith(("utf-16", "utf-32")):
        return (marked,)
    if head.startswith(_EBCDIC_DECLARATION):
        declared = _codec(_declared(head.decode(_EBCDIC, "replace")))
        pages = () if declared is None or not _is_like_ebcdic(declared) else (declared,)
        return tuple(dict.fromkeys((*pages, *_EBCDIC_BRACKETS)))
    declared = _codec(_declared(head.decode("latin-1"))) or "utf-8"
    if _is_wide(declared) or _is_like_ebcdic(declared):
        declared = "utf-8"  # the declaration could be read as ASCII, so this cannot be true
    return tuple(dict.fromkeys((*([marked] if marked else []), declared, *_other_readings(declared))))


def begins_as_xml(head: bytes) -> bool:
    """Return whether a file states that it is XML: by a declaration or a DOCTYPE, in any encoding."""
    begins = (next(text_of(iter((head[:_BEGIN_BYTES],)), encoding)).lstrip() for encoding in encodings_of(head))
    return any(begin.startswith(("<?xml", "<!DOCTYPE")) for begin in begins)


def growing(pieces: Iterator[str]) -> Iterator[str]:
    """Yield the same text in pieces that grow as the text does, up to a limit."""
    # Before version 2.6, expat reads an unfinished attribute or comment from its begin with every piece.
    waiting: list[str] = []
    waiting_size = size = 0
    for piece in pieces:
        waiting.append(piece)
        waiting_size += len(piece)
        if waiting_size >= min(size, _GROWN_MAX):
            yield "".join(waiting)
            size += waiting_size
            waiting, waiting_size = [], 0
    yield "".join(waiting)


def text_of(pieces: Iterator[bytes], encoding: str) -> Iterator[str]:
    """Yield the text of a document without its byte order mark. What does not decode becomes U+FFFD."""
    decoder = TextDecoder(encoding)
    for piece in pieces:
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)


class EbcdicDocument:
    """A document in EBCDIC as one in UTF-8, for parsers that cannot load the code pages."""

    def __init__(self, encoding: str) -> None:
        self._decoder = TextDecoder(encoding)
        self._declaration = ""
        self._is_declared = False

    def encode(self, piece: bytes, *, final: bool) -> bytes:
        """Return the next characters; the declaration, which names the code page, only once it is complete."""
        # The line end of these code pages is no white space in XML, so that their readers take it for a line feed.
        text = self._decoder.decode(piece, final=final).replace("\x85", "\n")
        if self._is_declared:
            return text.encode("utf-8", "replace")
        self._declaration += text
        if "?>" not in self._declaration and len(self._declaration) < DECLARATION_BYTES_MAX and not final:
            return b""
        self._is_declared = True
        return _ENCODING.sub("", self._declaration, count=1).encode("utf-8", "replace")


def ebcdic_of(head: bytes) -> tuple[str, bool] | None:
    """Return the code page of a document in EBCDIC, and whether it is the one that is declared; None for others."""
    if not head.startswith(_EBCDIC_DECLARATION):
        return None
    declared = _codec(_declared(head.decode(_EBCDIC, "replace")))
    is_known = declared is not None and _is_like_ebcdic(declared)
    return (declared if declared and is_known else _EBCDIC), is_known


class TextDecoder:
    """Decodes a document piece by piece, without its byte order mark. What does not decode becomes U+FFFD."""

    def __init__(self, encoding: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._is_at_start = True

    def decode(self, piece: bytes, *, final: bool = False) -> str:
        """Return the characters that end in `piece`."""
        text = self._decoder.decode(piece, final)
        if self._is_at_start and text:
            self._is_at_start = False
            return text.removeprefix("\ufeff")
        return text


def _declared(head: str) -> str:
    found = _DECLARED.match(head.removeprefix("\xef\xbb\xbf"))
    return found[1] if found else ""


def _codec(declared: str) -> str | None:
    """Return the codec of a declared name, or None if there is none that decodes to text."""
    name = encodings.normalize_encoding(declared).lower()
    if re.sub(r"[^a-z0-9]", "", name).endswith("utf7"):  # UNICODE-1-1-UTF-7, x-unicode-2-0-utf-7
        return "utf-7"
    for candidate in (name, name.removeprefix("x_"), name.removeprefix("ibm_"), name.replace("ibm", "cp")):
        if candidate in ENCODINGS:
            return _text_codec(candidate)
    return "utf-16" if name.startswith(("ucs", "iso_10646_ucs", "utf_16", "utf_32")) else None


@cache
def _text_codec(name: str) -> str | None:
    try:
        info = codecs.lookup(name)
        is_text = isinstance(b"<".decode(info.name, "replace"), str)
    except (LookupError, UnicodeError, ValueError):
        return None
    # Only for programs: punycode, idna, the escapes of Python's own literals.
    return info.name if is_text and info.name not in _PROGRAM_CODECS else None


_PROGRAM_CODECS: Final = frozenset({"punycode", "idna", "undefined", "unicode_escape", "raw_unicode_escape"})


@cache
def _is_wide(codec: str) -> bool:
    return codec.replace("_", "-").startswith(("utf-16", "utf-32"))


@cache
def _is_like_ebcdic(codec: str) -> bool:
    return not _is_wide(codec) and _decoded(codec, b"\x4c") == "<"


@cache
def _other_readings(codec: str) -> tuple[str, ...]:
    """Return how readers without `codec` see the bytes, if their markup may differ."""
    if codec == "utf-8":
        return ()
    is_ascii = _decoded(codec, _ASCII) == _ASCII.decode("ascii")
    is_single = all(len(_decoded(codec, bytes((byte, 0x22)))) == 2 for byte in _SINGLE_BYTE)
    return () if is_ascii and is_single else ("utf-8", "latin-1")


def _decoded(codec: str, data: bytes) -> str:
    decoder = codecs.getincrementaldecoder(codec)("replace")
    return decoder.decode(data, True)
