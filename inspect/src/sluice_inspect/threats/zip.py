"""The members of all zip archives in some bytes, by their records (APPNOTE 6.3.10, 4.3.7 and 4.3.12)."""
# Every local header and directory entry is followed, wherever it is: an archive behind other data or stored in another,
# a member that the directory hides, and one whose local header lies.

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sluice_inspect.parts import find_all
from sluice_inspect.source import RandomAccess, read_pieces
from sluice_inspect.threats.streams import BY_ZIP_METHOD, unpacked

_LOCAL_MAGIC: Final = b"PK\x03\x04"
_CENTRAL_MAGIC: Final = b"PK\x01\x02"
_END_MAGIC: Final = b"PK\x05\x06"
RECORD_MAGICS: Final = (_LOCAL_MAGIC, _CENTRAL_MAGIC)

_LOCAL: Final = struct.Struct("<4s5H3L2H")
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_END: Final = struct.Struct("<4s4H2LH")
_END_SEARCH_BYTES: Final = 64 * 1024 + _END.size
_ENCRYPTED_FLAG, _FULL_32, _STORED, _AES = 0x0001, 0xFFFFFFFF, 0, 99
_PIECE_BYTES: Final = 64 * 1024
_OPENED_BY_CLAMD: Final = frozenset((8, 12))  # measured, 1.4.6
# Unpacked bytes per packed byte at most, of methods that only clamd opens: the longest match divided by the shortest
# code for it.
_MAX_RATIO_OF_CLAMD: Final[Mapping[int, int]] = MappingProxyType({1: 8_000, 6: 160, 9: 30_000})
# All methods that APPNOTE 4.4.5 assigns. They distinguish records from the same four bytes by chance.
_METHODS: Final = frozenset((_STORED, *range(1, 21), *range(93, 100)))


@dataclass(frozen=True, slots=True)
class ZipEntry:
    """A member as one record states it. `end` of its packed bytes is a guess if no record states it."""

    name: str
    method: int
    start: int
    end: int
    encrypted: bool

    @property
    def is_stored(self) -> bool:
        """Whether its bytes are between `start` and `end` as they are."""
        return self.method == _STORED and not self.encrypted

    @property
    def is_packed(self) -> bool:
        """Whether `entry_content` can unpack it: by a known method, and without a password."""
        return self.method in BY_ZIP_METHOD and not self.encrypted

    @property
    def max_size_in_clamd(self) -> int | None:
        """How many bytes it unpacks to at most, if clamd can unpack it and nothing here can."""
        ratio = _MAX_RATIO_OF_CLAMD.get(self.method)
        return None if ratio is None else ratio * max(0, self.end - self.start)

    @property
    def hidden_from_clamd(self) -> bool:
        """Whether clamd does not open members packed by this method."""
        return self.method not in _OPENED_BY_CLAMD


def zip_entries(source: RandomAccess, records: list[int]) -> Iterator[ZipEntry]:
    """Yield what the records at the given rising offsets state; a member that two describe alike comes once."""
    known: set[tuple[int, int, bool]] = set()
    shift = _offset_shift(source)
    for at in records:
        for entry in _read_record(source, at, records, shift):
            key = (entry.start, entry.method, entry.encrypted)
            if key not in known:
                known.add(key)
                yield entry


def find_records(window: bytes) -> list[int]:
    """Return where records begin in `window`, or the same four bytes by chance, in rising order."""
    return find_all(window, *RECORD_MAGICS) if b"PK" in window else []


def has_record(window: bytes) -> bool:
    """Return whether a whole record of an archive is in `window`."""
    return any(_is_record(window[at : at + _CENTRAL.size]) for at in find_records(window))


def _is_record(head: bytes) -> bool:
    if head.startswith(_LOCAL_MAGIC):
        return len(head) >= _LOCAL.size and _LOCAL.unpack_from(head)[3] in _METHODS
    return len(head) >= _CENTRAL.size and _CENTRAL.unpack_from(head)[4] in _METHODS


def entry_content(source: RandomAccess, entry: ZipEntry) -> Iterator[bytes]:
    """Yield the unpacked bytes of a packed member.

    The stream is read to its own end, past the `end` that a record claims: too short a claim would hide the rest.
    """
    return unpacked(read_pieces(source, entry.start, piece_bytes=_PIECE_BYTES), BY_ZIP_METHOD[entry.method])


def _read_record(source: RandomAccess, at: int, records: list[int], shift: int) -> Iterator[ZipEntry]:
    raw = source.read_at(at, _CENTRAL.size)
    if not _is_record(raw):
        return
    if raw.startswith(_LOCAL_MAGIC):
        _, _, flags, method, _, _, _, packed, _, name_size, extra_size = _LOCAL.unpack_from(raw)
        name = _decode_name(source.read_at(at + _LOCAL.size, name_size))
        starts = [at + _LOCAL.size + name_size + extra_size]
    else:
        _, _, _, flags, method, _, _, _, packed, _, name_size, _, _, _, _, _, offset = _CENTRAL.unpack(raw)
        name = _decode_name(source.read_at(at + _CENTRAL.size, name_size))
        locals_at = [(local_at, source.read_at(local_at, _LOCAL.size)) for local_at in {offset, offset + shift}]
        starts = [
            local_at + _LOCAL.size + sum(_LOCAL.unpack(local)[9:11])
            for local_at, local in locals_at
            if len(local) == _LOCAL.size
        ]
    is_encrypted = bool(flags & _ENCRYPTED_FLAG) or method == _AES
    for start in starts:
        yield ZipEntry(name, method, start, _end(start, packed, records, source), is_encrypted)


def _end(start: int, packed: int, records: list[int], source: RandomAccess) -> int:
    """Return where stored bytes end: where the record states it, else before the next record."""
    if packed not in {0, _FULL_32}:  # else the size follows the bytes, or is in a ZIP64 field
        return min(start + packed, source.size)
    following = bisect_right(records, start - 1)
    return records[following] if following < len(records) else source.size


def _offset_shift(source: RandomAccess) -> int:
    """Return how many bytes are in front of the archive that its offsets do not count."""
    begin = max(0, source.size - _END_SEARCH_BYTES)
    tail = source.read_at(begin, _END_SEARCH_BYTES)
    at = tail.rfind(_END_MAGIC)
    if at < 0 or len(tail) - at < _END.size:
        return 0
    directory_size: int
    directory_at: int
    *_, directory_size, directory_at, _ = _END.unpack_from(tail, at)
    return max(0, begin + at - directory_size - directory_at)


def _decode_name(raw: bytes) -> str:
    # Only the extension is used, so no other code page is needed: the sandbox has no file system to load one from.
    return raw.decode("utf-8", "replace")
