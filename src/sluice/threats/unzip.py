"""The members of whatever zip archives lie in some bytes, found by their records and not by trust in the directory. Reads leniently.

Every local header and every directory entry is followed, wherever it stands: an archive behind other data, an archive stored in an
archive, a member that the directory hides and one whose local header lies. Whether an archive is sound is judged in `sluice.formats`.

Layout: PKWARE APPNOTE 6.3.10, sections 4.3.7 and 4.3.12.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sluice.threats.bytesview import View, pieces, places
from sluice.threats.unpack import BY_ZIP_METHOD, unpacked

RECORDS: Final = (b"PK\x03\x04", b"PK\x01\x02")
_COMMON: Final = b"PK"

_LOCAL: Final = struct.Struct("<4s5H3L2H")
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_END: Final = struct.Struct("<4s4H2LH")
_END_SIGNATURE: Final = b"PK\x05\x06"
_END_SEARCH_BYTES: Final = 64 * 1024 + _END.size
_ENCRYPTED_FLAG: Final = 0x0001
_FULL_32: Final = 0xFFFFFFFF
_STORED: Final = 0
_AES: Final = 99
_IN_BYTES: Final = 64 * 1024
_OPENED_BY_CLAMD: Final = frozenset((8, 12))
_MOST_BY_CLAMD_ALONE: Final[Mapping[int, int]] = MappingProxyType({1: 8_000, 6: 160, 9: 30_000})
"""How many bytes one packed byte can stand for, by the longest match and the shortest codes that say it, of what only clamd opens."""
_METHODS: Final = frozenset((_STORED, *range(1, 21), *range(93, 100)))  # all that APPNOTE 4.4.5 assigns: tells records from chance


@dataclass(frozen=True, slots=True)
class Member:
    """A member as one record states it. `start` and `end` bound its packed bytes; `end` is a guess where no record states it."""

    name: str
    method: int
    start: int
    end: int
    encrypted: bool

    @property
    def is_stored(self) -> bool:
        """Whether its bytes lie between `start` and `end` as they are."""
        return self.method == _STORED and not self.encrypted

    @property
    def is_packed(self) -> bool:
        """Whether `content` can unpack it: by a known method, and not behind a password."""
        return self.method in BY_ZIP_METHOD and not self.encrypted

    @property
    def most_by_clamd(self) -> int | None:
        """How many bytes it unpacks to at most, where clamd can unpack it and nothing here can."""
        most = _MOST_BY_CLAMD_ALONE.get(self.method)
        return None if most is None else most * max(0, self.end - self.start)

    @property
    def is_unseen(self) -> bool:
        """Whether clamd does not open such packed members (measured, 1.4.6)."""
        return self.method not in _OPENED_BY_CLAMD


def members(view: View, records: list[int]) -> Iterator[Member]:
    """Iterate over what the records at the given offsets, in rising order, say; a member that two of them describe alike comes once."""
    seen: set[tuple[int, int, bool]] = set()
    shift = _shift_of_offsets(view)
    for at in records:
        for member in _described(view, at, records, shift):
            key = (member.start, member.method, member.encrypted)
            if key not in seen:
                seen.add(key)
                yield member


def has_record(window: bytes) -> bool:
    """Answer whether a whole record of an archive lies in `window`."""
    return any(_is_record(window[at : at + _CENTRAL.size]) for at in record_places(window))


def record_places(window: bytes) -> list[int]:
    """Answer where records begin in `window`, or the same four bytes by chance, in rising order."""
    return places(window, *RECORDS) if _COMMON in window else []


def _is_record(head: bytes) -> bool:
    """Answer whether `head` begins like a record rather than with the same four bytes by chance."""
    if head[:4] == b"PK\x03\x04":
        return len(head) >= _LOCAL.size and _LOCAL.unpack_from(head)[3] in _METHODS
    return len(head) >= _CENTRAL.size and _CENTRAL.unpack_from(head)[4] in _METHODS


def content(view: View, member: Member) -> Iterator[bytes]:
    """Iterate over the unpacked bytes of a member that is packed.

    The stream is followed to its own end, past the `end` that a record claims: a shorter claim would hide the rest.
    """
    return unpacked(pieces(view, member.start, size=_IN_BYTES), BY_ZIP_METHOD[member.method])


def _described(view: View, at: int, records: list[int], shift: int) -> Iterator[Member]:
    raw = view.read_at(at, _CENTRAL.size)
    if not _is_record(raw):
        return
    if raw[:4] == b"PK\x03\x04":
        yield from _local_member(view, at, raw, records)
        return
    fields = _CENTRAL.unpack(raw)
    flags, method, packed, name_length, offset = fields[3], fields[4], fields[8], fields[10], fields[16]
    name = _text(view.read_at(at + _CENTRAL.size, name_length))
    for local_at in {offset, offset + shift}:
        local = view.read_at(local_at, _LOCAL.size)
        if len(local) == _LOCAL.size:
            local_name_length, local_extra_length = _LOCAL.unpack(local)[9:11]
            start = local_at + _LOCAL.size + local_name_length + local_extra_length
            yield Member(name, method, start, _end(start, packed, records, view), _is_encrypted(flags, method))


def _local_member(view: View, at: int, raw: bytes, records: list[int]) -> Iterator[Member]:
    fields = _LOCAL.unpack_from(raw)
    flags, method, packed, name_length, extra_length = fields[2], fields[3], fields[7], fields[9], fields[10]
    start = at + _LOCAL.size + name_length + extra_length
    name = _text(view.read_at(at + _LOCAL.size, name_length))
    yield Member(name, method, start, _end(start, packed, records, view), _is_encrypted(flags, method))


def _end(start: int, packed: int, records: list[int], view: View) -> int:
    """Answer where stored bytes end: where the record says, else before the next record (sizes may follow the bytes, or be ZIP64)."""
    if packed not in {0, _FULL_32}:
        return min(start + packed, view.size)
    following = bisect_right(records, start - 1)
    return records[following] if following < len(records) else view.size


def _shift_of_offsets(view: View) -> int:
    """Answer by how many bytes the archive stands behind other data, so that its offsets are too small; 0 where it does not."""
    begin = max(0, view.size - _END_SEARCH_BYTES)
    tail = view.read_at(begin, _END_SEARCH_BYTES)
    at = tail.rfind(_END_SIGNATURE)
    if at < 0 or len(tail) - at < _END.size:
        return 0
    fields = _END.unpack_from(tail, at)
    directory_bytes: int = fields[5]
    directory_at: int = fields[6]
    return max(0, begin + at - directory_bytes - directory_at)


def _is_encrypted(flags: int, method: int) -> bool:
    return bool(flags & _ENCRYPTED_FLAG) or method == _AES


def _text(name: bytes) -> str:
    """Answer a member's name. Only its extension is looked at, so no code page is needed: the sandbox has no file system to load one."""
    return name.decode("utf-8", "replace")
