"""All formats: every `Format` that a module of `formats` defines."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Final

from sluice_inspect.format import Format
from sluice_inspect.parts import Opener

# Imported by its name: formats import what is shared, and some of that asks the registry when it is called.
_PACKAGE: Final = "sluice_inspect.formats"


def _defined() -> Iterator[Format]:
    package = importlib.import_module(_PACKAGE)
    for module in pkgutil.walk_packages(package.__path__, f"{_PACKAGE}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Format):
                yield value


# In the order in which content is matched.
FORMATS: Final[tuple[Format, ...]] = tuple(
    sorted({each.name: each for each in _defined()}.values(), key=lambda each: (each.match_order, each.name))
)
# How the scan opens formats, by their names, the surest first.
OPENERS: Final[Mapping[str, Opener]] = dict(
    sorted(
        ((each.name, each.opener) for each in FORMATS if each.opener is not None), key=lambda each: each[1].certainty
    )
)
_BY_NAME: Final = {each.name: each for each in FORMATS}
_BY_EXTENSION: Final = {extension: each for each in FORMATS for extension in each.extensions}


def format_named(name: str) -> Format | None:
    """Return the format of a name, or None."""
    return _BY_NAME.get(name)


def format_of(extension: str) -> Format | None:
    """Return the format that an extension (lower case, without the dot) names, or None."""
    return _BY_EXTENSION.get(extension)
