"""Score the files of one format in a process of their own."""

import contextlib
import multiprocessing
import os
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from scoring import samples
from scoring.damage import damaged, with_overwritten_tail
from scoring.labelled import Labelled
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Finding, Outcome, Report

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_Result = TypeVar("_Result")
_FORMAT_SECONDS: Final = 3600
_BOMB_SECONDS: Final = 60
SHOWN: Final = ", shown"
"""Suffix of the name of damage to files with compressed samples."""
_MAX_MS: Final = 1000
_MAX_MIB: Final = 256


@dataclass(slots=True)
class Score:
    """Hits and tries by question, notes on misjudged files, and the costs."""

    tried: Counter[str] = field(default_factory=Counter)
    hit: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    peak_mib: int = 0
    bombs: list[tuple[float, int]] = field(default_factory=list)
    """CPU milliseconds and MiB of each bomb."""

    def count(self, question: str, *, hit: bool, note: str = "") -> None:
        """Count one result for a question, and keep the note if there is one."""
        self.tried[question] += 1
        self.hit[question] += hit
        if note:
            self.notes.append(f"{question}: {note}")

    def add(self, other: "Score") -> None:
        """Add the score of another format."""
        self.tried += other.tried
        self.hit += other.hit
        self.milliseconds += other.milliseconds
        self.bombs += other.bombs
        self.peak_mib = max(self.peak_mib, other.peak_mib)


def score_apart(files: list[Labelled], other: bytes) -> Score:
    """Score in a separate process: its peak memory is this format's, and a crash affects only this format."""
    return _in_child(lambda: _score(files, other), _FORMAT_SECONDS) or Score(notes=["the checker died"])


def score_tails_apart(files: list[Labelled]) -> Score:
    """Score intact files whose end is overwritten, in a separate process."""
    return _in_child(lambda: _score_tails(files), _FORMAT_SECONDS) or Score(notes=["the checker died"])


def _in_child(work: Callable[[], _Result], seconds: float) -> _Result | None:
    """Return the result of `work` in a child process, or None when it dies or takes too long."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_work_and_send, args=(work, sender))
    child.start()
    sender.close()
    result: _Result | None = None
    with contextlib.suppress(EOFError):
        if receiver.poll(seconds):
            result = receiver.recv()
    child.kill()
    child.join()
    return result


def _work_and_send(work: Callable[[], object], sender: "Connection") -> None:
    with contextlib.suppress(OSError):  # if it cannot be reset, a child's peak starts at its parent's
        Path("/proc/self/clear_refs").write_text("5", "ascii")
    sender.send(work())


def _peak_mib() -> int:
    """Return the peak memory of this process, without its parent's peak before the fork if the system can tell."""
    status = Path("/proc/self/status")
    if status.is_file():
        return next(
            int(line.split()[1]) // 1024 for line in status.read_text("ascii").splitlines() if line.startswith("VmHWM")
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _score(files: list[Labelled], other: bytes) -> Score:
    score = Score()
    for labelled in files:
        if not labelled.path.is_file():
            score.notes.append(f"missing: {labelled.path.name}")
        elif labelled.label == "bomb":
            _score_bomb(labelled, score)
        else:
            _score_file(labelled, score)
            if labelled.label == "valid":
                _score_damage(labelled, other, score)
    score.peak_mib = _peak_mib()
    return score


def _score_file(labelled: Labelled, score: Score) -> None:
    report = inspect_file(labelled.path)
    score.milliseconds.append(report.ms)
    refused = _is_refused(report)
    note = f"{labelled.path.name} ({labelled.tier}): {report.outcome} {report.finding or ''} {report.detail or report.blank_detail}"
    if labelled.label == "blank":
        score.count("blank", hit=report.blank, note="" if report.blank else note)
    elif labelled.label == "not_blank":
        score.count("twin", hit=report.blank, note=note if report.blank else "")
    elif labelled.label == "password_protected":
        score.count("locked", hit=refused, note=note if refused else "")
    elif labelled.is_intact:
        score.count("quirky" if labelled.is_quirky else "clean", hit=refused, note=note if refused else "")
        score.count("unsafe", hit=report.finding is Finding.ARCHIVE_UNSAFE)
    elif labelled.label == "corrupt":
        score.count("corrupt", hit=refused, note="" if refused else note)
    else:
        score.notes.append(f"unknown label {labelled.label}: {labelled.path.name}")


def _score_bomb(labelled: Labelled, score: Score) -> None:
    """Check a bomb in a separate child to measure its memory. It is contained when it is judged within the limits."""

    def check() -> tuple[Report, float, int]:
        began = time.process_time()
        report = inspect_file(labelled.path)
        return report, 1000 * (time.process_time() - began), _peak_mib()

    report, ms, mib = _in_child(check, _BOMB_SECONDS) or (None, 0.0, 0)
    caught = report is not None and (_is_refused(report) or report.integrity is Outcome.TOO_COMPLEX)
    summary = (
        f"{report.outcome} {report.finding or ''} {report.detail}, {ms:.0f} ms, {mib} MiB"
        if report
        else "the checker died"
    )
    contained = report is not None and ms <= _MAX_MS and mib <= _MAX_MIB
    score.count("bomb", hit=caught, note="" if caught else f"{labelled.path.name}: {summary}")
    score.count("contained", hit=contained, note="" if contained else f"{labelled.path.name}: {summary}")
    if report is not None:
        score.bombs.append((ms, mib))


def _is_refused(report: Report) -> bool:
    """Return whether the integrity rule would reject the file; blank files are scored separately."""
    return report.integrity is Outcome.CORRUPT or report.finding is not None


def _score_damage(labelled: Labelled, other: bytes, score: Score) -> None:
    intact = labelled.path.read_bytes()
    detectable = not samples.are_uncompressed(labelled.format, intact)
    for name, bad in damaged(intact, labelled.format, other):
        found = _count_damage(labelled, name, bad, score)
        if detectable:
            score.count(name + SHOWN, hit=found)


def _score_tails(files: list[Labelled]) -> Score:
    score = Score()
    for labelled in files:
        if labelled.label in {"valid", "password_protected"} and labelled.path.is_file():
            for name, bad in with_overwritten_tail(labelled.path.read_bytes()):
                _count_damage(labelled, name, bad, score)
    return score


def _count_damage(labelled: Labelled, name: str, bad: bytes, score: Score) -> bool:
    """Count one damaged file under the name of its damage. Return whether the damage was found."""
    with tempfile.NamedTemporaryFile(suffix=labelled.path.suffix or f".{labelled.format}") as file:
        file.write(bad)
        file.flush()
        report = inspect_file(os.fspath(file.name))
    found = _is_refused(report) or report.blank
    score.count(name, hit=found, note="" if found else labelled.path.name)
    return found
