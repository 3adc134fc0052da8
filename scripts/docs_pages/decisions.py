"""`docs/decisions.md`: the records of decisions, by their titles."""

import re
from pathlib import Path
from typing import Final

from docs_pages.markdown import made_from, page

_FOLDER: Final = "docs/decisions"
_TITLE: Final = re.compile(r"# (\d+) (.+)")
_INTRO: Final = """
# Decisions

Decisions of weight: what was to be decided, what was weighed and measured, and what follows.
"""


def decisions_page() -> str:
    """Return the page."""
    records = sorted((Path(__file__).parents[2] / _FOLDER).glob("*.md"))
    return page(made_from(_FOLDER), _INTRO, "\n".join(map(_line, records)))


def _line(record: Path) -> str:
    found = _TITLE.match(record.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{record.name}: expected a first line such as '# 0001 Title'")
    return f"- [{int(found[1])} {found[2]}](decisions/{record.name})"
