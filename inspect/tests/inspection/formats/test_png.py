"""PNG: integrity, limits and blankness."""

import io
import struct
import zlib
from collections.abc import Iterable

from sluice_inspect.formats.png import FORMAT
from sluice_inspect.images.raster import decode_frames
from sluice_inspect.report import Limits
from tests.inspection.formats import image_samples
from tests.inspection.formats.examining import Row, cuts, verdicts
from tests.inspection.formats.image_samples import (
    chess_board,
    encoded,
    plain_picture,
    png_chunk,
    png_header,
    with_chunk,
)


def animated(*squares: int) -> bytes:
    return image_samples.animated([chess_board(32, square) for square in squares], "PNG")


def of_colours(*levels: int) -> bytes:
    return image_samples.animated([plain_picture(level=level) for level in levels], "PNG")


@verdicts(FORMAT)
def test_every_picture_gets_its_verdict() -> Iterable[Row]:
    good = encoded(chess_board(), "PNG")
    yield "good", good, "ok"
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        yield f"mode {mode}", encoded(chess_board().convert(mode), "PNG"), "ok"
    yield "damaged text chunk", with_chunk(good, png_chunk(b"tEXt", b"Comment\0x", good=False)), "ok"
    zeros = png_chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(80_000_000), 1))
    yield "text chunk that unpacks to 80 MB", with_chunk(good, zeros), "ok"
    yield "bytes after the end", good + bytes(1000), "ok"
    yield "empty", encoded(plain_picture(), "PNG"), "blank"
    yield from cuts(good, 0.2, 0.5, 0.95)
    yield "no end chunk", good.removesuffix(b"\0\0\0\0IEND\xaeB`\x82"), "corrupt", "before its end chunk"
    pixel = good.index(b"IDAT") + 9
    changed = good[:pixel] + bytes([good[pixel] ^ 1]) + good[pixel + 1 :]
    yield "changed pixel", changed, "corrupt", "checksum is wrong"
    yield "missing pixels, correct checksums", png_header(64, 64), "corrupt"
    yield "no width", png_header(0, 10), "corrupt"
    yield "too many pixels to decode", png_header(30_000, 30_000), "image_too_large"
    yield "animation", animated(2, 3, 4, 5, 6), "ok"
    yield "too many frames", animated(2, 3, 4, 5, 6), "image_too_large", Limits(max_frames=4)
    moving = bytearray(animated(2, 3, 4))
    place = moving.rindex(b"fcTL")
    moving[place - 4 : place + 34] = png_chunk(b"fcTL", struct.pack(">L", 9) + moving[place + 8 : place + 30])
    yield "animation with a wrong sequence number", bytes(moving), "ok"
    yield "even frames of different colours", of_colours(0, 255), "ok"
    yield "even frames of nearly one colour", of_colours(250, 255), "blank"


def test_frames_beyond_a_number_of_pixels_are_not_decoded() -> None:
    # Each frame is composed on the whole canvas, however few bytes it has.
    decoded = decode_frames(io.BytesIO(animated(2, 3, 4, 5)), "PNG", Limits(), most_pixels=2 * 32 * 32)
    assert decoded.measures == {"frames": 3, "partially_checked": True}
