"""Pictures and recordings: sizes, frames, duration and codecs, as examined or as their headers state them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Final

from PIL import Image

from sluice_inspect.catalogue import AUDIO_CODECS, VIDEO_CODECS
from sluice_inspect.media.playback import describe
from sluice_inspect.report import FactSheet
from sluice_inspect.subject import Subject

# Names of FFmpeg's decoders that are not those of the codecs.
_SAME: Final = {
    "libopus": "opus", "libvorbis": "vorbis", "mp3float": "mp3", "mp2float": "mp2", "mp1float": "mp1",
    "aac_fixed": "aac", "aac_latm": "aac", "ac3_fixed": "ac3", "dca": "dts", "libspeex": "speex", "libdav1d": "av1",
    "libaom-av1": "av1", "libvpx": "vp8", "libvpx-vp9": "vp9", "mpeg1video": "mpeg1", "mpeg2video": "mpeg2",
    "dvvideo": "dv", "vc1image": "vc1", "vp6f": "vp6", "vp6a": "vp6", "h263p": "h263", "h263i": "h263",
}  # fmt: skip
_FAMILIES: Final = ("pcm", "adpcm", "amr", "wma", "wmv", "msmpeg4", "prores", "mjpeg")


def measure_picture(
    subject: Subject,
    sheet: FactSheet,
    *,
    plugin: str = "",
    read_size: Callable[[bytes], tuple[int, int]] | None = None,
    is_animated: bool = False,
    states_frames: bool = False,
    has_pages: bool = False,
) -> None:
    """Add width, height, pixels, frames and whether they move; pages if the frames are that.

    What the examination did not measure is read by `read_size` from the first bytes, or by Pillow's plugin of a name.
    `is_animated`: viewers show the frames one after the other. `states_frames`: the header has their number.
    """
    width, height, frames = subject.count("width"), subject.count("height"), subject.count("frames")
    if width is None or height is None:
        if read_size is not None:
            width, height = read_size(subject.source.head)
            frames = None
        else:
            width, height, frames = _read_header(subject, plugin, states_frames=states_frames)
    if not (width and height):
        return
    if "width" in sheet.facts:  # of what was too large, which need not be what the header states
        return
    sheet.facts |= {"width": width, "height": height, "pixels": width * height}
    if frames is None:
        return
    is_animation = is_animated and frames > 1
    sheet.facts |= {"frames": frames if is_animation else 1, "animated": is_animation}
    if has_pages:
        sheet.facts["pages"] = frames


def _read_header(subject: Subject, plugin: str, *, states_frames: bool) -> tuple[int, int, int | None]:
    """Return width, height and, where the header states it, the number of frames. No pixel is decoded."""
    if not plugin:
        return 0, 0, None
    previous, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(subject.source.open(), formats=[plugin]) as picture:
                # Other plugins would have to go through all frames to count them.
                frames = getattr(picture, "n_frames", 1) if states_frames else None
                return *picture.size, frames
    except (OSError, SyntaxError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system failed, not the picture
            raise
        return 0, 0, None
    finally:
        Image.MAX_IMAGE_PIXELS = previous


def measure_media(subject: Subject, sheet: FactSheet, *, demuxer: str) -> None:
    """Add duration, sound, moving pictures and codecs; nothing if FFmpeg is missing or does not open the container."""
    measures = subject.measures
    if not {"audio", "video", "seconds"} & set(measures):
        measures = describe(subject.source, demuxer)
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
