"""HEIC: boxes and items are in the file, and all HEVC data decodes, of gain maps and thumbnails too."""
# Other codings in the same container (uncompressed, JPEG 2000, VVC) have no decoder here: they are unsupported once the
# container is found complete. Image sequences are decoded as films are. Metadata is not judged.

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from PIL import Image

from sluice_inspect.budget import Deadline
from sluice_inspect.containers.isobmff import Layout, family_of
from sluice_inspect.containers.movie import read_movie
from sluice_inspect.facts.media import measure_picture
from sluice_inspect.format import Examination, Family, Format, MatchOrder
from sluice_inspect.formats.heif import hevc
from sluice_inspect.formats.heif.items import HeifItem, HeifItems, declared_size, read_boxes, read_content, read_items
from sluice_inspect.formats.heif.sample import sample_heic
from sluice_inspect.images.raster import FrameSummary, require_within_limits
from sluice_inspect.media.playback import play
from sluice_inspect.report import Corrupt, FactSheet, Limits, Measure, TooComplex, Unsupported
from sluice_inspect.source import Source

_CODING: Final = b"hvc1"
_APERTURE: Final = struct.Struct(">4LlLlL")
# Of `irot` and `imir`, by their values (ISO/IEC 23008-12, 6.5.10 and 6.5.12).
_ROTATIONS: Final = (Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)
_MIRRORS: Final = (Image.Transpose.FLIP_TOP_BOTTOM, Image.Transpose.FLIP_LEFT_RIGHT)
_JOINED_MOST: Final = 64_000_000  # pixels; the tiles of a larger picture are decoded, not joined: it is never blank


def _examine(source: Source, limits: Limits) -> Examination:
    boxes = read_boxes(source)
    items = read_items(source, boxes)
    if items is None:
        return _examine_sequence(source, boxes, limits)
    shown = items.shown()
    for item in items.independent(_CODING) + shown:
        size = declared_size(source, item)
        # Without a declared size the coded data states it, which is checked once decoded.
        require_within_limits(limits, *(size if any(size) else (1, 1)), len(shown))
    width, height = declared_size(source, shown[0])
    measures: dict[str, Measure] = {"width": width, "height": height, "trailing_bytes": source.size - boxes.end}
    decoding = _HeicDecoding(source, items, limits)
    decoding.run(shown)
    return Examination(measures | decoding.measures, decoding.blank, decoding.measured)


def _examine_sequence(source: Source, boxes: Layout, limits: Limits) -> Examination:
    if not boxes.named(b"moov"):
        raise Unsupported("the file has a compact header, which is not read here")
    movie = read_movie(source)
    measures = {"trailing_bytes": movie.trailing}
    return play(source, "mov", Deadline(limits.soft_seconds), measures=measures, undecodable=movie.undecodable)


def shown_picture(source: Source, limits: Limits) -> Image.Image | None:
    """Return the first picture that viewers show, upright; None of a sequence, which is a film.

    Raise as the examination does, and `TooComplex` for a picture of more tiles than are joined here.
    """
    items = read_items(source, read_boxes(source))
    if items is None:
        return None
    item = items.shown()[0]
    size = declared_size(source, item)
    require_within_limits(limits, *(size if any(size) else (1, 1)))
    picture = _HeicDecoding(source, items, limits).picture(item)
    if picture is None:
        raise TooComplex("the picture is larger than those that are put together here")
    for box in item.properties:
        value = source.read_at(box.body, min(box.end - box.body, _APERTURE.size))
        if box.name == b"clap" and len(value) == _APERTURE.size:
            picture = _cut(picture, *_APERTURE.unpack(value))
        elif box.name == b"irot" and value and value[0] & 3:
            picture = picture.transpose(_ROTATIONS[(value[0] & 3) - 1])
        elif box.name == b"imir" and value:
            picture = picture.transpose(_MIRRORS[value[0] & 1])
    return picture


def _cut(picture: Image.Image, *numbers: int) -> Image.Image:
    """Return the part of a picture that is shown: its width, height and distance from the middle, all as fractions."""
    if 0 in numbers[1::2]:
        return picture
    width, height, right, down = (above / below for above, below in zip(numbers[::2], numbers[1::2], strict=True))
    left, top = round((picture.width - width) / 2 + right), round((picture.height - height) / 2 + down)
    box = max(0, left), max(0, top), min(picture.width, left + round(width)), min(picture.height, top + round(height))
    return picture.crop(box) if box[0] < box[2] and box[1] < box[3] else picture


class _HeicDecoding:
    """One pass over all coded pictures of a file: the shown ones first, with their tiles joined, then the others."""

    def __init__(self, source: Source, items: HeifItems, limits: Limits) -> None:
        self.measures: dict[str, Measure] = {}
        self._source = source
        self._items = items
        self._limits = limits
        self._decoded: set[int] = set()
        self._summary = FrameSummary()
        self._not_drawn: dict[str, Measure] = {}

    def run(self, shown: Sequence[HeifItem]) -> None:
        """Decode until time is over. Raise `Corrupt`, and `Unsupported` if the first picture is not decoded here."""
        deadline = Deadline(self._limits.soft_seconds)
        for item in shown:
            if deadline.has_passed:
                break
            self._add_frame(item, is_first=item is shown[0])
        for item in self._items.independent(_CODING):
            if item.number not in self._decoded and not deadline.has_passed:
                self._decode(item)
        if deadline.has_passed:
            self._not_drawn["partially_checked"] = True
        self.measures = {"frames": self._summary.frames, **self._not_drawn}

    @property
    def measured(self) -> FactSheet | None:
        return self._summary.measured

    def blank(self) -> str | None:
        return self._summary.blank_detail(is_complete=not self._not_drawn)

    def _add_frame(self, item: HeifItem, *, is_first: bool) -> None:
        try:
            picture = self.picture(item)
        except Unsupported:
            if is_first:
                raise
            self._not_drawn["frames_not_decoded"] = int(self._not_drawn.get("frames_not_decoded", 0)) + 1
            return
        if picture is None:
            self._not_drawn["frames_not_put_together"] = True
            self._summary.frames += 1
        else:
            self._summary.add(picture, self._limits)

    def picture(self, item: HeifItem) -> Image.Image | None:
        """Decode one picture and its transparency. Return None if it decodes but is not joined here."""
        width, height = declared_size(self._source, item)
        picture: Image.Image | None = None
        if item.coding == b"grid" and width * height <= _JOINED_MOST:
            picture = self._grid(item)
        else:
            for part in self._items.coded_parts(item):
                decoded = self._decode(part)
                picture = decoded if part is item else None
        if (alpha := self._items.alpha_of(self._source, item)) and (transparency := self.picture(alpha)) and picture:
            picture.putalpha(transparency.convert("L").resize(picture.size))
        return picture

    def _grid(self, item: HeifItem) -> Image.Image:
        fields = read_content(self._source, item)
        parts = self._items.parts(item)
        rows, columns = (1 + fields[2], 1 + fields[3]) if len(fields) >= 8 else (0, 0)
        if len(parts) != rows * columns:
            raise Corrupt(f"the picture consists of {rows * columns} tiles, of which the file names {len(parts)}")
        width, height = declared_size(self._source, item)
        canvas: Image.Image | None = None
        left = top = 0
        for number, part in enumerate(parts, start=1):
            tile = self._decode(next(self._items.coded_parts(part)), (width - left, height - top))
            canvas = canvas or Image.new(tile.mode, (width, height))
            canvas.paste(tile, (left, top))
            left, top = (left + tile.width, top) if number % columns else (0, top + tile.height)
        if canvas is None:
            raise Corrupt("the picture consists of no tiles")
        return canvas

    def _decode(self, item: HeifItem, visible: tuple[int, int] | None = None) -> Image.Image:
        if item.coding != _CODING:
            raise Unsupported(f"no installed decoder reads pictures coded as {item.coding.decode('latin-1')}")
        config = item.find_property(b"hvcC")
        if config is None:
            raise Corrupt(f"picture {item.number} has no decoder configuration")
        data = read_content(self._source, item)
        units = hevc.parse_nal_units(self._source.read_at(config.body, config.end - config.body), data)
        picture = hevc.decode_picture(units, visible or declared_size(self._source, item))
        require_within_limits(self._limits, *picture.size)
        self._decoded.add(item.number)
        return picture


FORMAT: Final = Format(
    name="heic",
    family=Family.PICTURE,
    content_type="image/heic",
    extensions=frozenset({"heic", "heif", "heics", "heifs", "hif"}),
    begins=(b"ftyp",),
    begins_within=4,  # the size of the box
    matches=lambda source: family_of(source) == "heic",
    match_order=MatchOrder.PICTURE,
    examine=_examine,
    facts=measure_picture,
    sample=sample_heic,
    missing_reader="" if hevc.INSTALLED else "pillow-heif",
)
