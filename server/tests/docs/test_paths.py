"""Every path of a module or a test that a hand-written page names exists."""

import re
from pathlib import Path

from tests.docs.pages import ROOT, every_page
from tests.rows import each_row

GENERATED = re.compile(r"<!-- (Made|Generated) by ")
PAGES = [page for page in every_page() if not GENERATED.match(page.read_text(encoding="utf-8"))]
# Within backticks: `server/src/sluice/uploads/upload.py`, `server/tests/docs/test_paths.py::test_x`, `pytest inspect/tests/sandbox`.
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"(?<![\w./-])(?:inspect|server)/(?:src|tests)/[\w./<>*{}…-]*")
PATTERN = re.compile(r"[<>*{}…]")


def paths_in(text: str) -> set[str]:
    """Return the paths below `src` and `tests` of a distribution in the code spans of a page, without placeholders such as `<format>`."""
    found = {path.rstrip(".") for code in CODE.findall(text) for path in PATH.findall(code)}
    return {path for path in found if not PATTERN.search(path)}


@each_row("page", PAGES)
def test_every_path_in_a_page_exists(page: Path) -> None:
    missing = [path for path in sorted(paths_in(page.read_text(encoding="utf-8"))) if not (ROOT / path).exists()]
    assert missing == []


def test_paths_are_found_in_code_spans_only() -> None:
    text = "`server/src/a.py` server/src/b.py `pytest server/tests/c.py::test_d` `inspect/src/<name>.py` `server/tests/*.py` `x/server/src/f.py`"
    assert paths_in(text) == {"server/src/a.py", "server/tests/c.py"}


def test_pages_that_name_paths_are_looked_at() -> None:
    assert sum(bool(paths_in(page.read_text(encoding="utf-8"))) for page in PAGES) > 10
