"""AVIF: the boxes end in the file, every item lies in it, every shown picture decodes, and all coded data decodes in a stricter decoder too."""

from collections.abc import Mapping
from typing import Final

from PIL import AvifImagePlugin, Image, UnidentifiedImageError

from sluice.formats.budget import Deadline
from sluice.formats.images import av1
from sluice.formats.images.heif_items import Items, check_boxes, content_of, read_items, size_of
from sluice.formats.images.heif_sample import sample_avif
from sluice.formats.images.raster import blank_picture, decode, keep_within
from sluice.formats.isobmff import Layout, brands, family_of
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure, TooComplex, Unsupported

_CODING: Final = b"av01"
_FILE_BYTES: Final = 256 * 1024**2
"""A larger file is not decoded: libavif wants all of it in memory."""
_READ_BY_PILLOW: Final = frozenset({b"avif", b"avis", b"mif1", b"msf1"})
_DAMAGE: Final = ("Decoding of", "ispe", "grid", "Missing", "No AV1", "Truncated", "BMFF", "No content")
"""Words in libavif's reasons that speak against the file; all others say that it, or Pillow, lacks something."""

AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # the sandbox has no more


def _recognises(source: Source) -> bool:
    return family_of(source) == "avif"


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    boxes = check_boxes(source)
    items = read_items(source, boxes)
    for item in items.shown() if items else ():
        size = size_of(source, item)
        if any(size):
            keep_within(limits, *size)
    if source.size > _FILE_BYTES:
        raise Unsupported(f"the file is larger than the {_FILE_BYTES} bytes that its decoder takes")
    if av1.INSTALLED:
        _check_strictly(source, boxes, items, limits)
    measures = _decode(source, limits)
    return {"trailing_bytes": source.size - boxes.end} | measures


def _decode(source: Source, limits: Limits) -> dict[str, Measure]:
    try:
        with Image.open(source.open(), formats=["AVIF"]) as picture:
            width, height = picture.size
            keep_within(limits, width, height, getattr(picture, "n_frames", 1))
        return {"width": width, "height": height} | decode(source, source.open(), "AVIF", limits)
    except (RuntimeError, ValueError) as error:
        raise _judge(str(error)) from error
    except UnidentifiedImageError as error:
        if brands(source)[0] not in _READ_BY_PILLOW:
            raise Unsupported("the file is of a brand that the decoder at hand does not know") from error
        raise Corrupt("the lists of what is in the file contradict each other") from error


def _judge(said: str) -> Corrupt | TooComplex | Unsupported:
    if "memory" in said:
        return TooComplex(f"the picture needs too much memory: {said}")
    if any(word in said for word in _DAMAGE):
        return Corrupt(f"the picture does not decode: {said}")
    return Unsupported(f"the decoder at hand lacks what the picture needs: {said}")


def _check_strictly(source: Source, boxes: Layout, items: Items | None, limits: Limits) -> None:
    """Decode every coded picture once more, gain maps and thumbnails too, until the time is over. Raises `Corrupt`."""
    deadline = Deadline(limits.soft_seconds)
    for item in items.alone(_CODING) if items else ():
        config = item.property_of(b"av1C")
        if deadline.has_passed:
            return
        if config:
            data = content_of(source, item)
            av1.check_picture(source.read_at(config.body, config.end - config.body), data, limits.max_pixels)
    if boxes.named(b"moov"):
        av1.check_film(source, deadline, limits.max_pixels)


KIND: Final = Kind(
    name="avif",
    content_type="image/avif",
    extensions=frozenset({"avif", "avifs"}),
    also_named=frozenset({"heif", "hif"}),
    recognises=_recognises,
    check=_check,
    blank=blank_picture,
    sample=sample_avif,
)
