"""The links of the documentation: none is dead, and every page is reachable from the README."""

from pathlib import Path

from tests.docs.pages import DOCS, README, ROOT, anchors, every_page, links
from tests.rows import each_row


def _named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _internal(page: Path) -> list[tuple[Path, str]]:
    """Return the files and anchors that a page links to."""
    found = []
    for target in links(page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("mailto:"):
            path, _, anchor = target.partition("#")
            found.append(((page.parent / path).resolve() if path else page, anchor))
    return found


@each_row("page", every_page())
def test_internal_links_lead_to_existing_files(page: Path) -> None:
    dead = [f"{path.name}#{anchor}" for path, anchor in _internal(page) if not path.exists()]
    assert dead == []


@each_row("page", every_page())
def test_anchors_match_headings(page: Path) -> None:
    targets = [(path, anchor) for path, anchor in _internal(page) if anchor and path.suffix == ".md" and path.exists()]
    dead = [
        f"{path.name}#{anchor}" for path, anchor in targets if anchor not in anchors(path.read_text(encoding="utf-8"))
    ]
    assert dead == []


def test_every_page_is_reachable_from_the_readme() -> None:
    seen, waiting = set[Path](), [README]
    while waiting:
        page = waiting.pop()
        if page not in seen and page.suffix == ".md" and page.exists():
            seen.add(page)
            waiting += [path for path, _ in _internal(page)]
    assert sorted(_named(page) for page in set(DOCS.rglob("*.md")) - seen) == []
