"""Small good HEIC and AVIF files for the self-test: a stored picture of a checkerboard in the smallest container."""

import struct
from typing import Final

_HEVC_CONFIG: Final = bytes.fromhex(
    "0103700000009000000000001ef000fcfdf8f800000f03600001001840010c01ffff03700000030090000003000003001eba02406100"
    "01002b42010103700000030090000003000003001ea020810596ea4929ae6e021a0c0800000300c800000300084062000100074401c1"
    "72b02240"
)
# 64 x 64 pixels as x265 codes them, preceded by their length.
_HEVC_PICTURE: Final = bytes.fromhex(
    "000000422801af0b60fd009dafffeaf5fe8fc77fff9f55796bfdd70a2c7f88eb7fdf26e8f549bbfbe74a13fc683cfdf2677e96bf5ee6"
    "389ffceba903ce79affbe5071f9489c0"
)
_AV1_CONFIG: Final = bytes.fromhex("81001c00")
_AV1_PICTURE: Final = bytes.fromhex(
    "12000a0918157ffda6021a0d4032401ac5e1cc302802cfca30013f6bb8c358adaccbb9f469d48afa5f5f9b9cbb1ff158310b71ad80df"
    "e5922d9e27e5195f4ceaaedb480464031915a7d4ac00b3d594"
)
_SIDE: Final = 64
_CHANNELS: Final = {b"hvc1": 3, b"av01": 1}


def sample_heic() -> bytes:
    """Return a good HEIC file."""
    return _file(b"heic", b"hvc1", _box(b"hvcC", _HEVC_CONFIG), _HEVC_PICTURE)


def sample_avif() -> bytes:
    """Return a good AVIF file."""
    return _file(b"avif", b"av01", _box(b"av1C", _AV1_CONFIG), _AV1_PICTURE)


def _file(brand: bytes, coding: bytes, config: bytes, picture: bytes) -> bytes:
    start = _box(b"ftyp", brand, bytes(4), b"mif1", b"miaf", brand)
    meta = _meta(coding, config, 0, len(picture))
    return start + _meta(coding, config, len(start) + len(meta) + 8, len(picture)) + _box(b"mdat", picture)


def _meta(coding: bytes, config: bytes, offset: int, length: int) -> bytes:
    channels = _CHANNELS[coding]
    size = _box(b"ispe", struct.pack(">LLL", 0, _SIDE, _SIDE))
    depths = _box(b"pixi", bytes(4), bytes([channels, *[8] * channels]))
    used = struct.pack(">LLHB3B", 0, 1, 1, 3, 0x81, 2, 3)
    return _box(
        b"meta",
        bytes(4),
        _box(b"hdlr", bytes(8), b"pict", bytes(13)),
        _box(b"pitm", struct.pack(">LH", 0, 1)),
        _box(b"iloc", struct.pack(">LHHHHHLL", 0, 0x4400, 1, 1, 0, 1, offset, length)),
        _box(b"iinf", struct.pack(">LH", 0, 1), _box(b"infe", struct.pack(">LHH4sB", 2 << 24, 1, 0, coding, 0))),
        _box(b"iprp", _box(b"ipco", config, size, depths), _box(b"ipma", used)),
    )


def _box(name: bytes, *content: bytes) -> bytes:
    return struct.pack(">L", 8 + sum(map(len, content))) + name + b"".join(content)
