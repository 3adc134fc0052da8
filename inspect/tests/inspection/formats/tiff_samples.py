"""Make TIFFs with Pillow, and directory by directory where Pillow cannot write what a test needs."""

import io
import struct
from collections.abc import Mapping, Sequence

from PIL import Image

Values = Mapping[int, tuple[int, Sequence[int]]]
"""By tag: field type and numbers."""

_LETTERS = {1: "B", 3: "H", 4: "L", 13: "L", 16: "Q"}


def chess_board(mode: str = "RGB", side: int = 64) -> Image.Image:
    squares = Image.frombytes(
        "L", (side, side), bytes(255 * ((x // 8 + y // 8) % 2) for y in range(side) for x in range(side))
    )
    return squares.convert(mode)


def saved(*pictures: Image.Image, compression: str | None = None, big: bool = False) -> bytes:
    file = io.BytesIO()
    first, *others = pictures or (chess_board(),)
    first.save(file, "TIFF", compression=compression, save_all=True, append_images=others, big_tiff=big)
    return file.getvalue()


def tiff_of_pages(*pages: Values, data: bytes = b"", order: str = "<", loop: bool = False) -> bytes:
    """Return a file with `data` from byte 8 on, followed by a directory per page.

    With `loop` the last directory points to the first.
    """
    out = bytearray((b"II" if order == "<" else b"MM") + struct.pack(f"{order}HL", 42, 0) + data + bytes(len(data) % 2))
    pointer, first = 4, 0
    for tags in pages:
        at = len(out)
        struct.pack_into(f"{order}L", out, pointer, at)
        first = first or at
        table, values, begin = b"", b"", at + 2 + 12 * len(tags) + 4
        for tag, (field_type, numbers) in sorted(tags.items()):
            raw = struct.pack(f"{order}{len(numbers)}{_LETTERS[field_type]}", *numbers)
            field = raw.ljust(4, b"\0")
            if len(raw) > 4:
                field = struct.pack(f"{order}L", begin + len(values))
                values += raw
            table += struct.pack(f"{order}HHL", tag, field_type, len(numbers)) + field
        out += struct.pack(f"{order}H", len(tags)) + table + bytes(4) + values
        pointer = begin - 4
    if loop:
        struct.pack_into(f"{order}L", out, pointer, first)
    return bytes(out)


def grey_page(
    width: int,
    height: int,
    *,
    compression: int = 1,
    offsets: Sequence[int] = (8,),
    lengths: Sequence[int] = (),
    **more: int,
) -> Values:
    """Return the tags of a grey page of 8 bits; `more` are further tags, such as t273=number."""
    tags: dict[int, tuple[int, Sequence[int]]] = {
        256: (4, [width]), 257: (4, [height]), 258: (3, [8]), 259: (3, [compression]), 262: (3, [1]), 273: (4, offsets), 277: (3, [1]),
    }  # fmt: skip
    if lengths:
        tags[279] = (4, lengths)
    return tags | {int(name[1:]): (4, [number]) for name, number in more.items()}
