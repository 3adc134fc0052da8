"""Plays sound and video with FFmpeg (PyAV): decodes every packet until the time is over, counts faults, notices content. Containers are judged elsewhere.

Imports without PyAV too: a kind judges the container first, and `play` then says that the rest cannot be judged. FFmpeg is told which
demuxer to use and is given nothing but the source. A codec that it lacks and pictures too large for the memory of a check are left
out of the judgement and noted: a decoder that lacks something never speaks against a file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final
from weakref import WeakKeyDictionary

from sluice.formats.budget import Deadline
from sluice.formats.media.media_senses import Ear, Eye
from sluice.formats.media.media_track import Track, is_hole, is_text
from sluice.formats.pieces import Piece, open_pieces
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Measure, Unsupported

try:
    import av
    import av.subtitles.codeccontext  # otherwise loaded with the first subtitles, where nothing can be loaded any more
    from av.error import FFmpegError, InvalidDataError
    from av.video.reformatter import VideoReformatter

    INSTALLED = True
except ImportError:  # an optional library
    INSTALLED = False

LACKS: Final = "" if INSTALLED else "PyAV"
"""What the kinds that are played lack."""

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream

_PIXELS_MOST: Final = 9_500_000
"""A little over 4K: decoders hold up to 17 pictures, each of 1.5 to 3 bytes a pixel."""
_OPTIONS: Final = {"max_pixels": str(_PIXELS_MOST), "threads": "1"}
_STRICT: Final = _OPTIONS | {"err_detect": "crccheck+explode"}
"""For decoders alone: a container with a bad tag plays."""
_HEADERS_MOST: Final = 16 * 1024
"""A larger file without a packet has something that is not understood here."""
_NOTHING: Final = "there is neither sound nor a moving picture in it"
_MICROSECONDS: Final = 1_000_000

_shows_nothing: Final[WeakKeyDictionary[Source, str]] = WeakKeyDictionary()
"""Remembered from the one decode, since `check` and `blank` of a kind are asked apart."""


@dataclass(slots=True)
class _Played:
    """What one pass over a file gives."""

    tracks: dict[int, Track] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """Streams that cannot be decoded here."""
    packets: int = 0
    subtitles: bool = False
    seconds: float = 0.0
    partial: bool = False
    fault: str = ""
    measures: dict[str, Measure] = field(default_factory=dict)


def play(
    source: Source,
    demuxer: str,
    deadline: Deadline,
    *,
    strict: bool = True,
    excuse: str = "",
    pieces: Sequence[Piece] = (),
    on_sound: "Callable[[av.AudioFrame], None] | None" = None,
) -> Mapping[str, Measure]:
    """Decode all sound and moving pictures; answer what was measured, and remember for `blank_media` whether there was anything.

    Raises `Corrupt` when FFmpeg cannot open the file or packets do not decode. With `strict` off the packets are not judged
    (uncompressed sound: its container knows better); with an `excuse` their faults are `Unsupported` and say why (encryption, say).
    FFmpeg is given the `pieces` of the source, or all of it. `on_sound` gets every frame of sound. Subtitles are noticed, not decoded; cover pictures are neither content nor checked.
    """
    if not INSTALLED:
        raise Unsupported("PyAV is not installed: only the container was checked")
    played = _Played()
    with _opened(open_pieces(source, pieces) if pieces else source.open(), demuxer, excuse) as container:
        _choose_streams(container, played)
        for packet in _packets(container, played):
            if deadline.has_passed:
                played.partial = True
                break
            _take(packet, played, on_sound)
        _measure(container, played)
    _judge(played, strict=strict, excuse=excuse)
    if reason := _blank_reason(played, small=source.size < _HEADERS_MOST):
        _shows_nothing[source] = reason
    return played.measures


def blank_media(source: Source, _limits: object) -> str | None:
    """Answer the blank rule of a media kind, as noticed while it was played."""
    return _shows_nothing.get(source)


def note_nothing(source: Source) -> None:
    """Remember for `blank_media` that the container of a file is empty."""
    _shows_nothing[source] = _NOTHING


@contextmanager
def _opened(stream: BinaryIO, demuxer: str, excuse: str) -> "Iterator[InputContainer]":
    try:
        container = av.open(stream, "r", format=demuxer, options=dict(_OPTIONS), metadata_errors="replace")
    except MemoryError:
        raise
    except (InvalidDataError, EOFError) as error:
        if excuse:
            raise Unsupported(f"{excuse}, and it cannot be opened") from error
        raise Corrupt("the container cannot be opened: its headers are damaged or incomplete") from error
    except FFmpegError as error:
        raise Unsupported(f"the container cannot be opened here: {error.strerror}") from error
    with container:
        yield container


def _choose_streams(container: "InputContainer", played: _Played) -> None:
    for stream in container.streams:
        if not isinstance(stream, av.AudioStream | av.VideoStream) or _is_cover(stream):
            continue
        context: av.CodecContext | None = stream.codec_context
        if context is None:
            played.left_out.append(f"{stream.type} of an unknown codec")
        elif isinstance(stream, av.VideoStream) and stream.width * stream.height > _PIXELS_MOST:
            played.left_out.append(f"{stream.width} x {stream.height} pixels of {context.name}")
        else:
            context.thread_count = 1
            context.options = dict(_STRICT)
            sense = Ear() if isinstance(stream, av.AudioStream) else Eye(VideoReformatter())
            played.tracks[stream.index] = Track(stream.type, context.name, sense)
    if not played.tracks and any(stream.type == "data" for stream in container.streams):
        played.left_out.append("data")


def _is_cover(stream: "Stream") -> bool:
    return bool(stream.disposition & (type(stream.disposition).attached_pic | type(stream.disposition).timed_thumbnails))


def _packets(container: "InputContainer", played: _Played) -> "Iterator[Packet[Stream]]":
    """Answer the packets of what is played and of subtitles, in the order of the file."""
    wanted = [stream for stream in container.streams if stream.index in played.tracks or stream.type == "subtitle"]
    if not wanted:
        return
    try:
        yield from container.demux(*wanted)
    except MemoryError:
        raise
    except (InvalidDataError, EOFError):
        played.fault = f"the file cannot be read on from second {played.seconds:.1f}: content is missing or its place is wrong"
    except FFmpegError:
        played.partial = True


def _take(packet: "Packet[Stream]", played: _Played, on_sound: "Callable[[av.AudioFrame], None] | None") -> None:
    if packet.dts is not None and packet.time_base:
        played.seconds = max(played.seconds, float(packet.dts * packet.time_base))
    played.packets += bool(packet.size)
    track = played.tracks.get(packet.stream.index)  # the packet's own index is not set at the end
    if track is None:
        played.subtitles = played.subtitles or is_text(packet)
    elif not track.gave_up:
        for frame in _decoded(packet, track, played):
            track.note_frame(frame)
            if on_sound and isinstance(frame, av.AudioFrame):
                on_sound(frame)


def _decoded(packet: "Packet[Stream]", track: Track, played: _Played) -> "Sequence[av.AudioFrame | av.VideoFrame]":
    if is_hole(packet, track.codec):
        track.note_hole(played.seconds)
    try:
        frames = packet.decode()
    except MemoryError:
        raise
    except InvalidDataError:
        track.note_fault(played.seconds)
        return ()
    except FFmpegError as error:
        if packet.size:  # at the end of a stream some decoders refuse to be asked for more
            track.gave_up = True
            played.left_out.append(f"{track.codec}: {error.strerror}")
        return ()
    if packet.is_corrupt:
        track.note_fault(played.seconds)
    return [frame for frame in frames if isinstance(frame, av.AudioFrame | av.VideoFrame)]


def _measure(container: "InputContainer", played: _Played) -> None:
    measures = played.measures
    if container.duration is not None:
        measures["seconds"] = round(container.duration / _MICROSECONDS, 3)
    for kind in ("audio", "video"):
        tracks = [track for track in played.tracks.values() if track.kind == kind]
        if tracks:
            measures[kind] = ", ".join(track.codec for track in tracks)[:100]
            measures[f"{kind}_frames"] = sum(track.good for track in tracks)
    if played.partial:
        measures["partially_checked"] = True
        measures["decoded_seconds"] = round(played.seconds, 3)
    if played.left_out:
        measures["not_decoded"] = "; ".join(played.left_out)[:200]


def _judge(played: _Played, *, strict: bool, excuse: str) -> None:
    faults = [track.said for track in played.tracks.values() if strict and track.faults]
    fault = played.fault or next(iter(faults), "")
    if fault and excuse:
        raise Unsupported(f"{excuse}: {fault}")
    if fault:
        raise Corrupt(fault)
    if played.left_out and not any(track.good for track in played.tracks.values()):
        raise Unsupported(f"no decoder at hand: {played.measures['not_decoded']}")


def _blank_reason(played: _Played, *, small: bool) -> str | None:
    """Answer why nothing can be heard, seen or read, or None. What was not decoded may be anything."""
    tracks = played.tracks.values()
    if played.partial or played.left_out or played.subtitles or any(track.shows_something or track.faults for track in tracks):
        return None
    kinds = {track.kind for track in tracks if track.good}
    if kinds:
        said = {"audio": "no sound is louder than -60 dBFS", "video": "no picture shows anything"}
        return " and ".join(said[kind] for kind in ("video", "audio") if kind in kinds)
    return _NOTHING if small and not played.packets else None
