"""Columns and conditions that the queries of files share."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, or_, select

from sluice.db.schema import contexts, files
from sluice.db.sql import AnyRow
from sluice.files.record import FileRecord

SHOWN = [files.c[name] for name in FileRecord.__slots__]
# The columns of a file that events contain.
EVENT_COLUMNS = (files.c.file_id, files.c.context_key, files.c.original_filename, files.c.size_bytes)


def is_in(states: Collection[str]) -> ColumnElement[bool]:
    """Return the condition that a file is in one of the states."""
    return or_(*(files.c.state == state for state in sorted(states)))


def is_free() -> ColumnElement[bool]:
    """Return the condition that a file has no hold of its own."""
    return files.c.held_at.is_(None)


def is_in_free_context() -> ColumnElement[bool]:
    """Return the condition that the context of a file has no hold."""
    held = select(contexts.c.context_id).where(
        contexts.c.tenant_id == files.c.tenant_id, contexts.c.held_at.is_not(None)
    )
    return files.c.context_id.not_in(held)


def is_in_quarantine() -> ColumnElement[bool]:
    """Return the condition that a file is in quarantine."""
    return files.c.quarantined_at.is_not(None)


def stored_row(tenant_id: str, file_id: str) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of one stored file."""
    return files.c.tenant_id == tenant_id, files.c.file_id == file_id, files.c.state == "stored"


def is_in_bucket(config_id: str | None) -> ColumnElement[bool]:
    """Return the condition that a file is in a bucket, None: in the platform's store."""
    return files.c.storage_config_id.is_(None) if config_id is None else files.c.storage_config_id == config_id


def record_of(row: AnyRow) -> FileRecord:
    """Return a row of `SHOWN` as the file that it is."""
    return FileRecord(**row._mapping)  # noqa: SLF001  (SQLAlchemy's documented name)
