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


# where uploads go


def test_upload_goes_to_the_default_bucket_under_its_base_path(s3: RadosGateway, client_on_s3: ApiClient) -> None:
    bucket = s3.fresh_bucket()
    client_on_s3.add_bucket(default_bucket=bucket, base_path="/intake/a/")
    context = client_on_s3.create_context()
    file_id = client_on_s3.store("a.txt", context=context)
    now = datetime.now(UTC)
    assert s3.keys(bucket) == [f"intake/a/{client_on_s3.tenant_id}/{context}/{now:%Y}/{now:%m}/{file_id}.txt"]
    stored = s3.client.get_object(Bucket=bucket, Key=s3.keys(bucket)[0])
    assert stored["Body"].read() == TEXT


@each_row(
    "template, expected",
    [
        ("{context_key}/{file_id}", "{context}/{file_id}"),
        ("by-sum/{sha256}", "by-sum/{sum}/{file_id}.txt"),
        ("plain", "plain/{file_id}.txt"),
        ("{tenant_id}/x-{file_id}{extension}", "{tenant}/x-{file_id}.txt"),
    ],
)
def test_path_template_determines_the_object_key(
    s3: RadosGateway, client_on_s3: ApiClient, template: str, expected: str
) -> None:
    bucket = s3.fresh_bucket()
    added = client_on_s3.add_bucket(default_bucket=bucket, base_path="")
    context = client_on_s3.create_context(storage_path_template=template, storage_config_id=added["config_id"])
    file_id = client_on_s3.store("a.txt", context=context)
    key = expected.format(
        context=context, file_id=file_id, tenant=client_on_s3.tenant_id, sum=hashlib.sha256(TEXT).hexdigest()
    )
    assert s3.keys(bucket) == [key]
    assert data(client_on_s3.get(f"/contexts/{context}"))["storage_path_template"] == template


def test_context_stores_into_its_own_bucket(s3: RadosGateway, client_on_s3: ApiClient) -> None:
    ordinary, special = s3.fresh_bucket(), s3.fresh_bucket()
    client_on_s3.add_bucket(default_bucket=ordinary)
    routed = client_on_s3.create_context(storage_config_id=client_on_s3.add_bucket(default_bucket=special)["config_id"])
    file_id = client_on_s3.store(context=routed)
    assert (len(s3.keys(ordinary)), len(s3.keys(special))) == (0, 1)
    assert _download(client_on_s3, file_id) == TEXT


def test_rerouting_a_context_does_not_move_its_files(s3: RadosGateway, client_on_s3: ApiClient) -> None:
    before, after = s3.fresh_bucket(), s3.fresh_bucket()
    client_on_s3.add_bucket(default_bucket=before)
    config_id = client_on_s3.add_bucket(default_bucket=after)["config_id"]
    context = client_on_s3.create_context()
    first = client_on_s3.store("a.zzz", noise(100), context=context)
    assert (
        data(client_on_s3.patch(f"/contexts/{context}", {"storage_config_id": config_id}))["storage_config_id"]
        == config_id
    )
    second = client_on_s3.store("b.zzz", noise(200), context=context)
    assert (len(s3.keys(before)), len(s3.keys(after))) == (1, 1)
    assert (_download(client_on_s3, first), _download(client_on_s3, second)) == (noise(100), noise(200))


def test_new_default_bucket_applies_only_to_new_uploads(s3: RadosGateway, client_on_s3: ApiClient) -> None:
    before, after = s3.fresh_bucket(), s3.fresh_bucket()
    client_on_s3.add_bucket(default_bucket=before)
    context = client_on_s3.create_context()
    first = client_on_s3.store("a.zzz", noise(100), context=context)
    client_on_s3.add_bucket(default_bucket=after, set_as_default=True)
    client_on_s3.store(context=context)
    assert (len(s3.keys(before)), len(s3.keys(after))) == (1, 1)
    assert _download(client_on_s3, first) == noise(100)


def test_file_stored_before_the_first_bucket_stays_downloadable(s3: RadosGateway, client_on_s3: ApiClient) -> None:
    context = client_on_s3.create_context()
    file_id = client_on_s3.store(context=context)
    client_on_s3.add_bucket()
    assert _download(client_on_s3, file_id) == TEXT


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
    response = client_on_s3.post(
        "/contexts",
        {"context_key": "long", "display_name": "x", "storage_path_template": "{sha256}/" * 50 + "{file_id}"},
    )
    if response.status_code == 422:
        assert_validation_error(response, "storage_path_template")
        return
    assert client_on_s3.upload(context="long").status_code == 201


# changing a bucket


def test_bucket_is_renamed(client_on_s3: ApiClient) -> None:
    added = client_on_s3.add_bucket()
    changed = data(client_on_s3.patch(f"{client_on_s3.buckets}/{added['config_id']}", {"name": "renamed"}))
    assert is_now(changed["updated_at"])
    assert changed == added | {"name": "renamed", "updated_at": changed["updated_at"]}


def test_bucket_can_not_take_the_name_of_another(client_on_s3: ApiClient) -> None:
    client_on_s3.add_bucket(name="taken")
    response = client_on_s3.patch(f"{client_on_s3.buckets}/{client_on_s3.add_bucket()['config_id']}", {"name": "taken"})
    assert response.status_code == 409


def test_empty_change_changes_nothing(client_on_s3: ApiClient) -> None:
    added = client_on_s3.add_bucket()
    assert data(client_on_s3.patch(f"{client_on_s3.buckets}/{added['config_id']}", {})) == added


BAD_CHANGES: list[dict[str, Any]] = [
    {"default_bucket": "another"},
    {"base_path": "another"},
    {"region": "eu-central-1"},
    {"endpoint_url": None},
    {"is_default": True},
    {"set_as_default": True},
    {"surprise": 1},
    {"name": ""},
    {"name": None},
    {"is_active": "false"},
    {"is_active": None},
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


def test_rotation_to_a_wrong_credential_is_refused(s3: RadosGateway, client: ApiClient) -> None:
    (bucket,) = data(client.get(client.buckets))
    wrong = {"access_key_id": s3.access_key, "secret_access_key": "canary-secret-that-is-never-told"}
    response = client.patch(f"{client.buckets}/{bucket['config_id']}", wrong)
    assert response.status_code == 422
    assert "canary" not in response.text
    client.store(context=client.create_context())


def test_rotation_to_a_working_credential_succeeds(s3: RadosGateway, client: ApiClient) -> None:
    (bucket,) = data(client.get(client.buckets))
    right = {"access_key_id": s3.access_key, "secret_access_key": s3.secret_key}
    assert is_now(data(client.patch(f"{client.buckets}/{bucket['config_id']}", right))["updated_at"])
    client.store(context=client.create_context())


# disabling a bucket


INACTIVE = ("Bucket is inactive", "Set the bucket's is_active to true, or choose another bucket")


@pytest.fixture
def inactive_bucket_id(client_on_s3: ApiClient) -> str:
    """The id of a second bucket, which is inactive."""
    client_on_s3.add_bucket()
    config_id = str(client_on_s3.add_bucket()["config_id"])
    assert data(client_on_s3.patch(f"{client_on_s3.buckets}/{config_id}", {"is_active": False}))["is_active"] is False
    return config_id


def test_default_bucket_can_not_be_made_inactive(client_on_s3: ApiClient) -> None:
    config_id = client_on_s3.add_bucket()["config_id"]
    response = client_on_s3.patch(f"{client_on_s3.buckets}/{config_id}", {"is_active": False})
    assert_error(response, 409, "The default bucket cannot be made inactive", "Set another default first")
    assert data(client_on_s3.get(f"{client_on_s3.buckets}/{config_id}"))["is_active"] is True


def test_inactive_bucket_can_not_become_the_default(client_on_s3: ApiClient, inactive_bucket_id: str) -> None:
    assert_error(client_on_s3.post(f"{client_on_s3.buckets}/{inactive_bucket_id}/set-default"), 409, *INACTIVE)


def test_context_can_not_be_bound_to_an_inactive_bucket(client_on_s3: ApiClient, inactive_bucket_id: str) -> None:
    body = {"context_key": "papers", "display_name": "x", "storage_config_id": inactive_bucket_id}
    assert_error(client_on_s3.post("/contexts", body), 409, *INACTIVE)
    context = client_on_s3.create_context()
    assert_error(client_on_s3.patch(f"/contexts/{context}", {"storage_config_id": inactive_bucket_id}), 409, *INACTIVE)


def test_inactive_bucket_refuses_uploads_and_serves_its_files(client_on_s3: ApiClient) -> None:
    client_on_s3.add_bucket()
    config_id = client_on_s3.add_bucket()["config_id"]
    context = client_on_s3.create_context(storage_config_id=config_id)
    file_id = client_on_s3.store(context=context)
    client_on_s3.patch(f"{client_on_s3.buckets}/{config_id}", {"is_active": False})
    assert_error(client_on_s3.upload(context=context), 409, *INACTIVE)
    assert client_on_s3.used_bytes(context) == len(TEXT)
    assert _download(client_on_s3, file_id) == TEXT
    client_on_s3.patch(f"{client_on_s3.buckets}/{config_id}", {"is_active": True})
    client_on_s3.store(context=context)


def test_inactive_bucket_can_be_deleted(client_on_s3: ApiClient, inactive_bucket_id: str) -> None:
    data(client_on_s3.delete(f"{client_on_s3.buckets}/{inactive_bucket_id}"))
