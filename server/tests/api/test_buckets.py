"""Storage buckets: add, list, read, make default, change, delete; where uploads are stored, and files are found."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.api.responses import assert_error, assert_not_found, assert_validation_error, bad_values, data, is_now
from tests.api.samples import TEXT, noise
from tests.deployments import Deployments
from tests.rows import each_row
from tests.servers.radosgw import RadosGateway
from tests.service import ApiClient, running_service

FIELDS = {
    *("config_id", "tenant_id", "name", "provider", "access_key_id", "region", "default_bucket", "base_path"),
    *("is_active", "is_default", "created_at", "updated_at"),
}
UNKNOWN = "bkt_00000000000000000000000000"
UNPROBED: dict[str, Any] = {
    "name": "archive",
    "access_key_id": "AKIAIOSFODNN7EXAMPLE",
    "secret_access_key": "canary-secret-that-is-never-shown",
    "default_bucket": "archive-of-weir",
}
"""A well-formed body; it is refused before a probe, or names an endpoint that does not exist."""


def default_buckets(client: ApiClient) -> list[str]:
    return [bucket["config_id"] for bucket in data(client.get(client.buckets)) if bucket["is_default"]]


_HOSTS = ("127.0.0.1:1", "localhost", "169.254.169.254", "[::1]", "elsewhere.example", "user@127.0.0.1")
BAD_VALUES = [
    *bad_values("name", "", "n" * 101, None, 7, ["x"], "a\u0000b"),
    *bad_values("access_key_id", "A" * 15, "A" * 129, "", None, 7),
    *bad_values("secret_access_key", "", None, 7, []),
    *bad_values("default_bucket", "ab", "xn--abc", "b" * 64, "", None, 7),
    *bad_values("region", "", None, 7, "r" * 64, "-eu", "xn--abc"),
    *bad_values("base_path", None, 7, "a/../b", "a//b", "a\u0000b", "_incoming", "/_exports/a/", ".sluice-probe"),
    *bad_values("set_as_default", "true", 1, None),
    *bad_values("endpoint_url", 7, "", "not a url", "ftp://127.0.0.1", *[f"http://{host}" for host in _HOSTS]),
    *bad_values("surprise", 1),
    *bad_values("is_active", True),
    *bad_values("tenant_id", "ten_1"),
    *bad_values("provider", "s3", "", None, 7),
]


def test_invalid_value_or_missing_field_is_refused_on_create(shared_client: ApiClient) -> None:
    for field, value, named in BAD_VALUES:
        before = data(shared_client.get(shared_client.buckets))
        response = shared_client.post(shared_client.buckets, UNPROBED | {field: value})
        assert_validation_error(response, named)
        assert UNPROBED["secret_access_key"] not in response.text
        assert data(shared_client.get(shared_client.buckets)) == before
    for missing in UNPROBED:
        body = {name: value for name, value in UNPROBED.items() if name != missing}
        assert_validation_error(shared_client.post(shared_client.buckets, body), missing)


def test_returns_404_for_an_unknown_bucket_or_tenant_in_the_path(shared_client: ApiClient) -> None:
    for config_id in (UNKNOWN, "nonsense", "%00", "x" * 4000):
        path = f"{shared_client.buckets}/{config_id}"
        assert_not_found(shared_client.get(path))
        assert_not_found(shared_client.patch(path, {"name": "x"}))
        assert_not_found(shared_client.post(f"{path}/set-default"))
        assert_not_found(shared_client.delete(path))
    for tenant_id in ("ten_00000000000000000000000000", "nonsense", "%00"):
        path = f"/tenants/{tenant_id}/storage-configs"
        assert_not_found(shared_client.get(path))
        assert_not_found(shared_client.post(path, UNPROBED))
        assert_not_found(shared_client.get(f"{path}/{UNKNOWN}"))


def test_added_bucket_is_read_and_listed_with_exactly_its_fields(s3: RadosGateway, client_on_s3: ApiClient) -> None:
    assert data(client_on_s3.get(client_on_s3.buckets)) == []
    bucket = s3.fresh_bucket()
    body = client_on_s3.bucket_body(name="archive", base_path="intake", default_bucket=bucket)
    del body["region"]
    added = data(client_on_s3.post(client_on_s3.buckets, body), 201)
    assert s3.keys(bucket) == [], "the probe leaves no object"
    assert data(client_on_s3.get(f"{client_on_s3.buckets}/{added['config_id']}")) == added
    response = client_on_s3.get(client_on_s3.buckets)
    assert data(response) == [added]
    assert set(response.json()) == {"status", "message", "data", "timestamp"}
    assert added.pop("config_id").startswith("bkt_")
    assert is_now(added.pop("created_at"))
    assert added == {
        "tenant_id": client_on_s3.tenant_id,
        "name": "archive",
        "provider": "objstore_s3",
        "access_key_id": f"{body['access_key_id'][:4]}…{body['access_key_id'][-4:]}",
        "region": "us-east-1",
        "default_bucket": bucket,
        "base_path": "intake",
        "is_active": True,
        "is_default": True,
        "updated_at": None,
    }


def test_no_response_contains_a_bucket_credential(s3: RadosGateway, client_on_s3: ApiClient) -> None:
    body = client_on_s3.bucket_body()
    added = client_on_s3.post(client_on_s3.buckets, body)
    path = f"{client_on_s3.buckets}/{added.json()['data']['config_id']}"
    rotated = client_on_s3.patch(path, {"access_key_id": s3.access_key, "secret_access_key": s3.secret_key})
    again, default = client_on_s3.post(client_on_s3.buckets, body), client_on_s3.post(f"{path}/set-default")
    shown = [added, rotated, again, default, client_on_s3.get(client_on_s3.buckets), client_on_s3.get(path)]
    for response in shown:
        assert s3.secret_key not in response.text
        assert s3.access_key not in response.text
    assert s3.secret_key not in client_on_s3.service.log.read_text()


@each_row(
    "field, sent, kept",
    [
        *[("base_path", "", ""), ("base_path", "a", "a"), ("base_path", "/a/b/", "a/b"), ("base_path", "a/b", "a/b")],
        *[("name", name, name) for name in ("n", "n" * 100, "Ünïcødé 🌊")],
    ],
)
def test_valid_value_is_kept_without_outer_slashes(client_on_s3: ApiClient, field: str, sent: str, kept: str) -> None:
    assert client_on_s3.add_bucket(**{field: sent})[field] == kept


def test_endpoint_that_is_listed_but_no_address_is_refused(deployments: Deployments) -> None:
    hosts = ("xn--abc", "999.1.1.1", "münchen.example", "fe80::1%lo")
    settings = {"BUCKET_ENDPOINT_HOSTS": ",".join(hosts), "BUCKET_PROBE": "off"}
    with running_service(deployments.fresh("sqlite-local"), **settings) as service:
        client = service.new_client()
        for host in hosts:
            endpoint = f"http://[{host}]" if ":" in host else f"http://{host}"
            response = client.post(client.buckets, UNPROBED | {"endpoint_url": endpoint})
            assert_validation_error(response, "default_bucket")
        assert data(client.get(client.buckets)) == []


@each_row("field, wrong", [
    *(("secret_access_key", "canary-secret-that-is-never-shown"), ("access_key_id", "UNKNOWNKEY0123456")),
    ("default_bucket", "a-bucket-that-is-not-there"),
])  # fmt: skip
def test_unusable_bucket_is_refused_with_a_reason(client_on_s3: ApiClient, field: str, wrong: str) -> None:
    response = client_on_s3.post(client_on_s3.buckets, client_on_s3.bucket_body(**{field: wrong}))
    assert (response.status_code, response.json()["message"]) == (422, "Validation error")
    (problem,) = response.json()["errors"]
    assert len(problem.partition(": ")[2]) > 10
    assert "canary" not in response.text
    assert data(client_on_s3.get(client_on_s3.buckets)) == []


def test_default_is_the_first_bucket_until_it_is_moved(client_on_s3: ApiClient) -> None:
    first, second = client_on_s3.add_bucket(set_as_default=False), client_on_s3.add_bucket()
    assert (first["is_default"], second["is_default"]) == (True, False)
    assert default_buckets(client_on_s3) == [first["config_id"]]
    third = client_on_s3.add_bucket(set_as_default=True)
    assert third["is_default"] is True
    assert default_buckets(client_on_s3) == [third["config_id"]]
    assert data(client_on_s3.get(f"{client_on_s3.buckets}/{first['config_id']}"))["is_active"] is True
    for bucket in (third, second, third):  # the first one of these is the default already
        moved = data(client_on_s3.post(f"{client_on_s3.buckets}/{bucket['config_id']}/set-default"))
        assert (moved["config_id"], moved["is_default"], set(moved)) == (bucket["config_id"], True, FIELDS)
        assert default_buckets(client_on_s3) == [bucket["config_id"]]


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


def test_bucket_has_a_name_that_no_other_of_its_tenant_has(client_on_s3: ApiClient) -> None:
    client_on_s3.add_bucket(name="archive")
    added = client_on_s3.add_bucket()
    path = f"{client_on_s3.buckets}/{added['config_id']}"
    assert data(client_on_s3.patch(path, {})) == added
    changed = data(client_on_s3.patch(path, {"name": "renamed"}))
    assert is_now(changed["updated_at"])
    assert changed == added | {"name": "renamed", "updated_at": changed["updated_at"]}
    assert client_on_s3.patch(path, {"name": "archive"}).status_code == 409
    response = client_on_s3.post(client_on_s3.buckets, client_on_s3.bucket_body(name="archive"))
    assert response.status_code == 409
    assert len(data(client_on_s3.get(client_on_s3.buckets))) == 2
    client_on_s3.other_tenant_client().add_bucket(name="archive")


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


@pytest.mark.asvs("2.2.3", "2.1.2")
def test_credential_is_rotated_only_as_a_whole_and_to_a_working_one(s3: RadosGateway, client: ApiClient) -> None:
    (bucket,), context = data(client.get(client.buckets)), client.create_context()
    path = f"{client.buckets}/{bucket['config_id']}"
    for half in ("access_key_id", "secret_access_key"):
        response = client.patch(path, {half: "x" * 20})
        assert response.status_code == 422
        assert all(": " in problem for problem in response.json()["errors"])
    right = {"access_key_id": s3.access_key, "secret_access_key": s3.secret_key}
    response = client.patch(path, right | {"secret_access_key": "canary-secret-that-is-never-shown"})
    assert response.status_code == 422
    assert "canary" not in response.text
    client.store(context=context)
    assert is_now(data(client.patch(path, right))["updated_at"])
    client.store(context=context)


INACTIVE = ("Bucket is inactive", "Set the bucket's is_active to true, or choose another bucket")


def test_inactive_bucket_serves_its_files_takes_no_others_and_can_be_deleted_but_the_default_stays_active(
    client_on_s3: ApiClient,
) -> None:
    default = f"{client_on_s3.buckets}/{client_on_s3.add_bucket()['config_id']}"
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
    path = f"{client_on_s3.buckets}/{client_on_s3.add_bucket()['config_id']}"
    response = client_on_s3.patch(default, {"is_active": False})
    assert_error(response, 409, "The default bucket cannot be made inactive", "Set another default first")
    assert data(client_on_s3.get(default))["is_active"] is True
    data(client_on_s3.patch(path, {"is_active": False}))
    data(client_on_s3.delete(path))


def _assert_bound(client: ApiClient, config_id: str, contexts: int) -> None:
    response = client.delete(f"{client.buckets}/{config_id}")
    message = f"Cannot delete a bucket still bound to {contexts} context(s)"
    assert_error(response, 409, message, "Reassign contexts or set another default first")
    data(client.get(f"{client.buckets}/{config_id}"))


def test_bucket_is_deleted_unless_it_is_the_default_or_bound_to_contexts(client_on_s3: ApiClient) -> None:
    default = client_on_s3.add_bucket()["config_id"]
    _assert_bound(client_on_s3, default, 0)
    config_id = client_on_s3.add_bucket()["config_id"]
    client_on_s3.create_context()
    _assert_bound(client_on_s3, default, 1)
    client_on_s3.create_context(storage_config_id=default)
    _assert_bound(client_on_s3, default, 2)  # those without a bucket of their own, and those with this one
    client_on_s3.create_context()
    _assert_bound(client_on_s3, default, 3)
    bound = [client_on_s3.create_context(storage_config_id=config_id) for _ in range(2)]
    _assert_bound(client_on_s3, config_id, 2)
    client_on_s3.patch(f"/contexts/{bound[0]}", {"storage_config_id": ""})
    client_on_s3.patch(f"/contexts/{bound[1]}", {"status": "inactive"})
    _assert_bound(client_on_s3, config_id, 1)
    client_on_s3.patch(f"/contexts/{bound[1]}", {"storage_config_id": None})
    data(client_on_s3.delete(f"{client_on_s3.buckets}/{config_id}"))
    config_id = client_on_s3.add_bucket(name="again")["config_id"]
    path = f"{client_on_s3.buckets}/{config_id}"
    assert data(client_on_s3.delete(path)) == {"config_id": config_id, "deleted": True}
    assert_not_found(client_on_s3.get(path))
    assert_not_found(client_on_s3.delete(path))
    assert len(data(client_on_s3.get(client_on_s3.buckets))) == 1
    client_on_s3.add_bucket(name="again")
