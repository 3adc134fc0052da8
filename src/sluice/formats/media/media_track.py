"""One stream of sound or pictures while it is played: what decodes of it, what does not, what could be noticed. Playing is done in `media.py`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from sluice.formats.media.media_senses import Ear, Eye

if TYPE_CHECKING:
    from av import AudioFrame, CodecContext, VideoFrame
    from av.packet import Packet
    from av.stream import Stream

_FAULTS_MOST: Final = 200
"""Faults after which a stream is not decoded further: it is broken."""
_ZERO_RUNS: Final = {
    "h264": 64,
    "hevc": 64,
    "vp8": 2048,
    "vp9": 2048,
    "av1": 2048,
    "libdav1d": 2048,
    "mpeg4": 2048,
    "msmpeg4v3": 2048,
}
"""Zero bytes that cannot follow each other within a packet: H.264 and HEVC escape the third, and what others code is never so even."""
_NEVER_ZERO: Final = frozenset(
    {*_ZERO_RUNS, "aac", "mp3", "mp3float", "mp2", "mp2float", "vorbis", "opus", "libopus", "ac3", "eac3", "alac", "theora"}
)
"""Codecs without packets of nothing but zeros: such are holes, left where a download never arrived."""
_HOLE_BYTES: Final = 32
_LENGTHS: Final = 1
"""The first byte of the codec's header where H.264 and HEVC units are told apart by their lengths, not by zeros between them."""
_BITMAP_BYTES: Final = 64
"""Subtitles made of pictures clear the screen with less."""
_ASS_FIELDS: Final = 8


@dataclass(slots=True)
class Track:
    """What is known of a stream so far. Holds nothing of FFmpeg's: its streams may not be touched once their container is closed."""

    kind: Literal["audio", "video"]
    codec: str
    sense: Ear | Eye
    good: int = 0
    """Frames that decoded."""
    lead: int = 0
    inner: int = 0
    held: int = 0
    """Packets that do not decode: before the first frame, between frames, and since the last one."""
    holes: int = 0
    first_fault: float = 0.0
    gave_up: bool = False
    blind: bool = False
    """Whether frames came that could not be looked at."""

    def note_frame(self, frame: "AudioFrame | VideoFrame") -> None:
        """Take a frame that decoded."""
        if self.good:
            self.inner += self.held
        else:
            self.lead = self.held
        self.held = 0
        self.good += 1
        try:
            self.sense.take(frame)  # type: ignore[arg-type]  # an ear for sound, an eye for pictures
        except (ValueError, TypeError, NotImplementedError):  # a layout of samples or pixels that cannot be converted
            self.blind = True

    def note_fault(self, seconds: float) -> None:
        """Count a packet that does not decode."""
        self.held += 1
        self.first_fault = self.first_fault or seconds
        self.gave_up = self.held + self.inner > _FAULTS_MOST

    def note_hole(self, seconds: float) -> None:
        """Count a packet with a hole in it."""
        self.holes += 1
        self.first_fault = self.first_fault or seconds

    @property
    def faults(self) -> int:
        """Packets that are damaged. One that does not decode at either end is none: streams are cut where it suits the clock."""
        if not self.good:
            return self.held + self.holes
        return self.holes + self.inner + max(0, self.lead - 1) + max(0, self.held - 1)

    @property
    def said(self) -> str:
        """What is wrong with it, in a sentence."""
        name = "sound" if self.kind == "audio" else "video"
        if not self.good:
            return f"nothing of the {name} decodes"
        return f"{self.faults} packets of the {name} are damaged, the first about second {self.first_fault:.1f}"

    @property
    def shows_something(self) -> bool:
        """Whether there is something to hear or see, or could be."""
        return self.blind or self.gave_up or self.sense.content


def is_hole(packet: "Packet[Stream]", codec: str) -> bool:
    """Answer whether a packet holds a stretch of zeros that its codec never writes."""
    if packet.size < _HOLE_BYTES or codec not in _NEVER_ZERO:
        return False
    data = bytes(packet).rstrip(b"\0")
    if not data:
        return True
    run = _ZERO_RUNS.get(codec)
    if codec in {"h264", "hevc"} and (packet.stream.codec_context.extradata or b"\0")[0] != _LENGTHS:
        return False
    return run is not None and data.find(bytes(run)) >= 0


def is_text(packet: "Packet[Stream]") -> bool:
    """Answer whether a packet of subtitles shows any."""
    data = bytes(packet)
    context: CodecContext | None = packet.stream.codec_context
    name = context.name if context is not None else ""
    if name in {"dvdsub", "pgssub", "dvbsub", "xsub"}:
        return len(data) > _BITMAP_BYTES
    if name == "mov_text":
        data = data[2 : 2 + int.from_bytes(data[:2], "big")]
    elif name in {"ass", "ssa"}:
        data = data.split(b",", _ASS_FIELDS)[-1]
    return bool(data.strip(b" \t\r\n\0"))
