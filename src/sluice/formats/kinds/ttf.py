"""TrueType fonts and collections (.ttf, .ttc): tables lie in the file and have their checksums."""

from typing import Final

from sluice.formats.fonts.font_sample import make_font
from sluice.formats.fonts.sfnt import COLLECTION, TRUETYPE, begins_font, check_fonts
from sluice.formats.kind import Kind

KIND: Final = Kind(
    name="ttf",
    content_type="font/ttf",
    extensions=frozenset({"ttf", "ttc"}),
    also_named=frozenset({"otf", "otc"}),
    recognises=lambda source: source.head.startswith(COLLECTION) or begins_font(source.head, TRUETYPE),
    check=check_fonts,
    sample=make_font,
)
