"""Detection of content in decoded sound and moving pictures: whether a person would hear or see anything."""
# Sound is content above -60 dBFS, or where it stands out from a fainter background. A video is content if a frame shows
# contrast when scaled down, changes its colour as a whole, or passes the blank rule for pictures. In doubt: content.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from PIL import Image

from sluice_inspect.images.blank import picture_is_blank

if TYPE_CHECKING:
    from av import AudioFrame, VideoFrame
    from av.video.reformatter import VideoReformatter
    from numpy.typing import NDArray

Waveform: TypeAlias = "NDArray[np.float32]"  # of shape (channel, time), full scale at 1

_AUDIBLE: Final = 10 ** (-60 / 20)  # root mean square, relative to full scale, above which a window is audible
_FAINT: Final = 10 ** (-66 / 20)
# Ratio of a faint window to the median one. The noise of a room or of dither stays within 1.2.
_STANDS_OUT: Final = 2.5
_WINDOWS_PER_SECOND: Final = 40
_MIN_WINDOW: Final = 64
_WINDOWS_PER_BLOCK: Final = 20  # windows over which a constant offset (DC) is removed: it is inaudible
# Full scale and zero of integer samples, by numpy type; other samples are fractions already.
_INTEGER_SCALES: Final = {
    "u1": (128.0, 128),
    "i2": (32768.0, 0),
    "i4": (2147483648.0, 0),
    "i8": (9223372036854775808.0, 0),
}
_MAX_PLANES: Final = 7  # PyAV reads planes up to a null pointer, and FFmpeg's array of 8 leaves no room for one

_THUMBNAIL_SIDE: Final = 96
# The side of a pixel of the thumbnail in pixels of the video, at least: that averages noise away, but not a letter.
_THUMBNAIL_CELL: Final = 8
_MIN_CONTRAST: Final = 24
_MIN_COLOUR_CHANGE: Final = 40
_MAX_UNCHANGED: Final = 2


class SoundDetector:
    """Looks for audible sound in the frames of one stream, in their order."""

    def __init__(self) -> None:
        self._is_audible = False
        # Sample rate, sample format and channels of the buffer.
        self._form: tuple[int, str, int] = (0, "", 0)
        self._buffer: list[NDArray[Any]] = []
        self._buffered = 0
        self._levels: list[Waveform] = []

    def add(self, frame: AudioFrame) -> None:
        """Add the next frame. Raise `ValueError` for a sample format that PyAV does not convert."""
        if self._is_audible:
            return
        form = (frame.sample_rate, frame.format.name, frame.layout.nb_channels)
        if form != self._form:
            self._measure_buffer()
            self._form = form
        if frame.format.is_planar and frame.layout.nb_channels > _MAX_PLANES:
            raise ValueError("too many planes")
        self._buffer.append(frame.to_ndarray())
        self._buffered += frame.samples
        if self._buffered >= self._window * _WINDOWS_PER_BLOCK:
            self._measure_buffer()

    @property
    def has_content(self) -> bool:
        """Whether anything was audible so far."""
        self._measure_buffer()
        if self._is_audible or not self._levels:
            return self._is_audible
        levels = np.concatenate(self._levels)
        loudest = float(levels.max())
        return loudest > _FAINT and loudest > _STANDS_OUT * float(np.median(levels))

    @property
    def _window(self) -> int:
        return max(_MIN_WINDOW, self._form[0] // _WINDOWS_PER_SECOND)

    def _measure_buffer(self) -> None:
        if not self._buffered:
            return
        block = _waveform(np.concatenate(self._buffer, axis=1), self._form[2])
        self._buffer, self._buffered = [], 0
        block = block - block.mean(axis=1, keepdims=True)
        full = block.shape[1] // self._window * self._window
        windows = block[:, :full].reshape(block.shape[0], -1, self._window) if full else block[:, None, :]
        levels = np.sqrt(np.square(windows).mean(axis=2)).max(axis=0)
        self._levels.append(levels)
        self._is_audible = bool(levels.max() > _AUDIBLE)


def _waveform(raw: NDArray[Any], channels: int) -> Waveform:
    """Return planar samples, or interleaved ones in a single row, as a waveform."""
    if raw.shape[0] != channels:
        raw = raw.reshape(-1, channels).T
    scale, zero = _INTEGER_SCALES.get(raw.dtype.str[1:], (1.0, 0))
    samples: Waveform = (raw.astype(np.float32) - np.float32(zero)) / np.float32(scale)
    # Damaged files hold fractions that are infinite or not numbers, which must not spread through the means.
    return samples if scale != 1.0 else np.nan_to_num(samples, posinf=0.0, neginf=0.0).clip(-8, 8)


class PictureDetector:
    """Looks for visible content in the frames of one stream, in their order."""

    def __init__(self, reformatter: VideoReformatter) -> None:
        self._reformatter = reformatter
        self._frames = 0
        # The full blank rule costs far more than a thumbnail: it runs on frames that changed, at growing distances.
        self._full_checks = 0
        self._next_full_check = 0
        self._last_checked: NDArray[np.int16] | None = None
        self._darkest: NDArray[np.float64] | None = None
        self._lightest: NDArray[np.float64] | None = None
        self.has_content = False

    def add(self, frame: VideoFrame) -> None:
        """Add the next frame. Raise `ValueError` for a pixel format that FFmpeg does not convert."""
        if self.has_content:
            return
        width, height = (max(1, min(_THUMBNAIL_SIDE, side // _THUMBNAIL_CELL)) for side in (frame.width, frame.height))
        small = self._reformatter.reformat(frame, width, height, "rgb24", interpolation="AREA", threads=1)
        thumbnail = small.to_ndarray().astype(np.int16)
        self.has_content = (
            bool(np.ptp(thumbnail, axis=(0, 1)).max() > _MIN_CONTRAST)
            or self._changed_colour(thumbnail)
            or self._passes_full_check(frame, thumbnail)
        )
        self._frames += 1

    def _changed_colour(self, thumbnail: NDArray[np.int16]) -> bool:
        mean = thumbnail.mean(axis=(0, 1))
        self._darkest = mean if self._darkest is None else np.minimum(self._darkest, mean)
        self._lightest = mean if self._lightest is None else np.maximum(self._lightest, mean)
        return bool((self._lightest - self._darkest).max() > _MIN_COLOUR_CHANGE)

    def _passes_full_check(self, frame: VideoFrame, thumbnail: NDArray[np.int16]) -> bool:
        last = self._last_checked
        changed = last is None or last.shape != thumbnail.shape or np.abs(last - thumbnail).max() > _MAX_UNCHANGED
        if self._frames < self._next_full_check or not changed:
            return False
        self._last_checked = thumbnail
        self._full_checks += 1
        self._next_full_check = self._frames + self._full_checks
        pixels = self._reformatter.reformat(frame, format="rgb24", threads=1).to_ndarray()
        return not picture_is_blank(Image.fromarray(pixels), is_scan=False)
