"""Plain text and Markdown: text that decodes, without zero bytes and with hardly any control characters."""

from typing import Final

from sluice_inspect.facts.texts import measure_text
from sluice_inspect.format import Examination, Family, Format, has_no_flags, named
from sluice_inspect.report import Limits
from sluice_inspect.source import Source
from sluice_inspect.text.plaintext import check_text, has_visible_text


def _examine(source: Source, _limits: Limits) -> Examination:
    def blank() -> str | None:
        return None if has_visible_text(source) else "the text is nothing but spaces and invisible characters"

    return Examination(check_text(source), blank)


TEXT: Final = Format(
    name="text",
    family=Family.TEXT,
    content_type="text/plain",
    extensions=frozenset({"txt", "text", "log"}),
    is_any_text=True,
    examine=_examine,
    facts=measure_text,
    sample=lambda: b"One line of text.\n",
    is_text=True,
    names=named("plain text", "text txt log"),
)

MARKDOWN: Final = Format(
    name="md",
    family=Family.TEXT,
    content_type="text/markdown",
    extensions=frozenset({"md", "markdown"}),
    page_extensions=frozenset({"md", "markdown"}),
    examine=_examine,
    facts=has_no_flags,
    sample=lambda: b"# Sample\n\nOne line.\n",
    is_text=True,
    names=named("Markdown", "md markdown"),
)
