"""Playback of sound and video with FFmpeg (PyAV): decode every packet, count damage, detect content."""
# It loads without PyAV too: a format can check its container first, and `play` then raises `Unsupported`.

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

from sluice_inspect.budget import Deadline
from sluice_inspect.format import Examination
from sluice_inspect.media.content_detection import PictureDetector, SoundDetector
from sluice_inspect.report import Corrupt, InspectionError, Measure, Unsupported
from sluice_inspect.source import Piece, Source, open_pieces

try:
    import av

    INSTALLED = True
except ImportError:  # an optional library
    INSTALLED = False

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream

MISSING_READER: Final = "" if INSTALLED else "PyAV"  # the `missing_reader` of every format that is played
NO_MEDIA: Final = "the file holds neither sound nor moving pictures"

# A little over 4K: decoders hold up to 17 pictures of 1.5 to 3 bytes a pixel, which must fit the memory of a check.
_MAX_PIXELS: Final = 9_500_000
_CONTAINER_OPTIONS: Final = {"max_pixels": str(_MAX_PIXELS), "threads": "1"}
# Strict for decoders only: a container with a damaged tag plays everywhere.
_DECODER_OPTIONS: Final = _CONTAINER_OPTIONS | {"err_detect": "crccheck+explode"}
# A larger file without a single packet holds something that FFmpeg does not understand: it is not called blank.
_MAX_EMPTY_FILE_BYTES: Final = 16 * 1024
_MICROSECONDS: Final = 1_000_000

_MAX_FAULTS: Final = 200  # a stream with more damaged packets than this is not decoded further
# Runs of zero bytes that cannot occur within a packet: H.264 and HEVC escape the third zero byte (emulation prevention,
# ISO/IEC 14496-10, 7.4.1), and entropy coding in the others never yields that many.
_IMPOSSIBLE_ZERO_RUNS: Final = {
    "h264": 64, "hevc": 64, **dict.fromkeys(("vp8", "vp9", "av1", "libdav1d", "mpeg4", "msmpeg4v3"), 2048),
}  # fmt: skip
# Codecs that never write a packet of zeros only. Such packets are holes, left by downloads that preallocate the file.
_NEVER_ALL_ZERO: Final = frozenset({
    *_IMPOSSIBLE_ZERO_RUNS, "aac", "mp3", "mp3float", "mp2", "mp2float", "vorbis", "opus", "libopus", "ac3", "eac3",
    "alac", "theora",
})  # fmt: skip
_MIN_HOLE_BYTES: Final = 32
# First byte of `avcC` and `hvcC`. With start codes instead (Annex B), zeros may separate the units of a packet.
_LENGTH_PREFIXED: Final = 1
_MIN_BITMAP_SUBTITLE_BYTES: Final = 64  # bitmap subtitles need fewer bytes to clear the screen
_ASS_FIELDS: Final = 8


def play(
    source: Source,
    demuxer: str,
    deadline: Deadline,
    *,
    measures: Mapping[str, Measure] = MappingProxyType({}),
    strict: bool = True,
    undecodable: str = "",
    pieces: Sequence[Piece] = (),
    on_sound: "Callable[[av.AudioFrame], None] | None" = None,
) -> Examination:
    """Decode all sound and moving pictures with the named FFmpeg demuxer. Return `measures` and what was measured here.

    Raise `Corrupt` if FFmpeg cannot open the file or if packets do not decode, `Unsupported` if it has no decoder for
    any stream.

    - `strict=False`: ignore packets that do not decode. For uncompressed sound, which any bytes are.
    - `undecodable`: a reason why packets of an intact file may not decode, such as encryption. Damage then raises
      `Unsupported` with it.
    - `pieces`: the parts of the source that FFmpeg reads; by default all of it.
    - `on_sound` is called with every frame of sound.
    """
    if not INSTALLED:
        raise Unsupported("PyAV is not installed: only the container was checked")
    playback = _Playback()
    with _open_container(open_pieces(source, pieces) if pieces else source.open(), demuxer, undecodable) as container:
        playback.choose_streams(container)
        for packet in playback.read_packets(container):
            if deadline.has_passed:
                playback.is_partial = True
                break
            playback.decode(packet, on_sound)
        found = playback.measure(container)
    playback.require_intact(strict=strict, undecodable=undecodable)
    is_small = source.size < _MAX_EMPTY_FILE_BYTES
    return Examination({**measures, **found}, lambda: playback.blank_reason(is_small=is_small))


def describe(source: Source, demuxer: str) -> Mapping[str, Measure]:
    """Return `seconds` and the codecs of `audio` and `video` that the container states; nothing if none can be read."""
    if not INSTALLED:
        return {}
    playback = _Playback()
    try:
        with _open_container(source.open(), demuxer, "") as container:
            playback.choose_streams(container)
            return playback.measure(container)
    except InspectionError:
        return {}


def _metadata_options(version: str) -> dict[str, Any]:
    # PyAV 19 and newer need none and refuse the argument.
    return {"metadata_errors": "replace"} if int(version.split(".", maxsplit=1)[0]) < 19 else {}


@contextmanager
def _open_container(stream: BinaryIO, demuxer: str, undecodable: str) -> "Iterator[InputContainer]":
    try:
        container = av.open(
            stream, "r", format=demuxer, options=dict(_CONTAINER_OPTIONS), **_metadata_options(av.__version__)
        )
    except MemoryError:  # PyAV's own is an FFmpegError as well
        raise
    except (av.error.InvalidDataError, EOFError) as error:
        if undecodable:
            raise Unsupported(f"{undecodable}, and the container cannot be opened") from error
        raise Corrupt("the container cannot be opened: its headers are damaged or incomplete") from error
    except av.error.FFmpegError as error:
        raise Unsupported(f"FFmpeg cannot open the container: {error.strerror}") from error
    with container:
        yield container


@dataclass(slots=True)
class _Track:
    """One stream as decoded so far. Holds no FFmpeg object: they may not be used once their container is closed."""

    media: Literal["audio", "video"]
    codec: str
    detector: SoundDetector | PictureDetector
    frames: int = 0
    # Packets that do not decode: before the first frame, between two frames, since the last frame.
    faults_before: int = 0
    faults_between: int = 0
    faults_since: int = 0
    holes: int = 0
    first_fault_seconds: float = 0.0
    is_abandoned: bool = False
    has_unreadable_frames: bool = False

    def add_frame(self, frame: "av.AudioFrame | av.VideoFrame") -> None:
        if self.frames:
            self.faults_between += self.faults_since
        else:
            self.faults_before = self.faults_since
        self.faults_since = 0
        self.frames += 1
        try:
            self.detector.add(frame)  # type: ignore[arg-type]  # the detector is chosen by the type of the stream
        except (ValueError, TypeError, NotImplementedError):  # a sample or pixel format that PyAV cannot convert
            self.has_unreadable_frames = True

    def add_fault(self, seconds: float) -> None:
        self.faults_since += 1
        self.first_fault_seconds = self.first_fault_seconds or seconds
        self.is_abandoned = self.faults_since + self.faults_between > _MAX_FAULTS

    def add_hole(self, seconds: float) -> None:
        self.holes += 1
        self.first_fault_seconds = self.first_fault_seconds or seconds

    @property
    def faults(self) -> int:
        """Damaged packets, without one at either end: editors cut streams at any packet, not only at key frames."""
        if not self.frames:
            return self.faults_since + self.holes
        return self.holes + self.faults_between + max(0, self.faults_before - 1) + max(0, self.faults_since - 1)

    @property
    def damage(self) -> str:
        name = "sound" if self.media == "audio" else "video"
        if not self.frames:
            return f"nothing of the {name} decodes"
        return f"{self.faults} packets of the {name} are damaged, the first about second {self.first_fault_seconds:.1f}"

    @property
    def may_have_content(self) -> bool:
        return self.has_unreadable_frames or self.is_abandoned or self.detector.has_content


@dataclass(slots=True)
class _Playback:
    """One pass over a file. Subtitles are noticed but not decoded; cover pictures are neither content nor checked."""

    tracks: dict[int, _Track] = field(default_factory=dict)
    # Streams that FFmpeg cannot decode, or that are too large: never evidence against the file.
    not_decoded: list[str] = field(default_factory=list)
    packets: int = 0
    has_subtitles: bool = False
    seconds: float = 0.0
    is_partial: bool = False
    read_error: str = ""

    def choose_streams(self, container: "InputContainer") -> None:
        for stream in container.streams:
            if not isinstance(stream, av.AudioStream | av.VideoStream) or _is_cover(stream):
                continue
            context: av.CodecContext | None = stream.codec_context
            if context is None:
                self.not_decoded.append(f"{stream.type} of an unknown codec")
            elif isinstance(stream, av.VideoStream) and stream.width * stream.height > _MAX_PIXELS:
                self.not_decoded.append(f"{stream.width} x {stream.height} pixels of {context.name}")
            else:
                context.thread_count = 1
                context.options = dict(_DECODER_OPTIONS)
                is_sound = isinstance(stream, av.AudioStream)
                detector = SoundDetector() if is_sound else PictureDetector(av.video.reformatter.VideoReformatter())
                self.tracks[stream.index] = _Track(stream.type, context.name, detector)
        if not self.tracks and any(stream.type == "data" for stream in container.streams):
            self.not_decoded.append("data")

    def read_packets(self, container: "InputContainer") -> "Iterator[Packet[Stream]]":
        """Yield the packets of the chosen streams and of subtitles, in the order of the file."""
        streams = [stream for stream in container.streams if stream.index in self.tracks or stream.type == "subtitle"]
        if not streams:
            return
        try:
            yield from container.demux(*streams)
        except MemoryError:
            raise
        except (av.error.InvalidDataError, EOFError):
            self.read_error = (
                f"the file cannot be read on from second {self.seconds:.1f}: content is missing or misplaced"
            )
        except av.error.FFmpegError:
            self.is_partial = True

    def decode(self, packet: "Packet[Stream]", on_sound: "Callable[[av.AudioFrame], None] | None") -> None:
        if packet.dts is not None and (unit := packet.time_base):
            # Multiplied as whole numbers: fractions would be reduced, for each of a hundred thousand packets.
            self.seconds = max(self.seconds, packet.dts * unit.numerator / unit.denominator)
        self.packets += bool(packet.size)
        # The packet's own stream index is not set in the last, empty packets that flush the decoders.
        track = self.tracks.get(packet.stream.index)
        if track is None:
            self.has_subtitles = self.has_subtitles or _is_visible_subtitle(packet)
        elif not track.is_abandoned:
            for frame in self._decode_frames(packet, track):
                track.add_frame(frame)
                if on_sound and isinstance(frame, av.AudioFrame):
                    on_sound(frame)

    def _decode_frames(self, packet: "Packet[Stream]", track: _Track) -> "Sequence[av.AudioFrame | av.VideoFrame]":
        if _has_hole(packet, track.codec):
            track.add_hole(self.seconds)
        try:
            frames = packet.decode()
        except MemoryError:
            raise
        except av.error.InvalidDataError:
            track.add_fault(self.seconds)
            return ()
        except av.error.FFmpegError as error:
            if packet.size:  # some decoders return an error when they are flushed
                track.is_abandoned = True
                self.not_decoded.append(f"{track.codec}: {error.strerror}")
            return ()
        if packet.is_corrupt:
            track.add_fault(self.seconds)
        return [frame for frame in frames if isinstance(frame, av.AudioFrame | av.VideoFrame)]

    def measure(self, container: "InputContainer") -> dict[str, Measure]:
        measures: dict[str, Measure] = {}
        if container.duration is not None:
            measures["seconds"] = round(container.duration / _MICROSECONDS, 3)
        for media in ("audio", "video"):
            tracks = [track for track in self.tracks.values() if track.media == media]
            if tracks:
                measures[media] = ", ".join(track.codec for track in tracks)[:100]
                measures[f"{media}_frames"] = sum(track.frames for track in tracks)
        if self.is_partial:
            measures["partially_checked"] = True
            measures["decoded_seconds"] = round(self.seconds, 3)
        if self.not_decoded:
            measures["not_decoded"] = self._not_decoded_text
        return measures

    def require_intact(self, *, strict: bool, undecodable: str) -> None:
        """Raise `Corrupt` for damage, or `Unsupported` where damage proves nothing or nothing could be decoded."""
        damage = [track.damage for track in self.tracks.values() if strict and track.faults]
        fault = self.read_error or next(iter(damage), "")
        if fault and undecodable:
            raise Unsupported(f"{undecodable}: {fault}")
        if fault:
            raise Corrupt(fault)
        if self.not_decoded and not any(track.frames for track in self.tracks.values()):
            raise Unsupported(f"the streams cannot be decoded here: {self._not_decoded_text}")

    @property
    def _not_decoded_text(self) -> str:
        return "; ".join(self.not_decoded)[:200]

    def blank_reason(self, *, is_small: bool) -> str | None:
        """Return why nothing can be heard, seen or read, or None. Streams that were not decoded count as content."""
        if self.is_partial or self.not_decoded or self.has_subtitles:
            return None
        tracks = self.tracks.values()
        if any(track.may_have_content or track.faults for track in tracks):
            return None
        decoded = {track.media for track in tracks if track.frames}
        if not decoded:
            return NO_MEDIA if is_small and not self.packets else None
        reasons = {"video": "no picture shows anything", "audio": "no sound is louder than -60 dBFS"}
        return " and ".join(reason for media, reason in reasons.items() if media in decoded)


def _is_cover(stream: "Stream") -> bool:
    flags = type(stream.disposition)
    return bool(stream.disposition & (flags.attached_pic | flags.timed_thumbnails))


def _has_hole(packet: "Packet[Stream]", codec: str) -> bool:
    """Return whether a packet holds a run of zeros that its codec never writes."""
    if packet.size < _MIN_HOLE_BYTES or codec not in _NEVER_ALL_ZERO:
        return False
    data = bytes(packet).rstrip(b"\0")
    if not data:
        return True
    run = _IMPOSSIBLE_ZERO_RUNS.get(codec)
    if codec in {"h264", "hevc"} and (packet.stream.codec_context.extradata or b"\0")[0] != _LENGTH_PREFIXED:
        return False
    return run is not None and data.find(bytes(run)) >= 0


def _is_visible_subtitle(packet: "Packet[Stream]") -> bool:
    data = bytes(packet)
    context: av.CodecContext | None = packet.stream.codec_context
    name = context.name if context is not None else ""
    if name in {"dvdsub", "pgssub", "dvbsub", "xsub"}:
        return len(data) > _MIN_BITMAP_SUBTITLE_BYTES
    if name == "mov_text":
        data = data[2 : 2 + int.from_bytes(data[:2], "big")]
    elif name in {"ass", "ssa"}:
        data = data.split(b",", _ASS_FIELDS)[-1]
    return bool(data.strip(b" \t\r\n\0"))
