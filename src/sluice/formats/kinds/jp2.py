"""JP2 and its kin (JPX, JPH): the boxes end in the file, the codestream in them is whole, and it decodes. Codestreams are in `jpeg2000.py`."""

from collections.abc import Mapping
from typing import Final

from sluice.formats.images.jpeg2000 import check_picture, read_codestream
from sluice.formats.images.raster import blank_picture, keep_within, sample_picture
from sluice.formats.isobmff import layout
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure, Unsupported

_SIGNATURE: Final = b"\0\0\0\x0cjP  \r\n\x87\n"
_FILMS: Final = (b"mjp2", b"mjp ")
_KNOWN: Final = frozenset(
    {b"ftyp", b"jp2h", b"jp2c", b"jpch", b"jplh", b"uuid", b"xml ", b"jp2i", b"rreq", b"asoc", b"ftbl", b"mdat"}
)


def _recognises(source: Source) -> bool:
    return source.head.startswith(_SIGNATURE) and source.head[20:24] not in _FILMS


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    boxes = layout(source)
    if boxes.cut and boxes.cut.name in _KNOWN:
        name = boxes.cut.name.decode("ascii").strip()
        raise Corrupt(f"the file ends at byte {source.size}, inside the {name} box, which ends at byte {boxes.cut.end}")
    streams = [read_codestream(source, box.body, box.end) for box in boxes.named(b"jp2c")]
    if not streams:
        if boxes.named(b"ftbl", b"mdat", b"mhdr", b"page"):
            raise Unsupported("the file keeps its pictures in a way of JPX or JPM that is not read here")
        raise Corrupt("the file holds no JPEG 2000 codestream")
    for found in streams:
        keep_within(limits, found.width, found.height, len(streams))
    if not boxes.named(b"jp2h"):
        raise Unsupported("the file describes its picture in a way of JPX that is not read here")
    return {"trailing_bytes": source.size - boxes.end, **check_picture(source, streams[0], limits)}


KIND: Final = Kind(
    name="jp2",
    content_type="image/jp2",
    extensions=frozenset({"jp2", "jpx", "jpf", "jpm", "jph"}),
    also_named=frozenset({"j2k"}),
    recognises=_recognises,
    check=_check,
    blank=blank_picture,
    sample=lambda: sample_picture("JPEG2000"),
)
