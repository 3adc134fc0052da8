"""Group commit on PostgreSQL: statements that share a transaction get the results they would get alone."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from sqlalchemy import text, update

from sluice.db import group_commit
from sluice.db.database import Conflict, Database, DatabaseUnavailable
from sluice.db.group_commit import GroupCommit
from sluice.db.postgres import PostgresOptions
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import tenants
from sluice.db.statement import BatchDriver, BatchStatement, Row, Statement, Values
from tests.db.migrated import Migrated
from tests.servers.faults import Fault, fault_proxy
from tests.servers.postgres import Postgres

_NOW = datetime(2026, 1, 2, tzinfo=UTC)
_ADD = (
    "INSERT INTO tenants (tenant_id, name, plan, status, created_at) "
    "SELECT {id}, :name::varchar, :plan::varchar, :status::varchar, :created_at::timestamptz {source} "
    "RETURNING tenant_id AS id"
)
_CLOSE = "UPDATE tenants SET status = 'closed' {source} WHERE tenant_id = {id} RETURNING tenant_id AS id"
_GIVEN = "FROM unnest(:id::varchar[]) AS given (id)"


def _statement(sql: str) -> Statement:
    batch = BatchStatement(sql.format(id="given.id", source=_GIVEN), each=["id"], key="id")
    return Statement(postgres=sql.format(id=":id::varchar", source=""), sqlite=[], batch=batch, needs_tenant=False)


ADD = _statement(_ADD)
CLOSE = _statement(_CLOSE)


def _tenant(number: int, plan: str = "free") -> dict[str, Any]:
    return {"id": f"ten_{number}", "name": "one", "plan": plan, "status": "active", "created_at": _NOW}


@pytest.fixture
async def database(postgres: Postgres, migrated: Migrated) -> AsyncIterator[Database]:
    database = Database(migrated.postgres(postgres))
    yield database
    await database.aclose()


async def _add_all(database: Database, tenants: list[dict[str, Any]]) -> list[Any]:
    return await asyncio.gather(*(database.commit(ADD, values) for values in tenants), return_exceptions=True)


async def _query(database: Database, sql: str) -> list[Any]:
    async with database.transaction(ALL_TENANTS) as connection:
        return [tuple(row) for row in await connection.execute(text(sql))]


async def test_statements_that_arrive_together_or_during_a_commit_share_a_transaction(database: Database) -> None:
    assert await _add_all(database, [_tenant(n) for n in range(20)]) == [{"id": f"ten_{n}"} for n in range(20)]
    assert await _query(database, "SELECT count(*), count(DISTINCT xmin::text) FROM tenants") == [(20, 1)]
    first = asyncio.create_task(database.commit(ADD, _tenant(20)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # it is sent
    await _add_all(database, [_tenant(n) for n in range(21, 40)])
    await first
    assert await _query(database, "SELECT count(*), count(DISTINCT xmin::text) FROM tenants") == [(40, 3)]


async def test_statements_with_different_shared_values_are_not_batched(database: Database) -> None:
    await _add_all(database, [_tenant(n, plan="free" if n % 2 else "unlimited") for n in range(20)])
    plans = await _query(database, "SELECT plan, count(*) FROM tenants GROUP BY plan ORDER BY plan")
    assert plans == [("free", 10), ("unlimited", 10)]


async def test_a_statement_that_is_refused_fails_alone(database: Database) -> None:
    results = await _add_all(database, [_tenant(n) for n in (0, 1, 2, 1, 3)])
    refused = [number for number, result in enumerate(results) if isinstance(result, Conflict)]
    assert refused in ([1], [3])  # either comes first: the two may be in batches on two connections
    assert await _query(database, "SELECT count(*) FROM tenants") == [(4,)]
    not_storable = _tenant(9) | {"id": "ten_\0"}
    results = await _add_all(database, [_tenant(4), _tenant(5), not_storable, _tenant(6)])
    assert [isinstance(result, Exception) for result in results] == [False, False, True, False]


async def test_a_statement_that_changed_no_row_returns_none_among_others(database: Database) -> None:
    await _add_all(database, [_tenant(n) for n in range(3)])
    results = await asyncio.gather(*(database.commit(CLOSE, {"id": f"ten_{n}"}) for n in (0, 7, 1, 2)))
    assert results == [{"id": "ten_0"}, None, {"id": "ten_1"}, {"id": "ten_2"}]


async def test_a_cancelled_statement_is_left_out_of_the_batch_and_stops_no_other(database: Database) -> None:
    commits = [asyncio.create_task(database.commit(ADD, _tenant(n))) for n in range(4)]
    await asyncio.sleep(0)
    commits[2].cancel()
    await asyncio.wait(commits)
    left = await _query(database, "SELECT tenant_id FROM tenants ORDER BY tenant_id")
    assert left == [("ten_0",), ("ten_1",), ("ten_3",)]
    commits = [asyncio.create_task(database.commit(ADD, _tenant(n))) for n in range(4, 8)]
    await asyncio.sleep(0)
    commits[0].cancel()
    assert await asyncio.gather(*commits[1:]) == [{"id": f"ten_{n}"} for n in (5, 6, 7)]


async def test_a_statement_that_waits_for_a_lock_does_not_delay_others(database: Database) -> None:
    await _add_all(database, [_tenant(n) for n in range(3)])
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(update(tenants).where(tenants.c.tenant_id == "ten_0").values(name="held"))
        held = asyncio.create_task(database.commit(CLOSE, {"id": "ten_0"}))
        await asyncio.sleep(0)
        others = await asyncio.gather(*(database.commit(CLOSE, {"id": f"ten_{n}"}) for n in (1, 2)))
        assert not held.done()
    assert [*others, await held] == [{"id": "ten_1"}, {"id": "ten_2"}, {"id": "ten_0"}]


async def test_every_statement_with_a_lost_reply_is_unavailable(postgres: Postgres, migrated: Migrated) -> None:
    async with fault_proxy(f"http://127.0.0.1:{postgres.port}") as proxy:
        url = migrated.postgres(postgres).replace(f":{postgres.port}/", f":{proxy.port}/")
        options = PostgresOptions(pool_size=2, wait_seconds=4, connect_seconds=4, statement_seconds=2)
        database = Database(url, postgres=options)
        await asyncio.gather(*(database.commit(ADD, _tenant(n, plan=str(n))) for n in range(2)))
        proxy.fault = Fault.LOST_RESPONSE
        results = await _add_all(database, [_tenant(n) for n in range(2, 6)])
        assert [type(result) for result in results] == [DatabaseUnavailable] * 4
        await database.aclose()


class _StalledDriver:
    """A driver whose batches end on demand, and that remembers what was sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.end = asyncio.Event()

    async def fetch(self, statement: Statement, values: Values, *, writes: bool) -> Row | None:
        assert writes
        self.sent.append(f"{'add' if statement is ADD else 'close'} {values['id']}")
        await asyncio.sleep(0)
        return {"id": values["id"]}

    async def fetch_batch(self, batch: BatchStatement, units: Sequence[Values], *, tenant_id: str | None) -> list[Row]:
        assert tenant_id is None
        self.sent.append(f"{'add' if batch is ADD.batch else 'close'} {len(units)}")
        await self.end.wait()
        return [{"id": unit["id"]} for unit in units]


async def _start(commits: GroupCommit, statement: Statement, count: int) -> list[asyncio.Task[Row | None]]:
    made = [asyncio.create_task(commits.commit(statement, _tenant(n))) for n in range(count)]
    for _ in range(8):
        await asyncio.sleep(0)
    return made


@pytest.fixture
def driver() -> _StalledDriver:
    return _StalledDriver()


@pytest.fixture
def commits(driver: _StalledDriver) -> GroupCommit:
    return GroupCommit(cast("BatchDriver", driver))


async def test_a_statement_waits_for_the_batch_of_another_kind(
    driver: _StalledDriver, commits: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "_MAX_HOLD_SECONDS", 60)
    tasks = await _start(commits, ADD, 3) + await _start(commits, CLOSE, 2)
    assert driver.sent == ["add 3"]
    driver.end.set()
    await asyncio.gather(*tasks)
    assert driver.sent == ["add 3", "close 2"]


async def test_a_statement_waits_briefly_for_a_batch_that_does_not_end(
    driver: _StalledDriver, commits: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "_MAX_HOLD_SECONDS", 0.001)
    tasks = await _start(commits, ADD, 3)
    assert await commits.commit(CLOSE, {"id": "ten_9"}) == {"id": "ten_9"}
    assert not tasks[1].done()
    driver.end.set()
    await asyncio.gather(*tasks)


async def test_a_statement_is_sent_beside_one_of_another_kind(driver: _StalledDriver, commits: GroupCommit) -> None:
    await asyncio.gather(commits.commit(ADD, _tenant(0)), commits.commit(CLOSE, _tenant(1)))
    assert driver.sent == ["add ten_0", "close ten_1"]
