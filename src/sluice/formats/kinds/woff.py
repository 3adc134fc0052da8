"""Web fonts (.woff): every table inflates to its length and has its checksum."""

from collections.abc import Mapping
from typing import Final

from sluice.formats.fonts.font_sample import make_font, make_woff
from sluice.formats.fonts.webfont import WOFF, unpack_woff
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Limits, Measure


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    return {"tables": len(unpack_woff(source, limits))}


KIND: Final = Kind(
    name="woff",
    content_type="font/woff",
    extensions=frozenset({"woff"}),
    recognises=lambda source: source.head.startswith(WOFF),
    check=_check,
    sample=lambda: make_woff(make_font()),
)
