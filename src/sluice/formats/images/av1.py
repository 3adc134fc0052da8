"""Decodes AV1 pictures a second time, with dav1d in its strict mode, which FFmpeg (PyAV) brings. Shows no pixels and reads no container.

libavif takes whatever comes out of damaged data; in strict mode the decoder also checks that the data ends where the picture does.
"""

from collections.abc import Iterable
from typing import Final, cast

from sluice.formats.budget import Deadline
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt

try:
    import av
    from av.error import FFmpegError, InvalidDataError

    INSTALLED: bool = "libdav1d" in av.codecs_available
except ImportError:  # an optional library
    INSTALLED = False

_OPTIONS: Final = {"strict": "1"}


def check_picture(config: bytes, data: bytes, max_pixels: int) -> None:
    """Decode the data of one picture. `config` is its `av1C`. Raises `Corrupt` when it does not decode; what is not understood passes."""
    _require_frames(config, [data], max_pixels)


def check_film(source: Source, deadline: Deadline, max_pixels: int) -> None:
    """Decode all AV1 tracks of a file until the time is over, as `check_picture` does."""
    try:
        with av.open(source.open(), "r", format="mov", options={"threads": "1"}) as container:
            for stream in container.streams.video:
                if stream.codec_context.name in {"libdav1d", "av1", "libaom-av1"}:
                    packets = (bytes(packet) for packet in container.demux(stream) if packet.size and not deadline.has_passed)
                    _require_frames(stream.codec_context.extradata or b"", packets, max_pixels)
                    container.seek(0)
    except FFmpegError:
        return


def _require_frames(config: bytes, packets: Iterable[bytes], max_pixels: int) -> None:
    decoder = cast("av.VideoCodecContext", av.CodecContext.create("libdav1d", "r"))
    decoder.thread_count = 1
    decoder.options = _OPTIONS | {"max_pixels": str(max_pixels)}
    decoder.extradata = config
    frames = 0
    try:
        for packet in packets:
            frames += len(decoder.decode(av.Packet(packet)))
        frames += len(decoder.decode(None))
    except InvalidDataError as error:
        raise Corrupt("the picture data is damaged: the AV1 decoder refuses it") from error
    except FFmpegError:  # it lacks something, which says nothing against the file
        return
    if not frames:
        raise Corrupt("the picture data is damaged: it holds no picture")
