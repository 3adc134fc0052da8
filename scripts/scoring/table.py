"""Print scores: a line per format, and the totals that the documentation states."""

import statistics
from collections.abc import Mapping
from typing import Final

from scoring.damage import DAMAGES, TAILS, TEXTS
from scoring.score import SHOWN, Score

COLUMNS: Final = ("clean", "quirky", "locked", "corrupt", "bomb", *DAMAGES, "blank", "twin")


def print_heading() -> None:
    """Print the column headings."""
    print("wrongly refused: clean, quirky, locked, twin (as blank). Found: all others. Each as hits/tries.")
    print(f"{'':7}", *(f"{name[:8]:>8}" for name in COLUMNS), f"{'ms p50':>7} {'p99':>7} {'MiB':>5}")


def print_score(name: str, score: Score) -> None:
    """Print one line of hits and tries, milliseconds and memory."""
    cells = (f"{score.hit[column]}/{score.tried[column]}" if score.tried[column] else "-" for column in COLUMNS)
    times = sorted(score.milliseconds) or [0.0]
    slow = times[min(len(times) - 1, len(times) * 99 // 100)]
    costs = f"{statistics.median(times):7.1f} {slow:7.1f} {score.peak_mib:5}"
    print(f"{name:7}", *(f"{cell:>8}" for cell in cells), costs, flush=True)


def print_tails(name: str, score: Score) -> None:
    """Print one line of how many overwritten ends were found, by what they were overwritten with."""
    print(f"{name:7}", *(f"{tail}: {score.hit[tail]}/{score.tried[tail]:<4}" for tail in TAILS), flush=True)


def print_figures(scores: Mapping[str, Score]) -> None:
    """Print the totals over all formats; damage counts for binary formats only.

    No format can detect changes to uncompressed samples, so those files are also left out in a line of their own.
    """
    total = _sum(scores, frozenset())
    binary = _sum(scores, TEXTS)
    print()
    _figure("intact, clean: wrongly refused", total, "clean")
    _figure("intact, quirky (PDFs that viewers open too): wrongly refused", total, "quirky")
    _figure("of these, not for damage but as archives that lead outside", total, "unsafe")
    _figure("protected by a password: wrongly refused", total, "locked")
    _figure("cut, binary formats: found", binary, "trunc50", "trunc95")
    _figure("wrong type: found", total, "wrongtype")
    _figure("web page in front, binary formats: found", binary, "html_prepend")
    for name, words in (("zero4k", "4 KiB zeroed"), ("flip32", "32 bytes flipped")):
        _figure(f"{words}, binary formats: found", binary, name)
        _figure(f"{words}, without files of unpacked samples: found", binary, name + SHOWN)
    _figure("line ends changed, binary formats: found", binary, "crlf")
    _figure("labelled as broken: found", total, "corrupt")
    _figure("blank: found", total, "blank")
    _figure("not blank: flagged", total, "twin")
    _figure("bombs: refused", total, "bomb")
    _figure("bombs: judged within 1 s of processor time and 256 MiB", total, "contained")
    if total.bombs:
        print(
            f"slowest bomb {max(ms for ms, _ in total.bombs):.0f} ms, largest {max(mib for _, mib in total.bombs)} MiB"
        )


def _sum(scores: Mapping[str, Score], without: frozenset[str]) -> Score:
    total = Score()
    for name in scores.keys() - without:
        total.add(scores[name])
    return total


def _figure(words: str, score: Score, *questions: str) -> None:
    hit, tried = sum(score.hit[name] for name in questions), sum(score.tried[name] for name in questions)
    share = f"{100 * hit / tried:.2f} %" if tried else "-"
    print(f"{words:<66} {hit:>5}/{tried:<5} {share:>9}")
