import io

import pytest

from sluice.formats.check import check_file
from sluice.formats.kinds.markdown import KIND
from sluice.formats.verdict import Finding, Outcome
from tests.formats.images import encoded, plain
from tests.formats.judging import judge


@pytest.mark.parametrize("text", ["# Title\n\nWords.\n", "<!DOCTYPE html><html><p>x</p></html>", "no mark at all", "caf\xe9"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_every_text_is_markdown(text: str, encoding: str) -> None:
    report = check_file(io.BytesIO(text.encode(encoding)), filename="a.md")
    assert (report.outcome, report.finding, report.format) == (Outcome.OK, None, "md")


def test_a_picture_is_none() -> None:
    report = check_file(io.BytesIO(encoded(plain(), "PNG")), filename="a.md")
    assert report.finding is Finding.TYPE_MISMATCH


@pytest.mark.parametrize("text", [" \r\n\t", "\ufeff", "\u200b\u00a0\n"])
def test_text_without_a_mark_is_blank(text: str) -> None:
    assert judge(KIND, text.encode()).blank


def test_one_mark_is_content() -> None:
    assert judge(KIND, b"\n" * 100_000 + b"-").blank is None
