"""Sanitise every file of a folder, and look for what is left in the results and for what broke.

    python scripts/sanitise.py FOLDER [--removal metadata] [--format pdf] [--list] [--keep FOLDER]

The table counts by format: files, those that were changed, had nothing to remove and could not be made clean; then of
those that were changed, in which exiftool still finds who, where or when (`left`), whose pixels differ (`pixels`),
which our own check judges differently or finds active content in (`judged`), which a reader no longer opens that opened
the file (`readers`), and which a second run changes again (`again`). Milliseconds are of processor time.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from PIL import Image
from reference_readers import READERS

from sluice_inspect.extensions import extension_of
from sluice_inspect.inspection import inspect_file, preload
from sluice_inspect.registry import format_of
from sluice_inspect.report import InspectionError, Outcome, Report
from sluice_inspect.sanitise.cleaning import Cleaning, NotClean
from sluice_inspect.sanitise.sanitising import ACTIVE_FLAGS, sanitise
from sluice_inspect.source import MemoryBacked

_REMOVALS: Final = ("metadata", "active_content", "pixels")
_SOUND: Final = frozenset({Outcome.OK, Outcome.BLANK})
_COLUMNS: Final = ("files", "changed", "nothing", "not clean", "left", "pixels", "judged", "readers", "again")
# Groups and names of exiftool that say who, where, when or with what a file was made.
_GROUPS: Final = frozenset({"GPS", "MakerNotes", "XMP", "IPTC", "Photoshop", "ExifIFD"})
_TAGS: Final = frozenset({
    "Artist", "Author", "Company", "Copyright", "CreateDate", "Creator", "DateTimeOriginal", "ImageDescription",
    "Keywords", "LastModifiedBy", "Make", "Manager", "Model", "ModifyDate", "Producer", "Software", "Subject",
    "ThumbnailImage", "Title", "UserComment", "Comment", "HostComputer",
})  # fmt: skip
# The title of a page is shown, and how many pages a document has is a fact that rules are made of.
_KEPT: Final = frozenset({"HTML:Title"})
_PICTURES: Final = frozenset({"avif", "bmp", "gif", "jp2", "jpeg", "jpg", "png", "tiff", "webp"})
_NO_TIME: Final = "0000:00:00"


@dataclass(slots=True)
class _Tally:
    counts: Counter[str] = field(default_factory=Counter)
    why: Counter[str] = field(default_factory=Counter)
    ms: list[float] = field(default_factory=list)


def main(arguments: Sequence[str]) -> int:
    """Print the table. Return 1 if anything was left or broke, 2 without a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--removal", action="append", choices=_REMOVALS, help="default: metadata; may be repeated")
    parser.add_argument("--format", action="append", help="only files with this extension; may be repeated")
    parser.add_argument("--list", action="store_true", help="list the files in which something was left or broke")
    parser.add_argument("--keep", type=Path, help="keep the results in this folder")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        sys.stderr.write(f"{options.folder} is no folder\n")
        return 2
    warnings.simplefilter("ignore")
    preload()
    removals = frozenset(options.removal or ["metadata"])
    tallies: dict[str, _Tally] = defaultdict(_Tally)
    for path in sorted(each for each in options.folder.rglob("*") if each.is_file()):
        extension = extension_of(path.name)
        if format_of(extension) is None or (options.format and extension not in options.format):
            continue
        for note in _try(path, extension, removals, tallies[extension], options.keep):
            if options.list:
                print(f"    {path.relative_to(options.folder)}: {note}")
    _print(tallies)
    return int(any(tally.counts[column] for tally in tallies.values() for column in _COLUMNS[4:]))


def _try(path: Path, extension: str, removals: frozenset[str], tally: _Tally, keep: Path | None) -> list[str]:
    """Sanitise a file; return what is wrong with the result."""
    data = path.read_bytes()
    before = inspect_file(path)
    if before.integrity is not Outcome.OK or before.finding is not None:
        return []
    tally.counts["files"] += 1
    started = time.process_time()
    content, cleaning, why = _sanitise(data, path.name, removals)
    tally.ms.append((time.process_time() - started) * 1000)
    if cleaning is None:
        tally.counts["not clean"] += 1
        tally.why[why] += 1
        return []
    if not cleaning.removed:
        tally.counts["nothing"] += 1
        return []
    tally.counts["changed"] += 1
    if keep is not None:
        target = keep / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / path.name
        result.write_bytes(content)
        found = {
            "left": _left(result) if "metadata" in removals else "",
            "pixels": _differing(path, result) if extension in _PICTURES and "pixels" not in removals else "",
            "judged": _judged_apart(before, inspect_file(result), removals),
            "readers": _failing(path, result, extension),
            "again": "" if "pixels" in removals else _changed_again(content, path.name, removals),
        }
    tally.counts.update(column for column, note in found.items() if note)
    return [f"{column}: {note}" for column, note in found.items() if note]


def _sanitise(data: bytes, name: str, removals: frozenset[str]) -> tuple[bytes, Cleaning | None, str]:
    with MemoryBacked(data) as source:
        try:
            return *sanitise(source, name, removals), ""
        except NotClean as reason:
            return b"", None, reason.why
        except InspectionError as error:
            return b"", None, type(error).__name__.lower()
        except Exception as error:  # noqa: BLE001  (an error of a library; the worker reports the file as damaged)
            return b"", None, f"{type(error).__name__}: {error}"[:80]


def _left(path: Path) -> str:
    """Return the tags with metadata that exiftool finds, nothing without it."""
    if shutil.which("exiftool") is None:
        return ""
    done = subprocess.run(
        ["exiftool", "-json", "-G1", "-a", "-q", "-q", str(path)],
        capture_output=True,
        check=False,
    )
    try:
        (tags,) = json.loads(done.stdout)
    except ValueError:
        return ""
    left = []
    for key, value in tags.items():
        group, _, name = key.rpartition(":")
        is_time_of_file = group in {"System", "File", "ZIP", "ICC_Profile", "ExifTool", "ICC-header"}
        is_metadata = any(group.startswith(known) for known in _GROUPS) or name in _TAGS
        is_kept = key in _KEPT or "statistic" in name or group == "XMP-grddl"
        if (
            not is_kept
            and is_metadata
            and not is_time_of_file
            and str(value).strip()
            and not str(value).startswith(_NO_TIME)
        ):
            left.append(key)
    return " ".join(left)


def _differing(before: Path, after: Path) -> str:
    try:
        with Image.open(before) as one, Image.open(after) as other:
            if one.format == "MPO":  # the first of its pictures stays
                one.load()
                other.load()
                return "" if one.tobytes() == other.tobytes() else "the first picture differs"
            kept = [one.getexif().get(274, 0) or 1, one.info.get("icc_profile")]
            if kept != [other.getexif().get(274, 1), other.info.get("icc_profile")]:
                return "orientation or colour profile differ"
            frames = getattr(other, "n_frames", 1)
            for number in range(frames):
                one.seek(number)
                other.seek(number)
                if one.mode != other.mode or one.tobytes() != other.tobytes():
                    return f"frame {number} differs"
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        return "" if _is_unreadable(before) else f"it does not open: {error}"
    return ""


def _is_unreadable(path: Path) -> bool:
    try:
        with Image.open(path) as picture:
            picture.load()
    except (OSError, SyntaxError, ValueError, EOFError):
        return True
    return False


def _judged_apart(before: Report, after: Report, removals: frozenset[str]) -> str:
    if after.outcome not in _SOUND or after.finding is not None or before.format != after.format:
        return f"{after.format} {after.outcome} {after.finding} {after.detail}"
    if after.blank and not before.blank:
        return f"blank: {after.blank_detail}"
    active = [flag for flag in after.flags if ACTIVE_FLAGS.match(flag)]
    if active and not removals.isdisjoint({"active_content", "pixels"}):
        return f"active: {' '.join(active)}"
    counted = {name: before.facts.get(name) for name in ("pages", "sheets", "slides", "duration_ms")}
    changed = {name for name, value in counted.items() if after.facts.get(name) != value}
    return f"{' '.join(sorted(changed))} differ" if changed else ""


def _failing(before: Path, after: Path, extension: str) -> str:
    """Return the readers that open the file and not the result."""
    failing = []
    for reader in READERS:
        if extension not in reader.formats or reader.is_slow or not reader.is_installed:
            continue
        try:
            reader.read(before)
        except Exception:  # noqa: BLE001, S112  (readers raise anything)
            continue
        try:
            reader.read(after)
        except Exception as error:  # noqa: BLE001
            failing.append(f"{reader.name} ({type(error).__name__}: {str(error)[:60]})")
    return " ".join(failing)


def _changed_again(content: bytes, name: str, removals: frozenset[str]) -> str:
    _content, cleaning, why = _sanitise(content, name, removals)
    if cleaning is None:
        return why
    return " ".join(sorted(cleaning.removed))


def _print(tallies: dict[str, _Tally]) -> None:
    print(f"{'':8}", *(f"{column:>9}" for column in _COLUMNS), f"{'ms p50':>8}{'ms most':>9}  why not clean")
    total = _Tally()
    for extension in sorted(tallies):
        tally = tallies[extension]
        total.counts += tally.counts
        total.why += tally.why
        total.ms += tally.ms
        if tally.counts["files"]:
            _print_line(extension, tally)
    _print_line("all", total)


def _print_line(name: str, tally: _Tally) -> None:
    ms = sorted(tally.ms) or [0.0]
    why = ", ".join(f"{count} {reason}" for reason, count in tally.why.most_common())
    columns = (f"{tally.counts[column]:9}" for column in _COLUMNS)
    print(f"{name:8}", *columns, f"{ms[len(ms) // 2]:8.1f}{ms[-1]:9.1f}  {why}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
