"""JPEG 2000 without metadata: its boxes become free space, which readers skip, and comments are cut out."""
# ISO/IEC 15444-1, annexes A (codestream) and I (boxes).

import struct
from typing import Final

from sluice_inspect.report import Corrupt
from sluice_inspect.sanitise.cleaning import Cleaning

_CODESTREAM: Final = b"\xff\x4f\xff\x51"
_KEPT: Final = frozenset({b"jP  ", b"ftyp", b"jp2h", b"jp2c", b"rreq", b"jpch", b"jplh", b"ftbl", b"free"})
_WORDS: Final = {b"xml ": "xmp", b"jp2i": "author"}
_BOXES_MOST: Final = 10_000
_COMMENT, _TILE_PART = 0x64, 0x90


def clean(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the picture without metadata, if that is wanted."""
    if not cleaning.metadata:
        return data
    if data.startswith(_CODESTREAM):
        return _clean_codestream(data, cleaning.removed)
    kept: list[bytes] = []
    at = 0
    for _ in range(_BOXES_MOST):
        if at + 8 > len(data):
            break
        size, name = struct.unpack_from(">L4s", data, at)
        head = 8
        if size == 1 and at + 16 <= len(data):
            (size,), head = struct.unpack_from(">Q", data, at + 8), 16
        size = size or len(data) - at
        if size < head or at + size > len(data):
            raise Corrupt(f"the box at byte {at} of the JPEG 2000 passes its end")
        body = data[at + head : at + size]
        if name == b"jp2c":
            shorter = _clean_codestream(body, cleaning.removed)
            # The box keeps its length, as offsets behind it do.
            kept += [data[at : at + head], shorter, bytes(len(body) - len(shorter))]
        elif name in _KEPT and (name != b"free" or not body.strip(b"\0")):
            kept.append(data[at : at + size])
        else:
            cleaning.removed.add(_WORDS.get(name, "other_metadata"))
            kept += [data[at : at + 4], b"free", data[at + 8 : at + head], bytes(len(body))]
        at += size
    if at < len(data):
        cleaning.removed.add("other_metadata")
    return b"".join(kept)


def _clean_codestream(data: bytes, removed: set[str]) -> bytes:
    """Return the codestream without comments in its main header."""
    kept, at = [data[:2]], 2
    while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] != _TILE_PART:
        end = at + 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
        if data[at + 1] == _COMMENT:
            removed.add("comments")
        else:
            kept.append(data[at:end])
        at = end
    return b"".join([*kept, data[at:]])
