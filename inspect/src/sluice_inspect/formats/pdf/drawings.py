"""What it costs to draw a PDF, before a library does: drawings that draw others, tiling patterns, computed colours."""
# A few KB of drawings that each draw the next one twice are a million drawings, which PDFium follows without a limit.

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pikepdf

from sluice_inspect.budget import Deadline
from sluice_inspect.formats.pdf.streams import unpacked_content
from sluice_inspect.report import TooComplex

_REGULAR: Final = rb"[^\0\t\n\f\r ()<>\[\]{}/%]"
_DRAWN: Final = re.compile(rb"(/" + _REGULAR + rb"++)[\0\t\n\f\r ]++Do(?!" + _REGULAR + rb")")
_DO: Final = re.compile(rb"(?<!" + _REGULAR + rb")Do(?!" + _REGULAR + rb")")
_PAINTED: Final = re.compile(rb"(?<!" + _REGULAR + rb")(?:[fFBbSs]\*?|sh|Do|Tj|TJ|['\"]|EI)(?!" + _REGULAR + rb")")
_ESCAPE: Final = re.compile(r"#([0-9A-Fa-f]{2})")
_UNBLENDED: Final = frozenset({"/Normal", "/Compatible"})
_DRAWINGS_MOST: Final = 200_000  # on one page
_DEPTH_MOST: Final = 60  # PDFium stops before
_CONTENT_MOST: Final = 8 * 1024**2  # unpacked bytes of one drawing that are read

# Measured with PDFium, at the largest scale of the blank rule, rounded up.
_PIXELS: Final = 1_500_000
_TILE_SECONDS: Final = 2e-8  # of a tile that overlaps others; those that do not are copied
_COPY_SECONDS: Final = 2e-11
_CODE_SECONDS: Final = 1.5e-9  # for each pixel and byte of a PostScript function
_SHADING_SECONDS: Final = 5e-8  # for each pixel, besides
_CODE_MOST: Final = 64 * 1024
_OVERLAP: Final = 1.05  # up to which tiles are taken for such that do not overlap

# The same for what is drawn in layers of their own: transparency groups, soft masks, blended objects.
_LAYER_SECONDS: Final = 0.015
_OBJECT_SECONDS: Final = 0.0005
_PICTURE_SECONDS: Final = 6e-9  # for each of its pixels, whenever it is drawn
_MOST: Final = 1e9  # beyond which loads are not distinguished


@dataclass(frozen=True, slots=True)
class _Load:
    """What it takes to draw something once: forms, objects, those that blend with what is below them, seconds more."""

    forms: float = 0
    objects: float = 0
    blended: float = 0
    seconds: float = 0.0

    def plus(self, other: _Load, times: float = 1) -> _Load:
        """Return the load of this, and of the other repeated `times` times."""
        return _Load(
            min(_MOST, self.forms + times * other.forms),
            min(_MOST, self.objects + times * other.objects),
            min(_MOST, self.blended + times * other.blended),
            min(_MOST, self.seconds + times * other.seconds),
        )

    @property
    def total_seconds(self) -> float:
        """All of it in seconds. For each object that blends, PDFium draws again what is below it."""
        once = self.objects * _OBJECT_SECONDS + self.blended * _LAYER_SECONDS + self.seconds
        return once * (1 + self.blended)


_UNKNOWN: Final = _Load(seconds=_MOST)


class PageLoads:
    """What it takes to draw the pages of a document; streams that several of them draw are read once."""

    def __init__(self, pdf: pikepdf.Pdf, deadline: Deadline) -> None:
        self._pdf = pdf
        self._deadline = deadline
        self._known: dict[tuple[tuple[int, int], tuple[int, int]], _Load] = {}
        self._glyphs: dict[tuple[int, int], float] = {}

    def seconds(self, index: int) -> float:
        """Return how long a page may take to draw; much if that cannot be read."""
        try:
            return self._page(self._pdf.pages[index]).total_seconds
        except (pikepdf.PikepdfError, ValueError, TypeError, AttributeError, IndexError):
            return _MOST

    def forms(self, page: pikepdf.Page) -> float:
        """Return how many forms a page draws, with those that they draw."""
        resources = _resources(page.obj)
        forms = [each for each in _entries(resources, "/XObject").values() if _is_form(each)]
        if not any(_entries(each.get("/Resources", resources), "/XObject") for each in forms):
            return sum(1 for look in _appearances(page.obj) if _entries(look.get("/Resources"), "/XObject"))
        return self._page(page).forms

    def _page(self, page: pikepdf.Page) -> _Load:
        resources = _resources(page.obj)
        contents = page.obj.get("/Contents")
        parts = list(contents) if isinstance(contents, pikepdf.Array) else [contents]
        load = self._drawn([each for each in parts if isinstance(each, pikepdf.Stream)], resources, resources, 0)
        for look in _appearances(page.obj):
            load = load.plus(self._form(look, resources, 0))
        return load

    def _form(self, form: pikepdf.Object, page_resources: object, depth: int) -> _Load:
        own = form.get("/Resources")
        of_page = page_resources.objgen if own is None and isinstance(page_resources, pikepdf.Object) else (0, 0)
        key = form.objgen, of_page
        if key not in self._known:
            self._known[key] = _Load(forms=1)  # of one that draws itself
            drawn = self._drawn([form], page_resources if own is None else own, page_resources, depth + 1)
            group = _Load(forms=1, seconds=_LAYER_SECONDS if "/Group" in form else 0.0)
            self._known[key] = drawn.plus(group)
        return self._known[key]

    def _drawn(self, streams: Sequence[pikepdf.Object], resources: object, page_resources: object, depth: int) -> _Load:
        """Return the load of drawing these streams, each of which continues the one before."""
        if depth > _DEPTH_MOST:
            return _Load()
        contents = [unpacked_content(each, _CONTENT_MOST) for each in streams]
        if self._deadline.has_passed or None in contents:
            return _UNKNOWN
        content = b"\n".join(each for each in contents if each is not None)
        painted = len(_PAINTED.findall(content))
        load = _Load(objects=painted)
        loads = {
            _plain(name): self._named(each, page_resources, depth)
            for name, each in _entries(resources, "/XObject").items()
            if isinstance(each, pikepdf.Stream)
        }
        if loads:
            drawn = Counter(_plain(name.decode("latin-1")) for name in _DRAWN.findall(content))
            for name, count in drawn.items():
                load = load.plus(loads.get(name, _Load()), count)
            unnamed = len(_DO.findall(content)) - drawn.total()  # a comment is in between
            load = load.plus(max(loads.values(), key=lambda each: each.total_seconds), max(0, unnamed))
        glyph = max((self._glyph_seconds(font, page_resources, depth) for font in _fonts(resources)), default=0.0)
        load = load.plus(_Load(seconds=glyph), len(content))
        states = [each for each in _entries(resources, "/ExtGState").values() if isinstance(each, pikepdf.Dictionary)]
        masks = [mask.get("/G") for each in states if isinstance(mask := each.get("/SMask"), pikepdf.Dictionary)]
        for mask in masks:
            seconds = self._form(mask, page_resources, depth).total_seconds if isinstance(mask, pikepdf.Stream) else 0.0
            load = load.plus(_Load(seconds=_LAYER_SECONDS + seconds), load.objects)
        if any(str(each.get("/BM", "/Normal")) not in _UNBLENDED for each in states):
            load = load.plus(_Load(blended=load.objects))
        return load

    def _named(self, drawing: pikepdf.Object, page_resources: object, depth: int) -> _Load:
        if _is_form(drawing):
            return self._form(drawing, page_resources, depth)
        mask = drawing.get("/SMask", drawing.get("/Mask"))
        pictures = [drawing, mask] if isinstance(mask, pikepdf.Stream) else [drawing]
        pixels = sum(int(each.get("/Width", 0)) * int(each.get("/Height", 0)) for each in pictures)
        return _Load(seconds=_PICTURE_SECONDS * max(pixels, _PIXELS if len(pictures) > 1 else _PIXELS / 4))

    def _glyph_seconds(self, font: pikepdf.Object, page_resources: object, depth: int) -> float:
        """Return how long a glyph of a font takes whose glyphs are drawings and draw others; 0 for any other font."""
        if font.is_indirect and font.objgen in self._glyphs:
            return self._glyphs[font.objgen]
        glyphs = [each for each in _entries(font, "/CharProcs").values() if isinstance(each, pikepdf.Stream)]
        key = font.objgen if font.is_indirect else max((each.objgen for each in glyphs), default=(0, 0))
        if key not in self._glyphs:
            self._glyphs[key] = 0.0  # of one whose glyphs show a text in it
            own = font.get("/Resources", page_resources)
            if any(_entries(own, kind) for kind in ("/XObject", "/ExtGState", "/Pattern", "/Shading", "/Font")):
                loads = (self._drawn([each], own, page_resources, depth + 1) for each in glyphs)
                self._glyphs[key] = max((load.total_seconds for load in loads), default=0.0)
        return self._glyphs[key]


def refuse_multiplied_drawings(pdf: pikepdf.Pdf, deadline: Deadline) -> None:
    """Raise `TooComplex` if the drawings of a page draw one another too often."""
    loads = PageLoads(pdf, deadline)
    try:
        form = pdf.Root.get("/AcroForm")
        if isinstance(form, pikepdf.Dictionary) and _fields(form.get("/Fields"), {}, 0) > _DRAWINGS_MOST:
            raise TooComplex(f"the form has more than {_DRAWINGS_MOST} fields that lie within others")
        for number, page in enumerate(pdf.pages, start=1):
            if deadline.has_passed:
                return
            if loads.forms(page) > _DRAWINGS_MOST:
                raise TooComplex(f"page {number} has more than {_DRAWINGS_MOST} drawings that lie within others")
    except (pikepdf.PikepdfError, ValueError, TypeError, AttributeError):
        return  # PDFium judges it


def _fields(kids: object, memo: dict[tuple[int, int], int], depth: int) -> int:
    """Return how many fields a list of them leads to; PDFium follows each as often as it is listed."""
    total = 0
    for kid in kids if isinstance(kids, pikepdf.Array) and depth < _DEPTH_MOST else ():
        if isinstance(kid, pikepdf.Dictionary) and (kid.objgen == (0, 0) or kid.objgen not in memo):
            memo[kid.objgen] = 1  # of one that holds itself
            memo[kid.objgen] = 1 + _fields(kid.get("/Kids"), memo, depth + 1)
        total += memo[kid.objgen] if isinstance(kid, pikepdf.Dictionary) else 0
    return min(total, 2 * _DRAWINGS_MOST)


def _resources(page: pikepdf.Object) -> object:
    """Return the resources of a page, which it may have from the lists of pages above it."""
    for _ in range(_DEPTH_MOST):
        found = page.get("/Resources")
        above = page.get("/Parent")
        if found is not None or not isinstance(above, pikepdf.Dictionary):
            return found
        page = above
    return None


def _entries(holder: object, kind: str) -> dict[str, pikepdf.Object]:
    found = holder.get(kind) if isinstance(holder, pikepdf.Dictionary) else None
    return dict(found.items()) if isinstance(found, pikepdf.Dictionary) else {}


def _is_form(drawing: pikepdf.Object) -> bool:
    return isinstance(drawing, pikepdf.Stream) and drawing.get("/Subtype") == "/Form"


def _fonts(resources: object) -> Iterator[pikepdf.Object]:
    for font in _entries(resources, "/Font").values():
        if isinstance(font, pikepdf.Dictionary) and font.get("/Subtype") == "/Type3":
            yield font


def _appearances(page: pikepdf.Object) -> Iterator[pikepdf.Object]:
    """Yield what the annotations of a page look like, in each of their states."""
    annotations = page.get("/Annots")
    for each in annotations if isinstance(annotations, pikepdf.Array) else ():
        looks = each.get("/AP") if isinstance(each, pikepdf.Dictionary) else None
        normal = looks.get("/N") if isinstance(looks, pikepdf.Dictionary) else None
        states = normal.values() if isinstance(normal, pikepdf.Dictionary) else (normal,)
        yield from (state for state in states if isinstance(state, pikepdf.Stream))


def _plain(name: str) -> str:
    """Return a name without its escapes."""
    return _ESCAPE.sub(lambda code: chr(int(code[1], 16)), name)


def object_seconds(pdf: pikepdf.Pdf, most_pixels: int, deadline: Deadline) -> float:
    """Return how long one object of a page may take to draw by its pattern, shading or function; 0 without any.

    PDFium cannot be stopped within an object, and a tiling pattern of some hundred bytes may be billions of tiles.
    """
    area, seconds = 0.0, 0.0
    pixels = max(_PIXELS, most_pixels)
    try:
        for each in pdf.objects:
            if deadline.has_passed:
                return float("inf")
            holder = each.stream_dict if isinstance(each, pikepdf.Stream) else each
            if not isinstance(holder, pikepdf.Dictionary):
                continue
            if isinstance(each, pikepdf.Stream) and holder.get("/PatternType") == 1:
                area = area or _largest_page(pdf)
                seconds += _tiling_seconds(each, area)
            elif isinstance(each, pikepdf.Stream) and holder.get("/FunctionType") == 4:
                seconds += _CODE_SECONDS * pixels * _code_bytes(each)
            elif b"/ShadingType" in holder.unparse(resolved=True):
                seconds += _SHADING_SECONDS * _PIXELS
    except (pikepdf.PikepdfError, ValueError, TypeError, AttributeError, OverflowError, ZeroDivisionError):
        return float("inf")
    return seconds


def _largest_page(pdf: pikepdf.Pdf) -> float:
    boxes = ([float(side) for side in page.mediabox] for page in pdf.pages)
    return max((abs((box[2] - box[0]) * (box[3] - box[1])) for box in boxes), default=0.0)


def _tiling_seconds(pattern: pikepdf.Object, page_area: float) -> float:
    left, bottom, right, top = (float(side) for side in pattern.get("/BBox", (0, 0, 0, 0)))
    steps = abs(float(pattern.get("/XStep", 0)) or right - left), abs(float(pattern.get("/YStep", 0)) or top - bottom)
    matrix = [float(number) for number in pattern.get("/Matrix", (1, 0, 0, 1, 0, 0))]
    scale = abs(matrix[0] * matrix[3] - matrix[1] * matrix[2])
    tiles = page_area / (steps[0] * steps[1] * scale)
    overlap = max(1.0, abs(right - left) / steps[0]) * max(1.0, abs(top - bottom) / steps[1])
    resources = pattern.get("/Resources")
    if isinstance(resources, pikepdf.Dictionary) and ("/Pattern" in resources or "/Shading" in resources):
        return float("inf")  # patterns within patterns are drawn for each tile
    return tiles * (_COPY_SECONDS if overlap <= _OVERLAP else _TILE_SECONDS * overlap)


def _code_bytes(function: pikepdf.Object) -> int:
    code = unpacked_content(function, _CODE_MOST)
    return _CODE_MOST if code is None else len(code)
