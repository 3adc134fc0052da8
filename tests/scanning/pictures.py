"""Pictures of noise: each is another, none is blank, and some carry the test virus in a comment that no reader shows."""

import random
import struct
import zlib

from tests.threats.packing import EICAR

_SIDE = 58  # 58 x 58 pixels of noise are 10 KB


def noise(seed: int, *, infected: bool = False) -> bytes:
    """Answer a PNG of 10 KB."""
    dice = random.Random(seed)
    rows = b"".join(b"\0" + dice.randbytes(_SIDE * 3) for _ in range(_SIDE))
    comment = b"Comment\0" + (EICAR if infected else b"noise %d" % seed)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 2, 0, 0, 0)),
            _chunk(b"tEXt", comment),
            _chunk(b"IDAT", zlib.compress(rows, 1)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
