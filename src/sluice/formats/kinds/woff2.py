"""Web fonts packed by Brotli (.woff2): all tables unpack to the lengths stated.

The format has no checksums: damage shows where it does not unpack, or no longer adds up.
"""

from collections.abc import Mapping
from typing import Final

from sluice.formats.fonts.font_sample import make_font, make_woff2
from sluice.formats.fonts.webfont import WOFF2, unpack_woff2
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Limits, Measure


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    return {"tables": len(unpack_woff2(source, limits))}


KIND: Final = Kind(
    name="woff2",
    content_type="font/woff2",
    extensions=frozenset({"woff2"}),
    recognises=lambda source: source.head.startswith(WOFF2),
    check=_check,
    sample=lambda: make_woff2(make_font()),
)
