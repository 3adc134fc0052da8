"""Looks at a picture that is part of a document. Finding it there is the document's kind; the blank rule is `pictures`."""

import base64
import binascii
import io
import re
from typing import Final, Protocol
from urllib.parse import unquote_to_bytes

from PIL import Image

from sluice.formats.images.pictures import picture_is_blank
from sluice.formats.verdict import Limits

Image.init()  # loads the decoders now: the sandbox that runs this later has no file system

BYTES_MOST: Final = 64 * 1024**2
"""A larger picture is not looked at: not blank."""
_PIXELS_MOST: Final = 60_000_000
_DOT: Final = 2
"""Pixels a side up to which a picture is a tracking dot or a spacer."""
_COLOURED: Final = 40
"""Levels between the colour channels of a picture that is not grey."""
_LIGHT: Final = 200
_SCAN_SIDE: Final = 300


_INLINE: Final = re.compile(r"\s*data:image/[\w.+-]+((?:;[\w=-]+)*),(.*)", re.DOTALL | re.IGNORECASE)
_INLINE_MOST: Final = 16 * 1024**2


class Bytes(Protocol):
    """An opened member of an archive."""

    def read(self, size: int, /) -> bytes:
        """Answer up to `size` bytes, none at the end."""


def inline_is_blank(address: str, limits: Limits) -> bool:
    """Whether a reader would see nothing on a picture that stands in its own address (`data:`). Of other addresses the answer is False."""
    inline = _INLINE.fullmatch(address) if len(address) <= _INLINE_MOST else None
    if inline is None:
        return False
    try:
        content = base64.b64decode(inline[2]) if ";base64" in inline[1].lower() else unquote_to_bytes(inline[2])
    except (binascii.Error, ValueError):
        return False
    return embedded_is_blank(io.BytesIO(content), limits)


def embedded_is_blank(stream: Bytes, limits: Limits) -> bool:
    """Whether a reader would see nothing on an embedded picture. In doubt (vector formats, damage, size) the answer is False.

    Judgements of the stream pass through.
    """
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
            return getattr(image, "n_frames", 1) == 1 and picture_is_blank(image) and not _stands_out(image)
    except Exception:  # noqa: BLE001  (decoders raise anything; what cannot be decoded cannot be called blank)
        return False


def _stands_out(image: Image.Image) -> bool:
    """Whether an even picture shows on a white page for its colour, or as a small dark box or line. A large dark one is a failed scan."""
    over_white = Image.new("RGBA", (1, 1), "white")
    over_white.alpha_composite(image.convert("RGBA").resize((1, 1), Image.Resampling.BOX))
    channels = over_white.convert("RGB").tobytes()
    if max(channels) - min(channels) > _COLOURED:
        return True
    return min(image.size) < _SCAN_SIDE and max(channels) < _LIGHT


def read_capped(stream: Bytes, most: int) -> bytes | None:
    """Answer all bytes of a stream, or None when there are more than `most`."""
    chunks: list[bytes] = []
    size = 0
    while chunk := stream.read(256 * 1024):
        size += len(chunk)
        if size > most:
            return None
        chunks.append(chunk)
    return b"".join(chunks)
