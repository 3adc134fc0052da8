"""Reads a folder of labelled files: one JSON object per line of its `manifest.jsonl`. Judges nothing."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MANIFEST: Final = "manifest.jsonl"
_SAME: Final = {
    "jpeg": "jpg",
    "tif": "tiff",
    "htm": "html",
    "yml": "yaml",
    "text": "txt",
    "heif": "heic",
    "aif": "aiff",
    "markdown": "md",
}
"""Names of formats under the name that the table has for them."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """One file and what is known of it."""

    path: Path
    format: str
    label: str
    tier: str = ""
    viewers: str = ""
    """Of a PDF: `opens` when at least two of three viewers open it, `dead` when they do not."""

    @property
    def is_quirky(self) -> bool:
        """Whether the file breaks a rule, and readers read it all the same."""
        return self.tier == "quirky" or (self.label == "corrupt" and self.viewers == "opens")

    @property
    def is_intact(self) -> bool:
        """Whether refusing the file for damage would be wrong."""
        return self.label in {"valid", "password_protected"} or self.is_quirky


def read_folder(folder: Path) -> dict[str, list[Labelled]]:
    """Answer the files of a folder by their format. Raises `FileNotFoundError` without a manifest and `ValueError` for a line that is none."""
    by_format: dict[str, list[Labelled]] = {}
    for labelled in _rows(folder):
        by_format.setdefault(labelled.format, []).append(labelled)
    return by_format


def _rows(folder: Path) -> Iterator[Labelled]:
    for number, line in enumerate((folder / MANIFEST).read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            path = folder / row["file"]
            kind = str(row.get("format") or path.suffix.lstrip(".")).lower()
            label = row["label"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"line {number} of the manifest is no label: {error}") from error
        yield Labelled(path, _SAME.get(kind, kind), label, row.get("tier") or "", row.get("viewers") or "")
