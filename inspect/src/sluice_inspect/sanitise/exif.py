"""The metadata of cameras: what a block of Exif says, and the smallest block that says how to turn the picture."""
# CIPA DC-008 (Exif 3.0), section 4.6: a TIFF of one or two directories, with further ones for camera and place.

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ORIENTATION: Final = 0x0112
GPS_DIRECTORY: Final = 0x8825
CAMERA_DIRECTORY: Final = 0x8769
_SHORT: Final = 3
_UPRIGHT, _ORIENTATIONS = 1, range(1, 9)
_ENTRIES_MOST: Final = 1_000
_ORDERS: Final[Mapping[bytes, str]] = {b"II*\0": "<", b"MM\0*": ">"}

# What the tags are that more can be said of.
WORDS: Final[Mapping[int, str]] = {
    **dict.fromkeys((271, 272, 33434, 33437, 34850, 34855, 37377, 37378, 37386, 37500), "camera"),
    **dict.fromkeys((42033, 42034, 42036, 42037), "camera"),
    **dict.fromkeys((315, 33432, 40093, 42032), "author"),
    **dict.fromkeys((306, 36867, 36868, 36880, 36881, 36882), "dates"),
    **dict.fromkeys((270, 269, 285, 33723, 37510, 40091, 40092, 40094, 40095), "comments"),
    **dict.fromkeys((330, 513), "thumbnail"),
    700: "xmp",
    GPS_DIRECTORY: "gps",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExifSummary:
    """What a block says, as words of the catalogue, and how the picture is turned: 1 if it is not."""

    words: frozenset[str]
    orientation: int = _UPRIGHT


def summarise(block: bytes) -> ExifSummary:
    """Return what a block says, which may be damaged."""
    order = _ORDERS.get(block[:4])
    if order is None:
        return ExifSummary(frozenset({"other_metadata"}))
    words, orientation = set[str](), 0
    try:
        (first,) = struct.unpack_from(f"{order}L", block, 4)
        directories, is_main = [first], True
        while directories and len(words) < len(WORDS):
            at = directories.pop()
            (count,) = struct.unpack_from(f"{order}H", block, at)
            for number in range(min(count, _ENTRIES_MOST)):
                tag, kind, values, value = struct.unpack_from(f"{order}HHLL", block, at + 2 + 12 * number)
                if tag in WORDS:
                    words.add(WORDS[tag])
                if tag == CAMERA_DIRECTORY and is_main:
                    directories.append(value)
                if is_main and tag == ORIENTATION and kind == _SHORT and values == 1:
                    (orientation,) = struct.unpack_from(f"{order}H", block, at + 10 + 12 * number)
            if is_main and any(block[at + 2 + 12 * count : at + 6 + 12 * count]):
                words.add("thumbnail")
            is_main = False
    except struct.error:
        words.add("other_metadata")
    return ExifSummary(
        frozenset(words or {"other_metadata"}), orientation if orientation in _ORIENTATIONS else _UPRIGHT
    )


def orientation_only(orientation: int) -> bytes:
    """Return the block that says nothing but how the picture is turned."""
    return struct.pack(">4sLHHHLHHL", b"MM\0*", 8, 1, ORIENTATION, _SHORT, 1, orientation, 0, 0)


def without_metadata(block: bytes, removed: set[str]) -> bytes:
    """Return what has to be kept of a block, nothing if the picture is upright; add what else it says to `removed`."""
    found = summarise(block)
    kept = b"" if found.orientation == _UPRIGHT else orientation_only(found.orientation)
    if block != kept:
        removed |= found.words
    return kept
