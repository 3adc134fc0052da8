"""A page of text in small: black letters on white, in the shape of A4, with as many lines as fit."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final, cast

from PIL import Image, ImageDraw, ImageFont, features

from sluice_inspect.document_text.extent import BEGINNING
from sluice_inspect.report import Unsupported

_SHAPE: Final = 210 / 297
_MARGIN: Final = 0.05  # share of the height
_LETTER: Final = 1 / 85  # the same
_SMALLEST: Final = 7  # pixels; smaller letters cannot be read
_LINE: Final = 1.3  # times the size of the letters
_TAB: Final = "    "
# Pillow's own font has the letters of Latin. Others come from the folders of the system, the first that has them.
_FURTHER_FONTS: Final = (
    "DejaVuSans.ttf",  # Latin, Greek, Cyrillic, Hebrew, Arabic and more
    "DroidSansFallbackFull.ttf",  # Chinese, Japanese, Korean
    "NotoSansCJK-Regular.ttc",
    "NotoSansDevanagari-Regular.ttf",
    "NotoSansThai-Regular.ttf",
)
_IN_NO_FONT: Final = "\U0010ffff"
_RIGHT_TO_LEFT: Final = frozenset({"R", "AL"})


def draw_sheet(text: str, side: int) -> Image.Image:
    """Return a page of `side` pixels in height with the beginning of a text, its long lines wrapped."""
    width, margin = round(side * _SHAPE), round(side * _MARGIN)
    size = max(_SMALLEST, round(side * _LETTER))
    letters, height = _letters(size), round(size * _LINE)
    page = Image.new("L", (width, side), 255)
    drawn = ImageDraw.Draw(page)
    lines = letters.lines(text[: BEGINNING.characters], width - 2 * margin)
    for top, line in zip(range(margin, side - margin - height + 1, height), lines, strict=False):
        left: float = margin
        if line and _is_right_to_left(line[0].text):
            left = width - margin - sum(run.width for run in line)
        for run in line:
            drawn.text((left, top), run.text, fill=0, font=run.font)
            left += run.width
    return page.convert("RGB")


@dataclass(frozen=True, slots=True)
class _Run:
    """Letters of a line that are drawn in one font."""

    font: ImageFont.FreeTypeFont
    text: str

    @property
    def width(self) -> float:
        return self.font.getlength(self.text)


class _Letters:
    """The letters of one size, in several fonts."""

    def __init__(self, fonts: tuple[ImageFont.FreeTypeFont, ...]) -> None:
        self._fonts = fonts
        self._missing = [_drawing(font, _IN_NO_FONT) for font in fonts]
        self._known: dict[tuple[int, str], bool] = {}

    def lines(self, text: str, width: int) -> Iterator[list[_Run]]:
        """Yield the lines of a text, none wider than `width` pixels, broken at spaces where there are any.

        A paragraph is drawn in the first font that has all of its letters, or each letter in the first that has it.
        """
        for each in text.splitlines():
            paragraph = _shown(each)
            letters = set(paragraph)
            whole = next((n for n in range(len(self._fonts)) if all(self._has(n, letter) for letter in letters)), None)
            fonts = {letter: self._first_with(letter) if whole is None else whole for letter in letters}
            widths = {letter: self._fonts[number].getlength(letter) for letter, number in fonts.items()}
            for line in _wrapped(paragraph, widths, width):
                yield [_Run(self._fonts[number], "".join(run)) for number, run in groupby(line, fonts.__getitem__)]

    def _has(self, number: int, letter: str) -> bool:
        found = self._known.get((number, letter))
        if found is None:
            found = _drawing(self._fonts[number], letter) != self._missing[number]
            self._known[number, letter] = found
        return found

    def _first_with(self, letter: str) -> int:
        return next((n for n in range(len(self._fonts)) if self._has(n, letter)), 0)


@cache
def _letters(size: int) -> _Letters:
    try:
        latin = ImageFont.load_default(size)
    except ImportError as error:
        raise Unsupported("Pillow was built without FreeType, which draws letters") from error
    # With FriBidi, which Pillow looks for on the system, Hebrew and Arabic are drawn from right to left.
    layout = ImageFont.Layout.RAQM if features.check_feature("fribidi") else ImageFont.Layout.BASIC
    fonts = [cast("ImageFont.FreeTypeFont", latin).font_variant(layout_engine=ImageFont.Layout.BASIC)]
    fonts += [ImageFont.truetype(io.BytesIO(each), size, layout_engine=layout) for each in font_files()]
    return _Letters(tuple(fonts))


@cache
def font_files() -> tuple[bytes, ...]:
    """Return the further fonts that are installed: a locked process can no longer open their files."""
    files: list[bytes] = []
    for name in _FURTHER_FONTS:
        try:
            files.append(Path(str(ImageFont.truetype(name).path)).read_bytes())
        except OSError:
            continue
    return tuple(files)


def _drawing(font: ImageFont.FreeTypeFont, letter: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(letter)
    return mask.size, bytes(mask)


def _wrapped(paragraph: str, widths: Mapping[str, float], width: int) -> Iterator[str]:
    begin, space, used = 0, 0, 0.0
    for at, letter in enumerate(paragraph):
        used += widths[letter]
        if used > width and at > begin:
            end = space if space > begin else at
            yield paragraph[begin:end]
            begin = end
            used = sum(widths[each] for each in paragraph[begin : at + 1])
        if letter == " ":
            space = at + 1
    yield paragraph[begin:]


def _is_right_to_left(line: str) -> bool:
    """Return whether the first letter of a line that has a direction has this one."""
    directions = (unicodedata.bidirectional(letter) for letter in line)
    return next((each for each in directions if each in {"L", "R", "AL"}), "L") in _RIGHT_TO_LEFT


def _shown(line: str) -> str:
    """Return a line without control characters, and without those that change the direction of writing."""
    line = line.expandtabs(len(_TAB))
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in line)
