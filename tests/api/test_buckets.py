"""Storage buckets: add, list, read, make default, delete. Changes and routing are in `test_bucket_routing`."""

from typing import Any

import pytest

from tests.api.responses import assert_not_found, assert_validation_error, data, is_now
from tests.api.tables import bad_values
from tests.rows import each_row
from tests.servers.radosgw import RadosGateway
from tests.service import ApiClient

pytestmark = pytest.mark.engine

FIELDS = {
    *("config_id", "tenant_id", "name", "provider", "access_key_id", "region", "default_bucket", "base_path"),
    *("is_active", "is_default", "created_at", "updated_at"),
}
UNKNOWN = "bkt_00000000000000000000000000"
UNPROBED: dict[str, Any] = {
    "name": "archive",
    "access_key_id": "AKIAIOSFODNN7EXAMPLE",
    "secret_access_key": "canary-secret-that-is-never-told",
    "default_bucket": "archive-of-weir",
}
"""A well-formed body; it is refused before a probe, or names an endpoint that does not exist."""


def _defaults(client: ApiClient) -> list[str]:
    return [bucket["config_id"] for bucket in data(client.get(client.buckets)) if bucket["is_default"]]


_HOSTS = ("127.0.0.1:1", "localhost", "169.254.169.254", "[::1]", "elsewhere.example", "user@127.0.0.1")
BAD_VALUES = [
    *bad_values("name", "", "n" * 101, None, 7, ["x"], "a\u0000b"),
    *bad_values("access_key_id", "A" * 15, "A" * 129, "", None, 7),
    *bad_values("secret_access_key", "", None, 7, []),
    *bad_values("default_bucket", "ab", "xn--abc", "b" * 64, "", None, 7),
    *bad_values("region", "", None, 7),
    *bad_values("base_path", None, 7, "a/../b", "a//b", "a\u0000b"),
    *bad_values("set_as_default", "true", 1, None),
    *bad_values("endpoint_url", 7, "", "not a url", "ftp://127.0.0.1", *[f"http://{host}" for host in _HOSTS]),
    *bad_values("surprise", 1),
    *bad_values("is_active", True),
    *bad_values("tenant_id", "ten_1"),
    *bad_values("provider", "objstore_s3"),
]


@each_row("field, value, named", BAD_VALUES)
def test_invalid_value_is_refused_on_create(shared_client: ApiClient, field: str, value: Any, named: str) -> None:
    before = data(shared_client.get(shared_client.buckets))
    response = shared_client.post(shared_client.buckets, UNPROBED | {field: value})
    assert_validation_error(response, named)
    assert UNPROBED["secret_access_key"] not in response.text
    assert data(shared_client.get(shared_client.buckets)) == before


def test_missing_required_field_is_refused(shared_client: ApiClient) -> None:
    for field in UNPROBED:
        body = {name: value for name, value in UNPROBED.items() if name != field}
        assert_validation_error(shared_client.post(shared_client.buckets, body), field)


@each_row("config_id", [UNKNOWN, "nonsense", "%00", "x" * 4000])
def test_returns_404_for_an_unknown_bucket(shared_client: ApiClient, config_id: str) -> None:
    path = f"{shared_client.buckets}/{config_id}"
    assert_not_found(shared_client.get(path))
    assert_not_found(shared_client.patch(path, {"name": "x"}))
    assert_not_found(shared_client.post(f"{path}/set-default"))
    assert_not_found(shared_client.delete(path))


@each_row("tenant_id", ["ten_00000000000000000000000000", "nonsense", "%00"])
def test_returns_404_for_an_unknown_tenant_in_the_path(shared_client: ApiClient, tenant_id: str) -> None:
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


@each_row("field, wrong", [
    *(("secret_access_key", "canary-secret-that-is-never-told"), ("access_key_id", "UNKNOWNKEY0123456")),
    ("default_bucket", "a-bucket-that-is-not-there"),
])  # fmt: skip
def test_unusable_bucket_is_refused_with_a_reason(client_on_s3: ApiClient, field: str, wrong: str) -> None:
    response = client_on_s3.post(client_on_s3.buckets, client_on_s3.bucket_body(**{field: wrong}))
    assert (response.status_code, response.json()["message"]) == (422, "Validation error")
    (problem,) = response.json()["errors"]
    assert len(problem.partition(": ")[2]) > 10
    assert "canary" not in response.text
    assert data(client_on_s3.get(client_on_s3.buckets)) == []


def test_second_bucket_with_the_same_name_is_a_conflict_in_one_tenant_only(client_on_s3: ApiClient) -> None:
    client_on_s3.add_bucket(name="archive")
    response = client_on_s3.post(client_on_s3.buckets, client_on_s3.bucket_body(name="archive"))
    assert response.status_code == 409
    assert len(data(client_on_s3.get(client_on_s3.buckets))) == 1
    client_on_s3.other_tenant_client().add_bucket(name="archive")


def test_first_bucket_and_one_on_request_become_the_default(client_on_s3: ApiClient) -> None:
    first, second = client_on_s3.add_bucket(set_as_default=False), client_on_s3.add_bucket()
    assert (first["is_default"], second["is_default"]) == (True, False)
    assert _defaults(client_on_s3) == [first["config_id"]]
    third = client_on_s3.add_bucket(set_as_default=True)
    assert third["is_default"] is True
    assert _defaults(client_on_s3) == [third["config_id"]]
    assert data(client_on_s3.get(f"{client_on_s3.buckets}/{first['config_id']}"))["is_active"] is True


def test_set_default_moves_the_default(client_on_s3: ApiClient) -> None:
    first, second = (client_on_s3.add_bucket()["config_id"] for _ in range(2))
    for config_id in (first, second, first):  # the first one is the default already
        moved = data(client_on_s3.post(f"{client_on_s3.buckets}/{config_id}/set-default"))
        assert (moved["config_id"], moved["is_default"], set(moved)) == (config_id, True, FIELDS)
        assert _defaults(client_on_s3) == [config_id]
