"""Pictures and pages as nothing but their pixels, encoded by our own encoders."""

from __future__ import annotations

import contextlib
import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, Final

import pikepdf
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from PIL import AvifImagePlugin, Image, ImageCms, ImageSequence, JpegImagePlugin, UnidentifiedImageError

from sluice_inspect.budget import Deadline
from sluice_inspect.formats import jpeg, png
from sluice_inspect.formats.pdf.reading import PdfReading
from sluice_inspect.images.raster import pillow, require_within_limits
from sluice_inspect.previews.pictures import upright
from sluice_inspect.report import Corrupt, Encrypted, Limits, TooComplex, Unsupported
from sluice_inspect.sanitise.cleaning import Cleaning
from sluice_inspect.source import Source

# Decoders refuse some pictures for their metadata, or for bytes that others skip.
_DRAWN_ALONE: Final[Mapping[str, Callable[[Source], BinaryIO]]] = {"jpeg": jpeg.open_drawn, "png": png.open_drawn}
_QUALITY: Final = 92
# By the names of formats: encoders, and their options.
_PLUGINS: Final[Mapping[str, str]] = {
    "avif": "AVIF", "bmp": "BMP", "gif": "GIF", "j2k": "JPEG2000", "jp2": "JPEG2000", "jpeg": "JPEG", "png": "PNG",
    "tiff": "TIFF", "webp": "WEBP",
}  # fmt: skip
_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "avif": {"quality": _QUALITY, "speed": 10, "max_threads": 1},
    "j2k": {"no_jp2": True},
    "png": {"compress_level": 4},
    "jpeg": {"quality": _QUALITY},
    "tiff": {"compression": "tiff_adobe_deflate"},
    "webp": {"quality": _QUALITY, "method": 2},
}
NAMES: Final = frozenset({*_PLUGINS, "pdf"})
_SECONDS: Final = 18.0
_BYTES_MOST: Final = 240_000_000  # of a decoded picture, which is held twice, and of all frames of an animation
_OF_MANY_LAYOUTS: Final = frozenset({"bmp", "tiff"})
_FRAMES_MOST: Final = 2_000

_LOCKED: Final = frozenset({pdfium_c.FPDF_ERR_PASSWORD, pdfium_c.FPDF_ERR_SECURITY})
_DOTS_PER_POINT: Final = 150 / 72
_PAGE_PIXELS_MOST: Final = 12_000_000
_PAGE_QUALITY: Final = 88
_PAGES_MOST: Final = 1_000


def redraw(source: Source, name: str, cleaning: Cleaning, limits: Limits) -> bytes:
    """Return a file of the same format that holds nothing but pixels. Raise an `InspectionError`."""
    if name not in NAMES:
        raise Unsupported(f"{name} files are not drawn again")
    cleaning.removed.add("all_but_pixels")
    if name == "pdf":
        return _redraw_pages(source, cleaning)
    if name == "avif" and not AvifImagePlugin.SUPPORTED:
        raise Unsupported("this Pillow knows no AVIF")
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # the sandbox allows no more
    try:
        return _redraw(source, source.open(), name, limits)
    except Corrupt:
        if name not in _DRAWN_ALONE:
            raise
        return _redraw(source, _DRAWN_ALONE[name](source), name, limits)


def _redraw(source: Source, stream: BinaryIO, name: str, limits: Limits) -> bytes:
    try:
        with pillow(limits), Image.open(stream, formats=[_PLUGINS[name]]) as picture:
            return _encode(picture, name, limits, is_lossless=_is_lossless(source))
    except Corrupt as error:
        is_unknown = isinstance(error.__cause__, UnidentifiedImageError) or "nsupported" in str(error)
        if name in _OF_MANY_LAYOUTS and is_unknown:
            raise Unsupported(f"no reader knows this layout of pixels: {error}") from error
        raise
    except (ValueError, RuntimeError, TypeError, KeyError) as error:  # decoders raise them for headers of all kinds
        if isinstance(error, RuntimeError) and "memory" in str(error):
            raise TooComplex(str(error)) from error
        if isinstance(error, ValueError) and name in _OF_MANY_LAYOUTS:
            raise Unsupported(f"no reader knows this layout of pixels: {error}") from error
        raise Corrupt(f"the picture does not decode: {error}") from error


def _encode(picture: Image.Image, name: str, limits: Limits, *, is_lossless: bool) -> bytes:
    plugin = _PLUGINS[name]
    options = dict(_OPTIONS.get(name, {}))
    if plugin == "WEBP":
        options["lossless"] = is_lossless
    elif plugin == "JPEG" and (sampling := JpegImagePlugin.get_sampling(picture)) >= 0:
        options["subsampling"] = sampling
    frames = getattr(picture, "n_frames", 1)
    if frames > _FRAMES_MOST:
        raise TooComplex(f"the picture has {frames} frames")
    file = io.BytesIO()
    drawn = _frames(picture, limits, deadline=Deadline(_SECONDS))
    if frames == 1 or plugin in {"JPEG", "BMP", "JPEG2000"}:
        next(drawn).save(file, plugin, **options)
        return file.getvalue()
    if plugin == "TIFF":
        next(drawn).save(file, plugin, save_all=True, append_images=drawn, **options)
        return file.getvalue()
    kept, durations = list[Image.Image](), list[int]()
    for each in drawn:
        kept.append(each)
        durations.append(int(picture.info.get("duration", 0)))
    if "loop" in picture.info:
        options["loop"] = picture.info["loop"]
    if plugin == "PNG" and picture.info.get("default_image"):  # the first one is not a part of the animation
        options["default_image"] = True
        del durations[0]
    if plugin == "GIF":
        options["disposal"] = 2 if any(each.has_transparency_data for each in kept) else 0
    kept[0].save(file, plugin, save_all=True, append_images=kept[1:], duration=durations, **options)
    return file.getvalue()


def _frames(picture: Image.Image, limits: Limits, *, deadline: Deadline) -> Iterator[Image.Image]:
    """Yield copies of all frames, upright, without anything but pixels."""
    total = 0
    for frame in ImageSequence.Iterator(picture):
        if deadline.has_passed:
            raise TooComplex("the picture has too many frames")
        require_within_limits(limits, *frame.size)
        total += frame.width * frame.height * max(1, len(frame.getbands()))
        if (total if picture.format != "TIFF" else total / (picture.tell() + 1)) > _BYTES_MOST:
            raise TooComplex("the picture takes more memory than there is for it")
        frame.load()
        yield _bare(upright(frame, frame))


def _bare(frame: Image.Image) -> Image.Image:
    """Return a copy in the colours of all screens, with nothing of its file but its transparent colour."""
    profile = frame.info.get("icc_profile")
    copy = frame.copy()
    copy.info = {key: value for key, value in frame.info.items() if key == "transparency"}
    if profile and copy.mode in {"RGB", "RGBA", "L", "CMYK"}:
        with contextlib.suppress(ImageCms.PyCMSError, ValueError, OSError):
            target = "RGB" if copy.mode == "CMYK" else copy.mode
            if target == "L":
                return copy
            converted = ImageCms.profileToProfile(
                copy, ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB"), outputMode=target
            )
            if converted is not None:
                converted.info = copy.info
                return converted
    return copy


def _is_lossless(source: Source) -> bool:
    return b"VP8L" in source.head and b"VP8 " not in source.head


def _redraw_pages(source: Source, cleaning: Cleaning) -> bytes:
    reading = source.cached(PdfReading)
    if reading.is_costly:
        raise TooComplex("searching for the ends of the document's streams takes too long")
    data = reading.data or b""
    cleaning.is_signed = b"/ByteRange" in data
    deadline = Deadline(_SECONDS)
    try:
        with reading.pdfium() as document, pikepdf.new() as result:
            document.init_forms()
            if not 0 < len(document) <= _PAGES_MOST:
                raise TooComplex(f"the document has {len(document)} pages")
            for number in range(len(document)):
                if deadline.has_passed:
                    raise TooComplex(f"drawing {len(document)} pages takes too long")
                page = document[number]
                try:
                    _add_page(result, page)
                finally:
                    page.close()
            file = io.BytesIO()
            result.save(file, deterministic_id=True, fix_metadata_version=False)
            return file.getvalue()
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) in _LOCKED:
            raise Encrypted("the document is protected by a password") from error
        raise Corrupt(f"a page of the document cannot be drawn: {error}") from error


def _add_page(result: pikepdf.Pdf, page: pdfium.PdfPage) -> None:
    width, height = page.get_size()
    if width <= 0 or height <= 0:
        raise Corrupt("a page of the document has no size")
    scale = min(_DOTS_PER_POINT, (_PAGE_PIXELS_MOST / (width * height)) ** 0.5)
    bitmap = page.render(scale=scale, fill_color=(255, 255, 255, 255), rev_byteorder=True)
    try:
        drawn = bitmap.to_pil().convert("RGB")
    finally:
        bitmap.close()
    red, green, blue = (channel.tobytes() for channel in drawn.split())
    is_grey = red == green == blue
    file = io.BytesIO()
    (drawn.getchannel("R") if is_grey else drawn).save(file, "JPEG", quality=_PAGE_QUALITY, subsampling=0)
    packed, packer = file.getvalue(), pikepdf.Name.DCTDecode
    # Pages of black text on white are smaller when they are packed without loss.
    if is_grey and len(deflated := zlib.compress(red, 5)) < len(packed):
        packed, packer = deflated, pikepdf.Name.FlateDecode
    picture = result.make_stream(
        packed,
        Type=pikepdf.Name.XObject,
        Subtype=pikepdf.Name.Image,
        Width=drawn.width,
        Height=drawn.height,
        ColorSpace=pikepdf.Name.DeviceGray if is_grey else pikepdf.Name.DeviceRGB,
        BitsPerComponent=8,
        Filter=packer,
    )
    content = result.make_stream(f"q {width:.3f} 0 0 {height:.3f} 0 0 cm /P Do Q".encode())
    result.pages.append(
        pikepdf.Page(
            pikepdf.Dictionary(
                Type=pikepdf.Name.Page,
                MediaBox=[0, 0, round(width, 3), round(height, 3)],
                Resources=pikepdf.Dictionary(XObject=pikepdf.Dictionary(P=picture)),
                Contents=content,
            )
        )
    )
