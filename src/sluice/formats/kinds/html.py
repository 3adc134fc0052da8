"""Web pages: text as in `plaintext.py`, in which browsers pass over a few zero bytes. What a page shows is looked for in `html_ink.py`.

No syntax is enforced, since browsers read anything.
"""

from collections.abc import Mapping
from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.text.html_ink import html_shows
from sluice.formats.text.plaintext import check_text, encoding_of, read_text
from sluice.formats.verdict import Limits, Measure

_ZEROS: Final = 64


def _recognises(_source: Source) -> bool:
    return False


def _check(source: Source, _limits: Limits) -> Mapping[str, Measure]:
    return check_text(source, zeros=_ZEROS)


def _blank(source: Source, limits: Limits) -> str | None:
    shows = html_shows(read_text(source, encoding_of(source)), limits)
    return None if shows else "the page shows no text, picture or other element"


KIND: Final = Kind(
    name="html",
    content_type="text/html",
    extensions=frozenset({"html", "htm", "xhtml"}),
    recognises=_recognises,
    check=_check,
    blank=_blank,
    sample=lambda: b"<!DOCTYPE html>\n<html><head><title>Sample</title></head><body><p>One line.</p></body></html>\n",
    is_text=True,
)
