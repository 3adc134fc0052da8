"""TIFF and BigTIFF: every directory, strip and tile lies in the file and unpacks to its rows, every page decodes that can be decoded here.

Directories and the common packings are judged by our own strict readers; libtiff (in Pillow) then draws one page at a time, shut off from
metadata and other pages. What it alone knows (fax, old JPEG, SGI, WebP) is judged by it. Where it does not know a layout of samples
that unpacked well, the page passes unseen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from PIL import Image, UnidentifiedImageError

from sluice.formats.budget import Deadline
from sluice.formats.images.raster import Seen, blank_picture, keep_within, load_still, sample_picture
from sluice.formats.images.tiff_directory import DRAWN, Directory, Header, Tag, Walk, header_of
from sluice.formats.images.tiff_page import open_page
from sluice.formats.images.tiff_segments import FAX, JPEG, Segment, Shape, segments_of, shape_of
from sluice.formats.images.tiff_unpack import check_segments
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure, Unsupported

_DECODED_BY_LIBTIFF: Final = FAX | {JPEG}
"""Packings for which a complaint of libtiff's is one about the data."""
_WITH_PLACES: Final = sorted(DRAWN)
_WITH_ALPHA: Final = 2
"""Samples of grey and its transparency: of these, Pillow reads the first plane alone."""
_DECODED_MOST: Final = 128 * 1024**2
"""Bytes of pixels that all pages of a file may have, unless the file is large enough itself (`Limits.max_ratio`): a second of processor time."""
_USUAL_MODES: Final = {"La": "LA", "RGBa": "RGBA", "I;16B": "I", "I;16L": "I", "I;16N": "I"}


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    header = header_of(source)
    if header is None:
        raise Corrupt("the file does not begin as TIFF files do")
    looking = _Looking(source, limits, header)
    looking.look()
    return looking.measures()


@dataclass(slots=True)
class _Looking:
    """One pass over all pages of a file."""

    source: Source
    limits: Limits
    header: Header
    seen: Seen = field(default_factory=Seen)
    pages: int = 0
    unseen: int = 0
    size: tuple[int, int] = (0, 0)
    end: int = 0
    late: bool = False
    decoded: int = 0
    known: set[tuple[bool, tuple[Tag | None, ...]]] = field(default_factory=set)
    """The pictures that were looked at, as pages or below one. Pages may share one: what has the same tags is the same."""

    def look(self) -> None:
        """Judge all pages until the time is over, or more was decoded than the file warrants. Raises `Corrupt`, `Unsafe`, and `Unsupported` when nothing of the first page can be judged."""
        deadline = Deadline(self.limits.soft_seconds)
        walk = Walk(self.source, self.header, self.limits.max_frames)
        for page in walk.pages():
            self._look_at(page, deadline)
            for smaller in walk.below(page):
                if self._is_new(smaller, is_page=False):
                    self._unpack(smaller, deadline)
                if self._is_enough(deadline):
                    break
            if self._is_enough(deadline):
                break
        self.end = max(self.end, walk.end)
        if not self.pages:
            raise Corrupt("the TIFF has no page with a picture")
        self.seen.remember(self.source, whole=not (self.unseen or self.late))

    def measures(self) -> Mapping[str, Measure]:
        """Answer what was measured."""
        late: dict[str, Measure] = {"partially_checked": True} if self.late else {}
        unseen: dict[str, Measure] = {"pages_not_drawn": self.unseen} if self.unseen else {}
        width, height = self.size
        trailing = max(0, self.source.size - self.end)
        return {"width": width, "height": height, "frames": self.pages, "trailing_bytes": trailing} | unseen | late

    def _is_enough(self, deadline: Deadline) -> bool:
        self.late = deadline.has_passed or self.decoded > max(_DECODED_MOST, self.limits.max_ratio * self.source.size)
        return self.late

    def _look_at(self, page: Directory, deadline: Deadline) -> None:
        if not self._is_new(page, is_page=True):
            self.pages += 1
            return
        unpacked = self._unpack(page, deadline)
        if unpacked is None:
            return
        shape, segments, is_sure = unpacked
        self.pages += 1
        self.size = self.size if any(self.size) else (shape.width, shape.height)
        frame = self._draw(page, shape, segments, is_sure=is_sure)
        if frame is not None:
            self.seen.see(_in_a_common_mode(frame, shape.bits[0]), self.limits)
            return
        self.unseen += 1
        if not is_sure and not deadline.has_passed and self.pages == 1:
            raise Unsupported(f"there is no decoder at hand for TIFFs packed by method {shape.compression} like this one")

    def _unpack(self, page: Directory, deadline: Deadline) -> tuple[Shape, list[Segment], bool] | None:
        shape = shape_of(page)
        if shape is None:
            return None
        keep_within(self.limits, shape.width, shape.height, page.number)
        segments = segments_of(self.source, page, shape)
        self.decoded += max(shape.width * shape.height // 4, sum(segment.full for segment in segments))
        self.end = max(self.end, *(segment.offset + segment.length for segment in segments))
        return shape, segments, check_segments(self.source, page, shape, segments, deadline)

    def _is_new(self, page: Directory, *, is_page: bool) -> bool:
        """Answer whether no such picture was looked at before; it is from now on."""
        picture = is_page, tuple(page.tags.get(number) for number in _WITH_PLACES)
        is_new = picture not in self.known
        self.known.add(picture)
        return is_new

    def _draw(self, page: Directory, shape: Shape, segments: list[Segment], *, is_sure: bool) -> Image.Image | None:
        """Answer a page decoded, None where this decoder does not know how. Raises `Corrupt` when it does and cannot."""
        stream = open_page(self.source, self.header, page, shape, segments)
        if stream is None or (shape.is_separate and len(shape.bits) == _WITH_ALPHA):
            return None
        try:
            return load_still(stream, "TIFF", self.limits)
        except Corrupt as error:
            if is_sure or shape.compression not in _DECODED_BY_LIBTIFF or isinstance(error.__cause__, UnidentifiedImageError):
                return None
            raise Corrupt(f"page {page.number} of the TIFF does not decode: {error}") from error
        except (Unsupported, ValueError, TypeError, KeyError, RuntimeError):  # of Pillow, for layouts that it does not know
            return None


def _in_a_common_mode(frame: Image.Image, bits: int) -> Image.Image:
    """Answer a frame in a mode that can be looked at: Pillow converts few from the modes that it has for TIFF alone.

    Samples of 9 to 15 bits are brought to the range of 16, in which they are looked at.
    """
    frame = frame.convert(_USUAL_MODES[frame.mode]) if frame.mode in _USUAL_MODES else frame
    if frame.mode.startswith("I") and 8 < bits < 16:  # noqa: PLR2004  (bits of a byte and of two)
        return Image.fromarray(np.asarray(frame, dtype=np.int32) << (16 - bits))
    return frame


KIND: Final = Kind(
    name="tiff",
    content_type="image/tiff",
    extensions=frozenset({"tif", "tiff", "btf", "tf8"}),
    recognises=lambda source: header_of(source) is not None,
    check=_check,
    blank=blank_picture,
    sample=lambda: sample_picture("TIFF"),
)
