"""Playback of sound and video with FFmpeg (PyAV): decode every packet, count damage, detect content."""
# It loads without PyAV too: a format can check its container first, and `play` then raises `Unsupported`.

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

import numpy as np

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
    from PIL import Image

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

# A file of more bytes and more work is read whole, but decoded in stretches: its beginning, its end, and others in even
# distances. Work is counted by pixels, samples and bytes, so that the same packets are decoded on every machine. A
# unit takes a quarter of a nanosecond, in the slowest codecs half of one.
_DECODED_WHOLE_BYTES: Final = 8 * 1024 * 1024
_DECODED_WHOLE_WORK: Final = 8_000_000_000
_STRETCHES_WORK: Final = 4_000_000_000
_STRETCHES: Final = 12
_WORK_OF_PACKET: Final = 40_000
_WORK_OF_BYTE: Final = 60
_WORK_OF_PIXEL: Final = 2
_WORK_OF_SAMPLE: Final = 100
_FAST_VIDEO: Final = frozenset({"h264", "mpeg4", "msmpeg4v3", "mpeg1video", "mpeg2video", "mjpeg", "theora"})
_WORK_OF_OTHER_VIDEO: Final = 3  # times that of fast video
_NO_DECODING: Final = ("pcm_", "rawvideo")  # these packets are only copied
_USUAL_SAMPLES: Final = 1024  # in a packet of sound that states no duration
_MOST_SAMPLES: Final = 1 << 16
_WARM_UP_PACKETS: Final = 10  # of sound after the start of a stretch: MP3 frames use bytes of earlier ones
_PACKETS_MOST: Final = 600_000  # that are read, 5 us each, of a recording that is decoded in stretches
_PACKETS_PER_DEADLINE_CHECK: Final = 256
_PACKETS_TO_FIRST_FRAME: Final = 200
_THINNEST: Final = Fraction(1, 4)  # pixels that are wider or higher are taken for square ones


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
    is_whole: bool = False,
) -> Examination:
    """Decode sound and moving pictures with the named FFmpeg demuxer. Return `measures` and what was measured here.

    Raise `Corrupt` if FFmpeg cannot open the file or if packets do not decode, `Unsupported` if it has no decoder for
    any stream.

    - `strict=False`: ignore packets that do not decode. For uncompressed sound, which any bytes are.
    - `undecodable`: a reason why packets of an intact file may not decode, such as encryption. Damage then raises
      `Unsupported` with it.
    - `pieces`: the parts of the source that FFmpeg reads; by default all of it.
    - `on_sound` is called with every frame of sound.
    - `is_whole`: decode all packets of a large file too.
    """
    if not INSTALLED:
        raise Unsupported("PyAV is not installed: only the container was checked")
    playback = _Playback()

    def opened() -> "AbstractContextManager[InputContainer]":
        return _open_container(open_pieces(source, pieces) if pieces else source.open(), demuxer, undecodable)

    if source.size > _DECODED_WHOLE_BYTES and not is_whole:
        with opened() as container:
            playback.choose_streams(container)
            playback = _Playback(plans=playback.plan_stretches(container, deadline))
    with opened() as container:
        playback.choose_streams(container)
        was_decoded = True
        most = _PACKETS_MOST if playback.plans else None
        for number, packet in enumerate(islice(playback.read_packets(container), most)):
            if (was_decoded or number % _PACKETS_PER_DEADLINE_CHECK == 0) and deadline.has_passed:
                playback.is_partial = True
                break
            was_decoded = playback.decode(packet, on_sound)
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


def first_frame(source: Source, demuxer: str) -> "Image.Image | None":
    """Return the first picture of a film as it is shown, None if it has none that decodes.

    Raise as `play` does if the container cannot be opened.
    """
    if not INSTALLED:
        raise Unsupported("PyAV is not installed")
    playback = _Playback()
    with _open_container(source.open(), demuxer, "") as container:
        playback.choose_streams(container)
        films = [each for each in container.streams.video if each.index in playback.tracks]
        if not films:
            raise Unsupported("the file holds no moving pictures that are decoded here")
        film = films[0]
        packets = islice(container.demux(film), _PACKETS_TO_FIRST_FRAME)
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    return None
                for frame in packet.decode():
                    return _shown(frame, film.sample_aspect_ratio)
            except MemoryError:  # PyAV's own is an FFmpegError as well
                raise
            except (av.error.InvalidDataError, EOFError):
                continue
            except av.error.FFmpegError as error:
                raise Unsupported(f"FFmpeg cannot decode the film: {error.strerror}") from error


def _shown(frame: "av.VideoFrame", pixel_shape: Fraction | None) -> "Image.Image":
    """Return a frame with square pixels, turned as the film says."""
    from PIL import Image  # noqa: PLC0415  (a check draws nothing, and should not wait for it)

    # In one thread, since the sandbox allows no more.
    pixels = av.video.reformatter.VideoReformatter().reformat(frame, format="rgb24", threads=1).to_ndarray()
    picture = Image.fromarray(pixels)
    if pixel_shape and _THINNEST < pixel_shape < 1 / _THINNEST:
        picture = picture.resize((max(1, round(picture.width * pixel_shape)), picture.height))
    return picture.rotate(frame.rotation, expand=True) if frame.rotation else picture


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
    unit: tuple[int, int] = (0, 1)  # of its times, in seconds: numerator and denominator
    plan: bytes | None = None  # None if all packets are decoded
    packets: int = 0
    # Whether the packet refers to some that were not decoded: the next few of sound, and pictures that follow the key
    # frame of a stretch but are shown before it.
    is_dependent: bool = False
    warm_up: int = 0
    shown_from: int | None = None

    def is_next_in_stretch(self, packet: "Packet[Stream]", plan: bytes) -> bool:
        """Return whether the next packet is to be decoded. Reset its decoder where a stretch begins behind another."""
        number = self.packets
        self.packets += 1
        if number >= len(plan) or not plan[number]:
            return False
        if number and not plan[number - 1]:
            packet.stream.codec_context.flush_buffers()
            self.warm_up = _WARM_UP_PACKETS if self.media == "audio" else 0
            self.shown_from = packet.pts if self.media == "video" else None
        self.is_dependent = self.warm_up > 0 or (
            self.shown_from is not None and packet.pts is not None and packet.pts < self.shown_from
        )
        self.warm_up = max(0, self.warm_up - 1)
        return True

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
        if self.is_dependent:
            return
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


def plan_stretches(work: Sequence[int], keys: Sequence[int], budget: int) -> bytes:
    """Return for each packet of a stream whether it is decoded: 1 for about `budget` of their `work`.

    `keys` are the packets with which a decoder can begin. The stretches begin with the first packet and with the first
    key at even distances of work. The last one ends with the stream, unless its last key is too far from the end.
    Together they are at most one and a half budgets.
    """
    ends, begins = np.cumsum(np.asarray(work, np.int64)), np.asarray(keys, np.int64)
    if not len(ends) or ends[-1] <= budget:
        return b"\1" * len(ends)
    places = np.searchsorted(ends, np.linspace(0, ends[-1] - budget / _STRETCHES, _STRETCHES), "right")
    at = np.searchsorted(begins, places)
    starts = {0, *begins[at[at < len(begins)]].tolist()}
    has_end = max(starts) >= places[-1]
    if not has_end and at[-1] and ends[-1] - ends[begins[at[-1] - 1]] <= budget // 2:
        starts.add(int(begins[at[-1] - 1]))
        has_end = True
    is_decoded = np.zeros(len(ends), np.uint8)
    for start in starts:
        stop = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + budget // len(starts), "right"))
        is_decoded[start : max(stop, start + 1)] = 1
    if has_end:
        is_decoded[max(starts) :] = 1
    return is_decoded.tobytes()


@dataclass(slots=True)
class _Playback:
    """One pass over a file. Subtitles are noticed but not decoded; cover pictures are neither content nor checked."""

    tracks: dict[int, _Track] = field(default_factory=dict)
    plans: Mapping[int, bytes] = field(default_factory=dict)  # of the streams that are decoded in stretches
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
                unit = stream.time_base or Fraction(0)
                self.tracks[stream.index] = _Track(
                    stream.type,
                    context.name,
                    detector,
                    unit=(unit.numerator, unit.denominator),
                    plan=self.plans.get(stream.index),
                )
        if not self.tracks and any(stream.type == "data" for stream in container.streams):
            self.not_decoded.append("data")

    def plan_stretches(self, container: "InputContainer", deadline: Deadline) -> dict[int, bytes]:
        """Read all packets without decoding any. Return what to decode of each stream if all is too much work."""
        outlines = {
            stream.index: (_work_of_packets(stream), array("q"), array("q"))
            for stream in container.streams
            if stream.index in self.tracks and isinstance(stream, av.AudioStream | av.VideoStream)
        }
        for number, packet in enumerate(islice(self.read_packets(container), _PACKETS_MOST)):
            if number % _PACKETS_PER_DEADLINE_CHECK == 0 and deadline.has_passed:
                break
            outline = outlines.get(packet.stream.index)
            if outline is None:
                continue
            work_of, work, keys = outline
            if packet.is_keyframe:
                keys.append(len(work))
            work.append(work_of(packet) if packet.size else 0)
        whole = sum(sum(work) for _, work, _ in outlines.values())
        if whole <= _DECODED_WHOLE_WORK:
            return {}
        return {
            index: plan_stretches(work, keys, _STRETCHES_WORK * sum(work) // whole)
            for index, (_, work, keys) in outlines.items()
        }

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

    def decode(self, packet: "Packet[Stream]", on_sound: "Callable[[av.AudioFrame], None] | None") -> bool:
        """Decode the packet unless it is outside of the stretches of its stream. Return whether it was decoded."""
        size, time = packet.size, packet.dts
        self.packets += bool(size)
        # The packet's own stream index is not set in the last, empty packets that flush the decoders.
        track = self.tracks.get(packet.stream.index)
        if track is None:
            self.has_subtitles = self.has_subtitles or _is_visible_subtitle(packet)
            return False
        if time is not None:
            # Multiplied as whole numbers: fractions would be reduced, for each of a hundred thousand packets.
            self.seconds = max(self.seconds, time * track.unit[0] / track.unit[1])
        if track.is_abandoned:
            return False
        if size >= _MIN_HOLE_BYTES and _has_hole(packet, track.codec):
            track.add_hole(self.seconds)
        if track.plan and not track.is_next_in_stretch(packet, track.plan):
            return False
        for frame in self._decode_frames(packet, track):
            track.add_frame(frame)
            if on_sound and isinstance(frame, av.AudioFrame):
                on_sound(frame)
        return True

    def _decode_frames(self, packet: "Packet[Stream]", track: _Track) -> "Sequence[av.AudioFrame | av.VideoFrame]":
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
            measures["decoded_seconds"] = round(self.seconds, 3)
        if self.is_partial or self.plans:
            measures["partially_checked"] = True
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
        if self.is_partial or self.plans or self.not_decoded or self.has_subtitles:
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


def _work_of_packets(stream: "av.AudioStream | av.VideoStream") -> "Callable[[Packet[Stream]], int]":
    """Return what tells how much work it is to decode a packet of the stream."""
    context = stream.codec_context
    if context.name.startswith(_NO_DECODING):
        return lambda _: 0
    if isinstance(stream, av.VideoStream):
        times = 1 if context.name in _FAST_VIDEO else _WORK_OF_OTHER_VIDEO
        picture, byte = times * _WORK_OF_PIXEL * stream.width * stream.height + _WORK_OF_PACKET, times * _WORK_OF_BYTE
        return lambda packet: picture + byte * packet.size
    rate = float(stream.time_base or 0) * stream.codec_context.sample_rate
    sample = _WORK_OF_SAMPLE * stream.codec_context.channels

    def of_sound(packet: "Packet[Stream]") -> int:
        samples = min(int((packet.duration or 0) * rate), _MOST_SAMPLES)
        return _WORK_OF_PACKET + sample * (samples if samples > 0 else _USUAL_SAMPLES) + _WORK_OF_BYTE * packet.size

    return of_sound


def _has_hole(packet: "Packet[Stream]", codec: str) -> bool:
    """Return whether a packet holds a run of zeros that its codec never writes."""
    if codec not in _NEVER_ALL_ZERO:
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
