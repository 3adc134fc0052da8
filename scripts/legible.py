"""Figures of the policy `legible`: text pages are drawn, photographed, and spoilt by known amounts.

Prints the share that the policy refuses at its defaults, for each amount of blur, shake, darkness, skew and size.
"""

import argparse
import io
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from sluice.contexts.policies import Legible, Policies
from sluice.uploads.policies import illegible
from sluice_inspect.images.legibility import measure_legibility
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Limits

_FONTS: Final = (
    "",
    "DejaVuSerif.ttf",
    "LiberationSerif-Regular.ttf",
    "LiberationSans-Regular.ttf",
    "DejaVuSansMono.ttf",
)
_WORDS: Final = (
    "the invoice of your account was paid on receipt and no further amount is due at this time please keep it with "
    "Policy Number 4711-0815 Claim dated March insured person address street town 12,480.50 EUR total VAT included "
    "we regret that payment could not be made because information about the accident has been incomplete signature"
).split()
_X_HEIGHT: Final = 0.52  # of the size of a font
_STROKE: Final = 1 / 6  # of the height of its small letters


@dataclass(frozen=True)
class Photo:
    """A sharp photo, and how many pixels its small letters are high and their strokes wide."""

    picture: Image.Image
    x_height: float

    @property
    def stroke(self) -> float:
        return self.x_height * _STROKE


def _font(name: str, size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    if name:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            pass
    return ImageFont.load_default(size)


def draw_page(rng: random.Random, width: int, layout: str, points: float, name: str) -> tuple[Image.Image, float]:
    """Return a page of A4 in proportion and the height of its small letters in pixels."""
    height = round(width * 1.414)
    millimetre = width / 210
    size = max(6, round(points * 0.3528 * millimetre))
    page = Image.new("L", (width, height), rng.randint(235, 255))
    draw, font, ink = ImageDraw.Draw(page), _font(name, size), rng.randint(0, 60)
    margin, pitch = round(20 * millimetre), round(size * rng.uniform(1.2, 1.6))

    def lines(left: int, right: int, top: int, bottom: int, *, ragged: float = 0.9) -> None:
        y = top
        while y + pitch < bottom:
            if rng.random() < 0.08:
                y += pitch
                continue
            x, end = left, right if rng.random() < ragged else left + (right - left) * rng.uniform(0.2, 0.9)
            while True:
                word = rng.choice(_WORDS)
                step = draw.textlength(word + " ", font=font)
                if x + step > end:
                    break
                draw.text((x, y), word, fill=ink, font=font)
                x += step
            y += pitch

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
    desk = Image.effect_noise((size[0] // 8, size[1] // 8), rng.choice((5, 15, 30))).resize(
        size, Image.Resampling.BICUBIC
    )
    desk = desk.point([round(level * rng.uniform(0.3, 0.7)) for level in range(256)])
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
    return photo.picture.point([round(level * share) for level in range(256)])
