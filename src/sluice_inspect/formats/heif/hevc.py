"""Decodes one HEVC picture with libde265, which pillow-heif brings, and takes the decoder's complaints seriously. Reads no container.

libheif itself starts a thread for every picture, which the sandbox has not, and does not pass on what libde265 noticed: data that
ends too early or goes on too long decodes to something all the same. So the library is asked directly.
"""

import contextlib
import ctypes
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sluice.formats.verdict import Corrupt, TooComplex, Unsupported

_PACKAGES: Final = ("pillow_heif", "pi_heif")
_SYSTEM_NAMES: Final = ("libde265.so.0", "libde265.0.dylib")
_OUT_OF_MEMORY: Final = 7
_BUFFERS_FULL: Final = 9
_NOT_IMPLEMENTED: Final = 502
_DAMAGE_WARNINGS: Final = frozenset({1002, 1004, 1005, 1006, 1007, 1009, 1010, 1017, 1020, 1021})
"""Of the warnings in de265.h those that no picture gives which its encoder wrote: a slice that ends before its data or behind it, headers
that cannot be, blocks outside the picture. Others speak of films or of the decoder."""
_BYTE: Final = 8
_CODED_TYPES: Final = 32
"""NAL units of lower types hold pictures."""
_BLOCK: Final = 8
"""Side of the smallest block that is coded."""
_COLOUR_SHARES: Final = {1: (2, 2), 2: (2, 1)}
"""By chroma format, pixels across and down that share a colour. In others the planes may hold red, green and blue."""
_FORBIDDEN: Final = (b"\0\0\0", b"\0\0\1", b"\0\0\2")
"""Never part of a NAL unit: encoders put a 3 in between. Zeroed data has them."""


def _load() -> ctypes.CDLL | None:
    for path in (*_bundled(), *_SYSTEM_NAMES):
        with contextlib.suppress(OSError):
            return _declared(ctypes.CDLL(str(path)))
    return None


def _bundled() -> Iterator[Path]:
    """Answer where the wheels of pillow-heif keep their libde265: beside the package on Linux, in it on macOS."""
    for name in _PACKAGES:
        if (spec := importlib.util.find_spec(name)) and spec.origin:
            package = Path(spec.origin).parent
            yield from package.parent.glob(f"{name}.libs/libde265*")
            yield from package.glob(".dylibs/libde265*")


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer, number = ctypes.c_void_p, ctypes.c_int
    for name, arguments, answer in (
        ("de265_new_decoder", (), pointer),
        ("de265_free_decoder", (pointer,), number),
        ("de265_push_NAL", (pointer, ctypes.c_char_p, number, ctypes.c_int64, pointer), number),
        ("de265_flush_data", (pointer,), number),
        ("de265_decode", (pointer, ctypes.POINTER(number)), number),
        ("de265_get_next_picture", (pointer,), pointer),
        ("de265_get_warning", (pointer,), number),
        ("de265_get_error_text", (number,), ctypes.c_char_p),
        ("de265_get_image_width", (pointer, number), number),
        ("de265_get_image_height", (pointer, number), number),
        ("de265_get_chroma_format", (pointer,), number),
        ("de265_get_bits_per_pixel", (pointer, number), number),
        ("de265_get_image_plane", (pointer, number, ctypes.POINTER(number)), pointer),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, answer
    return library


_LIBRARY: Final = _load()

INSTALLED: Final = _LIBRARY is not None


def nal_units(config: bytes, data: bytes) -> list[bytes]:
    """Answer the parameter sets of a decoder configuration (`hvcC`) and the NAL units of a picture. Raises `Corrupt` where they do not fit."""
    units: list[bytes] = []
    place = 23
    for _ in range(config[22] if len(config) >= place else 0):
        count = int.from_bytes(config[place + 1 : place + 3], "big")
        place += 3
        for _ in range(count):
            size = int.from_bytes(config[place : place + 2], "big")
            units.append(config[place + 2 : place + 2 + size])
            place += 2 + size
    if place > len(config) or not units:
        raise Corrupt("the decoder configuration of the picture is damaged")
    return units + list(_lengthed(data, (config[21] & 3) + 1))


def _lengthed(data: bytes, width: int) -> Iterator[bytes]:
    place = 0
    while place + width <= len(data):
        size = int.from_bytes(data[place : place + width], "big")
        place += width
        if place + size > len(data):
            raise Corrupt(f"the picture data is damaged or cut: a unit of {size} bytes begins where {len(data) - place} are left")
        unit = data[place : place + size]
        if unit and unit[0] >> 1 < _CODED_TYPES and any(mark in unit.rstrip(b"\0") for mark in _FORBIDDEN):
            raise Corrupt("the picture data is damaged: it holds zeros that no encoder leaves in it")
        if unit:
            yield unit
        place += size


def decode(units: Iterable[bytes], shown: tuple[int, int]) -> Image.Image:
    """Decode the NAL units of one picture, to `L` when it has no colour, else to `RGB`, of 8 bits whatever its depth.

    `shown` are the width and height that readers show of it: what tiles hold beyond may be empty.
    Raises `Corrupt` for what does not decode or makes the decoder complain, `Unsupported` without libde265 or for what it lacks.
    """
    if _LIBRARY is None:
        raise Unsupported("HEIC pictures cannot be judged: pillow-heif (or libde265) is not installed")
    decoder = _LIBRARY.de265_new_decoder()
    if not decoder:
        raise TooComplex("there is no room for an HEVC decoder")
    try:
        for unit in units:
            _check(_LIBRARY, _LIBRARY.de265_push_NAL(decoder, unit, len(unit), 0, None))
        _check(_LIBRARY, _LIBRARY.de265_flush_data(decoder))
        picture = _first_picture(_LIBRARY, decoder, shown)
        while warning := _LIBRARY.de265_get_warning(decoder):
            if warning in _DAMAGE_WARNINGS:
                raise Corrupt(f"the picture data is damaged: {_text(_LIBRARY, warning)}")
        return picture
    finally:
        _LIBRARY.de265_free_decoder(decoder)


def _first_picture(library: ctypes.CDLL, decoder: int, shown: tuple[int, int]) -> Image.Image:
    found: Image.Image | None = None
    more = ctypes.c_int(1)
    while more.value:
        _check(library, library.de265_decode(decoder, ctypes.byref(more)))
        while image := library.de265_get_next_picture(decoder):
            found = found or _levels(library, image, shown)
    if found is None:
        raise Corrupt("the picture data is damaged: it holds no picture")
    return found


def _levels(library: ctypes.CDLL, image: int, shown: tuple[int, int]) -> Image.Image:
    brightness = _plane(library, image, 0)
    chroma = library.de265_get_chroma_format(image)
    if chroma == 0:
        return brightness
    colours = [_plane(library, image, channel) for channel in (1, 2)]
    if chroma in _COLOUR_SHARES and _is_unfinished([brightness, *colours], shown, _COLOUR_SHARES[chroma]):
        raise Corrupt("the picture data is damaged: a part of the picture ends before all of its blocks are drawn")
    return Image.merge(
        "YCbCr", (brightness, *(each.resize(brightness.size, Image.Resampling.NEAREST) for each in colours))
    ).convert("RGB")


def _is_unfinished(planes: list[Image.Image], shown: tuple[int, int], share: tuple[int, int]) -> bool:
    """Answer whether the last shown block was not drawn: the decoder then leaves zeros, a green that no picture ends in."""
    right, bottom = (max(0, min(side, whole)) // _BLOCK for side, whole in zip(shown, planes[0].size, strict=True))
    sides = [(_BLOCK, _BLOCK), *[(_BLOCK // share[0], _BLOCK // share[1])] * 2]
    return right * bottom > 0 and not any(
        plane.crop(((right - 1) * wide, (bottom - 1) * high, right * wide, bottom * high)).getbbox()
        for plane, (wide, high) in zip(planes, sides, strict=True)
    )


def _plane(library: ctypes.CDLL, image: int, channel: int) -> Image.Image:
    width, height = library.de265_get_image_width(image, channel), library.de265_get_image_height(image, channel)
    depth = library.de265_get_bits_per_pixel(image, channel)
    stride = ctypes.c_int()
    start = library.de265_get_image_plane(image, channel, ctypes.byref(stride))
    if not start or width <= 0 or height <= 0:
        raise Corrupt("the picture data is damaged: it holds no pixels")
    raw: Any = (ctypes.c_uint8 * (stride.value * height)).from_address(start)
    wide = depth > _BYTE
    rows: NDArray[Any] = np.frombuffer(raw, dtype=np.uint16 if wide else np.uint8).reshape(height, -1)[:, :width]
    return Image.fromarray((rows >> (depth - _BYTE)).astype(np.uint8) if wide else rows.copy())  # the decoder's memory goes with it


def _check(library: ctypes.CDLL, error: int) -> None:
    if error == 0:
        return
    said = _text(library, error)
    if error in {_OUT_OF_MEMORY, _BUFFERS_FULL}:
        raise TooComplex(f"the picture needs too much memory: {said}")
    if error >= _NOT_IMPLEMENTED and error < min(_DAMAGE_WARNINGS):
        raise Unsupported(f"the HEVC decoder at hand lacks what the picture needs: {said}")
    raise Corrupt(f"the picture does not decode: {said}")


def _text(library: ctypes.CDLL, code: int) -> str:
    return str((library.de265_get_error_text(code) or b"no reason given").decode("ascii", "replace"))
