"""The site of the documentation: it builds strictly, loads nothing from elsewhere, and has each page as Markdown."""

import json
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

LOADING = {"src", "srcset", "data", "poster", "action", "manifest"}
"""Attributes whose address a browser loads by itself, or sends to. `href` is one in `<link>` only."""
NAMES_ONLY = ("http://www.w3.org/",)
"""Addresses in styles and scripts that are names of formats and are never loaded."""
IN_COMMENTS = re.compile(r"/\*.*?\*/|(?:<|\\3c )!--.*?--", re.DOTALL)
"""Comments of styles and scripts, and those of the pictures in them."""
ADDRESS = re.compile(r"""(?:https?:|(?<=["'`(]))//[\w-]+(?:\.[\w-]+)+[^\s"'`)]*""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, str(ROOT / "scripts" / "site.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder


class _Page(HTMLParser):
    """The addresses that a page loads, the places that it links to, and the ids that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.ids: set[str] = set()
        self.inline: list[str] = []
        self._within: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.loaded += [value for name, value in given.items() if name in LOADING]
        if tag == "link" and given.get("rel") not in {"canonical", "next", "prev"}:
            self.loaded.append(given.get("href", ""))
        if tag == "a" and "href" in given:
            self.linked.append(given["href"])
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        self._within = tag if tag in {"script", "style"} else None

    def handle_data(self, data: str) -> None:
        if self._within:
            self.inline.append(data)

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002  (the name is the base class's)
        self._within = None


@cache
def _parsed(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _outside(code: str) -> list[str]:
    return [found for found in ADDRESS.findall(IN_COMMENTS.sub("", code)) if not found.startswith(NAMES_ONLY)]


def test_no_page_style_or_script_loads_anything_from_another_host(site: Path) -> None:
    outside: dict[str, list[str]] = {}
    for path in sorted(site.rglob("*")):
        found: list[str] = []
        if path.suffix == ".html":
            page = _parsed(path)
            found = [address for address in page.loaded if "//" in address]
            found += [address for code in page.inline for address in _outside(code)]
        elif path.suffix in {".js", ".css"}:
            found = _outside(path.read_text(encoding="utf-8"))
        if found:
            outside[str(path.relative_to(site))] = found
    assert outside == {}
    assert len(list(site.rglob("*.html"))) > 80


def test_every_link_of_the_site_leads_to_a_file_and_a_heading(site: Path) -> None:
    pages = {path: _parsed(path) for path in site.rglob("*.html") if path.name != "404.html"}
    dead = []
    for path, page in pages.items():
        for link in page.linked:
            address, _, anchor = link.partition("#")
            if ":" in address or "/demo" in address:
                continue
            target = (path.parent / address).resolve() if address else path
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].ids):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert dead == []


def test_every_page_has_a_markdown_twin_that_the_list_for_agents_names(site: Path) -> None:
    pages = {path.relative_to(site).with_suffix(".md") for path in site.rglob("*.html") if path.name != "404.html"}
    assert {page for page in pages if not (site / page).is_file()} == set()
    index = (site / "llms.txt").read_text(encoding="utf-8")
    assert index.startswith("# Sluice\n\n> Sluice is an upload gate")
    named = dict(re.findall(r"^- \[.+\]\((\S+\.md)\): (.+)$", index, re.MULTILINE))
    assert {str(page) for page in pages} - set(named) == {"index.md"}
    assert [place for place, sentence in named.items() if len(sentence) < 10] == []
    for part in ("Tutorials", "How-to", "Reference", "Explanation"):
        assert f"\n## {part}\n" in index


def test_the_site_has_every_page_of_the_documentation(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS)).with_suffix(".html").is_file()


def test_search_for_a_password_protected_pdf_leads_to_the_policy(site: Path) -> None:
    """The search of the site shows the sections that have every word."""
    sections = json.loads((site / "search.json").read_text(encoding="utf-8"))["items"]
    words = ("password", "protected", "pdf")
    found = [each["location"] for each in sections if all(word in each["text"].lower() for word in words)]
    assert any(place.startswith("reports.html") for place in found), found
