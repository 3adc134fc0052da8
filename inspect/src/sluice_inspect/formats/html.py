"""Web pages: text without enforced syntax, since browsers read anything. Blank when the page shows nothing."""

from typing import Final

from sluice_inspect.facts.pages import measure_page
from sluice_inspect.format import Examination, Family, Format, named
from sluice_inspect.report import Limits
from sluice_inspect.source import Source
from sluice_inspect.text.html_ink import has_visible_html
from sluice_inspect.text.plaintext import check_text, read_text

_ZEROS_OF_DAMAGE: Final = 64  # in a row; a lost disk block leaves far more


def _examine(source: Source, limits: Limits) -> Examination:
    def blank() -> str | None:
        visible = has_visible_html(read_text(source), limits)
        return None if visible else "the page shows no text, picture or other element"

    return Examination(check_text(source, zeros=_ZEROS_OF_DAMAGE), blank)


FORMAT: Final = Format(
    name="html",
    family=Family.TEXT,
    content_type="text/html",
    extensions=frozenset({"html", "htm", "xhtml"}),
    examine=_examine,
    facts=measure_page,
    sample=lambda: b"<!DOCTYPE html>\n<html><head><title>Sample</title></head><body><p>One line.</p></body></html>\n",
    is_text=True,
    names=named("web page", "html htm xhtml text/html"),
)
