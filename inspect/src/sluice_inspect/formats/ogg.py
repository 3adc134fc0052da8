"""Ogg (RFC 3533), Opus included: every page is in the file, intact and in order, and FFmpeg decodes the media."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.media import measure_media
from sluice_inspect.format import Examination, Family, Format, MatchOrder, named
from sluice_inspect.media.playback import MISSING_READER, play
from sluice_inspect.media.sample_files import encode_sound
from sluice_inspect.report import Corrupt, Limits, Measure, TooComplex
from sluice_inspect.source import Source

_CAPTURE_PATTERN: Final = b"OggS"
_HEADER_BYTES: Final = 27
_MAX_PAGE_BYTES: Final = _HEADER_BYTES + 255 + 255 * 255
_WINDOW_BYTES: Final = 1024 * 1024
_MAX_PAGES: Final = 500_000  # two gigabytes of the pages that encoders write

# Flags of a page's header type (RFC 3533, 6).
_FIRST_PAGE: Final = 2
_LAST_PAGE: Final = 4
_NO_POSITION: Final = -1  # the granule position of a page in which no packet ends

# Ogg's CRC-32 has zlib's polynomial, but processes the bits of each byte in the opposite order.
_REVERSED_BITS: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))

_CODECS: Final = {
    b"\x01vorbis": "vorbis", b"OpusHead": "opus", b"\x7fFLAC": "flac", b"fLaC": "flac", b"Speex   ": "speex",
    b"\x80theora": "theora", b"fishead\0": "skeleton", b"BBCD\0": "dirac", b"OVP80": "vp8", b"\x80kate\0\0\0": "kate",
    b"PCM     ": "pcm", b"CELT    ": "celt", b"\x01video": "ogm", b"\x01audio": "ogm", b"\x01text": "ogm",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _OggPage:
    """One page whose checksum matches. `skipped` counts the bytes before it that are no page: readers ignore them."""

    offset: int
    end: int
    flags: int
    serial: int
    sequence: int
    granule_position: int
    body: bytes
    skipped: int


@dataclass(slots=True)
class _LogicalStream:
    """One stream as far as it was followed."""

    codec: str
    sequence: int
    pages: int = 1
    has_ended: bool = False
    granule_position: int = 0


def _first_codecs(source: Source) -> list[str]:
    """Return the codecs of the streams that begin with the file, none for any other format. Ignores checksums."""
    codecs: list[str] = []
    offset = 0
    while (
        (header := source.head[offset : offset + _HEADER_BYTES]).startswith(_CAPTURE_PATTERN)
        and len(header) == _HEADER_BYTES
        and header[5] & _FIRST_PAGE
    ):
        body = offset + _HEADER_BYTES + header[26]
        lacing = source.head[offset + _HEADER_BYTES : body]
        codecs.append(_codec(source.head[body : body + 8]))
        offset = body + sum(lacing)
    return codecs


def _codec(start: bytes) -> str:
    return next((name for magic, name in _CODECS.items() if start.startswith(magic)), "unknown")


def _examine(source: Source, limits: Limits) -> Examination:
    deadline = Deadline(limits.soft_seconds)
    streams: list[_LogicalStream] = []
    by_serial: dict[int, _LogicalStream] = {}
    pages = end = 0
    for page in _read_pages(source):
        end = page.end
        pages += 1
        if pages > _MAX_PAGES:
            raise TooComplex(f"the Ogg file has more than {_MAX_PAGES} pages")
        stream = by_serial.get(page.serial)
        if page.flags & _FIRST_PAGE or stream is None:
            stream = _LogicalStream(_codec(page.body), page.sequence)
            by_serial[page.serial] = stream
            streams.append(stream)
        else:
            _continue_stream(stream, page)
        stream.has_ended = bool(page.flags & _LAST_PAGE)
        if page.granule_position != _NO_POSITION:
            stream.granule_position = page.granule_position
    if not any(stream.pages > 1 for stream in streams):
        raise Corrupt("the Ogg file holds no page of content")
    measures: dict[str, Measure] = {
        "pages": pages,
        "streams": ", ".join(stream.codec for stream in streams)[:100],
        "trailing_bytes": source.size - end,
    }
    return play(source, "ogg", deadline, measures=measures)


def _continue_stream(stream: _LogicalStream, page: _OggPage) -> None:
    """Add the page to its stream. Raise `Corrupt` if pages are missing before it."""
    stream.pages += 1
    gap = page.sequence - stream.sequence - 1
    # Tag editors renumber the pages of the headers that they rewrite, but not always the pages after them: a gap proves
    # a loss only among pages of content, or where bytes were skipped.
    if gap > 0 and (stream.granule_position > 0 or page.skipped) and not stream.has_ended:
        raise Corrupt(f"{gap} pages of the Ogg file are missing before byte {page.offset}")
    stream.sequence = page.sequence


def _read_pages(source: Source) -> Iterator[_OggPage]:
    """Yield all pages. Raise `Corrupt` if one is cut or does not match its checksum."""
    offset, start, window, last_end = 0, 0, b"", 0
    while offset < source.size:
        if offset + _MAX_PAGE_BYTES > start + len(window):
            start, window = offset, source.read_at(offset, _WINDOW_BYTES)
        index = window.find(_CAPTURE_PATTERN, offset - start)
        if index < 0:
            offset = max(offset + 1, start + len(window) - len(_CAPTURE_PATTERN) + 1)
            continue
        page = _parse_page(memoryview(window)[index:], start + index, start + index - last_end)
        if page is None and start + len(window) < source.size:
            offset = start + index
            start, window = offset, source.read_at(offset, _WINDOW_BYTES)
            continue
        if page is None:
            raise Corrupt(
                f"the Ogg file ends at byte {source.size}, inside the page that begins at byte {start + index}"
            )
        yield page
        offset = last_end = page.end


def _parse_page(data: memoryview, offset: int, skipped: int) -> _OggPage | None:
    """Return the page at the start of `data`, None if it is incomplete. Raise `Corrupt` for a wrong checksum."""
    if len(data) < _HEADER_BYTES:
        return None
    body = _HEADER_BYTES + data[26]
    size = body + sum(data[_HEADER_BYTES:body])
    if len(data) < size:
        return None
    raw = bytes(data[:size])
    # Computed with the field of the checksum set to zero (RFC 3533, 6).
    zeroed = raw[:22] + bytes(4) + raw[26:]
    crc = zlib.crc32(zeroed.translate(_REVERSED_BITS), 0xFFFFFFFF) ^ 0xFFFFFFFF
    if int.from_bytes(crc.to_bytes(4, "little").translate(_REVERSED_BITS), "big") != int.from_bytes(
        raw[22:26], "little"
    ):
        raise Corrupt(f"the Ogg page at byte {offset} is damaged: its checksum does not match")
    return _OggPage(
        offset=offset,
        end=offset + size,
        flags=raw[5],
        serial=int.from_bytes(raw[14:18], "little"),
        sequence=int.from_bytes(raw[18:22], "little"),
        granule_position=int.from_bytes(raw[6:14], "little", signed=True),
        body=raw[body:],
        skipped=skipped,
    )


OGG: Final = Format(
    name="ogg",
    family=Family.RECORDING,
    content_type="audio/ogg",
    extensions=frozenset({"ogg", "oga", "ogv", "ogx", "ogm", "spx"}),
    begins=(_CAPTURE_PATTERN,),
    matches=lambda source: source.head.startswith(_CAPTURE_PATTERN) and _first_codecs(source) != ["opus"],
    match_order=MatchOrder.RECORDING,
    examine=_examine,
    facts=partial(measure_media, demuxer="ogg"),
    sample=lambda: encode_sound("ogg", "flac"),
    missing_reader=MISSING_READER,
    names=named("Ogg", "ogg oga ogv"),
)

OPUS: Final = Format(
    name="opus",
    family=Family.RECORDING,
    content_type="audio/ogg",
    extensions=frozenset({"opus"}),
    tolerated_extensions=frozenset({"ogg", "oga"}),
    begins=(_CAPTURE_PATTERN,),
    matches=lambda source: _first_codecs(source) == ["opus"],
    match_order=MatchOrder.RECORDING,
    examine=_examine,
    facts=partial(measure_media, demuxer="ogg"),
    sample=lambda: encode_sound("ogg", "libopus"),
    missing_reader=MISSING_READER,
    names=named("Opus", "opus"),
)
