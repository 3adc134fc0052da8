"""Whether a WebP's decoder needs the last bytes of each coded picture, which it does of intact ones. The container is read in `kinds/webp.py`.

VP8 (RFC 6386, section 7) and VP8L (RFC 9649, section 3) are read bit by bit without marks or checksums: damaged data decodes to other
pixels, but takes more or fewer bytes for it. What takes more the decoder refuses. What takes fewer still decodes when the end is cut
off. Of 86 pictures of nine encoders each failed once its last four bytes were gone: a coder fills at most 32 bits when it ends.
"""

import io
import struct
from collections.abc import Iterator
from typing import Final

from sluice.formats import riff
from sluice.formats.budget import Deadline
from sluice.formats.images.raster import load_still
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Judgement, Limits

_CODED: Final = frozenset({b"VP8 ", b"VP8L"})
_SPARE: Final = 16
"""Bytes that an encoder might leave behind its data beyond zeros: four times what any was seen to leave."""
_LARGEST: Final = 64 * 1024**2
_FRAME_HEADER: Final = 16


def check_ends(source: Source, end: int, limits: Limits, deadline: Deadline) -> None:
    """Decode each coded picture without its last bytes. Raises `Corrupt` for one that does without them; stops at the deadline."""
    for chunk in riff.chunks(source, 12, end):
        for coded in riff.chunks(source, chunk.body + _FRAME_HEADER, min(chunk.end, end)) if chunk.name == b"ANMF" else (chunk,):
            if deadline.has_passed:
                return
            if coded.name in _CODED and coded.size <= _LARGEST:
                _check_end(coded, source.read_at(coded.body, coded.size), limits)


def _check_end(chunk: riff.Chunk, data: bytes, limits: Limits) -> None:
    needed = len(data.rstrip(b"\0")) - _SPARE
    if needed > 0 and _decodes(chunk.name, data[:needed], limits):
        raise Corrupt(f"the picture in the chunk at byte {chunk.offset} of the WebP is damaged: it decodes without its last bytes")


def _decodes(name: bytes, data: bytes, limits: Limits) -> bool:
    try:
        load_still(io.BytesIO(b"".join(_as_file(name, data))), "WEBP", limits)
    except Judgement:
        return False
    return True


def _as_file(name: bytes, data: bytes) -> Iterator[bytes]:
    padding = b"\0" * (len(data) & 1)
    yield struct.pack("<4sI4s4sI", b"RIFF", 12 + len(data) + len(padding), b"WEBP", name, len(data))
    yield data
    yield padding
