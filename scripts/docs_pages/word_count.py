"""The length of the documentation: words that are written by hand, and words that are generated."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs_pages.included import INCLUDED

WORD: Final = re.compile(r"\S*[^\W_]\S*")
"""What is between white space and has a letter or a digit: the bars of tables are no words, code is."""
GENERATED: Final = re.compile(r"<!-- (Made|Generated) by ")


def count_words(root: Path) -> Iterator[str]:
    """Yield a line for each page of the repository that is written by hand, the longest first, then the two sums.

    The files of `examples/` that a page shows count as generated.
    """
    by_hand: dict[str, int] = {}
    generated = 0
    for name in _pages(root):
        text = (root / name).read_text(encoding="utf-8")
        own = "" if GENERATED.match(text) else INCLUDED.sub("", text)
        by_hand[name] = len(WORD.findall(own))
        generated += len(WORD.findall(text)) - by_hand[name]
    for name, number in sorted(by_hand.items(), key=lambda item: (-item[1], item[0])):
        if number:
            yield f"{number:7,} {name}"
    yield f"{sum(by_hand.values()):7,} words by hand"
    yield f"{generated:7,} words generated"


def _pages(root: Path) -> list[str]:
    command = ["git", "-C", str(root), "ls-files", "*.md"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [name for name in listed if (root / name).exists()]
