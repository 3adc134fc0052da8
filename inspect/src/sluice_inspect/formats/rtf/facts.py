"""What a Rich Text document has besides its text: templates elsewhere, objects, fields that start something."""
# Words that tell something are searched for in the bytes, and the groups that they are in are read by tokens.

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.fields import is_remote, starts_dde
from sluice_inspect.formats.rtf.reading import RtfReading
from sluice_inspect.formats.rtf.readings import readings_of
from sluice_inspect.office.rtf_tokens import Token, TokenType, read_tokens
from sluice_inspect.report import FactSheet
from sluice_inspect.source import open_pieces
from sluice_inspect.subject import Subject

_BRACE: Final = re.compile(rb"[{}]|\\(?:[{}\\]|bin(?![A-Za-z])(-?\d{1,20})? ?)")
_LINK: Final = re.compile(r"\b(?:INCLUDEPICTURE|INCLUDETEXT|INCLUDE|IMPORT|LINK)\b", re.IGNORECASE)
_PACKAGE: Final = "5061636b616765"  # the class `Package` of an OLE 1.0 object, in its hexadecimal digits
_OBJECT_WORDS: Final = {
    b"objemb": "object.ole", b"objdata": "object.ole", b"objocx": "object.activex", b"objlink": "link.external",
    b"objautlink": "link.external", b"objupdate": "object.ole",
}  # fmt: skip
_DESTINATIONS: Final = frozenset({b"template", b"fldinst", b"objdata", b"objclass"})
_OBJECT_DESTINATIONS: Final = frozenset({b"objdata", b"objclass"})
_NO_DIGIT: Final = re.compile("[^0-9a-f]+")
_WHITE_SPACE: Final = b" \t\r\n\f\v"
_SEPARATOR: Final = Token(TokenType.WORD, b"tab")

_KEPT_TOKENS: Final = 16 * 1024  # of one destination
_KEPT_BYTES: Final = 256 * 1024
_MAX_SKIP_COUNTS: Final = 8  # different ones in a document; those of programs are 0, 1 and 2
_MAX_READ_TIMES: Final = 2  # how often the file may be read because groups with binary data nest
_READ_FLOOR_BYTES: Final = 64 * 1024
# Work on readings but the first, in all destinations: a token is one unit, as is this number of bytes of text.
_MAX_WORK: Final = 1_000_000
_BYTES_PER_UNIT: Final = 64
_UNITS_PER_READING: Final = 10


def measure_rtf(subject: Subject, sheet: FactSheet) -> None:
    """Add the flags, as far as the document is read."""
    reading, deadline = subject.source.cached(RtfReading), Deadline(subject.limits.soft_seconds)
    data = reading.data
    finder = _RtfFinder(reading, sheet, deadline)
    reached, unread = 0, _MAX_READ_TIMES * len(data) + _READ_FLOOR_BYTES
    for start, word, *_ in reading.words():
        if word in _OBJECT_WORDS:
            sheet.flags.add(_OBJECT_WORDS[word])
        if word not in _DESTINATIONS or start < reached:
            continue
        end, following = _group_end(data, start)
        unread -= end - start
        if unread < 0 or deadline.has_passed:
            sheet.complete = False
            return
        if finder.read(read_tokens(open_pieces(subject.source, [(start, end - start)]))):
            reached = following


def _group_end(data: memoryview, start: int) -> tuple[int, int]:
    """Return where the group ends that `start` is in, and where its first binary data begins, or else the end again."""
    depth, at, binary = 0, start, None
    while found := _BRACE.search(data, at):
        at, brace = found.end(), found.group()
        if brace == b"{":
            depth += 1
        elif brace == b"}":
            depth -= 1
            if depth < 0:
                at = found.start()
                return at, at if binary is None else binary
        elif brace.startswith(b"\\bin"):
            binary = at if binary is None else binary
            at += max(0, int(found[1] or 0))
    return len(data), len(data) if binary is None else binary


@dataclass(slots=True)
class _Destination:
    """One that tells something. Its tokens are those of groups within it too, but for those of destinations there."""

    depth: int
    words: set[bytes]
    tokens: list[Token] = field(default_factory=list)
    bytes: int = 0
    is_cut: bool = False

    @property
    def is_object(self) -> bool:
        return self.words <= _OBJECT_DESTINATIONS


class _RtfFinder:
    """Adds the flags of groups."""

    def __init__(self, reading: RtfReading, sheet: FactSheet, deadline: Deadline) -> None:
        self._reading = reading
        self._sheet = sheet
        self._deadline = deadline
        self._skip_counts: Sequence[int] = ()
        self._work_left = _MAX_WORK

    def read(self, tokens: Iterable[Token]) -> bool:
        """Add the flags of a group that begins with a destination. Return False if there may be more within it."""
        depth, nested = 0, list[_Destination]()
        for each in tokens:
            token, kind = each, each.type
            if kind is TokenType.OPEN:
                depth += 1
            elif kind is TokenType.CLOSE:
                depth -= 1
                if nested[-1].depth > depth:
                    self._judge(nested.pop())
            elif kind is TokenType.WORD and token.text in _DESTINATIONS:
                if not nested or nested[-1].depth < depth:
                    nested.append(_Destination(depth, {token.text}))
                    continue
                nested[-1].words.add(token.text)
                token = _SEPARATOR
            if not self._keep(token, nested[-1]):
                break
        is_whole = all(each.is_object or not each.is_cut for each in nested)
        while nested:
            self._judge(nested.pop())
        self._sheet.complete &= is_whole
        return is_whole

    def _keep(self, token: Token, destination: _Destination) -> bool:
        """Keep a token. Return False if nothing more is kept."""
        tokens, text = destination.tokens, token.text
        if destination.is_object and token.type is TokenType.TEXT:
            text = text.translate(None, _WHITE_SPACE)
        room = _KEPT_BYTES - destination.bytes
        destination.is_cut = len(tokens) == _KEPT_TOKENS or len(text) > room
        tokens.append(token if len(text) == len(token.text) <= room else replace(token, text=text[:room]))
        destination.bytes += len(text)
        return not destination.is_cut

    def _judge(self, destination: _Destination) -> None:
        """Add the flags of all readings of a destination."""
        tokens = destination.tokens
        if not tokens:
            return
        size = _UNITS_PER_READING + len(tokens) + destination.bytes // _BYTES_PER_UNIT
        skip_counts = self._all_skip_counts() if any(token.text == b"u" for token in tokens) else ()
        for count, text in enumerate(readings_of(tokens, skip_counts, is_hexadecimal=destination.is_object)):
            self._work_left -= size if count else 0
            if text is None or self._work_left < 0 or (count and self._deadline.has_passed):
                self._sheet.complete = False
                return
            self._judge_text(destination, text)

    def _all_skip_counts(self) -> Sequence[int]:
        """Return the numbers of characters that one in Unicode may replace anywhere in the document."""
        if not self._skip_counts:
            counts = {1}
            for stated in (*self._reading.short_skip_counts, *self._reading.long_skip_counts):
                counts |= {0, 1} if stated is None else {max(0, stated)}
                if len(counts) > _MAX_SKIP_COUNTS:
                    self._sheet.complete = False
                    break
            self._skip_counts = sorted(counts)
        return self._skip_counts

    def _judge_text(self, destination: _Destination, text: str) -> None:
        words, flags = destination.words, self._sheet.flags
        if b"template" in words and is_remote(text):
            flags.add("template.remote")
        if b"fldinst" in words:
            if starts_dde(text):
                flags.add("dde")
            if _LINK.search(text):
                flags.add("link.external")
        if words & _OBJECT_DESTINATIONS:
            lower = text.lower()
            if _PACKAGE in _NO_DIGIT.sub("", lower) or "package" in lower:
                flags |= {"package", "object.ole"}
