"""OpenType fonts with PostScript outlines (.otf), judged as `ttf` is. Those with TrueType outlines are of that kind, also when named .otf."""

from typing import Final

from sluice.formats.fonts.font_sample import make_font
from sluice.formats.fonts.sfnt import OPENTYPE, begins_font, check_fonts
from sluice.formats.kind import Kind

KIND: Final = Kind(
    name="otf",
    content_type="font/otf",
    extensions=frozenset({"otf", "otc"}),
    also_named=frozenset({"ttf"}),
    recognises=lambda source: begins_font(source.head, [OPENTYPE]),
    check=check_fonts,
    sample=lambda: make_font(postscript=True),
)
