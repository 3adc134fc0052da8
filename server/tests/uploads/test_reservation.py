"""Reservations and records while the database fails, and concurrent claims on a quota.

`OutcomeUnknown` is raised only if the file may have been recorded.
"""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from sluice.access import Principal, Scope
from sluice.db.database import Database, DatabaseNotReached
from sluice.db.postgres import PostgresOptions
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import contexts, files
from sluice.errors import OutcomeUnknown
from sluice.storage.local.store import LocalStore
from sluice.uploads.reservation import ClaimLost, record
from sluice.uploads.values import Decision, Facts, Rules
from tests.servers.faults import Fault, fault_proxy
from tests.servers.postgres import Postgres
from tests.uploads.rows import LONG_AGO, pending, prepare, reserve

HASTY = PostgresOptions(pool_size=1, wait_seconds=4.0, connect_seconds=4.0, statement_seconds=2.0)


def _decision() -> Decision:
    ids: dict[str, Any] = {"report_id": "rep_1", "tenant_id": "ten_1", "file_id": "file_1", "context_key": "papers"}
    verdict: dict[str, Any] = {"outcome": "accepted", "rejection": None, "failures": (), "detail": "", "duration_ms": 1}
    rules = Rules(1, (), 1, reject_blank=False, reject_corrupt=False, scan=False, rate=None, quota_bytes=None)
    facts = Facts("a.txt", "txt", 3, "0" * 64)
    actor = Principal("ten_1", "user", "user", frozenset({Scope.UPLOAD}), "jwt")
    return Decision(**ids, **verdict, rules=rules, facts=facts, actor=actor, created_at=LONG_AGO, all_checks=False)


@pytest.mark.parametrize(
    ("fault", "error"), [(Fault.BLACK_HOLE, DatabaseNotReached), (Fault.LOST_RESPONSE, OutcomeUnknown)]
)
async def test_record_says_whether_the_file_may_have_been_recorded(
    fault: Fault, error: type[Exception], postgres: Postgres, tmp_path: Path
) -> None:
    async with fault_proxy(f"http://127.0.0.1:{postgres.port}") as proxy:
        database = Database(postgres.createdb().replace(f":{postgres.port}/", f":{proxy.port}/"), postgres=HASTY)
        if fault is Fault.LOST_RESPONSE:
            await prepare(database)
            await reserve(pending(1, timedelta(hours=1)), database, free_limit=5)
        proxy.fault = fault
        with pytest.raises(error):
            await record(_decision(), pending(1, timedelta(hours=1)), LocalStore(tmp_path), database, life=None)
        await database.aclose()


async def test_concurrent_claims_fill_the_quota_exactly(postgres: Postgres) -> None:
    database = Database(postgres.createdb())
    await prepare(database)
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(update(contexts).values(storage_quota_mb=1))
    third_of_quota = [replace(pending(number, timedelta(hours=1)), size_bytes=340_000) for number in range(12)]
    reservations = [reserve(file, database, free_limit=5) for file in third_of_quota]
    claims = await asyncio.gather(*reservations, return_exceptions=True)
    async with database.reading(ALL_TENANTS) as connection:
        used = (await connection.execute(select(contexts.c.storage_used_bytes))).scalar_one()
        rows = (await connection.execute(select(func.count()).select_from(files))).scalar_one()
    await database.aclose()
    assert (claims.count(None), sum(isinstance(claim, ClaimLost) for claim in claims)) == (3, 9)
    assert (used, rows) == (3 * 340_000, 3)
