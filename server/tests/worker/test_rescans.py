"""Rescans: which files are due, in which order and how fast, and what a result changes. Without HTTP."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from sluice.access import operator
from sluice.audit import AuditAction
from sluice.buckets.service import Buckets
from sluice.buckets.stores import Stores
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import decisions, files
from sluice.db.sql import now_plus
from sluice.files import repository
from sluice.hash_lists.service import EntryDraft, HashLists
from sluice.kit.health import EngineHealth, EngineState
from sluice.kit.keyring_file import KeyringFile, load_keyring
from sluice.scanner import Clean, EngineVersion, Infected, ScannerUnavailable, ScanResult, UnpackReport
from sluice.storage.local.store import LocalStore
from sluice.uploads.spool import Spool
from sluice.worker import job
from sluice.worker.jobs.rescans import Rescans
from sluice_inspect.sandbox.sealed import Sealed
from tests.db.migrated import Migrated
from tests.db.rows import add_file, add_tenant
from tests.worker.environment import LogRecorder

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
NEW = EngineVersion("clamd 1.4.6", "27501")
NOW = START + timedelta(days=30)
"""The fixed clock of the worker. Waiting times are those of the database."""


class FakeScanner:
    """A scanner with the new signatures that keeps what it scanned and returns the results of `respond`."""

    name = "clamd"
    scan_limit: int | None = None
    engine_version: EngineVersion | None = NEW

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.respond: Callable[[str], Awaitable[ScanResult]] = self._clean

    async def scan(
        self,
        sealed: Sealed,
        *,
        tenant_id: str,  # noqa: ARG002  (the protocol's signature)
        unpack_report: "asyncio.Future[UnpackReport | None] | None" = None,  # noqa: ARG002  (the same)
    ) -> ScanResult:
        words = os.pread(sealed.fd, sealed.size, 0).decode()
        self.seen.append(words)
        return await self.respond(words)

    async def _clean(self, words: str) -> ScanResult:  # noqa: ARG002  (the signature of `respond`)
        return Clean(NEW.engine, NEW.signatures, 1.0)

    async def health(self) -> EngineHealth:
        return EngineHealth("scanner", self.name, EngineState.UP)

    async def aclose(self) -> None:
        """Nothing to close."""


class RescanEnvironment:
    """A database with one context, a store and a scanner."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self.store = LocalStore(folder / "objects")
        self.scanner = FakeScanner()

    def rescans(self, per_second: float = 1000.0) -> Rescans:
        stores = Stores(self.store, lambda _bucket: self.store)
        load_keyring(self.folder / "keys.json")  # makes the file if there is none
        keyring = KeyringFile(self.folder / "keys.json")
        buckets = Buckets(self.database, stores, keyring, allowed_endpoints=(), probe=False)
        place: dict[str, Any] = {"folder": self.folder, "memory_bytes": 1024, "clock": lambda: NOW}
        pace: dict[str, Any] = {"per_second": per_second, "pause_seconds": 0.01}
        return Rescans(self.database, buckets, stores, self.scanner, **place, **pace)

    async def pass_time(self, time: timedelta) -> None:
        """Move all waiting times into the past: the clock of a database cannot be changed."""
        waiting = select(files.c.file_id, files.c.rescan_at).where(files.c.rescan_at.is_not(None))
        async with self.database.transaction(ALL_TENANTS) as connection:
            for file_id, at in (await connection.execute(waiting)).all():
                await connection.execute(update(files).where(files.c.file_id == file_id).values(rescan_at=at - time))

    async def store_file(self, words: str, *, day: int, scanned_with: str | None = "clamd 1.4.6/27500") -> None:
        """Store a file with these words, scanned by that engine version `days` after `START`."""
        with closing(Spool(1024, self.folder)) as spool:
            await spool.write(words.encode())
            sealed = await spool.seal()
            await self.store.put(words, sealed, content_type="text/plain")
        at = START + timedelta(days=day)
        scanned: dict[str, Any] = {} if scanned_with is None else {"scanned_with": scanned_with, "scanned_at": at}
        content: dict[str, Any] = {"object_key": words, "size_bytes": sealed.size, "sha256": sealed.sha256.hex()}
        await add_file(self.database, "ten_1", f"file_{words}", created_at=at, **content, **scanned)

    async def store_files(self, count: int) -> list[str]:
        """Store files that become due one after the other, and return their words."""
        words = [f"w{number}" for number in range(count)]
        for number, each in enumerate(words):
            await self.store_file(each, day=number)
        return words

    async def quarantined(self) -> set[str]:
        query = select(files.c.object_key).where(files.c.quarantined_at.is_not(None))
        async with self.database.reading(ALL_TENANTS) as connection:
            return set((await connection.execute(query)).scalars())

    async def logged(self) -> list[str]:
        query = select(decisions.c.outcome).order_by(decisions.c.report_id)
        async with self.database.reading(ALL_TENANTS) as connection:
            return list((await connection.execute(query)).scalars())


@pytest.fixture
async def environment(migrated: Migrated, tmp_path: Path) -> AsyncIterator[RescanEnvironment]:
    async with aclosing(Database(migrated.sqlite(tmp_path))) as database:
        await add_tenant(database, "ten_1", "a")
        yield RescanEnvironment(database, tmp_path)


async def test_the_oldest_scan_by_earlier_rules_is_repeated_first(environment: RescanEnvironment) -> None:
    await environment.store_file("third", day=3, scanned_with="builtin/1")
    await environment.store_file("second", day=2, scanned_with="clamd 1.4.6/27499")
    await environment.store_file("first", day=1, scanned_with="clamd 1.4.6/27500")
    assert await environment.rescans().one_batch() == 3
    assert environment.scanner.seen == ["first", "second", "third"]
    assert await environment.logged() == ["kept"] * 3
    await environment.store_file("older", day=1, scanned_with=str(replace(NEW, rules="1")))
    await environment.store_file("unnumbered", day=2, scanned_with=str(EngineVersion("clamd 1.4.6", "", "1")))
    await environment.store_file("new", day=3, scanned_with=str(NEW))
    await environment.store_file("never", day=4, scanned_with=None)
    assert await environment.rescans().one_batch() == 2
    assert environment.scanner.seen[3:] == ["older", "unnumbered"]


async def test_files_are_scanned_again_for_an_optional_engine_that_is_there(environment: RescanEnvironment) -> None:
    with_optional = replace(NEW, optional="yara/2")
    for name, optional in {"older": "yara/1", "away": "yara/-", "same": "yara/2"}.items():
        await environment.store_file(name, day=1, scanned_with=str(replace(NEW, optional=optional)))
    assert await environment.rescans().one_batch() == 0, "the optional engine is away"
    environment.scanner.engine_version = with_optional
    assert await environment.rescans().one_batch() == 2
    assert sorted(environment.scanner.seen) == ["away", "older"]


async def test_every_file_is_rescanned_once_also_by_two_workers(environment: RescanEnvironment) -> None:
    words = await environment.store_files(120)
    rescans = environment.rescans()
    assert [await rescans.one_batch() for _ in range(4)] == [50, 50, 20, 0]
    assert environment.scanner.seen == words
    more = [f"m{number}" for number in range(20)]
    for each in more:
        await environment.store_file(each, day=1)
    await asyncio.gather(*(environment.rescans().one_batch() for _ in range(2)))
    assert sorted(environment.scanner.seen[120:]) == sorted(more)


async def test_another_worker_continues_where_one_was_stopped(environment: RescanEnvironment) -> None:
    await environment.store_files(5)
    third = asyncio.Event()

    async def hangs_on_the_third(words: str) -> ScanResult:
        if words == "w2":
            third.set()
            await asyncio.Event().wait()
        return Clean(NEW.engine, NEW.signatures, 1.0)

    environment.scanner.respond = hangs_on_the_third
    stop = asyncio.Event()
    running = asyncio.create_task(environment.rescans().run(stop))
    await third.wait()
    stop.set()
    await running
    environment.scanner = FakeScanner()
    assert await environment.rescans().one_batch() == 3
    assert environment.scanner.seen == ["w2", "w3", "w4"]


async def test_a_file_claimed_by_a_dead_worker_is_due_again_later(environment: RescanEnvironment) -> None:
    await environment.store_file("claimed", day=1)
    async with environment.database.transaction(ALL_TENANTS) as connection:
        await connection.execute(update(files).values(rescan_at=now_plus(timedelta(minutes=30))))
    assert await environment.rescans().one_batch() == 0
    await environment.pass_time(timedelta(minutes=30))
    assert await environment.rescans().one_batch() == 1


async def test_an_unavailable_scanner_is_asked_about_one_file_per_batch(environment: RescanEnvironment) -> None:
    await environment.store_files(3)

    async def unavailable(_words: str) -> ScanResult:
        return ScannerUnavailable("unavailable", "clamd")

    environment.scanner.respond = unavailable
    rescans = environment.rescans()
    assert [await rescans.one_batch() for _ in range(2)] == [0, 0]
    assert environment.scanner.seen == ["w0", "w1"]
    environment.scanner = FakeScanner()
    assert await environment.rescans().one_batch() == 1
    await environment.pass_time(timedelta(minutes=5))
    assert await environment.rescans().one_batch() == 2
    assert environment.scanner.seen == ["w2", "w0", "w1"]


async def test_a_file_scanned_with_older_signatures_is_scanned_again_later(environment: RescanEnvironment) -> None:
    await environment.store_file("a", day=1, scanned_with="clamd 1.4.6/27499")

    async def scan_with_old_signatures(_words: str) -> ScanResult:
        return Clean("clamd 1.4.6", "27500", 1.0)

    environment.scanner.respond = scan_with_old_signatures
    rescans = environment.rescans()
    assert [await rescans.one_batch() for _ in range(2)] == [1, 0]
    await environment.pass_time(timedelta(minutes=5))
    assert await rescans.one_batch() == 1


async def test_the_builtin_scanner_rescans_its_files_while_its_version_is_known(environment: RescanEnvironment) -> None:
    await environment.store_file("clamd's", day=1)
    await environment.store_file("own", day=2, scanned_with="builtin/1")
    environment.scanner.name, environment.scanner.engine_version = "builtin", None
    assert await environment.rescans().one_batch() == 0
    environment.scanner.engine_version = EngineVersion("builtin", "2")
    assert await environment.rescans().one_batch() == 1
    assert environment.scanner.seen == ["own"]


async def test_an_infected_file_is_quarantined_and_not_scanned_again(environment: RescanEnvironment) -> None:
    await environment.store_file("bad", day=1)
    await environment.store_file("good", day=2)

    async def find_one_threat(words: str) -> ScanResult:
        version = (NEW.engine, NEW.signatures, 1.0)
        return Infected("Bad", *version) if words == "bad" else Clean(*version)

    environment.scanner.respond = find_one_threat
    assert await environment.rescans().one_batch() == 2
    assert (await environment.quarantined(), await environment.logged()) == ({"bad"}, ["quarantined", "kept"])
    assert await environment.store.size("bad") == 3
    environment.scanner.engine_version = EngineVersion("clamd 1.4.6", "27502")
    assert await environment.rescans().one_batch() == 1
    assert environment.scanner.seen == ["bad", "good", "good"]


async def test_files_on_hash_lists_are_quarantined_or_kept_without_a_scan(environment: RescanEnvironment) -> None:
    await environment.store_files(4)
    drafts = [
        EntryDraft(hashlib.md5(b"w0").digest(), "deny", "INC-42"),
        EntryDraft(hashlib.sha256(b"w1").digest(), "deny"),
        EntryDraft(hashlib.sha256(b"w2").digest(), "allow"),
    ]
    await HashLists(environment.database).add(AuditAction(operator("ten_1", "ada"), "hash_entry.added"), drafts)
    assert await environment.rescans().one_batch() == 4
    assert environment.scanner.seen == ["w3"]
    assert await environment.quarantined() == {"w0", "w1"}
    assert await environment.logged() == ["quarantined", "quarantined", "kept", "kept"]
    assert await environment.rescans().one_batch() == 0
    async with environment.database.transaction(ALL_TENANTS) as connection:  # a reviewer releases them
        await connection.execute(update(files).values(quarantined_at=None, scanned_with="clamd 1.4.6/1"))
    assert await environment.rescans().one_batch() == 4
    assert await environment.quarantined() == set()  # the release is for this entry
    assert sorted(environment.scanner.seen) == ["w0", "w1", "w3", "w3"]  # released files are scanned


async def test_a_file_that_a_reviewer_wants_to_be_scanned_comes_first_until_it_has_a_verdict(
    environment: RescanEnvironment,
) -> None:
    await environment.store_file("stale", day=1)
    await environment.store_file("current", day=2, scanned_with=str(NEW))
    async with environment.database.transaction("ten_1") as connection:
        assert await repository.ask_rescan(connection, "ten_1", "file_current", only_quarantined=False)
        assert not await repository.ask_rescan(connection, "ten_1", "file_stale")  # it is not in quarantine

    async def unavailable(_words: str) -> ScanResult:
        return ScannerUnavailable("unavailable", "clamd")

    environment.scanner.respond = unavailable
    assert await environment.rescans().one_batch() == 0
    await environment.pass_time(timedelta(minutes=5))

    async def infected(_words: str) -> ScanResult:
        return Infected("Bad", NEW.engine, NEW.signatures, 1.0)

    environment.scanner.respond = infected
    assert await environment.rescans().one_batch() == 1
    assert environment.scanner.seen == ["current", "current"]
    assert await environment.quarantined() == {"current"}
    async with environment.database.reading("ten_1") as connection:
        scan = await repository.find_last_scan(connection, "ten_1", "file_current")
    assert scan is not None
    assert (scan.threat, scan.rescan_asked_at) == ("Bad", None)
    assert await environment.rescans().one_batch() == 1
    assert environment.scanner.seen[-1] == "stale"


async def test_a_missing_object_does_not_stop_the_batch(environment: RescanEnvironment) -> None:
    await environment.store_file("lost", day=1)
    await environment.store_file("there", day=2)
    await environment.store.delete("lost")
    rescans = environment.rescans()
    assert [await rescans.one_batch() for _ in range(2)] == [2, 0]
    assert environment.scanner.seen == ["there"]


async def test_a_file_whose_object_is_missing_is_not_waited_for(environment: RescanEnvironment) -> None:
    await environment.store_file("lost", day=1)
    await environment.store.delete("lost")
    async with environment.database.transaction("ten_1") as connection:
        assert await repository.ask_rescan(connection, "ten_1", "file_lost", only_quarantined=False)
    assert await environment.rescans().one_batch() == 1
    async with environment.database.reading("ten_1") as connection:
        scan = await repository.find_last_scan(connection, "ten_1", "file_lost")
    assert scan is not None
    assert scan.rescan_asked_at is None


async def test_an_unexpected_exception_on_one_file_does_not_stop_the_batch(
    environment: RescanEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogRecorder()
    monkeypatch.setattr(job, "log", log)
    await environment.store_file("first", day=1)
    await environment.store_file("second", day=2)

    async def fails_on_the_first(words: str) -> ScanResult:
        if words == "first":
            raise ZeroDivisionError
        return Clean(NEW.engine, NEW.signatures, 1.0)

    environment.scanner.respond = fails_on_the_first
    assert await environment.rescans().one_batch() == 2
    assert environment.scanner.seen == ["first", "second"]
    assert log.failed == [{"job": "rescans", "file_id": "file_first"}]
    assert await environment.rescans().one_batch() == 0  # due again when its claim expires
    await environment.pass_time(timedelta(minutes=30))
    assert await environment.rescans().one_batch() == 1


async def test_a_file_deleted_during_its_rescan_leaves_no_decision(environment: RescanEnvironment) -> None:
    await environment.store_file("a", day=1)

    async def delete_during_scan(_words: str) -> ScanResult:
        async with environment.database.transaction(ALL_TENANTS) as connection:
            await connection.execute(update(files).values(state="deleted"))
        return Infected("Bad", NEW.engine, NEW.signatures, 1.0)

    environment.scanner.respond = delete_during_scan
    await environment.rescans().one_batch()
    assert (await environment.quarantined(), await environment.logged()) == (set(), [])


async def test_rescans_do_not_exceed_the_configured_rate(environment: RescanEnvironment) -> None:
    await environment.store_files(6)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await environment.rescans(per_second=20).one_batch()
    assert loop.time() - began >= 6 / 20
