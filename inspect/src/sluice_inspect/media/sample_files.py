"""Small good files of sound and video for the self-tests of their formats, made by FFmpeg's own encoders."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from sluice_inspect.media.playback import INSTALLED
from sluice_inspect.report import Unsupported

if INSTALLED:
    import av

if TYPE_CHECKING:
    from av import AudioStream, VideoStream

_RATE: Final = 48_000
_SAMPLES: Final = 9_600
_SIDE: Final = 64
_FRAMES: Final = 5
_FULL_SCALE: Final = 32767


def pcm_tone() -> bytes:
    """Return an eighth of a second of a tone as signed 16-bit little-endian samples at 8 kHz."""
    wave = np.sin(np.arange(1000) / 8000 * 2 * np.pi * 440) / 2
    return (wave * _FULL_SCALE).astype("<i2").tobytes()


def encode_sound(muxer: str, codec: str, *, takes_floats: bool = False) -> bytes:
    """Return a file with a fifth of a second of a tone. `takes_floats`: the encoder takes no integer samples."""
    _require_encoders()
    file = io.BytesIO()
    wave = np.sin(np.arange(_SAMPLES) / _RATE * 2 * np.pi * 440)[None] / 2
    with av.open(file, "w", format=muxer) as container:
        stream: AudioStream = container.add_stream(  # type: ignore[assignment]  # an audio codec
            codec, rate=_RATE, layout="mono"
        )
        if takes_floats:
            frame = av.AudioFrame.from_ndarray(wave.astype(np.float32), format="fltp", layout="mono")
        else:
            frame = av.AudioFrame.from_ndarray((wave * _FULL_SCALE).astype(np.int16), format="s16", layout="mono")
        frame.sample_rate, frame.time_base, frame.pts = _RATE, Fraction(1, _RATE), 0
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def encode_video(muxer: str, codec: str) -> bytes:
    """Return a file with five frames of a chessboard. Raise `Unsupported` without PyAV."""
    _require_encoders()
    file = io.BytesIO()
    rows, columns = np.indices((_SIDE, _SIDE)) // 16
    board = (255 * ((rows + columns) % 2)).astype(np.uint8)
    with av.open(file, "w", format=muxer) as container:
        stream: VideoStream = container.add_stream(  # type: ignore[assignment]  # a video codec
            codec, rate=25, width=_SIDE, height=_SIDE, pix_fmt="yuv420p"
        )
        stream.codec_context.thread_count = 1
        for number in range(_FRAMES):
            frame = av.VideoFrame.from_ndarray(board, format="gray").reformat(format="yuv420p", threads=1)
            frame.pts, frame.time_base = number, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def _require_encoders() -> None:
    if not INSTALLED:
        raise Unsupported("PyAV is not installed: no sample can be made")
