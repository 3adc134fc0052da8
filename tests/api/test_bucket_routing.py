"""Where uploads are stored and files are found: routing, object keys, changing and disabling a bucket."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.api.responses import assert_error, assert_validation_error, data, is_now
from tests.api.samples import TEXT, noise
from tests.rows import each_row
from tests.servers.radosgw import RadosGateway
from tests.service import ApiClient

pytestmark = pytest.mark.engine


def _download(client: ApiClient, file_id: str) -> bytes:
    return httpx.get(data(client.get(f"/files/{file_id}"))["download_url"], timeout=30).content


@each_row(
    "template, expected",
    [
        ("{context_key}/{file_id}", "{context}/{file_id}"),
        ("by-sum/{sha256}", "by-sum/{sum}/{file_id}.txt"),
        ("plain", "plain/{file_id}.txt"),
        ("{tenant_id}/x-{file_id}{extension}", "{tenant}/x-{file_id}.txt"),
    ],
)
def test_path_template_makes_the_key(s3: RadosGateway, client_on_s3: ApiClient, template: str, expected: str) -> None:
    bucket = s3.fresh_bucket()
    added = client_on_s3.add_bucket(default_bucket=bucket, base_path="")
    context = client_on_s3.create_context(storage_path_template=template, storage_config_id=added["config_id"])
    file_id = client_on_s3.store("a.txt", context=context)
    key = expected.format(
        context=context, file_id=file_id, tenant=client_on_s3.tenant_id, sum=hashlib.sha256(TEXT).hexdigest()
    )
    assert s3.keys(bucket) == [key]
    assert data(client_on_s3.get(f"/contexts/{context}"))["storage_path_template"] == template


def test_context_stores_into_its_bucket_and_a_change_moves_no_file(s3: RadosGateway, client_on_s3: ApiClient) -> None:
    ordinary, special, later = (s3.fresh_bucket() for _ in range(3))
    client_on_s3.add_bucket(default_bucket=ordinary)
    config_id = client_on_s3.add_bucket(default_bucket=special)["config_id"]
    routed, context = client_on_s3.create_context(storage_config_id=config_id), client_on_s3.create_context()
    stored = {client_on_s3.store("a.zzz", noise(10), context=routed): noise(10)}
    assert (len(s3.keys(ordinary)), len(s3.keys(special))) == (0, 1)
    stored |= {client_on_s3.store("b.zzz", noise(100), context=context): noise(100)}
    changed = data(client_on_s3.patch(f"/contexts/{context}", {"storage_config_id": config_id}))
    assert changed["storage_config_id"] == config_id
    stored |= {client_on_s3.store("c.zzz", noise(200), context=context): noise(200)}
    assert (len(s3.keys(ordinary)), len(s3.keys(special))) == (1, 2)
    client_on_s3.add_bucket(default_bucket=later, set_as_default=True)
    client_on_s3.store(context=client_on_s3.create_context())
    assert [len(s3.keys(bucket)) for bucket in (ordinary, special, later)] == [1, 2, 1]
    assert {file_id: _download(client_on_s3, file_id) for file_id in stored} == stored


def test_upload_goes_to_the_default_bucket_under_its_base_path(s3: RadosGateway, client_on_s3: ApiClient) -> None:
    bucket, context = s3.fresh_bucket(), client_on_s3.create_context()
    before = client_on_s3.store(context=context)
    client_on_s3.add_bucket(default_bucket=bucket, base_path="/intake/a/")
    file_id = client_on_s3.store("a.txt", context=context)
    key = f"intake/a/{client_on_s3.tenant_id}/{context}/{datetime.now(UTC):%Y/%m}/{file_id}.txt"
    assert s3.keys(bucket) == [key]
    assert s3.client.get_object(Bucket=bucket, Key=key)["Body"].read() == TEXT
    assert _download(client_on_s3, before) == TEXT, "a file from before the first bucket"


def test_files_of_a_deleted_bucket_resolve_to_the_default_bucket(s3: RadosGateway, client_on_s3: ApiClient) -> None:
    """Two bucket entries point to one S3 bucket: after one is deleted, its files are reachable through the other."""
    bucket = s3.fresh_bucket()
    client_on_s3.add_bucket(default_bucket=bucket)
    config_id = client_on_s3.add_bucket(default_bucket=bucket)["config_id"]
    context = client_on_s3.create_context(storage_config_id=config_id)
    file_id = client_on_s3.store(context=context)
    client_on_s3.patch(f"/contexts/{context}", {"storage_config_id": ""})
    response = client_on_s3.delete(f"{client_on_s3.buckets}/{config_id}")
    assert data(response) == {"config_id": config_id, "deleted": True}
    assert "1" in response.json()["message"]
    assert len(s3.keys(bucket)) == 1
    assert _download(client_on_s3, file_id) == TEXT


def test_template_that_renders_an_overlong_key_is_refused(s3: RadosGateway, client_on_s3: ApiClient) -> None:
    """S3 keys have at most 1,024 bytes: a template that renders a longer key is refused, or else works."""
    client_on_s3.add_bucket(base_path="p" * 400)
    template = "{sha256}/" * 50 + "{file_id}"
    body = {"context_key": "long", "display_name": "x", "storage_path_template": template}
    response = client_on_s3.post("/contexts", body)
    if response.status_code == 422:
        assert_validation_error(response, "storage_path_template")
        return
    assert client_on_s3.upload(context="long").status_code == 201


def test_bucket_is_renamed_to_a_name_that_no_other_has(client_on_s3: ApiClient) -> None:
    client_on_s3.add_bucket(name="taken")
    added = client_on_s3.add_bucket()
    path = f"{client_on_s3.buckets}/{added['config_id']}"
    assert data(client_on_s3.patch(path, {})) == added
    changed = data(client_on_s3.patch(path, {"name": "renamed"}))
    assert is_now(changed["updated_at"])
    assert changed == added | {"name": "renamed", "updated_at": changed["updated_at"]}
    assert client_on_s3.patch(path, {"name": "taken"}).status_code == 409


BAD_CHANGES: list[dict[str, Any]] = [
    *({"default_bucket": "another"}, {"base_path": "another"}, {"region": "eu-central-1"}, {"endpoint_url": None}),
    *({"is_default": True}, {"set_as_default": True}, {"surprise": 1}),
    *({"name": ""}, {"name": None}, {"is_active": "false"}, {"is_active": None}),
]


@each_row("change", BAD_CHANGES)
def test_change_of_an_immutable_field_is_refused(s3: RadosGateway, client: ApiClient, change: dict[str, Any]) -> None:
    (bucket,) = data(client.get(client.buckets))
    assert_validation_error(client.patch(f"{client.buckets}/{bucket['config_id']}", change), next(iter(change)))
    assert data(client.get(client.buckets)) == [bucket]


@each_row("half", ["access_key_id", "secret_access_key"])
@pytest.mark.asvs("2.2.3", "2.1.2")
def test_half_of_a_credential_is_refused(s3: RadosGateway, client: ApiClient, half: str) -> None:
    (bucket,) = data(client.get(client.buckets))
    response = client.patch(f"{client.buckets}/{bucket['config_id']}", {half: "x" * 20})
    assert response.status_code == 422
    assert all(": " in problem for problem in response.json()["errors"])


def test_credential_is_rotated_only_to_a_working_one(s3: RadosGateway, client: ApiClient) -> None:
    (bucket,), context = data(client.get(client.buckets)), client.create_context()
    path = f"{client.buckets}/{bucket['config_id']}"
    right = {"access_key_id": s3.access_key, "secret_access_key": s3.secret_key}
    response = client.patch(path, right | {"secret_access_key": "canary-secret-that-is-never-told"})
    assert response.status_code == 422
    assert "canary" not in response.text
    client.store(context=context)
    assert is_now(data(client.patch(path, right))["updated_at"])
    client.store(context=context)


INACTIVE = ("Bucket is inactive", "Set the bucket's is_active to true, or choose another bucket")


def test_inactive_bucket_serves_its_files_and_takes_no_others(client_on_s3: ApiClient) -> None:
    client_on_s3.add_bucket()
    config_id = client_on_s3.add_bucket()["config_id"]
    path, route = f"{client_on_s3.buckets}/{config_id}", {"storage_config_id": config_id}
    context, other = client_on_s3.create_context(**route), client_on_s3.create_context()
    file_id = client_on_s3.store(context=context)
    assert data(client_on_s3.patch(path, {"is_active": False}))["is_active"] is False
    assert_error(client_on_s3.upload(context=context), 409, *INACTIVE)
    assert client_on_s3.used_bytes(context) == len(TEXT)
    assert _download(client_on_s3, file_id) == TEXT
    assert_error(client_on_s3.post(f"{path}/set-default"), 409, *INACTIVE)
    body = {"context_key": "papers", "display_name": "x", **route}
    assert_error(client_on_s3.post("/contexts", body), 409, *INACTIVE)
    assert_error(client_on_s3.patch(f"/contexts/{other}", route), 409, *INACTIVE)
    client_on_s3.patch(path, {"is_active": True})
    client_on_s3.store(context=context)


def test_inactive_bucket_can_be_deleted_and_the_default_one_not_be_inactive(client_on_s3: ApiClient) -> None:
    default, path = (f"{client_on_s3.buckets}/{client_on_s3.add_bucket()['config_id']}" for _ in range(2))
    response = client_on_s3.patch(default, {"is_active": False})
    assert_error(response, 409, "The default bucket cannot be made inactive", "Set another default first")
    assert data(client_on_s3.get(default))["is_active"] is True
    data(client_on_s3.patch(path, {"is_active": False}))
    data(client_on_s3.delete(path))
