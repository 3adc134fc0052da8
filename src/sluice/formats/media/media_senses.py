"""Would anyone hear or see anything? The blank rule for decoded sound and moving pictures; reading and decoding media is in `media.py`.

Sound is content above -60 dBFS, or where it stands out of a fainter ground. A video is content when one of its frames shows something
at the scale of a glance, changes its colour as a whole, or passes the rule for pictures. In doubt: content.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sluice.formats.images.pictures import picture_is_blank

if TYPE_CHECKING:
    from av import AudioFrame, VideoFrame
    from av.video.reformatter import VideoReformatter

Samples = NDArray[np.float32]
"""By (channel, time), full scale at 1."""

_AUDIBLE: Final = 10 ** (-60 / 20)
"""Root mean square, in full scales, above which a moment is sound."""
_FAINT: Final = 10 ** (-66 / 20)
_STANDS_OUT: Final = 2.5
"""How far a faint moment must be above the usual one: the noise of a room or of dither stays within 1.2."""
_WINDOWS_A_SECOND: Final = 40
_WINDOW_LEAST: Final = 64
_BLOCK_WINDOWS: Final = 20
"""Windows over which a constant offset is taken away: that is no sound."""

_SCALES: Final = {"u1": (128.0, 128), "i2": (32768.0, 0), "i4": (2147483648.0, 0), "i8": (9223372036854775808.0, 0)}
"""Full scale and zero of whole numbers, by their kind and bytes; other samples are fractions already."""
_PLANES_MOST: Final = 8

_GLANCE_SIDE: Final = 96
_GLANCE_CELL: Final = 8
"""Pixels of the video in the side of one pixel of the glance, at least: noise is averaged away, a letter is not."""
_GLANCE_SPAN: Final = 24
_SAME_COLOUR: Final = 40
_SAME_GLANCE: Final = 2


class Ear:
    """Listens to the frames of one stream in their order."""

    def __init__(self) -> None:
        self._heard = False
        self._form: tuple[int, str, int] = (0, "", 0)
        """Rate, sample format and channels of what waits."""
        self._waiting: list[NDArray[Any]] = []
        self._length = 0
        self._levels: list[Samples] = []

    def take(self, frame: "AudioFrame") -> None:
        """Take the next frame. Raises `ValueError` for forms that PyAV does not convert: it looks for planes up to a zero that eight leave no room for."""
        if self._heard:
            return
        form = (frame.sample_rate, frame.format.name, frame.layout.nb_channels)
        if form != self._form:
            self._measure()
            self._form = form
        if frame.format.is_planar and form[2] >= _PLANES_MOST:
            raise ValueError("too many planes")
        self._waiting.append(frame.to_ndarray())
        self._length += frame.samples
        if self._length >= self._window * _BLOCK_WINDOWS:
            self._measure()

    @property
    def content(self) -> bool:
        """Whether anything could be heard so far."""
        self._measure()
        if self._heard or not self._levels:
            return self._heard
        levels = np.concatenate(self._levels)
        loudest = float(levels.max())
        return loudest > _FAINT and loudest > _STANDS_OUT * float(np.median(levels))

    @property
    def _window(self) -> int:
        return max(_WINDOW_LEAST, self._form[0] // _WINDOWS_A_SECOND)

    def _measure(self) -> None:
        """Note how loud each window of what waits is."""
        if not self._length:
            return
        block = _samples(np.concatenate(self._waiting, axis=1), self._form[2])
        self._waiting, self._length = [], 0
        block = block - block.mean(axis=1, keepdims=True)
        whole = block.shape[1] // self._window * self._window
        windows = block[:, :whole].reshape(block.shape[0], -1, self._window) if whole else block[:, None, :]
        levels = np.sqrt(np.square(windows).mean(axis=2)).max(axis=0)
        self._levels.append(levels)
        self._heard = bool(levels.max() > _AUDIBLE)


def _samples(raw: NDArray[Any], channels: int) -> Samples:
    """Answer samples by (channel, time) from such, or from one row in which the channels take turns."""
    if raw.shape[0] != channels:
        raw = raw.reshape(-1, channels).T
    scale, zero = _SCALES.get(raw.dtype.str[1:], (1.0, 0))
    samples: Samples = (raw.astype(np.float32) - np.float32(zero)) / np.float32(scale)
    return samples if scale != 1.0 else np.nan_to_num(samples, posinf=0.0, neginf=0.0).clip(-8, 8)


class Eye:
    """Looks at the frames of one stream in their order."""

    def __init__(self, reformatter: "VideoReformatter") -> None:
        self._reformatter = reformatter
        self._frames = 0
        self._looks = 0
        self._next_look = 0
        self._last: NDArray[np.int16] | None = None
        self._darkest: NDArray[np.float64] | None = None
        self._lightest: NDArray[np.float64] | None = None
        self.content = False
        """Whether anything could be seen so far."""

    def take(self, frame: "VideoFrame") -> None:
        """Take the next frame. Most are glanced at; those that changed are looked at closely, ever more rarely."""
        if self.content:
            return
        glance = self._glance(frame)
        self.content = (
            bool(np.ptp(glance, axis=(0, 1)).max() > _GLANCE_SPAN)
            or self._changed_colour(glance)
            or self._close_look(frame, glance)
        )
        self._frames += 1

    def _glance(self, frame: "VideoFrame") -> NDArray[np.int16]:
        width, height = (max(1, min(_GLANCE_SIDE, side // _GLANCE_CELL)) for side in (frame.width, frame.height))
        small = self._reformatter.reformat(frame, width, height, "rgb24", interpolation="AREA", threads=1)
        return small.to_ndarray().astype(np.int16)

    def _changed_colour(self, glance: NDArray[np.int16]) -> bool:
        mean = glance.mean(axis=(0, 1))
        self._darkest = mean if self._darkest is None else np.minimum(self._darkest, mean)
        self._lightest = mean if self._lightest is None else np.maximum(self._lightest, mean)
        return bool((self._lightest - self._darkest).max() > _SAME_COLOUR)

    def _close_look(self, frame: "VideoFrame", glance: NDArray[np.int16]) -> bool:
        changed = self._last is None or self._last.shape != glance.shape or np.abs(self._last - glance).max() > _SAME_GLANCE
        if self._frames < self._next_look or not changed:
            return False
        self._last = glance
        self._looks += 1
        self._next_look = self._frames + self._looks
        pixels = self._reformatter.reformat(frame, format="rgb24", threads=1).to_ndarray()
        return not picture_is_blank(Image.fromarray(pixels))
