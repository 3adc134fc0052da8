"""Measure OCR: the word error rate, the processor time and the memory of scans whose text is known.

    python scripts/ocr.py [FOLDER] [--count 10] [--language en]

Pages of Django's translations in ten languages are drawn and scanned: 100 to 300 dpi, blurred, askew, with noise and as
JPEG. FOLDER has pictures; the text of NAME.jpg is in NAME.txt beside it, or in ../box/NAME.csv, as the receipts of
ICDAR 2019 have it: eight coordinates and the words of a line. Each page is read in a process of its own, as the locked
worker reads it. A language without its data, or its font, is left out.
"""

import argparse
import io
import multiprocessing
import os
import random
import re
import resource
import statistics
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import django
import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from text_rules import TODAY, sentences_in

from sluice_inspect.document_text.matching import answer
from sluice_inspect.ocr import pages
from sluice_inspect.ocr.languages import find_installed
from sluice_inspect.report import Limits
from sluice_inspect.source import MemoryBacked
from sluice_inspect.text_questions import Language, Question, Words

_LANGUAGES: Final[tuple[Language, ...]] = ("en", "de", "fr", "es", "it", "nl", "pl", "pt", "uk", "ja")
_FONTS: Final = ("LiberationSans-Regular.ttf", "LiberationSerif-Regular.ttf", "DejaVuSans.ttf")
_JAPANESE_FONT: Final = "ipag.ttf"  # Debian: fonts-ipafont-gothic
_LINES: Final = 30
_WHITE: Final = 250
_PHRASES: Final = 10  # of two words, that are searched in each page
_CLEAN: Final = multiprocessing.get_context("forkserver")  # a process that has drawn nothing
_SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".png", ".tif", ".tiff"})


@dataclass(frozen=True)
class Page:
    """A scan, its name and its text."""

    name: str
    content: bytes
    text: str


@dataclass(frozen=True)
class Measured:
    """What reading a page gave: shares of words, seconds of the processor, and bytes beyond what the process had."""

    errors: float
    missed: float
    phrases: float
    languages: Sequence[str]
    seconds: float
    loading: float
    peak_bytes: int


def main(arguments: Sequence[str]) -> int:
    """Print the figures of each language, and of the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument(
        "--count", type=int, default=10, help="pages of each language, or of the folder: ten times that"
    )
    parser.add_argument("--language", default="en", help="of the pictures in the folder")
    options = parser.parse_args(arguments)
    _CLEAN.set_forkserver_preload(["text_rules", "sluice_inspect.ocr.pages"])
    installed = find_installed()
    if installed is None:
        print("Tesseract is not installed: apt-get install tesseract-ocr")
        return 1
    drawn: list[Measured] = []
    for language in _LANGUAGES:
        if language not in installed.languages:
            print(f"{language}: no data")
            continue
        asked = list(dict.fromkeys((language, "en"))) if language != "ja" else ["ja"]
        found = [_measure(page, installed.names(asked), language) for page in _drawn(language, options.count)]
        _show(language, found)
        drawn += found
    _show("drawn", drawn)
    if options.folder is not None:
        files = list(_known(options.folder))[:: max(1, len(list(_known(options.folder))) // (10 * options.count))]
        chosen = files[: 10 * options.count]
        found = [_measure(read(), installed.names([options.language]), options.language) for read in chosen]
        _show(str(options.folder), found)
    return 0


def _show(name: str, found: Sequence[Measured]) -> None:
    if not found:
        return
    errors, seconds = sorted(each.errors for each in found), sorted(each.seconds for each in found)
    print(
        f"{name}: {len(found)} pages; word errors: median {statistics.median(errors):.1%}, mean "
        f"{statistics.mean(errors):.1%}, 95 % {errors[len(errors) * 95 // 100]:.1%}; words missed "
        f"{statistics.mean(each.missed for each in found):.1%}; phrases found "
        f"{statistics.mean(each.phrases for each in found):.1%}; seconds: median {statistics.median(seconds):.2f}, "
        f"95 % {seconds[len(seconds) * 95 // 100]:.2f}, loading {statistics.median(each.loading for each in found):.2f}; "
        f"MB: most {max(each.peak_bytes for each in found) / 1e6:.0f}; languages "
        f"{dict(Counter(','.join(each.languages) or 'not known' for each in found))}",
        flush=True,
    )


def _measure(page: Page, names: Sequence[str], language: str) -> Measured:
    """Read a page in a process of its own, as a worker does, and compare it with its text."""
    with _CLEAN.Pool(1) as worker:
        found = worker.apply(_read, (page, names))
    expected, got = (_tokens(text, language) for text in (page.text, found["text"]))
    hits = sum((Counter(expected) & Counter(got)).values())
    phrases = _phrases(page, language)
    contained = answer(found["text"], Question(tuple(Words((each,)) for each in phrases), (), (), TODAY))
    return Measured(
        errors=_distance(expected, got) / max(1, len(expected)),
        missed=1 - hits / max(1, len(expected)),
        phrases=len(contained["found"]) / max(1, len(phrases)),
        languages=contained["languages"],
        seconds=found["seconds"],
        loading=found["loading"],
        peak_bytes=found["peak"],
    )


def _read(page: Page, names: Sequence[str]) -> Mapping[str, Any]:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    began, resident = time.process_time(), _resident_bytes()
    pages.load(names)
    loaded = time.process_time()
    reader = pages.loaded()
    plugin = "tiff" if page.content[:2] in {b"II", b"MM"} else "png" if page.content[:1] == b"\x89" else "jpeg"
    with MemoryBacked(page.content) as source:
        text = "" if reader is None else reader.read_picture(source, plugin, Limits())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - resident
    return {"text": text, "loading": loaded - began, "seconds": time.process_time() - loaded, "peak": peak}


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def _tokens(text: str, language: str) -> list[str]:
    """Return the words of a text, or the signs of a text without spaces; case and punctuation do not count."""
    plain = re.sub("\ufffe\\s*", "", unicodedata.normalize("NFKC", text)).casefold()
    return re.findall(r"[^\W_]", plain) if language == "ja" else re.findall(r"[^\W_]+", plain)


def _phrases(page: Page, language: str) -> Sequence[str]:
    """Return some phrases of two words, or of six signs, that stand on one line."""
    chance = random.Random(page.name)  # noqa: S311  (a choice for a measurement)
    found: list[str] = []
    for line in page.text.splitlines():
        words = (
            re.findall("[\u3041-\u30fa\u4e00-\u9fff]{6}", line)
            if language == "ja"
            else re.findall(r"[^\W_]+ [^\W_]+", line)
        )
        found += words[:1]
    chance.shuffle(found)
    return found[:_PHRASES]


def _distance(expected: Sequence[str], got: Sequence[str]) -> int:
    """Return how many words have to be put in, left out or replaced."""
    before = list(range(len(got) + 1))
    for number, word in enumerate(expected, start=1):
        row = [number]
        for at, other in enumerate(got, start=1):
            row.append(min(before[at] + 1, row[-1] + 1, before[at - 1] + (word != other)))
        before = row
    return before[-1]


def _drawn(language: Language, count: int) -> Iterator[Page]:
    root, name = Path(django.__file__).parent, "de" if language == "en" else language
    folders = [root / "conf/locale" / name, *sorted(root.glob(f"contrib/*/locale/{name}"))]
    known = [each for folder in folders for each in sentences_in(folder, translated=language != "en")]
    for number in range(count):
        chance = random.Random(f"{language} {number}")  # noqa: S311  (a drawing)
        try:
            font_name = _JAPANESE_FONT if language == "ja" else chance.choice(_FONTS)
            dpi = chance.choice((100, 150, 200, 300))
            font = ImageFont.truetype(font_name, round(chance.uniform(9, 12) * dpi / 72))
        except OSError:
            print(f"{language}: no font {font_name}")
            return
        yield _scan(chance, chance.sample(known, min(len(known), 60)), font, dpi, language)


def _scan(
    chance: random.Random, sentences: Sequence[str], font: ImageFont.FreeTypeFont, dpi: int, language: str
) -> Page:
    width, height = round(8.27 * dpi), round(11.69 * dpi)
    page = Image.new("L", (width, height), _WHITE)
    space = "" if language == "ja" else " "
    words = list("".join(sentences).replace(" ", "")) if language == "ja" else " ".join(sentences).split()
    lines, line = list[str](), ""
    for word in words:
        longer = f"{line}{space}{word}" if line else word
        if font.getlength(longer) > width - 2 * dpi:
            lines.append(line)
            longer = word
        line = longer
    ink = chance.randrange(20, 90)
    for number, each in enumerate(lines[:_LINES]):
        ImageDraw.Draw(page).text((dpi, dpi * 0.8 + number * font.size * 1.5), each, fill=ink, font=font)
    page = page.rotate(chance.uniform(-1.5, 1.5), resample=Image.Resampling.BICUBIC, fillcolor=_WHITE)
    page = page.filter(ImageFilter.GaussianBlur(chance.uniform(0.2, 0.9) * dpi / 200))
    noise = np.random.default_rng(chance.randrange(10**6)).normal(0, chance.uniform(2, 10), (height, width))
    pixels = np.clip(np.asarray(page, dtype=np.float32) + noise, 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=chance.randrange(40, 90))
    return Page(f"{language} {dpi} {font.size}", file.getvalue(), "\n".join(lines[:_LINES]))


def _known(folder: Path) -> Iterator[Callable[[], Page]]:
    """Yield what returns each picture of a folder whose text is known."""
    for path in sorted(each for each in folder.rglob("*") if each.suffix.lower() in _SUFFIXES):
        beside, boxes = path.with_suffix(".txt"), path.parent.parent / "box" / f"{path.stem}.csv"
        if beside.is_file():
            yield lambda path=path, beside=beside: Page(
                path.stem, path.read_bytes(), beside.read_text(encoding="utf-8", errors="replace")
            )
        elif boxes.is_file():
            yield lambda path=path, boxes=boxes: Page(path.stem, path.read_bytes(), _boxed(boxes))


def _boxed(path: Path) -> str:
    rows = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(row.split(",", 8)[8] for row in rows if row.count(",") >= 8)  # noqa: PLR2004  (coordinates)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
