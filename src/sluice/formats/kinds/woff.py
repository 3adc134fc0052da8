"""Web fonts (.woff): every table inflates to its length and has its checksum. Blank without an outline beside `.notdef`."""

from collections.abc import Mapping
from typing import Final

from sluice.formats.fonts.font_sample import make_font, make_woff
from sluice.formats.fonts.sfnt import NO_OUTLINE, has_outline
from sluice.formats.fonts.webfont import WOFF, unpack_woff
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Limits, Measure


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    return {"tables": len(unpack_woff(source, limits).tables)}


def _blank(source: Source, limits: Limits) -> str | None:
    return None if has_outline(unpack_woff(source, limits)) else NO_OUTLINE


KIND: Final = Kind(
    name="woff",
    content_type="font/woff",
    extensions=frozenset({"woff"}),
    recognises=lambda source: source.head.startswith(WOFF),
    check=_check,
    sample=lambda: make_woff(make_font()),
    blank=_blank,
)
