"""Make HEIF files in memory."""

import io
import struct
from collections.abc import Sequence
from typing import Any

import pillow_heif
from PIL import Image

pillow_heif.register_heif_opener()


def heic(images: Image.Image | Sequence[Image.Image], **options: Any) -> bytes:
    first, *others = [images] if isinstance(images, Image.Image) else images
    file = io.BytesIO()
    first.save(file, "HEIF", save_all=bool(others), append_images=others, **{"quality": 60, **options})
    return file.getvalue()


def box(name: bytes, *content: bytes) -> bytes:
    return struct.pack(">L", 8 + sum(map(len, content))) + name + b"".join(content)


def item_file(
    coding: bytes,
    content: bytes,
    *,
    brand: bytes = b"mif1",
    size: tuple[int, int] = (64, 64),
    protected: bool = False,
    infos: int = 0,
) -> bytes:
    """Return a complete file with one item of any coding, its item list in version `infos`."""

    def meta(offset: int) -> bytes:
        used = struct.pack(">LLHBB", 0, 1, 1, 1, 1)
        return box(
            b"meta",
            bytes(4),
            box(b"hdlr", bytes(8), b"pict", bytes(13)),
            box(b"pitm", struct.pack(">LH", 0, 1)),
            box(b"iloc", struct.pack(">LHHHHHLL", 0, 0x4400, 1, 1, 0, 1, offset, len(content))),
            box(
                b"iinf",
                struct.pack(">LL" if infos else ">LH", infos << 24, 1),
                box(b"infe", struct.pack(">LHH4sB", 2 << 24, 1, protected, coding, 0)),
            ),
            box(b"iprp", box(b"ipco", box(b"ispe", struct.pack(">LLL", 0, *size))), box(b"ipma", used)),
        )

    start = box(b"ftyp", brand, bytes(4), b"mif1")
    return start + meta(len(start) + len(meta(0)) + 8) + box(b"mdat", content)
