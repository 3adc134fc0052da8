"""The attack files beside this repository, as requests and bodies. What must happen to them is said in the tests that take them."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

ATTACKS = Path(__file__).parents[1].parent / "shared" / "attacks"

beside = pytest.mark.skipif(not ATTACKS.exists(), reason="../shared/attacks is absent")
"""The mark of tests that need them."""


def rows(family: str) -> list[dict[str, Any]]:
    """Answer the manifest's rows of one family, none where the files are absent."""
    manifest = ATTACKS / "manifest.jsonl"
    every = [json.loads(line) for line in manifest.read_text().splitlines()] if manifest.exists() else []
    return [row for row in every if row["family"] == family]


def files(family: str, folder: str = "", ending: str = "") -> dict[str, Path]:
    """Answer the files of one family by the name that they had at their source."""
    wanted = (row for row in rows(family) if row["file"].startswith(f"{family}/{folder}") and row["file"].endswith(ending))
    return {row["source"].rpartition(":")[2]: ATTACKS / row["file"] for row in wanted}


HOSTILE_LINES: Final = "each line as filename"
_STRINGS: Final = "515 strings"


def listed(expected: str) -> list[tuple[str, bytes]]:
    """Answer name and content of the files of names for which the manifest expects something that begins so."""
    found = (row for row in rows("filename") if row["expected"].startswith(expected))
    return [(row["source"].rpartition("/")[2], (ATTACKS / row["file"]).read_bytes()) for row in found]


def naughty_strings() -> list[str]:
    """Answer all naughty strings."""
    ((_, content),) = listed(_STRINGS)
    strings: list[str] = json.loads(content)
    assert len(strings) == 515
    return strings


def hostile_lines() -> list[str]:
    """Answer all lines of the lists of names; bytes that are no UTF-8 become lone surrogates."""
    return [line.decode("utf-8", "surrogateescape") for _, content in listed(HOSTILE_LINES) for line in content.split(b"\n")]


def request_bytes(path: Path) -> bytes:
    r"""Answer a request of gunicorn's: line ends of the file mean nothing, and `\r\n`, `\0`, `\x1f` are written out."""
    text = path.read_bytes().replace(b"\n", b"")
    for written, meant in ((rb"\r", b"\r"), (rb"\n", b"\n"), (rb"\t", b"\t"), (rb"\0", b"\0")):
        text = text.replace(written, meant)
    return re.sub(rb"\\x([0-9a-fA-F]{2})", lambda found: bytes([int(found[1], 16)]), text)
