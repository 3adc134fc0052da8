"""TIFF and BigTIFF: every directory, strip and tile is in the file and unpacks to its rows, every page decodes."""
# Our own strict readers judge directories and common packings, libtiff (in Pillow) the others (fax, old JPEG, WebP).
# If it does not know a layout of samples that unpacked well, the page passes without being drawn.

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO, Final

import numpy as np
from PIL import Image, UnidentifiedImageError

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.media import measure_picture
from sluice_inspect.format import Examination, Family, Format, MatchOrder, named
from sluice_inspect.formats.tiff import directory as tiff
from sluice_inspect.formats.tiff.directory import (
    DRAWN,
    Directory,
    DirectoryReader,
    Tag,
    TiffHeader,
    read_header,
)
from sluice_inspect.formats.tiff.segments import (
    FAX,
    OLD_JPEG,
    PixelLayout,
    TiffSegment,
    read_layout,
    read_segments,
)
from sluice_inspect.formats.tiff.unpack import check_segments
from sluice_inspect.images.raster import FrameSummary, decode_still, require_within_limits, sample_picture
from sluice_inspect.report import Corrupt, Limits, Measure, Unsupported
from sluice_inspect.source import Piece, Source, open_pieces

# Packings for which an error of libtiff's is about the data. Of JPEG it is not: libtiff lacks the lossless process and
# twelve bits, and what it does read was judged before.
_JUDGED_BY_LIBTIFF: Final = FAX
_DRAWN_SORTED: Final = sorted(DRAWN)
_GREY_AND_ALPHA: Final = 2  # samples; of these in planes of their own, Pillow reads the first plane alone
# Bytes of pixels that all pages may have, unless the file is large itself (`Limits.max_ratio`): one second of CPU time.
_DECODED_MOST: Final = 128 * 1024**2
# Pillow converts few pictures from the modes that it has for TIFF alone.
_COMMON_MODES: Final = {"La": "LA", "RGBa": "RGBA", "I;16B": "I", "I;16L": "I", "I;16N": "I"}

_PAGE_MOST: Final = 256 * 1024**2
_HEADER, _ENTRY, _LONG, _SHORT = 8, 12, 4, 3
_LOCATIONS: Final = frozenset({tiff.STRIP_OFFSETS, tiff.STRIP_BYTES, tiff.TILE_OFFSETS, tiff.TILE_BYTES})


def _examine(source: Source, limits: Limits) -> Examination:
    header = read_header(source)
    if header is None:
        raise Corrupt("the file does not begin as TIFF files do")
    return _TiffCheck(source, limits, header).run()


@dataclass(slots=True)
class _TiffCheck:
    source: Source
    limits: Limits
    header: TiffHeader
    summary: FrameSummary = field(default_factory=FrameSummary)
    pages: int = 0
    not_drawn: int = 0
    size: tuple[int, int] = (0, 0)  # of the first page
    end: int = 0
    is_partial: bool = False
    decoded_bytes: int = 0
    # Tags of the pictures checked so far, as pages or below one. Pages may share a picture: equal tags, equal pixels.
    checked: set[tuple[bool, tuple[Tag | None, ...]]] = field(default_factory=set)

    def run(self) -> Examination:
        """Check all pages until time is over or more was decoded than the size of the file warrants."""
        deadline = Deadline(self.limits.soft_seconds)
        directories = DirectoryReader(self.source, self.header, self.limits.max_frames)
        for page in directories.pages():
            self._check_page(page, deadline)
            for smaller in directories.subpages(page):
                if self._is_new(smaller, is_page=False):
                    self._unpack(smaller, deadline)
                if self._is_over_budget(deadline):
                    break
            if self._is_over_budget(deadline):
                break
        if not self.pages:
            raise Corrupt("the TIFF has no page with a picture")
        measures: dict[str, Measure] = {
            "width": self.size[0],
            "height": self.size[1],
            "frames": self.pages,
            "trailing_bytes": max(0, self.source.size - max(self.end, directories.end)),
        }
        if self.not_drawn:
            measures["pages_not_drawn"] = self.not_drawn
        if self.is_partial:
            measures["partially_checked"] = True
        blank = self.summary.blank_detail(is_complete=not (self.not_drawn or self.is_partial))
        return Examination(measures, lambda: blank, self.summary.measured)

    def _is_over_budget(self, deadline: Deadline) -> bool:
        warranted = max(_DECODED_MOST, self.limits.max_ratio * self.source.size)
        self.is_partial = deadline.has_passed or self.decoded_bytes > warranted
        return self.is_partial

    def _check_page(self, page: Directory, deadline: Deadline) -> None:
        if not self._is_new(page, is_page=True):
            self.pages += 1
            return
        unpacked = self._unpack(page, deadline)
        if unpacked is None:
            return
        layout, segments, is_sound = unpacked
        self.pages += 1
        self.size = self.size if any(self.size) else (layout.width, layout.height)
        frame = self._draw(page, layout, segments, is_sound=is_sound)
        if frame is not None:
            self.summary.add(_in_common_mode(frame, layout.bits[0]), self.limits)
            return
        self.not_drawn += 1
        if not is_sound and not deadline.has_passed and self.pages == 1:
            raise Unsupported(f"no installed decoder reads TIFFs packed by method {layout.compression} like this one")

    def _unpack(self, page: Directory, deadline: Deadline) -> tuple[PixelLayout, list[TiffSegment], bool] | None:
        """Unpack a page; return its layout, its segments, and whether all of them are sound. None without a picture."""
        layout = read_layout(page)
        if layout is None:
            return None
        require_within_limits(self.limits, layout.width, layout.height, page.number)
        segments = read_segments(self.source, page, layout)
        self.decoded_bytes += max(layout.width * layout.height // 4, sum(segment.full for segment in segments))
        self.end = max(self.end, *(segment.offset + segment.length for segment in segments))
        return layout, segments, check_segments(self.source, page, layout, segments, deadline)

    def _is_new(self, page: Directory, *, is_page: bool) -> bool:
        picture = is_page, tuple(page.tags.get(number) for number in _DRAWN_SORTED)
        is_new = picture not in self.checked
        self.checked.add(picture)
        return is_new

    def _draw(
        self, page: Directory, layout: PixelLayout, segments: list[TiffSegment], *, is_sound: bool
    ) -> Image.Image | None:
        """Return a page decoded, None if Pillow does not know how. Raise `Corrupt` if it knows and fails."""
        stream = _open_page(self.source, self.header, page, layout, segments)
        if stream is None or (layout.is_separate and len(layout.bits) == _GREY_AND_ALPHA):
            return None
        try:
            return decode_still(stream, "TIFF", self.limits)
        except Corrupt as error:
            is_unknown_layout = isinstance(error.__cause__, UnidentifiedImageError)
            if is_sound or layout.compression not in _JUDGED_BY_LIBTIFF or is_unknown_layout:
                return None
            raise Corrupt(f"page {page.number} of the TIFF does not decode: {error}") from error
        except (Unsupported, ValueError, TypeError, KeyError, RuntimeError):  # what Pillow raises for unknown layouts
            return None


def _in_common_mode(frame: Image.Image, bits: int) -> Image.Image:
    frame = frame.convert(_COMMON_MODES[frame.mode]) if frame.mode in _COMMON_MODES else frame
    if frame.mode.startswith("I") and 8 < bits < 16:  # the blank rule takes deep samples for samples of 16 bits
        return Image.fromarray(np.asarray(frame, dtype=np.int32) << (16 - bits))
    return frame


# One page as a small TIFF of its own. Given a file, Pillow reads all of it for every page, follows chains of
# directories itself and fails on metadata; given a page alone, it does neither.


def _open_page(
    source: Source, header: TiffHeader, page: Directory, layout: PixelLayout, segments: Sequence[TiffSegment]
) -> BinaryIO | None:
    """Return a TIFF of this page alone, None if it would be too large or its writer omitted parts."""
    if layout.compression == OLD_JPEG:
        # The data refers to offsets in the file: give the whole file, with this page as its first.
        if source.size > _PAGE_MOST or header.is_big:
            return None
        return open_pieces(source, [_file_header(header, page.offset), (_HEADER, source.size - _HEADER)])
    size = sum(segment.length for segment in segments)
    if size > _PAGE_MOST or any(segment.is_omitted for segment in segments):
        return None
    tags = {number: tag for number, tag in page.tags.items() if number in DRAWN - _LOCATIONS}
    colours = page.numbers(tiff.COLOUR_MAP)
    if colours and max(colours) < 256:
        # Some writers state colours of 8 bits where TIFF has 16, which libtiff recognises and Pillow takes for black.
        wide = struct.pack(f"{header.order}{len(colours)}H", *(257 * colour for colour in colours))
        tags[tiff.COLOUR_MAP] = Tag(_SHORT, len(colours), wide)
    names = (tiff.TILE_OFFSETS, tiff.TILE_BYTES) if layout.is_tiled else (tiff.STRIP_OFFSETS, tiff.STRIP_BYTES)
    longs = struct.Struct(f"{header.order}{len(segments)}L")
    lengths = Tag(_LONG, len(segments), longs.pack(*(segment.length for segment in segments)))
    # Values that do not fit into an entry stand behind the directory, where the samples begin in turn.
    written = {**tags, names[0]: lengths, names[1]: lengths}
    values = sum(len(tag.data) + len(tag.data) % 2 for tag in written.values() if len(tag.data) > _LONG)
    begin = _HEADER + 2 + _ENTRY * len(written) + 4 + values
    offsets = []
    for segment in segments:
        offsets.append(begin)
        begin += segment.length
    tags |= {names[0]: Tag(_LONG, len(segments), longs.pack(*offsets)), names[1]: lengths}
    stretches: list[Piece] = [(segment.offset, segment.length) for segment in segments]
    return open_pieces(source, [_directory_bytes(header, tags), *stretches])


def _file_header(header: TiffHeader, first: int) -> bytes:
    return struct.pack(f"{header.order}2sHL", b"II" if header.order == "<" else b"MM", 42, first)


def _directory_bytes(header: TiffHeader, tags: Mapping[int, Tag]) -> bytes:
    """Return file header, directory and values; the pixel data follows."""
    table, values = b"", b""
    begin = _HEADER + 2 + _ENTRY * len(tags) + 4
    for number, tag in sorted(tags.items()):
        field_bytes = tag.data.ljust(_LONG, b"\0")
        if len(tag.data) > _LONG:
            field_bytes = struct.pack(f"{header.order}L", begin + len(values))
            values += tag.data + bytes(len(tag.data) % 2)  # values begin on an even offset
        table += struct.pack(f"{header.order}HHL", number, tag.type, tag.count) + field_bytes
    count = struct.pack(f"{header.order}H", len(tags))
    return _file_header(header, _HEADER) + count + table + bytes(4) + values


FORMAT: Final = Format(
    name="tiff",
    family=Family.PICTURE,
    content_type="image/tiff",
    extensions=frozenset({"tif", "tiff", "btf", "tf8"}),
    begins=tuple(tiff.MAGICS),
    matches=lambda source: read_header(source) is not None,
    match_order=MatchOrder.PICTURE,
    examine=_examine,
    facts=partial(measure_picture, plugin="TIFF", has_pages=True),
    own_facts=frozenset({"pages"}),
    sample=lambda: sample_picture("TIFF"),
    names=named("TIFF", "tif"),
)
