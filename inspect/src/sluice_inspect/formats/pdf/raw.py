"""What is checked on the bytes of a PDF before a library reads it: start, end, and streams that are bombs."""
# Readers repair wrong offsets and missing keywords; what they cannot repair is a missing part.

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sluice_inspect.budget import CHUNK_BYTES
from sluice_inspect.formats.pdf.repair import dictionary_before, keywords
from sluice_inspect.report import Corrupt, Finding, Limits, TooComplex, Unsafe
from sluice_inspect.signatures import has_binary_signature, is_web_page

HEADER: Final = b"%PDF"
HEADER_WITHIN: Final = 1024
_END: Final = b"%%EOF"
_OBJECT_SYNTAX: Final = re.compile(rb"\d\s++obj\b|endobj|endstream")

STREAM: Final = re.compile(rb"stream\r?\n")
STREAM_OR_CR: Final = re.compile(rb"stream(?:\r\n?|\n)")  # writers also put a lone CR, which readers accept
FLATE: Final = re.compile(rb"/Fl(?:ateDecode)?\b")
_IMAGE: Final = re.compile(rb"/Subtype\s*/Image\b")
_LARGE_STREAM: Final = 64 * 1024
_READ_TIMES_MOST: Final = 4  # how often a file is read because streams lie within others


@dataclass(frozen=True, slots=True)
class Inflated:
    """How far a Flate stream was unpacked, in bytes before and after."""

    size: int
    packed: int
    error: str = ""  # empty for a sound stream, and for one that only stops early, which readers show
    ended: bool = False
    check_failed: bool = False  # it unpacked to its end, but not to the bytes that were packed


def has_header(head: bytes) -> bool:
    """Return whether a PDF begins in the first KiB, with no other format before it."""
    at = head[: HEADER_WITHIN + len(HEADER)].find(HEADER)
    return at == 0 or (at > 0 and not has_binary_signature(head) and not is_web_page(head))


def check_end(tail: bytes) -> None:
    """Raise `Corrupt` if the last bytes of a file are not the end of a PDF."""
    written = tail.rstrip(b"\0\t\n\f\r ")
    at = max(written.rfind(_END), written.rfind(b"startxref"))
    if at < 0:
        raise Corrupt("the file is cut: the marks at the end of a PDF are missing")
    # Readers skip any other bytes after the end.
    if _OBJECT_SYNTAX.search(written, at):
        raise Corrupt("the file is cut: objects follow its last end mark, but not the end that belongs to them")


def inflate(raw: bytes | memoryview, most: int) -> Inflated:
    """Unpack a Flate stream, without keeping the result, until it ends, fails, or gives more than `most` bytes."""
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


def unpacked_limit(packed: int, limits: Limits) -> int:
    """Return how many bytes `packed` ones may unpack to."""
    return max(limits.ratio_floor_bytes, limits.max_ratio * packed)


def is_bomb(size: int, packed: int, limits: Limits) -> bool:
    """Return whether a stream unpacked to more than it may."""
    return size > unpacked_limit(packed, limits)


def refuse_bombs(data: bytes, limits: Limits) -> None:
    """Raise `Unsafe` for streams that would fill a reader's memory, and `TooComplex` if streams overlap.

    Pictures have a limit of their own.
    """
    view, unread = memoryview(data), _READ_TIMES_MOST * len(data)
    for start, end, dictionary in _suspects(data):
        unread -= end - start
        if unread < 0:
            raise TooComplex("the streams of the document overlap")
        raw: bytes | memoryview = view[start:end]
        if len(FLATE.findall(dictionary)) > 1:
            try:
                raw = zlib.decompressobj().decompress(raw, limits.ratio_floor_bytes)
            except zlib.error:
                raw = b""
        if is_bomb(inflate(raw, unpacked_limit(end - start, limits)).size, end - start, limits):
            raise Unsafe(
                Finding.ARCHIVE_BOMB,
                f"the stream at byte {start} unpacks to more than {limits.max_ratio} times its size",
            )


def _suspects(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield start, end and dictionary of each packed stream that could be a bomb: large, or packed twice."""
    end = -1
    for match in keywords(STREAM, data):
        dictionary = dictionary_before(data, match.start())
        layers = len(FLATE.findall(dictionary))
        if not layers or _IMAGE.search(dictionary):
            continue
        if end < match.end():
            end = data.find(b"endstream", match.end())
            end = len(data) if end < 0 else end
        if layers > 1 or end - match.end() > _LARGE_STREAM:
            yield match.end(), end, dictionary
