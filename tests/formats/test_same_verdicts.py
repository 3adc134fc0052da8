"""The same bytes get the same verdict: over the whole labelled corpus, and over the samples where that is absent."""

import io
import json
from dataclasses import replace

import pytest

from sluice.formats.check import check_file
from sluice.formats.kind import Kind
from sluice.formats.registry import KINDS
from sluice.formats.verdict import Report
from tests.formats.judging import CORPUS, needs_corpus
from tests.length import amount


def judged(data: bytes, name: str) -> Report:
    return replace(check_file(io.BytesIO(data), filename=name), ms=0.0)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_a_sample_is_judged_alike_twice(kind: Kind) -> None:
    name = f"sample.{min(kind.extensions)}"
    for data in (kind.sample(), kind.sample()[:-7], kind.sample()[:20] + bytes(9) + kind.sample()[29:]):
        assert judged(data, name) == judged(data, name)


def chosen() -> list[str]:
    """Answer the names of some files of each format and label, or of all."""
    of: dict[tuple[str, str], list[str]] = {}
    for row in map(json.loads, (CORPUS / "manifest.jsonl").read_text().splitlines()):
        of.setdefault((row["format"], row["label"]), []).append(row["file"])
    most = amount("TWICE", short=1, whole=1_000_000)
    return [name for names in of.values() for name in names[:most]]


@needs_corpus
@pytest.mark.timeout(900)
def test_two_runs_over_the_corpus_say_the_same() -> None:
    names = chosen()
    first = [judged((CORPUS / name).read_bytes(), name) for name in names]
    second = [judged((CORPUS / name).read_bytes(), name) for name in reversed(names)]
    differing = [name for name, one, other in zip(names, first, reversed(second), strict=True) if one != other]
    assert differing == []
