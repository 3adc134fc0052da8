"""The languages that OCR reads on this machine: those of which data for Tesseract is installed."""
# The server imports this module: it looks at names of files, and loads nothing.

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sluice_inspect.text_questions import Language

# What Tesseract calls the languages; Chinese has data for either of its scripts.
_NAMES: Final[Mapping[Language, tuple[str, ...]]] = {
    "ar": ("ara",), "cs": ("ces",), "da": ("dan",), "de": ("deu",), "el": ("ell",), "en": ("eng",), "es": ("spa",),
    "fr": ("fra",), "he": ("heb",), "hi": ("hin",), "it": ("ita",), "ja": ("jpn",), "ko": ("kor",), "nl": ("nld",),
    "pl": ("pol",), "pt": ("por",), "ro": ("ron",), "ru": ("rus",), "sv": ("swe",), "tr": ("tur",), "uk": ("ukr",),
    "zh": ("chi_sim", "chi_tra"),
}  # fmt: skip
_ROOT: Final = Path("/")
# Where distributions and `make install` put the library, whose interface is that of Tesseract 5, and its data.
_LIBRARIES: Final = ("usr/local/lib", "usr/lib/*-linux-gnu", "usr/lib64", "usr/lib")
_DATA: Final = (
    "usr/local/share/tessdata",
    "usr/share/tesseract-ocr/5*/tessdata",
    "usr/share/tesseract/tessdata",
    "usr/share/tessdata",
)


@dataclass(frozen=True, slots=True)
class Installed:
    """Tesseract's library, the folder of its data, and the languages that it has data for."""

    library: Path
    data: Path
    languages: frozenset[Language]

    def names(self, languages: Iterable[Language]) -> tuple[str, ...]:
        """Return what Tesseract calls those of these languages that are installed, in the same order."""
        return tuple(name for each in languages for name in _NAMES[each] if _has(self.data, name))


def find_installed(root: Path = _ROOT) -> Installed | None:
    """Return what is installed now, None without a language."""
    library = next((path for pattern in _LIBRARIES for path in root.glob(f"{pattern}/libtesseract.so.5")), None)
    if library is None:
        return None
    for folder in (path for pattern in _DATA for path in sorted(root.glob(pattern))):
        found = frozenset(each for each in _NAMES if any(_has(folder, name) for name in _NAMES[each]))
        if found:
            return Installed(library, folder, found)
    return None


def installed_languages() -> frozenset[Language]:
    """Return the languages that are installed now."""
    installed = find_installed()
    return frozenset() if installed is None else installed.languages


def packages(languages: Iterable[Language]) -> tuple[str, ...]:
    """Return the packages of Debian and Ubuntu with the data for these languages."""
    return tuple(f"tesseract-ocr-{name.replace('_', '-')}" for each in languages for name in _NAMES[each][:1])


def _has(folder: Path, name: str) -> bool:
    return (folder / f"{name}.traineddata").is_file()
