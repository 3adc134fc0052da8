"""API keys: create, list, read, change, revoke, rotate. What a key allows is in `test_authentication`."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api import tus
from tests.api.responses import (
    assert_error,
    assert_not_found,
    assert_unauthenticated,
    assert_validation_error,
    bad_values,
    data,
    is_now,
    page,
    parse_timestamp,
)
from tests.api.samples import TEXT
from tests.rows import each_row
from tests.scanning.waiting import until
from tests.service import ApiClient, Key

SCOPES = ["upload", "download", "metadata", "delete", "admin"]
LIST_FIELDS = {"api_key_id", "name", "key_prefix", "scopes", "status", "created_at", "last_used_at"}
GOOD = {"name": "CI", "scopes": ["upload"]}
UNKNOWN = "key_00000000000000000000000000"


def test_new_key_is_read_with_all_its_fields_and_its_secret_shown_only_once(bare_client: ApiClient) -> None:
    maker = bare_client.with_credential(bare_client.token(scope="admin")).create_key("admin")
    body = {"name": "CI", "scopes": ["upload", "metadata"], "metadata": {"team": "weir"}}
    response = bare_client.with_credential(maker).post("/api-keys", body)
    assert response.json()["message"] == "API key created"
    created = data(response, 201)
    text, key_id = created.pop("api_key"), created.pop("api_key_id")
    assert key_id.startswith("key_")
    assert re.fullmatch(r"sl_live_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}", text)
    limits: dict[str, Any] = {"contexts": [], "allowed_networks": [], "rate_per_minute": None}
    assert created == {"name": "CI", "scopes": ["upload", "metadata"], "expires_at": None} | limits
    for path in ("/api-keys", f"/api-keys/{key_id}"):
        assert text[21:] not in bare_client.get(path).text
    shown = data(bare_client.get(f"/api-keys/{key_id}"))
    assert is_now(shown.pop("created_at"))
    assert shown == {
        "api_key_id": key_id,
        "name": "CI",
        "key_prefix": text[:20],
        "scopes": ["upload", "metadata"],
        "status": "active",
        "last_used_at": None,
        "tenant_id": bare_client.tenant_id,
        "expires_at": None,
        "metadata": {"team": "weir"},
        "updated_at": None,
        "contexts": [],
        "allowed_networks": [],
        "rate_per_minute": None,
        "previous_expires_at": None,
    }


@pytest.mark.engine
def test_list_has_every_key_of_the_tenant_exactly_once_or_those_of_a_status(bare_client: ApiClient) -> None:
    bare_client.other_tenant_client().create_key("upload", name="foreign")
    made = {bare_client.create_key("upload").api_key_id for _ in range(4)}
    pages = [page(bare_client.get("/api-keys", page=number, page_size=2)) for number in (1, 2, 3)]
    listed = [item for items, _ in pages for item in items]
    assert {frozenset(item) for item in listed} == {frozenset(LIST_FIELDS)}
    assert made < {item["api_key_id"] for item in listed}
    assert len({item["api_key_id"] for item in listed}) == len(listed) == pages[0][1]["total"] == 5
    assert "foreign" not in [item["name"] for item in listed]
    assert_validation_error(bare_client.get("/api-keys", status="expired"), "status")
    disabled, revoked, *_ = made
    bare_client.patch(f"/api-keys/{disabled}", {"status": "disabled"})
    bare_client.delete(f"/api-keys/{revoked}")
    for status, expected in (("disabled", [disabled]), ("revoked", [revoked])):
        assert [item["api_key_id"] for item in page(bare_client.get("/api-keys", status=status))[0]] == expected
    assert page(bare_client.get("/api-keys", status="active"))[1]["total"] == 3


NETWORKS = ["192.0.2.0/24", "2001:db8::/32"]
GOOD_VALUES: list[tuple[str, Any, Any]] = [
    ("name", "x", "x"),
    ("name", "Ünïcødé 🌊", "Ünïcødé 🌊"),
    *[("scopes", [scope], [scope]) for scope in SCOPES],
    ("scopes", SCOPES, SCOPES),
    ("metadata", {"a": [1, None]}, {"a": [1, None]}),
    ("metadata", None, {}),
    *(("contexts", [], []), ("contexts", None, []), ("rate_per_minute", 1, 1), ("rate_per_minute", 100_000, 100_000)),
    *(("rate_per_minute", None, None), ("allowed_networks", None, [])),
    ("allowed_networks", ["192.0.2.7"], ["192.0.2.7/32"]),
    ("allowed_networks", [*NETWORKS, "192.0.2.0/24"], NETWORKS),
]


@each_row("field, value, kept", GOOD_VALUES)
def test_valid_value_is_kept_on_create_and_change(bare_client: ApiClient, field: str, value: Any, kept: Any) -> None:
    key_id = data(bare_client.post("/api-keys", GOOD | {field: value}), 201)["api_key_id"]
    assert data(bare_client.get(f"/api-keys/{key_id}"))[field] == kept
    limits: dict[str, Any] = {"allowed_networks": ["198.51.100.0/24"], "rate_per_minute": 7}
    other = bare_client.create_key("download", **limits).api_key_id
    assert data(bare_client.patch(f"/api-keys/{other}", {field: value}))[field] == kept


BAD_VALUES = [
    *bad_values("name", "", None, 7, ["x"], "n" * 256, "a\u0000b"),
    *bad_values("scopes", [], None, "upload", {}, 7),
    *[("scopes", ["upload", value], "scopes.1") for value in ("read", "UPLOAD", "", None, 7)],
    *bad_values("metadata", [], "x", 7),
    *bad_values("surprise", 1),
    *bad_values("tenant_id", "ten_1"),
    *bad_values("contexts", "claims", {}, 7),
    *(("contexts", [value], "contexts.0") for value in ("Claims", "", "a b", None, 7)),
    *bad_values("allowed_networks", "192.0.2.0/24", {}, 7),
    *bad_values("allowed_networks", ["192.0.2.1/24"], ["192.0.2.0/33"], ["claims"], [""], named="allowed_networks.0"),
    *bad_values("allowed_networks", ["::ffff:192.0.2.0/120"], [None], [7], named="allowed_networks.0"),
    *bad_values("rate_per_minute", 0, -1, 100_001, "5", 1.5, True),
]


@each_row("field, value, named", BAD_VALUES)
def test_invalid_value_is_refused(shared_client: ApiClient, field: str, value: Any, named: str) -> None:
    assert_validation_error(shared_client.post("/api-keys", GOOD | {field: value}), named)
    key_id = shared_client.create_key("upload").api_key_id
    assert_validation_error(shared_client.patch(f"/api-keys/{key_id}", {field: value}), named)


def test_missing_field_unknown_status_and_unknown_key_are_refused(shared_client: ApiClient) -> None:
    assert_validation_error(shared_client.post("/api-keys", {"name": "CI"}), "scopes")
    assert_validation_error(shared_client.post("/api-keys", {"scopes": ["upload"]}), "name")
    path = f"/api-keys/{shared_client.create_key('upload').api_key_id}"
    for status in ("expired", "ACTIVE", "", None, 7):
        assert_validation_error(shared_client.patch(path, {"status": status}), "status")
    for key_id in [UNKNOWN, "nonsense", "%00", "x" * 4000, "🌊"]:
        assert_not_found(shared_client.get(f"/api-keys/{key_id}"))
        assert_not_found(shared_client.patch(f"/api-keys/{key_id}", {"name": "x"}))
        assert_not_found(shared_client.delete(f"/api-keys/{key_id}"))


def test_key_expires_after_the_requested_days_or_never(bare_client: ApiClient) -> None:
    for days in (1, 365):
        made = data(bare_client.post("/api-keys", GOOD | {"expires_in_days": days}), 201)
        left = parse_timestamp(made["expires_at"]) - datetime.now(UTC)
        assert abs(left - timedelta(days=days)) < timedelta(minutes=1)
    assert data(bare_client.post("/api-keys", GOOD | {"expires_in_days": None}), 201)["expires_at"] is None
    wrong_days: list[Any] = [0, -1, 366, "1", 1.5, True, []]
    for wrong in wrong_days:
        assert_validation_error(bare_client.post("/api-keys", GOOD | {"expires_in_days": wrong}), "expires_in_days")


def test_change_touches_only_the_named_fields_and_applies_immediately(bare_client: ApiClient) -> None:
    key = bare_client.create_key("upload", metadata={"a": 1})
    path = f"/api-keys/{key.api_key_id}"
    before = data(bare_client.get(path))
    assert data(bare_client.patch(path, {})) == before
    changed = data(bare_client.patch(path, {"name": "new", "metadata": {"b": 2}}))
    assert is_now(changed["updated_at"])
    assert changed == before | {"name": "new", "metadata": {"b": 2}, "updated_at": changed["updated_at"]}
    bare_client.patch(path, {"scopes": ["metadata"]})
    assert bare_client.with_credential(key).get("/files").status_code == 200
    # the worker writes uses in batches, so the test polls
    assert until(lambda: data(bare_client.get(path))["last_used_at"] is not None, 15)
    assert is_now(data(bare_client.get(path))["last_used_at"])


def test_deleting_a_key_revokes_it_for_good(bare_client: ApiClient) -> None:
    key = bare_client.create_key("upload")
    path = f"/api-keys/{key.api_key_id}"
    response = bare_client.delete(path)
    assert response.json()["message"] == "API key revoked"
    assert data(response) == {"api_key_id": key.api_key_id, "status": "revoked"}
    before = data(bare_client.get(path))
    assert before["status"] == "revoked"
    for change in ({"status": "active"}, {"status": "disabled"}, {"status": "active", "name": "x"}):
        refused = bare_client.patch(path, change)
        assert_error(refused, 409, "API key is revoked", "A revoked key can never be re-enabled; create a new one")
        assert_unauthenticated(bare_client.with_credential(key).get("/contexts"))
    assert data(bare_client.delete(path))["status"] == "revoked"
    assert data(bare_client.get(path)) == before
    other = bare_client.create_key("upload")
    assert data(bare_client.patch(f"/api-keys/{other.api_key_id}", {"status": "revoked"}))["status"] == "revoked"
    assert_unauthenticated(bare_client.with_credential(other).get("/contexts"))


@pytest.mark.asvs("7.4.2", "7.4.5")
def test_disabled_key_is_refused_until_it_is_enabled(bare_client: ApiClient) -> None:
    key = bare_client.create_key("upload")
    path = f"/api-keys/{key.api_key_id}"
    assert data(bare_client.patch(path, {"status": "disabled"}))["status"] == "disabled"
    assert_unauthenticated(bare_client.with_credential(key).get("/contexts"))
    assert data(bare_client.patch(path, {"status": "active"}))["status"] == "active"
    assert bare_client.with_credential(key).get("/contexts").status_code == 200


def rotate(client: ApiClient, key: Key, **body: Any) -> dict[str, Any]:
    rotated: dict[str, Any] = data(client.post(f"/api-keys/{key.api_key_id}/rotate", body))
    return rotated


def let_expire(client: ApiClient, key: Key, column: str) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    client.execute_sql(f"UPDATE api_keys SET {column} = :at WHERE api_key_id = :key", at=past, key=key.api_key_id)


@pytest.mark.engine
def test_both_texts_are_good_until_the_overlap_ends(client: ApiClient) -> None:
    context = client.create_context()
    key = client.create_key("upload", "metadata")
    rotated = rotate(client, key, overlap_seconds=604_800)
    before, after = client.with_credential(key), client.with_credential(rotated["api_key"])
    for caller in (before, after, before):
        caller.store(context=context)
        assert page(caller.get("/files", uploaded_by=key.api_key_id))[1]["total"] > 0
    let_expire(client, key, "previous_expires_at")
    assert_unauthenticated(before.get("/contexts"))
    after.store(context=context)


def test_text_before_a_rotation_without_overlap_ends_at_once_but_no_upload_does(client: ApiClient) -> None:
    context, key = client.create_context(), client.create_key("upload")
    before = client.with_credential(key)
    before.store(context=context)
    upload = tus.begin(before, len(TEXT), context=context)
    assert upload.patch(TEXT[:5], 0).status_code == 204
    rotated = rotate(client, key, overlap_seconds=0)
    after = client.with_credential(rotated["api_key"])
    assert rotated["previous_expires_at"] is None
    assert_unauthenticated(before.upload(context=context))
    after.store(context=context)
    assert upload.as_client(after).patch(TEXT[5:], 5).status_code == 200


@each_row("status", ["disabled", "revoked"])
def test_only_two_texts_are_good_and_disabling_their_key_ends_both(bare_client: ApiClient, status: str) -> None:
    key = bare_client.create_key("metadata")
    texts = [rotate(bare_client, key, overlap_seconds=0)["api_key"], rotate(bare_client, key)["api_key"]]
    assert bare_client.post(f"/api-keys/{key.api_key_id}/rotate", {}).status_code == 409
    mixed = [texts[0][:20] + texts[1][20:], texts[1][:20] + texts[0][20:]]
    for text in texts:
        assert bare_client.with_credential(text).get("/contexts").status_code == 200
    for text in (key.text, *mixed):
        assert_unauthenticated(bare_client.with_credential(text).get("/contexts"))
    data(bare_client.patch(f"/api-keys/{key.api_key_id}", {"status": status}))
    for text in texts:
        assert_unauthenticated(bare_client.with_credential(text).get("/contexts"))


def test_rotation_keeps_scopes_limits_and_kind_and_shows_the_new_text_once(client: ApiClient) -> None:
    context = client.create_context()
    limits: dict[str, Any] = {"contexts": [context], "allowed_networks": ["127.0.0.0/8"], "rate_per_minute": 50}
    key = client.create_key("upload", mode="test", metadata={"team": "weir"}, **limits)
    path = f"/api-keys/{key.api_key_id}"
    before = data(client.get(path))
    rotated = rotate(client, key)
    text = rotated["api_key"]
    assert text.startswith("sl_test_")
    after = data(client.get(path))
    changed = {name: after[name] for name in ("key_prefix", "updated_at", "previous_expires_at")}
    assert after == before | changed
    assert set(rotated) == {"api_key_id", "api_key", "key_prefix", "expires_at", "previous_expires_at"}
    assert rotated["api_key_id"] == key.api_key_id
    assert text.startswith(f"{rotated['key_prefix']}_")
    assert text != key.text
    overlap = parse_timestamp(rotated["previous_expires_at"]) - datetime.now(UTC)
    assert timedelta(hours=23, minutes=59) < overlap <= timedelta(days=1)
    (entry,), _ = page(client.get("/audit", action="api_key.rotated"))
    assert (entry["target"], entry["outcome"]) == (key.api_key_id, "done")
    for each in ("/api-keys", path, "/audit"):
        assert text[21:] not in client.get(each).text
    assert after["key_prefix"] == rotated["key_prefix"]


def test_second_rotation_ends_no_text_before_the_time_that_was_announced(bare_client: ApiClient) -> None:
    key = bare_client.create_key("metadata")
    first = rotate(bare_client, key, overlap_seconds=600)
    response = bare_client.post(f"/api-keys/{key.api_key_id}/rotate", {"overlap_seconds": 60})
    assert (response.status_code, response.headers["sluice-error-code"]) == (409, "rotation_overlaps")
    assert first["previous_expires_at"][:16] in response.text
    for text in (key.text, first["api_key"]):
        assert bare_client.with_credential(text).get("/contexts").status_code == 200
    let_expire(bare_client, key, "previous_expires_at")
    second = rotate(bare_client, key, overlap_seconds=60)
    third = rotate(bare_client, key, overlap_seconds=0)
    assert bare_client.with_credential(third["api_key"]).get("/contexts").status_code == 200
    for text in (key.text, first["api_key"], second["api_key"]):
        assert_unauthenticated(bare_client.with_credential(text).get("/contexts"))


def test_rotation_gives_an_expiring_key_new_time_and_an_expired_one_needs_it(bare_client: ApiClient) -> None:
    key = bare_client.create_key("metadata", expires_in_days=1)
    rotated = rotate(bare_client, key, overlap_seconds=604_800, expires_in_days=90)
    life, overlap = (
        parse_timestamp(rotated[name]) - datetime.now(UTC) for name in ("expires_at", "previous_expires_at")
    )
    assert timedelta(days=89, hours=23) < life <= timedelta(days=90)
    assert overlap <= timedelta(days=1)  # as the text before had it
    let_expire(bare_client, key, "expires_at")
    response = bare_client.post(f"/api-keys/{key.api_key_id}/rotate", {})
    problem = "expires_in_days: expected a number of days, since the key has expired, found nothing"
    assert_error(response, 422, "Validation error", problem)
    text = rotate(bare_client, key, expires_in_days=7)["api_key"]
    assert bare_client.with_credential(text).get("/contexts").status_code == 200
    assert_unauthenticated(bare_client.with_credential(rotated["api_key"]).get("/contexts"))


def test_invalid_rotations_and_those_of_revoked_unknown_and_foreign_keys_are_refused(
    bare_client: ApiClient, shared_client: ApiClient
) -> None:
    key, foreign = bare_client.create_key("metadata"), bare_client.other_tenant_client().create_key("metadata")
    bare_client.delete(f"/api-keys/{key.api_key_id}")
    revoked = bare_client.post(f"/api-keys/{key.api_key_id}/rotate", {})
    assert_error(revoked, 409, "API key is revoked", "A revoked key can never be re-enabled; create a new one")
    for key_id in (UNKNOWN, foreign.api_key_id):
        assert_not_found(bare_client.post(f"/api-keys/{key_id}/rotate", {}))
    for field, value, named in [
        *bad_values("overlap_seconds", -1, 604_801, "60", None, 1.5, True),
        *bad_values("expires_in_days", 0, 366, "7"),
        *bad_values("surprise", 1),
    ]:
        good = shared_client.create_key("metadata")
        assert_validation_error(shared_client.post(f"/api-keys/{good.api_key_id}/rotate", {field: value}), named)
        assert shared_client.with_credential(good).get("/contexts").status_code == 200
