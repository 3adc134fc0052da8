"""Repeated inspection yields equal reports: of every sample, and of the labelled corpus if it is present."""

import io
import json
from dataclasses import replace

import pytest

from sluice_inspect.format import Format
from sluice_inspect.inspection import inspect_file
from sluice_inspect.registry import FORMATS
from sluice_inspect.report import Report
from tests.inspection.formats.examining import CORPUS, needs_corpus
from tests.rows import each_row
from tests.run_length import amount


def report_of(data: bytes, name: str) -> Report:
    return replace(inspect_file(io.BytesIO(data), filename=name), ms=0.0)


@each_row("format_", FORMATS, ids=[format_.name for format_ in FORMATS])
def test_sample_yields_equal_reports_twice(format_: Format) -> None:
    name = f"sample.{min(format_.extensions)}"
    for data in (format_.sample(), format_.sample()[:-7], format_.sample()[:20] + bytes(9) + format_.sample()[29:]):
        assert report_of(data, name) == report_of(data, name)


def chosen_names() -> list[str]:
    """Return the names of some files of each format and label, or of all of them."""
    by_label: dict[tuple[str, str], list[str]] = {}
    for row in map(json.loads, (CORPUS / "manifest.jsonl").read_text().splitlines()):
        by_label.setdefault((row["format"], row["label"]), []).append(row["file"])
    limit = amount("TWICE", short=1, full=1_000_000)
    return [name for names in by_label.values() for name in names[:limit]]


@needs_corpus
@pytest.mark.timeout(900)
def test_two_runs_over_the_corpus_yield_equal_reports() -> None:
    names = chosen_names()
    first = [report_of((CORPUS / name).read_bytes(), name) for name in names]
    second = [report_of((CORPUS / name).read_bytes(), name) for name in reversed(names)]
    differing = [name for name, one, other in zip(names, first, reversed(second), strict=True) if one != other]
    assert differing == []
