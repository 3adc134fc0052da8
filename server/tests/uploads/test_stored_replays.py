"""Replays of decisions in a database: in batches, of the newest, one at a time."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import decisions
from sluice.errors import TooManyRequests
from sluice.kit.ids import new_id
from sluice.uploads import reports
from sluice.uploads.reasons import Reason
from sluice.uploads.replay import Replay
from sluice.uploads.reports import Reports
from sluice.uploads.values import Facts, Rules

RULES = Rules(1, (), 1000, reject_blank=False, reject_corrupt=False, scan=False, rate=None, quota_bytes=None)
NONE_ALLOWED = replace(RULES, version=2, allowed_extensions=("pdf",))


def row(number: int, **changes: Any) -> dict[str, Any]:
    ids = {"report_id": new_id("rep"), "tenant_id": "ten_1", "file_id": None, "context_key": "papers", "actor_id": None}
    facts = Facts(f"{number}.txt", "txt", 3, "00" * 32, quota_used_bytes=0).to_json()
    judged = {"rules": RULES.to_json(), "rules_version": 1, "facts": facts, "engines": {}, "actor": {}}
    verdict = {"mode": "store", "outcome": "accepted", "reason": None, "detail": "", "duration_ms": 1}
    file = {"created_at": datetime.now(UTC), "original_filename": f"{number}.txt"}
    return ids | judged | verdict | file | changes


async def add(database: Database, rows: list[dict[str, Any]]) -> None:
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(insert(decisions), rows)


async def replayed(service: Reports, tenant_id: str = "ten_1") -> tuple[Replay, bool]:
    now = datetime.now(UTC) + timedelta(minutes=1)
    return await service.replay(tenant_id, "papers", NONE_ALLOWED, since=now - timedelta(days=1), until=now)


def names(replay: Replay) -> list[str]:
    return [sample.filename for sample in replay.would_reject[Reason.EXTENSION_NOT_ALLOWED].samples]


async def test_each_decision_is_judged_once_across_batches(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_BATCH", 3)
    for count in (2, 4):  # 2, and 6 in two full batches
        await add(database, [row(number) for number in range(count)])
        replay, truncated = await replayed(Reports(database))
        assert not truncated
    assert replay.judged == replay.would_reject[Reason.EXTENSION_NOT_ALLOWED].count == 6


async def test_of_too_many_decisions_the_newest_are_judged(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MOST_REPLAYED", 3)
    await add(database, [row(number) for number in range(3)])
    assert (await replayed(Reports(database)))[1] is False
    await add(database, [row(number) for number in range(3, 5)])
    replay, truncated = await replayed(Reports(database))
    assert (truncated, names(replay)) == (True, ["2.txt", "3.txt", "4.txt"])


async def test_rescans_undecided_and_other_contexts_are_left_out(database: Database) -> None:
    others: list[dict[str, Any]] = [{"mode": "rescan"}, {"outcome": "undecided"}, {"context_key": "other"}]
    await add(database, [row(number, **changes) for number, changes in enumerate([*others, {"mode": "full"}])])
    replay, _ = await replayed(Reports(database))
    assert (replay.judged, names(replay)) == (1, ["3.txt"])


async def test_a_tenant_has_one_replay_at_a_time(database: Database) -> None:
    await add(database, [row(1)])
    service = Reports(database)
    replays = (replayed(service), replayed(service), replayed(service, "ten_2"))
    results = await asyncio.gather(*replays, return_exceptions=True)
    assert [type(result) for result in results] == [tuple, TooManyRequests, tuple]
    assert (await replayed(service))[0].judged == 1
