"""What a Rich Text document has besides its text: templates elsewhere, objects, fields that start something."""

import io
import re
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.fields import starts_dde
from sluice_inspect.facts.subject import Subject, is_remote
from sluice_inspect.office.rtf_tokens import TokenType, read_tokens
from sluice_inspect.report import FactSheet

_TELLING: Final = re.compile(
    rb"\\(?:template|fldinst|objdata|objclass|objemb|objocx|objlink|objautlink|objupdate)(?![a-z])"
)
_BRACE: Final = re.compile(rb"\\[{}\\]|[{}]")
_SHORT_GROUP_BYTES: Final = 1024
_GROUP_BYTES: Final = 64 * 1024
_LONGEST_WORD: Final = 16
_CHUNK: Final = 1024**2
_LINK: Final = re.compile(r"\b(?:INCLUDEPICTURE|INCLUDETEXT|INCLUDE|IMPORT|LINK)\b", re.IGNORECASE)
_PACKAGE: Final = "5061636b616765"  # the class `Package` of an OLE 1.0 object, in its hexadecimal digits
_KEPT: Final = 4096  # characters of one destination
_ESCAPED: Final = frozenset({b"\\", b"{", b"}"})
_OBJECT_WORDS: Final = {
    b"objemb": "object.ole", b"objdata": "object.ole", b"objocx": "object.activex", b"objlink": "link.external",
    b"objautlink": "link.external", b"objupdate": "object.ole",
}  # fmt: skip
_DESTINATIONS: Final = frozenset({b"template", b"fldinst", b"objdata", b"objclass"})


def measure_rtf(subject: Subject, sheet: FactSheet) -> None:
    """Add the flags. Only the groups with a telling word are read by tokens, each byte once."""
    deadline = Deadline(subject.limits.soft_seconds)
    source, reached, carry = subject.source, 0, b""
    for at in range(0, source.size, _CHUNK):
        window, begin = carry + source.read_at(at, _CHUNK), at - len(carry)
        for found in _TELLING.finditer(window):
            if begin + found.start() < reached:
                continue
            group = _group_at(subject, begin + found.start())
            reached = begin + found.start() + len(group)
            _read_group(group, sheet)
            if deadline.has_passed:
                sheet.complete = False
                return
        carry = window[-_LONGEST_WORD:]


def _group_at(subject: Subject, start: int) -> bytes:
    """Return the bytes up to the end of the group that `start` is in, or as many as are looked at."""
    for size in (_SHORT_GROUP_BYTES, _GROUP_BYTES):
        data, depth = subject.source.read_at(start, size), 0
        for found in _BRACE.finditer(data):
            depth += {b"{": 1, b"}": -1}.get(found.group(), 0)
            if depth < 0:
                return data[: found.start()]
    return data


def _read_group(group: bytes, sheet: FactSheet) -> None:
    finder = _RtfFinder(sheet)
    for token in read_tokens(io.BytesIO(group)):
        if token.type is TokenType.OPEN:
            finder.open()
        elif token.type is TokenType.CLOSE:
            finder.close()
        elif token.type is TokenType.WORD:
            finder.word(token.text, token.number)
        elif token.type in {TokenType.TEXT, TokenType.BYTE} or token.text in _ESCAPED:
            finder.text(token.text)
        elif token.type is TokenType.BINARY:
            finder.text(token.text[: _KEPT // 2].hex().encode())
    finder.end()


class _RtfFinder:
    """Collects the text of the destinations that tell something; text in groups within them belongs to them."""

    def __init__(self, sheet: FactSheet) -> None:
        self._sheet = sheet
        self._depth = 0
        self._skips = False
        self._open: list[tuple[int, bytes, list[str]]] = []

    def open(self) -> None:
        self._depth += 1

    def close(self) -> None:
        self._depth -= 1
        while self._open and self._open[-1][0] > self._depth:
            _, destination, pieces = self._open.pop()
            self._judge(destination, "".join(pieces))

    def end(self) -> None:
        self._depth = -1
        self.close()

    def word(self, word: bytes, number: int | None) -> None:
        if word == b"u" and number is not None and self._open:
            self._open[-1][2].append(chr(number & 0xFFFF))
            self._skips = True  # the character for readers without Unicode follows
        if word in _OBJECT_WORDS:
            self._sheet.flags.add(_OBJECT_WORDS[word])
        if word in _DESTINATIONS:
            self._open.append((self._depth, word, []))

    def text(self, text: bytes) -> None:
        skipped, self._skips = self._skips, False
        if self._open:
            text = text[skipped:]
            pieces = self._open[-1][2]
            if len(pieces) < _KEPT:
                pieces.append(text[:_KEPT].decode("latin-1"))

    def _judge(self, destination: bytes, text: str) -> None:
        if destination == b"template":
            if is_remote(text):
                self._sheet.flags.add("template.remote")
        elif destination == b"fldinst":
            plain = text.replace("\r", "").replace("\n", "")
            if starts_dde(plain):
                self._sheet.flags.add("dde")
            if _LINK.search(plain):
                self._sheet.flags.add("link.external")
        elif _PACKAGE in re.sub(r"[^0-9a-f]", "", text.lower()) or "package" in text.lower():
            self._sheet.flags |= {"package", "object.ole"}
