"""What the upload page shows of who asks for the files: a name, a sentence, a colour and a logo.

The logo is a small PNG, which is kept with the context and shown as a `data:` URL: SVG can hold scripts, and the URL of
another host would show it who visits the page. It is not decoded here, since pictures are decoded in locked processes
only. Its chunks are read, and only those that make the picture are kept.
"""

import base64
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

LOGO_BYTES: Final = 24_576
LOGO_PIXELS: Final = 1024  # at most, on each side
LOGO_PREFIX: Final = "data:image/png;base64,"

_COLOR: Final = re.compile("#[0-9a-f]{6}", re.ASCII)
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_HEADER_BYTES: Final = 25  # of the whole chunk IHDR
_CHUNK_BYTES: Final = 12  # of a chunk besides its data
# Not texts, profiles and positions, nor the frames of an animation.
_KEPT_CHUNKS: Final = frozenset({b"IHDR", b"PLTE", b"tRNS", b"gAMA", b"sRGB", b"IDAT", b"IEND"})


@dataclass(frozen=True, slots=True)
class Branding:
    """What the page shows; None is left out. `logo` is a PNG in base64, `color` is `#rrggbb`."""

    name: str | None = None
    sentence: str | None = None
    color: str | None = None
    logo: str | None = None


def clean_color(text: str) -> str:
    """Return a colour in lower case; raise `ValueError`."""
    color = text.lower()
    if not _COLOR.fullmatch(color):
        raise ValueError("expected a colour such as #1f6feb")
    return color


def clean_logo(text: str) -> str:
    """Return a PNG in base64, without what does not belong to the picture; raise `ValueError`."""
    try:
        raw = base64.b64decode(text.removeprefix(LOGO_PREFIX), validate=True)
    except ValueError as fault:
        raise ValueError("expected a PNG file in base64") from fault
    if len(raw) > LOGO_BYTES:
        raise ValueError(f"expected a PNG file of at most {LOGO_BYTES} bytes, found {len(raw)}")
    return base64.b64encode(b"".join([_SIGNATURE, *_picture_chunks(raw)])).decode("ascii")


def _picture_chunks(raw: bytes) -> Iterator[bytes]:
    """Yield the chunks of a PNG that make its picture, up to its end."""
    if not raw.startswith(_SIGNATURE):
        raise ValueError("expected a PNG file")
    begin, kind, has_pixels = len(_SIGNATURE), b"", False
    while kind != b"IEND":
        end = begin + _CHUNK_BYTES + int.from_bytes(raw[begin : begin + 4])
        chunk, kind = raw[begin:end], raw[begin + 4 : begin + 8]
        is_whole = end <= len(raw) and zlib.crc32(chunk[4:-4]) == int.from_bytes(chunk[-4:])
        if not is_whole or (begin == len(_SIGNATURE)) != (kind == b"IHDR"):
            raise ValueError("expected a PNG file that is not damaged")
        if kind == b"IHDR":
            width, height = int.from_bytes(chunk[8:12]), int.from_bytes(chunk[12:16])
            if len(chunk) != _HEADER_BYTES or not (0 < width <= LOGO_PIXELS and 0 < height <= LOGO_PIXELS):
                raise ValueError(f"expected 1 to {LOGO_PIXELS} pixels on each side, found {width} x {height}")
        has_pixels |= kind == b"IDAT"
        if kind in _KEPT_CHUNKS:
            yield chunk
        begin = end
    if not has_pixels:
        raise ValueError("expected a PNG file that is not damaged")
