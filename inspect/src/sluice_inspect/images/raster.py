"""Decoding with Pillow, shared by the picture formats: pixel and frame limits, all frames, whether they are blank."""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from PIL import Image, ImageSequence, UnidentifiedImageError

from sluice_inspect.budget import Deadline
from sluice_inspect.catalogue import FactValue
from sluice_inspect.images.blank import shows_nothing
from sluice_inspect.images.legibility import measure_legibility
from sluice_inspect.images.views import is_one_colour
from sluice_inspect.report import Corrupt, FactSheet, Finding, Limits, Measure, Unsafe, Unsupported

_SAME_COLOUR: Final = 40  # levels: two even frames that differ by less show the same colour
_PATCH: Final = 64
# Pixels of several frames that are judged, some 50 ns each; an animation that still shows nothing counts as shown.
_JUDGED_PIXELS_MOST: Final = 64_000_000
_PIXELS_MOST: Final = 2_000_000_000  # of all frames that are decoded, some seconds
_ONE_COLOUR_SHARE: Final = 16  # what judging a frame costs beside one of a single colour
_SCANS_MOST: Final = 8  # pages of a file that are modelled as scans, some 0.2 s each
_NOTHING_SHOWN: Final = "no pixel of the picture differs from its background by more than noise"


def require_within_limits(limits: Limits, width: int, height: int, frames: int = 1) -> None:
    """Check a picture's declared size before anything is decoded. Raise `Unsafe` if too large, `Corrupt` if empty."""
    if width <= 0 or height <= 0:
        raise Corrupt(f"the picture is {width} x {height} pixels in size")
    measured: dict[str, FactValue] = {"width": width, "height": height, "pixels": width * height}
    if width * height > limits.max_pixels:
        excess = f"{width} x {height} pixels are more than the {limits.max_pixels} allowed"
    elif frames > limits.max_frames:
        excess = f"{frames} frames are more than the {limits.max_frames} allowed"
        measured["frames"] = frames
    else:
        return
    error = Unsafe(Finding.IMAGE_TOO_LARGE, excess)
    error.measured = FactSheet(measured)
    raise error


@dataclass(slots=True)
class FrameSummary:
    """Number of the frames added so far, whether all of them are blank, and how legible the first is if asked."""

    frames: int = 0
    all_blank: bool = True
    colour: tuple[int, ...] = ()
    judged_pixels: int = 0
    facts: dict[str, FactValue] = field(default_factory=dict)

    def add(self, frame: Image.Image, limits: Limits) -> None:
        """Add a decoded frame. Raise `Unsafe` if it is too large, or one too many."""
        self.frames += 1
        require_within_limits(limits, frame.width, frame.height, self.frames)
        if limits.legibility and self.frames == 1:
            with suppress(MemoryError):  # as for a picture that is too small: nothing is known
                self.facts |= measure_legibility(frame)
        if not self.all_blank:
            return
        pixels, is_even = frame.width * frame.height, is_one_colour(frame)
        self.judged_pixels += pixels // _ONE_COLOUR_SHARE if is_even else pixels
        if self.frames > 1 and self.judged_pixels > _JUDGED_PIXELS_MOST:
            self.all_blank = False
            return
        try:
            self.all_blank = is_even or shows_nothing(frame, is_scan=self.frames <= _SCANS_MOST)
        except MemoryError:  # the frame was decoded, which is all that integrity asks for
            self.all_blank = False
        if self.all_blank:
            # A sequence of even frames in different colours shows something: the colours change.
            previous, self.colour = self.colour, _even_colour(frame)
            self.all_blank = (
                not (previous and self.colour)
                or max(abs(a - b) for a, b in zip(self.colour, previous, strict=True)) <= _SAME_COLOUR
            )

    @property
    def measured(self) -> FactSheet | None:
        """The facts that were asked for, for the `Examination`."""
        return FactSheet(dict(self.facts)) if self.facts else None

    def blank_detail(self, *, is_complete: bool) -> str | None:
        """Return why the picture is blank, or None. A picture that was not decoded completely is never called blank."""
        return _NOTHING_SHOWN if is_complete and self.all_blank and self.frames else None


@dataclass(frozen=True, slots=True)
class Decoded:
    """The result of decoding all frames of a file."""

    measures: dict[str, Measure]
    blank_detail: str | None
    measured: FactSheet | None = None

    def blank(self) -> str | None:
        """Return the result of the format's blank rule, for its `Examination`."""
        return self.blank_detail


def decode_frames(
    stream: BinaryIO,
    plugin: str,
    limits: Limits,
    *,
    first_frame_suffices: bool = False,
    most_pixels: int = _PIXELS_MOST,
) -> Decoded:
    """Decode every frame with one Pillow plugin; measure `frames`, and `partially_checked` past the deadline, and past
    `most_pixels` of all frames.
    """
    # With `first_frame_suffices` a broken frame after a good one is only measured: viewers then show the first.
    deadline = Deadline(limits.soft_seconds)
    summary = FrameSummary()
    partial: dict[str, Measure] = {}
    try:
        with pillow(limits):
            # Frames are judged one by one and dropped: a long animation does not fit into memory.
            for frame in ImageSequence.Iterator(Image.open(stream, formats=[plugin])):
                # A still is complete however long it took.
                if summary.frames and (
                    deadline.has_passed or summary.frames * frame.width * frame.height > most_pixels
                ):
                    partial["partially_checked"] = True
                    break
                frame.load()
                summary.add(frame, limits)
    except Corrupt:
        if not (first_frame_suffices and summary.frames):
            raise
        partial["animation_broken"] = True
    blank = summary.blank_detail(is_complete=not partial)
    return Decoded({"frames": summary.frames} | partial, blank, summary.measured)


def decode_still(stream: BinaryIO, plugin: str, limits: Limits) -> Image.Image:
    """Decode the first frame with one Pillow plugin. Raises as `decode_frames` does."""
    with pillow(limits):
        picture = Image.open(stream, formats=[plugin])
        picture.load()
        return picture


def sample_picture(plugin: str) -> bytes:
    """Return a small good picture, a checkerboard, for a format's self-test."""
    file = io.BytesIO()
    board = Image.frombytes("L", (64, 64), bytes(255 * ((x // 16 + y // 16) % 2) for y in range(64) for x in range(64)))
    board.save(file, plugin)
    return file.getvalue()


def _even_colour(frame: Image.Image) -> tuple[int, ...]:
    """Return the mean colour in the middle of a frame; empty for samples that are numbers rather than colours."""
    if frame.mode[0] in "IF":
        return ()
    left, top = max(0, frame.width - _PATCH) // 2, max(0, frame.height - _PATCH) // 2
    patch = frame.crop((left, top, min(frame.width, left + _PATCH), min(frame.height, top + _PATCH)))
    return tuple(patch.convert("RGBA").resize((1, 1), Image.Resampling.BOX).tobytes())


@contextmanager
def pillow(limits: Limits) -> Iterator[None]:
    """Run Pillow with our pixel limit, without its warnings, and translate its errors to `InspectionError`."""
    # Pillow's own limit is lower than ours, and it warns long before it refuses.
    previous_limit = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = limits.max_pixels
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Image.DecompressionBombError as error:
        raise Unsafe(Finding.IMAGE_TOO_LARGE, str(error)) from error
    except UnidentifiedImageError as error:  # its message only names Python's stream object
        raise Corrupt("the picture does not decode: no reader recognises its header") from error
    except OSError as error:
        if error.errno is not None:  # the system failed, not the picture
            raise
        if "out of memory" in str(error):
            raise MemoryError(str(error)) from error
        if "decoder" in str(error) and "not available" in str(error):
            raise Unsupported(f"the decoder is not installed: {error}") from error
        raise Corrupt(f"the picture does not decode: {error}") from error
    except (
        SyntaxError,
        EOFError,
        IndexError,
        struct.error,
    ) as error:  # Pillow reads some bytes without asking for more
        raise Corrupt(f"the picture does not decode: {error}") from error
    except ValueError as error:
        if "tile" not in str(error):
            raise
        raise Unsupported(f"the decoder does not know this layout of pixels: {error}") from error
    finally:
        Image.MAX_IMAGE_PIXELS = previous_limit
