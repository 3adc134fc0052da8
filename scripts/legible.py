"""Figures of the policy `legible`: text pages are drawn, photographed, and spoilt by known amounts.

    python scripts/legible.py [FOLDER] [--count 60]

For each amount of blur, shake, darkness and skew, and each height of letters, the table has the share of the photos that
the policy refuses at its defaults, and the middle of the fact that is meant. With a folder, the same of its pictures.
"""

import argparse
import io
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from sluice.contexts.policies import Legible
from sluice.uploads.policies import illegible
from sluice_inspect.format import Family
from sluice_inspect.images.legibility import measure_legibility
from sluice_inspect.inspection import inspect_file
from sluice_inspect.registry import format_named
from sluice_inspect.report import Limits, Outcome, Report

_FONTS: Final = (
    "",
    "DejaVuSerif.ttf",
    "LiberationSerif-Regular.ttf",
    "LiberationSans-Regular.ttf",
    "DejaVuSansMono.ttf",
)
_WORDS: Final = [
    "the",
    "invoice",
    "of",
    "your",
    "account",
    "was",
    "paid",
    "on",
    "receipt",
    "and",
    "no",
    "further",
    "amount",
    "is",
    "due",
    "at",
    "this",
    "time",
    "please",
    "keep",
    "it",
    "with",
    "Policy",
    "Number",
    "4711-0815",
    "Claim",
    "dated",
    "March",
    "insured",
    "person",
    "address",
    "street",
    "town",
    "12,480.50",
    "EUR",
    "total",
    "VAT",
    "included",
    "we",
    "regret",
    "that",
    "payment",
    "could",
    "not",
    "be",
    "made",
    "because",
    "information",
    "about",
    "the",
    "accident",
    "has",
    "been",
    "incomplete",
    "signature",
]
_EMPTY_LINES: Final = 0.08
_X_HEIGHT: Final = 0.52  # of the size of a font
_STROKE: Final = 1 / 6  # of the height of its small letters


@dataclass(frozen=True)
class Photo:
    """A sharp photo, and how many pixels its small letters are high and their strokes wide."""

    picture: Image.Image
    x_height: float

    @property
    def stroke(self) -> float:
        """The width of the strokes of letters, in pixels."""
        return self.x_height * _STROKE


def _font(name: str, size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    if name:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            pass
    return ImageFont.load_default(size)


def _write(
    draw: ImageDraw.ImageDraw,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    rng: random.Random,
    box: tuple[int, int, int, int],
    *,
    pitch: int,
    ink: int,
    full: float,
) -> None:
    """Write lines of words from left to right and top to bottom of a box; a share of them is `full`."""
    left, right, top, bottom = box
    for y in range(top, bottom - pitch, pitch):
        if rng.random() < _EMPTY_LINES:
            continue
        x, end = float(left), right if rng.random() < full else left + (right - left) * rng.uniform(0.2, 0.9)
        while True:
            word = rng.choice(_WORDS)
            step = draw.textlength(word + " ", font=font)
            if x + step > end:
                break
            draw.text((x, y), word, fill=ink, font=font)
            x += step


def draw_page(rng: random.Random, width: int, layout: str, points: float, name: str) -> tuple[Image.Image, float]:
    """Return a page of A4 in proportion and the height of its small letters in pixels."""
    height = round(width * 1.414)
    millimetre = width / 210
    size = max(6, round(points * 0.3528 * millimetre))
    page = Image.new("L", (width, height), rng.randint(235, 255))
    draw, font, ink = ImageDraw.Draw(page), _font(name, size), rng.randint(0, 60)
    margin, pitch = round(20 * millimetre), round(size * rng.uniform(1.2, 1.6))

    def lines(left: int, right: int, top: int, bottom: int, *, ragged: float = 0.9) -> None:
        _write(draw, font, rng, (left, right, top, bottom), pitch=pitch, ink=ink, full=ragged)

    if layout == "letter":
        draw.text((margin, margin), "Insurance Company Limited", fill=ink, font=_font(name, size * 2))
        lines(margin, width // 2, margin + 4 * pitch, margin + 9 * pitch, ragged=0.2)
        lines(margin, width - margin, margin + 12 * pitch, round(height * rng.uniform(0.5, 0.92)))
    elif layout == "columns":
        middle = width // 2
        lines(margin // 2, middle - margin // 4, margin, height - margin)
        lines(middle + margin // 4, width - margin // 2, margin, height - margin)
    elif layout == "form":
        y = margin
        while y + 3 * pitch < height - margin:
            draw.rectangle((margin, y, width - margin, y + round(2.6 * pitch)), outline=ink, width=max(1, size // 14))
            lines(margin + size, margin + (width - 2 * margin) // 2, y + size // 3, y + round(2.4 * pitch), ragged=0.3)
            y += 3 * pitch
    elif layout == "table":
        for row in range(margin, height - margin - pitch, round(1.5 * pitch)):
            for column in range(5):
                x = margin + column * (width - 2 * margin) // 5
                draw.text((x, row), f"{rng.randint(1, 99999) / 100:.2f}", fill=ink, font=font)
            draw.line((margin, row + round(1.35 * pitch), width - margin, row + round(1.35 * pitch)), fill=120)
    else:  # a receipt: a narrow column in the middle of a desk
        lines(width // 3, 2 * width // 3, height // 6, 5 * height // 6, ragged=0.3)
    return page, size * _X_HEIGHT


def _perspective(rng: random.Random, size: tuple[int, int], page: tuple[int, int], tilt: float) -> list[float]:
    (width, height), (page_width, page_height) = size, page
    scale = min(width * 0.88 / page_width, height * 0.88 / page_height)
    half_width, half_height = page_width * scale / 2, page_height * scale / 2
    cosine, sine = np.cos(np.radians(tilt)), np.sin(np.radians(tilt))
    shift = min(width, height) * 0.025
    corners = []
    for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
        along, down = x * half_width, y * half_height
        corners.append(
            (
                width / 2 + along * cosine - down * sine + rng.uniform(-shift, shift),
                height / 2 + along * sine + down * cosine + rng.uniform(-shift, shift),
            )
        )
    sources = ((0, 0), (page_width, 0), (page_width, page_height), (0, page_height))
    rows, values = [], []
    for (x, y), (u, v) in zip(corners, sources, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        values += [u, v]
    return list(np.linalg.solve(np.array(rows, float), np.array(values, float)))


def photograph(rng: random.Random, page: Image.Image, x_height: float, width: int, tilt: float = 0.0) -> Photo:
    """Return the page on a desk, in perspective and by uneven light, without noise."""
    size = width, round(width * 4 / 3)
    grain, roughness = rng.uniform(1, 3), rng.choice((4, 12, 25))
    noise = Image.effect_noise((size[0] // 4, size[1] // 4), 100).filter(ImageFilter.GaussianBlur(grain))
    smooth = np.asarray(noise, np.float32) - 128
    levels = rng.randint(50, 130) + smooth / smooth.std() * roughness
    desk = Image.fromarray(np.clip(levels, 0, 255).astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)
    terms = _perspective(rng, size, page.size, tilt)
    flat = page.transform(size, Image.Transform.PERSPECTIVE, terms, Image.Resampling.BICUBIC, fillcolor=0)
    shape = Image.new("L", page.size, 255).transform(size, Image.Transform.PERSPECTIVE, terms, fillcolor=0)
    desk.paste(flat, (0, 0), shape)
    across, down = np.meshgrid(np.linspace(-1, 1, size[0]), np.linspace(-1, 1, size[1]))
    lamp = rng.uniform(-0.6, 0.6), rng.uniform(-0.6, 0.6)
    light = 1 - rng.uniform(0.1, 0.25) * ((across - lamp[0]) ** 2 + (down - lamp[1]) ** 2)
    lit = Image.fromarray(
        np.clip(np.asarray(desk, np.float32) * light * rng.uniform(0.75, 1.0), 0, 255).astype(np.uint8)
    )
    scale = min(size[0] * 0.88 / page.width, size[1] * 0.88 / page.height)
    return Photo(lit, x_height * scale)


def take(rng: random.Random, picture: Image.Image) -> bytes:
    """Return the JPEG that a telephone makes of what its lens shows: with noise, and compressed."""
    levels = np.asarray(picture, np.float32)
    noise = (
        np.random.default_rng(rng.randrange(2**32)).normal(0, rng.uniform(1.0, 4.0), levels.shape).astype(np.float32)
    )
    taken = Image.fromarray(np.clip(levels + noise, 0, 255).astype(np.uint8)).convert("RGB")
    file = io.BytesIO()
    taken.save(file, "JPEG", quality=rng.randint(75, 93))
    return file.getvalue()


def blurred(photo: Photo, strokes: float) -> Image.Image:
    """Return the photo out of focus: the standard deviation of the blur is that many widths of strokes."""
    return photo.picture.filter(ImageFilter.GaussianBlur(photo.stroke * strokes)) if strokes else photo.picture


def shaken(photo: Photo, strokes: float, *, down: bool) -> Image.Image:
    """Return the photo moved in one direction by that many widths of strokes."""
    length = max(1, round(photo.stroke * strokes))
    levels = np.asarray(photo.picture, np.float32)
    sums = np.cumsum(
        np.pad(levels, ((length, 0), (0, 0)) if down else ((0, 0), (length, 0)), mode="edge"), axis=1 - down
    )
    moved = sums[length:] - sums[:-length] if down else sums[:, length:] - sums[:, :-length]
    return Image.fromarray(np.clip(moved / length, 0, 255).astype(np.uint8))


def darkened(photo: Photo, share: float) -> Image.Image:
    """Return the photo by that share of the light."""
    return photo.picture.point([round(level * share) for level in range(256)])


def smaller(photo: Photo, x_height: float) -> Image.Image:
    """Return the photo reduced until its small letters have that many pixels."""
    share = min(1.0, x_height / photo.x_height)
    width, height = (round(side * share) for side in photo.picture.size)
    return photo.picture.resize((width, height), Image.Resampling.LANCZOS)


_LAYOUTS: Final = ("letter", "columns", "form", "table", "receipt")


def make_photo(number: int, tilt: float | None = None) -> tuple[random.Random, Photo]:
    """Return the photo of a page by its number, and the rest of its chance."""
    rng = random.Random(number)  # noqa: S311  (the same photos each time)
    width = rng.choice((1200, 1600, 2400))
    layout, font = _LAYOUTS[number % len(_LAYOUTS)], rng.choice(_FONTS)
    page, x_height = draw_page(rng, round(width * 0.9), layout, rng.choice((9, 10, 11, 12, 14)), font)
    return rng, photograph(rng, page, x_height, width, rng.uniform(-4, 4) if tilt is None else tilt)


def _judge(facts: dict[str, object], policy: Legible) -> str | None:
    report = Report("jpeg", "image/jpeg", Outcome.OK, Outcome.OK, None, blank=False, detail="", facts=facts)
    finding = illegible(report, policy)
    return None if finding is None else next(iter(finding[1]))


@dataclass(frozen=True)
class Series:
    """One way to spoil a photo, by what amounts, and the fact that shows it."""

    name: str
    amounts: Sequence[float]
    spoil: Callable[[Photo, float], Image.Image]
    fact: str = "sharpness"
    repeat: int = 1  # times the photos of the other series


_SERIES: Final = (
    Series("sharp", (0,), blurred, repeat=10),
    Series("out of focus (standard deviation, strokes)", (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3), blurred),
    Series("shaken along the lines (strokes)", (1, 2, 3, 4, 6), lambda photo, by: shaken(photo, by, down=False)),
    Series("shaken across the lines (strokes)", (1, 2, 3, 4, 6), lambda photo, by: shaken(photo, by, down=True)),
    Series("light (share)", (0.6, 0.4, 0.3, 0.25, 0.2, 0.1), darkened, "exposure"),
    Series("height of small letters (pixels)", (12, 10, 8, 7, 6, 5, 4, 3), smaller, "text_height"),
)
_TILTS: Final = (0, 5, 10, 15, 18, 22, 25, 30, 40)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--count", type=int, default=60, help="photos of each amount")
    arguments = parser.parse_args()
    if arguments.folder is not None:
        _show_folder(arguments.folder)
        return
    milliseconds: list[float] = []
    for series in _SERIES:
        _show(series.name, series.fact, _spoilt(series, arguments.count * series.repeat), milliseconds)
    _show("skew (degrees)", "skew", _tilted(arguments.count), milliseconds)
    print(f"{statistics.median(milliseconds):.0f} ms of processor time, at most {max(milliseconds):.0f}")


def _spoilt(series: Series, count: int) -> Iterator[tuple[float, bytes]]:
    for number in range(count):
        rng, photo = make_photo(number)
        for amount in series.amounts:
            yield amount, take(rng, series.spoil(photo, amount))


def _tilted(count: int) -> Iterator[tuple[float, bytes]]:
    for number in range(count):
        for tilt in _TILTS:
            rng, photo = make_photo(number, tilt)
            yield tilt, take(rng, photo.picture)


def _show(name: str, fact: str, photos: Iterator[tuple[float, bytes]], milliseconds: list[float]) -> None:
    refused: dict[float, Counter[str | None]] = {}
    values: dict[float, list[int]] = {}
    for amount, data in photos:
        picture = Image.open(io.BytesIO(data))
        picture.load()
        began = time.process_time()
        facts = dict(measure_legibility(picture))
        milliseconds.append((time.process_time() - began) * 1000)
        refused.setdefault(amount, Counter())[_judge(facts, Legible())] += 1
        if isinstance(value := facts.get(fact), int):
            values.setdefault(amount, []).append(value)
    print(f"{name:45} refused  of which                                 {fact}: lowest, middle, highest")
    for amount, found in refused.items():
        total, measured = found.total(), sorted(values.get(amount, []))
        why = ", ".join(f"{each} {count}" for each, count in found.most_common() if each)
        middle = (
            f"{measured[0]}, {statistics.median(measured):.0f}, {measured[-1]} of {len(measured)}" if measured else ""
        )
        print(f"{amount:45} {1 - found[None] / total:7.1%}  {why:40}  {middle}", flush=True)
    print()


def _show_folder(folder: Path) -> None:
    refused: Counter[str | None] = Counter()
    sharpness: list[int] = []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        report = inspect_file(path, limits=replace(Limits(), legibility=True))
        kind = format_named(report.format or "")
        if kind is None or kind.family is not Family.PICTURE or "exposure" not in report.facts:
            continue
        why = _judge(dict(report.facts), Legible())
        refused[why] += 1
        if isinstance(value := report.facts["sharpness"], int):
            sharpness.append(value)
        if why:
            print(path.relative_to(folder), why, {name: report.facts.get(name) for name in _MEASURED})
    print(
        f"{refused.total()} pictures, refused: {dict(refused)}; sharpness by tenths: {statistics.quantiles(sharpness, n=10)}"
    )


_MEASURED: Final = ("sharpness", "exposure", "skew", "text_height")


if __name__ == "__main__":
    main()
