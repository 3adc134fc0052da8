"""Asks one kind for its judgement of bytes, as `check_file` does, and finds the labelled corpus where it is at hand."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Finding, Judgement, Limits, Outcome

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the labelled corpus is not beside the repository")


@dataclass(frozen=True)
class Judged:
    recognised: bool
    outcome: Outcome
    finding: Finding | None = None
    detail: str = ""
    blank: str | None = None

    @property
    def passes(self) -> bool:
        return self.recognised and self.finding is None and self.outcome is not Outcome.CORRUPT


@contextmanager
def source_of(data: bytes) -> Iterator[Source]:
    descriptor = os.memfd_create("sample")
    try:
        os.write(descriptor, data)
        yield Source(descriptor)
    finally:
        os.close(descriptor)


def judge(kind: Kind, data: bytes, limits: Limits | None = None) -> Judged:
    limits = limits or Limits()
    with source_of(data) as source:
        recognised = kind.recognises(source)
        try:
            kind.check(source, limits)
        except Judgement as judgement:
            return Judged(recognised, judgement.outcome, judgement.finding, str(judgement))
        try:
            return Judged(recognised, Outcome.OK, blank=kind.blank(source, limits))
        except Judgement:
            return Judged(recognised, Outcome.OK)


def corpus(kind: str, *labels: str) -> list[Path]:
    """Answer the labelled files of a kind, those of whole zeros and without bytes left out: they are judged before any kind is asked."""
    if not CORPUS.is_dir():
        return []
    rows = (json.loads(line) for line in (CORPUS / "manifest.jsonl").read_text().splitlines())
    paths = (CORPUS / row["file"] for row in rows if row["format"] == kind and row["label"] in labels)
    return [path for path in paths if path.read_bytes().strip(b"\0")]
