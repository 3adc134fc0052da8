"""Decoding of one HEVC picture with libde265, whose warnings are taken for errors."""
# libheif starts a thread for every picture, which the sandbox does not allow, and does not pass on the warnings: data
# that ends too early or too late still decodes to something. So libde265 is called directly.

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from PIL import Image

from sluice_inspect.format import load_library
from sluice_inspect.report import Corrupt, TooComplex, Unsupported

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PACKAGES: Final = ("pillow_heif", "pi_heif")
_SYSTEM_NAMES: Final = ("libde265.so.0", "libde265.0.dylib")
_OUT_OF_MEMORY, _BUFFERS_FULL, _NOT_IMPLEMENTED = 7, 9, 502
# Warnings of de265.h that no undamaged picture gives: a slice that ends before its data or behind it, impossible
# headers, blocks outside the picture. Other warnings are about films or the decoder.
_DAMAGE_WARNINGS: Final = frozenset({1002, 1004, 1005, 1006, 1007, 1009, 1010, 1017, 1020, 1021})
_BYTE: Final = 8
_CODED_TYPES: Final = 32  # NAL units of lower types hold pictures
_BLOCK: Final = 8  # side of the smallest block that is coded
# By chroma format, pixels across and down that share a colour. In others the planes may hold red, green and blue.
_SUBSAMPLING: Final = {1: (2, 2), 2: (2, 1)}
# Never part of a NAL unit: encoders insert a 3 (H.265, 7.4.2). Zeroed data has them.
_FORBIDDEN: Final = (b"\0\0\0", b"\0\0\1", b"\0\0\2")


def _bundled() -> Iterator[Path]:
    """Yield where the wheels of pillow-heif keep their libde265: beside the package on Linux, in it on macOS."""
    for name in _PACKAGES:
        if (spec := importlib.util.find_spec(name)) and spec.origin:
            package = Path(spec.origin).parent
            yield from package.parent.glob(f"{name}.libs/libde265*")
            yield from package.glob(".dylibs/libde265*")


_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int
_SIGNATURES: Final = (
    ("de265_new_decoder", (), _POINTER),
    ("de265_free_decoder", (_POINTER,), _NUMBER),
    ("de265_push_NAL", (_POINTER, ctypes.c_char_p, _NUMBER, ctypes.c_int64, _POINTER), _NUMBER),
    ("de265_flush_data", (_POINTER,), _NUMBER),
    ("de265_decode", (_POINTER, ctypes.POINTER(_NUMBER)), _NUMBER),
    ("de265_get_next_picture", (_POINTER,), _POINTER),
    ("de265_get_warning", (_POINTER,), _NUMBER),
    ("de265_get_error_text", (_NUMBER,), ctypes.c_char_p),
    ("de265_get_image_width", (_POINTER, _NUMBER), _NUMBER),
    ("de265_get_image_height", (_POINTER, _NUMBER), _NUMBER),
    ("de265_get_chroma_format", (_POINTER,), _NUMBER),
    ("de265_get_bits_per_pixel", (_POINTER, _NUMBER), _NUMBER),
    ("de265_get_image_plane", (_POINTER, _NUMBER, ctypes.POINTER(_NUMBER)), _POINTER),
)
_LIBRARY: Final = load_library((*map(str, _bundled()), *_SYSTEM_NAMES), _SIGNATURES)
INSTALLED: Final = _LIBRARY is not None


def parse_nal_units(config: bytes, data: bytes) -> list[bytes]:
    """Return the parameter sets of a decoder configuration (`hvcC`) and the units of a picture. Raises `Corrupt`."""
    units: list[bytes] = []
    at = 23
    for _ in range(config[22] if len(config) >= at else 0):
        count = int.from_bytes(config[at + 1 : at + 3], "big")
        at += 3
        for _ in range(count):
            size = int.from_bytes(config[at : at + 2], "big")
            units.append(config[at + 2 : at + 2 + size])
            at += 2 + size
    if at > len(config) or not units:
        raise Corrupt("the decoder configuration of the picture is damaged")
    return units + list(_picture_units(data, (config[21] & 3) + 1))


def _picture_units(data: bytes, width: int) -> Iterator[bytes]:
    at = 0
    while at + width <= len(data):
        size = int.from_bytes(data[at : at + width], "big")
        at += width
        if at + size > len(data):
            raise Corrupt(
                f"the picture data is damaged or cut: a unit of {size} bytes begins where {len(data) - at} are left"
            )
        unit = data[at : at + size]
        if unit and unit[0] >> 1 < _CODED_TYPES and any(mark in unit.rstrip(b"\0") for mark in _FORBIDDEN):
            raise Corrupt("the picture data is damaged: it holds zeros that no encoder leaves in it")
        if unit:
            yield unit
        at += size


def decode_picture(units: Iterable[bytes], visible: tuple[int, int]) -> Image.Image:
    """Decode the NAL units of one picture to `L` or `RGB` with 8 bits. Tiles may be empty outside of `visible`.

    Raise `Corrupt` if the picture is damaged, `Unsupported` if the library is not installed, and `TooComplex` if it has
    no memory.
    """
    if _LIBRARY is None:
        raise Unsupported("HEIC pictures cannot be decoded: pillow-heif (or libde265) is not installed")
    decoder = _LIBRARY.de265_new_decoder()
    if not decoder:
        raise TooComplex("there is no memory for an HEVC decoder")
    try:
        for unit in units:
            _raise_for(_LIBRARY, _LIBRARY.de265_push_NAL(decoder, unit, len(unit), 0, None))
        _raise_for(_LIBRARY, _LIBRARY.de265_flush_data(decoder))
        picture = _first_picture(_LIBRARY, decoder, visible)
        while warning := _LIBRARY.de265_get_warning(decoder):
            if warning in _DAMAGE_WARNINGS:
                raise Corrupt(f"the picture data is damaged: {_text(_LIBRARY, warning)}")
        return picture
    finally:
        _LIBRARY.de265_free_decoder(decoder)


def _first_picture(library: ctypes.CDLL, decoder: int, visible: tuple[int, int]) -> Image.Image:
    found: Image.Image | None = None
    more = ctypes.c_int(1)
    while more.value:
        _raise_for(library, library.de265_decode(decoder, ctypes.byref(more)))
        while image := library.de265_get_next_picture(decoder):
            found = found or _to_image(library, image, visible)
    if found is None:
        raise Corrupt("the picture data is damaged: it holds no picture")
    return found


def _to_image(library: ctypes.CDLL, image: int, visible: tuple[int, int]) -> Image.Image:
    luma = _plane(library, image, 0)
    chroma = library.de265_get_chroma_format(image)
    if chroma == 0:
        return luma
    colours = [_plane(library, image, channel) for channel in (1, 2)]
    if chroma in _SUBSAMPLING and _is_unfinished([luma, *colours], visible, _SUBSAMPLING[chroma]):
        raise Corrupt("the picture data is damaged: a part of the picture ends before all of its blocks are drawn")
    return Image.merge(
        "YCbCr", (luma, *(each.resize(luma.size, Image.Resampling.NEAREST) for each in colours))
    ).convert("RGB")


def _is_unfinished(planes: list[Image.Image], visible: tuple[int, int], share: tuple[int, int]) -> bool:
    # The decoder leaves zeros there: a green that no picture ends in.
    right, bottom = (max(0, min(side, whole)) // _BLOCK for side, whole in zip(visible, planes[0].size, strict=True))
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
    return Image.fromarray(
        (rows >> (depth - _BYTE)).astype(np.uint8) if wide else rows.copy()
    )  # copied, since the memory belongs to the decoder


def _raise_for(library: ctypes.CDLL, error: int) -> None:
    if error == 0:
        return
    reason = _text(library, error)
    if error in {_OUT_OF_MEMORY, _BUFFERS_FULL}:
        raise TooComplex(f"the picture needs too much memory: {reason}")
    if error >= _NOT_IMPLEMENTED and error < min(_DAMAGE_WARNINGS):
        raise Unsupported(f"the HEVC decoder lacks what the picture needs: {reason}")
    raise Corrupt(f"the picture does not decode: {reason}")


def _text(library: ctypes.CDLL, code: int) -> str:
    return str((library.de265_get_error_text(code) or b"no reason given").decode("ascii", "replace"))
