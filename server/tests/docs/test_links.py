"""The links of the documentation: none is dead, and every page is reachable from the README."""

from pathlib import Path

from tests.docs.pages import DOCS, README, anchors, every_page, links, pictures
from tests.rows import each_row


def _internal(page: Path) -> list[tuple[Path, str]]:
    found = []
    for target in links(page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("mailto:"):
            path, _, anchor = target.partition("#")
            found.append(((page.parent / path).resolve() if path else page, anchor))
    return found


@each_row("page", every_page())
def test_internal_links_lead_to_existing_files_and_headings(page: Path) -> None:
    targets = _internal(page)
    assert [path.name for path, _ in targets if not path.exists()] == []
    with_anchor = [(path, anchor) for path, anchor in targets if anchor and path.suffix == ".md"]
    dead = [(path.name, at) for path, at in with_anchor if at not in anchors(path.read_text(encoding="utf-8"))]
    assert dead == []


@each_row("page", every_page())
def test_pictures_of_a_page_exist(page: Path) -> None:
    shown = [target for target in pictures(page.read_text(encoding="utf-8")) if "://" not in target]
    assert [target for target in shown if not (page.parent / target).is_file()] == []


def test_every_page_is_reachable_from_the_readme() -> None:
    seen, waiting = set[Path](), [README]
    while waiting:
        page = waiting.pop()
        if page not in seen and page.suffix == ".md" and page.exists():
            seen.add(page)
            waiting += [path for path, _ in _internal(page)]
    assert sorted(set(DOCS.rglob("*.md")) - seen) == []
