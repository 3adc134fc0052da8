"""Reading the documentation as its readers do: pages, headings, links, and the lines that stand in blocks of shell."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"

_BLOCK = re.compile(r"^```(\w*)\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_SHOWN = "http://127.0.0.1:8000"


def every_page() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def blocks(text: str, language: str) -> list[str]:
    return [content for name, content in _BLOCK.findall(text) if name == language]


def curl_blocks(text: str) -> list[str]:
    return [block for block in blocks(text, "sh") if block.startswith("curl ")]


def links(text: str) -> Iterator[str]:
    """Answer the targets of links outside of code."""
    prose = re.sub(r"`[^`\n]*`", "", _BLOCK.sub("", text))
    yield from _LINK.findall(prose)


def anchors(text: str) -> set[str]:
    """Answer the anchors that forges give the headings: lower case, words joined by hyphens, other signs dropped."""
    headings = _HEADING.findall(_BLOCK.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def run_line(line: str, *, url: str, environment: Mapping[str, str], folder: Path) -> str:
    """Run one line of a page in a shell, at another address than the page shows, and answer what it printed."""
    assert _SHOWN in line
    done = subprocess.run(
        ["/bin/sh", "-ec", line.replace(_SHOWN, url)],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout
