"""What it costs to draw a PDF, before a library does: drawings that draw others, tiling patterns, computed colours."""
# A few KB of drawings that each draw the next one twice are a million drawings, which PDFium follows without a limit.

import re
import zlib
from collections import Counter
from typing import Final

import pikepdf

from sluice_inspect.budget import Deadline
from sluice_inspect.report import TooComplex

_DRAWN: Final = re.compile(rb"(/[^\0\t\n\f\r ()<>\[\]{}/%]++)[\0\t\n\f\r ]++Do(?![A-Za-z])")
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

_Memo = dict[tuple[int, int], int]


def refuse_multiplied_drawings(pdf: pikepdf.Pdf, deadline: Deadline) -> None:
    """Raise `TooComplex` if the drawings of a page draw one another too often."""
    memo: _Memo = {}
    total = 0
    try:
        form = pdf.Root.get("/AcroForm")
        if isinstance(form, pikepdf.Dictionary) and _fields(form.get("/Fields"), {}, 0) > _DRAWINGS_MOST:
            raise TooComplex(f"the form has more than {_DRAWINGS_MOST} fields that lie within others")
        for number, page in enumerate(pdf.pages, start=1):
            if deadline.has_passed:
                return
            contents = page.obj.get("/Contents")
            parts = list(contents) if isinstance(contents, pikepdf.Array) else [contents]
            forms = _forms(page.obj.get("/Resources"))
            if forms and any(_forms(form.get("/Resources")) for form in forms.values()):
                drawn = sum((_drawn(part) for part in parts if isinstance(part, pikepdf.Stream)), Counter[str]())
                total += sum(max(1, drawn[name]) * _count(form, memo, 0) for name, form in forms.items())
            for stream in _appearances(page.obj.get("/Annots")):
                total += _count(stream, memo, 0)
            if total > _DRAWINGS_MOST:
                raise TooComplex(f"page {number} has more than {_DRAWINGS_MOST} drawings that lie within others")
            total = 0
    except (pikepdf.PikepdfError, ValueError, TypeError, AttributeError):
        return  # PDFium judges it


def _count(drawing: pikepdf.Object, memo: _Memo, depth: int) -> int:
    """Return how many drawings one is, with those that it draws."""
    if drawing.objgen in memo:
        return memo[drawing.objgen]
    memo[drawing.objgen] = 1  # of one that draws itself
    forms = _forms(drawing.get("/Resources"))
    if forms and depth < _DEPTH_MOST:
        drawn = _drawn(drawing)
        inner = sum(drawn[name] * _count(form, memo, depth + 1) for name, form in forms.items())
        memo[drawing.objgen] = min(1 + inner, 2 * _DRAWINGS_MOST)
    return memo[drawing.objgen]


def _fields(kids: object, memo: _Memo, depth: int) -> int:
    """Return how many fields a list of them leads to; PDFium follows each as often as it is listed."""
    total = 0
    for kid in kids if isinstance(kids, pikepdf.Array) and depth < _DEPTH_MOST else ():
        if isinstance(kid, pikepdf.Dictionary) and (kid.objgen == (0, 0) or kid.objgen not in memo):
            memo[kid.objgen] = 1  # of one that holds itself
            memo[kid.objgen] = 1 + _fields(kid.get("/Kids"), memo, depth + 1)
        total += memo[kid.objgen] if isinstance(kid, pikepdf.Dictionary) else 0
    return min(total, 2 * _DRAWINGS_MOST)


def _forms(resources: object) -> dict[str, pikepdf.Object]:
    objects = resources.get("/XObject") if isinstance(resources, pikepdf.Dictionary) else None
    if not isinstance(objects, pikepdf.Dictionary):
        return {}
    return {
        name: each
        for name, each in objects.items()
        if isinstance(each, pikepdf.Stream) and each.get("/Subtype") == "/Form"
    }


def _appearances(annotations: object) -> list[pikepdf.Object]:
    streams: list[pikepdf.Object] = []
    for each in annotations if isinstance(annotations, pikepdf.Array) else ():
        looks = each.get("/AP") if isinstance(each, pikepdf.Dictionary) else None
        normal = looks.get("/N") if isinstance(looks, pikepdf.Dictionary) else None
        if isinstance(normal, pikepdf.Stream) and _forms(normal.get("/Resources")):
            streams.append(normal)
    return streams


def _drawn(stream: pikepdf.Object) -> Counter[str]:
    """Return how often the content of a stream draws what its resources name."""
    content = stream.read_raw_bytes()
    if "/Filter" in stream:
        try:
            content = zlib.decompressobj().decompress(content, _CONTENT_MOST)
        except zlib.error:
            return Counter()
    return Counter(found.decode("latin-1") for found in _DRAWN.findall(content[:_CONTENT_MOST]))


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
    raw = function.read_raw_bytes()
    if "/Filter" not in function:
        return len(raw)
    try:
        return len(zlib.decompressobj().decompress(raw, _CODE_MOST))
    except zlib.error:
        return _CODE_MOST
