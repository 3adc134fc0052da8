"""Duration, sound, moving pictures and codecs of a recording: as it was played, or as its container states them."""

from typing import Final

from sluice_inspect.catalogue import AUDIO_CODECS, VIDEO_CODECS
from sluice_inspect.facts.subject import Subject
from sluice_inspect.media.playback import describe
from sluice_inspect.report import FactSheet

_DEMUXERS: Final = {
    "mp4": "mp4", "mov": "mp4", "m4a": "mp4", "mkv": "matroska", "webm": "matroska", "ogg": "ogg", "opus": "ogg",
    "avi": "avi", "wav": "wav", "aiff": "aiff", "flac": "flac", "mp3": "mp3", "aac": "aac",
}  # fmt: skip
# Names of FFmpeg's decoders that are not those of the codecs.
_SAME: Final = {
    "libopus": "opus", "libvorbis": "vorbis", "mp3float": "mp3", "mp2float": "mp2", "mp1float": "mp1",
    "aac_fixed": "aac", "aac_latm": "aac", "ac3_fixed": "ac3", "dca": "dts", "libspeex": "speex", "libdav1d": "av1",
    "libaom-av1": "av1", "libvpx": "vp8", "libvpx-vp9": "vp9", "mpeg1video": "mpeg1", "mpeg2video": "mpeg2",
    "dvvideo": "dv", "vc1image": "vc1", "vp6f": "vp6", "vp6a": "vp6", "h263p": "h263", "h263i": "h263",
}  # fmt: skip
_FAMILIES: Final = ("pcm", "adpcm", "amr", "wma", "wmv", "msmpeg4", "prores", "mjpeg")


def measure_media(subject: Subject, sheet: FactSheet) -> None:
    """Add them; nothing if FFmpeg is not installed or does not open the container."""
    measures = subject.measures
    if not {"audio", "video", "seconds"} & set(measures):
        measures = describe(subject.source, _DEMUXERS[subject.format_name])
    if not measures:
        return
    seconds = measures.get("seconds")
    if isinstance(seconds, int | float) and seconds >= 0:
        sheet.facts["duration_ms"] = round(seconds * 1000)
    for media, known in (("audio", AUDIO_CODECS), ("video", VIDEO_CODECS)):
        names = [name.strip() for name in str(measures.get(media, "")).split(",")]
        codecs = tuple(_codec(name, known) for name in names if name)
        sheet.facts[f"has_{media}"] = bool(codecs)
        if codecs:
            sheet.facts[f"{media}_codecs"] = codecs


def _codec(decoder: str, known: frozenset[str]) -> str:
    name = _SAME.get(decoder, decoder)
    name = next((family for family in _FAMILIES if name.startswith(family)), name)
    return name if name in known else "other"
