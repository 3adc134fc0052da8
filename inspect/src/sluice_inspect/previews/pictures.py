"""A picture, or the first one of a film, in small: upright, over white, in red, green and blue."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import BinaryIO, Final

import numpy as np
from PIL import AvifImagePlugin, Image, TiffImagePlugin, UnidentifiedImageError

from sluice_inspect.formats import jpeg, png
from sluice_inspect.formats.heif.heic import shown_picture
from sluice_inspect.images.raster import pillow, require_within_limits
from sluice_inspect.media.playback import first_frame
from sluice_inspect.report import Corrupt, Limits, TooComplex, Unsupported
from sluice_inspect.source import Source

_PLUGINS: Final[Mapping[str, str]] = {
    "avif": "AVIF", "bmp": "BMP", "gif": "GIF", "j2k": "JPEG2000", "jp2": "JPEG2000", "jpeg": "JPEG", "png": "PNG",
    "tiff": "TIFF", "webp": "WEBP",
}  # fmt: skip
# Decoders refuse some pictures for their metadata, or for bytes that others skip.
_DRAWN_ALONE: Final[Mapping[str, Callable[[Source], BinaryIO]]] = {"JPEG": jpeg.open_drawn, "PNG": png.open_drawn}
_OF_MANY_LAYOUTS: Final = frozenset({"BMP", "TIFF"})
_ORIENTATION: Final = 0x0112
_TURNS: Final[Mapping[int, Image.Transpose]] = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_BAND_PIXELS: Final = 4_000_000
_SHARP: Final = 2  # times the size of the preview to which a large picture is averaged before it is resampled
_DEEPEST: Final = 65535
_PLANES: Final = 2  # TIFF: each channel is stored by itself
_BYTE_BITS: Final = 8
_WAVELETS_MOST: Final = 3  # halvings that OpenJPEG is asked for; encoders write five or more
_WEBP_PIXELS_MOST: Final = 100_000_000  # its decoder holds two pictures of four bytes a pixel
_SAMPLE_BYTES: Final = 5  # that OpenJPEG needs for each
_SAMPLES_MOST: Final = 700_000_000


def draw_picture(source: Source, format_name: str, side: int, limits: Limits, *, frame: int = 0) -> Image.Image:
    """Return the picture, its longer side at most `side` pixels. Raise an `InspectionError` if it cannot be drawn.

    `frame` is the number of a page of a TIFF; behind the last, raise `Corrupt`.
    """
    if format_name == "heic":
        shown = shown_picture(source, limits) or first_frame(source, "mov")
        if shown is None:
            raise Corrupt("the file holds no picture")
        return fit(shown, side)
    if format_name == "avif" and AvifImagePlugin.SUPPORTED:
        AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # the sandbox allows no more
    plugin = _PLUGINS[format_name]
    try:
        return _draw(source, source.open(), plugin, side, limits, frame=frame)
    except Corrupt as error:
        if plugin in _DRAWN_ALONE:
            return _draw(source, _DRAWN_ALONE[plugin](source), plugin, side, limits)
        is_unknown = isinstance(error.__cause__, UnidentifiedImageError | ValueError) or "nsupported" in str(error)
        if plugin in _OF_MANY_LAYOUTS and is_unknown:
            raise Unsupported(f"no reader knows this layout of pixels: {error}") from error
        raise


def draw_frame(source: Source, demuxer: str, side: int) -> Image.Image:
    """Return the first picture of a film. Raise as `draw_picture` does, and `Unsupported` for sound alone."""
    frame = first_frame(source, demuxer)
    if frame is None:
        raise Corrupt("no picture of the film decodes")
    return fit(frame, side)


def fit(picture: Image.Image, side: int) -> Image.Image:
    """Return a picture in red, green and blue over white, its longer side at most `side` pixels."""
    width, height = picture.size
    longer = max(width, height)
    size = max(1, round(width * min(1, side / longer))), max(1, round(height * min(1, side / longer)))
    factor = longer // (_SHARP * side)
    if factor <= 1:
        small = _over_white(_Conversion(picture).rows(0, height))
    else:
        # In bands, and averaged: all of a large picture in red, green and blue may not fit into memory.
        conversion = _Conversion(picture)
        small = Image.new("RGB", (-(-width // factor), -(-height // factor)))
        rows = factor * max(1, _BAND_PIXELS // (width * factor))
        for top in range(0, height, rows):
            band = conversion.rows(top, min(height, top + rows))
            small.paste(_over_white(band.reduce(factor)), (0, top // factor))
    return small if small.size == size else small.resize(size, Image.Resampling.LANCZOS)


def _draw(source: Source, stream: BinaryIO, plugin: str, side: int, limits: Limits, *, frame: int = 0) -> Image.Image:
    try:
        with pillow(limits), Image.open(stream, formats=[plugin]) as picture:
            if frame:
                picture.seek(frame)
            require_within_limits(limits, *picture.size)
            if plugin == "WEBP" and picture.width * picture.height > _WEBP_PIXELS_MOST:
                raise TooComplex("the WebP is larger than its decoder has memory for")
            longer = max(picture.size)
            if plugin == "JPEG":  # decodes at a half, a quarter or an eighth of its size
                least = max(1, picture.width * side // longer), max(1, picture.height * side // longer)
                picture.draft(picture.mode, least)
            elif plugin == "JPEG2000":
                return _draw_wavelets(source, picture, side)
            elif isinstance(picture, TiffImagePlugin.TiffImageFile) and _is_deep_and_planar(picture):
                raise Unsupported("Pillow draws noise for planes of deep samples")
            picture.load()
            return upright(fit(picture, side), picture)
    except (ValueError, RuntimeError, TypeError, KeyError) as error:  # decoders raise them for headers of all kinds
        if isinstance(error, RuntimeError) and "memory" in str(error):
            raise TooComplex(str(error)) from error
        raise Corrupt(f"the picture does not decode: {error}") from error


def _is_deep_and_planar(picture: TiffImagePlugin.TiffImageFile) -> bool:
    depths = picture.tag_v2.get(TiffImagePlugin.BITSPERSAMPLE, (1,))
    return (
        picture.tag_v2.get(TiffImagePlugin.PLANAR_CONFIGURATION) == _PLANES
        and len(depths) > 1
        and max(depths) > _BYTE_BITS
    )


def _draw_wavelets(source: Source, picture: Image.Image, side: int) -> Image.Image:
    """Draw a JPEG 2000 picture, which decodes at a half, a quarter and so on if its encoder wrote it so."""
    halvings = min(_WAVELETS_MOST, (max(picture.size) // side).bit_length() - 1)
    if halvings > 0:
        with contextlib.suppress(OSError, ValueError), Image.open(source.open(), formats=["JPEG2000"]) as smaller:
            smaller.reduce = halvings  # type: ignore[assignment,method-assign]  # this plugin takes a number
            smaller.load()
            return fit(smaller, side)
    if picture.width * picture.height * len(picture.getbands()) * _SAMPLE_BYTES > _SAMPLES_MOST:
        raise TooComplex("the JPEG 2000 picture is larger than its decoder has memory for")
    picture.load()
    return fit(picture, side)


def upright(small: Image.Image, picture: Image.Image) -> Image.Image:
    """Return the small picture turned as the metadata of the original says."""
    try:
        turn = _TURNS.get(picture.getexif().get(_ORIENTATION, 1))
    except Exception:  # noqa: BLE001  (readers of metadata raise anything; damage there is not of the picture)
        return small
    return small if turn is None else small.transpose(turn)


def _over_white(picture: Image.Image) -> Image.Image:
    if picture.mode != "RGBA":
        return picture
    page = Image.new("RGBA", picture.size, "white")
    page.alpha_composite(picture)
    return page.convert("RGB")


class _Conversion:
    """Converts a picture of any mode to red, green and blue in bands, with opacity if it has any."""

    def __init__(self, picture: Image.Image) -> None:
        self._is_deep = picture.mode[0] in "IF"
        self._picture = picture
        if picture.mode in {"I;16B", "I;16L", "I;16N"}:
            self._picture = picture.convert("I")
        self._full = self._full_sample() if self._is_deep else 255.0

    def rows(self, top: int, bottom: int) -> Image.Image:
        picture = self._picture
        band = picture if (top, bottom) == (0, picture.height) else picture.crop((0, top, picture.width, bottom))
        if self._is_deep:
            levels = np.nan_to_num(np.asarray(band, dtype=np.float32)) * np.float32(255 / self._full)
            return Image.fromarray(np.clip(levels, 0, 255).astype(np.uint8)).convert("RGB")
        if band.mode == "LAB":
            return band.getchannel("L").convert("RGB")
        if band.mode in {"La", "RGBa"}:  # colours that are multiplied by their opacity
            band = band.convert("RGBA" if band.mode == "RGBa" else "LA")
        return band.convert("RGBA" if band.has_transparency_data else "RGB")

    def _full_sample(self) -> float:
        """Return which sample is white: the greatest of the depth of 8 or 16 bits, or of the samples if they are more.

        Samples of floating point are mostly up to 1.
        """
        _low, high = self._picture.getextrema()
        if not isinstance(high, int | float):
            raise Unsupported("a picture of several deep channels is not drawn")
        if self._picture.mode.startswith("I;16"):
            return float(_DEEPEST)
        depths = (1.0, 255.0, float(_DEEPEST)) if self._picture.mode == "F" else (255.0, float(_DEEPEST))
        return next((full for full in depths if high <= full), float(high))
