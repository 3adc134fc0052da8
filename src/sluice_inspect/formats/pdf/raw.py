"""What the bytes of a PDF tell before any library reads it: its start and end, and streams that unpack to too much. Parses no objects.

Readers rebuild a lot: a wrong offset or a missing keyword harms nobody. What they cannot rebuild is a part that never arrived.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sluice.formats.budget import CHUNK_BYTES
from sluice.formats.magics import begins_otherwise
from sluice.formats.text.webpage import is_web_page
from sluice.formats.verdict import Corrupt, Finding, Limits, Unsafe

_HEADER: Final = b"%PDF"
_HEADER_WITHIN: Final = 1024
_END: Final = b"%%EOF"
_OBJECT_SYNTAX: Final = re.compile(rb"\d\s+obj\b|endobj|endstream")

STREAM: Final = re.compile(rb"(?<!end)stream\r?\n")
_DICTIONARY_MOST: Final = 2048
FLATE: Final = re.compile(rb"/Fl(?:ateDecode)?\b")
_IMAGE: Final = re.compile(rb"/Subtype\s*/Image\b")
_LARGE_STREAM: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Inflated:
    """How far a Flate stream could be unpacked."""

    size: int
    packed: int
    error: str = ""
    """Empty for a sound stream, and for one that only stops early, which readers show."""
    ended: bool = False
    check_failed: bool = False
    """It unpacked to its end, to other bytes than were packed."""


def has_header(head: bytes) -> bool:
    """Whether a PDF begins in the first KiB, behind nothing that is another format."""
    at = head[: _HEADER_WITHIN + len(_HEADER)].find(_HEADER)
    return at == 0 or (at > 0 and not begins_otherwise(head) and not is_web_page(head))


def check_end(tail: bytes) -> None:
    """Raise `Corrupt` when these last bytes of a file are not the end of a PDF. Behind the end, anything but objects is tolerated."""
    written = tail.rstrip(b"\0\t\n\f\r ")
    at = max(written.rfind(_END), written.rfind(b"startxref"))
    if at < 0:
        raise Corrupt("the file is cut: the marks at the end of a PDF are missing")
    if _OBJECT_SYNTAX.search(written, at):
        raise Corrupt("the file is cut: objects follow its last end mark, but not the end that belongs to them")


def inflate(raw: bytes, most: int) -> Inflated:
    """Unpack a Flate stream, without keeping it, until it ends, fails, or has given more than `most` bytes."""
    decompressor, size = zlib.decompressobj(), 0
    view = memoryview(raw)
    try:
        for at in range(0, len(raw), CHUNK_BYTES):
            chunk: bytes | memoryview = view[at : at + CHUNK_BYTES]
            while chunk and size <= most and not decompressor.eof:
                size += len(decompressor.decompress(chunk, 4 * CHUNK_BYTES))
                chunk = decompressor.unconsumed_tail
            if size > most or decompressor.eof:
                break
    except zlib.error as error:
        return Inflated(size, len(raw), str(error), check_failed="data check" in str(error))
    return Inflated(size, len(raw), ended=decompressor.eof)


def most_from(packed: int, limits: Limits) -> int:
    """Answer how many bytes may come out of `packed` ones."""
    return max(limits.ratio_floor_bytes, limits.max_ratio * packed)


def is_bomb(size: int, packed: int, limits: Limits) -> bool:
    """Whether more came out of a stream than may."""
    return size > most_from(packed, limits)


def refuse_bombs(data: bytes, limits: Limits) -> None:
    """Raise `Unsafe` for streams that would fill the memory of whoever opens the file. Pictures may be large and even: they are bounded elsewhere."""
    for start, end, dictionary in _suspects(data):
        raw = data[start:end]
        if len(FLATE.findall(dictionary)) > 1:
            raw = _unpack_once(raw, limits.ratio_floor_bytes)
        if is_bomb(inflate(raw, most_from(end - start, limits)).size, end - start, limits):
            raise Unsafe(Finding.ARCHIVE_BOMB, f"the stream at byte {start} unpacks to more than {limits.max_ratio} times its size")


def _suspects(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield start, end and dictionary of each packed stream that could unpack to much."""
    for match in STREAM.finditer(data):
        dictionary = dictionary_before(data, match.start())
        layers = len(FLATE.findall(dictionary))
        if not layers or _IMAGE.search(dictionary):
            continue
        end = data.find(b"endstream", match.end())
        end = len(data) if end < 0 else end
        if layers > 1 or end - match.end() > _LARGE_STREAM:
            yield match.end(), end, dictionary


def _unpack_once(raw: bytes, most: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(raw, most)
    except zlib.error:
        return b""


def dictionary_before(data: bytes, keyword: int) -> bytes:
    """Answer the dictionary in front of the keyword `stream`, or what stands in its place."""
    return data[max(data.rfind(b"obj", max(0, keyword - _DICTIONARY_MOST), keyword), 0) : keyword]
