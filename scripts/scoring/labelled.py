"""Read a folder of labelled files: one JSON object per line of its `manifest.jsonl`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MANIFEST: Final = "manifest.jsonl"
_ALIASES: Final = {
    "jpeg": "jpg",
    "tif": "tiff",
    "htm": "html",
    "yml": "yaml",
    "text": "txt",
    "heif": "heic",
    "aif": "aiff",
    "markdown": "md",
}
"""Other names of formats, with the name in the tables."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """One file and its labels."""

    path: Path
    format: str
    label: str
    tier: str = ""
    viewers: str = ""
    """For a PDF, `opens` when at least two of three viewers open it, else `dead`."""

    @property
    def is_quirky(self) -> bool:
        """Whether the file breaks a rule of its format but common readers open it."""
        return self.tier == "quirky" or (self.label == "corrupt" and self.viewers == "opens")

    @property
    def is_intact(self) -> bool:
        """Whether refusing the file for damage would be wrong."""
        return self.label in {"valid", "password_protected"} or self.is_quirky


def read_folder(folder: Path) -> dict[str, list[Labelled]]:
    """Return the files of a folder by format. Raises `FileNotFoundError` without a manifest, `ValueError` for a bad line."""
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
        yield Labelled(path, _ALIASES.get(kind, kind), label, row.get("tier") or "", row.get("viewers") or "")
