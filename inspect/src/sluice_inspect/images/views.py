"""A picture as levels of brightness from 0 to 255, whatever its mode and depth, in bands that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from numpy.typing import NDArray

Levels: TypeAlias = "NDArray[np.float32]"  # brightness by (row, column, channel): 0 is black, 255 is full

MARGIN_FROM: Final = 400  # pixels of a side from which the picture may be a scan, whose margin is not judged
BAND_PIXELS: Final = 1_000_000
DIM_SPAN: Final = 40.0  # levels to which deep samples are stretched if they span fewer

_MARGIN: Final = 0.02  # share of each side on which scanners leave shadows
_DIM_FROM: Final = 0.25  # levels below which the span of 16-bit samples is the last bits of a sensor


@dataclass(frozen=True, slots=True)
class PictureView:
    """A picture as it appears on one backdrop: `band(start, stop)` returns its rows as grey, RGB, CMYK or floats."""

    # It is read in bands: as numbers a large one would not fit into memory.
    width: int
    height: int
    band: Callable[[int, int], Image.Image]
    opacity: float = 1.0  # of what is drawn, from 0 to 1: it weakens noise as it weakens content

    def rows(self, start: int, stop: int) -> Levels:
        """Return a band as numbers."""
        band = self.band(start, stop)
        return np.asarray(band, dtype=np.float32).reshape(band.height, band.width, -1)


def views(image: Image.Image, *, with_margin: bool = False) -> Iterator[PictureView]:
    """Yield the views to judge: a transparent picture over white and over black, a deep one as it is and stretched."""
    width, height = image.size
    margin = 0.0 if with_margin else _MARGIN
    left, top = (round(side * margin) if side >= MARGIN_FROM else 0 for side in (width, height))
    right = width - left

    def view(convert: Callable[[Image.Image], Image.Image], opacity: float = 1.0) -> PictureView:
        return PictureView(
            right - left,
            height - 2 * top,
            lambda start, stop: convert(_rows_between(image, (left, top + start, right, top + stop))),
            opacity,
        )

    if image.mode[0] in "IF":
        numbers = view(
            lambda band: Image.fromarray(np.nan_to_num(np.asarray(band, dtype=np.float32), posinf=0.0, neginf=0.0))
        )
        yield from _deep_views(numbers, floating=image.mode[0] == "F")
    elif not image.has_transparency_data or (
        image.mode in {"LA", "RGBA"} and image.getchannel("A").getextrema() == (255, 255)
    ):
        plain = {"L", "RGB", "CMYK"}
        yield view(lambda band: band if band.mode in plain else band.convert("L" if band.mode == "1" else "RGB"))
    else:
        opacity = _opacity(image)
        yield from (view(_over(backdrop), opacity) for backdrop in (255, 0))


def _rows_between(image: Image.Image, box: tuple[int, int, int, int]) -> Image.Image:
    """Return a part of the picture, and the picture itself, uncopied, if that is all of it."""
    return image if box == (0, 0, *image.size) else image.crop(box)


def is_one_colour(image: Image.Image) -> bool:
    """Return whether all samples are equal, or all are transparent."""
    for part in (image.crop((0, 0, image.width, 1)), image):  # the first row decides most pictures and costs nothing
        extremes = channel_extremes(part)
        is_clear = image.mode in {"LA", "RGBA"} and extremes[-1] == (0, 0)
        if not is_clear and any(low != high for low, high in extremes):
            return False
    return True


def channel_extremes(image: Image.Image) -> list[tuple[float, float]]:
    """Return the least and the greatest sample of each channel."""
    found = image.getextrema()
    return [(low, high) for low, high in (found if isinstance(found[0], tuple) else (found,))]


def max_over_channels(off: Levels) -> Levels:
    """Return the largest level of each pixel, plane by plane: numpy is slow along short axes."""
    worst: Levels = reduce(np.maximum, (off[..., channel] for channel in range(off.shape[2])))
    return worst


def bands(view: PictureView, multiple: int) -> Iterator[tuple[int, Levels]]:
    """Yield the view from top to bottom as (first row, levels), in bands of a multiple of `multiple` rows."""
    height = max(1, BAND_PIXELS // view.width // multiple) * multiple
    for start in range(0, view.height, height):
        yield start, view.rows(start, min(view.height, start + height))


def _opacity(image: Image.Image) -> float:
    """Return the mean opacity of the pixels that are not fully transparent; 1 for palettes."""
    if "A" not in image.getbands():
        return 1.0
    counts = image.getchannel("A").histogram()
    drawn = sum(counts[1:])
    return sum(alpha * count for alpha, count in enumerate(counts)) / drawn / 255 if drawn else 1.0


def _over(backdrop: int) -> Callable[[Image.Image], Image.Image]:
    def convert(band: Image.Image) -> Image.Image:
        page = Image.new("RGBA", band.size, (backdrop, backdrop, backdrop, 255))
        page.alpha_composite(band.convert("RGBA"))
        return page.convert("RGB")

    return convert


def _deep_views(raw: PictureView, *, floating: bool) -> Iterator[PictureView]:
    """Scale 16-bit, 32-bit and float samples by their nominal range and, if they are dim there, also by their own."""
    extremes = [(float(band.min()), float(band.max())) for _, band in bands(raw, 1)]
    low, high = min(low for low, _ in extremes), max(high for _, high in extremes)
    largest = max(high, -low, 1e-30)
    nominal = next((top for top in (1.0, 255.0, 65535.0) if largest <= top and (floating or top > 1)), largest)

    def scaled(zero: float, full: float) -> PictureView:
        def band(start: int, stop: int) -> Image.Image:
            return Image.fromarray((raw.rows(start, stop)[..., 0] - np.float32(zero)) * np.float32(255 / full))

        return PictureView(raw.width, raw.height, band)

    yield scaled(0.0, nominal)
    if (_DIM_FROM if not floating else 1e-6) < (high - low) * 255 / nominal < DIM_SPAN:
        yield scaled(low, (high - low) * 255 / DIM_SPAN)
