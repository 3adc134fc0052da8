"""Write the pages of `docs/` that are generated from the code, or list the stale ones. Their content is in `docs_pages`.

python scripts/docs.py            write the pages
python scripts/docs.py --check    exit with 1 if a page differs from what the code generates
python scripts/docs.py --words    print how many words the pages have, by hand and generated
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "inspect"))  # for the tests' examples

from docs_pages.asvs import asvs_page
from docs_pages.blank import blank_page, not_blank_page
from docs_pages.cli import cli_page
from docs_pages.decisions import decisions_page
from docs_pages.errors import errors_page
from docs_pages.events import events_page
from docs_pages.facts import facts_page
from docs_pages.included import pages_with_files
from docs_pages.messages import messages_page
from docs_pages.metrics import metrics_page
from docs_pages.reasons import reasons_page
from docs_pages.reference import api_page, openapi_page
from docs_pages.runbooks import runbooks_page
from docs_pages.settings import settings_page
from docs_pages.word_count import count_words

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "reasons.md": reasons_page,
    "errors.md": errors_page,
    "facts.md": facts_page,
    "events.md": events_page,
    "messages.md": messages_page,
    "settings.md": settings_page,
    "metrics.md": metrics_page,
    "runbooks.md": runbooks_page,
    "decisions.md": decisions_page,
    "cli.md": cli_page,
    "blank.md": blank_page,
    "not-blank.md": not_blank_page,
    "security/asvs.md": asvs_page,
    "reference/api.md": api_page,
    "reference/openapi.json": openapi_page,
}


def main(words: Sequence[str]) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description="Write the pages of docs/ that are generated from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is stale")
    parser.add_argument("--words", action="store_true", help="write nothing; print how many words the pages have")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1] / "docs", help="folder of the pages")
    arguments = parser.parse_args(words)
    if arguments.words:
        print("\n".join(count_words(arguments.root.parent)))
        return 0
    made = dict(generated_pages())
    # Pages that are written by hand, around files of the examples, are there already.
    made |= {name: make() for name, make in pages_with_files().items() if (arguments.root / name).exists()}
    stale = [name for name, text in made.items() if _differs(arguments.root / name, text)]
    if arguments.check:
        for name in stale:
            print(f"stale: docs/{name} (run `make docs`)", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        _write(arguments.root / name, made[name])
        print(f"written: docs/{name}")
    return 0


@cache
def generated_pages() -> Mapping[str, str]:
    """Return the text of each page by its name."""
    return {name: make() for name, make in PAGES.items()}


def _differs(path: Path, text: str) -> bool:
    return not path.exists() or path.read_text(encoding="utf-8") != text


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
