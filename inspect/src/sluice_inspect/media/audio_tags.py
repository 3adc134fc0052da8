"""Tags before, between and after raw audio frames: ID3v2, ID3v1, APE, Lyrics3. Only their ends are found."""

import re
from typing import Final

from sluice_inspect.report import Corrupt
from sluice_inspect.source import Source

ID3V1_BYTES: Final = 128

_ID3V2_HEADER_BYTES: Final = 10
_ID3V2_HAS_FOOTER: Final = 0x10
_TRAILING_TAGS: Final = (b"TAG", b"APETAGEX", b"LYRICSBEGIN", b"3DI")
_LONG_MARK: Final = re.compile(rb"APETAGEX|LYRICSBEGIN|ID3[\x02-\x04]\0.[\0-\x7f]{4}", re.DOTALL)
_MAX_TAGS: Final = 100


def skip_leading_tags(source: Source, offset: int = 0) -> int:
    """Return where the ID3v2 tags at `offset` end, and audio begins. Raise `Corrupt` if the file ends inside one."""
    for _ in range(_MAX_TAGS):  # a tagger that cannot read the tag in place puts its own before it
        size = id3v2_bytes(source, offset)
        if not size:
            break
        offset += size
        if offset > source.size:
            raise Corrupt(f"the file ends at byte {source.size}, inside its ID3 tag, which ends at byte {offset}")
    return offset


def id3v2_bytes(source: Source, offset: int) -> int:
    """Return the length of the ID3v2 tag at `offset` with its header and footer, 0 if there is none."""
    head = source.read_at(offset, _ID3V2_HEADER_BYTES)
    if len(head) < _ID3V2_HEADER_BYTES or not head.startswith(b"ID3") or max(head[3:5]) == 0xFF or max(head[6:]) > 0x7F:
        return 0
    # "Syncsafe": seven bits in each byte, so that a size never looks like the sync word of a frame (ID3v2.4, 6.2).
    size = head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]
    return _ID3V2_HEADER_BYTES + size + (_ID3V2_HEADER_BYTES if head[5] & _ID3V2_HAS_FOOTER else 0)


def is_trailing_tag(data: bytes) -> bool:
    """Return whether these bytes begin a tag of those that follow the audio."""
    return data.startswith(_TRAILING_TAGS)


def has_tag(data: bytes) -> bool:
    """Return whether a tag begins within these bytes, by marks that are too long to occur by chance."""
    return _LONG_MARK.search(data) is not None


def ends_with_tag(source: Source) -> bool:
    """Return whether the file ends with a tag."""
    tail = source.tail
    return (
        tail[-ID3V1_BYTES:].startswith(b"TAG")
        or b"APETAGEX" in tail[-32:]
        or tail.endswith((b"LYRICSEND", b"LYRICS200"))
        or tail[-10:-7] == b"3DI"
    )
