"""Damage an intact file in repeatable ways, without those that its format cannot detect."""

import random
import zlib
from collections.abc import Iterator
from typing import Final

PAGE: Final = (
    b"<!DOCTYPE html>\n<html><head><title>504 Gateway Timeout</title></head><body>504 Gateway Timeout</body></html>\n"
)
DAMAGES: Final = ("trunc50", "trunc95", "zero4k", "flip32", "html_prepend", "crlf", "wrongtype")
TEXTS: Final = frozenset({"csv", "txt", "eml", "yaml", "html", "md", "json", "xml", "svg", "rtf"})

TAILS: Final = ("tail 00", "tail FF", "tail noise")

_MIN_BYTES: Final = 64
"""Files of fewer bytes are not damaged: half of a tiny file is often intact."""
_ZEROED: Final = 4096
_FLIPPED: Final = 32
_TAIL_PERCENT: Final = (10, 25, 50)
_STILL_TEXT: Final = ("trunc50", "trunc95", "flip32", "crlf")
"""Damage after which text is still valid text."""
_UNDETECTABLE: Final = {
    **dict.fromkeys(("csv", "txt", "eml", "yaml"), _STILL_TEXT),
    **dict.fromkeys(("html", "md"), (*_STILL_TEXT, "html_prepend")),
    **dict.fromkeys(("json", "xml", "svg", "rtf"), ("crlf",)),
}


def damaged(data: bytes, kind: str, other: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each damage that this format can detect; `other` is an intact file of another format."""
    if len(data) < _MIN_BYTES:
        return
    for name, bad in _all(data, other, random.Random(zlib.crc32(data))):  # noqa: S311  (repeatable damage, no secret)
        if bad != data and name not in _UNDETECTABLE.get(kind, ()):
            yield name, bad


def with_overwritten_tail(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content with the last tenth, quarter and half overwritten, as failed transfers and disks do."""
    source = random.Random(zlib.crc32(data))  # noqa: S311  (repeatable damage, no secret)
    for percent in _TAIL_PERCENT:
        size = len(data) * percent // 100
        kept = data[: len(data) - size]
        for name, tail in zip(TAILS, (bytes(size), b"\xff" * size, source.randbytes(size)), strict=True):
            if len(data) >= _MIN_BYTES and kept + tail != data:
                yield name, kept + tail


def _all(data: bytes, other: bytes, source: random.Random) -> Iterator[tuple[str, bytes]]:
    size = len(data)
    zeroed = min(_ZEROED, size // 3)
    start = size // 2 - zeroed // 2
    flipped = bytearray(data)
    for _ in range(_FLIPPED):
        flipped[source.randrange(size)] ^= source.randrange(1, 256)
    yield "trunc50", data[: size // 2]
    yield "trunc95", data[: size * 95 // 100]
    yield "zero4k", data[:start] + bytes(zeroed) + data[start + zeroed :]
    yield "flip32", bytes(flipped)
    yield "html_prepend", PAGE + data
    yield "crlf", data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    yield "wrongtype", other
