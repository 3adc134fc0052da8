"""The blank rule for pictures that are part of a document; the document's format finds them there."""

from __future__ import annotations

import base64
import binascii
import io
import re
from typing import Final, Protocol
from urllib.parse import unquote_to_bytes

from PIL import Image

from sluice_inspect.images.blank import picture_is_blank
from sluice_inspect.report import Limits

BYTES_MOST: Final = 64 * 1024**2  # a larger picture is not decoded, and counts as not blank
_PIXELS_MOST: Final = 60_000_000
_DOT: Final = 2  # pixels a side up to which a picture is a tracking dot or a spacer
_COLOURED: Final = 40  # levels between the colour channels of a picture that is not grey
_LIGHT: Final = 200
_SCAN_SIDE: Final = 300
_DATA_URL: Final = re.compile(r"\s*data:image/[\w.+-]+((?:;[\w=-]+)*),(.*)", re.DOTALL | re.IGNORECASE)
_DATA_URL_MOST: Final = 16 * 1024**2


class Bytes(Protocol):
    """An opened member of an archive."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""


def inline_is_blank(address: str, limits: Limits) -> bool:
    """Return whether the picture in a `data:` URL is blank; False for every other address."""
    inline = _DATA_URL.fullmatch(address) if len(address) <= _DATA_URL_MOST else None
    if inline is None:
        return False
    try:
        content = base64.b64decode(inline[2]) if ";base64" in inline[1].lower() else unquote_to_bytes(inline[2])
    except (binascii.Error, ValueError):
        return False
    return embedded_is_blank(io.BytesIO(content), limits)


def embedded_is_blank(stream: Bytes, limits: Limits) -> bool:
    """Return whether an embedded picture is blank; False in doubt (vector formats, damage, size)."""
    data = read_capped(stream, BYTES_MOST)
    if data is None:
        return False
    try:
        with Image.open(io.BytesIO(data)) as image:
            width, height = image.size
            if width * height > min(_PIXELS_MOST, limits.max_pixels):
                return False
            if max(width, height) <= _DOT:
                return True
            return getattr(image, "n_frames", 1) == 1 and picture_is_blank(image) and not _shows_on_a_page(image)
    except Exception:  # noqa: BLE001  (decoders raise anything; what cannot be decoded cannot be called blank)
        return False


def _shows_on_a_page(image: Image.Image) -> bool:
    """Return whether an even picture is visible on a white page: for its colour, or as a small dark box or line."""
    over_white = Image.new("RGBA", (1, 1), "white")
    over_white.alpha_composite(image.convert("RGBA").resize((1, 1), Image.Resampling.BOX))
    channels = over_white.convert("RGB").tobytes()
    if max(channels) - min(channels) > _COLOURED:
        return True
    # A large dark picture is a failed scan, not a design element.
    return min(image.size) < _SCAN_SIDE and max(channels) < _LIGHT


def read_capped(stream: Bytes, most: int) -> bytes | None:
    """Return all bytes of a stream, or None if there are more than `most`."""
    chunks: list[bytes] = []
    size = 0
    while chunk := stream.read(256 * 1024):
        size += len(chunk)
        if size > most:
            return None
        chunks.append(chunk)
    return b"".join(chunks)
