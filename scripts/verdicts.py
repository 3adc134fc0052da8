"""Scores the format checks against a folder of labelled files; the checks themselves are in `sluice.formats`.

    python scripts/verdicts.py FOLDER [--format png] [--list]

FOLDER holds a `manifest.jsonl`: one JSON object per line with `file`, `format`, `label` (valid, corrupt, blank, not_blank,
password_protected, bomb) and `tier` (clean, quirky, ...). Intact files are also damaged here, in known ways, to see what is found.
"""

import argparse
import json
import multiprocessing
import random
import resource
import statistics
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sluice.formats.check import check_file, preload
from sluice.formats.registry import kind_of
from sluice.formats.verdict import Outcome, Report

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_PAGE: Final = b"<!DOCTYPE html>\n<html><head><title>504 Gateway Timeout</title></head><body>504 Gateway Timeout</body></html>\n"
_SMALLEST: Final = 64
"""Bytes under which damage is not tried: half of almost nothing is often whole."""
_ZEROED: Final = 4096
_FLIPPED: Final = 32
_DAMAGES: Final = ("trunc50", "trunc95", "zero4k", "flip32", "html_prepend", "crlf", "wrongtype")
_AS_GOOD: Final = ("trunc50", "trunc95", "flip32", "crlf")
"""Damage that leaves text as good a text as before."""
_UNSEEN: Final = {
    **dict.fromkeys(("csv", "txt", "eml", "yaml"), _AS_GOOD),
    **dict.fromkeys(("html", "md"), (*_AS_GOOD, "html_prepend")),
    "rtf": ("crlf",),
}
_ANSWER_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True)
class Labelled:
    """One file and what is known of it."""

    path: Path
    format: str
    label: str
    tier: str


@dataclass(slots=True)
class Score:
    """Hits and tries by question, the files that were misjudged, and what it cost."""

    tried: Counter[str] = field(default_factory=Counter)
    hit: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    peak_mib: int = 0

    def count(self, question: str, *, hit: bool, note: str = "") -> None:
        """Count one answer to a question, and keep the note when there is one."""
        self.tried[question] += 1
        self.hit[question] += hit
        if note:
            self.notes.append(f"{question}: {note}")


def main(arguments: Sequence[str]) -> int:
    """Print the scores; the exit status is 0 unless the folder cannot be scored."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with a manifest.jsonl")
    parser.add_argument("--format", action="append", help="only this format; may be given again")
    parser.add_argument("--list", action="store_true", help="name the misjudged files")
    options = parser.parse_args(arguments)
    if not (options.folder / "manifest.jsonl").is_file():
        sys.stderr.write(f"{options.folder} has no manifest.jsonl\n")
        return 2
    preload()
    by_format: dict[str, list[Labelled]] = {}
    for labelled in _read_manifest(options.folder):
        by_format.setdefault(labelled.format, []).append(labelled)
    wanted = sorted(name for name in by_format if not options.format or name in options.format)
    covered = [name for name in wanted if kind_of(name) is not None]
    total = Score()
    _print_heading()
    for name in covered:
        score = _score_apart(by_format[name], _stand_in(by_format, name))
        _print_score(name, score)
        _add(total, score)
        if options.list:
            sys.stdout.writelines(f"    {note}\n" for note in score.notes)
    _print_score("all", total)
    print("not covered:", ", ".join(sorted(set(wanted) - set(covered))) or "none")
    return 0


def _read_manifest(folder: Path) -> Iterator[Labelled]:
    for line in (folder / "manifest.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        yield Labelled(folder / row["file"], row["format"], row["label"], row["tier"])


def _stand_in(by_format: dict[str, list[Labelled]], name: str) -> bytes:
    """Answer an intact picture of another format, as the wrong content under a name."""
    other = "jpg" if name == "png" else "png"
    return next((f.path.read_bytes() for f in by_format.get(other, []) if f.label == "valid"), _PAGE)


def _score_apart(files: list[Labelled], other: bytes) -> Score:
    """Score in a process of its own: its peak memory is this format's, and a crash costs this format alone."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_score_and_send, args=(files, other, sender))
    child.start()
    sender.close()
    try:
        score = receiver.recv() if receiver.poll(_ANSWER_SECONDS) else None
    except EOFError:
        score = None
    child.kill()
    child.join()
    return score if isinstance(score, Score) else Score(notes=["the checker died"])


def _score_and_send(files: list[Labelled], other: bytes, sender: "Connection") -> None:
    score = Score()
    for labelled in files:
        _score_file(labelled, other, score)
    score.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    sender.send(score)


def _score_file(labelled: Labelled, other: bytes, score: Score) -> None:
    report = check_file(labelled.path)
    score.milliseconds.append(report.ms)
    note = f"{labelled.path.name} ({labelled.tier}): {report.outcome} {report.finding or ''} {report.detail or report.blank_detail}"
    match labelled.label:
        case "valid":
            question = "quirky" if labelled.tier == "quirky" else "clean"
            score.count(question, hit=_is_refused(report), note=note if _is_refused(report) else "")
            _score_damage(labelled, other, score)
        case "password_protected":
            score.count("locked", hit=_is_refused(report), note=note if _is_refused(report) else "")
        case "corrupt":
            score.count("corrupt", hit=_is_refused(report), note="" if _is_refused(report) else note)
        case "blank":
            score.count("blank", hit=report.blank, note="" if report.blank else note)
        case "not_blank":
            score.count("twin", hit=report.blank, note=note if report.blank else "")
        case "bomb":
            caught = _is_refused(report) or report.integrity is Outcome.TOO_COMPLEX
            score.count("bomb", hit=caught, note="" if caught else note)


def _is_refused(report: Report) -> bool:
    """Answer whether the integrity rule would refuse the file; blankness is scored apart."""
    return report.integrity is Outcome.CORRUPT or report.finding is not None


def _score_damage(labelled: Labelled, other: bytes, score: Score) -> None:
    data = labelled.path.read_bytes()
    if len(data) < _SMALLEST:
        return
    chance = random.Random(zlib.crc32(data))  # noqa: S311  (repeatable damage, no secret)
    for name, damaged in _damaged(data, other, chance):
        if damaged == data or name in _UNSEEN.get(labelled.format, ()):
            continue
        with tempfile.NamedTemporaryFile(suffix=f".{labelled.format}") as file:
            file.write(damaged)
            file.flush()
            report = check_file(file.name)
        found = _is_refused(report) or report.blank
        score.count(name, hit=found, note="" if found else labelled.path.name)


def _damaged(data: bytes, other: bytes, chance: random.Random) -> Iterator[tuple[str, bytes]]:
    size = len(data)
    zeroed = min(_ZEROED, size // 3)
    start = size // 2 - zeroed // 2
    flipped = bytearray(data)
    for _ in range(_FLIPPED):
        flipped[chance.randrange(size)] ^= chance.randrange(1, 256)
    yield "trunc50", data[: size // 2]
    yield "trunc95", data[: size * 95 // 100]
    yield "zero4k", data[:start] + bytes(zeroed) + data[start + zeroed :]
    yield "flip32", bytes(flipped)
    yield "html_prepend", _PAGE + data
    yield "crlf", data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    yield "wrongtype", other


def _add(total: Score, score: Score) -> None:
    total.tried += score.tried
    total.hit += score.hit
    total.milliseconds += score.milliseconds
    total.peak_mib = max(total.peak_mib, score.peak_mib)


_COLUMNS: Final = ("clean", "quirky", "locked", "corrupt", "bomb", *_DAMAGES, "blank", "twin")


def _print_heading() -> None:
    print("wrongly refused: clean, quirky, locked, twin (as blank). Found: all others. Each as hits/tries.")
    print(f"{'':6}", *(f"{name[:8]:>8}" for name in _COLUMNS), f"{'ms p50':>7} {'p99':>7} {'MiB':>5}")


def _print_score(name: str, score: Score) -> None:
    cells = (f"{score.hit[column]}/{score.tried[column]}" if score.tried[column] else "-" for column in _COLUMNS)
    times = sorted(score.milliseconds) or [0.0]
    slow = times[min(len(times) - 1, len(times) * 99 // 100)]
    print(
        f"{name:6}",
        *(f"{cell:>8}" for cell in cells),
        f"{statistics.median(times):7.1f} {slow:7.1f} {score.peak_mib:5}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
