"""The cached snapshot of caller and context: a change made in any process applies to the next upload.

One process caches for ten seconds and another makes the changes, so that no process tells itself. A change while a slow
body arrives does not apply, but a revoked key is refused: an upload is judged by the snapshot of its start.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from sqlalchemy import text

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from tests.api import forms
from tests.api.responses import assert_rejected, assert_unauthenticated, data, page
from tests.api.samples import noise
from tests.api.test_key_limits import assert_limited, key_path
from tests.deployments import Deployments
from tests.rows import each_row
from tests.service import ApiClient, Service, running_service

WAITING = text("SELECT count(*) FROM pg_locks WHERE NOT granted")


@pytest.fixture
def context(client: ApiClient) -> str:
    return client.create_context(allowed_extensions=["zzz"], storage_quota_mb=1)


@pytest.fixture
def caching_client(client: ApiClient, caching_process: Service, context: str) -> ApiClient:
    """An API client of the caching process, which has already cached the context and the credential."""
    uploader = ApiClient(caching_process, client.tenant_id, client.authorization)
    uploader.store("a.zzz", noise(100), context=context)
    return uploader


def cached_key(client: ApiClient, caching_client: ApiClient, context: str) -> tuple[str, ApiClient]:
    """Return the path of a new key, and a client that uses it, which the caching process has already cached."""
    key = client.create_key("upload", name="old")
    uploader = caching_client.with_credential(key)
    uploader.store("a.zzz", noise(100), context=context)
    return f"/api-keys/{key.api_key_id}", uploader


@pytest.mark.engine
def test_changed_key_applies_to_its_next_upload_and_a_revoked_one_stores_and_learns_nothing(
    client: ApiClient, caching_client: ApiClient, context: str
) -> None:
    path, uploader = cached_key(client, caching_client, context)
    data(client.patch(path, {"name": "new"}))
    uploader.store("a.zzz", noise(100), context=context)
    assert client.decisions()[-1]["actor"]["name"] == "new"
    data(client.patch(path, {"scopes": ["metadata"]}))
    assert uploader.upload("a.zzz", noise(100), context=context).status_code == 403
    for name in ["a.zzz", "a.exe", ""]:
        path, uploader = cached_key(client, caching_client, context)
        before = client.object_keys()
        data(client.delete(path))
        assert_unauthenticated(uploader.upload(name, noise(100), context=context))
        assert client.object_keys() == before


@each_row("via", ["key", "jwt"])
def test_suspended_tenant_stores_nothing(client: ApiClient, caching_client: ApiClient, context: str, via: str) -> None:
    uploader = caching_client if via == "key" else caching_client.with_credential(client.token(scope="upload"))
    uploader.store("a.zzz", noise(100), context=context)
    client.set_status("suspended")
    assert_unauthenticated(uploader.upload("a.zzz", noise(100), context=context))
    client.set_status("active")


@pytest.mark.engine
def test_changed_rules_apply_immediately(client: ApiClient, caching_client: ApiClient, context: str) -> None:
    looser = {"allowed_extensions": ["yyy"], "max_file_size_mb": 2, "storage_quota_mb": 9}
    data(client.patch(f"/contexts/{context}", looser))
    caching_client.store("a.yyy", noise(1_500_000), context=context)
    data(client.patch(f"/contexts/{context}", {"allowed_extensions": ["txt"]}))
    assert_rejected(caching_client.upload("a.yyy", noise(100), context=context), "extension_not_allowed")
    context = client.create_context(max_file_size_mb=1)
    caching_client.store("a.zzz", noise(100), context=context)
    data(client.patch(f"/contexts/{context}", {"max_file_size_mb": 3}))
    file_id = caching_client.store("a.zzz", noise(2_500_000), context=context)
    assert data(client.get(f"/files/{file_id}/metadata"))["size_bytes"] == 2_500_000
    data(client.patch(f"/contexts/{context}", {"status": "inactive"}))
    assert caching_client.upload("a.zzz", noise(100), context=context).status_code == 409
    data(client.patch(f"/contexts/{context}", {"status": "active"}))
    caching_client.store("a.zzz", noise(100), context=context)


def test_quota_and_rate_are_counted_once(client: ApiClient, caching_client: ApiClient, context: str) -> None:
    file_id = caching_client.store("a.zzz", noise(900_000), context=context)
    assert_rejected(caching_client.upload("a.zzz", noise(900_000), context=context), "storage_quota_exceeded")
    data(client.delete(f"/files/{file_id}"))
    caching_client.store("a.zzz", noise(900_000), context=context)
    data(client.patch(f"/contexts/{context}", {"upload_rate_limit": {"max_uploads": 2, "window_seconds": 60}}))
    caching_client.store("a.zzz", noise(100), context=context)
    data(client.patch(f"/contexts/{context}", {"storage_path_template": "{file_id}"}))
    caching_client.store("a.zzz", noise(100), context=context)  # judged twice
    assert_rejected(caching_client.upload("a.zzz", noise(100), context=context), "rate_limit_exceeded", status=429)


@pytest.mark.usefixtures("s3")
def test_changed_buckets_apply_to_the_next_upload(client: ApiClient, caching_client: ApiClient, context: str) -> None:
    client.add_bucket(set_as_default=True, base_path=f"{client.tenant_id}/moved")
    caching_client.store("a.zzz", noise(100), context=context)
    assert sum("/moved/" in key for key in client.object_keys()) == 1
    config_id = client.add_bucket()["config_id"]
    data(client.patch(f"/contexts/{context}", {"storage_config_id": config_id}))
    caching_client.store("a.zzz", noise(100), context=context)
    data(client.patch(f"{client.buckets}/{config_id}", {"is_active": False}))
    assert caching_client.upload("a.zzz", noise(100), context=context).status_code == 409
    data(client.patch(f"{client.buckets}/{config_id}", {"is_active": True}))
    caching_client.store("a.zzz", noise(100), context=context)


def test_unknown_outcome_is_reported_to_a_key_revoked_during_the_upload(deployments: Deployments) -> None:
    with running_service(deployments.fresh("postgres-s3"), DATABASE_LOCK_SECONDS="1", REMEMBER_SECONDS="10") as service:
        client = service.new_client()
        context = client.create_context(allowed_extensions=["zzz"])
        uploader = client.with_credential(client.create_key("upload"))
        uploader.store("a.zzz", noise(100), context=context)
        response = _while_decisions_are_locked(service, lambda: uploader.upload("b.zzz", noise(100), context=context))
    assert response.status_code == 503
    assert "may have been stored" in response.text


def _while_decisions_are_locked(service: Service, upload: Callable[[], httpx.Response]) -> httpx.Response:
    """Let the upload reserve and store, and revoke every key while it waits to record, until it gives up."""
    locked, answered = threading.Event(), threading.Event()

    async def hold(database: Database) -> None:
        async with database.transaction(ALL_TENANTS) as connection:
            await connection.execute(text("LOCK TABLE decisions"))
            locked.set()
            while not (await connection.execute(WAITING)).scalar_one():  # noqa: ASYNC110  (another connection waits)
                await asyncio.sleep(0.02)
            async with database.transaction(ALL_TENANTS) as other:
                await other.execute(text("UPDATE api_keys SET status = 'revoked'"))
            await asyncio.to_thread(answered.wait, 30)

    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(service.on_database, hold)
        try:
            assert locked.wait(30)
            return upload()
        finally:
            answered.set()
            holding.result()


CLIENT_PAUSE_SECONDS = 0.2  # a cached snapshot is confirmed once an upload has lasted 0.1 s
ROUND_TRIPS = 10  # each asks the database after the confirmation did, however busy the machine is


@pytest.fixture(params=[True, False], ids=["cached", "not-cached"])
def is_warm(request: pytest.FixtureRequest) -> bool:
    """Whether the second process has cached caller and context before the upload."""
    return bool(request.param)


def upload_slowly(uploader: ApiClient, context: str, during: Callable[[], object]) -> httpx.Response:
    """Upload, and call `during` in the middle of the body, when the upload's snapshot is confirmed."""
    body = forms.encode([forms.field("context", context), forms.file("a.zzz", noise(1000))])

    def pieces() -> Iterator[bytes]:
        yield body[:-500]
        uploader.get(f"/contexts/{context}")
        time.sleep(CLIENT_PAUSE_SECONDS)
        for _ in range(ROUND_TRIPS):
            uploader.get(f"/contexts/{context}")
        during()
        yield body[-500:]

    return uploader.post("/files/upload", content=pieces(), headers={"Content-Type": forms.content_type()})


@pytest.fixture
def uploader(client: ApiClient, caching_process: Service, context: str, *, is_warm: bool) -> ApiClient:
    """A client of the second process with a key of its own."""
    text = client.create_key("upload", "metadata", name="slow").text
    uploader = ApiClient(caching_process, client.tenant_id, f"Bearer {text}")
    if is_warm:
        uploader.store("a.zzz", noise(100), context=context)
    return uploader


def own_key(client: ApiClient) -> str:
    (key_id,) = [key["api_key_id"] for key in page(client.get("/api-keys"))[0] if key["name"] == "slow"]
    return f"/api-keys/{key_id}"


def test_rule_changed_during_the_upload_does_not_apply(client: ApiClient, uploader: ApiClient, context: str) -> None:
    path, stricter = f"/contexts/{context}", {"allowed_extensions": ["txt"]}
    response = upload_slowly(uploader, context, lambda: data(client.patch(path, stricter)))
    assert response.status_code == 201, response.text
    assert_rejected(uploader.upload("a.zzz", noise(100), context=context), "extension_not_allowed")


def test_scope_removed_during_the_upload_does_not_apply(client: ApiClient, uploader: ApiClient, context: str) -> None:
    path = own_key(client)
    response = upload_slowly(uploader, context, lambda: data(client.patch(path, {"scopes": ["metadata"]})))
    assert response.status_code == 201, response.text
    assert uploader.upload("a.zzz", noise(100), context=context).status_code == 403


@pytest.mark.engine
def test_key_revoked_during_the_upload_is_refused(client: ApiClient, uploader: ApiClient, context: str) -> None:
    path, before = own_key(client), client.object_keys()
    assert_unauthenticated(upload_slowly(uploader, context, lambda: data(client.delete(path))))
    assert client.object_keys() == before


def test_order_of_rules_does_not_depend_on_a_cache(
    client: ApiClient, caching_process: Service, *, is_warm: bool
) -> None:
    context = client.create_context(allowed_extensions=["txt", "zzz"], storage_quota_mb=1)
    caching_client = ApiClient(caching_process, client.tenant_id, client.authorization)
    if is_warm:
        caching_client.store("a.zzz", noise(100), context=context)
    client.store("full.zzz", noise(1024 * 1024 - (100 if is_warm else 0)), context=context)
    assert_rejected(caching_client.upload("a.txt", b"  ", context=context), "storage_quota_exceeded")


def test_changed_contexts_and_networks_apply_to_the_next_upload(client: ApiClient, caching_process: Service) -> None:
    own, other = client.create_context(), client.create_context()
    for process in (client.service, caching_process):
        key = client.create_key("upload")
        path, uploader = key_path(key), ApiClient(process, client.tenant_id, f"Bearer {key.text}")
        uploader.store(context=own)
        for _ in range(3):
            data(client.patch(path, {"contexts": [other]}))
            assert_limited(uploader.upload(context=own), f"context: expected one of {other}")
            uploader.store(context=other)
            data(client.patch(path, {"contexts": [own]}))
            assert_limited(uploader.upload(context=other), f"context: expected one of {own}")
            uploader.store(context=own)
        data(client.patch(path, {"contexts": None}))
        uploader.store(context=other)
        data(client.patch(path, {"allowed_networks": ["192.0.2.0/24"]}))
        assert_limited(uploader.upload(context=own), "address: expected one of")
        data(client.patch(path, {"allowed_networks": ["127.0.0.1"]}))
        uploader.store(context=own)


@pytest.mark.asvs("7.4.1")
def test_revoked_key_is_refused_immediately_by_every_process(client: ApiClient, caching_process: Service) -> None:
    key = client.create_key("metadata")
    callers = [
        ApiClient(process, client.tenant_id, f"Bearer {key.text}") for process in (caching_process, client.service)
    ]
    assert callers[0].get("/contexts").status_code == 200
    data(client.delete(f"/api-keys/{key.api_key_id}"))
    for caller in callers:
        assert_unauthenticated(caller.get("/contexts"))
