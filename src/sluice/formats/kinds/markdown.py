"""Markdown: text as in `plaintext.py`; every text is one. A web page is Markdown as well."""

from collections.abc import Mapping
from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.text.plaintext import check_text, encoding_of, has_visible_text
from sluice.formats.verdict import Limits, Measure


def _recognises(_source: Source) -> bool:
    return False


def _check(source: Source, _limits: Limits) -> Mapping[str, Measure]:
    return check_text(source)


def _blank(source: Source, _limits: Limits) -> str | None:
    return None if has_visible_text(source, encoding_of(source)) else "the text is nothing but spaces and invisible characters"


KIND: Final = Kind(
    name="md",
    content_type="text/markdown",
    extensions=frozenset({"md", "markdown"}),
    recognises=_recognises,
    check=_check,
    blank=_blank,
    sample=lambda: b"# Sample\n\nOne line.\n",
    is_text=True,
)
