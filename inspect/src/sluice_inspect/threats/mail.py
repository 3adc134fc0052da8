"""The parts of Internet mail (RFC 5322, RFC 2045), in every reading: by its structure, and by each header in it."""
# The structure is followed as by readers that keep to it: boundaries that are declared around a part end it. Other
# readers stop at any line that looks like a boundary, so that each part whose header names an encoding is read up to
# there as well. Lines end in CR, LF or both. In base64, readers differ on padding within, on letters that stand in
# lines with others, and on lines that are no multiple of four letters.

import binascii
import email
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sluice_inspect.parts import Part
from sluice_inspect.source import RandomAccess
from sluice_inspect.text.mail_fields import has_many_parameters
from sluice_inspect.threats.budget import OverBudget
from sluice_inspect.threats.detect import formats_of
from sluice_inspect.threats.encoded import NOT_BASE64, URL_LETTERS, decode_base64
from sluice_inspect.threats.streams import packing_of
from sluice_inspect.threats.tar import is_tar

_ENCODING: Final = re.compile(
    rb"content-transfer-encoding[^:\r\n]{0,80}:((?:[^\r\n]|\r?\n[ \t]|\r[ \t]){0,998})", re.IGNORECASE
)
_ENCODING_WORD: Final = b"content-transfer-encoding"
_KNOWN_ENCODING: Final = re.compile(rb"base64|quoted-printable|uu|xx", re.IGNORECASE)
_PLAIN_ENCODING: Final = re.compile(rb"[ \t]*(?:base64|quoted-printable)[ \t]*", re.IGNORECASE)
_COMMENT: Final = re.compile(rb"\((?:[^()\\]|\\.)*+\)", re.DOTALL)
_QUOTED: Final = re.compile(rb"\"((?:[^\"\\]|\\.)*+)\"", re.DOTALL)
_ESCAPED: Final = re.compile(rb"\\(.)", re.DOTALL)
_MAX_COMMENTS: Final = 10
# Without lines that may be boundaries, which are matched by `_DASHED_FIELD`.
_FIELDS: Final = re.compile(rb"(?:(?!--)(?:[!-9;-~]*+:|[ \t]|From |>From )[^\r\n]*+(?:\r\n|\r|\n|\Z)|(?!))*+")
_DASHED_FIELD: Final = re.compile(rb"--([!-9;-~]*+:[^\r\n]*+)(?:\r\n|\r|\n|\Z)")
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BLANK_LINE: Final = re.compile(rb"(?:\r\n|\n|\r(?!\n)) *(?:\r\n|\r|\n)")
# What stands at the beginning of a line is searched by its first letters, which are rarer than lines.
_DASHED_LINE: Final = re.compile(rb"--(?<![^\r\n]--)([^\r\n]*+)(\r\n|\r|\n|\Z)")
_END_OF_PART: Final = (b"\n--", b"\r--", b"\nFrom ", b"\rFrom ")
_END_OF_PART_BYTES: Final = 5  # of which a needle may be beyond the bytes that are searched at once
_SEARCHED_BYTES: Final = 1024**2
_BOM: Final = b"\xef\xbb\xbf"
_CONTAINER: Final = re.compile(rb"multipart|message/", re.IGNORECASE)
_MULTIPART: Final = re.compile(rb"multipart/", re.IGNORECASE)
_FILE_NAME: Final = re.compile(rb"(?i)name\*?[0-9*]{0,4}=[ \t]*(?:\"([^\"\r\n]{1,255})|([^\s;\"]{1,255}))")
_UU_WORD: Final = b"begin"
_UU_BEGIN: Final = re.compile(rb"begin(?<![^\r\n]begin)(?:-base64)? [0-7]{1,6} ([^\r\n]{1,255})(?:\r\n|\r|\n)")
# xxencode has other letters for the same bits, and uuencode has no small letters.
_XX: Final = b"+-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_XX_LETTERS: Final = bytes.maketrans(_XX, bytes(range(0x20, 0x60)))
_XX_ONLY: Final = re.compile(rb"[a-z]")
_UU_END: Final = re.compile(rb"(?:\A|(?<=[\r\n]))(?:end|====)[ \t]*(?:[\r\n]|\Z)")
_LONE_RETURN: Final = re.compile(rb"\r(?!\n)")
_LINE: Final = re.compile(rb"[^\r\n]+")
# Base64 as programs write it: lines of whole groups of four letters, padding at the end only.
_TIDY: Final = re.compile(
    rb"(?:(?:[A-Za-z0-9+/]{4})*+[ \t]*+(?:\r\n|\n|\r)|(?!))*+(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2,3}={1,2})?\s*+"
)
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_OF_ADDRESSES: Final = re.compile(rb"[A-Za-z0-9+/][_-][A-Za-z0-9+/]")
_PADDING_WITHIN: Final = re.compile(rb"=[^A-Za-z0-9+/=]*[A-Za-z0-9+/]")
# RFC 2045, 6.7: mail servers may add white space at the end of a line, which readers take away.
_PADDED_SOFT_BREAK: Final = re.compile(rb"=[ \t]++(?=[\r\n])")
_MAX_HEADERS_BYTES: Final = 256 * 1024
_MAX_CONTAINERS: Final = 1_000  # multiparts and messages in one mail
_MAX_DEPTH: Final = 100
_MAX_DASHED_LINES: Final = 200_000  # that are compared with the boundaries of one mail
_MAX_DASHED_FIELDS: Final = 1_000
# Parts by their headers alone may overlap: the mail may be read this often, and this many bytes more.
_MAX_READ_TIMES: Final = 4
_READ_FLOOR_BYTES: Final = 1024**2
_MAX_NAME: Final = 255
_HEAD_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Body:
    """A part: its headers as they are, and where its content is."""

    headers: bytes
    start: int
    end: int


def is_encoded_mail(window: bytes) -> bool:
    """Return whether the header of an encoded part is in `window`."""
    return any(_KNOWN_ENCODING.search(found[1]) for found in _ENCODING.finditer(window))


def mail_parts(source: RandomAccess) -> Iterator[Part]:
    """Yield the parts of a mail, each in every reading. Raise `OverBudget` for one with too many parts within parts."""
    data = source.mapped()
    known: set[tuple[int, int, bytes]] = set()
    for body in _by_structure(data):
        yield from _decoded(data, body, known)
    for body in _by_encoding(data):
        yield from _decoded(data, body, known)
    yield from _uuencoded(data)


def begins_uuencoded(window: bytes) -> bool:
    """Return whether a uuencoded file begins in `window`."""
    return _UU_WORD in window and _UU_BEGIN.search(window) is not None


def uuencoded_parts(source: RandomAccess) -> Iterator[Part]:
    """Yield the files that are uuencoded anywhere in a text."""
    yield from _uuencoded(source.mapped())


class _Boundaries:
    """The boundaries of the multiparts around a place, outermost first, each in every reading of its parameter."""

    def __init__(self) -> None:
        self._stack: list[frozenset[bytes]] = []
        self._active: frozenset[bytes] = frozenset()
        self._compared = 0

    def __len__(self) -> int:
        return len(self._stack)

    def push(self, *readings: bytes) -> None:
        """Add the boundary of a multipart. Raise `OverBudget` if they nest too deep."""
        if len(self._stack) >= _MAX_DEPTH:
            raise OverBudget(f"a mail whose parts nest more than {_MAX_DEPTH} deep")
        self._stack.append(frozenset(readings))
        self._active = frozenset().union(*self._stack)

    def cut(self, depth: int) -> None:
        """Leave only the outermost `depth` boundaries."""
        if depth < len(self._stack):
            del self._stack[depth:]
            self._active = frozenset().union(*self._stack)

    def find(self, text: bytes) -> tuple[int, bool]:
        """Return which boundary a line is (-1: none) by what follows its two dashes, and whether it ends its part."""
        self._compared += 1
        if self._compared > _MAX_DASHED_LINES:
            raise OverBudget(f"a mail with more than {_MAX_DASHED_LINES} lines that may divide parts")
        text = text.rstrip(b" \t\r\n")
        for stated, is_end in ((text, False), (text.removesuffix(b"--"), True)):
            if stated in self._active:
                return max(depth for depth, readings in enumerate(self._stack) if stated in readings), is_end
        return -1, False


def _by_structure(data: memoryview) -> Iterator[_Body]:
    """Yield the parts that are no containers, as their boundaries divide them."""
    boundaries = _Boundaries()
    containers = _MAX_CONTAINERS
    part: _Body | None
    part, containers = _open_part(data, 0, boundaries, containers)
    for line in _DASHED_LINE.finditer(data) if len(boundaries) else ():
        if part is not None and line.start() < part.start:
            continue
        depth, is_end = boundaries.find(line[1])
        if depth < 0:
            continue
        if part is not None:
            yield _Body(part.headers, part.start, _without_line_end(data, part.start, line.start()))
        boundaries.cut(depth if is_end else depth + 1)
        part = None
        if not is_end:
            part, containers = _open_part(data, line.end(), boundaries, containers)
        elif not len(boundaries):
            return
    if part is not None:
        yield _Body(part.headers, part.start, len(data))


def _open_part(data: memoryview, at: int, boundaries: _Boundaries, containers: int) -> tuple[_Body, int]:
    """Return the part that begins at `at`, past the headers of messages in it, and how many containers may follow."""
    while True:
        headers, start = _headers(data, at, boundaries)
        if _CONTAINER.search(headers) is None:
            return _Body(headers, start, start), containers
        containers -= 1
        if containers < 0:
            raise OverBudget(f"a mail of more than {_MAX_CONTAINERS} parts that hold others")
        if has_many_parameters(headers):
            raise OverBudget("a mail with more parameters of a field than are read")
        message = email.message_from_bytes(headers)
        boundary = message.get_boundary()
        if message.get_content_maintype() == "message" and start > at:
            at = start
            continue
        if message.get_content_maintype() == "multipart" and boundary is not None:
            stated = boundary.encode("utf-8", "surrogateescape")
            quoted = _QUOTED.match(stated)  # a comment stands behind it
            boundaries.push(stated, *([] if quoted is None else [_ESCAPED.sub(rb"\1", quoted[1])]))
        return _Body(headers, start, start), containers


def _headers(data: memoryview, at: int, boundaries: _Boundaries) -> tuple[bytes, int]:
    """Return the header lines from `at`, up to a limit, and where the content after them begins."""
    start = at
    at += len(_BOM) if bytes(data[at : at + len(_BOM)]) == _BOM else 0
    for _ in range(_MAX_DASHED_FIELDS):
        fields = _FIELDS.match(data, at)
        at = fields.end() if fields else at
        dashed = _DASHED_FIELD.match(data, at)
        if dashed is None or boundaries.find(dashed[1])[0] >= 0:
            break
        at = dashed.end()
    blank = _LINE_END.match(data, at)
    return bytes(data[start : min(at, start + _MAX_HEADERS_BYTES)]), blank.end() if blank else at


def _by_encoding(data: memoryview) -> Iterator[_Body]:
    """Yield a part for each header that names an encoding, wherever it is, up to the next line with two dashes."""
    reached, unread = 0, _MAX_READ_TIMES * len(data) + _READ_FLOOR_BYTES
    blank: re.Match[bytes] | None = None
    end = -1
    for found in _encodings(data):
        if found.start() < reached or not _KNOWN_ENCODING.search(found[1]):
            continue
        if blank is None or blank.start() < found.end():
            blank = _BLANK_LINE.search(data, found.end())
        if blank is None:
            return
        if blank.start() - found.end() > _MAX_HEADERS_BYTES:
            continue
        before = bytes(data[max(reached, found.start() - _MAX_HEADERS_BYTES) : found.start()])
        reached = blank.end()
        blanks_before = [match.end() for match in _BLANK_LINE.finditer(before)]
        headers = before[blanks_before[-1] if blanks_before else 0 :] + bytes(data[found.start() : blank.start()])
        if end < reached:
            end = _end_of_part(data, reached)
        # For some readers, the first line that is no field begins the content, blank or not.
        fields = _FIELDS.match(data, found.end() + len(_line_end(data, found.end())))
        starts = {reached, fields.end() if fields and fields.end() < blank.start() else reached}
        unread -= (end - reached) * len(starts)
        if unread < 0:
            raise OverBudget("a mail whose encoded parts overlap")
        for start in sorted(starts):
            yield _Body(headers, start, _without_line_end(data, start, end) if end < len(data) else end)


def _encodings(data: memoryview) -> Iterator[re.Match[bytes]]:
    """Yield the matches of `_ENCODING`, five times as fast as `finditer`."""
    reached = 0
    for begin in range(0, len(data), _SEARCHED_BYTES):
        lower = bytes(data[begin : begin + _SEARCHED_BYTES + len(_ENCODING_WORD) - 1]).lower()
        at = lower.find(_ENCODING_WORD)
        while at >= 0:
            found = _ENCODING.match(data, begin + at) if begin + at >= reached else None
            if found:
                yield found
                reached = found.end()
            at = lower.find(_ENCODING_WORD, at + 1)


def _end_of_part(data: memoryview, at: int) -> int:
    """Return where the first line from `at` on begins with two dashes or as a message of a mailbox does."""
    # The line end before it may be the last byte before `at`.
    for begin in range(max(0, at - 1), len(data), _SEARCHED_BYTES):
        piece = bytes(data[begin : begin + _SEARCHED_BYTES + _END_OF_PART_BYTES])
        found = [place for needle in _END_OF_PART if (place := piece.find(needle)) >= 0]
        if found:
            return begin + min(found) + 1
    return len(data)


def _line_end(data: memoryview, at: int) -> bytes:
    found = _LINE_END.match(data, at)
    return found.group() if found else b""


def _without_line_end(data: memoryview, start: int, end: int) -> int:
    if end > start and data[end - 1] == ord("\n"):
        end -= 1
        return end - 1 if end > start and data[end - 1] == ord("\r") else end
    return end - 1 if end > start and data[end - 1] == ord("\r") else end


def _decoded(data: memoryview, body: _Body, known: set[tuple[int, int, bytes]]) -> Iterator[Part]:
    """Yield the content of a part in every encoding that its headers name; as it is if they name none."""
    if body.end <= body.start:
        return
    stated = [found[1] for found in _ENCODING.finditer(body.headers)]
    encodings = {_without_comments(value) for value in stated}
    names = {name for value in encodings for name in (b"base64", b"quoted", b"uu") if name in value} or {b""}
    found_name = _FILE_NAME.search(body.headers)
    name = (found_name[1] or found_name[2])[:_MAX_NAME].decode("utf-8", "replace") if found_name else ""
    for encoding in sorted(names):
        key = (body.start, body.end, encoding)
        if key in known:
            continue
        known.add(key)
        content = bytes(data[body.start : body.end])
        is_odd = len(stated) > 1 or not all(map(_PLAIN_ENCODING.fullmatch, stated))
        is_odd = is_odd or _LONE_RETURN.search(body.headers) is not None or _LONE_RETURN.search(content) is not None
        if encoding == b"base64":
            readings = _base64_readings(content)
        elif encoding == b"quoted":
            readings = _quoted_readings(content)
        else:
            yield from () if encoding else _plain(name, content)
            continue
        for number, reading in enumerate(readings):
            # Parts may not be encoded together (RFC 2045, 6.4), but some readers decode them.
            is_mail = _MULTIPART.search(body.headers) is not None and not formats_of(reading[:_HEAD_BYTES])
            format_name = "mail" if is_mail else ""
            yield Part(name, iter((reading,)), hidden_from_clamd=is_odd or number > 0, format_name=format_name)


def _plain(name: str, content: bytes) -> Iterator[Part]:
    """Yield a part that is not encoded, if it begins as anything that is opened but another mail."""
    # Messages within the mail were followed above. Others would be texts whose paragraphs begin with a colon word.
    formats = [each for each in formats_of(content[:_HEAD_BYTES]) if each != "mail"]
    for each in formats:
        yield Part(name, iter((content,)), format_name=each)
    if not formats and (packing_of(content[:_HEAD_BYTES]) or is_tar(content[:_HEAD_BYTES])):
        yield Part(name, iter((content,)))


def _without_comments(value: bytes) -> bytes:
    for _ in range(_MAX_COMMENTS):  # comments nest
        shorter = _COMMENT.sub(b"", value)
        if shorter == value:
            break
        value = shorter
    return bytes(value).translate(None, b" \t\r\n\"'").lower()


def _base64_readings(content: bytes) -> Iterator[bytes]:
    """Yield what base64 decodes to: the usual reading, and others where they differ."""
    usual = b"".join(decode_base64(iter((content,))))
    yield usual
    if _TIDY.fullmatch(content, _end_of_equal_lines(content)):
        return
    if _OF_ADDRESSES.search(content):
        yield b"".join(decode_base64(iter((content.translate(URL_LETTERS),))))
    if _PADDING_WITHIN.search(content):
        yield b"".join(decode_base64(iter((content.replace(b"=", b""),))))
    by_line, only = bytearray(), bytearray()
    for line in _LINE.finditer(content):
        letters = line.group().translate(None, NOT_BASE64)
        by_line += b"".join(decode_base64(iter((letters,))))
        if len(letters) == len(line.group().strip()):
            only += letters
    if by_line != usual:
        yield bytes(by_line)
    if (strict := b"".join(decode_base64(iter((bytes(only),))))) not in {usual, bytes(by_line)}:
        yield strict


def _end_of_equal_lines(content: bytes) -> int:
    """Return the end of lines of base64 that are all tidy and as long as the first one; 0 if not all of them are."""
    # Ten times as fast as the expression: bytes that are no letters are the line ends alone, at even distances.
    first = _LINE_END.search(content)
    if first is None or not first.start() or first.start() % 4:
        return 0
    count, line_end = max(0, len(content) // first.end() - 1), first.group()
    lines = content[: count * first.end()]
    are_equal = lines.translate(None, _BASE64) == line_end * count and all(
        lines[at :: first.end()] == line_end[at - first.start() :][:1] * count for at in range(*first.span())
    )
    return len(lines) if are_equal else 0


def _quoted_readings(content: bytes) -> Iterator[bytes]:
    """Yield what quoted-printable decodes to: with spaces at the end of a line taken away, as they are, and by CR."""
    unpadded = _PADDED_SOFT_BREAK.sub(b"=", content)
    yield binascii.a2b_qp(unpadded)
    if unpadded != content:
        yield binascii.a2b_qp(content)
    if _LONE_RETURN.search(content):
        yield binascii.a2b_qp(unpadded.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))


def _uuencoded(data: memoryview) -> Iterator[Part]:
    """Yield the files that are uuencoded or xxencoded anywhere in a mail."""
    reached = 0
    for found in _UU_BEGIN.finditer(data):
        if found.start() < reached:
            continue
        end = _UU_END.search(data, found.end())
        reached = end.start() if end else len(data)
        encoded = bytes(data[found.end() : reached])
        name = found[1].strip().decode("utf-8", "replace")
        if found.group().startswith(b"begin-"):
            readings = [b"".join(decode_base64(iter((encoded,))))]
        else:
            letters = (encoded, encoded.translate(_XX_LETTERS)) if _XX_ONLY.search(encoded) else (encoded,)
            readings = [b"".join(map(_uu_line, re.split(rb"[\r\n]+", each))) for each in letters]
        for reading in readings:
            yield Part(name, iter((reading,)), hidden_from_clamd=True)


def _uu_line(line: bytes) -> bytes:
    try:
        return binascii.a2b_uu(line)
    except binascii.Error:
        # Some encoders write more than the count in front of the line says.
        try:
            return binascii.a2b_uu(line[: (((line[0] - 32) & 63) * 4 + 5) // 3])
        except (binascii.Error, IndexError):
            return b""
