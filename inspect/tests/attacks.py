"""The attack files of ../shared/attacks, as file contents and request bodies. The expected results are in the tests."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

ATTACKS = Path(__file__).parents[2].parent / "shared" / "attacks"

needs_attacks = pytest.mark.skipif(not ATTACKS.exists(), reason="../shared/attacks is absent")
"""Skip the test when the attack files are absent."""


@cache
def manifest_rows(family: str) -> list[dict[str, Any]]:
    """Return the manifest rows of one family, or none when the files are absent."""
    manifest = ATTACKS / "manifest.jsonl"
    every = [json.loads(line) for line in manifest.read_text().splitlines()] if manifest.exists() else []
    return [row for row in every if row["family"] == family]


def files(family: str, folder: str = "", ending: str = "") -> dict[str, Path]:
    """Return the files of one family by their name at their source."""
    wanted = (
        row
        for row in manifest_rows(family)
        if row["file"].startswith(f"{family}/{folder}") and row["file"].endswith(ending)
    )
    return {row["source"].rpartition(":")[2]: ATTACKS / row["file"] for row in wanted}


HOSTILE_LINES: Final = "each line as filename"
_STRINGS: Final = "515 strings"


def files_of_names(expected: str) -> list[tuple[str, bytes]]:
    """Return name and content of every file-name list whose expected result in the manifest starts with `expected`."""
    found = (row for row in manifest_rows("filename") if row["expected"].startswith(expected))
    return [(row["source"].rpartition("/")[2], (ATTACKS / row["file"]).read_bytes()) for row in found]


@cache
def naughty_strings() -> list[str]:
    """Return all naughty strings."""
    ((_, content),) = files_of_names(_STRINGS)
    strings: list[str] = json.loads(content)
    assert len(strings) == 515
    return strings


@cache
def hostile_lines() -> list[str]:
    """Return all lines of the file-name lists; bytes that are not UTF-8 become lone surrogates."""
    return [
        line.decode("utf-8", "surrogateescape")
        for _, content in files_of_names(HOSTILE_LINES)
        for line in content.split(b"\n")
    ]


def request_bytes(path: Path) -> bytes:
    r"""Return the bytes of a gunicorn request file: its line ends are dropped, and escapes such as `\r\n` decoded."""
    text = path.read_bytes().replace(b"\n", b"")
    for written, meant in ((rb"\r", b"\r"), (rb"\n", b"\n"), (rb"\t", b"\t"), (rb"\0", b"\0")):
        text = text.replace(written, meant)
    return re.sub(rb"\\x([0-9a-fA-F]{2})", lambda found: bytes([int(found[1], 16)]), text)
