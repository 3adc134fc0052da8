"""Draw line charts as SVG with the standard library: equidistant points on the x axis, a y axis from zero."""

from collections.abc import Mapping, Sequence
from html import escape

Series = Mapping[str, Sequence[float]]

_WIDTH, _HEIGHT = 640, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 40, 48
_COLOURS = ("#1f6feb", "#9a6700", "#57606a")
_TICKS = 4


def line_chart(title: str, unit: str, places: Sequence[str], series: Series) -> str:
    """Return the text of an SVG. `places` labels the points on the x axis; each series has one value per point."""
    most = max(value for values in series.values() for value in values) or 1.0
    across = (_WIDTH - _LEFT - _RIGHT) / max(1, len(places) - 1)
    down = _HEIGHT - _TOP - _BOTTOM

    def at(number: int, value: float) -> tuple[float, float]:
        return _LEFT + number * across, _TOP + down * (1 - value / most)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 20, f"{title}, {unit}", weight="bold"),
    ]
    for tick in range(_TICKS + 1):
        value = most * tick / _TICKS
        _x, y = at(0, value)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.0f}" y2="{y:.0f}" stroke="#d0d7de"/>')
        parts.append(_text(_LEFT - 8, y + 4, f"{value:,.0f}", anchor="end"))
    parts += [
        _text(at(number, 0)[0], _HEIGHT - _BOTTOM + 18, place, anchor="middle") for number, place in enumerate(places)
    ]
    for number, (name, values) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = " ".join(f"{x:.0f},{y:.0f}" for x, y in (at(place, value) for place, value in enumerate(values)))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(_LEFT + number * 120, _HEIGHT - 8, name, colour=colour))
    return "\n".join([*parts, "</svg>", ""])


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal", colour: str = "#24292f"
) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}">{escape(text)}</text>'
