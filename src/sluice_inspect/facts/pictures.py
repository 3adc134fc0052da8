"""Size and frames of a picture: as the examination measured them, or as its header states them."""

import warnings
from typing import Final

from PIL import Image

from sluice_inspect.facts.subject import Subject
from sluice_inspect.report import FactSheet

_PLUGINS: Final = {
    "png": "PNG", "jpeg": "JPEG", "gif": "GIF", "bmp": "BMP", "tiff": "TIFF", "avif": "AVIF",
    "jp2": "JPEG2000", "j2k": "JPEG2000",
}  # fmt: skip
_STATES_FRAMES: Final = frozenset({"PNG", "AVIF"})
_ANIMATED: Final = frozenset({"png", "gif", "webp", "avif"})


def measure_picture(subject: Subject, sheet: FactSheet) -> None:
    """Add width, height, pixels, frames and whether they move; pages of a TIFF."""
    width, height, frames = subject.count("width"), subject.count("height"), subject.count("frames")
    if width is None or height is None:
        width, height, frames = _read_header(subject)
    if not (width and height):
        return
    if "width" in sheet.facts:  # of what was too large, which need not be what the header states
        return
    sheet.facts |= {"width": width, "height": height, "pixels": width * height}
    if frames is None:
        return
    is_animation = subject.format_name in _ANIMATED and frames > 1
    sheet.facts |= {"frames": frames if is_animation else 1, "animated": is_animation}
    if subject.format_name == "tiff":
        sheet.facts["pages"] = frames


def _read_header(subject: Subject) -> tuple[int, int, int | None]:
    """Return width, height and, where the header states it, the number of frames. No pixel is decoded."""
    if subject.format_name == "webp":
        return *_read_webp(subject.source.head), None
    plugin = _PLUGINS.get(subject.format_name)
    if plugin is None:
        return 0, 0, None
    previous, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(subject.source.open(), formats=[plugin]) as picture:
                # Other plugins would have to go through all frames to count them.
                frames = getattr(picture, "n_frames", 1) if plugin in _STATES_FRAMES else None
                return *picture.size, frames
    except (OSError, SyntaxError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system failed, not the picture
            raise
        return 0, 0, None
    finally:
        Image.MAX_IMAGE_PIXELS = previous


def _read_webp(head: bytes) -> tuple[int, int]:
    # Pillow would set up a decoder for all of it. The chunks are those of RFC 9649, section 2.
    name, start = head[12:16], head[20:30]
    if name == b"VP8X":
        return 1 + int.from_bytes(start[4:7], "little"), 1 + int.from_bytes(start[7:10], "little")
    if name == b"VP8L":
        packed = int.from_bytes(start[1:5], "little")
        return 1 + (packed & 0x3FFF), 1 + (packed >> 14 & 0x3FFF)
    return int.from_bytes(start[6:8], "little") & 0x3FFF, int.from_bytes(start[8:10], "little") & 0x3FFF
