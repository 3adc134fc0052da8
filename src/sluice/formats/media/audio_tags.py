"""Tags that stand in front of, behind and between raw audio frames: ID3v2, ID3v1, APE, Lyrics3. Finds where they end, reads nothing of them."""

from typing import Final

from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt

_ID3V2: Final = b"ID3"
_ID3V2_BYTES: Final = 10
_FOOTER: Final = 0x10
_TRAILING: Final = (b"TAG", b"APETAGEX", b"LYRICSBEGIN", b"3DI")
_ID3V1_BYTES: Final = 128
_MOST: Final = 100
"""Tags one behind the other."""


def behind_front_tags(source: Source, offset: int = 0) -> int:
    """Answer where the audio begins: behind the ID3v2 tags at `offset`. Raises `Corrupt` when they pass the end of the file."""
    for _ in range(_MOST):
        size = id3_bytes(source, offset)
        if not size:
            break
        offset += size
        if offset > source.size:
            raise Corrupt(f"the file ends at byte {source.size}, inside its ID3 tag, which ends at byte {offset}")
    return offset


def id3_bytes(source: Source, offset: int) -> int:
    """Answer the length of the ID3v2 tag at `offset` with its header, 0 when there is none."""
    head = source.read_at(offset, _ID3V2_BYTES)
    if len(head) < _ID3V2_BYTES or not head.startswith(_ID3V2) or max(head[3:5]) == 0xFF or max(head[6:]) > 0x7F:  # noqa: PLR2004  (as ID3 tells tags from audio)
        return 0
    size = head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]
    return _ID3V2_BYTES + size + (_ID3V2_BYTES if head[5] & _FOOTER else 0)


def is_trailing_tag(data: bytes) -> bool:
    """Answer whether these bytes begin a tag of those that stand behind audio."""
    return data.startswith(_TRAILING)


def ends_in_tag(source: Source) -> bool:
    """Answer whether the file ends in a tag: whoever cut it did not cut its end."""
    tail = source.tail
    return (
        tail[-_ID3V1_BYTES:].startswith(b"TAG")
        or b"APETAGEX" in tail[-32:]
        or tail.endswith((b"LYRICSEND", b"LYRICS200"))
        or tail[-10:-7] == b"3DI"
    )
