"""What is packed in a file: its parts, and how the scan opens the formats that hold some."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum, auto

from sluice_inspect.source import Arguments, RandomAccess, T, read_pieces


class PasswordRequired(Exception):
    """It cannot be opened without a password."""


class UnknownPacking(Exception):
    """It is packed in a way that is not known here. `str()` names the packing in a word or two."""


@dataclass(frozen=True, slots=True)
class Part:
    """A packed part of a file: its name, empty if it has none, and its unpacked bytes, read once and in order.

    `hidden_from_clamd`: clamd does not open this kind of packing, or not reliably. `format_name` is set for bytes that
    cannot be recognised alone: the source of a macro, a script, the target of an action. `is_picture`: only a scan of
    every part needs these bytes.
    """

    name: str
    content: Iterator[bytes]
    hidden_from_clamd: bool = False
    format_name: str = ""
    is_picture: bool = False


class Certainty(IntEnum):
    """How sure it is that bytes are of a format: the surest comes first."""

    SIGNATURE = auto()  # at the start
    HEADER = auto()  # somewhere in the first bytes
    WORD = auto()  # a few letters, behind white space


@dataclass(frozen=True, slots=True, kw_only=True)
class Opener:
    """How the scan recognises content of a format, within other files too, and what it finds packed in it."""

    begins: Callable[[bytes], bool]  # whether any reader takes bytes for the format that begin with these 64 KiB
    certainty: Certainty
    # Yields the parts. Raises `PasswordRequired`, `UnknownPacking`, or `OverBudget` for what cannot be opened.
    parts: Callable[[RandomAccess], Iterator[Part]]
    is_complete: bool = False  # clamd opens nothing in it that is not opened here
    sample: Callable[[], bytes] | None = None  # makes a file that loads all that other files may need


class ContentRange:
    """A part of other random-access bytes."""

    def __init__(self, source: RandomAccess, start: int, end: int) -> None:
        self._source = source
        self._start = min(start, source.size)
        self._end = max(self._start, min(end, source.size))

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._end - self._start

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`, fewer only at the end."""
        return self._source.read_at(self._start + offset, max(0, min(length, self.size - offset)))

    def mapped(self) -> memoryview:
        """Return a copy of all bytes."""
        return memoryview(bytearray(self.read_at(0, self.size)))

    def cached(self, compute: "Callable[[ContentRange, *Arguments], T]", *arguments: *Arguments) -> T:
        """Return `compute(self, *arguments)`; nothing is kept, since these bytes are read once."""
        return compute(self, *arguments)


def windows(source: RandomAccess, piece_bytes: int, overlap: int) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of windows, each of which begins with the last `overlap` bytes of the one before."""
    begin, carry = 0, b""
    for piece in read_pieces(source, piece_bytes=piece_bytes):
        window = carry + piece
        yield begin, window
        carry = window[-overlap:]
        begin += len(window) - len(carry)


def find_all(window: bytes, *needles: bytes) -> list[int]:
    """Return where the needles begin in `window`, in rising order."""
    # Ten times as fast as a regular expression of the needles.
    found: list[int] = []
    for needle in needles:
        at = window.find(needle)
        while at >= 0:
            found.append(at)
            at = window.find(needle, at + 1)
    return sorted(found)
