"""A tenant with a context and a pending file: the rows that tests of reservations start from."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import insert

from sluice.access import Principal, Scope
from sluice.db.database import Database
from sluice.db.migrate import revision, upgrade
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import contexts, tenants
from sluice.uploads.names import read_name
from sluice.uploads.reservation import reserve_at_once, reserve_step_by_step
from sluice.uploads.values import PendingFile, Versions

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def prepare(database: Database) -> None:
    """Migrate the database, unless it is a copy of a migrated one, and add the tenant and the context."""
    if await revision(database) is None:
        await upgrade(database)
    rules = dict.fromkeys(("reject_blank_files", "reject_corrupt_files", "scan_for_viruses"), False)
    names = {"context_key": "papers", "display_name": "Papers", "status": "active"}
    texts = names | {"storage_path_template": "{file_id}"}
    numbers = {"max_file_size_mb": 1, "storage_used_bytes": 0, "rules_version": 1}
    ids = {"context_id": "ctx_1", "tenant_id": "ten_1", "created_at": LONG_AGO}
    tenant = {"tenant_id": "ten_1", "name": "one", "plan": "free", "status": "active", "created_at": LONG_AGO}
    context = {**rules, **texts, **numbers, **ids, "allowed_extensions": [], "metadata": {}}
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(insert(tenants).values(tenant))
        await connection.execute(insert(contexts).values(context))


def pending(number: int, lease: timedelta, *, counts: bool = False) -> PendingFile:
    return PendingFile(
        is_unique=False,
        file_id=f"file_{number}",
        tenant_id="ten_1",
        context_id="ctx_1",
        context_key="papers",
        name=read_name("a.txt"),
        content_type="text/plain",
        size_bytes=3,
        sha256="0" * 64,
        storage_config_id=None,
        object_key=f"a/{number}",
        uploader=Principal("ten_1", "user", "user", frozenset({Scope.UPLOAD}), "jwt"),
        metadata={},
        counts=counts,
        report_id=f"rep_{number}",
        created_at=LONG_AGO,
        lease=lease,
        scanned_with=None,
        versions=Versions("free", rules_version=1, bucket_changed_at=None, key_changed_at=None),
    )


async def reserve(file: PendingFile, database: Database, *, free_limit: int) -> None:
    """Reserve room for the file in the same way as an upload."""
    if not await reserve_at_once(file, database, None):
        await reserve_step_by_step(file, database, free_limit)
