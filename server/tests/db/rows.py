"""Rows of a tenant for tests of lists, written by plain inserts and updates, so that only the database counts them."""

from datetime import UTC, datetime

from sqlalchemy import insert, update

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import contexts, files, tenants

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


async def add_tenant(database: Database, tenant_id: str, *context_keys: str) -> None:
    """Insert a tenant with these contexts."""
    row = {"tenant_id": tenant_id, "name": "x", "plan": "free", "status": "active", "created_at": NOW}
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(insert(tenants).values(row))
        for key in context_keys:
            await connection.execute(insert(contexts).values(context_row(tenant_id, key)))


async def add_file(
    database: Database, tenant_id: str, file_id: str, *, context: str = "a", by: str = "u", **values: object
) -> None:
    """Insert a stored file."""
    ids = {"file_id": file_id, "tenant_id": tenant_id, "context_id": f"{tenant_id}-{context}", "context_key": context}
    content = {"original_filename": "a.txt", "content_type": "text/plain", "size_bytes": 1, "sha256": "0" * 64}
    place = {"state": "stored", "object_key": file_id, "storage_config_id": None, "report_id": f"report-{file_id}"}
    origin = {"uploaded_by": by, "uploaded_by_name": by, "created_at": NOW, "metadata": {}, "download_count": 0}
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(insert(files).values(ids | content | place | origin | values))


async def change(database: Database, file_id: str, **values: object) -> None:
    """Change columns of a file."""
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(update(files).where(files.c.file_id == file_id).values(values))


def context_row(tenant_id: str, key: str) -> dict[str, object]:
    names = {"context_id": f"{tenant_id}-{key}", "tenant_id": tenant_id, "context_key": key, "display_name": key}
    rules = dict.fromkeys(("reject_blank_files", "reject_corrupt_files", "scan_for_viruses"), True)
    limits = {"allowed_extensions": [], "max_file_size_mb": 10, "storage_used_bytes": 0, "rules_version": 1}
    rest = {"storage_path_template": "{file_id}", "status": "active", "metadata": {}, "created_at": NOW}
    return names | rules | limits | rest
