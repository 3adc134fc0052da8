"""Events that no request causes: limits, keys that expire, buckets that fail. Each crossing has one event."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import insert, update

from sluice.buckets import repository as bucket_rows
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import api_keys, bucket_outages, contexts, decisions, plan_usage, storage_configs
from sluice.errors import NotFound
from sluice.events.service import EventFeed
from sluice.kit.ids import new_id
from sluice.storage import StoreUnavailable
from sluice.worker.jobs.announcements import announce_limits, watch_buckets
from tests.db.conftest import tables  # noqa: F401  (a fixture)
from tests.db.rows import NOW, add_tenant
from tests.worker.environment import bucket_row, context_of

MB = 1_048_576
MINUTE = timedelta(seconds=61)


class World:
    """A tenant with a context and a bucket, and the jobs over them."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.bucket_works = False
        self.bucket_exists = True
        stores = SimpleNamespace(of=lambda _bucket: SimpleNamespace(probe=self._probe))
        self.context = context_of(database, SimpleNamespace(get=self._get), stores)

    async def _get(self, _tenant_id: str, _config_id: str) -> object:
        if not self.bucket_exists:
            raise NotFound
        return object()

    async def _probe(self) -> None:
        if not self.bucket_works:
            raise StoreUnavailable("gone")

    async def run(self, *statements: Any) -> None:
        async with self.database.transaction(ALL_TENANTS) as connection:
            for statement in statements:
                await connection.execute(statement)

    async def events(self) -> Sequence[tuple[str, Any]]:
        """Return type and level of all events."""
        found = await EventFeed(self.database).read("ten_1", 0, (), 100)
        return [(event.type, event.data.get("percent")) for event in found]

    async def use(self, used: int, quota_mb: int | None = 1) -> Sequence[tuple[str, Any]]:
        """Let the context's files use this many bytes, and return all events after the job ran twice."""
        await self.run(update(contexts).values(storage_used_bytes=used, storage_quota_mb=quota_mb))
        for _ in range(2):
            await announce_limits(self.context)
        return await self.events()


@pytest.fixture
async def world(tables: Database) -> World:  # noqa: F811  (the fixture)
    await add_tenant(tables, "ten_1", "a")
    return World(tables)


async def test_each_crossing_of_a_quota_has_one_event_and_no_quota_none(world: World) -> None:
    assert await world.use(MB * 5000, None) == []
    warned = [("context.quota_warning", 80)]
    assert await world.use(MB * 79 // 100) == []
    assert await world.use(MB * 81 // 100) == warned
    assert await world.use(MB * 85 // 100) == warned
    assert await world.use(MB * 96 // 100) == (warned := [*warned, ("context.quota_warning", 95)])
    assert await world.use(MB) == (warned := [*warned, ("context.quota_reached", 100)])
    assert await world.use(MB * 10 // 100) == warned
    assert await world.use(MB * 82 // 100) == (warned := [*warned, ("context.quota_warning", 80)])
    assert await world.use(MB * 82 // 100, None) == warned


async def test_a_refused_upload_at_95_percent_reaches_the_quota(world: World) -> None:
    ids = {"report_id": new_id("rep"), "tenant_id": "ten_1", "context_key": "a", "created_at": NOW}
    verdict = {"outcome": "rejected", "reason": "storage_quota_exceeded", "detail": "", "mode": "store"}
    documents: dict[str, Any] = {"rules": {}, "facts": {}, "engines": {}, "actor": {}, "rules_version": 1}
    await world.run(insert(decisions).values(ids | verdict | documents))
    assert await world.use(MB * 90 // 100) == [("context.quota_warning", 80)]
    assert await world.use(MB * 96 // 100) == [("context.quota_warning", 80), ("context.quota_reached", 100)]


async def test_a_plan_is_announced_at_80_and_100_percent_of_the_month(world: World) -> None:
    this_month = datetime.now(UTC).strftime("%Y-%m")
    await world.run(
        insert(plan_usage).values(tenant_id="ten_1", month="2020-01", uploads=500),
        insert(plan_usage).values(tenant_id="ten_1", month=this_month, uploads=399),
    )
    await announce_limits(world.context)
    assert await world.events() == []
    for uploads, wanted in ((400, [("tenant.plan_warning", 80)]), (500, [("tenant.plan_reached", 100)])):
        await world.run(update(plan_usage).where(plan_usage.c.month == this_month).values(uploads=uploads))
        for _ in range(2):
            await announce_limits(world.context)
        assert (await world.events())[-1:] == wanted
    assert len(await world.events()) == 2


async def test_a_key_that_expires_within_a_week_is_announced_once(world: World) -> None:
    now = datetime.now(UTC)
    key = {"tenant_id": "ten_1", "secret_hash": b"x" * 32, "mode": "live", "name": "intake", "created_at": NOW}
    key |= {"scopes": ["upload"], "metadata": {}}
    for number, (days, status) in enumerate([(6, "active"), (8, "active"), (6, "revoked"), (-1, "active")]):
        ids = {"api_key_id": f"key_{number}", "key_prefix": f"sl_live_{number}"}
        state = {"status": status, "expires_at": now + timedelta(days=days)}
        await world.run(insert(api_keys).values(key | ids | state))
    for _ in range(2):
        await announce_limits(world.context)
    (event,) = await EventFeed(world.database).read("ten_1", 0, (), 10)
    assert (event.type, event.data["api_key_id"]) == ("api_key.expiring", "key_0")


async def _fail(world: World) -> None:
    await world.run(insert(storage_configs).values(bucket_row("bkt_1", "s")))
    async with world.database.transaction("ten_1") as connection:
        for config_id in ("bkt_1", "bkt_1", "bkt_deleted"):
            await bucket_rows.note_failure(connection, "ten_1", config_id)


async def _watch(world: World, **passed: datetime) -> Sequence[str]:
    """Check the bucket, after what is named happened more than a minute ago, and return the types of all events."""
    await world.run(update(bucket_outages).values(check_at=NOW, **passed))
    await watch_buckets(world.context)
    return [event_type for event_type, _percent in await world.events()]


async def test_a_bucket_is_announced_when_it_fails_and_works_for_a_minute(world: World) -> None:
    await _fail(world)
    past = datetime.now(UTC) - MINUTE
    assert await _watch(world) == []
    assert await _watch(world, failing_since=past) == ["bucket.unreachable"]
    assert await _watch(world, failing_since=past) == ["bucket.unreachable"]
    world.bucket_works = True
    assert await _watch(world) == ["bucket.unreachable"]
    world.bucket_works = False
    assert await _watch(world, working_since=past) == ["bucket.unreachable"]
    world.bucket_works = True
    assert await _watch(world) == ["bucket.unreachable"]  # the minute starts again
    assert await _watch(world, working_since=past) == ["bucket.unreachable", "bucket.recovered"]


async def test_a_bucket_that_fails_for_less_than_a_minute_has_no_event(world: World) -> None:
    await _fail(world)
    world.bucket_works = True
    assert await _watch(world) == []
    world.bucket_works = False
    assert await _watch(world, failing_since=datetime.now(UTC) - MINUTE) == []  # it is watched no more


async def test_a_bucket_is_tried_at_intervals(world: World) -> None:
    await _fail(world)
    await _watch(world)
    world.bucket_works = True
    await watch_buckets(world.context)  # not due yet
    world.bucket_works = False
    assert await _watch(world, failing_since=datetime.now(UTC) - MINUTE) == ["bucket.unreachable"]
