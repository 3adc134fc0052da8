"""No link within the documentation is dead, and no page stands alone."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, README, ROOT, anchors, every_page, links


def _named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _internal(page: Path) -> list[tuple[Path, str]]:
    """Answer the files and anchors that a page leads to."""
    found = []
    for target in links(page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("mailto:"):
            path, _, anchor = target.partition("#")
            found.append(((page.parent / path).resolve() if path else page, anchor))
    return found


@pytest.mark.parametrize("page", every_page(), ids=_named)
def test_every_internal_link_leads_somewhere(page: Path) -> None:
    dead = [f"{path.name}#{anchor}" for path, anchor in _internal(page) if not path.exists()]
    assert dead == []


@pytest.mark.parametrize("page", every_page(), ids=_named)
def test_every_anchor_is_a_heading(page: Path) -> None:
    marked = [(path, anchor) for path, anchor in _internal(page) if anchor and path.suffix == ".md" and path.exists()]
    dead = [f"{path.name}#{anchor}" for path, anchor in marked if anchor not in anchors(path.read_text(encoding="utf-8"))]
    assert dead == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, waiting = set[Path](), [README]
    while waiting:
        page = waiting.pop()
        if page not in seen and page.suffix == ".md" and page.exists():
            seen.add(page)
            waiting += [path for path, _ in _internal(page)]
    assert sorted(_named(page) for page in set(DOCS.rglob("*.md")) - seen) == []
