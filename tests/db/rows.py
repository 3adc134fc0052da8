"""Rows of a tenant for tests of lists, written by plain inserts and updates, so that only the database counts them."""

from datetime import UTC, datetime

from sqlalchemy import insert, update

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import contexts, files, tenants

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


async def add_tenant(database: Database, tenant_id: str, *context_keys: str) -> None:
    """Insert a tenant with these contexts."""
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(
            insert(tenants).values(tenant_id=tenant_id, name="x", plan="free", status="active", created_at=NOW)
        )
        for key in context_keys:
            await connection.execute(insert(contexts).values(**_context(tenant_id, key)))


async def add_file(
    database: Database,
    tenant_id: str,
    file_id: str,
    *,
    context: str = "a",
    by: str = "u",
    state: str = "stored",
    bucket: str | None = None,
) -> None:
    """Insert a file in that state."""
    row = _file(tenant_id, file_id, context, by, state) | {"storage_config_id": bucket}
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(insert(files).values(**row))


async def move(database: Database, file_id: str, bucket: str | None) -> None:
    """Move the row of a file to another bucket, or to the platform store."""
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(update(files).where(files.c.file_id == file_id).values(storage_config_id=bucket))


async def set_state(database: Database, file_id: str, state: str) -> None:
    """Change the state of a file."""
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(update(files).where(files.c.file_id == file_id).values(state=state))


def _context(tenant_id: str, key: str) -> dict[str, object]:
    return {
        "context_id": f"{tenant_id}-{key}",
        "tenant_id": tenant_id,
        "context_key": key,
        "display_name": key,
        "allowed_extensions": [],
        "max_file_size_mb": 10,
        "storage_path_template": "{file_id}",
        "reject_blank_files": True,
        "reject_corrupt_files": True,
        "scan_for_viruses": True,
        "storage_used_bytes": 0,
        "status": "active",
        "metadata": {},
        "rules_version": 1,
        "created_at": NOW,
    }


def _file(tenant_id: str, file_id: str, context: str, by: str, state: str) -> dict[str, object]:
    return {
        "file_id": file_id,
        "tenant_id": tenant_id,
        "context_id": f"{tenant_id}-{context}",
        "context_key": context,
        "state": state,
        "original_filename": "a.txt",
        "content_type": "text/plain",
        "size_bytes": 1,
        "sha256": "0" * 64,
        "object_key": file_id,
        "uploaded_by": by,
        "uploaded_by_name": by,
        "metadata": {},
        "download_count": 0,
        "report_id": f"report-{file_id}",
        "created_at": NOW,
    }
