"""Make pictures in memory for the tests of the picture formats and of the blank rule."""

import io
import struct
import zlib
from collections.abc import Sequence
from itertools import cycle
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

_WORDS: Final = (
    "the",
    "invoice",
    "of",
    "your",
    "account",
    "was",
    "paid",
    "on",
    "receipt",
    "and",
    "nothing",
    "is",
    "due",
)


def chess_board(side: int = 64, square: int = 8) -> Image.Image:
    """Return a chess board, which no rule calls blank."""
    y, x = np.mgrid[0:side, 0:side]
    return Image.fromarray(((x // square + y // square) % 2 * 255).astype(np.uint8))


def plain_picture(width: int = 64, height: int = 64, level: int = 200) -> Image.Image:
    return Image.new("L", (width, height), level)


def noise_field(width: int, height: int, level: float, noise: float, seed: int = 1) -> NDArray[np.float32]:
    """Return an even field with Gaussian noise, both in levels of 0 to 255."""
    return np.random.default_rng(seed).normal(level, noise, (height, width)).astype(np.float32)


def grey_picture(levels: NDArray[np.floating[Any]]) -> Image.Image:
    return Image.fromarray(np.clip(levels, 0, 255).round().astype(np.uint8))


def noise_picture(width: int, height: int, level: float, noise: float, seed: int = 1) -> Image.Image:
    return grey_picture(noise_field(width, height, level, noise, seed))


def text_page(width: int = 800, height: int = 1000, *, size: int = 22, ink: int = 30, paper: int = 235) -> Image.Image:
    """Return a page of text in letters of `size` pixels, of which small letters are half as high."""
    page = Image.new("L", (width, height), paper)
    draw, font, words = ImageDraw.Draw(page), ImageFont.load_default(size), cycle(_WORDS)
    for top in range(2 * size, height - 3 * size, round(1.6 * size)):
        left = 2.0 * size
        while left < width - 7 * size:
            word = next(words) + " "
            draw.text((left, top), word, fill=ink, font=font)
            left += draw.textlength(word, font=font)
    return page


def encoded(image: Image.Image, plugin: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, plugin, **options)
    return file.getvalue()


def animated(frames: Sequence[Image.Image], plugin: str, **options: Any) -> bytes:
    return encoded(frames[0], plugin, save_all=True, append_images=list(frames[1:]), **options)


def png_chunk(name: bytes, data: bytes, *, good: bool = True) -> bytes:
    return struct.pack(">L", len(data)) + name + data + struct.pack(">L", zlib.crc32(name + data) ^ (not good))


def with_chunk(png: bytes, chunk: bytes) -> bytes:
    """Insert a chunk after the header of a PNG."""
    return png[:33] + chunk + png[33:]


def png_header(width: int, height: int) -> bytes:
    """Return a PNG that declares a size and holds one byte of pixels."""
    header = struct.pack(">LLBBBBB", width, height, 1, 0, 0, 0, 0)
    chunks = png_chunk(b"IHDR", header) + png_chunk(b"IDAT", zlib.compress(b"\0")) + png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks
