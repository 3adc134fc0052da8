"""A copy of the embedded database while it is in use, and what it says of stored objects. PostgreSQL has its own tools for this."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PAGES: Final = 1000
"""Pages copied at a time; writers come in between."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One stored file of the platform's own store, as its record says."""

    file_id: str
    key: str
    size_bytes: int
    sha256: str
    content_type: str


def take_snapshot(database: Path, target: Path) -> None:
    """Copy the database to `target`, whole and on disk when this returns, by SQLite's online backup. Raises `OSError`, `sqlite3.Error`."""
    draft = target.with_name(f"{target.name}.draft")
    draft.unlink(missing_ok=True)
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as source, closing(sqlite3.connect(draft)) as copy:
        source.backup(copy, pages=_PAGES)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, nothing beside it
    fd = os.open(draft, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    draft.rename(target)


def is_sound(database: Path) -> bool:
    """Say whether SQLite finds the database whole."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return [row[0] for row in connection.execute("PRAGMA integrity_check")] == ["ok"]
    except sqlite3.Error:
        return False


def stored_objects(database: Path) -> Iterator[StoredObject]:
    """Answer every stored file without a bucket of its own."""
    query = (
        "SELECT file_id, object_key, size_bytes, sha256, content_type FROM files "
        "WHERE state = 'stored' AND storage_config_id IS NULL ORDER BY file_id"
    )
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        for row in connection.execute(query):
            yield StoredObject(*row)
