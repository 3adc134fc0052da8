"""Pictures and recordings: sizes, frames, duration and codecs, as examined or as their headers state them."""

import warnings
from typing import Final

from PIL import Image

from sluice_inspect.catalogue import AUDIO_CODECS, VIDEO_CODECS
from sluice_inspect.facts.subject import Subject
from sluice_inspect.media.playback import describe
from sluice_inspect.report import FactSheet

_PLUGINS: Final = {
    "png": "PNG", "jpeg": "JPEG", "gif": "GIF", "bmp": "BMP", "tiff": "TIFF", "avif": "AVIF",
    "jp2": "JPEG2000", "j2k": "JPEG2000",
}  # fmt: skip
_STATES_FRAMES: Final = frozenset({"PNG", "AVIF"})
_ANIMATED: Final = frozenset({"png", "gif", "webp", "avif"})
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


def measure_picture(subject: Subject, sheet: FactSheet) -> None:
    """Add width, height, pixels, frames and whether they move; pages of a TIFF."""
    width, height, frames = subject.count("width"), subject.count("height"), subject.count("frames")
    if width is None or height is None:
        width, height, frames = _read_header(subject)
    if not (width and height):
        return
    if "width" in sheet.facts:  # of what was too large, which need not be what the header states
        return
    sheet.facts |= {"width": width, "height": height, "pixels": width * height}
    if frames is None:
        return
    is_animation = subject.format_name in _ANIMATED and frames > 1
    sheet.facts |= {"frames": frames if is_animation else 1, "animated": is_animation}
    if subject.format_name == "tiff":
        sheet.facts["pages"] = frames


def _read_header(subject: Subject) -> tuple[int, int, int | None]:
    """Return width, height and, where the header states it, the number of frames. No pixel is decoded."""
    if subject.format_name == "webp":
        return *_read_webp(subject.source.head), None
    plugin = _PLUGINS.get(subject.format_name)
    if plugin is None:
        return 0, 0, None
    previous, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(subject.source.open(), formats=[plugin]) as picture:
                # Other plugins would have to go through all frames to count them.
                frames = getattr(picture, "n_frames", 1) if plugin in _STATES_FRAMES else None
                return *picture.size, frames
    except (OSError, SyntaxError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system failed, not the picture
            raise
        return 0, 0, None
    finally:
        Image.MAX_IMAGE_PIXELS = previous


def _read_webp(head: bytes) -> tuple[int, int]:
    # Pillow would set up a decoder for all of it. The chunks are those of RFC 9649, section 2.
    name, start = head[12:16], head[20:30]
    if name == b"VP8X":
        return 1 + int.from_bytes(start[4:7], "little"), 1 + int.from_bytes(start[7:10], "little")
    if name == b"VP8L":
        packed = int.from_bytes(start[1:5], "little")
        return 1 + (packed & 0x3FFF), 1 + (packed >> 14 & 0x3FFF)
    return int.from_bytes(start[6:8], "little") & 0x3FFF, int.from_bytes(start[8:10], "little") & 0x3FFF


def measure_media(subject: Subject, sheet: FactSheet) -> None:
    """Add duration, sound, moving pictures and codecs; nothing if FFmpeg is missing or does not open the container."""
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
