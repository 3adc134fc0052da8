"""Make small audio and video files with FFmpeg's encoders, and parts of containers."""

import io
import struct
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

RATE = 48_000

Wave = NDArray[np.float64]
Picture = NDArray[np.float64]
"""Brightness from 0 to 255, by (row, column) or (row, column, colour)."""

SOUND = {  # by format name: muxer, encoder, whether it takes floating-point samples
    "mp3": ("mp2", "mp2", False),
    "flac": ("flac", "flac", False),
    "ogg": ("ogg", "flac", False),
    "opus": ("opus", "libopus", False),
    "wav": ("wav", "pcm_s16le", False),
    "aiff": ("aiff", "pcm_s16be", False),
    "m4a": ("ipod", "aac", True),
    "aac": ("adts", "aac", True),
}
VIDEO = {
    "mp4": ("mp4", "mpeg4"),
    "mov": ("mov", "mpeg4"),
    "mkv": ("matroska", "mpeg4"),
    "webm": ("webm", "libvpx"),
    "avi": ("avi", "mpeg4"),
}


def tone(seconds: float, dbfs: float = -12, hertz: float = 440) -> Wave:
    """Return a tone whose root mean square is `dbfs`."""
    return np.sin(np.arange(int(seconds * RATE)) / RATE * 2 * np.pi * hertz) * 2**0.5 * 10 ** (dbfs / 20)


def silence(seconds: float) -> Wave:
    return np.zeros(int(seconds * RATE))


def noise(seconds: float, dbfs: float) -> Wave:
    return np.random.default_rng(1).normal(0, 10 ** (dbfs / 20), int(seconds * RATE))


def music(seconds: float) -> Wave:
    """Return a sound that fills the frames of every encoder."""
    return noise(seconds, -20) + tone(seconds)


def sound(format_name: str, wave: Wave) -> bytes:
    file = io.BytesIO()
    muxer, codec, fractions = SOUND[format_name]
    with av.open(file, "w", format=muxer) as container:
        stream = _sound_stream(container, codec)
        container.mux(_sound_packets(stream, wave, fractions=fractions))
    return file.getvalue()


def video(
    format_name: str,
    pictures: Sequence[Picture],
    wave: Wave | None = None,
    *,
    words: Iterable[bytes] | None = None,
    codec: str | None = None,
    options: dict[str, str] | None = None,
) -> bytes:
    """Return a video of ten pictures per second, with sound and a subtitle track if given."""
    file = io.BytesIO()
    muxer, usual = VIDEO[format_name]
    height, width = pictures[0].shape[:2]
    with av.open(file, "w", format=muxer, options=options or {}) as container:
        stream: Any = container.add_stream(codec or usual, rate=10, width=width, height=height, pix_fmt="yuv420p")
        stream.bit_rate = 2_000_000
        stream.codec_context.thread_count = 1
        heard: Any = None if wave is None else _sound_stream(container, "libopus" if format_name == "webm" else "mp2")
        text: Any = None if words is None else container.add_mux_stream("subrip")
        for number, picture in enumerate(pictures):
            container.mux(stream.encode(_frame(picture, number)))
        container.mux(stream.encode(None))
        if wave is not None:
            container.mux(_sound_packets(heard, wave, fractions=False))
        for number, word in enumerate(words or ()):
            packet: Any = av.Packet(word)
            packet.stream, packet.time_base = text, Fraction(1, 1000)
            packet.pts = packet.dts = number * 100
            packet.duration = 100
            container.mux(packet)
    return file.getvalue()


def black(count: int = 5) -> list[Picture]:
    return [np.zeros((120, 160))] * count


def scene(count: int = 5) -> list[Picture]:
    """Return pictures full of detail, each different from the previous one."""
    rows, columns = np.indices((120, 160))
    grain = np.random.default_rng(2).normal(0, 40, (count, 120, 160))
    return [127 + 60 * np.sin(columns / 7 + number) + 60 * np.cos(rows / 9) + grain[number] for number in range(count)]


def box(name: bytes, *content: bytes) -> bytes:
    data = b"".join(content)
    return struct.pack(">L4s", 8 + len(data), name) + data


def _frame(picture: Picture, number: int) -> Any:
    pixels = np.clip(picture, 0, 255).astype(np.uint8)
    frame: Any = av.VideoFrame.from_ndarray(pixels, format="gray" if pixels.ndim == 2 else "rgb24")
    frame = frame.reformat(format="yuv420p")
    frame.pts, frame.time_base = number, Fraction(1, 10)
    return frame


def _sound_stream(container: Any, codec: str) -> Any:
    return container.add_stream(codec, rate=RATE, layout="mono")


def _sound_packets(stream: Any, wave: Wave, *, fractions: bool) -> list[Any]:
    if fractions:
        frame = av.AudioFrame.from_ndarray(wave[None].astype(np.float32), format="fltp", layout="mono")
    else:
        samples = np.clip(np.round(wave * 32768), -32768, 32767).astype(np.int16)[None]
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
    frame.sample_rate, frame.time_base, frame.pts = RATE, Fraction(1, RATE), 0
    return [*stream.encode(frame), *stream.encode(None)]
