"""Files encoded as base64 or in `data:` addresses in markup, cards, calendars, JSON and other texts, read leniently."""
# What follows one of the marks is decoded, whatever stands around it, and so is a run of letters that begins as a
# program, an archive or a document does: in the bytes as they are, in the text that a reader makes of them, with
# entities, character references, percent signs and escapes replaced, and in this text without spaces and comments.
# Addresses that state no base64 are read before percent signs are replaced, which are bytes of their file.

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import unescape
from itertools import chain
from typing import Final
from urllib.parse import unquote_to_bytes

import yara_x

from sluice_inspect.parts import Part, windows
from sluice_inspect.programs import recognise
from sluice_inspect.source import MemorySource, RandomAccess, read_pieces
from sluice_inspect.text.xml_encodings import DECLARATION_BYTES_MAX, encodings_of, text_of
from sluice_inspect.threats.budget import OverBudget
from sluice_inspect.threats.drawing import css_unescaped

TEXT_FORMATS: Final = frozenset({"svg", "html", "xml", "card", "json"})

_SEARCHED_BYTES: Final = 1024**2
_DECODED_BYTES: Final = 64 * 1024
_SHORT_BYTES: Final = 256  # read first: most of what is encoded is shorter
NOT_BASE64: Final = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="))

_MARKUP_NEEDLES: Final = (b"base64", b"bindata", b"binarydata", b"binary-data", b"encoding=b")
_MARKUP_MARK: Final = re.compile(
    rb"(?:base64\s{0,80},|(?:bindata|binarydata|binary-data)\b[^<>]{0,400}(?<!/)>|encoding=b(?:ase64)?[^:\n]{0,200}:)"
    rb"\s{0,80}(?=[a-z0-9+/]{4})"
)
_LONGEST_MARKUP_MARK: Final = 1024
_ADDRESS_MARK: Final = b"base64"  # behind a semicolon and spaces
_SPACES_MOST: Final = 80
# So much is read as text at once: what is encoded across two of them is found whole if it fits into the overlap.
_TEXT_BYTES: Final = 16 * 1024**2
_TEXT_OVERLAP_BYTES: Final = 1024**2
_ENTITY: Final = re.compile(r"<!ENTITY\s{1,80}([^\s%<>&;\"']{1,80})\s{1,80}(?:\"([^\"]*+)\"|'([^']*+)')")
_REFERENCE: Final = re.compile(r"&([^\s%<>&;#\"']{1,80});")
_ENTITIES_NESTED_MAX: Final = 8
_MAX_READ_TIMES: Final = 4
_READ_FLOOR_BYTES: Final = 1024**2
_CUT_BYTES: Final = 4096  # the end of a shorter address is in the next window
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)  # of JSON and scripts
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "", "f": ""}
_UNESCAPED_MOST: Final = 5  # pages in `srcdoc` of pages, whose references are those of their page
_ADDRESS_WORD: Final = b"data:"
_ADDRESS_START: Final = re.compile(rb"data:([^,<>]{0,1000}+),")  # in lower case
_ADDRESSES_MOST: Final = 100_000
_BASE64_TYPE: Final = re.compile(rb";\s*base64\s*\Z")
_PLAIN_TYPE: Final = re.compile(rb"\s*(?:[\w.+-]+/[\w.+-]+\s*)?(?:;.*)?\Z", re.DOTALL)
_PERCENT: Final = re.compile(rb"%[0-9A-Fa-f]{2}")
# Where an address ends, by the character before it.
_ADDRESS: Final = {
    b'"': re.compile(rb'[^"]*+'),
    b"'": re.compile(rb"[^']*+"),
    b"(": re.compile(rb"(?:[^()\s\\]|\\.|\([^()\s]*+\)|(?!))*+", re.DOTALL),
    b"=": re.compile(rb"[^\s>]*+"),
}
_OTHER_ADDRESS: Final = re.compile(rb"[^\s<>\"']*+")
_CLOSED: Final = frozenset({b'"', b"'", b"("})
_ASCII_SPACES: Final = b" \t\r\n\f\v"
_SPACES_OF_SPLIT: Final = _ASCII_SPACES + b"\x1c\x1d\x1e\x1f"
_NOT_CONTENT: Final = (("<!--", "-->"), ("<?", "?>"))
_MARKUP_END: Final = re.compile(rb"[<>\"'(){}\[\]]|\n(?=[A-Z;:-]{3,}[:;])")
_MIN_LETTERS: Final = 40  # shorter runs hide nothing that is worth a scan
# Plain pictures, recordings and fonts are not scanned.
_MEDIA_MAGICS: Final = (
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"wOFF", b"wOF2", b"\0\1\0\0\0", b"OTTO", b"true", b"II*\0",
    b"MM\0*", b"ID3",
)  # fmt: skip
# How the files begin, as letters, that are decoded wherever a run of letters begins with one.
_RUN_STARTS: Final = (
    b"TVo", b"TVp", b"TVq", b"TVr", b"f0VMR", b"yv66v", b"z/rt/", b"zvrt/", b"/u36z", b"ZGV4Cj", b"TAAAAAEUAg",
    b"IyEv", b"IyEg", b"UEsDB", b"UEsFB", b"UmFyIRo", b"N3q8rycc", b"H4sI", b"Qlpo", b"/Td6WFo", b"KLUv/", b"BCJNGA",
    b"TVNDRg", b"TVNXSU", b"SVRTRg", b"5FJce", b"0M8R4K", b"QWN0aXZlTWlt", b"JVBERi", b"e1xyd", b"WDVPIV",
)  # fmt: skip
_OF_RUN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_RUN_END: Final = re.compile(rb"[^A-Za-z0-9+/=_\s-]")
URL_LETTERS: Final = bytes.maketrans(b"-_", b"+/")
_PROGRAM_LETTERS: Final = 684  # enough to recognise a program by what it begins with
_PROGRAM_STARTS: Final = (b"TV", b"Iy")


def preload() -> None:
    """Compile what is compiled when it is first needed."""
    _scanner()


@cache
def _scanner() -> yara_x.Scanner:
    # A hundred times as fast as a search for each of them, and as a regular expression.
    runs = " ".join(f'$s{number} = "{start.decode()}"' for number, start in enumerate(_RUN_STARTS))
    marks = " ".join(f'$s{number} = "{needle.decode()}" nocase' for number, needle in enumerate(_MARKUP_NEEDLES))
    rules = (
        f"rule {name} {{ strings: {each} condition: any of them }}" for name, each in (("run", runs), ("mark", marks))
    )
    return yara_x.Scanner(yara_x.compile("\n".join(rules)))


def _places(window: bytes) -> Mapping[str, Sequence[int]]:
    """Return where in `window` a `run` of letters may begin, and where a `mark` does; nothing if none is there."""
    return {
        rule.identifier: sorted(match.offset for pattern in rule.patterns for match in pattern.matches)
        for rule in _scanner().scan(window).matching_rules
    }


def is_encoded_text(window: bytes) -> bool:
    """Return whether something encoded begins in `window`."""
    places = _places(window)
    begins = chain(_marked(window, places.get("mark", ())), _run_starts(window, places.get("run", ())))
    return next(begins, None) is not None or has_address(window)


def has_address(window: bytes) -> bool:
    """Return whether an address with the bytes of a file begins in `window`, whatever the width of its letters is."""
    return any(True for _ in _addresses(window.replace(b"\0", b""), with_base64=True))


def _run_starts(window: bytes, places: Sequence[int]) -> Iterator[int]:
    """Yield at which of the places a run of letters begins as a file does that is decoded without any mark."""
    for at in places:
        if at and window[at - 1] in _OF_RUN:
            continue
        if window.startswith(_PROGRAM_STARTS, at):
            if _RUN_END.search(window, at, at + _MIN_LETTERS):
                continue
            letters = _RUN_END.split(window[at : at + _PROGRAM_LETTERS], maxsplit=1)[0].translate(URL_LETTERS)
            if recognise("", b"".join(decode_base64(iter((letters,))))) is None:
                continue
        yield at


def _marked(window: bytes, places: Sequence[int]) -> Iterator[int]:
    """Yield where something encoded begins behind the marks at these places."""
    lower = window.lower() if places else b""
    for at in places:
        if lower.startswith(_ADDRESS_MARK, at) and not lower[max(0, at - _SPACES_MOST) : at].rstrip().endswith(b";"):
            continue
        if found := _MARKUP_MARK.match(lower, at):
            yield found.end()


def text_parts(source: RandomAccess) -> Iterator[Part]:
    """Yield what is encoded in a text, but for plain pictures and fonts, in its order, and then what its text adds."""
    known = set[bytes]()
    yield from _parts_of(source, known)
    encoding = encodings_of(source.read_at(0, DECLARATION_BYTES_MAX))[0]
    for begin, window in windows(source, _TEXT_BYTES, _TEXT_OVERLAP_BYTES):
        text = "".join(text_of(iter((window,)), encoding if begin == 0 else _without_mark(encoding, source)))
        is_cut = begin + len(window) < source.size
        text = _without_references(text)
        yield from _addressed(text, known, is_cut=is_cut)
        text = _as_read(text)
        read = text.encode("utf-8", "replace")
        if read != window:
            yield from _parts_of(MemorySource(bytearray(read)), known)
        yield from _parts_of(MemorySource(bytearray(_without_spaces(text))), known, is_joined=True)


def _without_mark(encoding: str, source: RandomAccess) -> str:
    """Return the codec for what is behind the first bytes, whose mark gave the order of those that follow."""
    order = {b"\xff\xfe": "-le", b"\xfe\xff": "-be"}.get(source.read_at(0, 2), "")
    return encoding + order if encoding in {"utf-16", "utf-32"} else encoding


def _without_references(text: str) -> str:
    """Return a text with entities and character references replaced, and those that they make of each other."""
    entities = {found[1]: found[2] or found[3] or "" for found in _ENTITY.finditer(text)}
    longest = _MAX_READ_TIMES * len(text) + _READ_FLOOR_BYTES
    for _ in range(_ENTITIES_NESTED_MAX if entities else 0):
        added = sum(len(entities.get(found[1], "")) for found in _REFERENCE.finditer(text))
        if len(text) + added > longest:
            raise OverBudget("markup whose entities multiply")
        text = _REFERENCE.sub(lambda found: entities.get(found[1], found[0]), text)
        if not added:
            break
    for _ in range(_UNESCAPED_MOST):
        if "&" not in text or (plain := unescape(text)) == text:
            break
        text = plain
    return text


def _addressed(text: str, known: set[bytes], *, is_cut: bool) -> Iterator[Part]:
    """Yield the files in the addresses of a text, in each way in which escapes are read, and then without spaces.

    `is_cut`: the text continues after its end.
    """
    readings = dict.fromkeys((text, *((_ESCAPE.sub(_escaped, text), css_unescaped(text)) if "\\" in text else ())))
    limit = _ReadLimit(len(readings) * len(text))
    for reading in readings:
        read = reading.encode("utf-8", "replace")
        joined = read.translate(None, _ASCII_SPACES)
        yield from _files_in(read, limit, known, is_cut=is_cut)
        if joined != read:
            yield from _files_in(joined, limit, known, is_cut=is_cut, is_joined=True)


def _files_in(
    text: bytes, limit: _ReadLimit, known: set[bytes], *, is_cut: bool, is_joined: bool = False
) -> Iterator[Part]:
    """Yield the file of each address in a text whose bytes are not in `known`."""
    for start, end in _addresses(text, is_joined=is_joined):
        if is_cut and end == len(text) and end - start > _CUT_BYTES:
            raise OverBudget(f"an address of more than {_TEXT_OVERLAP_BYTES} bytes")
        data = unquote_to_bytes(b"".join(limit.counted(iter((text[start:end],)))))
        digest = hashlib.sha256(data).digest()
        if digest not in known and not data.startswith(_MEDIA_MAGICS):
            known.add(digest)
            yield Part("", iter((data,)), hidden_from_clamd=True)


def _addresses(text: bytes, *, with_base64: bool = False, is_joined: bool = False) -> Iterator[tuple[int, int]]:
    """Yield where files begin and end in the addresses of a text; not in base64, which is read otherwise, if not asked.

    `is_joined`: no spaces tell where an address ends.
    """
    count, percent = 0, -1
    ends: dict[bytes, int] = {}
    for found in _address_starts(text.lower()):
        at, start = found.span()
        before = text[max(0, at - 1) : at]
        if before.isspace():
            before = text[max(0, at - _SPACES_MOST) : at].rstrip()[-1:]
        if is_joined and before not in _CLOSED:
            continue
        if start > ends.get(before, -1) or before == b"(":  # each part of a text is searched once for the same end
            content = _ADDRESS.get(before, _OTHER_ADDRESS).match(text, start)
            ends[before] = content.end() if content else start
        end = ends[before]
        if end - start < _MIN_LETTERS or (not with_base64 and _BASE64_TYPE.search(found[1])):
            continue
        if is_plain := _PLAIN_TYPE.match(found[1]) is not None:
            count += 1
            if count > _ADDRESSES_MOST:
                raise OverBudget(f"more than {_ADDRESSES_MOST} addresses of data in a text")
        elif percent < start:
            code = _PERCENT.search(text, start)
            percent = code.start() if code else len(text)
        if is_plain or percent < end:  # else it is a text that has this word
            yield start, end


def _address_starts(lower: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the matches of `_ADDRESS_START`, five times as fast as `finditer`."""
    at = lower.find(_ADDRESS_WORD)
    while at >= 0:
        found = _ADDRESS_START.match(lower, at)
        if found:
            yield found
        at = lower.find(_ADDRESS_WORD, found.end() if found else at + 1)


def _as_read(text: str) -> str:
    """Return a text with percent signs and escapes replaced."""
    text = unquote_to_bytes(text).decode("utf-8", "replace") if "%" in text else text
    return _ESCAPE.sub(_escaped, text) if "\\" in text else text


def _escaped(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else _CONTROLS.get(escape[3], escape[3])


def _without_spaces(text: str) -> bytes:
    """Return a text as a parser joins it: without comments, instructions, the brackets of CDATA, and spaces."""
    # A letter that is nowhere is found missing ten times as fast as a word.
    for opens, closes in _NOT_CONTENT:
        if opens[1] not in text:
            continue
        kept, at = [], 0
        while (begin := text.find(opens, at)) >= 0 and (end := text.find(closes, begin + len(opens))) >= 0:
            kept.append(text[at:begin])
            at = end + len(closes)
        text = "".join((*kept, text[at:]))
    if "[" in text:
        text = text.replace("<![CDATA[", "")
    if "]" in text:
        text = text.replace("]]>", "")
    packed = text.encode("utf-8", "surrogatepass").translate(None, _SPACES_OF_SPLIT)
    if packed.isascii():
        return packed
    return "".join(packed.decode("utf-8", "surrogatepass").split()).encode("utf-8", "replace")


def _parts_of(source: RandomAccess, known: set[bytes], *, is_joined: bool = False) -> Iterator[Part]:
    """Yield each part whose letters are not in `known`. `is_joined`: no spaces tell where the name of a mark ends."""
    limit, reached = _ReadLimit(source.size), -1
    for begin, window in windows(source, _SEARCHED_BYTES, _LONGEST_MARKUP_MARK):
        places = _places(window)
        marked = set() if is_joined else set(_marked(window, places.get("mark", ())))
        for at in sorted(marked.union(_run_starts(window, places.get("run", ())))):
            if begin + at > reached:
                reached = begin + at
                yield from _part_at(source, reached, limit, known, is_marked=at in marked)


def _part_at(source: RandomAccess, at: int, limit: _ReadLimit, known: set[bytes], *, is_marked: bool) -> Iterator[Part]:
    head = next(_letters(source, at, is_marked=is_marked))[: _MIN_LETTERS * 2]
    if len(head) < _MIN_LETTERS:
        return
    if b"".join(decode_base64(iter((head[: _MIN_LETTERS // 4 * 4],)))).startswith(_MEDIA_MAGICS):
        return
    digest = hashlib.sha256()
    for piece in limit.counted(_letters(source, at, is_marked=is_marked)):
        digest.update(piece.translate(None, NOT_BASE64))
    if digest.digest() not in known:
        known.add(digest.digest())
        yield Part("", decode_base64(_letters(source, at, is_marked=is_marked)), hidden_from_clamd=True)


def _letters(source: RandomAccess, at: int, *, is_marked: bool) -> Iterator[bytes]:
    """Yield the letters from `at`, in either alphabet of base64 where no mark tells which."""
    end = _MARKUP_END if is_marked else _RUN_END
    first = source.read_at(at, _SHORT_BYTES)
    for piece in chain((first,), read_pieces(source, at + len(first), piece_bytes=_DECODED_BYTES)):
        found = end.search(piece)
        letters = piece if found is None else piece[: found.start()]
        yield letters if is_marked else letters.translate(URL_LETTERS)
        if found is not None:
            return


class _ReadLimit:
    """How many bytes may be decoded where parts have no end and so overlap."""

    def __init__(self, size: int) -> None:
        self._left = _MAX_READ_TIMES * size + _READ_FLOOR_BYTES

    def counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Pass pieces on. Raise `OverBudget` beyond the limit."""
        for piece in pieces:
            self._left -= len(piece)
            if self._left < 0:
                raise OverBudget("markup whose encoded parts overlap")
            yield piece


def decode_base64(encoded: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what letters in pieces decode to; whatever is no letter is skipped."""
    carry = b""
    for piece in encoded:
        # Some readers continue after padding, and what they see must be scanned: each run of letters between padding is
        # decoded.
        *runs, last = (carry + piece.translate(None, NOT_BASE64)).split(b"=")
        end = len(last) // 4 * 4
        carry = last[end:]
        yield b"".join(map(_decode_run, [*runs, last[:end]]))
    yield _decode_run(carry)


def _decode_run(letters: bytes) -> bytes:
    usable = letters[:-1] if len(letters) % 4 == 1 else letters  # a single letter left over encodes nothing
    return binascii.a2b_base64(usable + b"=" * (-len(usable) % 4))
