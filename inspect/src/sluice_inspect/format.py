"""What a file format declares (`Format`, one per format in `formats/`), and which optional readers are missing."""

import contextlib
import ctypes
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from ctypes.util import find_library
from dataclasses import dataclass
from typing import Final

from sluice_inspect.report import FactSheet, Limits, Measure
from sluice_inspect.source import Source


def never_blank() -> str | None:
    """Return None: the blank rule of formats that have none."""
    return None


@dataclass(frozen=True, slots=True)
class Examination:
    """What a format measured of a sound file, and why a reader would see nothing (None: it shows something)."""

    # `blank` is computed on demand, once; an `InspectionError` that it raises means not blank.
    measures: Mapping[str, Measure]
    blank: Callable[[], str | None] = never_blank
    # Facts and flags that cost less beside the examination than on their own; the others are added by `facts`.
    measured: FactSheet | None = None


def has_no_signature(_source: Source) -> bool:
    """Return False: the `matches` of text formats, which only a file name tells from each other."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One file format: `examine` measures a sound file, or raises an `InspectionError` that says what is wrong."""

    name: str
    content_type: str
    extensions: frozenset[str]  # lower case, without the dot: the names that promise this content
    matches: Callable[[Source], bool] = has_no_signature  # reads the bytes, never the name, and is cheap
    examine: Callable[[Source, Limits], Examination]
    sample: Callable[[], bytes]  # makes a small good file for the start-up self-test
    tolerated_extensions: frozenset[str] = frozenset()  # promise another format, yet are no mismatch: .mkv for WebM
    missing_reader: str = ""  # the optional library that reads this content, if not installed: it is unsupported then
    is_text: bool = False


# Name, Python module or shared library of the system (either will do), and what is missing without it.
_OPTIONAL_READERS: Final = (
    ("PyAV (sluice[media])", "av", "", "sound and video are judged by their containers alone and never blank"),
    ("pillow-heif (sluice[heif])", "pillow_heif", "de265", "HEIC pictures are not decoded and never blank"),
    (
        "libarchive (of the system)",
        "",
        "archive",
        "packed RAR members, and 7z by PPMd, BCJ2 or ARM64, are not unpacked",
    ),
)


def load_library(
    paths: Iterable[str], signatures: Iterable[tuple[str, tuple[object, ...], object]]
) -> ctypes.CDLL | None:
    """Return the first shared library that loads, its functions declared by name, arguments and result."""
    for path in paths:
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(path)
            for name, arguments, result in signatures:
                function = getattr(library, name)
                function.argtypes, function.restype = arguments, result
            return library
    return None


def missing_readers() -> Iterator[str]:
    """Yield a sentence for each optional reader that is not installed. Content that only it reads is `unsupported`."""
    for name, module, library, consequence in _OPTIONAL_READERS:
        has_module = bool(module) and importlib.util.find_spec(module) is not None
        if not has_module and not (library and find_library(library)):
            yield f"without {name}, {consequence}"
