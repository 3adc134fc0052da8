"""Sheets of paper, what handling leaves on them, and the devices that picture them, for scan_judging.py."""
# Written without knowledge of the rule and of scan_samples.py, whose pictures the rule was developed with. A picture is
# (sheet, or what lies behind it) times light times exposure; then the blur of the lens, noise, and JPEG. Lengths are in
# millimetres, an edge is 0 to 3 for left, top, right and bottom, and white is 1.

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from .scan_samples import Scan

Plane = NDArray[np.float32]
Shape = Callable[[ImageDraw.ImageDraw, float], None]  # draws itself; the number is the pixels per millimetre
Point = tuple[float, float]
T = TypeVar("T")

PROSE: Final = """the order of your account we have received on Monday please send this form to our office before the
 payment contract is due Herr und die Rechnung vom Betrag Summe bitte wenn nicht für eine Lieferung le client doit
 signer avec delivery address number total amount insurance invoice copy thanks 2024 17.05. 1,250.00 No. EUR"""
WORDS: Final = tuple(PROSE.split())
BLUES: Final = ((0.12, 0.16, 0.5), (0.1, 0.2, 0.62), (0.2, 0.2, 0.42))
BLACKS: Final = ((0.08, 0.08, 0.09), (0.15, 0.15, 0.17), (0.25, 0.24, 0.24))
# Letters of a joined hand: points to the right and upwards, in heights of a small letter.
_LETTERS: Final = (
    ((0, 0), (0.1, 1), (0.35, 0), (0.45, 1), (0.7, 0)),
    ((0, 0), (0.4, 2.1), (0.22, 2.4), (0.15, 0.3), (0.4, 0)),
    ((0.5, 0.9), (0.1, 0.6), (0.4, 0.1), (0.5, 0.9), (0.45, -1.1), (0.1, -1.2), (0.7, 0.1)),
    ((0.5, 0.9), (0.05, 0.5), (0.3, 0), (0.6, 0.5), (0.45, 0.95), (0.7, 0.8)),
    ((0, 0.2), (0.5, 0.6), (0.3, 1), (0.05, 0.4), (0.35, 0), (0.6, 0.15)),
    ((0, 1), (0.1, 0.1), (0.35, 0), (0.5, 1), (0.6, 0)),
)


@functools.cache
def _font(size: int) -> Any:
    return ImageFont.load_default(size)


def label(at: Point, text: str, size: float, anchor: str = "ls") -> Shape:
    def shape(pen: ImageDraw.ImageDraw, scale: float) -> None:
        font = _font(max(round(size * scale), 6))
        pen.text((at[0] * scale, at[1] * scale), text, fill=255, font=font, anchor=anchor)

    return shape


def stroke(points: Sequence[Point], width: float, value: int = 255) -> Shape:
    """Return a line with round ends."""

    def shape(pen: ImageDraw.ImageDraw, scale: float) -> None:
        thick = max(width * scale, 1)
        placed = [(x * scale, y * scale) for x, y in points]
        pen.line(placed, fill=value, width=round(thick), joint="curve")
        for x, y in (placed[0], placed[-1]) if thick > 2 else ():
            pen.ellipse([x - thick / 2, y - thick / 2, x + thick / 2, y + thick / 2], fill=value)

    return shape


def area(
    how: str,
    at: Point,
    wide: float,
    high: float | None = None,
    value: int | None = 255,
    *,
    line: float = 0,
    **more: float,
) -> Shape:
    """Return an ellipse, rectangle, pieslice or rounded_rectangle around a point."""

    def shape(pen: ImageDraw.ImageDraw, scale: float) -> None:
        half = (wide * scale / 2, (wide if high is None else high) * scale / 2)
        box = [at[0] * scale - half[0], at[1] * scale - half[1], at[0] * scale + half[0], at[1] * scale + half[1]]
        outline = {"outline": 255, "width": max(round(line * scale), 1)} if line else {}
        more_scaled = {name: amount * scale if name == "radius" else amount for name, amount in more.items()}
        getattr(pen, how)(box, fill=value, **outline, **more_scaled)

    return shape


def curve(points: Sequence[Point]) -> list[Point]:
    """Return a Catmull-Rom spline through the points."""
    ends = np.array([points[0], *points, points[-1]], np.float64)
    t = np.linspace(0, 1, 9)[:-1, None]
    parts = [
        0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3)
        for a, b, c, d in zip(ends, ends[1:], ends[2:], ends[3:], strict=False)
    ]
    return [(float(x), float(y)) for x, y in np.concatenate([*parts, ends[-1:]])]


class Picture:
    """A picture under construction: of a sheet on a flatbed, in a feeder or before a phone, a photo, or a screen."""

    def __init__(self, random: np.random.Generator, device: str = "", size: tuple[int, int] | None = None) -> None:
        self.random = random
        self.device = device or self.pick(["flatbed", "feeder", "feeder", "phone"])
        self.written = False  # then the margins are kept narrow, so that what is written is seen
        shares = [0.2, 0.16, 0.25, 0.12, 0.2, 0.04, 0.01, 0.02]
        self.dpi = int(random.choice([75, 90, 100, 120, 150, 200, 240, 300], p=shares))
        if size:
            self.dpi = min(self.dpi, 120 if max(size) < 500 else 75)
        sizes = [(210, 297)] * 5 + [(216, 279)] * 2 + [(216, 356), (148, 210), (148, 210), (176, 250)]
        self.across, self.down = size or self.pick(sizes)[:: self.pick([1, 1, 1, 1, -1])]
        self.scale = self.dpi / 25.4
        self.width, self.height = round(self.across * self.scale), round(self.down * self.scale)
        self.paper: Plane = np.ones((self.height, self.width, 3), np.float32)
        self.sheet: Plane = np.ones((self.height, self.width), np.float32)  # 0 where what is behind is seen
        self.light: Plane = np.ones((self.height, self.width), np.float32)
        self.x: Plane = (np.arange(self.width, dtype=np.float32)[None, :] + 0.5) / np.float32(self.scale)
        self.y: Plane = (np.arange(self.height, dtype=np.float32)[:, None] + 0.5) / np.float32(self.scale)
        self.grey = self.device in {"flatbed", "feeder"} and self.chance(0.4)
        self.quality = int(random.integers(40, 96))
        self.tint = (1 + random.normal(0, 0.006, 3)).astype(np.float32)
        self.noise, self.blur, self.sharpened = self.span(0.2, 1.8), self.span(0.2, 0.6), self.chance(0.3)
        self.level = self.span(0.88, 0.99)
        if self.device == "phone":
            self.tint *= np.array(self.pick([(1, 0.98, 0.93), (1, 0.94, 0.82), (0.96, 0.99, 1), (1, 1, 1)]), np.float32)
            self.level, self.noise, self.blur = self.span(0.62, 0.95), self.span(0.6, 3), self.span(0.3, 1)
        elif self.device in {"photo", "screen"}:
            self.level, self.noise = 1.0, self.span(0.5, 2.5) if self.device == "photo" else 0.0
        elif self.chance(0.25):
            self.level = self.span(1.01, 1.07)  # the scanner makes the paper white
        lids = [(0.03, 0.15), (0.03, 0.15), (0.4, 0.75), (0.85, 0.98)]
        self.behind = np.full(3, self.span(*self.pick(lids if self.device == "feeder" else lids[1:] + lids[3:])))
        if self.device in {"flatbed", "feeder", "phone"}:
            stocks = [(1, 1, 1)] * 16 + [(1, 0.98, 0.93), (0.94, 0.93, 0.9), (1, 0.97, 0.75), (0.86, 0.95, 0.86)]
            self.paper *= np.array(self.pick([*stocks, (1, 0.88, 0.9), (0.85, 0.92, 1)]), np.float32)
            self.paper *= (1 + self.span(0.0005, 0.004) * self.grain(self.span(0.3, 1.5)))[..., None]

    def span(self, low: float, high: float) -> float:
        """Return a number between the two."""
        return float(self.random.uniform(low, high))

    def chance(self, share: float) -> bool:
        """Return true in such a share of cases."""
        return bool(self.random.random() < share)

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[int(self.random.integers(len(items)))]

    def anywhere(self) -> Point:
        """Return a point of the picture."""
        return self.span(0, self.across), self.span(0, self.down)

    def spot(self, wide: float, high: float, margin: float = 22) -> Point:
        """Return a place for something so large that is off the margins."""
        right, bottom = self.across - margin - wide, self.down - margin - high
        return self.span(min(margin, right), right), self.span(min(margin, bottom), bottom)

    def grain(self, cell: float, along: float = 0.0) -> Plane:
        """Return smooth noise of spread 1 whose waves are `cell` wide, and `along` high if that is given."""
        high, wide = (max(length * self.scale, 1) for length in (along or cell, cell))
        shape = (math.ceil(self.height / high) + 3, math.ceil(self.width / wide) + 3)
        coarse = Image.fromarray(self.random.normal(0, 1, shape).astype(np.float32))
        box = (1, 1, 1 + self.width / wide, 1 + self.height / high)
        return np.asarray(coarse.resize((self.width, self.height), Image.Resampling.BICUBIC, box))

    def clouds(self, cell: float) -> Plane:
        """Return noise of waves of several sizes."""
        return sum((self.grain(cell / 2**i) / 2**i for i in range(5)), np.zeros_like(self.sheet))

    def mask(self, shapes: Iterable[Shape], blur: float = 0, angle: float = 0, centre: Point = (0, 0)) -> Plane:
        """Return where the shapes are, turned and blurred."""
        factor = min(2 if self.dpi <= 150 else 1, 4 / max(blur * self.scale, 0.01))
        scale = self.scale * factor
        image = Image.new("L", (max(round(self.width * factor), 1), max(round(self.height * factor), 1)))
        pen = ImageDraw.Draw(image)
        for shape in shapes:
            shape(pen, scale)
        if angle:
            image = image.rotate(angle, Image.Resampling.BICUBIC, center=(centre[0] * scale, centre[1] * scale))
        if blur:
            image = image.filter(ImageFilter.GaussianBlur(blur * scale))
        way = Image.Resampling.BICUBIC if factor < 1 else Image.Resampling.BOX
        return np.clip(np.asarray(image.convert("F").resize((self.width, self.height), way)) / np.float32(255), 0, 1)

    def ink(self, mask: Plane, colour: ArrayLike) -> None:
        """Print such a colour, or part of white, through the mask."""
        self.paper *= 1 - mask[..., None] * (1 - np.asarray(colour, np.float32))

    def shade(self, mask: NDArray[Any], depth: float) -> None:
        """Take so much of the light where the mask is."""
        self.light *= 1 - np.float32(depth) * mask.astype(np.float32)

    def fill(self, share: NDArray[Any], low: ArrayLike, high: ArrayLike) -> None:
        """Paint all from one colour to the other by the share."""
        first, last = np.asarray(low, np.float32), np.asarray(high, np.float32)
        self.paper[:] = first + np.broadcast_to(share, self.sheet.shape)[..., None] * (last - first)

    def from_edge(self, edge: int, angle: float = 0) -> Plane:
        """Return the distance of each point from an edge of the sheet, rotated by `angle` radians."""
        x, y = self.x - self.across / 2, self.y - self.down / 2
        x, y = x + angle * y, y - angle * x
        distances = x + self.across / 2, y + self.down / 2, self.across / 2 - x, self.down / 2 - y
        return np.broadcast_to(distances[edge], self.sheet.shape)

    def along(self, edge: int, inwards: float, at: float) -> Point:
        """Return the point at such a position along an edge."""
        return ((inwards, at), (at, inwards), (self.across - inwards, at), (at, self.down - inwards))[edge]

    def prose(self, box: tuple[float, float, float, float], size: float) -> list[Shape]:
        """Return paragraphs that fill a box."""
        left, y, right, bottom = box
        lines = []
        while (y := y + size) < bottom:
            short = self.chance(0.2)
            letters = (right - left) / (0.52 * size) * (self.span(0.2, 0.9) if short else 1)
            line = self.pick(WORDS)
            while len(line) + len(word := self.pick(WORDS)) < letters:
                line += " " + word
            lines.append(label((left, y), line, size))
            y += size * (self.pick([0.35, 1.4]) if short else 0.35)
        return lines

    def hand(self, at: Point, letters: int, height: float) -> list[Point]:
        """Return the line of a joined hand."""
        points = []
        slant, x = self.span(-0.05, 0.45), 0.0
        for i in range(letters):
            grow = self.span(0.85, 1.15) * (1.6 if i == 0 and self.chance(0.6) else 1)
            for right, up in self.pick(_LETTERS):
                high = up * grow + self.random.normal(0, 0.06)
                points.append((at[0] + height * (x + right * grow + slant * high), at[1] - height * high))
            x += 0.8 * grow
        return curve(points)

    def write(self, lines: Iterable[Sequence[Point]], width: float, colour: ArrayLike) -> None:
        """Draw lines with a pen."""
        pressure = np.clip(1 + self.span(0, 0.15) * self.grain(4), 0.6, 1)
        self.ink(self.mask(stroke(points, width) for points in lines) * pressure, colour)

    def print(self, text: str, at: Point, size: float, anchor: str = "ls", angle: float = 0) -> None:
        """Print a line in black or blue."""
        self.ink(self.mask([label(at, text, size, anchor)], 0, angle, at), self.pick([*BLACKS, *BLACKS, *BLUES]))

    def finish(self, kind: str) -> Scan:
        """Return the picture as its device stores it."""
        behind = self.behind.astype(np.float32)
        if self.device == "phone" and float(self.sheet.min()) < 1:
            wood = 1 + self.span(0, 0.15) * self.grain(self.span(2, 6), self.span(2, 150))
            desk = self.pick([(0.55, 0.38, 0.25), (0.2, 0.18, 0.17), (0.75, 0.6, 0.45), (0.8, 0.8, 0.8)])
            behind = wood[..., None] * np.array(desk, np.float32)
        seen = self.paper * self.sheet[..., None] + behind * (1 - self.sheet[..., None])
        seen *= self.light[..., None] * np.float32(self.level * 255) * self.tint
        image = Image.fromarray(np.clip(seen + 0.5, 0, 255).astype(np.uint8))
        if self.device != "screen":
            seen = np.asarray(image.filter(ImageFilter.GaussianBlur(self.blur)), np.float32)
            own = self.random.standard_normal(seen.shape, np.float32)
            common = self.random.standard_normal((self.height, self.width, 1), np.float32)
            columns = self.span(0, 0.5) * self.random.standard_normal((1, self.width, 1), np.float32)
            camera = self.device in {"phone", "photo"}
            strength = self.noise * (0.6 + 0.4 * np.sqrt(seen / 255) if camera else np.ones_like(seen))
            seen = seen + strength * (0.8 * common + 0.6 * own) + (0 if camera else columns)
            image = Image.fromarray(np.clip(seen + 0.5, 0, 255).astype(np.uint8))
            if self.sharpened:
                image = image.filter(ImageFilter.UnsharpMask(self.span(0.6, 1.5), round(self.span(30, 110)), 0))
        stated = 72 if self.device in {"photo", "screen"} or (self.device == "phone" and self.chance(0.5)) else self.dpi
        return Scan(kind, image.convert("L") if self.grey else image, self.quality, stated)


class Traces(Picture):
    """What handling leaves on a sheet, and light."""

    def edge_shadow(self) -> None:
        angle = self.span(-0.008, 0.008)
        for edge in self.random.permutation(4)[: self.random.integers(1, 4)]:
            distance, width = self.from_edge(int(edge), angle), self.span(1.5, 6 if self.written else 15)
            near = np.maximum(distance / np.float32(width), 0)
            forms = [np.exp(-2 * near), np.clip(1 - near, 0, 1), np.exp(-2 * near**2)]
            self.shade(self.pick(forms), self.span(0.1, 0.75))
            if self.chance(0.25):
                self.sheet *= np.clip((distance - self.span(0.2, 2)) * self.scale, 0, 1)

    def lid_border(self) -> None:
        angle = self.span(-0.025, 0.025) * (0.3 if self.written else 1)
        light_from, sure = self.random.integers(4, size=2)
        for edge in range(4):
            if edge == sure or self.chance(0.5):
                widest = self.pick([4, 8] if self.written else [4, 8, 8, 25])
                inside = self.from_edge(edge, angle) - np.float32(self.span(1, widest))
                self.sheet *= np.clip(inside * self.scale + 0.5, 0, 1)
                if edge == light_from or self.chance(0.4):
                    shadow = np.exp(-np.abs(inside) / np.float32(self.span(0.2, 1.2))) * (inside < 0.2)
                    self.shade(shadow, self.span(0.2, 0.6))

    def lamp(self) -> None:
        across, down = self.x / self.across, self.y / self.down
        turn, shape = self.span(0, 2 * math.pi), int(self.random.integers(6))
        slope = 0.5 + 0.5 * (math.cos(turn) * (2 * across - 1) + math.sin(turn) * (2 * down - 1)) / 1.42
        if shape == 0:  # from one side
            fall = slope
        elif shape == 1:  # a lamp above one point
            x, y = self.anywhere()
            fall = 1 - 1 / (1 + ((self.x - x) ** 2 + (self.y - y) ** 2) / self.down**2 * self.span(1, 6))
        elif shape == 2:  # a window
            fall = 1 - 1 / (1 + self.span(0.6, 2.5) * slope) ** 2
        elif shape == 3:  # the lamp warms up while it moves, or is dim at an end
            fall = np.exp(-(down if self.chance(0.5) else across) * self.span(2, 8))
        elif shape == 4:  # the sheet is not flat
            fall = 0.5 + 0.5 * np.sin(slope * self.span(2, 7) + self.span(0, 6))
        else:  # two lamps
            fall = (2 * across - 1) ** 2 * self.span(0.3, 1) + (2 * down - 1) ** 2 * self.span(-0.3, 0.6)
        self.shade(np.clip(fall, -0.2, 1), self.span(0.06, 0.45 if self.device == "phone" else 0.25))

    def _holes(self, centres: Iterable[Point], wide: float, how: str = "ellipse") -> None:
        """Cut holes; light from one side leaves a shadow in them."""
        mask = self.mask(area(how, at, wide) for at in centres)
        self.sheet *= 1 - mask
        step = max(round(self.span(0.2, 0.9) * self.scale), 1)
        self.shade(mask * (1 - np.roll(mask, (step, self.pick([-step, 0, step])), (0, 1))), self.span(0.2, 0.7))
        self.shade(mask, self.span(0, 0.3))

    def punch_holes(self) -> None:
        edge = self.pick([0, 0, 0, 0, 2, 2, 1, 3])
        length = self.across if edge % 2 else self.down
        two, four, three, six = (-40, 40), (-120, -40, 40, 120), (-108, 0, 108), (-70, -51, -32, 32, 51, 70)
        gaps = self.pick([two, two, two, four, three, (-35, 35), six])
        inwards, wide = self.span(8, 14), self.span(5.2, 6.8) if gaps != three else self.span(6.2, 8)
        for _ in range(self.pick([1, 1, 1, 1, 1, 2])):  # some are punched twice
            middle, skew = length / 2 + self.span(-5, 5), self.span(-0.015, 0.015)
            away = inwards + self.span(-1.5, 1.5)
            inside = [gap for gap in gaps if 4 < middle + gap < length - 4]
            self._holes([self.along(edge, away + skew * gap, middle + gap) for gap in inside], wide)

    def _crease(self, distance: Plane, strength: float) -> None:
        """Fold the sheet where the distance is 0: a worn line, a side in light and one in shade, and tilted panels."""
        wide, side = self.span(0.5, 4), self.pick([-1, 1])
        worn = (0.8 + 0.3 * self.grain(25)) * np.exp(-((distance / np.float32(self.span(0.15, 0.5))) ** 2))
        bent = distance / np.float32(wide) * np.exp(-((distance / np.float32(wide)) ** 2))
        tilted = np.clip(distance, -1, 1) * np.exp(-np.abs(distance) / np.float32(self.span(15, 60)))
        self.shade(self.span(-0.3, 1) * worn + side * (bent + self.span(0, 0.4) * tilted), strength)

    def _fold(self, places: Sequence[float], strength: float, edge: int) -> None:
        for place in places:
            line = (self.across, self.down)[edge] * place + self.span(-3, 3)
            distance = self.from_edge(edge, self.span(-0.006, 0.006)) - np.float32(line)
            self._crease(distance + self.span(0, 0.25) * self.grain(30), strength * self.span(0.6, 1.2))

    def folds(self) -> None:
        places = self.pick([(0.5,), (0.333, 0.667), (0.333, 0.667), (0.25, 0.5, 0.75), (self.span(0.2, 0.8),)])
        self._fold(places, self.span(0.02, 0.16), 0 if self.across > self.down or self.chance(0.2) else 1)

    def crossfolds(self) -> None:
        strength = self.span(0.02, 0.14)
        for edge in (0, 1):
            self._fold(self.pick([(0.5,), (0.5,), (0.333, 0.667), (0.25, 0.5, 0.75)]), strength, edge)

    def staples(self) -> None:
        right, low = self.chance(0.3), self.chance(0.15)
        for _ in range(self.pick([1, 1, 1, 2])):
            x, y = self.span(6, 18), self.span(5, 16)
            x, y = self.across - x if right else x, self.down - y if low else y
            half, turn = self.pick([6.2, 6.2, 4.5]), self.pick([0, 0.25, 0.5]) * math.pi * (1 if right == low else -1)
            step = half * math.cos(turn + self.span(-0.15, 0.15)), -half * math.sin(turn)
            ends = [(x - step[0], y + step[1]), (x + step[0], y - step[1])]
            if self.chance(0.5):
                thick = self.span(0.45, 0.75)
                wire = self.mask([stroke(ends, thick)])
                self.shade(np.roll(wire, max(round(thick * self.scale), 1), 0) * (1 - wire), self.span(0.15, 0.5))
                metals = [(0.45, 0.45, 0.47), (0.62, 0.62, 0.64), (0.25, 0.24, 0.24), (0.6, 0.42, 0.25)]
                self.ink(wire, self.pick(metals))
            else:
                self._holes(ends, self.span(0.6, 1.2))
                dent = self.mask([stroke(ends, self.span(0.5, 1.5))], self.span(0.2, 0.6))
                self.shade(dent, self.span(-0.05, 0.12))
        if self.chance(0.25):
            self.turned_corner((right, low))

    def turned_corner(self, corner: tuple[bool, bool] | None = None) -> None:
        right, low = corner or (self.chance(0.3), self.chance(0.15))
        legs = self.span(8, 34), self.span(8, 34)
        x0, x1 = (self.across, self.across - legs[0]) if right else (0, legs[0])
        y0, y1 = (self.down, self.down - legs[1]) if low else (0, legs[1])
        away = math.hypot(*legs)
        normal = legs[1] / away * (-1 if right else 1), legs[0] / away * (-1 if low else 1)
        distance = (self.x - x1) * np.float32(normal[0]) + (self.y - y0) * np.float32(normal[1])
        if self.chance(0.4):  # turned back
            self._crease(distance, self.span(0.03, 0.18))
            return
        self.sheet *= np.clip(distance * self.scale + 0.5, 0, 1)
        fold = 2 * legs[0] * legs[1] / away
        flap = [(x1, y0), (x0, y1), (x0 + fold * normal[0], y0 + fold * normal[1])]
        shape: Shape = lambda pen, scale: pen.polygon([(x * scale, y * scale) for x, y in flap], fill=255)  # noqa: E731
        mask = self.mask([shape])
        self.shade(np.clip(self.mask([shape], self.span(0.4, 2)) * (1 - mask) * 2, 0, 1), self.span(0.08, 0.5))
        self.paper *= 1 + mask[..., None] * self.span(-0.06, 0.03)

    def bleed_through(self) -> None:
        margin, top, bottom = self.span(15, 28), self.span(15, 60), self.down * self.pick([0.35, 0.6, 0.9, 0.9])
        lines = self.prose((margin, top, self.across - margin, bottom), self.span(2.8, 4.4))
        mask = self.mask(lines, self.span(0.15, 0.5))[:, ::-1]
        self.ink(mask * (1 + 0.15 * self.grain(20)), 1 - self.span(0.02, 0.11))

    def bleed_box(self) -> None:
        columns, rows, line = self.pick([1, 2, 3, 5]), self.pick([1, 1, 3, 8]), self.span(0.3, 1)
        wide, high = self.span(40, self.across - 40) / columns, self.span(25, self.down * 0.5) / rows
        x, y = self.spot(wide * columns, high * rows, 15)
        head = self.pick([None, None, 120, 255])
        cells = [
            area("rectangle", (x + wide * (i + 0.5), y + high * (k + 0.5)), wide, high, None if k else head, line=line)
            for i in range(columns)
            for k in range(rows)
        ]
        self.ink(self.mask(cells, self.span(0.15, 0.6)), 1 - self.span(0.02, 0.1))

    def phone_shadow(self) -> None:
        grow, at = self.span(1, 2.4), (self.span(0, self.across), self.span(0.3, 1.1) * self.down)
        shape = area("rounded_rectangle", at, 75 * grow, 150 * grow, radius=9 * grow)
        self.shade(self.mask([shape], self.span(3, 25), self.span(-50, 50), at), self.span(0.08, 0.45))

    def hand_shadow(self) -> None:
        edge, grow = self.pick([0, 2, 3, 3]), self.span(0.8, 1.6)
        x, y = self.along(edge, self.span(5, 60), self.span(0.2, 0.8) * (self.across if edge == 3 else self.down))
        towards = (0, math.pi / 2, math.pi, -math.pi / 2)[edge] + self.span(-0.5, 0.5)
        shapes = [area("ellipse", (x, y), 74 * grow)]
        limbs = [
            (0.25 * (i - 1.5) + self.span(-0.1, 0.1), self.span(75, 105), 18.0) for i in range(self.pick([1, 3, 4]))
        ]
        for turn, length, wide in [*limbs, (math.pi, 260.0, 60.0)]:
            aside, turned = 0 if wide > 18 else 90 * turn * grow, towards + turn
            start = (x - aside * math.sin(towards), y + aside * math.cos(towards))
            end = (start[0] + grow * length * math.cos(turned), start[1] + grow * length * math.sin(turned))
            shapes.append(stroke([start, end], wide * grow))
        self.shade(self.mask(shapes, self.span(3, 16)), self.span(0.08, 0.45))

    def streaks(self) -> None:
        for _ in range(self.random.integers(1, 7)):
            at, wide = self.span(4, self.across - 4), self.span(0.1, 0.7) if self.chance(0.85) else self.span(1, 4)
            line = np.exp(-(((self.x - at) / np.float32(wide / 1.7)) ** 2)) * np.ones_like(self.y)
            if self.chance(0.25):  # the dirt moved
                ramp = np.clip((self.y - self.span(0, self.down)) / np.float32(self.span(1, 20)), 0, 1)
                line = line * (ramp if self.chance(0.5) else 1 - ramp)
            depth = self.span(0.04, 0.6) if wide < 0.7 else self.span(0.02, 0.1)
            colour = self.pick([(1, 1, 1), (1, 1, 1), (1, 1, 0.2), (0.3, 1, 0.4), (-0.5, -0.5, -0.5)])
            broken = np.clip(line * (1 + self.span(0, 0.3) * self.grain(20, 5)), 0, 1)
            self.ink(broken, 1 - depth * np.array(colour))

    def crumpled(self) -> None:
        bend = self.span(1, 5)
        x, y = self.x + bend * self.grain(40), self.y + bend * self.grain(40)
        nearest, second, shade = np.full_like(x, 1e9), np.full_like(x, 1e9), np.zeros_like(x)
        for _ in range(self.random.integers(8, 45)):
            (right, low), (level, across, down) = self.anywhere(), self.random.normal(0, 1, 3).astype(np.float32)
            away = np.hypot(x - np.float32(right), y - np.float32(low))
            tilted = 0.5 * level + (across * (x - right) + down * (y - low)) / 30
            second = np.minimum(second, np.maximum(away, nearest))
            shade, nearest = np.where(away < nearest, tilted, shade), np.minimum(nearest, away)
        ridge = np.exp(-(second - nearest) / np.float32(self.span(0.5, 2))) * self.grain(30)
        self.shade(np.clip(0.6 * shade + 0.8 * ridge + 0.2 * self.clouds(20), -0.5, 3), self.span(0.02, 0.13))
        self.level = min(self.level, self.span(0.88, 0.96))

    def vignette(self) -> None:
        x, y = self.across * self.span(0.4, 0.6), self.down * self.span(0.4, 0.6)
        far = ((self.x - x) ** 2 + (self.y - y) ** 2) / (self.across**2 + self.down**2) * 4
        self.light *= (1 + self.span(0.1, 0.45) * far) ** -self.span(1, 2)
        self.tint[1] *= self.span(0.97, 1.01)

    def dust(self) -> None:
        shapes, largest = [], self.span(0.25, 0.9)
        for _ in range(round(10 ** self.span(0.8, 2.3))):
            wide, high = largest * self.random.beta(1.3, 2.8, 2)
            shapes.append(area("ellipse", self.anywhere(), wide, high, int(self.span(60, 255))))
        for _ in range(self.pick([0, 0, 1, 2, 4])):
            hair, turn = [self.anywhere()], self.span(0, 6.28)
            for _ in range(3):
                turn, step = turn + self.span(-0.8, 0.8), self.span(0.4, 2)
                hair.append((hair[-1][0] + step * math.cos(turn), hair[-1][1] + step * math.sin(turn)))
            shapes.append(stroke(curve(hair), self.span(0.05, 0.12), int(self.span(60, 160))))
        self.ink(self.mask(shapes), self.span(0.3, 0.85))

    def spiral_pad(self) -> None:
        edge, pitch, inwards = self.pick([0, 0, 1, 1, 2]), self.pick([8.47, 8.47, 6.35, 12.7]), self.span(4.5, 8)
        places = np.arange(self.span(4, 10), (self.across if edge % 2 else self.down) - 3, pitch).tolist()
        wide, fate = self.span(3.4, 4.8) if pitch > 7 else self.span(2.4, 3.6), self.pick(["", "torn", "torn", "wired"])
        self._holes([self.along(edge, inwards, at) for at in places], wide, self.pick(["ellipse", "rectangle"]))
        turn, thick = (self.span(-1.5, 1.5), 0.9) if fate == "wired" else (0, self.span(1, wide))
        outwards = [stroke([self.along(edge, inwards, at), self.along(edge, -2, at + turn)], thick) for at in places]
        mask = self.mask(outwards)
        if fate == "torn":
            self.sheet *= 1 - mask
        elif fate == "wired":
            self.sheet = np.maximum(self.sheet, mask)
            self.ink(mask, self.span(0.2, 0.8))

    def heavy_jpeg(self) -> None:
        self.noise, self.quality = self.noise * self.span(1, 2), int(self.span(40, 50))
        self.level *= self.span(0.85, 1)
        if self.chance(0.6):
            self.lamp()
