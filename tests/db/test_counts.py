"""Totals of lists on real databases: exact at every moment, whoever changed the rows, and before as well as after they were folded."""

import asyncio
import random

import pytest
from sqlalchemy import delete, func, select, text, update

from sluice.db import counts
from sluice.db.database import Database
from sluice.db.migrate import upgrade
from sluice.db.schema import count_deltas, files, row_counts
from sluice.db.whose import EVERYBODY
from tests.db.rows import add_file, add_tenant, move, set_state


@pytest.fixture
async def tables(tables: Database) -> Database:
    await add_tenant(tables, "ten_1", "a", "b")
    return tables


async def total(database: Database, first: str | None = None, second: str | None = None, tenant_id: str = "ten_1") -> int:
    async with database.reading(EVERYBODY) as connection:
        return await counts.total(connection, tenant_id, "files", first, second)


async def fold(database: Database, most: int = 1000) -> int:
    async with database.transaction(EVERYBODY) as connection:
        return await counts.fold(connection, most)


async def rows_in(database: Database, table: str) -> int:
    async with database.reading(EVERYBODY) as connection:
        return int((await connection.execute(text(f"SELECT count(*) FROM {table}"))).scalar_one())


async def test_a_file_counts_while_it_is_stored_and_no_longer(tables: Database) -> None:
    await add_file(tables, "ten_1", "f1", state="pending")
    found = [await total(tables)]
    for state in ("stored", "deleted"):
        await set_state(tables, "f1", state)
        found.append(await total(tables))
    async with tables.transaction(EVERYBODY) as connection:
        await connection.execute(delete(files))
    assert [*found, await total(tables)] == [0, 1, 0, 0]


async def test_a_stored_file_whose_row_is_removed_counts_no_longer(tables: Database) -> None:
    await add_file(tables, "ten_1", "f1")
    async with tables.transaction(EVERYBODY) as connection:
        await connection.execute(delete(files))
    assert await total(tables) == 0


async def test_a_change_that_was_rolled_back_is_not_counted(tables: Database) -> None:
    await add_file(tables, "ten_1", "f1")
    async with tables.transaction(EVERYBODY) as connection:
        await connection.execute(delete(files))
        await connection.rollback()
        if tables.is_sqlite:
            await connection.execute(text("BEGIN"))  # the block ends with a commit
    assert await total(tables) == 1


async def test_every_filter_has_its_own_total(tables: Database) -> None:
    for number, (context, by) in enumerate([("a", "u"), ("a", "v"), ("b", "u"), ("a", "u")]):
        await add_file(tables, "ten_1", f"f{number}", context=context, by=by)
    for _ in range(2):
        assert [await total(tables), await total(tables, "a"), await total(tables, None, "u"), await total(tables, "a", "u")] == [
            4,
            3,
            3,
            2,
        ]
        assert [await total(tables, "c"), await total(tables, "a", "w"), await total(tables, "")] == [0, 0, 0]
        await fold(tables)


async def test_totals_are_those_of_one_tenant(tables: Database) -> None:
    await add_tenant(tables, "ten_2", "a")
    await add_file(tables, "ten_2", "f1")
    assert (await total(tables), await total(tables, tenant_id="ten_2")) == (0, 1)
    await fold(tables)
    assert (await total(tables), await total(tables, tenant_id="ten_2")) == (0, 1)


async def test_folding_takes_the_oldest_and_no_more_than_it_is_told(tables: Database) -> None:
    await fold(tables)
    for number in range(5):
        await add_file(tables, "ten_1", f"f{number}")
    assert [await fold(tables, 3), await fold(tables, 3), await fold(tables, 3)] == [3, 2, 0]
    assert await rows_in(tables, "count_deltas") == 0
    assert await total(tables) == 5


async def test_sums_of_nothing_are_not_kept(tables: Database) -> None:
    await fold(tables)
    kept = await rows_in(tables, "row_counts")
    await add_file(tables, "ten_1", "f1")
    await fold(tables)
    assert await rows_in(tables, "row_counts") == kept + 4
    await set_state(tables, "f1", "deleted")
    await fold(tables)
    assert await rows_in(tables, "row_counts") == kept


async def test_several_workers_fold_each_delta_once(tables: Database) -> None:
    for number in range(60):
        await add_file(tables, "ten_1", f"f{number:02}", context="ab"[number % 2], by=f"u{number % 3}")
    deltas = await rows_in(tables, "count_deltas")
    assert sum(await asyncio.gather(*(fold(tables, 20) for _ in range(8)))) == deltas
    assert (await total(tables), await total(tables, "a"), await total(tables, "a", "u0")) == (60, 30, 10)


async def test_whatever_happens_totals_are_what_counting_would_say(tables: Database) -> None:
    chance, alive = random.Random(5), [f"f{number}" for number in range(12)]
    for file_id in alive:
        await add_file(tables, "ten_1", file_id, context=chance.choice("ab"), by=chance.choice("uv"), state="pending")
    for _ in range(15):
        await set_state(tables, chance.choice(alive), chance.choice(["pending", "stored", "deleted", "gone"]))
        if chance.random() < 0.3:
            await fold(tables, chance.randint(1, 5))
        for first in (None, "a", "b"):
            for second in (None, "u", "v"):
                assert await total(tables, first, second) == await _counted(tables, first, second)


async def _counted(database: Database, first: str | None, second: str | None) -> int:
    query = select(func.count()).select_from(files).where(files.c.state == "stored")
    query = query if first is None else query.where(files.c.context_key == first)
    query = query if second is None else query.where(files.c.uploaded_by == second)
    async with database.reading(EVERYBODY) as connection:
        return (await connection.execute(query)).scalar_one()


async def test_contexts_are_counted_by_their_status(tables: Database) -> None:
    async with tables.transaction(EVERYBODY) as connection:
        await connection.execute(text("UPDATE contexts SET status = 'inactive' WHERE context_key = 'a'"))
    for _ in range(2):
        async with tables.reading(EVERYBODY) as connection:
            found = [await counts.total(connection, "ten_1", "contexts", status) for status in (None, "active", "inactive")]
        assert found == [2, 1, 1]
        await fold(tables)


async def _in_buckets(database: Database) -> list[int]:
    async with database.reading(EVERYBODY) as connection:
        return [await counts.total(connection, "ten_1", "bucket_files", bucket) for bucket in (None, "b1", "b2")]


async def test_whatever_happens_a_bucket_counts_the_stored_files_in_it(tables: Database) -> None:
    chance = random.Random(8)
    alive = {f"f{number}": bucket for number, bucket in enumerate(["b1", "b2", None] * 3)}
    states = dict.fromkeys(alive, "pending")
    for file_id, bucket in alive.items():
        await add_file(tables, "ten_1", file_id, state="pending", bucket=bucket)
    for _ in range(40):
        file_id = chance.choice(sorted(alive))
        if chance.random() < 0.5:
            states[file_id] = chance.choice(["pending", "stored", "stored", "deleted"])
            await set_state(tables, file_id, states[file_id])
        else:
            alive[file_id] = chance.choice(["b1", "b2", None])
            await move(tables, file_id, alive[file_id])
        if chance.random() < 0.3:
            await fold(tables, chance.randint(1, 5))
        there = [bucket for name, bucket in alive.items() if bucket is not None and states[name] == "stored"]
        assert await _in_buckets(tables) == [len(there), there.count("b1"), there.count("b2")]
    async with tables.transaction(EVERYBODY) as connection:
        await connection.execute(delete(files))
    assert await _in_buckets(tables) == [0, 0, 0]


async def test_files_from_before_the_counts_of_buckets_are_counted_by_the_migration(database: Database) -> None:
    await upgrade(database, to="0007")
    await add_tenant(database, "ten_1", "a")
    for number, bucket in enumerate(["b1", None, "b1", "b2"]):
        await add_file(database, "ten_1", f"f{number}", bucket=bucket)
    await add_file(database, "ten_1", "gone", bucket="b2", state="gone")
    await upgrade(database)
    assert await _in_buckets(database) == [3, 2, 1]
    async with database.reading(EVERYBODY) as connection:
        assert await counts.wrong(connection, "ten_1", "bucket_files") == {}


async def test_rows_from_before_the_counts_are_counted_by_the_migration(database: Database) -> None:
    await upgrade(database, to="0005")
    await add_tenant(database, "ten_1", "a", "b")
    for number, (context, by, state) in enumerate(
        [("a", "u", "stored"), ("a", "v", "stored"), ("b", "u", "stored"), ("b", "u", "gone")]
    ):
        await add_file(database, "ten_1", f"f{number}", context=context, by=by, state=state)
    await upgrade(database)
    assert await rows_in(database, "count_deltas") == 0
    assert [
        await total(database),
        await total(database, "a"),
        await total(database, None, "u"),
        await total(database, "b", "u"),
    ] == [3, 2, 2, 1]
    async with database.transaction(EVERYBODY) as connection:
        for name in counts.LISTS:
            assert await counts.wrong(connection, "ten_1", name) == {}


async def test_wrong_counts_are_found_and_counted_anew(tables: Database) -> None:
    for number in range(3):
        await add_file(tables, "ten_1", f"f{number}")
    await fold(tables, 4)
    async with tables.transaction(EVERYBODY) as connection:
        await connection.execute(update(row_counts).where(row_counts.c.list == "files").values(rows=7))
        await connection.execute(delete(count_deltas))
    async with tables.transaction(EVERYBODY) as connection:
        assert (await counts.wrong(connection, "ten_1", "files"))["a", "u"] == (7, 3)
    async with tables.transaction(EVERYBODY) as connection:
        await counts.recount(connection, "ten_1", "files")
    async with tables.transaction(EVERYBODY) as connection:
        assert await counts.wrong(connection, "ten_1", "files") == {}
    assert await total(tables) == 3
