"""A picture as levels of brightness, whatever its mode and depth, in bands that fit into memory. What is seen on it is for `pictures.py`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Levels = NDArray[np.float32]
"""Brightness by (row, column, channel), 0 black to 255 full."""

MARGIN_FROM: Final = 400
"""From so many pixels up a side may be that of a scan, and its margin is not looked at."""
BAND_PIXELS: Final = 1_000_000
DIM_SPAN: Final = 40.0
"""Levels to which deep samples are stretched that span fewer."""

_MARGIN: Final = 0.02
"""Share of each side that scanners leave shadows on."""
_DIM_FROM: Final = 0.25
"""Levels that 16-bit samples must span before what they show dimly is looked for: less is the last bits of a sensor."""


@dataclass(frozen=True, slots=True)
class View:
    """A picture as it looks on one backdrop, read in bands: a whole one as numbers would not fit into memory."""

    width: int
    height: int
    band: Callable[[int, int], Image.Image]
    """Rows from the first to before the second number: grey, red/green/blue, the four inks, or floats."""

    def rows(self, start: int, stop: int) -> Levels:
        """Answer a band as numbers."""
        band = self.band(start, stop)
        return np.asarray(band, dtype=np.float32).reshape(band.height, band.width, -1)


def views(image: Image.Image) -> Iterator[View]:
    """Answer the looks at a picture that matter: transparent ones over white and over black, deep ones dim and stretched."""
    width, height = image.size
    left, top = (round(side * _MARGIN) if side >= MARGIN_FROM else 0 for side in (width, height))
    right = width - left

    def view(look: Callable[[Image.Image], Image.Image]) -> View:
        return View(right - left, height - 2 * top, lambda start, stop: look(image.crop((left, top + start, right, top + stop))))

    if image.mode[0] in "IF":
        yield from _deep_views(view(_as_numbers), floating=image.mode[0] == "F")
    elif image.has_transparency_data and not _is_opaque(image):
        yield from (view(_over(backdrop)) for backdrop in (255, 0))
    else:
        yield view(_opaque)


def is_one_colour(image: Image.Image) -> bool:
    """Answer the plainest case at once: all samples are equal, or all are transparent. The first row is asked first: it costs nothing."""
    for part in (image.crop((0, 0, image.width, 1)), image):
        ends = ends_of(part)
        clear = image.mode in {"LA", "RGBA"} and ends[-1] == (0, 0)
        if not clear and any(low != high for low, high in ends):
            return False
    return True


def ends_of(image: Image.Image) -> list[tuple[float, float]]:
    """Answer the least and the greatest sample of each channel."""
    found = image.getextrema()
    return [(low, high) for low, high in (found if isinstance(found[0], tuple) else (found,))]


def _is_opaque(image: Image.Image) -> bool:
    return image.mode in {"LA", "RGBA"} and image.getchannel("A").getextrema() == (255, 255)


def _opaque(band: Image.Image) -> Image.Image:
    if band.mode in {"L", "RGB", "CMYK"}:
        return band
    return band.convert("L" if band.mode == "1" else "RGB")


def _over(backdrop: int) -> Callable[[Image.Image], Image.Image]:
    def look(band: Image.Image) -> Image.Image:
        page = Image.new("RGBA", band.size, (backdrop, backdrop, backdrop, 255))
        page.alpha_composite(band.convert("RGBA"))
        return page.convert("RGB")

    return look


def _as_numbers(band: Image.Image) -> Image.Image:
    numbers = np.asarray(band, dtype=np.float32)
    return Image.fromarray(np.nan_to_num(numbers, posinf=0.0, neginf=0.0))


def _deep_views(raw: View, *, floating: bool) -> Iterator[View]:
    """Scale 16-bit, 32-bit and float samples: by their nominal range, then, for what is dim there, by their own."""
    low, high = _extremes(raw)
    largest = max(high, -low, 1e-30)
    nominal = next((top for top in (1.0, 255.0, 65535.0) if largest <= top and (floating or top > 1)), largest)

    def scaled(zero: float, full: float) -> View:
        def band(start: int, stop: int) -> Image.Image:
            return Image.fromarray((raw.rows(start, stop)[..., 0] - np.float32(zero)) * np.float32(255 / full))

        return View(raw.width, raw.height, band)

    yield scaled(0.0, nominal)
    if (_DIM_FROM if not floating else 1e-6) < (high - low) * 255 / nominal < DIM_SPAN:
        yield scaled(low, (high - low) * 255 / DIM_SPAN)


def _extremes(view: View) -> tuple[float, float]:
    ends = [(float(band.min()), float(band.max())) for _, band in bands(view, 1)]
    return min(low for low, _ in ends), max(high for _, high in ends)


def bands(view: View, multiple: int) -> Iterator[tuple[int, Levels]]:
    """Answer the view from top to bottom as (first row, levels), each band a multiple of `multiple` rows high but the last."""
    height = max(1, BAND_PIXELS // view.width // multiple) * multiple
    for start in range(0, view.height, height):
        yield start, view.rows(start, min(view.height, start + height))
