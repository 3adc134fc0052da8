"""GIF without comments, XMP and other blocks of applications; how often it repeats is kept."""
# GIF89a specification, sections 15 to 27.

from typing import Final

from sluice_inspect.report import Corrupt, TooComplex
from sluice_inspect.sanitise.cleaning import Cleaning

_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B
_GRAPHIC_CONTROL, _COMMENT, _TEXT, _APPLICATION = 0xF9, 0xFE, 0x01, 0xFF
_LOOPS: Final = frozenset({b"NETSCAPE2.0", b"ANIMEXTS1.0"})
_PROFILE: Final = b"ICCRGBG1012"
_BLOCKS_MOST: Final = 2_000_000
_HEAD: Final = 13
_LOOP_COUNT, _LOOP_COUNT_BYTES = 1, 3


def clean(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the picture without metadata, if that is wanted."""
    if not cleaning.metadata:
        return data
    if len(data) < _HEAD:
        raise Corrupt("the GIF ends inside its header")
    at = _HEAD + _table_bytes(data[10])
    kept = [data[:at]]
    blocks = 0
    while at < len(data):
        begin, code = at, data[at]
        blocks += 1
        if blocks > _BLOCKS_MOST:
            raise TooComplex("the GIF is cut into too many blocks")
        if code == _TRAILER:
            at += 1
            kept.append(data[begin:at])
            break
        if code == _IMAGE and at + 10 < len(data):
            at = _blocks_end(data, at + 10 + _table_bytes(data[at + 9]) + 1)
            kept.append(data[begin:at])
        elif code == _EXTENSION and at + 2 < len(data):
            at = _blocks_end(data, at + 2)
            kept.append(_extension(data[begin:at], cleaning.removed))
        else:
            raise Corrupt(f"there is no block at byte {at} of the GIF, where one must be")
    if at < len(data):
        cleaning.removed.add("other_metadata")
    return b"".join(kept)


def _table_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _blocks_end(data: bytes, at: int) -> int:
    """Return where a sequence of blocks ends."""
    while at < len(data) and data[at]:
        at += 1 + data[at]
    if at >= len(data):
        raise Corrupt("the GIF ends inside a block")
    return at + 1


def _extension(block: bytes, removed: set[str]) -> bytes:
    label, name = block[1], block[3 : 3 + block[2]]
    if label == _GRAPHIC_CONTROL or (label == _APPLICATION and name == _PROFILE):
        return block
    if label == _APPLICATION and name in _LOOPS:
        kept = _loop_only(block)
        if kept != block:
            removed.add("other_metadata")
        return kept
    if label in {_COMMENT, _TEXT}:
        removed.add("comments")
    else:
        removed.add("xmp" if name.startswith(b"XMP Data") else "other_metadata")
    return b""


def _loop_only(block: bytes) -> bytes:
    at = 3 + block[2]
    kept = block[:at]
    while block[at]:
        size = block[at]
        if size == _LOOP_COUNT_BYTES and block[at + 1] == _LOOP_COUNT and kept == block[: 3 + block[2]]:
            kept += block[at : at + 1 + size]
        at += 1 + size
    return kept + b"\0"
