"""The pages of Ogg files (RFC 3533): all there, unbroken and in order; and what their streams hold. Decodes nothing."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, TooComplex

CAPTURE: Final = b"OggS"
_HEADER_BYTES: Final = 27
_PAGE_MAX: Final = _HEADER_BYTES + 255 + 255 * 255
_WINDOW: Final = 1024 * 1024
_PAGES_MOST: Final = 500_000
"""Two gigabytes of the pages that encoders write."""
_CONTINUED: Final = 1
_FIRST: Final = 2
_LAST: Final = 4

_MIRROR: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
"""Ogg counts bits from the other end than zlib does, over the same polynomial."""

_CODECS: Final = {
    b"\x01vorbis": "vorbis",
    b"OpusHead": "opus",
    b"\x7fFLAC": "flac",
    b"fLaC": "flac",
    b"Speex   ": "speex",
    b"\x80theora": "theora",
    b"fishead\0": "skeleton",
    b"BBCD\0": "dirac",
    b"OVP80": "vp8",
    b"\x80kate\0\0\0": "kate",
    b"PCM     ": "pcm",
    b"CELT    ": "celt",
    b"\x01video": "ogm",
    b"\x01audio": "ogm",
    b"\x01text": "ogm",
}


@dataclass(frozen=True, slots=True)
class Page:
    """One page, its check sum found right."""

    offset: int
    end: int
    flags: int
    serial: int
    sequence: int
    position: int
    """Granule position: how far the stream is played at the end of the page, in units of its codec; -1 where no packet ends."""
    body: bytes
    skipped: int
    """Bytes before the page that are no page; readers pass over them."""


@dataclass(slots=True)
class Stream:
    """One logical stream, as far as it was followed."""

    codec: str
    sequence: int
    pages: int = 1
    ended: bool = False
    position: int = 0


@dataclass(slots=True)
class Survey:
    """The streams of a whole file, by serial number and beginning."""

    streams: list[Stream] = field(default_factory=list)
    pages: int = 0
    trailing: int = 0
    """Bytes behind the last page that are no page: tags that other programs appended."""

    @property
    def codecs(self) -> list[str]:
        """Answer what the streams hold, in the order of their beginnings."""
        return [stream.codec for stream in self.streams]


def first_codecs(source: Source) -> list[str]:
    """Answer what the streams that begin the file hold; empty for what is no Ogg file. Check sums are left for later."""
    found: list[str] = []
    offset = 0
    while (
        (head := source.head[offset : offset + _HEADER_BYTES]).startswith(CAPTURE)
        and len(head) == _HEADER_BYTES
        and head[5] & _FIRST
    ):
        lacing = source.head[offset + _HEADER_BYTES : offset + _HEADER_BYTES + head[26]]
        body = offset + _HEADER_BYTES + head[26]
        found.append(_codec(source.head[body : body + 8]))
        offset = body + sum(lacing)
    return found


def survey(source: Source) -> Survey:
    """Follow every page. Raises `Corrupt` for a page that is broken, cut or missing, and for a file without a page of content, `TooComplex` for too many."""
    found = Survey()
    open_streams: dict[int, Stream] = {}
    end = 0
    for page in pages(source):
        end = page.end
        found.pages += 1
        if found.pages > _PAGES_MOST:
            raise TooComplex(f"the Ogg file has more than {_PAGES_MOST} pages")
        stream = open_streams.get(page.serial)
        if page.flags & _FIRST or stream is None:
            stream = Stream(_codec(page.body), page.sequence)
            open_streams[page.serial] = stream
            found.streams.append(stream)
        else:
            _follow(stream, page)
        stream.ended = bool(page.flags & _LAST)
        if page.position != -1:
            stream.position = page.position
    found.trailing = source.size - end
    if not any(stream.pages > 1 for stream in found.streams):
        raise Corrupt("the Ogg file holds no page of content")
    return found


def _follow(stream: Stream, page: Page) -> None:
    """Note that a stream goes on. Editors renumber the pages of the headers they rewrite, but not always those behind."""
    stream.pages += 1
    gap = page.sequence - stream.sequence - 1
    if gap > 0 and (stream.position > 0 or page.skipped) and not stream.ended:
        raise Corrupt(f"{gap} pages of the Ogg file are missing before byte {page.offset}")
    stream.sequence = page.sequence


def pages(source: Source) -> Iterator[Page]:
    """Answer the pages up to the last. Raises `Corrupt` where one is cut or its check sum is another."""
    offset, start, window, behind = 0, 0, b"", 0
    while offset < source.size:
        if offset + _PAGE_MAX > start + len(window):
            start, window = offset, source.read_at(offset, _WINDOW)
        place = window.find(CAPTURE, offset - start)
        if place < 0:
            offset = max(offset + 1, start + len(window) - len(CAPTURE) + 1)
            continue
        page = _page(memoryview(window)[place:], start + place, start + place - behind)
        if page is None and start + len(window) < source.size:
            offset = start + place
            start, window = offset, source.read_at(offset, _WINDOW)
            continue
        if page is None:
            raise Corrupt(f"the Ogg file ends at byte {source.size}, inside the page from byte {start + place} on")
        yield page
        offset = behind = page.end


def _page(data: memoryview, offset: int, skipped: int) -> Page | None:
    """Answer the page at the start of `data`, or None if the data ends before it does. Raises `Corrupt`."""
    if len(data) < _HEADER_BYTES:
        return None
    body = _HEADER_BYTES + data[26]
    size = body + sum(data[_HEADER_BYTES:body])
    if len(data) < size:
        return None
    raw = bytes(data[:size])
    if _sum(raw) != int.from_bytes(raw[22:26], "little"):
        raise Corrupt(f"the Ogg page at byte {offset} is damaged: its check sum is another")
    return Page(
        offset=offset,
        end=offset + size,
        flags=raw[5],
        serial=int.from_bytes(raw[14:18], "little"),
        sequence=int.from_bytes(raw[18:22], "little"),
        position=int.from_bytes(raw[6:14], "little", signed=True),
        body=raw[body:],
        skipped=skipped,
    )


def _sum(page: bytes) -> int:
    blanked = page[:22] + bytes(4) + page[26:]
    mirrored = zlib.crc32(blanked.translate(_MIRROR), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(_MIRROR), "big")


def _codec(start: bytes) -> str:
    return next((name for mark, name in _CODECS.items() if start.startswith(mark)), "unknown")
