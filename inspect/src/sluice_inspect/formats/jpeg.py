"""JPEG: the markers lead to complete scans, and the scans decode without any error or warning of the decoder."""
# Damage inside a scan still decodes to something, so two decoders are used: Pillow, which finds missing data, and the
# libjpeg in qpdf, which reports damaged data. Both get only the segments that are drawn: odd metadata, junk between
# segments and a missing end marker are tolerated, as by viewers.

import re
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO, Final

from sluice_inspect.facts.media import measure_picture
from sluice_inspect.format import Examination, Family, Format, MatchOrder, named
from sluice_inspect.images.raster import decode_frames, require_within_limits, sample_picture
from sluice_inspect.images.strict_jpeg import COMMON_PRECISION, COMMON_PROCESSES, jpeg_error
from sluice_inspect.report import Corrupt, Limits, TooComplex, Unsupported
from sluice_inspect.source import Source, open_pieces

_START: Final = b"\xff\xd8"
_END: Final = b"\xff\xd9"
_EOI, _SOS, _DHT, _DQT, _DRI, _DAC, _DNL = 0xD9, 0xDA, 0xC4, 0xDB, 0xDD, 0xCC, 0xDC
_FRAME_HEADERS: Final = frozenset({*range(0xC0, 0xD0)} - {_DHT, _DAC, 0xC8})
_DRAWN: Final = frozenset({_SOS, _DHT, _DQT, _DRI, _DAC, _DNL}) | _FRAME_HEADERS
_WITHOUT_SEGMENT: Final = frozenset({0x01, 0xD8, *range(0xD0, 0xD8)})
_NEXT_MARKER: Final = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_JUNK_BEFORE_HEADER: Final = re.compile(rb"\xff\xd8.{1,512}?\xff[\xe0\xe1]..(?:JFIF|Exif)\0", re.DOTALL)
_WINDOW: Final = 256 * 1024
_SEGMENTS_MAX: Final = 500_000
_STRICT_PIXELS: Final = 64_000_000
_STRICT_BYTES: Final = 128 * 1024**2
_SCANNED_PIXELS_MAX: Final = 2_000_000_000


@dataclass(slots=True)
class _JpegLayout:
    """The stretches (offset, length) of a JPEG that are drawn, and what its headers declare."""

    drawn: list[tuple[int, int]] = field(default_factory=list)
    end: int = 2  # of the last segment read; the first marker is behind SOI
    has_end_marker: bool = False
    scans: int = 0
    process: int = 0  # the code of the frame header, 0 before it
    precision: int = 8
    width: int = 0
    height: int = 0

    def add_drawn(self, offset: int, length: int) -> None:
        if self.drawn and sum(self.drawn[-1]) == offset:  # most segments follow each other: read them in one go
            self.drawn[-1] = (self.drawn[-1][0], self.drawn[-1][1] + length)
        else:
            self.drawn.append((offset, length))


def _examine(source: Source, limits: Limits) -> Examination:
    layout = _read_layout(source)
    require_within_limits(limits, layout.width, layout.height)
    # A progressive picture is drawn again by each scan: a small file of many scans can keep a decoder busy for hours.
    if layout.width * layout.height * layout.scans > _SCANNED_PIXELS_MAX:
        raise TooComplex(f"the JPEG draws {layout.width} x {layout.height} pixels {layout.scans} times over")
    try:
        _decode_strictly(source, layout)
        decoded = decode_frames(open_pieces(source, [_START, *layout.drawn, _END]), "JPEG", limits)
    except Corrupt as error:
        if layout.process in COMMON_PROCESSES and layout.precision == COMMON_PRECISION:
            raise
        raise Unsupported(
            f"a JPEG of process {layout.process:#x} with {layout.precision} bits per sample needs another decoder"
        ) from error
    measures = {
        "width": layout.width,
        "height": layout.height,
        "trailing_bytes": source.size - layout.end,
        "end_marker": layout.has_end_marker,
    }
    return Examination(measures | decoded.measures, decoded.blank, decoded.measured)


def open_drawn(source: Source) -> BinaryIO:
    """Return the picture alone, without metadata and without the junk that decoders stumble over. Raise `Corrupt`."""
    return open_pieces(source, [_START, *_read_layout(source).drawn, _END])


def _read_layout(source: Source) -> _JpegLayout:
    """Follow the markers to the end of the picture. Raise `Corrupt` where one passes the end or nothing is drawn."""
    layout, markers = _JpegLayout(), _MarkerReader(source)
    segments = 0
    while (marker := markers.find_next(layout.end)) is not None:
        offset, code = marker
        segments += 1
        if segments > _SEGMENTS_MAX:
            raise TooComplex(f"the JPEG is cut into more than {_SEGMENTS_MAX} segments")
        if code == _EOI:
            layout.end, layout.has_end_marker = offset + 2, True
            break
        if code in _WITHOUT_SEGMENT:
            layout.end = offset + 2
        else:
            _read_segment(source, markers, layout, offset, code)
    if not layout.process:
        raise Corrupt("the JPEG has no frame header")
    if not layout.scans:
        raise Corrupt("the JPEG holds no picture")
    return layout


class _MarkerReader:
    """Finds markers through a window over the source, so that many short segments cost few reads."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._start = 0
        self._window = source.head

    def find_next(self, offset: int) -> tuple[int, int] | None:
        while True:
            skip = offset - self._start
            if 0 <= skip < len(self._window) and (found := _NEXT_MARKER.search(self._window, skip)):
                return self._start + found.start(), found.group()[1]
            offset = max(offset, self._start + len(self._window) - 1)
            if offset >= self._source.size - 1:
                return None
            self._start, self._window = offset, self._source.read_at(offset, _WINDOW)


def _read_segment(source: Source, markers: _MarkerReader, layout: _JpegLayout, offset: int, code: int) -> None:
    length = max(2, int.from_bytes(source.read_at(offset + 2, 2), "big"))
    end = offset + 2 + length
    if end > source.size:
        raise Corrupt(f"the JPEG ends at byte {source.size}, inside the segment from byte {offset} on")
    if code in _FRAME_HEADERS and not layout.process:
        header = source.read_at(offset + 4, 5)
        if len(header) < 5:
            raise Corrupt("the JPEG ends inside its frame header")
        layout.process, layout.precision = code, header[0]
        layout.height, layout.width = int.from_bytes(header[1:3], "big"), int.from_bytes(header[3:5], "big")
    if code == _SOS:
        layout.scans += 1
        following = markers.find_next(end)
        end = source.size if following is None else following[0]
    if code == _DNL and not layout.height:  # the height may be stated behind the first scan instead (T.81, B.2.5)
        layout.height = int.from_bytes(source.read_at(offset + 4, 2), "big")
    if code in _DRAWN:
        layout.add_drawn(offset, end - offset)
    layout.end = end


def _decode_strictly(source: Source, layout: _JpegLayout) -> None:
    """Decode with a libjpeg that takes its own warnings (damaged codes, scans that end early) for errors."""
    if layout.width * layout.height > _STRICT_PIXELS or sum(length for _, length in layout.drawn) > _STRICT_BYTES:
        return
    drawn = _START + b"".join(source.read_at(offset, length) for offset, length in layout.drawn)
    error = jpeg_error(drawn + _END)
    # Some cameras fill up the file with zeros behind the last scan.
    if error and not (drawn.endswith(b"\0") and not jpeg_error(drawn.rstrip(b"\0") + _END)):
        raise Corrupt(f"the JPEG is damaged: {error}")


FORMAT: Final = Format(
    name="jpeg",
    family=Family.PICTURE,
    content_type="image/jpeg",
    extensions=frozenset({"jpg", "jpeg", "jpe", "jfif", "jif", "mpo", "thm"}),
    begins=(b"\xff\xd8",),
    matches=lambda source: (
        source.head.startswith(b"\xff\xd8\xff") or _JUNK_BEFORE_HEADER.match(source.head) is not None
    ),
    match_order=MatchOrder.PICTURE,
    examine=_examine,
    facts=partial(measure_picture, plugin="JPEG"),
    sample=lambda: sample_picture("JPEG"),
    names=named("JPEG", "jpg jpe jfif jif"),
)
