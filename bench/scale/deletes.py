"""The time in which the worker deletes and purges many files, and how long uploads take beside it."""

import asyncio
import fcntl
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import text

from bench import payloads
from bench.load import Target, load
from bench.scale.lists import Filled, PostgresRows, SqliteRows, execute, recount, upload
from bench.sluice import Sluice, running_sluice
from bench.stores import running_store
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from tests.servers.postgres import running_postgres

_CONNECTIONS = 4
_UPLOADS = 200
_QUIET_ROUNDS = 3  # before it, and as many after it
# Ids of the files that were inserted; those of uploads come after it.
_LEFT = "SELECT 1 FROM files WHERE file_id < 'file_00000001' LIMIT 1"
_KEPT_DAYS = 30

_WRITE_LOCK = 120  # the offset of the writer's lock in SQLite's shared memory, and where it counts transactions
_COUNTER = slice(8, 12)
_SAMPLE_SECONDS = 0.001


def measure(folder: Path, *, rows: int, on: Sequence[str], by_retention: bool = False) -> dict[str, Any]:
    """Return the seconds until all files are deleted and purged, and p95 of small uploads alone and beside it."""

    def begin(sluice: Sluice, database: Filled) -> Callable[[], bool]:
        if by_retention:
            asyncio.run(execute(database.url, "UPDATE files SET created_at = '2026-01-02 03:04:05'"))
            for number in range(4):
                context = sluice.request("GET", f"/contexts/c{number}")["data"]
                sluice.request("PATCH", f"/contexts/{context['context_key']}", {"retention_days": _KEPT_DAYS})
            return lambda: True
        body = {"filter": {"min_size": 1, "filename": "report-"}, "max_files": 1_000_000}
        job_id = sluice.request("POST", "/files/bulk-delete", body)["data"]["job_id"]
        return lambda: bool(sluice.request("GET", f"/jobs/{job_id}")["data"]["status"] == "done")

    def is_gone(_sluice: Sluice, database: Filled) -> bool:
        return not asyncio.run(_any_left(database.url))

    return _compared(folder, rows, on, begin, is_gone)


def measure_erasure(folder: Path, *, rows: int, on: Sequence[str]) -> dict[str, Any]:
    """Return the seconds of the erasure of a person who has one of 10,000 files of a tenant, and those of uploads."""

    def begin(sluice: Sluice, database: Filled) -> Callable[[], bool]:
        theirs = "UPDATE files SET uploaded_by = 'person-1' WHERE file_id LIKE 'file_%0000'"
        asyncio.run(execute(database.url, theirs))
        asyncio.run(recount(database.url, sluice.tenant_id))
        erasure_id = sluice.request("POST", "/erasures", {"uploaded_by": "person-1"})["data"]["job_id"]
        return lambda: bool(sluice.request("GET", f"/erasures/{erasure_id}")["data"]["status"] == "done")

    return _compared(folder, rows, on, begin, lambda _sluice, _database: True, has_decisions=True)


def _compared(
    folder: Path,
    rows: int,
    on: Sequence[str],
    begin: Callable[[Sluice, Filled], Callable[[], bool]],
    is_over: Callable[[Sluice, Filled], bool],
    *,
    has_decisions: bool = False,
) -> dict[str, Any]:
    """Return the figures of work on many files on each database.

    `begin` returns whether its first part, the job, is done; `is_over` whether the rest is, too.
    """
    figures: dict[str, Any] = {}
    with running_store(folder, "s3") as store, running_postgres(folder / "postgres", as_operated=True) as postgres:
        makers: Mapping[str, Callable[[], Filled]] = {
            "postgresql": lambda: PostgresRows(postgres, postgres.createdb()),
            "sqlite": lambda: SqliteRows(folder / "sqlite" / "sluice.db"),
        }
        for name in on:
            database = makers[name]()
            settings = {**store.settings, "PURGE_AFTER_DAYS": "0"}
            with running_sluice(folder / name, database.url, **settings) as sluice:
                target, *_others = [sluice.context(f"c{number}") for number in range(4)]
                models = (upload(sluice, b"Good day. " * 20, 201), upload(sluice, b"", 400)) if has_decisions else None
                database.fill(sluice.tenant_id, rows, models)
                asyncio.run(recount(database.url, sluice.tenant_id))
                figures[name] = {"rows": rows, **_measured(sluice, target, database, begin, is_over)}
                figures[name]["a_second"] = rows / figures[name]["over_s"]
            print(f"{name}: {figures[name]}", flush=True)
    return figures


def _measured(
    sluice: Sluice,
    target: Target,
    database: Filled,
    begin: Callable[[Sluice, Filled], Callable[[], bool]],
    is_over: Callable[[Sluice, Filled], bool],
) -> dict[str, float]:
    _round(target)
    quiet, beside, done = _Uploads(), _Uploads(), 0.0
    for _ in range(_QUIET_ROUNDS):
        quiet.add(_round(target))
    with _longest_transaction(database) as longest:
        began = time.perf_counter()
        is_done = begin(sluice, database)
        while True:
            beside.add(_round(target))
            if not done and is_done():
                done = time.perf_counter() - began
            if done and is_over(sluice, database):
                break
        ended = time.perf_counter() - began
    for _ in range(_QUIET_ROUNDS):
        quiet.add(_round(target))
    return {
        "done_s": done,
        "over_s": ended,
        "quiet_p95_ms": quiet.p95,
        "beside_p95_ms": beside.p95,
        "ratio": beside.p95 / quiet.p95,
        "quiet_longest_ms": quiet.longest,
        "beside_longest_ms": beside.longest,
        **({"longest_transaction_ms": longest[0] * 1000} if longest else {}),
    }


@dataclass
class _Uploads:
    """The uploads of some rounds: the median of their p95, and the longest of all."""

    each: list[float] = field(default_factory=list)
    longest: float = 0.0

    def add(self, found: tuple[float, float]) -> None:
        self.each.append(found[0])
        self.longest = max(self.longest, found[1])

    @property
    def p95(self) -> float:
        return sorted(self.each)[len(self.each) // 2]


def _round(target: Target) -> tuple[float, float]:
    outcome = asyncio.run(load(target, payloads.png(10_000), connections=_CONNECTIONS, uploads=_UPLOADS))
    if outcome.refused:
        raise SystemExit(f"refused: {sorted(set(outcome.refused))}")
    return outcome.quantile(0.95) * 1000, max(outcome.seconds) * 1000


@contextmanager
def _longest_transaction(database: Filled) -> Iterator[list[float]]:
    """Watch the writer's lock of SQLite from outside, without taking it: the longest time that one transaction had it.

    The list is empty until the end, and on PostgreSQL.
    """
    found: list[float] = []
    path = database.url.removeprefix("sqlite:///")
    if path == database.url:
        yield found
        return
    ended, longest = threading.Event(), 0.0
    shared = os.open(f"{path}-shm", os.O_RDWR)

    def watch() -> None:
        nonlocal longest
        since, which = 0.0, b""
        while not ended.wait(_SAMPLE_SECONDS):
            asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, _WRITE_LOCK, 1, 0)
            is_held = struct.unpack("hhqqi4x", fcntl.fcntl(shared, fcntl.F_GETLK, asked))[0] != fcntl.F_UNLCK
            counter, now = os.pread(shared, 16, 0)[_COUNTER], time.perf_counter()
            if not is_held:
                since = 0.0
            elif not since or counter != which:
                since, which = now, counter
            else:
                longest = max(longest, now - since)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()
        os.close(shared)
        found.append(longest)


async def _any_left(url: str) -> bool:
    database = Database(url)
    async with database.reading(ALL_TENANTS) as connection:
        found = (await connection.execute(text(_LEFT))).one_or_none()
    await database.aclose()
    return found is not None
