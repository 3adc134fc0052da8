"""Small good files of the media kinds for their self-tests: a tone, and a board of squares. Made by FFmpeg's own encoders, not by hand."""

import io
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from sluice.formats.verdict import Unsupported

try:
    import av
except ImportError:  # an optional library
    INSTALLED = False
else:
    INSTALLED = True

if TYPE_CHECKING:
    from av import AudioStream, VideoStream

_RATE: Final = 48_000
_SAMPLES: Final = 9_600
_SIDE: Final = 64
_FRAMES: Final = 5
_FULL: Final = 32767


def tone() -> bytes:
    """Answer an eighth of a second of a tone as signed samples of 16 bits, the smaller byte first, at 8 kHz."""
    wave = np.sin(np.arange(1000) / 8000 * 2 * np.pi * 440) / 2
    return (wave * _FULL).astype("<i2").tobytes()


def sound(muxer: str, codec: str, *, fractions: bool = False) -> bytes:
    """Answer a fifth of a second of a tone. `fractions` says that the encoder takes those, and not whole numbers.

    Raises `Unsupported` without PyAV.
    """
    _require_encoders()
    file = io.BytesIO()
    wave = np.sin(np.arange(_SAMPLES) / _RATE * 2 * np.pi * 440)[None] / 2
    with av.open(file, "w", format=muxer) as container:
        stream: AudioStream = container.add_stream(codec, rate=_RATE, layout="mono")  # type: ignore[assignment]  # the codec is one of sound
        if fractions:
            frame = av.AudioFrame.from_ndarray(wave.astype(np.float32), format="fltp", layout="mono")
        else:
            frame = av.AudioFrame.from_ndarray((wave * _FULL).astype(np.int16), format="s16", layout="mono")
        frame.sample_rate, frame.time_base, frame.pts = _RATE, Fraction(1, _RATE), 0
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def video(muxer: str, codec: str) -> bytes:
    """Answer a few frames of a board of squares. Raises `Unsupported` without PyAV."""
    _require_encoders()
    file = io.BytesIO()
    rows, columns = np.indices((_SIDE, _SIDE)) // 16
    board = (255 * ((rows + columns) % 2)).astype(np.uint8)
    with av.open(file, "w", format=muxer) as container:
        stream: VideoStream = container.add_stream(codec, rate=25, width=_SIDE, height=_SIDE, pix_fmt="yuv420p")  # type: ignore[assignment]  # the codec is one of pictures
        stream.codec_context.thread_count = 1
        for number in range(_FRAMES):
            frame = av.VideoFrame.from_ndarray(board, format="gray").reformat(format="yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def _require_encoders() -> None:
    if not INSTALLED:
        raise Unsupported("PyAV is not installed: no sample can be made")
