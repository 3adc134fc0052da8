"""J2K: a bare JPEG 2000 codestream, without the boxes of JP2. What makes one sound is in `jpeg2000.py`."""

from collections.abc import Mapping
from typing import Final

from sluice.formats.images.jpeg2000 import begins, check_picture, read_codestream, sample_codestream
from sluice.formats.images.raster import blank_picture
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Limits, Measure


def _recognises(source: Source) -> bool:
    return begins(source.head)


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    found = read_codestream(source, 0, source.size)
    return {"trailing_bytes": source.size - found.end, **check_picture(source, found, limits)}


KIND: Final = Kind(
    name="j2k",
    content_type="image/j2c",
    extensions=frozenset({"j2k", "j2c", "jpc", "jhc"}),
    also_named=frozenset({"jp2", "jph"}),
    recognises=_recognises,
    check=_check,
    blank=blank_picture,
    sample=sample_codestream,
)
