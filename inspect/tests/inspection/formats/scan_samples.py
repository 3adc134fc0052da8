"""Draw empty pages as scanners and phones make them, and pages and photos with little on them, by kind and seed."""
# A page is paper (1 is white) times light, plus what lies on it; then noise, and JPEG. Lengths are in millimetres.
# `wide` widens the ranges and adds shapes of light. What the rules are scored with is drawn by scan_judging.py.

import io
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFilter

Plane = NDArray[np.float32]

_WORDS: Final = ("Approved", "Müller", "see over", "yes", "12.50", "Tuesday", "ok", "Anna", "void", "paid 3/4")


@dataclass(frozen=True, slots=True)
class Scan:
    """One drawn picture: `kind` names what is on it."""

    kind: str
    image: Image.Image
    quality: int
    dpi: int
    more: tuple[Image.Image, ...] = ()  # further pages

    def encoded(self, plugin: str) -> bytes:
        """Return the picture in a file: JPEG by its quality, PDF with such a JPEG on its page, or as the plugin does.

        Several pages are a PDF or a TIFF.
        """
        out = io.BytesIO()
        if self.more:
            plugin = plugin if plugin in {"PDF", "TIFF"} else "PDF"
        options: dict[str, Any] = {"quality": self.quality} if plugin in {"JPEG", "WEBP", "PDF"} else {}
        options |= {"resolution": self.dpi} if plugin == "PDF" else {"dpi": (self.dpi,) * 2}
        image = self.image.convert("RGB") if self.image.mode == "P" and plugin in {"JPEG", "PDF"} else self.image
        if self.more:
            options |= {"save_all": True, "append_images": self.more}
        image.save(out, plugin, **options)
        return out.getvalue()


class _Sheet:
    """A sheet of paper under construction."""

    def __init__(self, random: np.random.Generator, *, wide: bool) -> None:
        self.random, self.wide = random, wide
        self.phone = bool(random.random() < 0.35)
        self.dpi = int(random.choice([75, 100, 150, 200, 300], p=[0.25, 0.4, 0.25, 0.08, 0.02]))
        sides = [(210, 297), (216, 279), *([(176, 250), (216, 330)] if wide else [(148, 210)])]
        size = sides[int(random.integers(len(sides)))]
        if random.random() < 0.2:
            size = size[::-1]
        self.scale = self.dpi / 25.4 * (210 / min(size) if self.phone else 1)
        self.width, self.height = (round(side * self.scale) for side in size)
        self.size = size
        y, x = np.mgrid[0 : self.height, 0 : self.width].astype(np.float32)
        self.x, self.y = x / self.scale, y / self.scale  # millimetres
        self.light: Plane = np.ones((self.height, self.width), dtype=np.float32)
        self.ink: Plane = np.zeros((self.height, self.width), dtype=np.float32)  # share of the light that is absorbed
        self.tint = np.array([1.0, 1.0, 1.0], dtype=np.float32)
        self.white = float(random.uniform(215, 252))
        self.noise = float(random.uniform(0.6, 2.5) * (1.8 if self.phone else 1))
        self.colour = bool(self.phone or random.random() < 0.5)
        self.layers: list[tuple[Image.Image, tuple[int, int, int]]] = []
        self.quality = int(random.integers(60, 95))
        if self.colour:
            warm = random.uniform(-0.04, 0.10)
            self.tint = np.array([1.0, 1 - warm * 0.4, 1 - warm], dtype=np.float32)
        if self.phone:  # no phone lights evenly
            _lamp(self, 12 + 20 * random.random())

    def between(self, low: float, high: float) -> float:
        return float(self.random.uniform(low, high))

    def canvas(self) -> tuple[Image.Image, ImageDraw.ImageDraw]:
        mask = Image.new("L", (self.width, self.height), 0)
        return mask, ImageDraw.Draw(mask)

    def add_ink(self, mask: Image.Image, strength: float, blur: float = 0.0) -> None:
        """Darken where the mask is, by a share of the light; `blur` in millimetres."""
        if blur:
            mask = mask.filter(ImageFilter.GaussianBlur(blur * self.scale))
        self.ink = np.maximum(self.ink, np.asarray(mask, dtype=np.float32) * (strength / 255))

    def finish(self, kind: str) -> Scan:
        grey = self.white * self.light * (1 - np.clip(self.ink, 0, 1))
        planes = np.stack([grey * share for share in (self.tint if self.colour else (1.0,))], axis=-1)
        for mask, colour in self.layers:
            share = np.asarray(mask, dtype=np.float32)[..., None] / 255
            planes = planes * (1 - share * (1 - np.array(colour[: planes.shape[-1]], dtype=np.float32) / 255))
        planes += self.random.normal(0, self.noise, planes.shape).astype(np.float32)
        pixels = np.clip(planes, 0, 255).round().astype(np.uint8)
        return Scan(kind, Image.fromarray(pixels if self.colour else pixels[..., 0]), self.quality, self.dpi)


# What scanners and phones leave on an empty page


def _edge_shadow(sheet: _Sheet) -> None:
    for edge in sheet.random.permutation(4)[: int(sheet.random.integers(1, 4))]:
        across, side = (sheet.x, sheet.size[0]) if edge < 2 else (sheet.y, sheet.size[1])
        along, length = (sheet.y, sheet.size[1]) if edge < 2 else (sheet.x, sheet.size[0])
        distance = across if edge % 2 == 0 else side - across
        depth, soft = sheet.between(1.5, 9), sheet.between(0.4, 3.5)
        skew = sheet.between(-4, 4) if sheet.random.random() < 0.4 else 0.0
        line = depth + skew * (along / length - 0.5)
        dark = sheet.between(0.25, 0.95)
        sheet.light *= 1 - dark / (1 + np.exp(np.clip((distance - line) / soft * 3, -30, 30)))


def _lid_border(sheet: _Sheet) -> None:
    """Draw the dark lid of the scanner around a page that lies slightly askew."""
    angle = math.radians(sheet.between(-1.6, 1.6))
    left, top = sheet.between(0.5, 6), sheet.between(0.5, 6)
    turned_x = sheet.x * math.cos(angle) + sheet.y * math.sin(angle)
    turned_y = sheet.y * math.cos(angle) - sheet.x * math.sin(angle)
    inside = (turned_x > left - 2) & (turned_y > top - 2) & (turned_x < sheet.size[0] - sheet.between(-3, 3))
    sheet.light = np.where(inside, sheet.light, sheet.between(0.03, 0.35)).astype(np.float32)


def _lamp(sheet: _Sheet, levels: float | None = None) -> None:
    """Light the page unevenly, by 45 levels and more."""
    levels = sheet.between(45, 105 if not sheet.wide else 125) if levels is None else levels
    x, y = sheet.x / sheet.size[0] - 0.5, sheet.y / sheet.size[1] - 0.5
    turn = sheet.between(0, 2 * math.pi)
    slope = (x * math.cos(turn) + y * math.sin(turn)) / 1.42 + 0.5
    far = np.hypot(x - sheet.between(-0.3, 0.3), y - sheet.between(-0.3, 0.3))
    shapes: list[Plane] = [slope, 1 - far**2 / 0.7, slope**2, 1 - 0.5 * (4 * x * x + 4 * y * y)]
    if sheet.wide:
        shapes += [np.exp(-(far**2) / 0.3), 1 / (1 + 2.5 * far**2), np.sin(slope * 2.2), 1 - 4 * x * x]
    shape = shapes[int(sheet.random.integers(len(shapes)))]
    shape = (shape - shape.min()) / max(float(np.ptp(shape)), 1e-6)
    sheet.light *= (1 - levels / sheet.white * (1 - shape)).astype(np.float32)


def _punch_holes(sheet: _Sheet) -> None:
    spacing, count = [(80.0, 2), (108.0, 3), (80.0, 4), (70.0, 2)][int(sheet.random.integers(4))]
    on_side = bool(sheet.random.random() < 0.8)
    length, across = (sheet.size[1], sheet.size[0]) if on_side else sheet.size
    while spacing * (count - 1) > length - 16:
        count -= 1
    inset, radius = sheet.between(9, 14), sheet.between(2.5, 4)
    if sheet.random.random() < 0.3:
        inset = across - inset
    dark, inner = sheet.between(0.25, 0.97), sheet.between(0.2, 1.0)
    middle = length / 2 + sheet.between(-6, 6)
    for number in range(count):
        along = middle + (number - (count - 1) / 2) * spacing + sheet.between(-0.5, 0.5)
        centre_x, centre_y = (inset, along) if on_side else (along, inset)
        distance = np.hypot(sheet.x - centre_x, sheet.y - centre_y)
        edge = np.clip((radius - distance) * sheet.scale / 1.5 + 0.5, 0, 1)
        crescent = np.clip((radius - np.hypot(sheet.x - centre_x - 0.8, sheet.y - centre_y - 0.8)) * sheet.scale, 0, 1)
        sheet.ink = np.maximum(sheet.ink, dark * edge * (1 - (1 - inner) * crescent))


def _folds(sheet: _Sheet) -> None:
    wanted = [((0.5,), ()), ((1 / 3, 2 / 3), ()), ((0.5,), (0.5,)), ((), (0.5,)), ((0.25, 0.5, 0.75), ())]
    down, across = wanted[int(sheet.random.integers(len(wanted)))]
    axes = ((down, sheet.y, sheet.x, sheet.size[::-1]), (across, sheet.x, sheet.y, sheet.size))
    for shares, place, other, sizes in axes:
        for share in shares:
            tilt = sheet.between(-1.5, 1.5)
            distance = place - (share * sizes[0] + sheet.between(-2, 2) + tilt * (other / sizes[1] - 0.5))
            width, depth = sheet.between(0.25, 1.2), sheet.between(0.05, 0.22)
            sheet.light *= (1 - depth * np.exp(-((distance / width) ** 2))).astype(np.float32)
            step = sheet.between(-0.06, 0.06)  # the halves of the page face the lamp differently
            sheet.light *= (1 + step * np.exp(-np.abs(distance) / 12) * np.sign(distance)).astype(np.float32)
            if sheet.random.random() < 0.5:
                sheet.light *= (1 + 0.5 * depth * np.exp(-(((distance - 1.6 * width) / width) ** 2))).astype(np.float32)


def _staples(sheet: _Sheet) -> None:
    """Draw a staple, its two holes, or a corner that is turned over."""
    right, low = bool(sheet.random.random() < 0.3), bool(sheet.random.random() < 0.15)
    inset_x, inset_y = sheet.between(7, 16), sheet.between(6, 16)
    centre = (sheet.size[0] - inset_x if right else inset_x, sheet.size[1] - inset_y if low else inset_y)
    turn = sheet.between(0, math.pi)
    half = sheet.between(4.5, 6.5)
    ends = [(centre[0] + sign * half * math.cos(turn), centre[1] + sign * half * math.sin(turn)) for sign in (-1, 1)]
    mask, draw = sheet.canvas()
    if sheet.random.random() < 0.5:
        wide = max(1, round(sheet.between(0.4, 0.8) * sheet.scale))
        draw.line([(x * sheet.scale, y * sheet.scale) for x, y in ends], fill=255, width=wide)
        shadow = ImageChops.offset(mask, max(1, round(0.5 * sheet.scale)), max(1, round(0.5 * sheet.scale)))
        sheet.add_ink(shadow, sheet.between(0.1, 0.3), 0.4)
    else:
        radius = sheet.between(0.35, 0.7) * sheet.scale
        for x, y in ends:
            left, top = x * sheet.scale - radius, y * sheet.scale - radius
            draw.ellipse((left, top, x * sheet.scale + radius, y * sheet.scale + radius), fill=255)
    sheet.add_ink(mask, sheet.between(0.35, 0.9), 0.1)
    if sheet.random.random() < 0.3:
        leg = sheet.between(8, 22)
        across = sheet.size[0] - sheet.x if right else sheet.x
        down = sheet.size[1] - sheet.y if low else sheet.y
        sheet.light *= np.where(across + down < leg, sheet.between(0.6, 0.9), 1.0).astype(np.float32)


def _bleed_through(sheet: _Sheet) -> None:
    """Draw the mirrored text of the other side, blurred by the paper."""
    mask, draw = sheet.canvas()
    size = sheet.between(3.2, 5)
    top, bottom = sheet.between(20, 60), sheet.size[1] - sheet.between(25, 80)
    left, right = sheet.between(18, 28), sheet.size[0] - sheet.between(18, 28)
    pitch = size * sheet.between(1.25, 2)
    while top < bottom:
        line = " ".join(str(word) for word in sheet.random.choice(_TEXT, 24))
        end = right if sheet.random.random() < 0.8 else sheet.between(left + 20, right)
        draw.text((left * sheet.scale, top * sheet.scale), line, fill=255, font_size=max(6, size * sheet.scale))
        draw.rectangle((end * sheet.scale, top * sheet.scale, sheet.width, (top + pitch) * sheet.scale), fill=0)
        top += pitch
    mask = mask.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    sheet.add_ink(mask, sheet.between(0.05, 0.16), sheet.between(0.3, 0.6))


_TEXT: Final = (
    "the invoice of this month is due when all goods have been received and nobody objects in writing".split()  # noqa: SIM905
)


def _heavy_jpeg(sheet: _Sheet) -> None:
    sheet.quality = int(sheet.random.integers(6, 28))
    if sheet.random.random() < 0.6:
        _lamp(sheet, sheet.between(10, 60))


def _phone_shadow(sheet: _Sheet) -> None:
    """Let the shadow of hand and phone fall on the page, with soft edges."""
    turn = sheet.between(0, 2 * math.pi)
    across = (sheet.x - sheet.size[0] / 2) * math.cos(turn) + (sheet.y - sheet.size[1] / 2) * math.sin(turn)
    soft = sheet.between(14, 35)
    edge = 1 / (1 + np.exp(-np.clip((across - sheet.between(-40, 60)) / soft * 4, -30, 30)))
    sheet.light *= (1 - sheet.between(0.15, 0.4) * edge).astype(np.float32)


def _streaks(sheet: _Sheet) -> None:
    """Draw what dirt on the glass of a feeder leaves: lines from edge to edge, all in the direction of the feed."""
    down = bool(sheet.random.random() < 0.8)
    across, along, side = (sheet.x, sheet.y, sheet.size[0]) if down else (sheet.y, sheet.x, sheet.size[1])
    for _ in range(int(sheet.random.integers(1, 6 if not sheet.wide else 8))):
        distance = across - sheet.between(2, side - 2)
        width, depth = max(sheet.between(0.08, 0.4), 0.35 / sheet.scale), sheet.between(0.04, 0.5)
        if sheet.random.random() < 0.25:
            depth = -min(depth, 0.1)
        fading = 1 + sheet.between(-0.3, 0.3) * np.sin(along / sheet.between(20, 90))
        sheet.light *= (1 - depth * fading * np.exp(-((distance / width) ** 2))).astype(np.float32)


def _crumpled(sheet: _Sheet) -> None:
    """Crumple the page and smooth it: creases in all directions, whose sides face the lamp differently."""
    shade = np.zeros_like(sheet.light)
    for _ in range(int(sheet.random.integers(8, 30 if not sheet.wide else 40))):
        centre = sheet.between(0, sheet.size[0]), sheet.between(0, sheet.size[1])
        turn, half = sheet.between(0, math.pi), sheet.between(15, 90)
        along = (sheet.x - centre[0]) * math.cos(turn) + (sheet.y - centre[1]) * math.sin(turn)
        bow = sheet.between(-0.002, 0.002)
        distance = (sheet.y - centre[1]) * math.cos(turn) - (sheet.x - centre[0]) * math.sin(turn) + bow * along**2
        ends = 1 / (1 + np.exp(np.clip((np.abs(along) - half) / sheet.between(2, 8), -30, 30)))
        side = np.sign(distance) * np.exp(-np.abs(distance) / sheet.between(4, 25))
        width = sheet.between(0.25, 1.0)
        shade += ends * (sheet.between(-0.05, 0.05) * side)
        shade -= ends * sheet.between(0.0, 0.09) * np.exp(-((distance / width) ** 2))
        if sheet.random.random() < 0.4:
            shade += ends * sheet.between(0.0, 0.05) * np.exp(-(((distance - 1.5 * width) / width) ** 2))
    sheet.light *= np.clip(1 + shade, 0.3, 1.1).astype(np.float32)


def _hand_shadow(sheet: _Sheet) -> None:
    """Let the shadow of a hand fall on the page: fingers, the back of the hand, an arm."""
    mask, draw = sheet.canvas()
    turn = sheet.between(0, 2 * math.pi)
    middle = sheet.between(0.1, 0.9) * sheet.size[0], sheet.between(0.1, 0.9) * sheet.size[1]
    ahead, aside = (math.cos(turn), math.sin(turn)), (-math.sin(turn), math.cos(turn))

    def limb(start: float, end: float, beside: float, wide: float) -> None:
        ends = [
            tuple((middle[axis] + ahead[axis] * far + aside[axis] * beside) * sheet.scale for axis in (0, 1))
            for far in (start, end)
        ]
        draw.line([ends[0], ends[1]], fill=255, width=round(wide * sheet.scale))
        for x, y in ends:
            half = wide / 2 * sheet.scale
            draw.ellipse((x - half, y - half, x + half, y + half), fill=255)

    limb(0, 55, 0, sheet.between(60, 85))
    limb(40, 400, 0, sheet.between(45, 70))
    for finger in range(int(sheet.random.integers(1, 5))):
        limb(-sheet.between(40, 80), 10, -27 + 18 * finger, sheet.between(13, 19))
    soft = mask.filter(ImageFilter.GaussianBlur(sheet.between(3 if not sheet.wide else 2, 16) * sheet.scale))
    dark = sheet.between(0.12, 0.45)
    sheet.light *= (1 - dark * np.asarray(soft, dtype=np.float32) / 255).astype(np.float32)


def _vignette(sheet: _Sheet) -> None:
    far = np.hypot(sheet.x / sheet.size[0] - 0.5, sheet.y / sheet.size[1] - 0.5) / 0.71
    power = sheet.between(1.8, 4 if not sheet.wide else 5)
    sheet.light *= (1 - sheet.between(0.15, 0.5) * far**power).astype(np.float32)


def _dust(sheet: _Sheet) -> None:
    for _ in range(int(sheet.random.integers(3, 30 if not sheet.wide else 45))):
        x, y = sheet.between(1, sheet.size[0] - 1), sheet.between(1, sheet.size[1] - 1)
        radius = max(sheet.between(0.06, 0.3), 0.4 / sheet.scale)
        reach = math.ceil(radius * sheet.scale) + 2
        row, column = int(y * sheet.scale), int(x * sheet.scale)
        part = np.s_[max(0, row - reach) : row + reach, max(0, column - reach) : column + reach]
        distance = np.hypot((sheet.x[part] - x) * sheet.between(0.7, 1.4), sheet.y[part] - y)
        speck = np.clip((radius - distance) * sheet.scale + 0.5, 0, 1) * sheet.between(0.1, 0.8)
        sheet.ink[part] = np.maximum(sheet.ink[part], speck)


def _spiral_pad(sheet: _Sheet) -> None:
    """Tear the page from a pad: a row of holes along an edge, some torn open."""
    on_top = bool(sheet.random.random() < 0.4)
    length, across = (sheet.size[0], sheet.y) if on_top else (sheet.size[1], sheet.x)
    along = sheet.x if on_top else sheet.y
    pitch = [8.47, 6.35, 5.5, 9.52][int(sheet.random.integers(4 if sheet.wide else 2))]
    half, inset = pitch * sheet.between(0.22, 0.32), sheet.between(4, 9)
    count = int((length - 2 * sheet.between(6, 14)) / pitch)
    first = (length - (count - 1) * pitch) / 2
    is_square, dark = bool(sheet.random.random() < 0.5), sheet.between(0.2, 0.95)
    torn = sheet.between(0, 1) if sheet.random.random() < 0.5 else 0.0
    for number in range(count):
        off = np.abs(along - first - number * pitch), np.abs(across - inset)
        distance = np.maximum(*off) if is_square else np.hypot(*off)
        if sheet.random.random() < torn:  # open to the edge
            distance = np.where(across < inset, np.minimum(distance, off[0] * 1.3), distance)
        hole = np.clip((half - distance) * sheet.scale / 1.5 + 0.5, 0, 1)
        sheet.ink = np.maximum(sheet.ink, dark * hole)


def _crossfolds(sheet: _Sheet) -> None:
    """Fold the page down and across, not always at its middle."""
    for place, other, sizes in ((sheet.y, sheet.x, sheet.size[::-1]), (sheet.x, sheet.y, sheet.size)):
        shares = (
            [sheet.between(0.2, 0.8)]
            if sheet.random.random() < 0.4
            else [[0.5], [1 / 3, 2 / 3]][int(sheet.random.integers(2))]
        )
        for share in shares:
            tilt = sheet.between(-2, 2)
            distance = place - (share * sizes[0] + sheet.between(-3, 3) + tilt * (other / sizes[1] - 0.5))
            width, depth = sheet.between(0.25, 1.4), sheet.between(0.04, 0.22)
            fading = 1 + 0.4 * np.sin(other / sheet.between(15, 60) + sheet.between(0, 6))
            sheet.light *= (1 - depth * fading * np.exp(-((distance / width) ** 2))).astype(np.float32)
            step = sheet.between(-0.06, 0.06)
            reach = sheet.between(8, 40)
            sheet.light *= (1 + step * np.exp(-np.abs(distance) / reach) * np.sign(distance)).astype(np.float32)


def _turned_corner(sheet: _Sheet) -> None:
    across = sheet.size[0] - sheet.x if sheet.random.random() < 0.6 else sheet.x
    down = sheet.size[1] - sheet.y if sheet.random.random() < 0.4 else sheet.y
    legs = sheet.between(8, 35), sheet.between(8, 35)
    inside = across / legs[0] + down / legs[1] - 1  # negative on the part that is turned over or missing
    reach = inside * min(legs)
    shade = sheet.between(0.05, 0.4) if sheet.random.random() < 0.7 else sheet.between(0.6, 0.95)
    sheet.light *= np.where(inside < 0, 1 - shade, 1.0).astype(np.float32)
    sheet.light *= (1 - sheet.between(0.05, 0.3) * np.exp(-np.clip(reach, 0, 99) / sheet.between(0.5, 3))).astype(
        np.float32
    )


def _bleed_box(sheet: _Sheet) -> None:
    """Draw what shines through of a box, a table or a picture on the other side."""
    mask, draw = sheet.canvas()
    wide, high = sheet.between(40, sheet.size[0] - 40), sheet.between(25, 120)
    left, top = _place(sheet, wide, high)
    line = max(1, round(sheet.between(0.3, 0.9) * sheet.scale))
    box = [value * sheet.scale for value in (left, top, left + wide, top + high)]
    if sheet.random.random() < 0.3:
        draw.rectangle(box, fill=170)
    else:
        draw.rectangle(box, outline=255, width=line)
        for number in range(1, int(sheet.random.integers(1, 7))):
            y = box[1] + number * 9 * sheet.scale
            if y < box[3] - 3 * sheet.scale:
                draw.line((box[0], y, box[2], y), fill=255, width=line)
    sheet.add_ink(mask, sheet.between(0.04, 0.12), sheet.between(0.4, 0.9))


def _desk(sheet: _Sheet) -> None:
    """Show the desk around a page that lies askew under a phone."""
    turn = math.radians(sheet.between(-2.5, 2.5))
    inside = np.ones_like(sheet.light, dtype=bool)
    for edge in range(4):
        across, side = (sheet.x, sheet.size[0]) if edge < 2 else (sheet.y, sheet.size[1])
        along, length = (sheet.y, sheet.size[1]) if edge < 2 else (sheet.x, sheet.size[0])
        distance = across if edge % 2 == 0 else side - across
        slope = math.tan(turn + math.radians(sheet.between(-1, 1))) * (1 if edge in {0, 3} else -1)
        inside &= distance > sheet.between(-2, 9) + slope * (along - length / 2)
    grain = 1 + sheet.between(0, 0.15) * np.sin(sheet.y * sheet.between(0.5, 2) + 3 * np.sin(sheet.x / 40))
    sheet.light = np.where(inside, sheet.light, sheet.between(0.1, 0.5) * grain).astype(np.float32)


def _phone_photo(sheet: _Sheet) -> None:
    """Draw what a phone shows of an empty page: lamp, vignette, shadow, dust, and now and then a desk or a fold."""
    _lamp(sheet, sheet.between(20, 70))
    for trace, share in ((_vignette, 0.6), (_phone_shadow, 0.6), (_hand_shadow, 0.3), (_dust, 0.5), (_folds, 0.3)):
        if sheet.random.random() < share:
            trace(sheet)
    if sheet.random.random() < 0.4:
        _desk(sheet)


def _lens_cap(random: np.random.Generator, *, wide: bool) -> Scan:
    """Draw a frame that was taken with the cap on: noise of the sensor, its rows, hot pixels, and a glow at a corner."""
    width, height = [(1600, 1200), (1280, 960), (2016, 1512), (1024, 768), (1080, 1920)][int(random.integers(5))]
    planes = np.full((height, width, 3), random.uniform(2, 18), dtype=np.float32)
    strength = random.uniform(1, 14 if not wide else 18)
    planes += random.normal(0, strength, planes.shape) * np.array([1.1, 0.8, 1.3])
    planes += random.normal(0, strength * 0.12, (height, 1, 1)) + random.normal(0, strength * 0.06, (1, width, 1))
    for _ in range(int(random.integers(0, 60))):
        y, x = int(random.integers(1, height - 1)), int(random.integers(1, width - 1))
        planes[y, x, int(random.integers(3))] += random.uniform(60, 230)
    if random.random() < 0.4:
        y, x = np.mgrid[0:height, 0:width]
        far = np.hypot(x - random.choice([0, width]), y - random.choice([0, height])) / width
        planes += (random.uniform(2, 9) * np.exp(-far * 5))[..., None] * np.array([1.2, 0.8, 1.4])
    pixels = Image.fromarray(np.clip(planes, 0, 255).astype(np.uint8))
    if random.random() < 0.6:  # the camera's own smoothing
        pixels = pixels.filter(ImageFilter.GaussianBlur(float(random.uniform(0.4, 1.1))))
    return Scan("lens_cap", pixels, int(random.integers(35, 95)), 72)


_ARTEFACTS: Final[dict[str, Callable[[_Sheet], None]]] = {
    "edge_shadow": _edge_shadow,
    "lid_border": _lid_border,
    "uneven_lamp": _lamp,
    "punch_holes": _punch_holes,
    "folds": _folds,
    "staples": _staples,
    "bleed_through": _bleed_through,
    "heavy_jpeg": _heavy_jpeg,
    "streaks": _streaks,
    "crumpled": _crumpled,
    "hand_shadow": _hand_shadow,
    "phone_shadow": _phone_shadow,
    "vignette": _vignette,
    "dust": _dust,
    "spiral_pad": _spiral_pad,
    "crossfolds": _crossfolds,
    "turned_corner": _turned_corner,
    "bleed_box": _bleed_box,
    "phone_photo": _phone_photo,
}

# What a reader would see


def _curve(sheet: _Sheet, box: tuple[float, float, float, float], points: int) -> list[tuple[float, float]]:
    """Return a smooth scribble in pixels within a box in millimetres."""
    left, top, width, height = box
    steps = np.linspace(0, points - 1, points * 12)
    xs = np.linspace(left, left + width, points) + sheet.random.normal(0, width / points / 2, points)
    ys = top + height / 2 + sheet.random.normal(0, height / 2.2, points)
    smooth = [np.interp(steps, np.arange(points), values) for values in (xs, ys)]
    kernel = np.ones(9) / 9
    smooth = [np.convolve(np.pad(values, 4, mode="edge"), kernel, mode="valid") for values in smooth]
    return [(float(x) * sheet.scale, float(y) * sheet.scale) for x, y in zip(*smooth, strict=True)]


def _place(sheet: _Sheet, width: float, height: float) -> tuple[float, float]:
    left = sheet.between(15, max(16, sheet.size[0] - width - 15))
    return left, sheet.between(15, max(16, sheet.size[1] - height - 15))


def _pencil(sheet: _Sheet) -> None:
    mask, draw = sheet.canvas()
    width, height = sheet.between(15, 80), sheet.between(0, 40)
    left, top = _place(sheet, width, height)
    line = [(left * sheet.scale, top * sheet.scale), ((left + width) * sheet.scale, (top + height) * sheet.scale)]
    draw.line(line, fill=255, width=max(1, round(sheet.between(0.35, 0.7) * sheet.scale)))
    sheet.add_ink(mask, sheet.between(0.1, 0.25))


def _signature(sheet: _Sheet) -> None:
    mask, draw = sheet.canvas()
    width, height = sheet.between(25, 70), sheet.between(6, 16)
    left, top = _place(sheet, width, height)
    wide = max(1, round(sheet.between(0.4, 0.8) * sheet.scale))
    draw.line(_curve(sheet, (left, top, width, height), int(sheet.between(9, 22))), fill=255, width=wide)
    sheet.add_ink(mask, sheet.between(0.25, 0.85))


def _stamp(sheet: _Sheet) -> None:
    mask, draw = sheet.canvas()
    radius = sheet.between(9, 18)
    left, top = _place(sheet, 2 * radius, 2 * radius)
    box = [value * sheet.scale for value in (left, top, left + 2 * radius, top + 2 * radius)]
    wide = max(1, round(0.6 * sheet.scale))
    if sheet.random.random() < 0.5:
        draw.ellipse(box, outline=255, width=wide)
    else:
        draw.rectangle((box[0], box[1], box[2], box[1] + radius * sheet.scale * 0.7), outline=255, width=wide)
    draw.text((box[0] + radius * sheet.scale * 0.3, box[1] + radius * sheet.scale * 0.1), "RECEIVED", fill=255,
              font_size=max(6, radius * sheet.scale * 0.28))  # fmt: skip
    faint = sheet.between(0.2, 0.8)
    colour = [(40, 60, 200), (200, 30, 40), (60, 20, 120), (20, 120, 60)][int(sheet.random.integers(4))]
    if sheet.colour:
        sheet.layers.append((mask.point([round(value * faint) for value in range(256)]), colour))
    else:
        sheet.add_ink(mask, 0.6 * faint)


def _page_number(sheet: _Sheet) -> None:
    mask, draw = sheet.canvas()
    x = [sheet.size[0] / 2, sheet.size[0] - sheet.between(16, 26), sheet.between(14, 24)][int(sheet.random.integers(3))]
    y = sheet.size[1] - sheet.between(11, 22) if sheet.random.random() < 0.75 else sheet.between(8, 18)
    number = str(int(sheet.random.integers(1, 240)))
    size = max(7, sheet.between(2.8, 4.2) * sheet.scale)
    draw.text((x * sheet.scale, y * sheet.scale), number, fill=255, font_size=size)
    sheet.add_ink(mask, sheet.between(0.4, 0.9))


def _word(sheet: _Sheet) -> None:
    word = str(sheet.random.choice(_WORDS))
    size = sheet.between(4, 11)
    mask, draw = sheet.canvas()
    left, top = _place(sheet, size * len(word) * 0.5, size)
    draw.text((left * sheet.scale, top * sheet.scale), word, fill=255, font_size=size * sheet.scale)
    turned = mask.rotate(sheet.between(-4, 4), center=(left * sheet.scale, top * sheet.scale))
    sheet.add_ink(turned, sheet.between(0.2, 0.8))


def _tick(sheet: _Sheet) -> None:
    mask, draw = sheet.canvas()
    side = sheet.between(3, 6)
    left, top = _place(sheet, side, side)
    wide = max(1, round(0.35 * sheet.scale))
    if sheet.random.random() < 0.7:
        draw.rectangle([value * sheet.scale for value in (left, top, left + side, top + side)], outline=255, width=wide)
    path = [(left + 0.15 * side, top + 0.5 * side), (left + 0.45 * side, top + 0.85 * side), (left + side, top)]
    draw.line([(x * sheet.scale, y * sheet.scale) for x, y in path], fill=255, width=max(1, round(0.5 * sheet.scale)))
    sheet.add_ink(mask, sheet.between(0.35, 0.85))


def _faint_text(sheet: _Sheet) -> None:
    mask, draw = sheet.canvas()
    size, top = sheet.between(3, 4.5), sheet.between(25, 60)
    for _ in range(int(sheet.between(2, 30))):
        line = " ".join(str(word) for word in sheet.random.choice(_TEXT, int(sheet.between(3, 9))))
        draw.text((22 * sheet.scale, top * sheet.scale), line, fill=255, font_size=max(7, size * sheet.scale))
        top += 1.6 * size
    sheet.add_ink(mask, sheet.between(0.1, 0.3))


def _rule(sheet: _Sheet) -> None:
    """Draw one printed line across the page, or the lines of an empty form."""
    mask, draw = sheet.canvas()
    wide = max(1, round(sheet.between(0.25, 0.6) * sheet.scale))
    top = sheet.between(30, sheet.size[1] - 60)
    for number in range(int(sheet.random.integers(1, 5))):
        y = (top + 8 * number) * sheet.scale
        draw.line((20 * sheet.scale, y, (sheet.size[0] - 20) * sheet.scale, y), fill=255, width=wide)
    sheet.add_ink(mask, sheet.between(0.25, 0.8))


def _bullet(sheet: _Sheet) -> None:
    """Draw one or two spots as large as a punched hole, where no punch reaches."""
    mask, draw = sheet.canvas()
    for _ in range(int(sheet.random.integers(1, 3))):
        radius = sheet.between(1.5, 4)
        x, y = sheet.between(35, sheet.size[0] - 35), sheet.between(40, sheet.size[1] - 40)
        draw.ellipse([value * sheet.scale for value in (x - radius, y - radius, x + radius, y + radius)], fill=255)
    sheet.add_ink(mask, sheet.between(0.3, 0.9))


def _corner_word(sheet: _Sheet) -> None:
    """Write a word, a number or a short stroke into a corner or margin, near the edge of the page."""
    size = sheet.between(2.4, 6)
    word = str(sheet.random.choice((*_WORDS, "7", "A", "3/4", "x", "!")))
    mask, draw = sheet.canvas()
    y = sheet.between(1, 7) if sheet.random.random() < 0.75 else sheet.size[1] - size - sheet.between(1, 7)
    room = max(1.0, sheet.size[0] - size * 0.6 * len(word))
    x = [sheet.between(1, 8), room - sheet.between(1, 8), sheet.between(5, room)][int(sheet.random.integers(3))]
    place = (max(0.5, x) * sheet.scale, y * sheet.scale)
    if sheet.random.random() < 0.25:
        end = (place[0] + sheet.between(2.5, 7) * sheet.scale, place[1] + sheet.between(-1, 4) * sheet.scale)
        draw.line([place, end], fill=255, width=max(1, round(0.5 * sheet.scale)))
    else:
        draw.text(place, word, fill=255, font_size=max(7, size * sheet.scale))
    sheet.add_ink(mask, sheet.between(0.3, 0.9))


def _printed_paper(sheet: _Sheet, kind: str) -> None:
    """Draw paper that is printed before anybody writes on it."""
    mask, draw = sheet.canvas()
    pitch, wide = sheet.between(4.5, 9), max(1, round(sheet.between(0.1, 0.35) * sheet.scale))
    inset = sheet.between(0, 14) if sheet.random.random() < 0.7 else 0.0
    left, right = inset * sheet.scale, (sheet.size[0] - inset) * sheet.scale
    top = sheet.between(4, 30)
    rows = [top + pitch * number for number in range(int((sheet.size[1] - top - 5) / pitch))]
    columns = [inset + pitch * number for number in range(int((sheet.size[0] - 2 * inset) / pitch))]
    if kind in {"ruled", "squared"}:
        for y in rows:
            draw.line((left, y * sheet.scale, right, y * sheet.scale), fill=255, width=wide)
    if kind == "squared":
        for x in columns:
            draw.line(
                (x * sheet.scale, rows[0] * sheet.scale, x * sheet.scale, rows[-1] * sheet.scale), fill=255, width=wide
            )
    if kind == "dotted":
        radius = max(0.6, sheet.between(0.15, 0.35) * sheet.scale)
        for x in columns:
            for y in rows:
                draw.ellipse(
                    (
                        x * sheet.scale - radius,
                        y * sheet.scale - radius,
                        x * sheet.scale + radius,
                        y * sheet.scale + radius,
                    ),
                    fill=255,
                )
    if kind == "headed":
        size = sheet.between(3, 7)
        x = [sheet.between(15, 30), sheet.size[0] / 2 - 25, sheet.size[0] - 70][int(sheet.random.integers(3))]
        draw.text(
            (x * sheet.scale, sheet.between(8, 20) * sheet.scale),
            "Muster & Sons",
            fill=255,
            font_size=max(8, size * sheet.scale),
        )
    sheet.add_ink(mask, sheet.between(0.15, 0.7))


_MARKS: Final[dict[str, Callable[[_Sheet], None]]] = {
    "pencil": _pencil,
    "signature": _signature,
    "stamp": _stamp,
    "page_number": _page_number,
    "word": _word,
    "tick": _tick,
    "faint_text": _faint_text,
    "rule": _rule,
    "bullet": _bullet,
    "corner_word": _corner_word,
    "ruled": lambda sheet: _printed_paper(sheet, "ruled"),
    "squared": lambda sheet: _printed_paper(sheet, "squared"),
    "dotted": lambda sheet: _printed_paper(sheet, "dotted"),
    "headed": lambda sheet: _printed_paper(sheet, "headed"),
}


def _dark_mode(random: np.random.Generator) -> Scan:
    width, height = [(1080, 1920), (1440, 900), (1240, 1754), (800, 600)][int(random.integers(4))]
    level = int(random.integers(0, 45))
    page = Image.new("RGB", (width, height), (level, level, min(255, level + int(random.integers(0, 14)))))
    draw = ImageDraw.Draw(page)
    ink = level + int(random.integers(45, 200))
    for number in range(int(random.integers(1, 8))):
        words = " ".join(str(word) for word in random.choice(_TEXT, int(random.integers(1, 7))))
        place = (width // 12, height // 8 + number * height // 14)
        draw.text(place, words, fill=(ink,) * 3, font_size=max(12, height // 60))
    return Scan("dark_mode", page, int(random.integers(50, 95)), 96)


def _clouds(random: np.random.Generator, width: int, height: int, coarsest: int, finest: int) -> Plane:
    """Return smooth random structure of several sizes, from -1 to 1."""
    total = np.zeros((height, width), dtype=np.float32)
    cells, weight = coarsest, 1.0
    while cells <= finest:
        field = random.normal(0, 1, (max(2, cells * height // width), max(2, cells))).astype(np.float32)
        total += weight * np.asarray(Image.fromarray(field).resize((width, height), Image.Resampling.BICUBIC))
        cells, weight = cells * 2, weight * 0.6
    peak: Plane = total / max(float(np.abs(total).max()), 1e-6)
    return peak


def _underexposed(random: np.random.Generator) -> Scan:
    """Draw a page of text that was photographed with too little light."""
    width, height = [(1240, 1754), (1080, 1440), (900, 1200), (1600, 1200)][int(random.integers(4))]
    y, x = (axis.astype(np.float32) for axis in np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j])
    level = random.uniform(14, 60) * (1 - random.uniform(0, 0.5) * np.hypot(x - random.random(), y - random.random()))
    mask = Image.new("L", (width, height), 0)
    draw = ImageDraw.Draw(mask)
    size = height / random.uniform(45, 80)
    for number in range(int(random.integers(1, 14))):
        words = " ".join(str(word) for word in random.choice(_TEXT, int(random.integers(2, 8))))
        draw.text((width / 10, height / 8 + 1.7 * size * number), words, fill=255, font_size=size)
    level = level * (1 - random.uniform(0.3, 0.85) * np.asarray(mask, dtype=np.float32) / 255)
    planes = np.stack([level, level * 0.95, level * 0.85], axis=-1) + random.normal(
        0, random.uniform(0.8, 3), (height, width, 3)
    )
    pixels = np.clip(planes, 0, 255).round().astype(np.uint8)
    return Scan("underexposed", Image.fromarray(pixels), int(random.integers(60, 95)), 96)


def _receipt(random: np.random.Generator) -> Scan:
    """Draw a receipt whose print has faded."""
    width, height = int(random.integers(420, 700)), int(random.integers(900, 1400))
    mask = Image.new("L", (width, height), 0)
    draw = ImageDraw.Draw(mask)
    size = width / random.uniform(18, 28)
    for number in range(int(random.integers(3, 20))):
        words = f"{random.choice(_TEXT)} {random.choice(_TEXT)}  {random.uniform(1, 90):.2f}"
        draw.text((width / 12, height / 10 + 1.4 * size * number), words, fill=255, font_size=size)
    y, x = (axis.astype(np.float32) for axis in np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j])
    level = random.uniform(190, 240) * (1 - random.uniform(0, 0.2) * (x * random.random() + y * random.random()))
    level = level * (1 - random.uniform(0.05, 0.2) * np.asarray(mask, dtype=np.float32) / 255)
    planes = level + random.normal(0, random.uniform(0.6, 2.2), (height, width))
    return Scan(
        "receipt", Image.fromarray(np.clip(planes, 0, 255).round().astype(np.uint8)), int(random.integers(60, 95)), 150
    )


def _tiny_letters(random: np.random.Generator) -> Scan:
    """Draw a large drawing sheet with nothing but small letters of a stencil in its corner."""
    dpi = int(random.choice([72, 100]))
    sides = [(841, 1189), (594, 841)][int(random.integers(2))]
    width, height = (round(side * dpi / 25.4) for side in sides[:: -1 if random.random() < 0.5 else 1])
    page = Image.new("L", (width, height), int(random.integers(225, 253)))
    draw = ImageDraw.Draw(page)
    size = max(8, random.uniform(2.5, 5) * dpi / 25.4)
    x = width * random.uniform(0.7, 0.9) if random.random() < 0.6 else width * random.uniform(0.05, 0.6)
    y = height * random.uniform(0.9, 0.96) if random.random() < 0.6 else height * random.uniform(0.05, 0.85)
    draw.text(
        (x, y),
        str(random.choice(("DRG 4711", "SHEET 3", "M 1:50", "REV B"))),
        fill=int(random.integers(20, 130)),
        font_size=size,
    )
    noise = random.normal(0, random.uniform(0.5, 2), (height, width)).astype(np.float32)
    pixels = np.clip(np.asarray(page, dtype=np.float32) + noise, 0, 255).round().astype(np.uint8)
    return Scan("tiny_letters", Image.fromarray(pixels), int(random.integers(70, 95)), dpi)


def _horizon(random: np.random.Generator) -> Scan:
    """Draw the sky and the sea in two tones."""
    width, height = [(1600, 1200), (1024, 768), (640, 480)][int(random.integers(3))]
    y, x = (axis.astype(np.float32) for axis in np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j])
    line = random.uniform(0.3, 0.7) + random.uniform(-0.02, 0.02) * (x - 0.5)
    share = 1 / (1 + np.exp(np.clip(-(y - line) / random.uniform(0.0008, 0.012), -30, 30)))
    sky = random.uniform(130, 225)
    tones = sky + 12 * (y - 0.5), sky * random.uniform(0.72, 0.97) + random.uniform(-15, 15) * (y - 0.7)
    waves = _clouds(random, width, height, 60, 300) * random.uniform(0, 3) * share
    grey = tones[0] * (1 - share) + tones[1] * share + waves
    planes = grey[..., None] * np.array([1 - random.uniform(0, 0.12), 1 - random.uniform(0, 0.04), 1])
    planes = planes + random.normal(0, random.uniform(0.8, 4), planes.shape)
    pixels = np.clip(planes, 0, 255).round().astype(np.uint8)
    return Scan("horizon", Image.fromarray(pixels), int(random.integers(40, 95)), 72)


def _stars(random: np.random.Generator) -> Scan:
    width, height = [(1600, 1200), (1024, 768), (640, 480)][int(random.integers(3))]
    planes = np.full((height, width, 3), random.uniform(1, 12)) + 2 * _clouds(random, width, height, 2, 6)[..., None]
    for _ in range(int(random.integers(25, 200))):
        row, column = int(random.integers(3, height - 3)), int(random.integers(3, width - 3))
        bright, wide = random.uniform(25, 200), random.uniform(0.6, 1.3)
        steps = np.exp(-(np.arange(-3, 4) ** 2) / (2 * wide**2))
        planes[row - 3 : row + 4, column - 3 : column + 4] += bright * (steps[:, None] * steps)[..., None]
    planes += random.normal(0, random.uniform(0.8, 4), planes.shape)
    pixels = np.clip(planes, 0, 255).round().astype(np.uint8)
    return Scan("stars", Image.fromarray(pixels), int(random.integers(40, 95)), 72)


def _photo(random: np.random.Generator, kind: str) -> Scan:
    width, height = [(1600, 1200), (1200, 1600), (1024, 768), (2016, 1512), (640, 480)][int(random.integers(5))]
    y, x = (axis.astype(np.float32) for axis in np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j])
    if kind == "sky":
        top, low = np.array([70, 120, 200.0]), np.array([190, 215, 240.0])
        planes = top + (low - top) * (y**0.8)[..., None]
        if random.random() < 0.7:
            white = np.clip(_clouds(random, width, height, 3, 48) * 1.6 - random.uniform(-0.1, 0.4), 0, 1)
            planes = planes + (250 - planes) * white[..., None] * random.uniform(0.2, 0.9)
    elif kind == "wall":
        tint = np.array([1, random.uniform(0.9, 0.99), random.uniform(0.78, 0.95)]) * random.uniform(140, 225)
        light = 1 - random.uniform(0.1, 0.45) * np.hypot(x - random.random(), y - random.random())
        rough = _clouds(random, width, height, 40, 400) * random.uniform(0.03, 0.12)
        planes = tint * (light + rough)[..., None]
        if random.random() < 0.4:  # the edge of a board, a socket, a nail
            side = int(random.integers(12, 120))
            top_y, left = int(random.integers(height - side)), int(random.integers(width - side))
            planes[top_y : top_y + side, left : left + side] *= random.uniform(0.55, 0.9)
    elif kind == "fog":
        hills = _clouds(random, width, height, 2, 12) * random.uniform(8, 30)
        planes = (random.uniform(150, 215) + 25 * (1 - y) + hills * (0.3 + y))[..., None] * np.array([0.97, 0.99, 1.0])
    elif kind == "snow":
        drifts = _clouds(random, width, height, 2, 30) * random.uniform(8, 28)
        planes = (random.uniform(200, 232) + drifts)[..., None] * np.array([0.95, 0.98, 1.02])
        if random.random() < 0.5:
            for step in range(int(random.integers(2, 9))):
                far = np.hypot((x - 0.3 - 0.05 * step) * width / height, y - 0.2 - 0.08 * step)
                planes -= (random.uniform(8, 40) * np.exp(-((far / 0.012) ** 2)))[..., None]
    else:  # night
        dark = random.uniform(3, 14) + 4 * _clouds(random, width, height, 2, 10)
        planes = dark[..., None] * np.array([0.8, 0.85, 1.2])
        for _ in range(int(random.integers(2, 40))):
            far = np.hypot((x - random.random()) * width, (y - random.random()) * height)
            planes = planes + (random.uniform(60, 240) * np.exp(-((far / random.uniform(1.2, 6)) ** 2)))[..., None]
    planes = planes + random.normal(0, random.uniform(0.8, 4), planes.shape)
    pixels = np.clip(planes, 0, 255).round().astype(np.uint8)
    return Scan(kind, Image.fromarray(pixels), int(random.integers(40, 95)), 72)


BLANK_KINDS: Final = (*_ARTEFACTS, "mixed", "lens_cap", "palette", "pages")
CONTENT_KINDS: Final = (
    *_MARKS, "dark_mode", "sky", "wall", "fog", "snow", "night", "horizon", "stars", "underexposed", "receipt", "tiny_letters",
)  # fmt: skip
_DRAWN: Final[dict[str, Callable[[np.random.Generator], Scan]]] = {
    "dark_mode": _dark_mode, "underexposed": _underexposed, "receipt": _receipt, "tiny_letters": _tiny_letters,
    "horizon": _horizon, "stars": _stars,
}  # fmt: skip
_ALONE: Final = frozenset({"bleed_through", "heavy_jpeg", "bleed_box", "phone_photo"})  # not under marks


def draw_scan(kind: str, seed: int, *, wide: bool = False) -> Scan:
    """Return the picture of a kind for a seed; `wide` draws from other ranges, and other pictures for that seed."""
    random = np.random.default_rng([seed, zlib.crc32(kind.encode()), int(wide)])
    if kind == "lens_cap":
        return _lens_cap(random, wide=wide)
    if kind in _DRAWN:
        return _DRAWN[kind](random)
    if kind in CONTENT_KINDS and kind not in _MARKS:
        return _photo(random, kind)
    sheet = _Sheet(random, wide=wide)
    if kind in _ARTEFACTS:
        _ARTEFACTS[kind](sheet)
        return sheet.finish(kind)
    _handled(
        sheet,
        int(random.integers(2, 4 if not wide else 5)) if kind in {"mixed", "pages"} else int(random.integers(0, 3)),
    )
    if kind in _MARKS:
        _MARKS[kind](sheet)
    scan = sheet.finish(kind)
    if kind == "palette":
        image = scan.image.convert("RGB").quantize(
            int(random.choice([16, 64, 256])), dither=random.choice(list(Image.Dither)[:1] + list(Image.Dither)[-1:])
        )
        return Scan(kind, image, scan.quality, scan.dpi)
    if kind == "pages":
        others = []
        for _ in range(int(random.integers(1, 4))):
            other = _Sheet(random, wide=wide)
            _handled(other, int(random.integers(0, 3)))
            others.append(other.finish(kind).image)
        return Scan(kind, scan.image, scan.quality, scan.dpi, tuple(others))
    return scan


def _handled(sheet: _Sheet, count: int) -> None:
    """Leave several traces of handling on a page."""
    names = [name for name in _ARTEFACTS if name not in _ALONE]
    for name in sheet.random.permutation(names)[:count]:
        _ARTEFACTS[str(name)](sheet)
