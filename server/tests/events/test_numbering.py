"""The order of events: a reader that pulls meets every event once, however transactions overlap."""

import asyncio
import random
from collections import Counter
from datetime import timedelta

import pytest

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.errors import Invalid
from sluice.events import outbox, repository
from sluice.events.catalogue import Event, FileDeleted, FilePurged
from sluice.events.service import EventFeed, number_all
from tests.db.rows import add_tenant
from tests.run_length import amount

EVENTS = amount("EVENTS", short=600, full=100_000)
WRITERS = 6
_FILE = {"context_key": "claims", "original_filename": "a.pdf", "size_bytes": 3}


def deleted(number: object) -> Event:
    return FileDeleted(file_id=f"file_{number}", **_FILE)


async def write(database: Database, *events: Event, tenant_id: str = "ten_1") -> None:
    async with database.transaction(tenant_id) as connection:
        await outbox.add_all(connection, [(tenant_id, event) for event in events])


@pytest.mark.timeout(60 + EVENTS // 50)
async def test_a_reader_meets_every_event_once_and_in_order_while_transactions_overlap(tables: Database) -> None:

    await add_tenant(tables, "ten_2")
    written: Counter[str] = Counter()

    async def writer(name: int) -> None:
        rng = random.Random(name)
        number = 0
        while number < EVENTS // WRITERS:
            size = min(rng.randint(1, 8), EVENTS // WRITERS - number)
            ids = [f"{name}-{number + place}" for place in range(size)]
            async with tables.transaction("ten_1") as connection:
                for one in ids:  # ids and moments of overlapping transactions interleave
                    await outbox.add(connection, "ten_1", deleted(one))
                    await asyncio.sleep(0)
                if rng.random() < 0.2:
                    await asyncio.sleep(rng.random() / 100)
            written.update(f"file_{one}" for one in ids)
            number += size

    async def worker() -> None:
        while writing:
            await number_all(tables)
            await asyncio.sleep(0.01)

    feed, position, read = EventFeed(tables), 0, list[str]()
    writing = [asyncio.create_task(writer(name)) for name in range(WRITERS)]
    working = asyncio.create_task(worker())
    while True:
        over = all(task.done() for task in writing)
        found = await feed.read("ten_1", position, (), 100)
        assert [event.sequence for event in found] == list(range(position + 1, position + 1 + len(found)))
        read += [event.data["file_id"] for event in found]
        position += len(found)
        if over and not found:
            break
    writing.clear()
    await working
    assert Counter(read) == written
    assert len(read) == EVENTS // WRITERS * WRITERS


async def test_an_event_of_an_open_or_undone_transaction_is_read_by_nobody(tables: Database) -> None:

    feed = EventFeed(tables)

    async def undo() -> None:
        async with tables.transaction("ten_1") as connection:
            await outbox.add(connection, "ten_1", deleted(1))
            raise RuntimeError("undone")

    with pytest.raises(RuntimeError, match="undone"):
        await undo()
    assert await feed.read("ten_1", 0, (), 10) == []
    if not tables.is_sqlite:  # which has one writer
        async with tables.transaction("ten_1") as connection:
            await outbox.add(connection, "ten_1", deleted(2))
            await write(tables, deleted(3))
            (event,) = await feed.read("ten_1", 0, (), 10)
            assert (event.sequence, event.data["file_id"]) == (1, "file_3")
        (event,) = await feed.read("ten_1", 1, (), 10)
        assert (event.sequence, event.data["file_id"]) == (2, "file_2")


async def test_tenants_count_apart_and_read_their_own(tables: Database) -> None:
    await add_tenant(tables, "ten_2")
    for tenant_id in ("ten_1", "ten_2"):
        await write(tables, deleted(tenant_id), tenant_id=tenant_id)
    assert [await number_all(tables) for _ in range(2)] == [2, 0]
    feed = EventFeed(tables)
    for tenant_id, other in (("ten_1", "ten_2"), ("ten_2", "ten_1")):
        (event,) = await feed.read(tenant_id, 0, (), 10)
        assert (event.sequence, event.tenant_id, event.data["file_id"]) == (1, tenant_id, f"file_{tenant_id}")
        with pytest.raises(Invalid, match="after"):
            await feed.position_of(other, event.event_id)


async def test_types_are_filtered_and_positions_are_found(tables: Database) -> None:

    await write(tables, deleted(1), FilePurged(file_id="file_1", **_FILE), deleted(2))
    feed = EventFeed(tables)
    assert [event.type for event in await feed.read("ten_1", 0, {"file.purged"}, 10)] == ["file.purged"]
    first, _purged, last = await feed.read("ten_1", 0, (), 10)
    assert await feed.position_of("ten_1", first.event_id) == 1
    assert await feed.last_position("ten_1") == last.sequence == 3


async def test_old_events_are_deleted_and_numbers_go_on(tables: Database) -> None:

    await write(tables, deleted(1), deleted(2))
    feed = EventFeed(tables)
    last = (await feed.read("ten_1", 0, (), 10))[-1]
    async with tables.transaction(ALL_TENANTS) as connection:
        assert await repository.delete_old(connection, last.created_at - timedelta(days=1), 10) == 0
        assert await repository.delete_old(connection, last.created_at + timedelta(days=1), 10) == 2
    await write(tables, deleted(3))
    assert [event.sequence for event in await feed.read("ten_1", 0, (), 10)] == [3]
