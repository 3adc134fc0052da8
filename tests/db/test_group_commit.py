"""Units that share a statement on PostgreSQL: each is answered as if it had been alone, whatever becomes of the others."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import String, bindparam, column, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import ARRAY

from sluice.db.database import Conflict, Database, DatabaseAway
from sluice.db.hot import Hot, Together
from sluice.db.postgres import PostgresTerms
from sluice.db.schema import tenants
from sluice.db.whose import EVERYBODY
from tests.db.migrated import Migrated
from tests.servers.faults import Fault, fault_proxy
from tests.servers.postgres import Postgres

_NOW = datetime(2026, 1, 2, tzinfo=UTC)
_NAMES = ("tenant_id", "name", "plan", "status", "created_at")
_ID = tenants.c.tenant_id.type
_given = func.unnest(bindparam("id", type_=ARRAY(String()))).table_valued(column("id", String())).render_derived(name="given")
_rest = [bindparam(name, type_=tenants.c[name].type) for name in _NAMES[1:]]


def _add(row: Any) -> Any:
    return insert(tenants).from_select(list(_NAMES), row).returning(tenants.c.tenant_id.label("id"))


def _close(tenant_id: Any) -> Any:
    return (
        update(tenants).where(tenants.c.tenant_id == tenant_id).values(status="closed").returning(tenants.c.tenant_id.label("id"))
    )


_one = bindparam("id", type_=_ID)
ADD = Hot(
    postgres=_add(select(_one, *_rest)),
    sqlite=[],
    nobody=True,
    together=Together(_add(select(_given.c.id, *_rest)), {"id": _ID}, "id"),
)
CLOSE = Hot(postgres=_close(_one), sqlite=[], nobody=True, together=Together(_close(_given.c.id), {"id": _ID}, "id"))


def _tenant(number: int, plan: str = "free") -> dict[str, Any]:
    return {"id": f"ten_{number}", "name": "one", "plan": plan, "status": "active", "created_at": _NOW}


@pytest.fixture
async def database(postgres: Postgres, migrated: Migrated) -> AsyncIterator[Database]:
    database = Database(migrated.postgres(postgres))
    yield database
    await database.aclose()


async def _add_all(database: Database, tenants: list[dict[str, Any]]) -> list[Any]:
    return await asyncio.gather(*(database.commit(ADD, values) for values in tenants), return_exceptions=True)


async def _asked(database: Database, question: str) -> list[Any]:
    async with database.transaction(EVERYBODY) as connection:
        return [tuple(row) for row in await connection.execute(text(question))]


async def test_units_that_come_while_one_is_under_way_are_one_transaction(database: Database) -> None:
    assert await _add_all(database, [_tenant(n) for n in range(20)]) == [{"id": f"ten_{n}"} for n in range(20)]
    assert await _asked(database, "SELECT count(*), count(DISTINCT xmin::text) FROM tenants") == [(20, 2)]


async def test_units_that_do_not_agree_are_never_one_statement(database: Database) -> None:
    await _add_all(database, [_tenant(n, plan="free" if n % 2 else "unlimited") for n in range(20)])
    assert await _asked(database, "SELECT plan, count(*) FROM tenants GROUP BY plan ORDER BY plan") == [
        ("free", 10),
        ("unlimited", 10),
    ]


async def test_who_breaks_a_constraint_breaks_it_for_nobody_else(database: Database) -> None:
    answers = await _add_all(database, [_tenant(n) for n in (0, 1, 2, 1, 3)])
    assert [isinstance(answer, Conflict) for answer in answers] == [False, False, False, True, False]
    assert await _asked(database, "SELECT count(*) FROM tenants") == [(4,)]


async def test_a_value_that_no_text_of_the_database_holds_is_a_fault_of_its_own_unit(database: Database) -> None:
    bad = _tenant(9) | {"id": "ten_\0"}
    answers = await _add_all(database, [_tenant(0), _tenant(1), bad, _tenant(2)])
    assert [isinstance(answer, Exception) for answer in answers] == [False, False, True, False]


async def test_a_unit_that_changed_nothing_is_told_so_among_others(database: Database) -> None:
    await _add_all(database, [_tenant(n) for n in range(3)])
    answers = await asyncio.gather(*(database.commit(CLOSE, {"id": f"ten_{n}"}) for n in (0, 7, 1, 2)))
    assert answers == [{"id": "ten_0"}, None, {"id": "ten_1"}, {"id": "ten_2"}]


async def test_who_leaves_while_waiting_is_left_out_and_others_are_not(database: Database) -> None:
    units = [asyncio.create_task(database.commit(ADD, _tenant(n))) for n in range(4)]
    await asyncio.sleep(0)
    units[2].cancel()
    await asyncio.wait(units)
    assert await _asked(database, "SELECT tenant_id FROM tenants ORDER BY tenant_id") == [("ten_0",), ("ten_1",), ("ten_3",)]


async def test_when_the_first_leaves_those_behind_it_go_on(database: Database) -> None:
    units = [asyncio.create_task(database.commit(ADD, _tenant(n))) for n in range(4)]
    await asyncio.sleep(0)
    units[0].cancel()
    assert await asyncio.gather(*units[1:]) == [{"id": f"ten_{n}"} for n in (1, 2, 3)]


async def test_a_unit_that_waits_for_a_lock_does_not_hold_others_back(database: Database) -> None:
    await _add_all(database, [_tenant(n) for n in range(3)])
    async with database.transaction(EVERYBODY) as connection:
        await connection.execute(update(tenants).where(tenants.c.tenant_id == "ten_0").values(name="held"))
        held = asyncio.create_task(database.commit(CLOSE, {"id": "ten_0"}))
        await asyncio.sleep(0)
        others = await asyncio.gather(*(database.commit(CLOSE, {"id": f"ten_{n}"}) for n in (1, 2)))
        assert not held.done()
    assert [*others, await held] == [{"id": "ten_1"}, {"id": "ten_2"}, {"id": "ten_0"}]


async def test_everybody_whose_answer_was_lost_is_told_that_the_database_went_away(postgres: Postgres, migrated: Migrated) -> None:
    async with fault_proxy(f"http://127.0.0.1:{postgres.port}") as proxy:
        url = migrated.postgres(postgres).replace(f":{postgres.port}/", f":{proxy.port}/")
        database = Database(url, postgres=PostgresTerms(pool_size=2, wait_seconds=4, connect_seconds=4, statement_seconds=2))
        await asyncio.gather(*(database.commit(ADD, _tenant(n, plan=str(n))) for n in range(2)))
        proxy.fault = Fault.LOST_ANSWER
        answers = await _add_all(database, [_tenant(n) for n in range(2, 6)])
        assert [type(answer) for answer in answers] == [DatabaseAway] * 4
        await database.aclose()
