"""What the picture kinds share: the pixel and frame budgets, decoding every frame with Pillow, and whether any of them shows something.

Container rules (chunks, blocks, markers) are in the kinds; what blank means is in `pictures.py`.
"""

import io
import struct
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Final
from weakref import WeakKeyDictionary

from PIL import Image, ImageSequence, UnidentifiedImageError

from sluice.formats.images.pictures import picture_is_blank
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Finding, Limits, Measure, Unsafe, Unsupported

_SAME_COLOUR: Final = 40
_PATCH: Final = 64
_shows_nothing: Final[WeakKeyDictionary[Source, bool]] = WeakKeyDictionary()
"""Remembered from the one decode, since `check` and `blank` of a kind are asked apart."""


def keep_within(limits: Limits, width: int, height: int, frames: int = 1) -> None:
    """Refuse a picture by its declared size, before anything is decoded. Raises `Unsafe`, or `Corrupt` for one without pixels."""
    if width <= 0 or height <= 0:
        raise Corrupt(f"the picture is {width} x {height} pixels in size")
    if width * height > limits.max_pixels:
        raise Unsafe(Finding.IMAGE_TOO_LARGE, f"{width} x {height} pixels are more than the {limits.max_pixels} allowed")
    if frames > limits.max_frames:
        raise Unsafe(Finding.IMAGE_TOO_LARGE, f"{frames} frames are more than the {limits.max_frames} allowed")


def decode(source: Source, stream: BinaryIO, plugin: str, limits: Limits, *, still_suffices: bool = False) -> dict[str, Measure]:
    """Decode every frame with one Pillow plugin; answer `frames`, and `partially_checked` when the time ran out before the last.

    Raises `Corrupt` when a frame does not decode and `Unsupported` when this Pillow was built without the decoder. With
    `still_suffices` a broken frame behind a good one is only measured (`animation_broken`): readers then show the first.
    """
    deadline = time.monotonic() + limits.soft_seconds
    seen = Seen()
    measures: dict[str, Measure] = {}
    with _pixel_cap(limits), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a library's doubts are no finding
        try:
            with _judging():
                for frame in ImageSequence.Iterator(Image.open(stream, formats=[plugin])):
                    frame.load()
                    seen.see(frame, limits)
                    if time.monotonic() > deadline:
                        measures["partially_checked"] = True
                        break
        except Corrupt:
            if not (still_suffices and seen.frames):
                raise
            measures["animation_broken"] = True
    seen.remember(source, whole=not measures)
    return {"frames": seen.frames} | measures


def load_still(stream: BinaryIO, plugin: str, limits: Limits) -> Image.Image:
    """Decode the first frame with one Pillow plugin. Raises as `decode` does."""
    with _pixel_cap(limits), warnings.catch_warnings(), _judging():
        warnings.simplefilter("ignore")
        picture = Image.open(stream, formats=[plugin])
        picture.load()
        return picture


@dataclass(slots=True)
class Seen:
    """What the frames so far were like. A sequence of empty frames in different colours is no blank picture."""

    frames: int = 0
    blank: bool = True
    colour: tuple[int, ...] = ()

    def see(self, frame: Image.Image, limits: Limits) -> None:
        """Look at one more decoded frame. Raises `Unsafe` when it is too large, or one too many."""
        self.frames += 1
        keep_within(limits, frame.width, frame.height, self.frames)
        if not (self.blank and _is_blank(frame)):
            self.blank = False
            return
        colour = _colour(frame)
        self.blank = (
            not (self.colour and colour) or max(abs(a - b) for a, b in zip(colour, self.colour, strict=True)) <= _SAME_COLOUR
        )
        self.colour = colour

    def remember(self, source: Source, *, whole: bool) -> None:
        """Keep for `blank_picture` what was seen; a picture that was not seen whole is not called blank."""
        _shows_nothing[source] = whole and self.blank and self.frames > 0


def _colour(frame: Image.Image) -> tuple[int, ...]:
    """Answer the colour of an even frame, from its middle; nothing for samples that are no colours."""
    if frame.mode[0] in "IF":
        return ()
    left, top = max(0, frame.width - _PATCH) // 2, max(0, frame.height - _PATCH) // 2
    patch = frame.crop((left, top, min(frame.width, left + _PATCH), min(frame.height, top + _PATCH)))
    return tuple(patch.convert("RGBA").resize((1, 1), Image.Resampling.BOX).tobytes())


def _is_blank(frame: Image.Image) -> bool:
    try:
        return picture_is_blank(frame)
    except MemoryError:  # it was decoded, which is all that integrity asks
        return False


def blank_picture(source: Source, _limits: Limits) -> str | None:
    """Answer the blank rule of a picture kind, as seen while it was decoded."""
    return "no pixel of the picture differs from its background by more than noise" if _shows_nothing.get(source) else None


def sample_picture(plugin: str) -> bytes:
    """Make a small good picture for a kind's self-test: a board of squares."""
    file = io.BytesIO()
    board = Image.frombytes("L", (64, 64), bytes(255 * ((x // 16 + y // 16) % 2) for y in range(64) for x in range(64)))
    board.save(file, plugin)
    return file.getvalue()


@contextmanager
def _pixel_cap(limits: Limits) -> Iterator[None]:
    """Let Pillow open what the limits allow: its own cap is lower, and warns before it refuses."""
    before = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = limits.max_pixels
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = before


@contextmanager
def _judging() -> Iterator[None]:
    try:
        yield
    except Image.DecompressionBombError as error:
        raise Unsafe(Finding.IMAGE_TOO_LARGE, str(error)) from error
    except UnidentifiedImageError as error:  # whose words show the reader's object
        raise Corrupt("the picture does not decode: its header is none that a reader knows") from error
    except OSError as error:
        if error.errno is not None:
            raise
        if "out of memory" in str(error):
            raise MemoryError(str(error)) from error
        if "decoder" in str(error) and "not available" in str(error):
            raise Unsupported(f"no decoder at hand: {error}") from error
        raise Corrupt(f"the picture does not decode: {error}") from error
    except (SyntaxError, EOFError, struct.error) as error:
        raise Corrupt(f"the picture does not decode: {error}") from error
    except ValueError as error:
        if "tile" not in str(error):
            raise
        raise Unsupported(f"the reader at hand cannot lay out the picture: {error}") from error
