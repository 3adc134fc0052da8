"""Walking a directory tree in the order of its keys, from any key on. What the keys mean is not known here."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from sluice.engines.storage.protocol import Listed


def walked(root: Path, prefix: str, after: str) -> Iterator[Listed]:
    """Answer the files below `root/prefix` whose keys come after `after`, by the UTF-8 of their keys. Lists one folder at a time."""
    folder = f"{prefix}/" if prefix else ""
    yield from _below(root / prefix, os.fsencode(folder), after.encode())


def _below(folder: Path, key: bytes, after: bytes) -> Iterator[Listed]:
    for name, is_folder in _entries(folder):
        found = key + name
        if is_folder:
            # every key in it begins with `found`: they all come before `after`, or some come after it
            if found > after or after.startswith(found):
                yield from _below(folder / os.fsdecode(name), found, after)
        elif found > after and (size := _size(folder / os.fsdecode(name))) is not None:
            yield Listed(os.fsdecode(found), size)


def _entries(folder: Path) -> list[tuple[bytes, bool]]:
    """Answer the names in a folder in the order of keys: a folder counts with the slash that its keys have there."""
    try:
        with os.scandir(os.fsencode(folder)) as found:
            names = [(entry.name + b"/", True) if entry.is_dir(follow_symlinks=False) else (entry.name, False) for entry in found]
    except FileNotFoundError:
        return []
    return sorted(names)


def _size(path: Path) -> int | None:
    try:
        found = path.lstat()
    except FileNotFoundError:  # removed meanwhile
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
