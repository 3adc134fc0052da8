"""The check sum of a FLAC stream: MD5 over its decoded samples (RFC 9639, 8.2). Decoding is done elsewhere."""

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from av import AudioFrame


class Listener:
    """Takes the decoded frames of a stream with so many bits a sample and channels, in their order."""

    def __init__(self, bits: int, channels: int) -> None:
        self._bits = bits
        self._channels = channels
        self._md5 = hashlib.md5(usedforsecurity=False)
        self.samples = 0
        """So many of each channel."""
        self.confused = False
        """Whether frames came in another form than the stream states: their sum is not defined."""

    def take(self, frame: "AudioFrame") -> None:
        """Take the next frame."""
        self.samples += frame.samples
        raw: NDArray[Any] = frame.to_ndarray()
        if len(frame.layout.channels) != self._channels or raw.dtype not in {np.dtype(np.int16), np.dtype(np.int32)}:
            self.confused = True
            return
        whole = raw.T if frame.format.is_planar else raw.reshape(-1, self._channels)
        self._md5.update(self._packed(whole))

    def digest(self) -> bytes:
        """Answer the sum of all frames so far."""
        return self._md5.digest()

    def _packed(self, whole: NDArray[Any]) -> bytes:
        """Answer the samples as whole bytes, the smallest first, of channels in turn. FFmpeg left-aligns them in 16 or 32 bits."""
        width = -(-self._bits // 8)
        values = whole.astype(np.int32) >> (whole.dtype.itemsize * 8 - self._bits)
        raw = np.ascontiguousarray(values, dtype="<i4").view(np.uint8).reshape(-1, 4)
        return raw[:, :width].tobytes()
