"""Changes while a slow body arrives: the upload is judged by the snapshot of its start, with and without a cache."""

import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.api import forms
from tests.api.responses import assert_rejected, assert_unauthenticated, data, page
from tests.api.samples import noise
from tests.service import ApiClient, Service, running_service

CLIENT_PAUSE_SECONDS = 0.2  # a cached snapshot is confirmed once an upload has lasted 0.1 s
ROUND_TRIPS = 10  # each asks the database after the confirmation did, however busy the machine is


@pytest.fixture(scope="module")
def caching_process(service: Service) -> Iterator[Service]:
    """A second process of the same service with the longest cache time; the first process makes the changes."""
    with running_service(service.deployment, REMEMBER_SECONDS="10") as process:
        yield process


@pytest.fixture
def context(client: ApiClient) -> str:
    return client.create_context(allowed_extensions=["zzz"])


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


@pytest.mark.engine
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
