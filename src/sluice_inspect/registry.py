"""All formats: every `Format` that a module of `formats` defines."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Final

from sluice_inspect import formats
from sluice_inspect.format import Format


def _defined() -> Iterator[Format]:
    for module in pkgutil.walk_packages(formats.__path__, f"{formats.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Format):
                yield value


# In the order in which content is matched.
FORMATS: Final[tuple[Format, ...]] = tuple(
    sorted({each.name: each for each in _defined()}.values(), key=lambda each: (each.match_order, each.name))
)
_BY_NAME: Final = {each.name: each for each in FORMATS}
_BY_EXTENSION: Final = {extension: each for each in FORMATS for extension in each.extensions}


def format_named(name: str) -> Format | None:
    """Return the format of a name, or None."""
    return _BY_NAME.get(name)


def format_of(extension: str) -> Format | None:
    """Return the format that an extension (lower case, without the dot) names, or None."""
    return _BY_EXTENSION.get(extension)
