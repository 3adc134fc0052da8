"""Build the site of the documentation into `build/site`: pages, a Markdown twin of each, and `llms.txt` for agents.

python scripts/site.py [FOLDER]

The pages are those of `docs/` and the ones beside the README. It needs no network, and neither do the pages.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
BESIDE_README: Final = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "UPGRADING.md",
)
SUMMARY: Final = (
    "Sluice is an upload gate: every file that a stranger sends is inspected by the rules of its context before it is "
    "stored. A rejected file gets one stable reason code and a sentence for its sender."
)

NAVIGATION: Final[Mapping[str, Sequence[str]]] = {
    "Tutorials": (
        "tutorials/first-upload.md",
        "tutorials/first-rejection.md",
        "tutorials/browser-upload.md",
        "tutorials/production.md",
    ),
    "How-to": (
        "how-to/plain-html.md",
        "how-to/fastapi.md",
        "how-to/django.md",
        "how-to/flask.md",
        "how-to/nextjs.md",
        "how-to/uppy.md",
        "how-to/n8n.md",
        "how-to/agents.md",
        "how-to/s3.md",
        "how-to/google-cloud-storage.md",
        "how-to/azure.md",
        "how-to/clamd.md",
        "how-to/hash-lists.md",
        "how-to/icap.md",
        "how-to/yara.md",
        "how-to/external-checks.md",
        "how-to/python-checks.md",
        "how-to/oidc.md",
        "how-to/backup.md",
        "how-to/kubernetes.md",
        "uploads.md",
        "clients/python.md",
        "clients/typescript.md",
        "install.md",
        "setup.md",
        "lifecycle.md",
        "previews.md",
        "sanitising.md",
        "legible.md",
        "text-rules.md",
        "document-kind.md",
        "console.md",
        "operations.md",
        "runbooks.md",
    ),
    "Reference": (
        "reference/api.md",
        "reasons.md",
        "errors.md",
        "settings.md",
        "events.md",
        "cli.md",
        "metrics.md",
        "messages.md",
        "facts.md",
        "formats.md",
        "blank.md",
        "not-blank.md",
        "verdicts.md",
        "reports.md",
        "receipts.md",
        "files.md",
        "jobs.md",
        "usage.md",
        "glossary.md",
        "project/CHANGELOG.md",
        "project/UPGRADING.md",
    ),
    "Explanation": (
        "way-of-an-upload.md",
        "engines.md",
        "scanner.md",
        "integrators.md",
        "operators.md",
        "choices.md",
        "performance.md",
        "scale.md",
        "security/threat-model.md",
        "security/asvs.md",
        "security/inventory.md",
        "security/figures.md",
        "open.md",
        "project/overview.md",
        "project/ARCHITECTURE.md",
        "project/SECURITY.md",
        "project/CONTRIBUTING.md",
        "suite.md",
    ),
    "Decisions": ("decisions.md", *(f"decisions/{page.name}" for page in sorted((DOCS / "decisions").glob("*.md")))),
}
"""The parts of the site and their pages, by their paths in it. Every page of `docs/` is in one of them."""

_CODE: Final = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_HOSTS: Final = re.compile(r"https://(?:unpkg\.com|cdn\.jsdelivr\.net|api\.github\.com)")


def sources() -> dict[str, Path]:
    """Return the files of the site by their paths in it."""
    found = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*")) if path.is_file()}
    # A page called README would be the index of its folder.
    return (
        found | {"project/overview.md": ROOT / "README.md"} | {f"project/{name}": ROOT / name for name in BESIDE_README}
    )


def pages() -> list[str]:
    """Return the paths of all pages, in the order of the navigation."""
    return ["index.md", *(page for part in NAVIGATION.values() for page in part)]


def title_of(text: str) -> str:
    """Return the first heading of a page."""
    return next(line for line in text.splitlines() if line.startswith("# ")).removeprefix("# ")


def for_the_site(place: str, files: Mapping[str, Path]) -> str:
    """Return the text of a page with its links as they are in the site. What is only in the repository is named."""
    places = {path: name for name, path in files.items()}
    source = files[place]

    def link(found: re.Match[str]) -> str:
        image, text, target = found.groups()
        path, hash_sign, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:") or not path:
            return found[0]
        linked = Path(os.path.normpath(source.parent / path))
        if linked not in places:
            name = linked.relative_to(ROOT).as_posix()
            return text if name in text else f"{text} (`{name}`)"
        relative = os.path.relpath(places[linked], Path(place).parent)
        return f"{image}[{text}]({relative}{hash_sign}{anchor})"

    parts = _CODE.split(_with_linked_code(source.read_text(encoding="utf-8")))
    return "".join(part if number % 2 else _LINK.sub(link, part) for number, part in enumerate(parts))


def _with_linked_code(text: str) -> str:
    """Return the text with links around code (`[`code`](page)`) in a form whose code is not split from its link."""
    return re.sub(r"\[`([^`\n]+)`\]\(", lambda found: f"[<code>{_escaped(found[1])}</code>](", text)


def _escaped(code: str) -> str:
    return code.replace("&", "&amp;").replace("<", "&lt;").replace("*", "&#42;").replace("_", "&#95;")


def configuration(titles: Mapping[str, str]) -> str:
    """Return the configuration of Zensical."""
    parts = [
        f"{{ {json.dumps(part)} = [{', '.join(f'{{ {json.dumps(titles[page])} = {json.dumps(page)} }}' for page in listed)}] }}"
        for part, listed in NAVIGATION.items()
    ]
    return f"""[project]
site_name = "Sluice"
site_description = {json.dumps(SUMMARY)}
docs_dir = "pages"
site_dir = "built"
use_directory_urls = false
nav = [{{ "Sluice" = "index.md" }}, {", ".join(parts)}]

[project.theme]
language = "en"
font = false
features = ["content.code.copy", "navigation.prune", "navigation.sections", "navigation.tabs", "navigation.top"]

[project.extra]
generator = false

[project.markdown_extensions]
admonition = {{}}
attr_list = {{}}
md_in_html = {{}}
tables = {{}}
toc = {{ permalink = true, slugify = {{ object = "pymdownx.slugs.slugify", kwds = {{ case = "lower" }} }} }}
pymdownx.highlight = {{}}
pymdownx.superfences = {{}}
"""


def agent_index(titles: Mapping[str, str], texts: Mapping[str, str]) -> str:
    """Return `llms.txt`: every page with its address as Markdown and its first sentence."""
    lines = ["# Sluice", "", f"> {SUMMARY}", ""]
    for part, listed in NAVIGATION.items():
        lines += [f"## {part}", ""]
        lines += [f"- [{titles[page]}]({page}): {_first_sentence(texts[page])}" for page in listed]
        lines.append("")
    return "\n".join(lines)


def _first_sentence(text: str) -> str:
    blocks = (
        block for block in text.split("\n\n") if re.match(r"[\w`*\[(]", block) and not block.startswith("Status:")
    )
    paragraph = " ".join(next(blocks, "").split())
    plain = re.sub(r"<[^>]+>", "", _LINK.sub(r"\2", paragraph))
    return re.split(r"(?<=[.!?]) ", plain)[0].rstrip(":")


def built_files(folder: Path) -> Iterator[Path]:
    """Yield the pages, styles and scripts of a built site."""
    yield from (path for path in sorted(folder.rglob("*")) if path.suffix in {".html", ".css", ".js"})


def build(folder: Path) -> None:
    """Build the site into a folder, which is replaced. Raises `CalledProcessError` if Zensical warns of anything."""
    files = sources()
    listed = pages()
    missing = {place for place in files if place.endswith(".md")} - set(listed)
    if missing:
        raise SystemExit(f"scripts/site.py lists no place for {', '.join(sorted(missing))}")
    texts = {place: for_the_site(place, files) for place in listed}
    titles = {place: title_of(text) for place, text in texts.items()}
    work = folder.with_name(f"{folder.name}.work")
    shutil.rmtree(work, ignore_errors=True)
    for place, path in files.items():
        target = work / "pages" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if place in texts:
            target.write_text(texts[place], encoding="utf-8")
        else:
            shutil.copyfile(path, target)
    (work / "zensical.toml").write_text(configuration(titles), encoding="utf-8")
    program = Path(sys.executable).with_name("zensical")
    subprocess.run([program, "build", "--strict", "--config-file", "zensical.toml"], cwd=work, check=True)
    built = work / "built"
    for place, text in texts.items():
        (built / place).write_text(text, encoding="utf-8")
    (built / "llms.txt").write_text(agent_index(titles, texts), encoding="utf-8")
    # The theme can load libraries of others for parts that these pages do not have. It must not even try.
    for script in built.rglob("*.js"):
        code = script.read_text(encoding="utf-8")
        script.write_text(_HOSTS.sub("/not-loaded", code), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    built.rename(folder)
    shutil.rmtree(work)


if __name__ == "__main__":
    target_folder = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build" / "site"
    target_folder.parent.mkdir(parents=True, exist_ok=True)
    build(target_folder.resolve())
    print(f"The site is in {target_folder}: open index.html.")
