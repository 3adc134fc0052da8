"""Changes while a slow body arrives: the upload is judged by the snapshot of its start, with and without a cache."""

import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.api import forms
from tests.api.responses import assert_rejected, assert_unauthenticated, data
from tests.api.samples import noise
from tests.service import ApiClient, Service, running_service

pytestmark = pytest.mark.engine

CLIENT_PAUSE_SECONDS = 0.5  # a cached snapshot is confirmed once an upload has lasted 0.1 s
ROUND_TRIPS = 10  # each asks the database after the confirmation did, however busy the machine is

with_and_without_cache = pytest.mark.parametrize("is_warm", [True, False], ids=["cached", "not-cached"])


@pytest.fixture(scope="module")
def caching_process(service: Service) -> Iterator[Service]:
    """A second process of the same service with the longest cache time; the first process makes the changes."""
    with running_service(service.deployment, REMEMBER_SECONDS="10") as process:
        yield process


@pytest.fixture
def context(client: ApiClient) -> str:
    return client.create_context(allowed_extensions=["zzz"])


def upload_slowly(client: ApiClient, context: str, during: Callable[[], object], content: bytes) -> httpx.Response:
    """Upload `content`, and call `during` in the middle of the body, when the upload's snapshot is confirmed."""
    body = forms.encode([forms.field("context", context), forms.file("a.zzz", content)])
    middle = len(body) - len(content) // 2

    def pieces() -> Iterator[bytes]:
        yield body[:middle]
        client.get(f"/contexts/{context}")
        began = time.monotonic()
        while time.monotonic() - began < CLIENT_PAUSE_SECONDS:
            client.get(f"/contexts/{context}")
        for _ in range(ROUND_TRIPS):
            client.get(f"/contexts/{context}")
        during()
        yield body[middle:]

    return client.post("/files/upload", content=pieces(), headers={"Content-Type": forms.content_type()})


@with_and_without_cache
def test_rule_changed_during_the_upload_does_not_apply(
    client: ApiClient, caching_process: Service, context: str, *, is_warm: bool
) -> None:
    caching_client = ApiClient(caching_process, client.tenant_id, client.authorization)
    if is_warm:
        caching_client.store("a.zzz", noise(100), context=context)
    response = upload_slowly(
        caching_client,
        context,
        lambda: data(client.patch(f"/contexts/{context}", {"allowed_extensions": ["txt"]})),
        noise(1000),
    )
    assert response.status_code == 201, response.text
    assert_rejected(caching_client.upload("a.zzz", noise(100), context=context), "extension_not_allowed")


@with_and_without_cache
def test_scope_removed_during_the_upload_does_not_apply(
    client: ApiClient, caching_process: Service, context: str, *, is_warm: bool
) -> None:
    key = client.create_key("upload")
    caching_client = ApiClient(caching_process, client.tenant_id, client.authorization).with_credential(key)
    if is_warm:
        caching_client.store("a.zzz", noise(100), context=context)
    response = upload_slowly(
        caching_client,
        context,
        lambda: data(client.patch(f"/api-keys/{key.api_key_id}", {"scopes": ["metadata"]})),
        noise(1000),
    )
    assert response.status_code == 201, response.text
    assert caching_client.upload("a.zzz", noise(100), context=context).status_code == 403


@with_and_without_cache
def test_key_revoked_during_the_upload_is_refused_at_commit(
    client: ApiClient, caching_process: Service, context: str, *, is_warm: bool
) -> None:
    key = client.create_key("upload")
    caching_client = ApiClient(caching_process, client.tenant_id, client.authorization).with_credential(key)
    if is_warm:
        caching_client.store("a.zzz", noise(100), context=context)
    before = client.object_keys()
    assert_unauthenticated(
        upload_slowly(caching_client, context, lambda: data(client.delete(f"/api-keys/{key.api_key_id}")), noise(1000))
    )
    assert client.object_keys() == before


@with_and_without_cache
def test_order_of_rules_is_the_same_with_and_without_a_cache(
    client: ApiClient, caching_process: Service, *, is_warm: bool
) -> None:
    context = client.create_context(allowed_extensions=["txt", "zzz"], storage_quota_mb=1)
    caching_client = ApiClient(caching_process, client.tenant_id, client.authorization)
    if is_warm:
        caching_client.store("a.zzz", noise(100), context=context)
    client.store("full.zzz", noise(1024 * 1024 - (100 if is_warm else 0)), context=context)
    assert_rejected(caching_client.upload("a.txt", b"  ", context=context), "storage_quota_exceeded")
