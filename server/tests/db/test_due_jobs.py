"""One statement finds which jobs of the worker have rows to work on, on both databases."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Table, delete, insert

from sluice.db import schema
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.worker import repository
from sluice.worker.runner import JOBS
from tests.db.rows import NOW, add_tenant
from tests.rows import each_row

LATER = datetime(2999, 1, 1, tzinfo=UTC)
_OF_TYPE = {
    "String": "x",
    "Integer": 1,
    "BigInteger": 1,
    "Boolean": True,
    "Moment": NOW,
    "JSON": {},
    "LargeBinary": bytes(32),
}
FILE = {"tenant_id": "ten_1", "context_id": "ten_1-a", "context_key": "a"}

ROWS: list[tuple[str, Table, dict[str, Any], dict[str, Any]]] = [
    ("fence_expired_leases", schema.files, FILE | {"state": "pending", "lease_until": NOW}, {"lease_until": LATER}),
    ("expire_test_files", schema.files, FILE | {"state": "stored", "due_at": NOW}, {"held_at": NOW}),
    ("purge_objects", schema.files, FILE | {"state": "deleted", "due_at": NOW}, {"due_at": LATER}),
    (
        "expire_by_retention",
        schema.contexts,
        {"tenant_id": "ten_1", "retention_due_at": NOW},
        {"retention_due_at": LATER},
    ),
    ("end_resumable_uploads", schema.resumable_uploads, {"tenant_id": "ten_1", "due_at": NOW}, {"due_at": LATER}),
    (
        "sweep_exports",
        schema.jobs,
        {"tenant_id": "ten_1", "kind": "export", "state": "done", "due_at": NOW},
        {"state": "running"},
    ),
    ("delete_expired_hashes", schema.hash_entries, {"tenant_id": "ten_1", "expires_at": NOW}, {"expires_at": LATER}),
    ("fold_counts", schema.count_deltas, {}, {}),
    ("fold_usage", schema.usage_deltas, {}, {}),
    ("number_events", schema.events, {}, {"sequence": 1}),
    ("watch_buckets", schema.bucket_outages, {"tenant_id": "ten_1", "check_at": NOW}, {"check_at": LATER}),
]


def test_every_job_is_found_by_its_rows_or_runs_in_complete_rounds_only() -> None:
    assert repository.FOUND_BY_ROWS == {name for name, *_rest in ROWS} < JOBS.keys()
    others = JOBS.keys() - repository.FOUND_BY_ROWS
    assert {name for name in others if "delete_old" not in name} == {
        "announce_limits",
        "forget_idle_limits",
        "sweep_leftovers",
    }


@each_row(("job", "table", "due", "not_due"), ROWS)
async def test_a_job_is_due_while_there_is_a_row_for_it(
    tables: Database, job: str, table: Table, due: dict[str, Any], not_due: dict[str, Any]
) -> None:
    await add_tenant(tables, "ten_1", *(["a"] if table is schema.files else []))
    if table is schema.bucket_outages:
        await _replace(tables, schema.storage_configs, {"tenant_id": "ten_1"})
    assert job not in await _find_due(tables)
    await _replace(tables, table, due)
    assert job in await _find_due(tables)
    await _replace(tables, table, due | not_due if not_due else None)
    assert job not in await _find_due(tables)
    async with tables.transaction(ALL_TENANTS) as connection:
        for emptied in reversed(schema.metadata.sorted_tables):
            await connection.execute(delete(emptied))


async def _find_due(database: Database) -> frozenset[str]:
    async with database.reading(ALL_TENANTS) as connection:
        return await repository.find_due(connection)


async def _replace(database: Database, table: Table, values: dict[str, Any] | None) -> None:
    """Let the table have one row, with these values and any others where there must be one; None: no row."""
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(delete(table))
        if values is not None:
            needed = {each.name: _OF_TYPE[type(each.type).__name__] for each in table.c if _is_needed(each)}
            await connection.execute(insert(table).values(needed | values))


def _is_needed(column: Any) -> bool:
    return not column.nullable and column.identity is None and column.server_default is None
