"""AAC frames one after another (ADTS): how a header is read, and whether a file is such a stream. Its check is in `kinds.aac`."""

from typing import Final

from sluice.formats.media import audio_tags
from sluice.formats.media.frame_walk import Frames, Grammar, Header
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt

ADIF: Final = b"ADIF"
_SYNC: Final = 0xFFF
_RATES: Final = 13
_LEAST_BYTES: Final = 7


def _read(header: bytes) -> Header | None:
    """Answer the meaning of seven bytes; ISO/IEC 13818-7, 6.2."""
    value = int.from_bytes(header, "big")
    if value >> 44 != _SYNC or value >> 41 & 3 or value >> 34 & 15 >= _RATES:
        return None
    length = value >> 13 & 0x1FFF
    return (length, value >> 34 & 0x20F) if length >= _LEAST_BYTES else None


GRAMMAR: Final = Grammar(header_bytes=7, read=_read)


def is_aac(source: Source) -> bool:
    """Answer whether the bytes are AAC frames, or AAC with one header for all."""
    if source.head.startswith(ADIF):
        return True
    try:
        start = audio_tags.behind_front_tags(source)
    except Corrupt:
        return False
    return Frames(source, GRAMMAR).find(start) is not None
