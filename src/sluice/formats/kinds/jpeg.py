"""JPEG: the markers lead to whole scans, and the scans decode without a single complaint of the decoder.

Damage inside a scan still decodes to something, so two decoders look: Pillow, which finds missing data, and the libjpeg in qpdf, which
reports damaged data as an error. Both get only what is drawn: odd metadata, junk between segments and a missing end marker are forgiven,
since viewers forgive them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sluice.formats.images.raster import blank_picture, decode, keep_within, sample_picture
from sluice.formats.images.strict_jpeg import jpeg_complaint
from sluice.formats.kind import Kind
from sluice.formats.pieces import open_pieces
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Judgement, Limits, Measure, TooComplex, Unsupported

_START: Final = b"\xff\xd8"
_END: Final = b"\xff\xd9"
_EOI, _SOS, _DHT, _DQT, _DRI, _DAC, _DNL = 0xD9, 0xDA, 0xC4, 0xDB, 0xDD, 0xCC, 0xDC
_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {_DHT, _DAC, 0xC8})
_COMMON_FRAMES: Final = frozenset({0xC0, 0xC1, 0xC2, 0xC9, 0xCA})
"""Baseline, extended, progressive; lossless and hierarchical ones are read by few."""
_DRAWN: Final = frozenset({_SOS, _DHT, _DQT, _DRI, _DAC, _DNL}) | _FRAMES
_ALONE: Final = frozenset({0x01, 0xD8, *range(0xD0, 0xD8)})
_NEXT_MARKER: Final = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_JUNK_BEFORE_HEADER: Final = re.compile(rb"\xff\xd8.{1,512}?\xff[\xe0\xe1]..(?:JFIF|Exif)\0", re.DOTALL)
_WINDOW: Final = 256 * 1024
_SEGMENTS_MAX: Final = 500_000
_STRICT_PIXELS: Final = 64_000_000
_STRICT_BYTES: Final = 128 * 1024**2
_SCANNED_PIXELS_MAX: Final = 2_000_000_000


@dataclass(slots=True)
class _Anatomy:
    """The stretches (offset, length) of a JPEG that are drawn, and what its headers declare."""

    drawn: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0
    ended: bool = False
    scans: int = 0
    process: int = 0
    precision: int = 8
    width: int = 0
    height: int = 0


def _recognises(source: Source) -> bool:
    return source.head.startswith(b"\xff\xd8\xff") or _JUNK_BEFORE_HEADER.match(source.head) is not None


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    anatomy = _dissect(source)
    keep_within(limits, anatomy.width, anatomy.height)
    if anatomy.width * anatomy.height * anatomy.scans > _SCANNED_PIXELS_MAX:
        raise TooComplex(f"the JPEG draws {anatomy.width} x {anatomy.height} pixels {anatomy.scans} times over")
    try:
        _draw_strictly(source, anatomy)
        decoded = decode(source, open_pieces(source, [_START, *anatomy.drawn, _END]), "JPEG", limits)
    except Corrupt as error:
        raise _judge(error, anatomy) from error
    return {
        "width": anatomy.width,
        "height": anatomy.height,
        "trailing_bytes": source.size - anatomy.end,
        "end_marker": anatomy.ended,
    } | decoded


def _judge(error: Corrupt, anatomy: _Anatomy) -> Judgement:
    if anatomy.process not in _COMMON_FRAMES or anatomy.precision != 8:  # noqa: PLR2004  (bits per sample that decoders share)
        return Unsupported(f"a JPEG of process {anatomy.process:#x} with {anatomy.precision} bits per sample needs another decoder")
    return error


def _draw_strictly(source: Source, anatomy: _Anatomy) -> None:
    """Decode with a libjpeg that takes its own warnings (damaged codes, scans that end early) for errors. Raises `Corrupt`.

    Zeros with which some cameras fill up behind the last scan are tried without when they are complained of.
    """
    if anatomy.width * anatomy.height > _STRICT_PIXELS or sum(length for _, length in anatomy.drawn) > _STRICT_BYTES:
        return
    drawn = _START + b"".join(source.read_at(offset, length) for offset, length in anatomy.drawn)
    complaint = jpeg_complaint(drawn + _END)
    if complaint and not (drawn.endswith(b"\0") and not jpeg_complaint(drawn.rstrip(b"\0") + _END)):
        raise Corrupt(f"the JPEG is damaged: {complaint}")


def _dissect(source: Source) -> _Anatomy:
    """Follow the markers to the end of the picture. Raises `Corrupt` where a segment passes the end, or nothing is drawn, `TooComplex` for too many."""
    anatomy, markers = _Anatomy(end=2), _Markers(source)
    segments = 0
    while not anatomy.ended and (marker := markers.next(anatomy.end)) is not None:
        offset, code = marker
        segments += 1
        if segments > _SEGMENTS_MAX:
            raise TooComplex(f"the JPEG is cut into more than {_SEGMENTS_MAX} segments")
        if code == _EOI:
            anatomy.end, anatomy.ended = offset + 2, True
        elif code in _ALONE:
            anatomy.end = offset + 2
        else:
            _take_segment(source, markers, anatomy, (offset, code))
    if not anatomy.process:
        raise Corrupt("the JPEG has no frame header")
    if not anatomy.scans:
        raise Corrupt("the JPEG holds no picture")
    return anatomy


class _Markers:
    """Finds markers through a window over the source, which is read once however many there are."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._start = 0
        self._window = source.head

    def next(self, offset: int) -> tuple[int, int] | None:
        """Answer offset and code of the next marker that is no part of scan data, or None."""
        while True:
            place = offset - self._start
            if 0 <= place < len(self._window) and (found := _NEXT_MARKER.search(self._window, place)):
                return self._start + found.start(), found.group()[1]
            offset = max(offset, self._start + len(self._window) - 1)
            if offset >= self._source.size - 1:
                return None
            self._start, self._window = offset, self._source.read_at(offset, _WINDOW)


def _take_segment(source: Source, markers: _Markers, anatomy: _Anatomy, marker: tuple[int, int]) -> None:
    offset, code = marker
    length = max(2, int.from_bytes(source.read_at(offset + 2, 2), "big"))
    end = offset + 2 + length
    if end > source.size:
        raise Corrupt(f"the JPEG ends at byte {source.size}, inside the segment from byte {offset} on")
    if code in _FRAMES and not anatomy.process:
        _take_frame_header(source, anatomy, offset, code)
    if code == _SOS:
        anatomy.scans += 1
        following = markers.next(end)
        end = source.size if following is None else following[0]
    if code == _DNL and not anatomy.height:
        anatomy.height = int.from_bytes(source.read_at(offset + 4, 2), "big")
    if code in _DRAWN:
        anatomy.drawn.append((offset, end - offset))
    anatomy.end = end


def _take_frame_header(source: Source, anatomy: _Anatomy, offset: int, code: int) -> None:
    header = source.read_at(offset + 4, 5)
    if len(header) < 5:  # noqa: PLR2004  (precision 1, height 2, width 2)
        raise Corrupt("the JPEG ends inside its frame header")
    anatomy.process = code
    anatomy.precision = header[0]
    anatomy.height = int.from_bytes(header[1:3], "big")
    anatomy.width = int.from_bytes(header[3:5], "big")


KIND: Final = Kind(
    name="jpeg",
    content_type="image/jpeg",
    extensions=frozenset({"jpg", "jpeg", "jpe", "jfif", "jif", "mpo", "thm"}),
    recognises=_recognises,
    check=_check,
    blank=blank_picture,
    sample=lambda: sample_picture("JPEG"),
)
