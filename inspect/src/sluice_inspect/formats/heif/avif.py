"""AVIF: boxes and items are in the file, and every picture decodes, in a strict second decoder too."""
# libavif (in Pillow) accepts whatever its decoder makes of damaged data. dav1d in its strict mode (of FFmpeg) does not,
# and checks that the data ends where the picture does.

from collections.abc import Iterable
from functools import partial
from typing import Final, cast

from PIL import AvifImagePlugin, Image, UnidentifiedImageError

from sluice_inspect.budget import Deadline
from sluice_inspect.containers.isobmff import Layout, family_of, read_brands
from sluice_inspect.facts.media import measure_picture
from sluice_inspect.format import Examination, Family, Format, MatchOrder
from sluice_inspect.formats.heif.items import HeifItems, declared_size, read_boxes, read_content, read_items
from sluice_inspect.formats.heif.sample import sample_avif
from sluice_inspect.images.raster import decode_frames, require_within_limits
from sluice_inspect.report import Corrupt, InspectionError, Limits, TooComplex, Unsupported
from sluice_inspect.source import Source

try:
    import av
    from av.error import FFmpegError, InvalidDataError

    _STRICT_DECODER: bool = "libdav1d" in av.codecs_available
except ImportError:  # an optional library
    _STRICT_DECODER = False

_CODING: Final = b"av01"
_FILE_BYTES: Final = 256 * 1024**2  # a larger file is not decoded: libavif needs all of it in memory
_READ_BY_PILLOW: Final = frozenset({b"avif", b"avis", b"mif1", b"msf1"})
# Words in libavif's reasons that are about the file; all others say that libavif, or Pillow, lacks something.
_DAMAGE: Final = ("Decoding of", "ispe", "grid", "Missing", "No AV1", "Truncated", "BMFF", "No content")

AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # the sandbox allows no more


def _examine(source: Source, limits: Limits) -> Examination:
    boxes = read_boxes(source)
    items = read_items(source, boxes)
    for item in items.shown() if items else ():
        size = declared_size(source, item)
        if any(size):
            require_within_limits(limits, *size)
    if source.size > _FILE_BYTES:
        raise Unsupported(f"the file is larger than the {_FILE_BYTES} bytes that its decoder takes")
    if _STRICT_DECODER:
        _decode_strictly(source, boxes, items, limits)
    try:
        with Image.open(source.open(), formats=["AVIF"]) as picture:
            width, height = picture.size
            require_within_limits(limits, width, height, getattr(picture, "n_frames", 1))
        decoded = decode_frames(source.open(), "AVIF", limits)
    except (RuntimeError, ValueError) as error:
        raise _error_of_libavif(str(error)) from error
    except UnidentifiedImageError as error:
        if read_brands(source)[0] not in _READ_BY_PILLOW:
            raise Unsupported("the file is of a brand that the decoder does not know") from error
        raise Corrupt("the lists of what is in the file contradict each other") from error
    measures = {"trailing_bytes": source.size - boxes.end, "width": width, "height": height}
    return Examination(measures | decoded.measures, decoded.blank)


def _error_of_libavif(reason: str) -> InspectionError:
    if "memory" in reason:
        return TooComplex(f"the picture needs too much memory: {reason}")
    if any(word in reason for word in _DAMAGE):
        return Corrupt(f"the picture does not decode: {reason}")
    return Unsupported(f"the decoder lacks what the picture needs: {reason}")


def _decode_strictly(source: Source, boxes: Layout, items: HeifItems | None, limits: Limits) -> None:
    """Decode every coded picture, gain maps and thumbnails too, until time is over. Raises `Corrupt`."""
    deadline = Deadline(limits.soft_seconds)
    for item in items.independent(_CODING) if items else ():
        config = item.find_property(b"av1C")
        if deadline.has_passed:
            return
        if config:
            data = read_content(source, item)
            _require_frames(source.read_at(config.body, config.end - config.body), [data], limits)
    if boxes.named(b"moov"):
        _decode_tracks_strictly(source, deadline, limits)


def _decode_tracks_strictly(source: Source, deadline: Deadline, limits: Limits) -> None:
    try:
        with av.open(source.open(), "r", format="mov", options={"threads": "1"}) as container:
            for stream in container.streams.video:
                if stream.codec_context.name in {"libdav1d", "av1", "libaom-av1"}:
                    packets = (
                        bytes(packet) for packet in container.demux(stream) if packet.size and not deadline.has_passed
                    )
                    _require_frames(stream.codec_context.extradata or b"", packets, limits)
                    container.seek(0)
    except FFmpegError:  # the container is judged by our own reader
        return


def _require_frames(config: bytes, packets: Iterable[bytes], limits: Limits) -> None:
    """Decode the packets of one picture or track. `config` is its `av1C`. Raise `Corrupt` if they do not decode."""
    decoder = cast("av.VideoCodecContext", av.CodecContext.create("libdav1d", "r"))
    decoder.thread_count = 1
    decoder.options = {"strict": "1", "max_pixels": str(limits.max_pixels)}
    decoder.extradata = config
    frames = 0
    try:
        for packet in packets:
            frames += len(decoder.decode(av.Packet(packet)))
        frames += len(decoder.decode(None))
    except InvalidDataError as error:
        raise Corrupt("the picture data is damaged: the AV1 decoder refuses it") from error
    except FFmpegError:  # the decoder lacks something, which says nothing about the file
        return
    if not frames:
        raise Corrupt("the picture data is damaged: it holds no picture")


FORMAT: Final = Format(
    name="avif",
    family=Family.PICTURE,
    content_type="image/avif",
    extensions=frozenset({"avif", "avifs"}),
    tolerated_extensions=frozenset({"heif", "hif"}),
    matches=lambda source: family_of(source) == "avif",
    match_order=MatchOrder.PICTURE,
    examine=_examine,
    facts=partial(measure_picture, plugin="AVIF", is_animated=True, states_frames=True),
    sample=sample_avif,
)
