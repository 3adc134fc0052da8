"""Draw a preview of every file of a folder, and compare each with what another program draws of the same file.

    python scripts/previews.py FOLDER [--format pdf] [--most 100] [--list] [--keep FOLDER]

Others are poppler for PDF, libvips for pictures (libheif for HEIC), FFmpeg for films, and LibreOffice for documents and text. The distance of
two pictures is 1 less their structural similarity in grey, both 200 pixels high or wide: 0 is equal, 1 has nothing in
common. Of text, which is drawn without its layout, `words` is the share of the words of the other's first page that
are in ours. Milliseconds are of processor time, for 200 pixels. Programs that are not installed are left out.
"""

import argparse
import io
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image
from reference_readers import SECONDS

from sluice_inspect.document_text import office, texts
from sluice_inspect.document_text.extent import BEGINNING
from sluice_inspect.extensions import extension_of
from sluice_inspect.inspection import inspect_file, preload
from sluice_inspect.previews.preview import draw_preview
from sluice_inspect.report import Encrypted, InspectionError, Limits, Outcome
from sluice_inspect.source import MemoryBacked

_READERS: Final = {**texts.READERS, **office.READERS}
_SIDE: Final = 200
_DRAWN: Final = 400  # pixels of the longer side of what others draw of a page
_BELL: Final = np.exp(-0.5 * (np.arange(-4, 5) / 1.5) ** 2)  # as in the definition of structural similarity
_FAR: Final = 0.25
_BATCH: Final = 20  # documents that LibreOffice converts in one start
_WORD: Final = re.compile(r"\w{2,}")
_FILMS: Final = frozenset({"avi", "mkv", "mov", "mp4", "webm"})
_PICTURES: Final = frozenset(
    {"avif", "bmp", "gif", "heic", "heif", "j2k", "jp2", "jpeg", "jpg", "png", "tif", "tiff", "webp"}
)
_DOCUMENTS: Final = frozenset(
    {"csv", "doc", "docx", "html", "odp", "ods", "odt", "ppt", "pptx", "rtf", "txt", "xls", "xlsx"}
)  # fmt: skip
_SOUND: Final = frozenset({Outcome.OK, Outcome.BLANK})


@dataclass(slots=True)
class _Tally:
    files: int = 0
    ms: list[float] = field(default_factory=list)
    without: Counter[str] = field(default_factory=Counter)
    distances: list[tuple[float, Path]] = field(default_factory=list)
    words: list[tuple[float, Path]] = field(default_factory=list)


def main(arguments: Sequence[str]) -> int:
    """Print the table. Return 2 without a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--format", action="append", help="only files with this extension; may be repeated")
    parser.add_argument("--most", type=int, default=100, help="files of an extension (100)")
    parser.add_argument("--list", action="store_true", help="list what differs much, and what has no preview")
    parser.add_argument("--keep", type=Path, help="keep both pictures side by side in this folder")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        sys.stderr.write(f"{options.folder} is no folder\n")
        return 2
    warnings.simplefilter("ignore")
    preload()
    chosen: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted(each for each in options.folder.rglob("*") if each.is_file()):
        extension = extension_of(path.name) or ""
        if not options.format or extension in options.format:
            chosen[extension].append(path)
    tallies: dict[str, _Tally] = {}
    with tempfile.TemporaryDirectory() as folder:
        for extension, paths in sorted(chosen.items()):
            step = max(1, -(-len(paths) // options.most))
            tallies[extension] = _measure(extension, paths[::step], Path(folder), options.keep)
    _print(tallies, everything=options.list)
    return 0


def _measure(extension: str, paths: Sequence[Path], folder: Path, keep: Path | None) -> _Tally:
    tally = _Tally()
    formats = {path: report.format for path in paths if (report := inspect_file(path)).outcome in _SOUND}
    pages = _office_pages(list(formats), folder) if extension in _DOCUMENTS else {}
    for path, format_name in formats.items():
        tally.files += 1
        with MemoryBacked(path.read_bytes()) as source:
            began = time.process_time()
            try:
                drawn = draw_preview(source, path.name, _SIDE)
            except (InspectionError, MemoryError) as error:
                tally.without[f"{type(error).__name__}: {error}"[:80]] += 1
                continue
            tally.ms.append((time.process_time() - began) * 1000)
            page = pages.get(path)
            if drawn.kind == "text" and page is not None:
                read = _READERS.get(format_name or "", texts.plain_text)
                try:
                    ours = _words(read(source, Limits(), BEGINNING))
                except Encrypted:  # by the password that Excel knows
                    continue
                theirs = _words(_run("pdftotext", "-f", "1", "-l", "1", str(page), "-").decode(errors="replace"))
                if theirs:
                    tally.words.append((len(theirs & ours) / len(theirs), path))
        other = _drawn_by_others(extension, path, page)
        if other is not None:
            distance = _distance(drawn.picture, other)
            tally.distances.append((distance, path))
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                _side_by_side(drawn.picture, other).save(keep / f"{distance:.3f}-{path.name}.png")
    return tally


def _office_pages(paths: Sequence[Path], folder: Path) -> Mapping[Path, Path]:
    """Return PDFs that LibreOffice makes of documents, by their paths."""
    if shutil.which("soffice") is None or shutil.which("pdftoppm") is None:
        return {}
    made: dict[Path, Path] = {}
    for at in range(0, len(paths), _BATCH):
        batch = Path(tempfile.mkdtemp(dir=folder))
        copies = {path: batch / f"{number}{path.suffix}" for number, path in enumerate(paths[at : at + _BATCH])}
        for path, copy in copies.items():
            shutil.copyfile(path, copy)
        _run("soffice", "--headless", f"-env:UserInstallation=file://{folder}/profile", "--convert-to", "pdf",
             "--outdir", str(batch), *map(str, copies.values()), seconds=_BATCH * SECONDS)  # fmt: skip
        made |= {path: pdf for path, copy in copies.items() if (pdf := copy.with_suffix(".pdf")).is_file()}
    return made


def _drawn_by_others(extension: str, path: Path, page: Path | None) -> Image.Image | None:
    if page is not None or extension == "pdf":
        png = _run(
            "pdftoppm",
            "-png",
            "-f",
            "1",
            "-l",
            "1",
            "-singlefile",
            "-cropbox",
            "-scale-to",
            str(_DRAWN),
            str(page or path),
        )
    elif extension in _PICTURES:
        png = _drawn_by_vips(path) or _drawn_by_heif_convert(path)
    elif extension in _FILMS:
        png = _run("ffmpeg", "-v", "error", "-i", str(path), "-frames:v", "1", "-f", "image2pipe", "-c:v", "png", "-")
    else:
        return None
    return Image.open(io.BytesIO(png)) if png else None


def _drawn_by_vips(path: Path) -> bytes:
    try:
        pyvips = import_module("pyvips")
    except (ImportError, OSError):
        return b""
    try:
        small = pyvips.Image.thumbnail(str(path), _SIDE, height=_SIDE, size="down")
        if small.hasalpha():
            small = small.flatten(background=[255, 255, 255])
        written: bytes = small.colourspace("srgb").cast("uchar").write_to_buffer(".png")
    except pyvips.Error:
        return b""
    return written


def _drawn_by_heif_convert(path: Path) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        _run("heif-convert", str(path), f"{folder}/drawn.png")
        drawn = sorted(Path(folder).iterdir())
        return drawn[0].read_bytes() if drawn else b""


def _run(*command: str, seconds: float = SECONDS) -> bytes:
    if shutil.which(command[0]) is None:
        return b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as child:
        try:
            return child.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # `soffice` is a script, whose program would go on
            return b""


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _grey(picture: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Return the picture over white, in grey, of this size."""
    if picture.has_transparency_data:
        page = Image.new("RGBA", picture.size, "white")
        page.alpha_composite(picture.convert("RGBA"))
        picture = page
    return picture.convert("RGB").convert("L").resize(size, Image.Resampling.BOX)


def _distance(ours: Image.Image, theirs: Image.Image) -> float:
    """Return 1 less the mean structural similarity of two pictures, both of the size of ours."""
    first, second = (np.asarray(_grey(each, ours.size), dtype=np.float64) for each in (ours, theirs))
    a, b = _smooth(first), _smooth(second)
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    var_a, var_b = _smooth(first * first) - a * a, _smooth(second * second) - b * b
    both = _smooth(first * second) - a * b
    similarity = ((2 * a * b + c1) * (2 * both + c2)) / ((a * a + b * b + c1) * (var_a + var_b + c2))
    return float(1 - similarity.mean())


def _smooth(levels: np.ndarray) -> np.ndarray:
    for axis in (0, 1):
        levels = np.apply_along_axis(
            lambda line: np.convolve(np.pad(line, 4, mode="edge"), _BELL / _BELL.sum(), "valid"), axis, levels
        )
    return levels


def _side_by_side(ours: Image.Image, theirs: Image.Image) -> Image.Image:
    sheet = Image.new("RGB", (ours.width * 2 + 8, ours.height), "red")
    sheet.paste(ours, (0, 0))
    sheet.paste(theirs.convert("RGB").resize(ours.size), (ours.width + 8, 0))
    return sheet


def _print(tallies: Mapping[str, _Tally], *, everything: bool) -> None:
    print(f"{'':8}{'files':>7}{'drawn':>7}{'ms':>7}{'95 %':>7}{'other':>7}{'distance':>10}{'95 %':>7}{'words':>8}")
    for extension, tally in tallies.items():
        if not tally.files:
            continue
        distances = sorted(each for each, _path in tally.distances)
        row = f"{extension:8}{tally.files:7}{len(tally.ms):7}"
        row += f"{statistics.median(tally.ms):7.0f}{_late(sorted(tally.ms)):7.0f}" if tally.ms else " " * 14
        row += f"{len(distances):7}"
        row += f"{statistics.median(distances):10.3f}{_late(distances):7.3f}" if distances else " " * 17
        row += f"{statistics.mean(share for share, _path in tally.words):8.3f}" if tally.words else ""
        print(row)
        if everything:
            for why, number in tally.without.most_common():
                print(f"    {number} without: {why}")
            for distance, path in sorted(tally.distances, reverse=True):
                if distance > _FAR and not tally.words:
                    print(f"    {distance:.3f} {path}")
            for share, path in sorted(tally.words)[:10]:
                print(f"    words {share:.2f} {path}")


def _late(values: Sequence[float]) -> float:
    return values[min(len(values) - 1, int(0.95 * len(values)))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
