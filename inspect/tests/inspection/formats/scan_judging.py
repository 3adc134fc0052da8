"""Draw scans with which the blank rule is scored: empty pages, and pages and photos with little on them."""
# Written without knowledge of the rule and of scan_samples.py, whose pictures the rule was developed with.
# A kind is the name of a method.

import io
import math
import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np
from PIL import Image

from .scan_samples import Scan
from .scan_sheets import BLACKS, BLUES, WORDS, Plane, Traces, area, curve, label, stroke

_TICKS: Final = (
    (((0.0, 0.55), (0.3, 1.0), (1.0, 0.0)),),
    (((0.0, 0.0), (1.0, 1.0)), ((0.95, 0.05), (0.0, 0.9))),
    (((0.5, 0.0), (0.1, 0.4), (0.4, 1.0), (0.9, 0.6), (0.55, 0.02)),),
)


class _Written(Traces):
    """What is written or printed on a sheet."""

    def pencil(self) -> None:
        (left, y), height, x = self.spot(90, 40), self.span(2, 4), 0.0
        lines = []
        for _ in range(self.random.integers(2, 9)):
            letters = int(self.random.integers(2, 9))
            lines.append(self.hand((left + x, y + 8), letters, height))
            x += height * (0.85 * letters + 1.2)
            x, y = (self.span(0, 6), y + 4.2 * height) if x > 70 else (x, y)
        self.write(lines, self.span(0.35, 0.7), self.span(0.3, 0.62))

    def signature(self) -> None:
        x, y = self.spot(75, 30)
        line = self.hand((x, y + 20), int(self.random.integers(4, 10)), self.span(3.5, 7))
        if self.chance(0.5):  # a flourish
            line += curve([line[-1], (x + 60, y + 12), (x + 20, y + 25), (x + self.span(40, 70), y + 22)])
        self.write([line], self.span(0.4, 0.9), self.pick([*BLUES, *BLACKS]))

    def stamp(self) -> None:
        texts = self.pick([("RECEIVED", "17 MAY 2024"), ("PAID",), ("COPY",), ("Eingegangen", "03. Juni", "Abt. 4")])
        wide, high = self.pick([(34, 34), (28, 28), (52, 24), (60, 18)])
        x, y = self.spot(wide, high, 28)
        at, size = (x + wide / 2, y + high / 2), min(wide / 7, high / (1.6 * len(texts) + 0.6))
        rows = [((at[0], at[1] + (i - (len(texts) - 1) / 2) * 1.5 * size), text) for i, text in enumerate(texts)]
        how = "ellipse" if wide == high else "rectangle"
        shapes = [area(how, at, wide - inset, high - inset, None, line=0.7) for inset in (0, self.pick([0, 3]))]
        shapes += [label(place, text, size, "mm") for place, text in rows]
        worn = np.clip(1 + self.span(0, 0.5) * self.grain(self.span(0.6, 4)), 0.3, 1) * self.span(0.45, 0.9)
        colours = [(0.75, 0.15, 0.2), (0.2, 0.2, 0.6), (0.35, 0.2, 0.55), (0.15, 0.45, 0.3), (0.2, 0.2, 0.2)]
        self.ink(self.mask(shapes, 0.1, self.span(-25, 25), at) * worn, self.pick(colours))

    def page_number(self) -> None:
        n = int(self.random.integers(2, 400))
        y = self.pick([self.down - self.span(12, 20), self.down - self.span(12, 20), self.span(14, 22)])
        x, anchor = self.pick([(self.across / 2, "ms"), (self.across - self.span(16, 25), "rs"), (26, "ls")])
        text = self.pick([str(n), f"- {n} -", f"Page {n}", f"{n} / 412", f"Seite {n} von 412"])
        self.print(text, (x, y), self.span(3, 4.5), anchor)

    def word(self) -> None:
        size = self.span(3.2, 6)
        text = self.pick(
            ["Memo", "Approved", "see over", "Notes", "Appendix B", "void", "Anlage 3", "Thank you", "n/a"]
        )
        self.print(text, self.spot(8 * size, 2 * size), size, "lt", self.pick([0, 0, self.span(-4, 4)]))

    def tick(self) -> None:
        size = self.span(5, 16)
        x, y = self.spot(size, size)
        lines = [
            curve([(x + size * (u + self.random.normal(0, 0.05)), y + size * v) for u, v in line])
            for line in self.pick(_TICKS)
        ]
        self.write(lines, self.span(0.45, 1.1), self.pick([*BLUES, *BLACKS, (0.7, 0.12, 0.12)]))

    def _faint(self, mask: Plane, more: float) -> float:
        """Return a brightness of ink whose lines differ from paper by more levels than noise, blur and JPEG hide."""
        self.noise, self.quality, self.level = min(self.noise, 2), max(self.quality, 60), min(self.level, 0.98)
        self.blur = min(self.blur, 0.6)
        strength = float(np.percentile(mask[mask > 0.1], 75))  # thin lines fill their pixels in part
        return 1 - (12 + 2.5 * self.noise + self.span(0, more)) / (255 * self.level * 0.85 * strength)

    def faint_text(self) -> None:
        wide, high = self.span(70, self.across - 50), self.span(15, 90)
        x, y = self.spot(wide, high)
        mask = self.mask(self.prose((x, y, x + wide, y + high), self.span(3.6, 5)))
        self.ink(mask, self._faint(mask, 20))

    def rule(self) -> None:
        length, turn = self.span(35, 110), self.pick([0, 0, self.span(-0.5, 0.5), math.pi / 2])
        right, low = length * math.cos(turn), length * math.sin(turn)
        x, y = self.spot(max(right, 1), abs(low) + 1, 25)
        y, wobble = y + max(-low, 0), 0.0 if self.chance(0.4) else self.span(0.2, 0.8)  # by ruler or hand
        steps = [(x + right * k / 6, y + low * k / 6 + self.random.normal(0, 1) * wobble) for k in range(7)]
        self.write([curve(steps)], self.span(0.35, 0.9), self.pick([*BLACKS, *BLUES]))

    def bullet(self) -> None:
        wide, gap, count = self.span(1.4, 3.2), self.span(7, 14), int(self.random.integers(1, 5))
        x, y = self.span(28, 60), self.span(40, self.down - 40 - gap * count)
        value = None if self.chance(0.2) else 255
        dots = [area("ellipse", (x, y + gap * k), wide, None, value, line=0.4) for k in range(count)]
        self.ink(self.mask(dots), self.pick(BLACKS))

    def corner_word(self) -> None:
        right, (x, y) = self.chance(0.5), (self.span(10, 20), self.span(11, 20))
        x, y = self.across - x if right else x, self.down - y if self.chance(0.5) else y
        if self.chance(0.5):
            text = self.pick(["3b", "draft", "Copy", "A-17", "4711", "M. K.", "2/2", "S. 9"])
            self.print(text, (x, y), self.span(3.2, 5), "rs" if right else "ls")
        else:
            letters, height = int(self.random.integers(2, 5)), self.span(2.2, 3.5)
            line = self.hand((x - right * height * (0.9 * letters + 1), y), letters, height)
            self.write([line], self.span(0.4, 0.8), self.pick([*BLACKS, *BLUES]))

    def _lines(self, edge: int, pitch: float, wide: float) -> Plane:
        """Return parallel lines along an edge."""
        place = self.from_edge(edge, self.span(-0.003, 0.003)) - np.float32(self.span(0, pitch))
        off = np.abs((place + pitch / 2) % np.float32(pitch) - np.float32(pitch / 2))
        lines: Plane = np.clip((wide / 2 - off) * self.scale + 0.5, 0, min(1, wide * self.scale))
        return lines

    def _ruling(self) -> tuple[float, float, float]:
        return self.pick([(0.5, 0.62, 0.82), (0.55, 0.55, 0.58), (0.45, 0.7, 0.75), (0.62, 0.55, 0.75)])

    def ruled(self) -> None:
        lines = self._lines(1, self.pick([7.1, 8.0, 8.7, 9.0]), self.span(0.25, 0.45)) * (self.y > self.span(8, 30))
        self.ink(lines, self._ruling())
        if self.chance(0.4):
            margin = 0.8 * np.clip(1 - np.abs(self.x - self.span(25, 32)) * self.scale, 0, 1) * np.ones_like(self.y)
            self.ink(margin, (0.85, 0.4, 0.45))

    def squared(self) -> None:
        pitch, wide = self.pick([5.0, 5.0, 4.0, 10.0]), self.span(0.22, 0.4)
        self.ink(np.maximum(self._lines(0, pitch, wide), self._lines(1, pitch, wide)), self._ruling())

    def dotted(self) -> None:
        wide = self.span(0.5, 0.9)
        self.ink(self._lines(0, 5, wide) * self._lines(1, 5, wide), self.span(0.3, 0.55))

    def headed(self) -> None:
        left, top = self.span(22, 30), self.span(14, 24)
        name = self.pick(
            ["Hansen & Brill GmbH", "Northfield Surgery", "Ateliers Moreau", "City Council", "Dr. A. Weber"]
        )
        self.print(name, (left, top + 6), self.span(4.5, 8))
        self.print("12 Harbour Street, 20457 Hamburg - Tel. 040 123456", (left, top + 11), self.span(2.4, 3.2))
        if self.chance(0.6):
            at, start, end = (self.across - self.span(28, 40), top + 2), self.span(0, 90), self.span(200, 360)
            logo = area("pieslice", at, self.span(10, 16), start=start, end=end)
            self.ink(self.mask([logo]), self.pick([*BLUES, *BLACKS, (0.6, 0.1, 0.15), (0.1, 0.4, 0.25)]))
        if self.chance(0.5):
            self.print("IBAN DE02 1203 0000 0000 2020 51   VAT ID DE123456789", (left, self.down - 14), 2.6)

    def underexposed(self) -> None:
        self.level, self.noise = self.span(0.13, 0.28), self.span(0.6, 2)
        margin, top, bottom = self.span(18, 28), self.span(20, 60), self.down * self.span(0.5, 0.9)
        lines = self.prose((margin, top, self.across - margin, bottom), self.span(3.6, 5))
        self.ink(self.mask(lines), self.pick(BLACKS))

    def receipt(self) -> None:
        size, y = self.span(2.8, 3.4), self.span(8, 20)
        goods = [(self.pick(WORDS), f"{self.span(1, 60):.2f}") for _ in range(self.pick([5, 9, 16]))]
        shapes = []
        for name, price in [("MARKT AM TOR", ""), *goods, ("TOTAL", "84.20")]:
            shapes += [label((6, y), name, size), label((self.across - 6, y), price, size, "rs")]
            y += 1.45 * size
        mask = self.mask(shapes)
        faded = self._faint(mask, 40)
        self.ink(mask * np.clip(1 + 0.15 * self.grain(15), 0.8, 1), (faded, faded, min(faded + 0.04, 1)))

    def tiny_letters(self) -> None:
        size, (x, y) = self.span(3.5, 6), self.pick([self.spot(100, 30), (self.across - 180, self.down - 60)])
        for i in range(self.pick([1, 2, 4])):
            self.print(" ".join(self.pick(WORDS) for _ in range(self.pick([2, 4]))), (x, y + 2 * size * i), size)


class _Scenes(Traces):
    """Photos and screens: the scene is the paper."""

    def lens_cap(self) -> None:
        self.level = self.span(0.0, 0.06)
        if self.chance(0.4):  # a finger, or light at a side
            self.level = self.span(0.05, 0.35)
            near = np.exp(-self.from_edge(self.pick([0, 1, 2, 3])) / np.float32(self.span(40, 300)))
            self.fill(near * (1 + np.float32(0.1) * self.grain(90)), (0.1, 0.01, 0.01), (1, 0.3, 0.15))
        for _ in range(self.pick([0, 0, 3, 15])):  # hot pixels
            self.paper[self.random.integers(self.height), self.random.integers(self.width)] += self.span(0.5, 5)

    def sky(self) -> None:
        self.fill(self.y / self.down, self.pick([(0.2, 0.42, 0.75), (0.35, 0.58, 0.88)]), (0.68, 0.82, 0.95))
        cover = np.clip(self.clouds(self.span(30, 90)) * self.span(0.4, 1) + self.span(-0.4, 0.6), 0, 1)[..., None]
        self.paper += cover * ((0.93 - 0.12 * np.clip(self.grain(40), 0, 2))[..., None] - self.paper)

    def wall(self) -> None:
        self.paper *= np.array(self.pick([(0.85, 0.82, 0.76), (0.62, 0.36, 0.28), (0.7, 0.75, 0.78), (0.9, 0.8, 0.6)]))
        self.light *= 1 + np.float32(self.span(0.02, 0.05)) * self.grain(self.span(1, 3))
        kind = self.pick(["bricks", "tiles", "corner", "switch"])
        if kind in {"bricks", "tiles"}:
            high, wide = self.pick([(18, 55), (12, 36)])
            row = np.floor(self.y / high)
            x = self.x + (row % 2) * (wide / 2 if kind == "bricks" else 0)
            self.shade(np.minimum(self.y % high, x % wide) < self.span(0.8, 2.5), self.pick([-0.25, 0.3]))
            self.light *= 1 + np.float32(self.span(0.02, 0.06)) * np.sin(row * 7.3 + np.floor(x / wide) * 3.1)
        elif kind == "corner":
            self.shade(self.x + 0.05 * self.y > self.across * self.span(0.25, 0.75), self.span(0.12, 0.35))
            self.shade(self.y > self.down * self.span(0.8, 0.95), self.span(0.2, 0.6))
        else:
            at = self.spot(25, 25, 30)
            plate = [area("rectangle", at, wide, None, None, line=1.2) for wide in (26, 13)]
            self.shade(self.mask(plate), self.span(0.3, 0.5))
        self.lamp()

    def _ridge(self, height: float, rough: float) -> Plane:
        """Return what is below a skyline that runs at such a share of the height."""
        line = height * self.down + rough * self.clouds(self.span(30, 90))[0][None, :]
        below: Plane = np.clip((self.y - line) * self.scale / 2, 0, 1).astype(np.float32)
        return below

    def fog(self) -> None:
        self.fill(self.y / self.down, [self.span(0.7, 0.88)] * 3, [self.span(0.6, 0.8)] * 3)
        for k in range(3):
            self.shade(self._ridge(0.4 + 0.17 * k, self.span(8, 25)), self.span(0.07, 0.2))
        x = self.span(0.2, 0.8) * self.across
        post = stroke([(x, self.down * 0.4), (x + 4, self.down * 0.9)], self.span(4, 9))
        self.shade(self.mask([post], 1.5), self.span(0.12, 0.35))

    def snow(self) -> None:
        ridge = self._ridge(self.span(0.2, 0.5), 12)
        self.fill(ridge, self.pick([(0.55, 0.7, 0.9), (0.75, 0.77, 0.8)]), (0.93, 0.94, 0.97))
        self.shade(self.clouds(50) * np.clip(2 * self.y / self.down - 0.8, 0, 1), 0.04)
        x, step, side = self.span(0.3, 0.7) * self.across, self.span(8, 16), self.span(-8, 8)
        places = [(x + side * k + 6 * (k % 2), self.down - 8 - step * k) for k in range(7)]
        feet = [area("ellipse", at, 4 - 0.4 * k, 8 - 0.7 * k) for k, at in enumerate(places)]
        self.shade(self.mask(feet, 0.5), self.span(0.12, 0.35))

    def night(self) -> None:
        self.fill(self.y / self.down, (0.03, 0.04, 0.08), (0.09, 0.07, 0.05))
        self.paper *= 1 - 0.7 * self._ridge(self.span(0.4, 0.7), 10)[..., None]
        for _ in range(self.random.integers(3, 25)):
            away = np.hypot(self.x - self.span(0, self.across), self.y - self.down * self.span(0.4, 0.95))
            glow = 0.08 * np.exp(-away / np.float32(self.span(4, 20)))
            glow += np.exp(-((away / np.float32(self.span(0.7, 2))) ** 2))
            self.paper += glow[..., None] * np.array(self.pick([(1, 0.8, 0.45), (0.95, 0.95, 0.9), (0.9, 0.3, 0.2)]))

    def horizon(self) -> None:
        self.fill(self.y / self.down, (0.45, 0.6, 0.8), self.pick([(0.95, 0.8, 0.65), (0.8, 0.86, 0.9)]))
        sea = np.array(self.pick([(0.16, 0.3, 0.4), (0.3, 0.38, 0.42)])) * (1 + 0.08 * self.grain(12, 1.5)[..., None])
        self.paper += self._ridge(self.span(0.35, 0.7), 0)[..., None] * (sea - self.paper)

    def stars(self) -> None:
        self.noise = self.span(0.4, 1.5)
        self.paper *= np.array(self.pick([(0.02, 0.02, 0.05), (0.04, 0.05, 0.09)]))
        if self.chance(0.4):  # the Milky Way
            turn = self.span(-1, 1)
            band = np.exp(-(((self.y - self.down / 2 + turn * (self.x - self.across / 2)) / 30) ** 2))
            self.paper += 0.06 * (band * np.clip(1 + 0.4 * self.clouds(25), 0, 3))[..., None]
        bright = self.random.pareto(1.5, self.random.integers(80, 600))
        stars = [
            area("ellipse", self.anywhere(), min(0.45 + 0.24 * b, 1.8), None, min(int(90 + 60 * b), 255))
            for b in bright
        ]
        self.paper += self.mask(stars)[..., None]

    def dark_mode(self) -> None:
        self.paper *= np.array(self.pick([(0.07, 0.07, 0.07), (0.0, 0.0, 0.0), (0.12, 0.13, 0.16), (0.1, 0.14, 0.2)]))
        left, top, size = self.span(8, 20), self.span(10, self.down * 0.5), self.span(3.4, 6)
        counts = self.random.integers(1, 6, self.random.integers(1, 9))
        texts = [" ".join(self.pick(WORDS) for _ in range(count)) for count in counts]
        mask = self.mask(label((left, top + 1.9 * size * i), text, size) for i, text in enumerate(texts))
        self.paper += mask[..., None] * np.array(self.pick([(0.85, 0.85, 0.85), (0.5, 0.5, 0.5), (0.3, 0.6, 0.9)]))


_PAPER: Final = (
    "punch_holes",
    "folds",
    "crossfolds",
    "staples",
    "turned_corner",
    "bleed_through",
    "dust",
    "lid_border",
)
_SCANNER: Final = (*_PAPER, "bleed_box", "edge_shadow", "lamp", "streaks", "spiral_pad", "heavy_jpeg")
_PHONE: Final = (*_PAPER, "crumpled", "phone_shadow", "hand_shadow", "lamp", "vignette")
_MILD: Final = ("punch_holes", "folds", "dust", "bleed_through", "lid_border", "lamp")
_MILD_OF: Final = {"phone": (*_MILD, "vignette", "phone_shadow")}
_COMBINATIONS: Final = (
    ("punch_holes", "folds", "dust"),
    ("lamp", "edge_shadow", "dust"),
    ("punch_holes", "phone_shadow"),
)
_DEVICES: Final = {"edge_shadow": "flatbed", "streaks": "feeder"} | dict.fromkeys(
    ("phone_shadow", "hand_shadow", "vignette", "phone_photo", "underexposed"), "phone"
)
_SIZES: Final = {
    "receipt": [(80, 150), (80, 200), (58, 120)],
    "tiny_letters": [(841, 1189), (594, 841), (1189, 841), (841, 594)],
    "dark_mode": [(270, 480), (480, 270), (345, 194)],
    "photo": [(320, 240), (240, 320), (320, 180)],
}
_ALONE: Final = tuple(name for name in vars(Traces) if not name.startswith("_"))
_SCENE_KINDS: Final = tuple(name for name in vars(_Scenes) if not name.startswith("_"))
BLANK_KINDS: Final = (*_ALONE, "lens_cap", "phone_photo", "palette", "mixed", "pages", "real_combo")
CONTENT_KINDS: Final = (*(name for name in vars(_Written) if not name.startswith("_")), *_SCENE_KINDS[1:])


def draw(kind: str, seed: int) -> Scan:
    """Draw the picture of such a kind and seed."""
    random = np.random.default_rng([seed, zlib.crc32(kind.encode()), 2])
    if kind in _SCENE_KINDS:
        sizes = _SIZES.get(kind, _SIZES["photo"])
        device = "screen" if kind == "dark_mode" else "photo"
        picture = _Scenes(random, device, sizes[int(random.integers(len(sizes)))])
        getattr(picture, kind)()
        return picture.finish(kind)
    if kind in CONTENT_KINDS:
        return _draw_written(kind, random)
    if kind == "pages":
        first, *more = [_draw_empty(kind, random) for _ in range(random.integers(2, 5))]
        return Scan(kind, first.image, first.quality, first.dpi, tuple(page.image for page in more))
    return _draw_empty(kind, random)


def _draw_written(kind: str, random: np.random.Generator) -> Scan:
    size = _SIZES[kind][int(random.integers(len(_SIZES[kind])))] if kind in _SIZES else None
    page = _Written(random, _DEVICES.get(kind, ""), size)
    page.written = True
    getattr(page, kind)()
    traces: Sequence[str] = _MILD_OF.get(page.device, (*_MILD, "edge_shadow", "streaks"))
    if kind in {"faint_text", "receipt", "underexposed", "corner_word", "tiny_letters"}:
        traces = ("dust", "folds")
    for i in random.permutation(len(traces))[: random.integers(0, 3)]:
        getattr(page, traces[i])()
    return page.finish(kind)


def _draw_empty(kind: str, random: np.random.Generator) -> Scan:
    page = Traces(random, _DEVICES.get(kind, ""))
    able = _PHONE if page.device == "phone" else _SCANNER
    count = random.integers(2, 5) if kind == "mixed" else random.integers(0, 3)
    chosen: Sequence[str] = [able[int(i)] for i in random.permutation(len(able))[:count]]
    if kind in _ALONE:
        chosen = [kind]
    elif kind == "phone_photo":
        chosen = ["lamp", "dust", page.pick(["phone_shadow", "hand_shadow", "vignette"])]
        chosen += [trace for trace in ("vignette", "lid_border", "folds") if page.chance(0.35)]
    elif kind == "real_combo":
        chosen = page.pick(_COMBINATIONS)
    for trace in chosen:
        getattr(page, trace)()
    scan = page.finish(kind)
    image = scan.image
    if kind == "palette":
        image = image.quantize(page.pick([16, 64, 256]))
        if page.chance(0.5):
            image = scan.image.convert("RGB").quantize(palette=image, dither=Image.Dither.FLOYDSTEINBERG)
    elif kind == "heavy_jpeg" and page.chance(0.5):  # stored as JPEG once before
        out = io.BytesIO()
        image.save(out, "JPEG", quality=int(page.span(30, 60)))
        image = Image.open(out)
        image.load()
    return Scan(kind, image, scan.quality, scan.dpi)
