"""Reservations and records while the database fails, and concurrent claims on a quota.

`OutcomeUnknown` is raised only if the file may have been recorded.
"""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

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
    return Decision(
        report_id="rep_1",
        tenant_id="ten_1",
        file_id="file_1",
        context_key="papers",
        rules=Rules(1, (), 1, reject_blank=False, reject_corrupt=False, scan=False, rate=None, quota_bytes=None),
        facts=Facts("a.txt", "txt", 3, "0" * 64),
        outcome="accepted",
        rejection=None,
        failures=(),
        detail="",
        actor=Principal("ten_1", "user", "user", frozenset({Scope.UPLOAD}), "jwt"),
        created_at=LONG_AGO,
        duration_ms=1,
        all_checks=False,
    )


async def _record(database: Database, folder: Path) -> None:
    await record(_decision(), pending(1, timedelta(hours=1)), LocalStore(folder), database, life=None)


async def test_record_raises_not_reached_when_no_statement_was_sent(postgres: Postgres, tmp_path: Path) -> None:
    async with fault_proxy(f"http://127.0.0.1:{postgres.port}") as proxy:
        database = Database(postgres.createdb().replace(f":{postgres.port}/", f":{proxy.port}/"), postgres=HASTY)
        proxy.fault = Fault.BLACK_HOLE
        with pytest.raises(DatabaseNotReached):
            await _record(database, tmp_path)
        await database.aclose()


async def test_record_raises_outcome_unknown_when_the_answer_is_lost(postgres: Postgres, tmp_path: Path) -> None:
    async with fault_proxy(f"http://127.0.0.1:{postgres.port}") as proxy:
        database = Database(postgres.createdb().replace(f":{postgres.port}/", f":{proxy.port}/"), postgres=HASTY)
        await prepare(database)
        await reserve(pending(1, timedelta(hours=1)), database, free_limit=5)
        proxy.fault = Fault.LOST_ANSWER
        with pytest.raises(OutcomeUnknown):
            await _record(database, tmp_path)
        await database.aclose()


async def test_concurrent_claims_fill_the_quota_exactly(postgres: Postgres) -> None:
    database = Database(postgres.createdb())
    await prepare(database)
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(update(contexts).values(storage_quota_mb=1))
    third_of_quota = [replace(pending(number, timedelta(hours=1)), size_bytes=340_000) for number in range(12)]
    claims = await asyncio.gather(
        *(reserve(file, database, free_limit=5) for file in third_of_quota), return_exceptions=True
    )
    async with database.reading(ALL_TENANTS) as connection:
        used = (await connection.execute(select(contexts.c.storage_used_bytes))).scalar_one()
        rows = (await connection.execute(select(func.count()).select_from(files))).scalar_one()
    await database.aclose()
    assert (claims.count(None), sum(isinstance(claim, ClaimLost) for claim in claims), used, rows) == (
        3,
        9,
        3 * 340_000,
        3,
    )
