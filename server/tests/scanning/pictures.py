"""PNG images of noise: all are different, none is blank, and some have the EICAR virus in a comment chunk."""

import random
import struct
import zlib

from tests.inspection.threats.packed_files import EICAR

_SIDE = 58  # 58 x 58 pixels of noise are 10 KB


def noise_png(seed: int, *, infected: bool = False, comment: bytes = b"") -> bytes:
    """Return a PNG of 10 KB."""
    rng = random.Random(seed)
    rows = b"".join(b"\0" + rng.randbytes(_SIDE * 3) for _ in range(_SIDE))
    text = EICAR if infected else comment or b"noise %d" % seed
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 2, 0, 0, 0)),
            _chunk(b"tEXt", b"Comment\0" + text),
            _chunk(b"IDAT", zlib.compress(rows, 1)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
