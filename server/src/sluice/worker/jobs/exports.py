"""Exports: the metadata of many files, as objects of the platform's store, one for each step; and their deletion.

A part exists before the step that wrote it is noted, under a key that no other step uses. What a step that was killed
leaves behind is found by its key, which is the job's id and a number, when the export is deleted.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.sql import AnyRow
from sluice.files import repository as file_rows
from sluice.files import search
from sluice.jobs import ExportFormat, Job, repository
from sluice.jobs.job import filter_from_json
from sluice.kit.failpoints import failpoint
from sluice.kit.spreadsheet import csv_line
from sluice.observe.log import log
from sluice.resumable.parts import delete_objects, list_objects
from sluice.storage import EXPORTS, ObjectStore, StoreError
from sluice.worker.job import JobContext, error_boundary
from sluice_inspect.sandbox.sealed import Sealed

KEPT: Final = timedelta(hours=24)
_COMPARED: Final = 2000
_BATCH: Final = 20
_TRY_AGAIN: Final = timedelta(minutes=5)
_COLUMNS: Final = (
    "file_id",
    "status",
    "context_key",
    "original_filename",
    "content_type",
    "size_bytes",
    "checksum",
    "uploaded_by",
    "uploaded_by_name",
    "created_at",
    "download_count",
    "last_downloaded_at",
    "metadata",
)


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """One part of an export: its key, None if there was nothing to write, and where the next one begins."""

    key: str | None
    size: int
    files: int
    position: str | None


async def write_part(database: Database, store: ObjectStore, job: Job) -> WrittenPart:
    """Write the next part of an export. Raise `StoreError`."""
    wanted = filter_from_json(job.params["filter"])
    async with database.reading(job.tenant_id) as connection:
        file_ids, position = await search.walk(connection, job.tenant_id, wanted, job.position, _COMPARED)
        rows = await file_rows.list_by_ids(connection, job.tenant_id, file_ids) if file_ids else []
    shown = [_shown(row) for row in rows]
    content = _encode(job.params["format"], shown, is_first=not (job.result or {}).get("parts"))
    if not content:
        return WrittenPart(None, 0, 0, position)
    key = f"{EXPORTS}/{job.job_id}-{job.generation:09}"
    fd = os.memfd_create("export", os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as file:  # noqa: ASYNC230  (memory)
            file.write(content)
        sealed = Sealed(fd, len(content), hashlib.sha256(content).digest())
        await store.put(key, sealed, content_type="application/octet-stream")
    finally:
        os.close(fd)
    failpoint("export.written")
    return WrittenPart(key, len(content), len(rows), position)


def _shown(row: AnyRow) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in _COLUMNS if name not in {"status", "checksum"}}
    moments = {
        name: None if values[name] is None else values[name].isoformat().replace("+00:00", "Z")
        for name in ("created_at", "last_downloaded_at")
    }
    status = "stored" if row.quarantined_at is None else "quarantined"
    found = {**values, **moments, "status": status, "checksum": f"sha256:{row.sha256}"}
    return {name: found[name] for name in _COLUMNS}


def _encode(kind: ExportFormat, shown: list[dict[str, Any]], *, is_first: bool) -> bytes:
    """Return the lines of some files; CSV begins with the names of the columns.

    Half a surrogate pair, which no encoding has, is written as JSON escapes it.
    """
    if kind == "ndjson":
        return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in shown).encode(errors="backslashreplace")
    tables = [{**one, "metadata": json.dumps(one["metadata"], ensure_ascii=False)} for one in shown]
    lines = [csv_line(cells[name] for name in _COLUMNS) for cells in tables]
    return "".join([csv_line(_COLUMNS) if is_first else "", *lines]).encode(errors="backslashreplace")


async def sweep_exports(context: JobContext) -> int:
    """Delete the objects of exports whose time is over, or that were cancelled or failed; return of how many."""
    async with context.database.reading(ALL_TENANTS) as connection:
        due = await repository.list_exports_to_sweep(connection, _BATCH)
    for row in due:
        with error_boundary("sweep_exports", job_id=row.job_id, tenant_id=row.tenant_id):
            await _sweep(context, row.tenant_id, row.job_id)
    return len(due)


async def _sweep(context: JobContext, tenant_id: str, job_id: str) -> None:
    store = context.stores.platform
    try:
        keys = await list_objects(store, EXPORTS, job_id)
        is_clean = not keys or await delete_objects(store, keys)
    except StoreError as fault:
        log.warning("export_put_off", job_id=job_id, fault=str(fault))
        is_clean = False
    async with context.database.transaction(tenant_id) as connection:
        await repository.note_swept(connection, tenant_id, job_id, None if is_clean else _TRY_AGAIN)
