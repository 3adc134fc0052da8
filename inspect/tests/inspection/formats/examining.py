"""Examine bytes as one format, as `inspect_file` does, and list the files of the labelled corpus."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, wraps
from pathlib import Path

import pytest

from sluice_inspect.format import Format
from sluice_inspect.report import Finding, InspectionError, Limits, Outcome
from sluice_inspect.source import Source
from tests.rows import every_row
from tests.run_length import LONG_RUN

CORPUS = Path(__file__).parents[4].parent / "shared" / "corpus"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the labelled corpus is not beside the repository")


@dataclass(frozen=True)
class Examined:
    recognised: bool
    outcome: Outcome
    finding: Finding | None = None
    detail: str = ""
    blank: str | None = None

    @property
    def passes(self) -> bool:
        return self.recognised and self.finding is None and self.outcome is not Outcome.CORRUPT

    @property
    def verdict(self) -> Finding | Outcome | None:
        """The finding, else the outcome; None for what passes although it is not of the format."""
        if self.finding is None and self.outcome is not Outcome.CORRUPT and not self.recognised:
            return None
        return self.finding or self.outcome

    @property
    def word(self) -> str:
        """The finding or outcome; "blank" for an empty file, "other" for what passes although it is not of the format."""
        if self.finding is None and self.outcome is Outcome.OK:
            return ("blank" if self.blank else "ok") if self.recognised else "other"
        return str(self.finding or self.outcome)


Row = tuple[str, bytes, str] | tuple[str, bytes, str, str | Limits]


def verdicts(format_: Format) -> Callable[[Callable[[], Iterable[Row]]], Callable[[], None]]:
    """Run a test for rows of a case, its file and the `word` of its verdict, with a part of the detail or with limits.

    @verdicts(FORMAT)
    def test_every_picture_gets_its_verdict() -> Iterable[Row]:
        yield "good", GOOD, "ok"
        yield "cut", GOOD[:-9], "corrupt", "ends at byte"
        yield "too large", GOOD, "image_too_large", Limits(max_pixels=9)
    """

    def decorate(rows: Callable[[], Iterable[Row]]) -> Callable[[], None]:
        @wraps(rows)
        def test() -> None:
            with every_row() as row:
                for case, data, word, *more in rows():
                    limits = next((each for each in more if isinstance(each, Limits)), None)
                    detail = next((each for each in more if isinstance(each, str)), "")
                    with row(case):
                        result = examine_bytes(format_, data, limits)
                        # A text is recognised by its name.
                        found = replace(result, recognised=result.recognised or format_.is_text).word
                        assert (found, detail in result.detail) == (word, True), result

        return test

    return decorate


def cuts(data: bytes, *shares: float) -> Iterator[Row]:
    """Yield rows of a file that is cut at shares of its length, or at each twentieth of it: it is corrupt."""
    for share in shares or [part / 20 for part in range(1, 20)]:
        yield f"cut at {share}", data[: int(len(data) * share)], "corrupt"


@contextmanager
def source_of(data: bytes) -> Iterator[Source]:
    descriptor = os.memfd_create("sample")
    try:
        os.write(descriptor, data)
        yield Source(descriptor)
    finally:
        os.close(descriptor)


def examine_bytes(format_: Format, data: bytes, limits: Limits | None = None) -> Examined:
    limits = limits or Limits()
    with source_of(data) as source:
        recognised = format_.matches(source)
        try:
            examination = format_.examine(source, limits)
        except InspectionError as error:
            return Examined(recognised, error.outcome, error.finding, str(error))
        try:
            return Examined(recognised, Outcome.OK, blank=examination.blank())
        except InspectionError:
            return Examined(recognised, Outcome.OK)


@cache
def manifest() -> list[tuple[Path, str, str]]:
    """Return path, format and label of the files of the corpus."""
    if not CORPUS.is_dir():
        return []
    rows = map(json.loads, (CORPUS / "manifest.jsonl").read_text().splitlines())
    return [(CORPUS / row["file"], row["format"], row["label"]) for row in rows]


def corpus_files(format_name: str, *labels: str) -> list[Path]:
    """Return the labelled files of a format, except empty ones and ones of zeros only, which no format examines.

    The short form has those of at most 100 kB that are not `SLOW` and those that are `NEEDED`, or else the two smallest.
    """
    paths = [path for path, name, label in manifest() if name == format_name and label in labels]
    paths = [path for path in paths if path.read_bytes().strip(b"\0")]
    return [path for path in paths if is_small(path)] or sorted(paths, key=lambda path: path.stat().st_size)[:2]


# Each alone reaches some line of a reader.
NEEDED = (
    "9169e7a5f5", "f614382d8b", "fe70d5e324", "3fe64d4007", "dba819e283", "6204faae7b", "a0277913dc", "29c61403d1",
    "146d979ca2", "67d7fe8e05", "9231e724bb", "c61c8714ae", "6231148bd8", "5410a65f76", "7abd0c6062", "9ce5e93c64",
    "0080431375",
)  # fmt: skip


# Each takes more than a second, and is of a kind of which another one is judged.
SLOW = ("a6f05b4804", "82079253a8", "fc2a20fc1c", "9fbdff065b", "c885fced9e", "a84dcc0dde")


def is_small(path: Path) -> bool:
    return LONG_RUN or (
        (path.stat().st_size <= 100_000 and not path.name.startswith(SLOW)) or path.name.startswith(NEEDED)
    )


def smallest_files(count: int) -> list[tuple[Path, str]]:
    """Return the smallest files of each format and label, `count` at most, and those that are `NEEDED`, with their labels."""
    by_label: dict[tuple[str, str], list[Path]] = {}
    for path, format_name, label in sorted(manifest(), key=lambda row: row[0].stat().st_size):
        if is_small(path):
            by_label.setdefault((format_name, label), []).append(path)
    needed = {(path, label) for path, _, label in manifest() if path.name.startswith(NEEDED)}
    return sorted({*needed, *((path, label) for (_, label), paths in by_label.items() for path in paths[:count])})


def replaced(data: bytes, old: bytes, new: bytes) -> bytes:
    """Return a file with its first bytes of one kind replaced."""
    assert old in data
    return data.replace(old, new, 1)
