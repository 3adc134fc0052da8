"""Which optional readers are not installed, and what their formats are then worth. Loads none of them; what they read is in the kinds."""

import importlib.util
from collections.abc import Iterator
from ctypes.util import find_library
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class _Reader:
    """A library that is looked for as a module of Python or as a shared library of the system, and what its absence means."""

    name: str
    module: str
    library: str
    without: str


_READERS: Final = (
    _Reader("PyAV (sluice[media])", "av", "", "sound and video are judged by their containers alone and never blank"),
    _Reader("pillow-heif (sluice[heif])", "pillow_heif", "de265", "HEIC pictures are not decoded and never blank"),
    _Reader("libarchive (of the system)", "", "archive", "packed RAR members, and 7z by PPMd, BCJ2 or ARM64, are not unpacked"),
)


def missing_readers() -> Iterator[str]:
    """Yield a sentence for each reader that is not there. What it alone reads is `unsupported` and passes."""
    for reader in _READERS:
        has_module = bool(reader.module) and importlib.util.find_spec(reader.module) is not None
        if not has_module and not (reader.library and find_library(reader.library)):
            yield f"without {reader.name}, {reader.without}"
