"""The order, the pace and the end of later scans, on a database and a store of their own. What callers see of them is tested over HTTP."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from sluice.buckets.service import Buckets
from sluice.buckets.stores import Stores
from sluice.db.database import Database
from sluice.db.moments import ahead
from sluice.db.schema import contexts, decisions, files, tenants
from sluice.db.whose import EVERYBODY
from sluice.engines.scanner import Clean, Edition, Glance, Infected, ScanResult, Unavailable
from sluice.engines.storage.local import LocalStore
from sluice.kit.health import EngineHealth, EngineState
from sluice.kit.keyring_file import KeyringFile, load_keyring
from sluice.kit.sealed import Sealed
from sluice.uploads.spool import Spool
from sluice.worker.rescans import Rescans
from tests.db.migrated import Migrated

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
NEW = Edition("clamd 1.4.6", "27501")


NOW = START + timedelta(days=30)
"""What the clock of the worker shows, all the time: who waits, and how long, is told by the database's."""


class Looks:
    """A scanner that notes what it was shown and answers by `say`; its signatures are the new ones."""

    name = "clamd"
    reach: int | None = None
    edition: Edition | None = NEW

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.say: Callable[[str], Awaitable[ScanResult]] = self._clean

    async def scan(
        self,
        sealed: Sealed,
        *,
        tenant_id: str,  # noqa: ARG002  (the protocol's signature)
        glance: Glance | None = None,  # noqa: ARG002  (the same)
    ) -> ScanResult:
        words = os.pread(sealed.fd, sealed.size, 0).decode()
        self.seen.append(words)
        return await self.say(words)

    async def _clean(self, words: str) -> ScanResult:  # noqa: ARG002  (the signature of an answer)
        return Clean(NEW.engine, NEW.signatures, 1.0)

    async def health(self) -> EngineHealth:
        return EngineHealth("scanner", self.name, EngineState.UP)

    async def aclose(self) -> None:
        """Nothing to close."""


class House:
    """A database with one context, a store, and what scans its files again."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self.store = LocalStore(folder / "objects")
        self.scanner = Looks()

    def rescans(self, per_second: float = 1000.0) -> Rescans:
        stores = Stores(self.store, lambda _bucket: self.store)
        load_keyring(self.folder / "keys.json")  # made where there is none
        buckets = Buckets(self.database, stores, KeyringFile(self.folder / "keys.json"), allowed_endpoints=(), probe=False)
        return Rescans(
            self.database,
            buckets,
            stores,
            self.scanner,
            folder=self.folder,
            memory_bytes=1024,
            per_second=per_second,
            pause_seconds=0.01,
            clock=lambda: NOW,
        )

    async def pass_time(self, time: timedelta) -> None:
        """Let what waits have waited for so long: the clock of a database cannot be put forward."""
        async with self.database.transaction(EVERYBODY) as connection:
            waiting = (
                await connection.execute(select(files.c.file_id, files.c.rescan_at).where(files.c.rescan_at.is_not(None)))
            ).all()
            for file_id, at in waiting:
                await connection.execute(update(files).where(files.c.file_id == file_id).values(rescan_at=at - time))

    async def keep(self, words: str, *, day: int, edition: str | None = "clamd 1.4.6/27500") -> None:
        """Store a file of these words, scanned on that day after `START` by that edition."""
        with closing(Spool(1024, self.folder)) as spool:
            await spool.write(words.encode())
            sealed = await spool.seal()
            await self.store.put(words, sealed, content_type="text/plain")
        await self._insert(words, sealed, START + timedelta(days=day), edition)

    async def _insert(self, words: str, sealed: Sealed, at: datetime, edition: str | None) -> None:
        row = {
            "file_id": f"file_{words}",
            "tenant_id": "ten_1",
            "context_id": "ctx_1",
            "context_key": "c",
            "state": "stored",
            "original_filename": "a.txt",
            "content_type": "text/plain",
            "size_bytes": sealed.size,
            "sha256": sealed.sha256.hex(),
            "object_key": words,
            "uploaded_by": "key_1",
            "uploaded_by_name": "one",
            "metadata": {},
            "download_count": 0,
            "report_id": "rep_1",
            "created_at": at,
        }
        scanned = {} if edition is None else {"scanned_with": edition, "scanned_at": at}
        async with self.database.transaction(EVERYBODY) as connection:
            await connection.execute(insert(files).values(**row, **scanned))

    async def quarantined(self) -> set[str]:
        query = select(files.c.object_key).where(files.c.quarantined_at.is_not(None))
        async with self.database.reading(EVERYBODY) as connection:
            return set((await connection.execute(query)).scalars())

    async def logged(self) -> list[str]:
        query = select(decisions.c.outcome).order_by(decisions.c.report_id)
        async with self.database.reading(EVERYBODY) as connection:
            return list((await connection.execute(query)).scalars())


@pytest.fixture
async def house(migrated: Migrated, tmp_path: Path) -> AsyncIterator[House]:
    database = Database(migrated.sqlite(tmp_path))
    tenant = {"tenant_id": "ten_1", "name": "one", "plan": "unlimited", "status": "active", "created_at": START}
    context = {
        "context_id": "ctx_1",
        "tenant_id": "ten_1",
        "context_key": "c",
        "display_name": "C",
        "allowed_extensions": [],
        "max_file_size_mb": 10,
        "storage_path_template": "",
        "reject_blank_files": True,
        "reject_corrupt_files": True,
        "scan_for_viruses": True,
        "storage_used_bytes": 0,
        "status": "active",
        "metadata": {},
        "rules_version": 1,
        "created_at": START,
    }
    async with database.transaction(EVERYBODY) as connection:
        await connection.execute(insert(tenants).values(**tenant))
        await connection.execute(insert(contexts).values(**context))
    yield House(database, tmp_path)
    await database.aclose()


async def test_the_oldest_verdict_comes_first_whatever_gave_it(house: House) -> None:
    await house.keep("third", day=3, edition="builtin/1")
    await house.keep("second", day=2, edition="clamd 1.4.6/27499")
    await house.keep("first", day=1, edition="clamd 1.4.6/27500")
    assert await house.rescans().one_batch() == 3
    assert house.scanner.seen == ["first", "second", "third"]
    assert await house.logged() == ["kept"] * 3


async def test_other_rules_of_ours_beside_the_same_signatures_make_files_due(house: House) -> None:
    await house.keep("older", day=1, edition=str(replace(NEW, rules="1")))
    await house.keep("unnumbered", day=2, edition=str(Edition("clamd 1.4.6", "", "1")))
    assert await house.rescans().one_batch() == 2


async def test_what_the_same_edition_cleared_or_nobody_scanned_is_left_alone(house: House) -> None:
    await house.keep("new", day=1, edition=str(NEW))
    await house.keep("never", day=2, edition=None)
    assert await house.rescans().one_batch() == 0


async def test_all_is_done_once(house: House) -> None:
    for number in range(120):
        await house.keep(f"w{number}", day=number)
    rescans = house.rescans()
    assert [await rescans.one_batch() for _ in range(4)] == [50, 50, 20, 0]
    assert house.scanner.seen == [f"w{number}" for number in range(120)]


async def test_another_worker_goes_on_where_one_was_stopped(house: House) -> None:
    for number in range(5):
        await house.keep(f"w{number}", day=number)
    third = asyncio.Event()

    async def hangs_on_the_third(words: str) -> ScanResult:
        if words == "w2":
            third.set()
            await asyncio.Event().wait()
        return Clean(NEW.engine, NEW.signatures, 1.0)

    house.scanner.say = hangs_on_the_third
    stop = asyncio.Event()
    running = asyncio.create_task(house.rescans().run(stop))
    await third.wait()
    stop.set()
    await running
    house.scanner = Looks()
    assert await house.rescans().one_batch() == 3
    assert house.scanner.seen == ["w2", "w3", "w4"]


async def test_two_workers_share_the_files(house: House) -> None:
    for number in range(20):
        await house.keep(f"w{number}", day=number)
    await asyncio.gather(*(house.rescans().one_batch() for _ in range(2)))
    assert sorted(house.scanner.seen) == sorted(f"w{number}" for number in range(20))


async def test_a_file_that_a_dead_worker_had_claimed_is_due_again_later(house: House) -> None:
    await house.keep("claimed", day=1)
    async with house.database.transaction(EVERYBODY) as connection:
        await connection.execute(update(files).values(rescan_at=ahead(timedelta(minutes=30))))
    assert await house.rescans().one_batch() == 0
    await house.pass_time(timedelta(minutes=30))
    assert await house.rescans().one_batch() == 1


async def test_a_scanner_that_is_away_is_asked_about_one_file_and_later_about_another(house: House) -> None:
    for number in range(3):
        await house.keep(f"w{number}", day=number)

    async def away(_words: str) -> ScanResult:
        return Unavailable("away", "clamd")

    house.scanner.say = away
    rescans = house.rescans()
    assert [await rescans.one_batch() for _ in range(2)] == [0, 0]
    assert house.scanner.seen == ["w0", "w1"]
    house.scanner = Looks()
    assert await house.rescans().one_batch() == 1
    await house.pass_time(timedelta(minutes=5))
    assert await house.rescans().one_batch() == 2
    assert house.scanner.seen == ["w2", "w0", "w1"]


async def test_a_pool_that_answers_by_older_signatures_is_asked_again_later(house: House) -> None:
    await house.keep("a", day=1, edition="clamd 1.4.6/27499")

    async def old(_words: str) -> ScanResult:
        return Clean("clamd 1.4.6", "27500", 1.0)

    house.scanner.say = old
    rescans = house.rescans()
    assert [await rescans.one_batch() for _ in range(2)] == [1, 0]
    await house.pass_time(timedelta(minutes=5))
    assert await rescans.one_batch() == 1


async def test_the_builtin_rules_judge_again_only_what_they_judged(house: House) -> None:
    await house.keep("clamd's", day=1)
    await house.keep("own", day=2, edition="builtin/1")
    house.scanner.name, house.scanner.edition = "builtin", Edition("builtin", "2")
    assert await house.rescans().one_batch() == 1
    assert house.scanner.seen == ["own"]


async def test_while_no_edition_is_known_nothing_is_scanned(house: House) -> None:
    await house.keep("a", day=1)
    house.scanner.edition = None
    assert await house.rescans().one_batch() == 0


async def test_an_infected_file_is_marked_and_not_scanned_again(house: House) -> None:
    await house.keep("bad", day=1)
    await house.keep("good", day=2)

    async def finds(words: str) -> ScanResult:
        return Infected("Bad", NEW.engine, NEW.signatures, 1.0) if words == "bad" else Clean(NEW.engine, NEW.signatures, 1.0)

    house.scanner.say = finds
    assert await house.rescans().one_batch() == 2
    assert (await house.quarantined(), await house.logged()) == ({"bad"}, ["quarantined", "kept"])
    assert await house.store.size("bad") == 3
    house.scanner.edition = Edition("clamd 1.4.6", "27502")
    assert await house.rescans().one_batch() == 1
    assert house.scanner.seen == ["bad", "good", "good"]


async def test_a_missing_object_holds_nothing_up(house: House) -> None:
    await house.keep("lost", day=1)
    await house.keep("there", day=2)
    await house.store.delete("lost")
    rescans = house.rescans()
    assert [await rescans.one_batch() for _ in range(2)] == [2, 0]
    assert house.scanner.seen == ["there"]


async def test_a_file_deleted_while_it_was_scanned_leaves_no_decision(house: House) -> None:
    await house.keep("a", day=1)

    async def deletes(_words: str) -> ScanResult:
        async with house.database.transaction(EVERYBODY) as connection:
            await connection.execute(update(files).values(state="deleted"))
        return Infected("Bad", NEW.engine, NEW.signatures, 1.0)

    house.scanner.say = deletes
    await house.rescans().one_batch()
    assert (await house.quarantined(), await house.logged()) == (set(), [])


async def test_no_more_than_the_rate_is_scanned(house: House) -> None:
    for number in range(6):
        await house.keep(f"w{number}", day=number)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await house.rescans(per_second=20).one_batch()
    assert loop.time() - began >= 6 / 20
