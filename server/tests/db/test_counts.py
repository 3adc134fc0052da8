"""Totals of lists on both databases: exact at every moment, before and after deltas are folded."""

import asyncio
import random
from itertools import product

import pytest
from sqlalchemy import delete, func, select, text, update

from sluice.db import counts
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import count_deltas, files, row_counts
from tests.db.rows import add_file, add_tenant, change


@pytest.fixture
async def tables(tables: Database) -> Database:
    await add_tenant(tables, "ten_1", "a", "b")
    return tables


async def total(
    database: Database, first: str | None = None, second: str | None = None, tenant_id: str = "ten_1"
) -> int:
    async with database.reading(ALL_TENANTS) as connection:
        return await counts.total(connection, tenant_id, "files", first, second)


async def totals(database: Database, *filters: tuple[str | None, str | None]) -> list[int]:
    return [await total(database, *each) for each in filters]


async def fold(database: Database, limit: int = 1000) -> int:
    async with database.transaction(ALL_TENANTS) as connection:
        return await counts.fold(connection, limit)


async def rows_in(database: Database, table: str) -> int:
    async with database.reading(ALL_TENANTS) as connection:
        return int((await connection.execute(text(f"SELECT count(*) FROM {table}"))).scalar_one())


async def test_only_a_stored_file_is_counted(tables: Database) -> None:
    await add_file(tables, "ten_1", "f1", state="pending")
    await add_file(tables, "ten_1", "f2")
    found = [await total(tables)]
    for state in ("stored", "deleted"):
        await change(tables, "f1", state=state)
        found.append(await total(tables))
    async with tables.transaction(ALL_TENANTS) as connection:
        await connection.execute(delete(files))
    assert [*found, await total(tables)] == [1, 2, 1, 0]


async def test_a_rolled_back_change_is_not_counted(tables: Database) -> None:
    await add_file(tables, "ten_1", "f1")
    async with tables.transaction(ALL_TENANTS) as connection:
        await connection.execute(delete(files))
        await connection.rollback()
        if tables.is_sqlite:
            await connection.execute(text("BEGIN"))  # the block ends with a commit
    assert await total(tables) == 1


async def test_every_filter_and_tenant_has_its_own_total(tables: Database) -> None:
    for number, (context, by) in enumerate([("a", "u"), ("a", "v"), ("b", "u"), ("a", "u")]):
        await add_file(tables, "ten_1", f"f{number}", context=context, by=by)
    await add_tenant(tables, "ten_2", "a")
    await add_file(tables, "ten_2", "other")
    for _ in range(2):
        assert await totals(tables, (None, None), ("a", None), (None, "u"), ("a", "u")) == [4, 3, 3, 2]
        assert await totals(tables, ("c", None), ("a", "w"), ("", None)) == [0, 0, 0]
        assert await total(tables, tenant_id="ten_2") == 1
        await fold(tables)


async def test_folding_takes_at_most_the_given_number_of_deltas_and_keeps_no_sum_of_zero(tables: Database) -> None:
    await fold(tables)
    kept = await rows_in(tables, "row_counts")
    for number in range(5):
        await add_file(tables, "ten_1", f"f{number}")
    assert [await fold(tables, 3), await fold(tables, 3), await fold(tables, 3)] == [3, 2, 0]
    assert await rows_in(tables, "count_deltas") == 0
    assert await total(tables) == 5
    assert await rows_in(tables, "row_counts") == kept + 4
    for number in range(5):
        await change(tables, f"f{number}", state="deleted")
    await fold(tables)
    assert await rows_in(tables, "row_counts") == kept


async def test_several_workers_fold_each_delta_once(tables: Database) -> None:
    for number in range(60):
        await add_file(tables, "ten_1", f"f{number:02}", context="ab"[number % 2], by=f"u{number % 3}")
    deltas = await rows_in(tables, "count_deltas")
    assert sum(await asyncio.gather(*(fold(tables, 20) for _ in range(8)))) == deltas
    assert await totals(tables, (None, None), ("a", None), ("a", "u0")) == [60, 30, 10]


async def test_totals_equal_a_count_of_the_rows_after_random_changes(tables: Database) -> None:
    rng, file_ids = random.Random(5), [f"f{number}" for number in range(12)]
    for file_id in file_ids:
        await add_file(tables, "ten_1", file_id, context=rng.choice("ab"), by=rng.choice("uv"), state="pending")
    for _ in range(15):
        await change(tables, rng.choice(file_ids), state=rng.choice(["pending", "stored", "deleted", "gone"]))
        if rng.random() < 0.3:
            await fold(tables, rng.randint(1, 5))
        for first, second in product((None, "a", "b"), (None, "u", "v")):
            assert await total(tables, first, second) == await _count_rows(tables, first, second)


async def _count_rows(database: Database, first: str | None, second: str | None) -> int:
    query = select(func.count()).select_from(files).where(files.c.state == "stored")
    query = query if first is None else query.where(files.c.context_key == first)
    query = query if second is None else query.where(files.c.uploaded_by == second)
    async with database.reading(ALL_TENANTS) as connection:
        return (await connection.execute(query)).scalar_one()


async def test_contexts_are_counted_by_their_status(tables: Database) -> None:
    async with tables.transaction(ALL_TENANTS) as connection:
        await connection.execute(text("UPDATE contexts SET status = 'inactive' WHERE context_key = 'a'"))
    for _ in range(2):
        statuses = (None, "active", "inactive")
        async with tables.reading(ALL_TENANTS) as connection:
            found = [await counts.total(connection, "ten_1", "contexts", status) for status in statuses]
        assert found == [2, 1, 1]
        await fold(tables)


async def _bucket_totals(database: Database) -> list[int]:
    async with database.reading(ALL_TENANTS) as connection:
        return [await counts.total(connection, "ten_1", "bucket_files", bucket) for bucket in (None, "b1", "b2")]


async def test_bucket_totals_equal_its_stored_files_after_random_changes(tables: Database) -> None:
    rng = random.Random(8)
    file_ids = {f"f{number}": bucket for number, bucket in enumerate(["b1", "b2", None] * 3)}
    states = dict.fromkeys(file_ids, "pending")
    for file_id, bucket in file_ids.items():
        await add_file(tables, "ten_1", file_id, state="pending", storage_config_id=bucket)
    for _ in range(40):
        file_id = rng.choice(sorted(file_ids))
        if rng.random() < 0.5:
            states[file_id] = rng.choice(["pending", "stored", "stored", "deleted"])
            await change(tables, file_id, state=states[file_id])
        else:
            file_ids[file_id] = rng.choice(["b1", "b2", None])
            await change(tables, file_id, storage_config_id=file_ids[file_id])
        if rng.random() < 0.3:
            await fold(tables, rng.randint(1, 5))
        there = [bucket for name, bucket in file_ids.items() if bucket is not None and states[name] == "stored"]
        assert await _bucket_totals(tables) == [len(there), there.count("b1"), there.count("b2")]
    async with tables.transaction(ALL_TENANTS) as connection:
        await connection.execute(delete(files))
    assert await _bucket_totals(tables) == [0, 0, 0]


async def test_wrong_counts_are_found_and_recounted(tables: Database) -> None:
    for number in range(3):
        await add_file(tables, "ten_1", f"f{number}")
    await fold(tables, 4)
    async with tables.transaction(ALL_TENANTS) as connection:
        await connection.execute(update(row_counts).where(row_counts.c.list == "files").values(rows=7))
        await connection.execute(delete(count_deltas))
    async with tables.transaction(ALL_TENANTS) as connection:
        assert (await counts.find_wrong(connection, "ten_1", "files"))["a", "u"] == (7, 3)
    async with tables.transaction(ALL_TENANTS) as connection:
        await counts.recount(connection, "ten_1", "files")
    async with tables.transaction(ALL_TENANTS) as connection:
        assert await counts.find_wrong(connection, "ten_1", "files") == {}
    assert await total(tables) == 3
