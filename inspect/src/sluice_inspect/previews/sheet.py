"""A page of text in small: black letters on white, in the shape of A4, with as many lines as fit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final, cast

from PIL import Image, ImageDraw, ImageFont

from sluice_inspect.document_text.extent import BEGINNING
from sluice_inspect.report import Unsupported

_SHAPE: Final = 210 / 297
_MARGIN: Final = 0.05  # share of the height
_LETTER: Final = 1 / 85  # the same
_SMALLEST: Final = 7  # pixels; smaller letters cannot be read
_LINE: Final = 1.3  # times the size of the letters
_TAB: Final = "    "


def draw_sheet(text: str, side: int) -> Image.Image:
    """Return a page of `side` pixels in height with the beginning of a text, its long lines wrapped."""
    width, margin = round(side * _SHAPE), round(side * _MARGIN)
    size = max(_SMALLEST, round(side * _LETTER))
    font, height = _font(size), round(size * _LINE)
    page = Image.new("L", (width, side), 255)
    drawn = ImageDraw.Draw(page)
    lines = _wrapped(text[: BEGINNING.characters], font, width - 2 * margin)
    for top, line in zip(range(margin, side - margin - height + 1, height), lines, strict=False):
        drawn.text((margin, top), line, fill=0, font=font)
    return page.convert("RGB")


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    try:
        font = ImageFont.load_default(size)
    except ImportError as error:
        raise Unsupported("Pillow was built without FreeType, which draws letters") from error
    # The other layout loads a library of the system for writing from right to left.
    return cast("ImageFont.FreeTypeFont", font).font_variant(layout_engine=ImageFont.Layout.BASIC)


def _wrapped(text: str, font: ImageFont.FreeTypeFont, width: int) -> Iterator[str]:
    """Yield the lines of a text, none wider than `width` pixels, broken at spaces where there are any."""
    widths: dict[str, float] = {}
    for line in text.splitlines():
        shown = _shown(line)
        begin, space, used = 0, 0, 0.0
        for at, letter in enumerate(shown):
            if letter not in widths:
                widths[letter] = font.getlength(letter)
            used += widths[letter]
            if used > width and at > begin:
                end = space if space > begin else at
                yield shown[begin:end]
                begin = end
                used = sum(widths[each] for each in shown[begin : at + 1])
            if letter == " ":
                space = at + 1
        yield shown[begin:]


def _shown(line: str) -> str:
    """Return a line without control characters, and without those that change the direction of writing."""
    line = line.expandtabs(len(_TAB))
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in line)
