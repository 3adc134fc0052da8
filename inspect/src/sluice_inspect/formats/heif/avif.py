"""AVIF: boxes and items are in the file, and every picture decodes, in a strict second decoder too."""
# libavif (in Pillow) accepts whatever its decoder makes of damaged data. dav1d in its strict mode (of FFmpeg) does not,
# and checks that the data ends where the picture does.

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, cast

from PIL import AvifImagePlugin, Image, UnidentifiedImageError

from sluice_inspect.budget import Deadline
from sluice_inspect.containers.isobmff import Layout, children, family_of, read_brands
from sluice_inspect.facts.media import measure_picture
from sluice_inspect.format import Examination, Family, Format, MatchOrder
from sluice_inspect.formats.heif.items import HeifItems, declared_size, read_boxes, read_content, read_items
from sluice_inspect.formats.heif.sample import sample_avif
from sluice_inspect.images.raster import decode_frames, require_within_limits
from sluice_inspect.report import Corrupt, InspectionError, Limits, TooComplex, Unsupported
from sluice_inspect.source import Source

try:
    import av

    _INSTALLED = True
except ImportError:  # an optional library
    _INSTALLED = False

_CODING: Final = b"av01"
_GRID_BYTES: Final = 8
_FILE_BYTES: Final = 256 * 1024**2  # a larger file is not decoded: libavif needs all of it in memory
_READ_BY_PILLOW: Final = frozenset({b"avif", b"avis", b"mif1", b"msf1"})
# Words in libavif's reasons that are about the file; all others say that libavif, or Pillow, lacks something.
_DAMAGE: Final = ("Decoding of", "ispe", "grid", "Missing", "No AV1", "Truncated", "BMFF", "No content")


def _examine(source: Source, limits: Limits) -> Examination:
    boxes = read_boxes(source)
    items = read_items(source, boxes)
    for item in items.shown() if items else ():
        size = declared_size(source, item)
        if any(size):
            require_within_limits(limits, *size)
    if source.size > _FILE_BYTES:
        raise Unsupported(f"the file is larger than the {_FILE_BYTES} bytes that its decoder takes")
    sizes = _decode_strictly(source, boxes, items, limits) if _INSTALLED and "libdav1d" in av.codecs_available else {}
    if AvifImagePlugin.SUPPORTED:  # asked first: a plugin that is left for later loads now, and registers its format
        AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # the sandbox allows no more
    try:
        with Image.open(source.open(), formats=["AVIF"]) as picture:
            width, height = picture.size
            require_within_limits(limits, width, height, getattr(picture, "n_frames", 1))
        decoded = decode_frames(source.open(), "AVIF", limits)
    except (RuntimeError, ValueError, UnidentifiedImageError) as error:
        if items and _is_list_of_pictures(source, boxes) and _is_complete(source, items, sizes):
            raise Unsupported("libavif refuses how the file lists its pictures, and the shown one is sound") from error
        if not isinstance(error, UnidentifiedImageError):
            raise _error_of_libavif(str(error)) from error
        if read_brands(source)[0] not in _READ_BY_PILLOW:
            raise Unsupported("the file is of a brand that the decoder does not know") from error
        raise Corrupt("the lists of what is in the file contradict each other") from error
    measures = {"trailing_bytes": source.size - boxes.end, "width": width, "height": height}
    return Examination(measures | decoded.measures, decoded.blank, decoded.measured)


def _error_of_libavif(reason: str) -> InspectionError:
    if "memory" in reason:
        return TooComplex(f"the picture needs too much memory: {reason}")
    if any(word in reason for word in _DAMAGE):
        return Corrupt(f"the picture does not decode: {reason}")
    return Unsupported(f"the decoder lacks what the picture needs: {reason}")


def _is_list_of_pictures(source: Source, boxes: Layout) -> bool:
    parts = (part for meta in boxes.named(b"meta")[:1] for part in children(source, meta, 4))
    return any(part.name == b"hdlr" and source.read_at(part.body + 8, 4) == b"pict" for part in parts)


def _is_complete(source: Source, items: HeifItems, sizes: Mapping[int, tuple[int, int]]) -> bool:
    """Return whether the shown picture was decoded to the size that it declares, as one or in all of its tiles."""
    shown = items.by_number[items.primary]
    declared = declared_size(source, shown)
    colours = [source.read_at(box.body, 4) for box in shown.properties if box.name == b"colr"]
    if len(colours) > len(set(colours)):
        return False
    if shown.coding != b"grid":
        return sizes.get(shown.number) == declared
    fields, tiles = read_content(source, shown), [sizes.get(part.number) for part in items.parts(shown)]
    if len(fields) < _GRID_BYTES or tiles[0] is None or len(set(tiles)) > 1:
        return False
    rows, columns = 1 + fields[2], 1 + fields[3]
    covered = (columns * tiles[0][0], rows * tiles[0][1])
    return len(tiles) == rows * columns and 0 < declared[0] <= covered[0] and 0 < declared[1] <= covered[1]


def _decode_strictly(
    source: Source, boxes: Layout, items: HeifItems | None, limits: Limits
) -> Mapping[int, tuple[int, int]]:
    """Decode every coded picture, gain maps and thumbnails too, until time is over. Return sizes. Raises `Corrupt`."""
    deadline = Deadline(limits.soft_seconds)
    sizes: dict[int, tuple[int, int]] = {}
    for item in items.independent(_CODING) if items else ():
        config = item.find_property(b"av1C")
        if deadline.has_passed:
            return sizes
        if config:
            data = read_content(source, item)
            size = _require_frames(source.read_at(config.body, config.end - config.body), [data], limits)
            sizes |= {item.number: size} if size else {}
    if boxes.named(b"moov"):
        _decode_tracks_strictly(source, deadline, limits)
    return sizes


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
    except av.error.FFmpegError:  # the container is judged by our own reader
        return


def _require_frames(config: bytes, packets: Iterable[bytes], limits: Limits) -> tuple[int, int] | None:
    """Decode the packets of one picture or track. `config` is its `av1C`. Raise `Corrupt` if they do not decode.

    Return the width and height of the last frame, None if the decoder lacks something.
    """
    decoder = cast("av.VideoCodecContext", av.CodecContext.create("libdav1d", "r"))
    decoder.thread_count = 1
    decoder.options = {"strict": "1", "max_pixels": str(limits.max_pixels)}
    decoder.extradata = config
    frames: list[av.VideoFrame] = []
    try:
        for packet in packets:
            frames = decoder.decode(av.Packet(packet))[-1:] or frames
        frames = decoder.decode(None)[-1:] or frames
    except av.error.InvalidDataError as error:
        raise Corrupt("the picture data is damaged: the AV1 decoder refuses it") from error
    except av.error.FFmpegError:  # the decoder lacks something, which says nothing about the file
        return None
    if not frames:
        raise Corrupt("the picture data is damaged: it holds no picture")
    return frames[-1].width, frames[-1].height


FORMAT: Final = Format(
    name="avif",
    family=Family.PICTURE,
    content_type="image/avif",
    extensions=frozenset({"avif", "avifs"}),
    tolerated_extensions=frozenset({"heif", "hif"}),
    begins=(b"ftyp",),
    begins_within=4,  # the size of the box
    matches=lambda source: family_of(source) == "avif",
    match_order=MatchOrder.PICTURE,
    examine=_examine,
    facts=partial(measure_picture, plugin="AVIF", is_animated=True, states_frames=True),
    sample=sample_avif,
)
