"""Limits over time: rate, plan, quota and usage, and lists at once. Concurrent requests are in `test_concurrency`."""

import asyncio
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from sluice.api.route import ListGate
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.errors import TooManyRequests
from tests.api.responses import assert_rejected, assert_validation_error, data
from tests.api.samples import TEXT, eicar, noise, picture
from tests.deployments import Deployments
from tests.http1.sockets import exchange, statuses
from tests.scanning.waiting import until
from tests.service import ApiClient, Service, running_service

MB = 1_048_576


def _assert_limited(client: ApiClient, context: str, reason: str = "rate_limit_exceeded") -> httpx.Response:
    response = client.upload(context=context)
    assert_rejected(response, reason, 429)
    assert int(response.headers["retry-after"]) >= 1
    assert int(response.headers["ratelimit-remaining"]) == 0
    assert int(response.headers["ratelimit-limit"]) >= 0
    assert int(response.headers["ratelimit-reset"]) >= 1
    return response


def _context_with_rate(client: ApiClient, max_uploads: int, window_seconds: int = 3600, **rules: object) -> str:
    rate = {"max_uploads": max_uploads, "window_seconds": window_seconds}
    return client.create_context(upload_rate_limit=rate, **rules)


def test_one_upload_above_the_rate_of_a_context_is_rejected(client: ApiClient) -> None:
    context, other = _context_with_rate(client, 2), _context_with_rate(client, 1)
    for key in (context, context, other):
        client.store(context=key)
    response = _assert_limited(client, context)
    assert int(response.headers["ratelimit-limit"]) == 2
    assert 3500 <= int(response.headers["retry-after"]) <= 3600
    assert client.used_bytes(context) == 2 * len(TEXT)
    _assert_limited(client, other)


def test_upload_succeeds_after_retry_after_or_when_the_rate_was_changed(client: ApiClient) -> None:
    context = _context_with_rate(client, 1, 1)
    client.store(context=context)
    response = _assert_limited(client, context)
    time.sleep(int(response.headers["retry-after"]))  # the service itself asks its clients to wait this long
    client.store(context=context)
    context = _context_with_rate(client, 1)
    client.store(context=context)
    client.patch(f"/contexts/{context}", {"upload_rate_limit": {"max_uploads": 2, "window_seconds": 3600}})
    client.store(context=context)
    _assert_limited(client, context)
    client.patch(f"/contexts/{context}", {"upload_rate_limit": None})
    client.store(context=context)


def test_only_rejections_after_the_rate_limit_count_against_the_rate(client: ApiClient) -> None:
    context = _context_with_rate(client, 2)
    assert_rejected(client.upload("a.png", picture()[:-20], context=context), "corrupt_file")
    assert_rejected(client.upload("a.txt", eicar(), context=context), "virus_detected")
    _assert_limited(client, context)
    context = _context_with_rate(client, 1, storage_quota_mb=1)
    assert_rejected(client.upload("a.zzz", noise(MB + 1), context=context), "storage_quota_exceeded")
    assert_rejected(client.upload("a.zzz", noise(MB + 1), context=context), "rate_limit_exceeded", 429)
    context = _context_with_rate(client, 1, allowed_extensions=["txt", "zzz"], max_file_size_mb=1)
    assert_rejected(client.upload("a.exe", context=context), "extension_not_allowed")
    assert_rejected(client.upload("a.zzz", noise(MB + 1), context=context), "file_too_large")
    assert client.upload(context=context, metadata="nonsense").status_code == 422
    assert client.with_credential(None).upload(context=context).status_code == 401
    client.store(context=context)


@pytest.mark.engine
@pytest.mark.asvs("5.2.4")
def test_free_plan_alone_bounds_uploads_per_month_of_which_rejected_and_test_files_are_none(
    limited_service: Service,
) -> None:
    """Ten terabytes are more bytes than a 32-bit integer column can hold."""
    client = limited_service.new_client("free").with_store()
    context, other = client.create_context(), client.create_context()
    for key in (context, other, context):
        client.store(context=key)
    response = _assert_limited(client, other, "monthly_limit_exceeded")
    assert int(response.headers["retry-after"]) <= 31 * 86400
    client.execute_sql("UPDATE plan_usage SET month = '2001-01' WHERE tenant_id = :tenant", tenant=client.tenant_id)
    client.store(context=context)
    client = limited_service.new_client("free").with_store()
    context, tester = client.create_context(), client.with_credential(client.create_test_key("upload"))
    for _ in range(4):
        assert_rejected(client.upload("a.png", picture()[:-20], context=context), "corrupt_file")
        tester.store(context=context)
    for _ in range(3):
        client.delete(f"/files/{client.store(context=context)}")
    _assert_limited(client, context, "monthly_limit_exceeded")
    client = limited_service.new_client("unlimited").with_store()
    context = client.create_context(storage_quota_mb=10_485_760)
    for _ in range(5):
        client.store(context=context)
    assert client.used_bytes(context) == 5 * len(TEXT)


@pytest.mark.engine
@pytest.mark.asvs("5.2.4")
def test_file_one_byte_over_the_quota_is_rejected(client: ApiClient) -> None:
    context = client.create_context(storage_quota_mb=1)
    first = client.store("a.zzz", noise(MB - 1), context=context)
    assert_rejected(client.upload("b.zzz", b"\x07\x08", context=context), "storage_quota_exceeded")
    assert client.used_bytes(context) == MB - 1
    assert len(client.object_keys()) == 1
    second = client.store("b.zzz", b"\x07", context=context)
    assert client.used_bytes(context) == MB
    for file_id in (first, second):
        data(client.delete(f"/files/{file_id}"))
    assert client.used_bytes(context) == 0, "a deleted file frees its quota"
    client.store("b.zzz", noise(MB), context=context)


def test_lowered_quota_keeps_stored_files_and_used_bytes_are_their_sum(client: ApiClient) -> None:
    context, other = client.create_context(), client.create_context()
    sizes = [MB + 1, 1000, 234]
    stored = [client.store("a.zzz", noise(size), context=context) for size in sizes]
    client.patch(f"/contexts/{context}", {"storage_quota_mb": 1})
    for file_id in stored:
        data(client.get(f"/files/{file_id}/metadata"))
    assert (client.used_bytes(context), client.used_bytes(other)) == (sum(sizes), 0)
    listed = {item["context_key"]: item["storage_used_bytes"] for item in client.get("/contexts").json()["data"]}
    assert listed == {context: sum(sizes), other: 0}
    assert_rejected(client.upload("b.zzz", b"\x07", context=context), "storage_quota_exceeded")


@pytest.mark.asvs("4.1.3", "6.1.1", "6.3.1", "15.2.2", "15.3.4")
def test_too_many_failed_credentials_return_429_whatever_address_is_forwarded(deployments: Deployments) -> None:
    with running_service(deployments.fresh("sqlite-local"), FAILED_LOGINS="5") as service:
        client = service.new_client().with_credential("wrong")
        forwarded = [{}, *({"X-Forwarded-For": f"192.0.2.{number}"} for number in range(6))]
        responses = [client.request("GET", "/contexts", headers=headers) for headers in forwarded]
    assert [response.status_code for response in responses] == [401] * 5 + [429] * 2
    assert responses[-1].json()["message"] == "Too many requests"
    assert int(responses[-1].headers["retry-after"]) >= 1


async def test_a_fifth_list_of_a_tenant_waits_or_is_refused_and_another_tenant_does_not_wait() -> None:
    gate, impatient = ListGate(), ListGate(wait_seconds=0.01)
    async with AsyncExitStack() as last:
        async with AsyncExitStack() as holding:
            for _ in range(4):
                await holding.enter_async_context(gate.hold("a"))
                await holding.enter_async_context(impatient.hold("a"))
            fifth = asyncio.create_task(last.enter_async_context(gate.hold("a")))
            async with asyncio.timeout(5), gate.hold("b"):
                assert not fifth.done()
            with pytest.raises(TooManyRequests):
                await holding.enter_async_context(impatient.hold("a"))
        async with asyncio.timeout(5):
            await fifth


def test_lists_that_are_asked_for_one_after_the_other_are_all_answered(sqlite_local: Service) -> None:
    client = sqlite_local.new_client()
    request = f"GET /api/v1/contexts HTTP/1.1\r\nHost: x\r\nAuthorization: {client.authorization}\r\n".encode()
    received = exchange(
        sqlite_local, (request + b"\r\n") * 7 + request + b"Connection: close\r\n\r\n", half_close=False
    )
    assert statuses(received) == [200] * 8


def _usage(client: ApiClient, **asked: str) -> dict[str, Any]:
    found: dict[str, Any] = data(client.get("/usage", **asked))
    return found


@pytest.mark.engine
def test_usage_counts_what_happened_whatever_became_of_the_files(client: ApiClient) -> None:
    nothing = {"uploads": 0, "bytes_stored": 0, "downloads": 0, "rejections": {}}
    assert _usage(client)["total"] == nothing
    claims, photos = client.create_context(), client.create_context(reject_corrupt_files=False)
    file_id = client.store("a.txt", TEXT, context=claims)
    client.store("b.bin", noise(5000), context=photos)
    for number in range(2):
        data(client.get(f"/files/{file_id}"))
        assert_rejected(client.upload("c.txt", b"\0" * number, context=claims), "blank_document")
    data(client.delete(f"/files/{file_id}"))
    of_claims = {"uploads": 1, "bytes_stored": len(TEXT), "downloads": 2, "rejections": {"blank_document": 2}}
    of_photos = {"uploads": 1, "bytes_stored": 5000, "downloads": 0, "rejections": {}}
    total = of_claims | {"uploads": 2, "bytes_stored": len(TEXT) + 5000}
    today = datetime.now(UTC).date()
    week = {"from": str(today - timedelta(days=6)), "to": str(today + timedelta(days=1))}

    def assert_exact() -> None:
        by_context = _usage(client, by="context", **week)
        assert {group.pop("key"): group for group in by_context["groups"]} == {claims: of_claims, photos: of_photos}
        by_day = _usage(client, by="day", **week)
        assert by_day["total"] == by_context["total"] == total
        for name in ("uploads", "downloads"):
            assert sum(group[name] for group in by_day["groups"]) == 2

    assert_exact()
    assert until(lambda: not _deltas(client), 60)
    assert_exact()
    other = client.other_tenant_client()
    assert _usage(other, **week)["total"] == nothing


def _deltas(client: ApiClient) -> list[Any]:
    async def read(database: Database) -> list[Any]:
        async with database.reading(ALL_TENANTS) as connection:
            asked = text("SELECT delta_id FROM usage_deltas WHERE tenant_id = :tenant_id")
            return list((await connection.execute(asked, {"tenant_id": client.tenant_id})).all())

    return client.service.on_database(read)


def test_plan_shows_its_limits_and_usage_no_period_that_cannot_be_read(
    service: Service, shared_client: ApiClient
) -> None:
    client = service.new_client("free")
    context = client.create_context()
    client.store(context=context)
    client.delete(f"/files/{client.store(context=context)}")
    found = data(client.get("/plan"))
    limits = {limit["name"]: (limit["used"], limit["limit"]) for limit in found["limits"]}
    assert found["plan"] == "free"
    assert limits == {
        "uploads_per_month": (2, 500),
        "storage_bytes": (len(TEXT), None),
        "webhook_endpoints": (0, 10),
        "active_jobs": (0, 20),
    }
    resets = datetime.fromisoformat(found["limits"][0]["resets_at"])
    assert (resets.day, resets.hour) == (1, 0)
    assert timedelta(0) < resets - datetime.now(UTC) <= timedelta(days=31)
    unlimited = service.new_client("unlimited")
    unlimited.store(context=unlimited.create_context())
    (uploads, *_) = data(unlimited.get("/plan"))["limits"]
    assert (uploads["used"], uploads["limit"]) == (1, None)
    for asked, field in [
        *(({"from": "2026-02-02", "to": "2026-02-01"}, "to"), ({"from": "2025-01-01", "to": "2026-02-01"}, "from")),
        *(({"from": "20260201"}, "from"), ({"to": "1700000000"}, "to")),
        *(({"by": "hour"}, "by"), ({"colour": "red"}, "colour")),
    ]:
        assert_validation_error(shared_client.get("/usage", **asked), field)
