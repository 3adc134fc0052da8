"""Plain text: it decodes, has no zero bytes and hardly any control characters. Languages written in text (JSON, CSV) are kinds of their own."""

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
    name="text",
    content_type="text/plain",
    extensions=frozenset({"txt", "text", "log"}),
    recognises=_recognises,
    check=_check,
    blank=_blank,
    sample=lambda: b"One line of text.\n",
    is_text=True,
)
