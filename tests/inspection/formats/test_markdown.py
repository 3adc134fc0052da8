"""Markdown: any text passes, and text without visible characters is blank."""

import io

from sluice_inspect.formats.text import MARKDOWN
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Finding, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.image_samples import encoded, plain_picture
from tests.rows import each_row


@each_row("text", ["# Title\n\nWords.\n", "<!DOCTYPE html><html><p>x</p></html>", "no mark at all", "caf\xe9"])
@each_row("encoding", ["utf-8", "utf-16", "cp1252"])
def test_any_text_is_markdown(text: str, encoding: str) -> None:
    report = inspect_file(io.BytesIO(text.encode(encoding)), filename="a.md")
    assert (report.outcome, report.finding, report.format) == (Outcome.OK, None, "md")


def test_picture_named_md_is_a_mismatch() -> None:
    report = inspect_file(io.BytesIO(encoded(plain_picture(), "PNG")), filename="a.md")
    assert report.finding is Finding.TYPE_MISMATCH


@each_row("text", [" \r\n\t", "\ufeff", "\u200b\u00a0\n"])
def test_text_without_visible_characters_is_blank(text: str) -> None:
    assert examine_bytes(MARKDOWN, text.encode()).blank


def test_one_visible_mark_is_not_blank() -> None:
    assert examine_bytes(MARKDOWN, b"\n" * 100_000 + b"-").blank is None
