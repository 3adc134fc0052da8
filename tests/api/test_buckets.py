"""Storage buckets: add, list, read, make default, delete. Changing one, and what uploads and files resolve to, is in `test_bucket_routing`."""

from typing import Any

import pytest

from tests.api.answers import data, invalid, is_now, not_found, without_time
from tests.api.tables import bad, show
from tests.gate import Gate
from tests.servers.radosgw import RadosGateway

FIELDS = {
    "config_id",
    "tenant_id",
    "name",
    "provider",
    "access_key_id",
    "region",
    "default_bucket",
    "base_path",
    "is_active",
    "is_default",
    "created_at",
    "updated_at",
}
UNKNOWN = "bkt_00000000000000000000000000"
UNPROBED: dict[str, Any] = {
    "name": "archive",
    "access_key_id": "AKIAIOSFODNN7EXAMPLE",
    "secret_access_key": "canary-secret-that-is-never-told",
    "default_bucket": "archive-of-weir",
}
"""A body that is well formed; it is refused before anything is probed, or it names an endpoint that is not there."""


def _defaults(gate: Gate) -> list[str]:
    return [bucket["config_id"] for bucket in data(gate.get(gate.buckets)) if bucket["is_default"]]


# what is refused without asking any S3


_HOSTS = ("127.0.0.1:1", "localhost", "169.254.169.254", "[::1]", "elsewhere.example", "user@127.0.0.1")
BAD_VALUES = [
    *bad("name", "", "n" * 101, None, 7, ["x"], "a\u0000b"),
    *bad("access_key_id", "A" * 15, "A" * 129, "", None, 7),
    *bad("secret_access_key", "", None, 7, []),
    *bad("default_bucket", "ab", "b" * 64, "", None, 7),
    *bad("region", "", None, 7),
    *bad("base_path", None, 7, "a/../b", "a//b", "a\u0000b"),
    *bad("set_as_default", "true", 1, None),
    *bad("endpoint_url", 7, "", "not a url", "ftp://127.0.0.1", *[f"http://{host}" for host in _HOSTS]),
    *bad("surprise", 1),
    *bad("is_active", True),
    *bad("tenant_id", "ten_1"),
    *bad("provider", "objstore_s3"),
]


@pytest.mark.parametrize(("field", "value", "named"), BAD_VALUES, ids=show)
def test_a_bad_value_is_refused(lobby: Gate, field: str, value: Any, named: str) -> None:
    before = data(lobby.get(lobby.buckets))
    answer = lobby.post(lobby.buckets, UNPROBED | {field: value})
    invalid(answer, named)
    assert UNPROBED["secret_access_key"] not in answer.text
    assert data(lobby.get(lobby.buckets)) == before


@pytest.mark.parametrize("field", ["name", "access_key_id", "secret_access_key", "default_bucket"])
def test_a_required_field_is_missed(lobby: Gate, field: str) -> None:
    invalid(lobby.post(lobby.buckets, {name: value for name, value in UNPROBED.items() if name != field}), field)


def test_a_tenant_without_buckets_lists_none(newcomer: Gate) -> None:
    assert data(newcomer.get(newcomer.buckets)) == []


@pytest.mark.parametrize("config_id", [UNKNOWN, "nonsense", "%00", "x" * 4000], ids=lambda text: text[:12])
def test_an_unknown_bucket_is_not_found(lobby: Gate, config_id: str) -> None:
    path = f"{lobby.buckets}/{config_id}"
    not_found(lobby.get(path))
    not_found(lobby.patch(path, {"name": "x"}))
    not_found(lobby.post(f"{path}/set-default"))
    not_found(lobby.delete(path))


@pytest.mark.parametrize("tenant_id", ["ten_00000000000000000000000000", "nonsense", "%00"])
def test_an_unknown_tenant_in_the_path_is_not_found(lobby: Gate, tenant_id: str) -> None:
    path = f"/tenants/{tenant_id}/storage-configs"
    not_found(lobby.get(path))
    not_found(lobby.post(path, UNPROBED))
    not_found(lobby.get(f"{path}/{UNKNOWN}"))


def test_another_tenant_in_the_path_answers_as_an_unknown_one(newcomer: Gate, lobby: Gate) -> None:
    for method, tail, more in (("GET", "", {}), ("POST", "", {"json": UNPROBED}), ("GET", f"/{UNKNOWN}", {})):
        foreign = lobby.ask(method, newcomer.buckets + tail, **more)
        unknown = lobby.ask(method, f"/tenants/ten_00000000000000000000000000/storage-configs{tail}", **more)
        not_found(foreign)
        assert without_time(foreign) == without_time(unknown)


# with a real S3


def test_an_added_bucket_holds_what_the_interface_lists(weir: Gate) -> None:
    body = weir.bucket_body(name="archive", base_path="intake")
    answer = weir.post(weir.buckets, body)
    added = data(answer, 201)
    assert added.pop("config_id").startswith("bkt_")
    assert is_now(added.pop("created_at"))
    assert added == {
        "tenant_id": weir.tenant_id,
        "name": "archive",
        "provider": "objstore_s3",
        "access_key_id": f"{body['access_key_id'][:4]}…{body['access_key_id'][-4:]}",
        "region": "us-east-1",
        "default_bucket": body["default_bucket"],
        "base_path": "intake",
        "is_active": True,
        "is_default": True,
        "updated_at": None,
    }


def test_a_bucket_is_read_and_listed_as_it_was_added(weir: Gate) -> None:
    added = weir.bucket()
    assert data(weir.get(f"{weir.buckets}/{added['config_id']}")) == added
    answer = weir.get(weir.buckets)
    assert data(answer) == [added]
    assert set(answer.json()) == {"status", "message", "data", "timestamp"}


def test_no_answer_tells_a_credential(s3: RadosGateway, weir: Gate) -> None:
    body = weir.bucket_body()
    added = weir.post(weir.buckets, body)
    path = f"{weir.buckets}/{added.json()['data']['config_id']}"
    rotated = weir.patch(path, {"access_key_id": s3.access_key, "secret_access_key": s3.secret_key})
    answers = [
        added,
        rotated,
        weir.get(weir.buckets),
        weir.get(path),
        weir.post(weir.buckets, body),
        weir.post(f"{path}/set-default"),
    ]
    for answer in answers:
        assert s3.secret_key not in answer.text
        assert s3.access_key not in answer.text
    assert s3.secret_key not in weir.service.log.read_text()


@pytest.mark.parametrize(("sent", "kept"), [("", ""), ("a", "a"), ("/a/b/", "a/b"), ("a/b", "a/b")])
def test_a_base_path_is_kept_without_slashes_at_its_ends(weir: Gate, sent: str, kept: str) -> None:
    assert weir.bucket(base_path=sent)["base_path"] == kept


@pytest.mark.parametrize("name", ["n", "n" * 100, "Ünïcødé 🌊"])
def test_a_good_name_is_kept(weir: Gate, name: str) -> None:
    assert weir.bucket(name=name)["name"] == name


def test_the_region_has_a_default(weir: Gate) -> None:
    body = weir.bucket_body()
    del body["region"]
    assert data(weir.post(weir.buckets, body), 201)["region"] == "us-east-1"


@pytest.mark.parametrize(
    "wrong",
    [
        {"secret_access_key": "canary-secret-that-is-never-told"},
        {"access_key_id": "UNKNOWNKEY0123456"},
        {"default_bucket": "a-bucket-that-is-not-there"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_bucket_that_does_not_work_is_refused_with_a_plain_reason(weir: Gate, wrong: dict[str, str]) -> None:
    answer = weir.post(weir.buckets, weir.bucket_body(**wrong))
    assert answer.status_code == 422
    assert answer.json()["message"] == "Validation error"
    (problem,) = answer.json()["errors"]
    assert len(problem.partition(": ")[2]) > 10
    assert "canary" not in answer.text
    assert data(weir.get(weir.buckets)) == []


def test_the_probe_leaves_nothing_behind(s3: RadosGateway, weir: Gate) -> None:
    bucket = s3.fresh_bucket()
    weir.bucket(default_bucket=bucket)
    assert s3.keys(bucket) == []


def test_a_second_bucket_of_one_name_is_a_conflict(weir: Gate) -> None:
    weir.bucket(name="archive")
    answer = weir.post(weir.buckets, weir.bucket_body(name="archive"))
    assert answer.status_code == 409
    assert len(data(weir.get(weir.buckets))) == 1


def test_two_tenants_may_use_one_name(weir: Gate) -> None:
    weir.bucket(name="archive")
    weir.stranger().bucket(name="archive")


def test_the_first_bucket_becomes_the_default_without_being_asked(weir: Gate) -> None:
    first = weir.bucket(set_as_default=False)
    assert first["is_default"] is True
    assert _defaults(weir) == [first["config_id"]]


def test_a_second_bucket_does_not(weir: Gate) -> None:
    first, second = weir.bucket(), weir.bucket()
    assert second["is_default"] is False
    assert _defaults(weir) == [first["config_id"]]


def test_a_second_bucket_does_when_it_is_asked_to(weir: Gate) -> None:
    first, second = weir.bucket(), weir.bucket(set_as_default=True)
    assert second["is_default"] is True
    assert _defaults(weir) == [second["config_id"]]
    assert data(weir.get(f"{weir.buckets}/{first['config_id']}"))["is_active"] is True


def test_the_default_moves(weir: Gate) -> None:
    first, second = weir.bucket(), weir.bucket()
    moved = data(weir.post(f"{weir.buckets}/{second['config_id']}/set-default"))
    assert (moved["config_id"], moved["is_default"], set(moved)) == (second["config_id"], True, FIELDS)
    assert _defaults(weir) == [second["config_id"]]
    data(weir.post(f"{weir.buckets}/{first['config_id']}/set-default"))
    assert _defaults(weir) == [first["config_id"]]


def test_making_the_default_the_default_changes_nothing(weir: Gate) -> None:
    first = weir.bucket()
    assert data(weir.post(f"{weir.buckets}/{first['config_id']}/set-default"))["is_default"] is True
    assert _defaults(weir) == [first["config_id"]]


def test_another_tenants_bucket_answers_as_an_unknown_one(weir: Gate, lobby: Gate) -> None:
    config_id = weir.bucket()["config_id"]
    for method, tail, more in (
        ("GET", "", {}),
        ("PATCH", "", {"json": {"name": "x"}}),
        ("POST", "/set-default", {}),
        ("DELETE", "", {}),
    ):
        foreign = lobby.ask(method, f"{lobby.buckets}/{config_id}{tail}", **more)
        assert without_time(foreign) == without_time(lobby.ask(method, f"{lobby.buckets}/{UNKNOWN}{tail}", **more))
        elsewhere = lobby.ask(method, f"{weir.buckets}/{config_id}{tail}", **more)
        assert without_time(foreign) == without_time(elsewhere)
    assert _defaults(weir) == [config_id]
