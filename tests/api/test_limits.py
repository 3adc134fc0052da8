"""Limits over time: rate, plan and quota. Concurrent requests are in `test_concurrency`."""

import time

import httpx
import pytest

from tests.api.responses import assert_rejected, data
from tests.api.samples import TEXT, eicar, noise, picture
from tests.deployments import Deployments
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


@pytest.mark.engine
def test_one_upload_above_the_rate_of_a_context_is_rejected(client: ApiClient) -> None:
    context, other = _context_with_rate(client, 2), _context_with_rate(client, 1)
    for key in (context, context, other):
        client.store(context=key)
    response = _assert_limited(client, context)
    assert int(response.headers["ratelimit-limit"]) == 2
    assert 3500 <= int(response.headers["retry-after"]) <= 3600
    assert client.used_bytes(context) == 2 * len(TEXT)
    _assert_limited(client, other)


def test_upload_succeeds_after_retry_after(client: ApiClient) -> None:
    context = _context_with_rate(client, 1, 1)
    client.store(context=context)
    response = _assert_limited(client, context)
    time.sleep(int(response.headers["retry-after"]))  # the service itself asks its clients to wait this long
    client.store(context=context)


@pytest.mark.asvs("2.3.2")
def test_no_window_accepts_more_than_the_rate(client: ApiClient) -> None:
    """Upload again and again for three windows: any four accepted in a row span more than one window."""
    context = _context_with_rate(client, 3, 1)
    accepted: list[tuple[float, float]] = []
    end = time.monotonic() + 3
    while time.monotonic() < end:
        sent = time.monotonic()
        if client.upload(context=context).status_code == 201:
            accepted.append((sent, time.monotonic()))
        time.sleep(0.02)  # fifty attempts in a window of three
    assert len(accepted) >= 6
    assert all(later[1] - sooner[0] >= 1 for sooner, later in zip(accepted, accepted[3:], strict=False))


def test_rejections_after_the_rate_limit_count_against_the_rate(client: ApiClient) -> None:
    context = _context_with_rate(client, 2)
    assert_rejected(client.upload("a.png", picture()[:-20], context=context), "corrupt_file")
    assert_rejected(client.upload("a.txt", eicar(), context=context), "virus_detected")
    _assert_limited(client, context)
    context = _context_with_rate(client, 1, storage_quota_mb=1)
    assert_rejected(client.upload("a.zzz", noise(MB + 1), context=context), "storage_quota_exceeded")
    assert_rejected(client.upload("a.zzz", noise(MB + 1), context=context), "rate_limit_exceeded", 429)


def test_rejections_before_the_rate_limit_do_not_count(client: ApiClient) -> None:
    context = _context_with_rate(client, 1, allowed_extensions=["txt", "zzz"], max_file_size_mb=1)
    assert_rejected(client.upload("a.exe", context=context), "extension_not_allowed")
    assert_rejected(client.upload("a.zzz", noise(MB + 1), context=context), "file_too_large")
    assert client.upload(context=context, metadata="nonsense").status_code == 422
    assert client.with_credential(None).upload(context=context).status_code == 401
    client.store(context=context)


def test_changed_rate_applies_immediately(client: ApiClient) -> None:
    context = _context_with_rate(client, 1)
    client.store(context=context)
    client.patch(f"/contexts/{context}", {"upload_rate_limit": {"max_uploads": 2, "window_seconds": 3600}})
    client.store(context=context)
    _assert_limited(client, context)
    client.patch(f"/contexts/{context}", {"upload_rate_limit": None})
    client.store(context=context)


@pytest.mark.engine
@pytest.mark.asvs("5.2.4")
def test_free_plan_bounds_uploads_per_month(limited_service: Service) -> None:
    client = limited_service.new_client("free").with_store()
    context, other = client.create_context(), client.create_context()
    for key in (context, other, context):
        client.store(context=key)
    response = _assert_limited(client, other, "monthly_limit_exceeded")
    assert int(response.headers["retry-after"]) <= 31 * 86400
    client.execute_sql("UPDATE plan_usage SET month = '2001-01' WHERE tenant_id = :tenant", tenant=client.tenant_id)
    client.store(context=context)


@pytest.mark.engine
def test_rejected_and_test_files_do_not_count_against_the_plan_and_deleted_ones_do(limited_service: Service) -> None:
    client = limited_service.new_client("free").with_store()
    context, tester = client.create_context(), client.with_credential(client.create_test_key("upload"))
    for _ in range(4):
        assert_rejected(client.upload("a.png", picture()[:-20], context=context), "corrupt_file")
        tester.store(context=context)
    for _ in range(3):
        client.delete(f"/files/{client.store(context=context)}")
    _assert_limited(client, context, "monthly_limit_exceeded")


@pytest.mark.engine
def test_unlimited_plan_and_largest_quota_accept_files(limited_service: Service) -> None:
    """Ten terabytes are more bytes than a 32-bit integer column can hold."""
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


@pytest.mark.engine
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


@pytest.mark.asvs("6.1.1", "6.3.1", "15.2.2")
def test_too_many_failed_credentials_return_429(deployments: Deployments) -> None:
    with running_service(deployments.fresh("sqlite-local"), FAILED_LOGINS="5") as service:
        client = service.new_client().with_credential("wrong")
        responses = [client.get("/contexts") for _ in range(7)]
    assert [response.status_code for response in responses] == [401] * 5 + [429] * 2
    assert responses[-1].json()["message"] == "Too many requests"
    assert int(responses[-1].headers["retry-after"]) >= 1


def _statuses_of_failures(service: Service, address: str, times: int) -> list[int]:
    client = service.new_client().with_credential("wrong")
    return [client.request("GET", "/contexts", headers={"X-Forwarded-For": address}).status_code for _ in range(times)]


@pytest.mark.asvs("4.1.3", "15.3.4")
def test_failed_credentials_are_counted_per_address_from_a_trusted_proxy(deployments: Deployments) -> None:
    with running_service(deployments.fresh("sqlite-local"), FAILED_LOGINS="2", TRUSTED_PROXIES="127.0.0.1") as service:
        assert _statuses_of_failures(service, "192.0.2.1", 3) == [401, 401, 429]
        assert _statuses_of_failures(service, "192.0.2.2", 1) == [401]
        # the client wrote everything left of the proxy's own entry
        assert _statuses_of_failures(service, "192.0.2.9, 192.0.2.1", 1) == [429]


@pytest.mark.asvs("4.1.3", "15.3.4")
def test_forwarded_address_from_an_untrusted_proxy_is_ignored(deployments: Deployments) -> None:
    with running_service(deployments.fresh("sqlite-local"), FAILED_LOGINS="2") as service:
        assert _statuses_of_failures(service, "192.0.2.1", 2) == [401, 401]
        assert _statuses_of_failures(service, "192.0.2.2", 1) == [429]
