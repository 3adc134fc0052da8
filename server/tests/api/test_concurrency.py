"""What must stay exact under concurrent requests: quota, rate, plan, defaults, keys."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import httpx
import pytest

from tests.api.responses import assert_rejected, data, page
from tests.api.samples import TEXT, noise
from tests.api.test_buckets import default_buckets
from tests.rows import each_row
from tests.service import ApiClient, Service

pytestmark = pytest.mark.engine

MB = 1_048_576
T = TypeVar("T")


def run_concurrently(*calls: Callable[[], T]) -> list[T]:
    """Run all calls at the same moment, each in its own thread, and return their results in order."""
    barrier = threading.Barrier(len(calls))

    def start(call: Callable[[], T]) -> T:
        barrier.wait(20)
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(start, calls))


def _statuses(responses: Sequence[httpx.Response]) -> Counter[int]:
    return Counter(response.status_code for response in responses)


@pytest.mark.asvs("5.2.4", "2.3.4", "15.4.2", "2.3.2")
def test_concurrent_uploads_fill_the_quota_exactly(client: ApiClient) -> None:
    """Ten of these fit; 32 are sent."""
    size = MB // 10
    context = client.create_context(storage_quota_mb=1)
    responses = run_concurrently(*[lambda: client.upload("a.zzz", noise(size), context=context)] * 32)
    assert _statuses(responses) == {201: 10, 400: 22}
    for response in responses:
        if response.status_code == 400:
            assert_rejected(response, "storage_quota_exceeded")
    files, pagination = page(client.get("/files", page_size=100))
    assert pagination["total"] == 10
    assert client.used_bytes(context) == sum(item["size_bytes"] for item in files) == 10 * size <= MB
    assert len(client.object_keys()) == 10


def test_used_bytes_match_the_files_after_concurrent_changes(client: ApiClient) -> None:
    context = client.create_context(storage_quota_mb=1)
    stored = [client.store("a.zzz", noise(50_000), context=context) for _ in range(8)]
    deletes = [lambda file_id=file_id: client.delete(f"/files/{file_id}") for file_id in stored]
    uploads = [lambda: client.upload("b.zzz", noise(30_000), context=context)] * 16
    run_concurrently(*deletes, *uploads)
    files, _ = page(client.get("/files", page_size=100))
    assert client.used_bytes(context) == sum(item["size_bytes"] for item in files)


def test_concurrent_uploads_never_exceed_the_rate(client: ApiClient) -> None:
    context = client.create_context(upload_rate_limit={"max_uploads": 5, "window_seconds": 3600})
    responses = run_concurrently(*[lambda: client.upload(context=context)] * 32)
    assert _statuses(responses) == {201: 5, 429: 27}
    assert client.used_bytes(context) == 5 * len(TEXT)


def test_concurrent_uploads_never_exceed_the_plan(service: Service, deployments: object) -> None:
    """The shared service has the plan's own limit of 500: the usage is set to 497, and 16 uploads are sent."""
    client = service.new_client("free").with_store()
    context = client.create_context()
    client.store(context=context)
    client.execute_sql("UPDATE plan_usage SET uploads = 497 WHERE tenant_id = :tenant", tenant=client.tenant_id)
    responses = run_concurrently(*[lambda: client.upload(context=context)] * 16)
    assert _statuses(responses) == {201: 3, 429: 13}


def test_concurrent_creation_makes_one_context_whose_concurrent_changes_never_mix(bare_client: ApiClient) -> None:
    body = {"context_key": "papers", "display_name": "Papers"}
    responses = run_concurrently(*[lambda: bare_client.post("/contexts", body)] * 16)
    assert _statuses(responses) == {201: 1, 409: 15}
    assert page(bare_client.get("/contexts"))[1]["total"] == 1
    changes = [{"display_name": f"name {number}", "description": f"text {number}"} for number in range(16)]
    patches = [lambda change=change: bare_client.patch("/contexts/papers", change) for change in changes]
    assert _statuses(run_concurrently(*patches)) == {200: 16}
    shown = data(bare_client.get("/contexts/papers"))
    assert {"display_name": shown["display_name"], "description": shown["description"]} in changes


def test_only_one_of_concurrent_deletions_succeeds(client: ApiClient) -> None:
    context = client.create_context()
    kept, gone = client.store(context=context), client.store(context=context)
    responses = run_concurrently(*[lambda: client.delete(f"/files/{gone}")] * 16)
    assert _statuses(responses) == {200: 1, 404: 15}
    assert client.used_bytes(context) == len(TEXT)
    data(client.get(f"/files/{kept}"))


def test_every_concurrent_download_link_is_counted(client: ApiClient) -> None:
    file_id = client.store(context=client.create_context())
    run_concurrently(*[lambda: client.get(f"/files/{file_id}")] * 32)
    assert data(client.get(f"/files/{file_id}/metadata"))["download_count"] == 32


def test_concurrent_revocations_all_succeed(bare_client: ApiClient) -> None:
    path = f"/api-keys/{bare_client.create_key('upload').api_key_id}"
    assert _statuses(run_concurrently(*[lambda: bare_client.delete(path)] * 16)) == {200: 16}
    assert data(bare_client.get(path))["status"] == "revoked"


def test_revoked_key_stores_nothing_after_the_revocation(client: ApiClient) -> None:
    """Uploads run while the key is revoked: none that began after the revocation is accepted."""
    context = client.create_context()
    key = client.create_key("upload")
    uploader = client.with_credential(key)
    began_after: list[int] = []
    revoked = threading.Event()

    def upload_on() -> None:
        for _ in range(15):
            after = revoked.is_set()
            status = uploader.upload(context=context).status_code
            if after:
                began_after.append(status)

    def revoke() -> None:
        data(client.delete(f"/api-keys/{key.api_key_id}"))
        revoked.set()

    run_concurrently(upload_on, upload_on, upload_on, revoke)
    assert set(began_after) == {401}


def test_concurrent_first_buckets_get_one_default(client_on_s3: ApiClient) -> None:
    bodies = [client_on_s3.bucket_body(set_as_default=number % 2 == 0) for number in range(6)]
    responses = run_concurrently(*[lambda body=body: client_on_s3.post(client_on_s3.buckets, body) for body in bodies])
    assert _statuses(responses) == {201: 6}
    assert len(default_buckets(client_on_s3)) == 1


def test_concurrent_buckets_with_one_name_make_one_bucket(client_on_s3: ApiClient) -> None:
    body = client_on_s3.bucket_body(name="one")
    responses = run_concurrently(*[lambda: client_on_s3.post(client_on_s3.buckets, body)] * 6)
    assert _statuses(responses) == {201: 1, 409: 5}
    assert len(data(client_on_s3.get(client_on_s3.buckets))) == 1


def test_readers_see_one_default_bucket_while_it_moves(client_on_s3: ApiClient) -> None:
    ids = [client_on_s3.add_bucket()["config_id"] for _ in range(3)]
    seen: list[int] = []

    def move(config_id: str) -> None:
        for _ in range(8):
            data(client_on_s3.post(f"{client_on_s3.buckets}/{config_id}/set-default"))

    def look() -> None:
        seen.extend(len(default_buckets(client_on_s3)) for _ in range(15))

    run_concurrently(*[lambda config_id=config_id: move(config_id) for config_id in ids], look, look)
    assert set(seen) == {1}
    assert len(default_buckets(client_on_s3)) == 1


@each_row("attempt", range(4))
def test_bucket_is_never_deleted_while_it_is_being_bound(client_on_s3: ApiClient, attempt: int) -> None:
    client_on_s3.add_bucket()
    config_id = client_on_s3.add_bucket()["config_id"]
    context = client_on_s3.create_context()
    bound, deleted = run_concurrently(
        lambda: client_on_s3.patch(f"/contexts/{context}", {"storage_config_id": config_id}),
        lambda: client_on_s3.delete(f"{client_on_s3.buckets}/{config_id}"),
    )
    assert (bound.status_code, deleted.status_code) in {(200, 409), (422, 200)}


@each_row("attempt", range(4))
def test_default_bucket_is_never_deleted_or_made_inactive(client_on_s3: ApiClient, attempt: int) -> None:
    client_on_s3.add_bucket()
    path = f"{client_on_s3.buckets}/{client_on_s3.add_bucket()['config_id']}"
    method, change = ("DELETE", None) if attempt % 2 else ("PATCH", {"is_active": False})
    moved, ended = run_concurrently(
        lambda: client_on_s3.post(f"{path}/set-default"), lambda: client_on_s3.request(method, path, json=change)
    )
    assert sorted([moved.status_code == 200, ended.status_code == 200]) == [False, True]
    (default,) = [bucket for bucket in data(client_on_s3.get(client_on_s3.buckets)) if bucket["is_default"]]
    assert default["is_active"] is True
