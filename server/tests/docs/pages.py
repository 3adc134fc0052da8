"""Helpers that read the documentation: pages, headings, links, code blocks, and the shell lines in them."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
README = ROOT / "README.md"

_BLOCK = re.compile(r"^```(\w*)\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")
_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_ADDRESS_SHOWN = "http://127.0.0.1:8000"


@cache
def openapi() -> dict[str, Any]:
    from sluice.api.app import make_endpoints  # noqa: PLC0415  (a second of work, which collection need not do)

    return make_endpoints().openapi()


def every_page() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def blocks(text: str, language: str) -> list[str]:
    return [content for name, content in _BLOCK.findall(text) if name == language]


def curl_blocks(text: str) -> list[str]:
    return [block for block in blocks(text, "sh") if block.startswith("curl ")]


def links(text: str) -> Iterator[str]:
    prose = re.sub(r"`[^`\n]*`", "", _BLOCK.sub("", text))
    yield from _LINK.findall(prose)


def pictures(text: str) -> list[str]:
    return _PICTURE.findall(_BLOCK.sub("", text))


def anchors(text: str) -> set[str]:
    """Return the anchors that forges derive from headings: lower case, hyphens for spaces, no punctuation."""
    headings = _HEADING.findall(_BLOCK.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def run_line(line: str, *, url: str, environment: Mapping[str, str], folder: Path) -> str:
    """Run one line of a page in a shell against `url` instead of the address shown, and return its output."""
    assert _ADDRESS_SHOWN in line
    done = subprocess.run(
        ["/bin/sh", "-ec", line.replace(_ADDRESS_SHOWN, url)],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",  # the bytes of a file
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout
