"""HEIC: the boxes end in the file, every item lies in it, and all HEVC data decodes without a complaint, gain maps and thumbnails too.

Metadata is not judged. Other codings than HEVC in the same container (uncompressed, JPEG 2000, VVC) have no decoder here: they are
unsupported once the container is found whole. Films of pictures are decoded as films are.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from PIL import Image

from sluice.formats.budget import Deadline
from sluice.formats.images import hevc
from sluice.formats.images.heif_items import Item, Items, check_boxes, content_of, read_items, size_of
from sluice.formats.images.heif_sample import sample_heic
from sluice.formats.images.raster import Seen, blank_picture, keep_within
from sluice.formats.isobmff import Layout, family_of
from sluice.formats.kind import Kind
from sluice.formats.media.media import blank_media, play
from sluice.formats.media.movie import read_movie
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure, Unsupported

_CODING: Final = b"hvc1"
_PUT_TOGETHER_MOST: Final = 64_000_000
"""Pixels up to which the tiles of a picture are put together and looked at; a larger one is decoded and not called blank."""


def _recognises(source: Source) -> bool:
    return family_of(source) == "heic"


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    boxes = check_boxes(source)
    items = read_items(source, boxes)
    if items is None:
        return _check_film(source, boxes, limits)
    shown = items.shown()
    for item in items.alone(_CODING) + shown:
        keep_within(limits, *_declared_size(source, item), len(shown))
    width, height = size_of(source, shown[0])
    measures = _Decoding(source, items, limits).run(shown)
    return {"width": width, "height": height, "trailing_bytes": source.size - boxes.end} | measures


def _check_film(source: Source, boxes: Layout, limits: Limits) -> Mapping[str, Measure]:
    if not boxes.named(b"moov"):
        raise Unsupported("the file has a compact header, which is not read here")
    movie = read_movie(source)
    return {"trailing_bytes": movie.trailing, **play(source, "mov", Deadline(limits.soft_seconds), excuse=movie.excuse)}


def _declared_size(source: Source, item: Item) -> tuple[int, int]:
    size = size_of(source, item)
    return size if any(size) else (1, 1)  # the coded data says it too


class _Decoding:
    """One pass over all coded pictures of a file: shown ones first and put together, then what else there is."""

    def __init__(self, source: Source, items: Items, limits: Limits) -> None:
        self._source = source
        self._items = items
        self._limits = limits
        self._decoded: set[int] = set()
        self._measures: dict[str, Measure] = {}

    def run(self, shown: Sequence[Item]) -> dict[str, Measure]:
        """Decode until the time is over; answer what was measured. Raises `Corrupt`, and `Unsupported` when the first picture is not decoded here."""
        deadline = Deadline(self._limits.soft_seconds)
        seen = Seen()
        for item in shown:
            if deadline.has_passed:
                break
            self._see(item, seen, is_first=item is shown[0])
        for item in self._items.alone(_CODING):
            if item.number not in self._decoded and not deadline.has_passed:
                self._decode(item)
        if deadline.has_passed:
            self._measures["partially_checked"] = True
        seen.remember(self._source, whole=not self._measures)
        return {"frames": seen.frames, **self._measures}

    def _see(self, item: Item, seen: Seen, *, is_first: bool) -> None:
        try:
            picture = self._picture(item)
        except Unsupported:
            if is_first:
                raise
            self._measures["frames_not_decoded"] = int(self._measures.get("frames_not_decoded", 0)) + 1
            return
        if picture is None:
            self._measures["frames_not_put_together"] = True
            seen.frames += 1
        else:
            seen.see(picture, self._limits)

    def _picture(self, item: Item) -> Image.Image | None:
        """Decode one picture and its transparency; None when it decodes but is not put together here."""
        width, height = size_of(self._source, item)
        picture: Image.Image | None = None
        if item.coding == b"grid" and width * height <= _PUT_TOGETHER_MOST:
            picture = self._grid(item)
        else:
            for part in self._items.coded(item):
                decoded = self._decode(part)
                picture = decoded if part is item else None
        if (alpha := self._items.alpha_of(self._source, item)) and (transparency := self._picture(alpha)) and picture:
            picture.putalpha(transparency.convert("L").resize(picture.size))
        return picture

    def _grid(self, item: Item) -> Image.Image:
        """Decode the tiles of a picture and put them side by side, from left to right and from top to bottom."""
        fields = content_of(self._source, item)
        parts = self._items.parts(item)
        rows, columns = (1 + fields[2], 1 + fields[3]) if len(fields) >= 8 else (0, 0)  # noqa: PLR2004  (version, flags, rows, columns, two sizes)
        if len(parts) != rows * columns:
            raise Corrupt(f"the picture consists of {rows * columns} tiles, of which the file names {len(parts)}")
        width, height = size_of(self._source, item)
        canvas: Image.Image | None = None
        left = top = 0
        for place, part in enumerate(parts):
            tile = self._decode(next(self._items.coded(part)), (width - left, height - top))
            canvas = canvas or Image.new(tile.mode, (width, height))
            canvas.paste(tile, (left, top))
            left, top = (left + tile.width, top) if (place + 1) % columns else (0, top + tile.height)
        if canvas is None:
            raise Corrupt("the picture consists of no tiles")
        return canvas

    def _decode(self, item: Item, shown: tuple[int, int] | None = None) -> Image.Image:
        if item.coding != _CODING:
            raise Unsupported(f"there is no decoder at hand for pictures coded as {item.coding.decode('latin-1')}")
        config = item.property_of(b"hvcC")
        if config is None:
            raise Corrupt(f"picture {item.number} has no decoder configuration")
        data = content_of(self._source, item)
        units = hevc.nal_units(self._source.read_at(config.body, config.end - config.body), data)
        picture = hevc.decode(units, shown or size_of(self._source, item))
        keep_within(self._limits, *picture.size)
        self._decoded.add(item.number)
        return picture


def _blank(source: Source, limits: Limits) -> str | None:
    return blank_picture(source, limits) or blank_media(source, limits)


KIND: Final = Kind(
    name="heic",
    content_type="image/heic",
    extensions=frozenset({"heic", "heif", "heics", "heifs", "hif"}),
    recognises=_recognises,
    check=_check,
    blank=_blank,
    sample=sample_heic,
    lacks="" if hevc.INSTALLED else "pillow-heif",
)
