"""The pages that show files of `examples/`: the code in them is that of the files, which tests run."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
INCLUDED: Final = re.compile(
    r"^<!-- include: (?P<path>\S+) -->\n```(?P<language>\w+)\n.*?^```$", re.MULTILINE | re.DOTALL
)
"""A mark, and the block behind it that has the file's text."""


def pages_with_files() -> Mapping[str, Callable[[], str]]:
    """Return what makes each how-to page with the present text of its files."""
    return {f"how-to/{page.name}": lambda page=page: with_files(page.read_text(encoding="utf-8")) for page in _pages()}


def _pages() -> list[Path]:
    pages = sorted((ROOT / "docs" / "how-to").glob("*.md"))
    return [page for page in pages if INCLUDED.search(page.read_text(encoding="utf-8"))]


def with_files(text: str) -> str:
    """Return the text of a page with the text of each file behind its mark."""

    def block(found: re.Match[str]) -> str:
        content = (ROOT / found["path"]).read_text(encoding="utf-8").rstrip("\n")
        return f"<!-- include: {found['path']} -->\n```{found['language']}\n{content}\n```"

    return INCLUDED.sub(block, text)
