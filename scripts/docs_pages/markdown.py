"""Pieces of Markdown that several pages share. What a page says is decided in the page's own module."""

import re
from collections.abc import Iterable, Sequence

_FORGE_DROPS = re.compile(r"[^\w\- ]")


def made_from(source: str) -> str:
    """Answer the remark at the head of a page that nobody edits by hand."""
    return f"<!-- Made by scripts/docs.py from {source}. Change that, then run `make docs`. -->"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Answer a table; a bar in a cell would end it, so it is escaped."""
    lines = [_row(heads), _row(["---"] * len(heads)), *(_row(row) for row in rows)]
    return "\n".join(lines)


def page(*blocks: str) -> str:
    """Answer a page: its blocks with one empty line between, and one line end at the end."""
    return "\n\n".join(block.strip("\n") for block in blocks if block) + "\n"


def anchor(heading: str) -> str:
    """Answer the anchor that forges give a heading."""
    return _FORGE_DROPS.sub("", heading.lower()).replace(" ", "-")


def fenced(language: str, text: str) -> str:
    """Answer a block of code."""
    return f"```{language}\n{text}\n```"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
