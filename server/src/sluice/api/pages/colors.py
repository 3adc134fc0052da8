"""The style sheet of a colour, which the upload page of a context shows its buttons in.

It is a file of its own, so that the policy of the page needs no inline styles. It depends on the colour alone.
"""

import re
from functools import lru_cache
from typing import Final

from sluice.api.pages.assets import Asset, version_of

_Rgb = tuple[int, int, int]

_BLACK: Final[_Rgb] = (0x00, 0x00, 0x00)
_WHITE: Final[_Rgb] = (0xFF, 0xFF, 0xFF)
# The surfaces of `upload-page.css`, on which the colour has to be seen, and what it is mixed with until it is.
_ON_LIGHT: Final = (_WHITE, _BLACK)
_ON_DARK: Final = ((0x18, 0x19, 0x20), _WHITE)
_LEAST_CONTRAST: Final = 3.0  # of parts of the user interface (WCAG 2.2, 1.4.11)
_STEPS: Final = 20
_LINEAR_UP_TO: Final = 0.04045  # of sRGB (IEC 61966-2-1)
_NAME: Final = re.compile("[0-9a-f]{6}", re.ASCII)


def color_address(color: str) -> str:
    """Return where the page finds the style sheet of a colour, `#rrggbb`."""
    name = color.removeprefix("#")
    found = color_style(name)
    if found is None:
        raise ValueError(f"expected #rrggbb, found {color!r}")
    return f"../static/colors/{name}.css?v={found.version}"


@lru_cache(maxsize=200)
def color_style(name: str) -> Asset | None:
    """Return the style sheet of a colour, `rrggbb`; None if it is no colour."""
    if not _NAME.fullmatch(name):
        return None
    color = (int(name[:2], 16), int(name[2:4], 16), int(name[4:], 16))
    light, dark = (_rules(_readable_on(surface, color, towards)) for surface, towards in (_ON_LIGHT, _ON_DARK))
    content = f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n".encode()
    return Asset(content, "text/css", version_of(content))


def _rules(color: _Rgb) -> str:
    accent = f"#{bytes(color).hex()}"
    text = "#000" if _contrast(color, _BLACK) > _contrast(color, _WHITE) else "#fff"
    return f"--accent: {accent}; --on-accent: {text}; --sluice-accent: {accent};"


def _readable_on(surface: _Rgb, color: _Rgb, towards: _Rgb) -> _Rgb:
    """Return the colour, mixed with another one as far as the surface requires."""
    for step in range(_STEPS + 1):
        mixed = [round(a + (b - a) * step / _STEPS) for a, b in zip(color, towards, strict=True)]
        found = (mixed[0], mixed[1], mixed[2])
        if _contrast(found, surface) >= _LEAST_CONTRAST:
            return found
    return towards


def _contrast(one: _Rgb, other: _Rgb) -> float:
    """Return the contrast of two colours, 1 to 21 (WCAG 2.2, "contrast ratio")."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: _Rgb) -> float:
    red, green, blue = (
        part / 255 / 12.92 if part / 255 <= _LINEAR_UP_TO else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in color
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
