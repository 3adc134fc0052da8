"""API keys: create, list, read, change, revoke. What a key allows is in `test_authentication` and `test_scopes`."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api.responses import (
    assert_error,
    assert_not_found,
    assert_unauthenticated,
    assert_validation_error,
    data,
    is_now,
    page,
    parse_timestamp,
)
from tests.api.tables import bad_values
from tests.rows import each_row
from tests.scanning.waiting import until
from tests.service import ApiClient

SCOPES = ["upload", "download", "metadata", "delete", "admin"]
LIST_FIELDS = {"api_key_id", "name", "key_prefix", "scopes", "status", "created_at", "last_used_at"}
GOOD = {"name": "CI", "scopes": ["upload"]}
UNKNOWN = "key_00000000000000000000000000"


def test_admin_token_creates_a_key_whose_secret_is_shown_only_once(bare_client: ApiClient) -> None:
    key = bare_client.with_credential(bare_client.token(scope="admin")).create_key("admin")
    response = bare_client.with_credential(key).post("/api-keys", {"name": "CI", "scopes": ["upload", "metadata"]})
    assert response.json()["message"] == "API key created"
    created = data(response, 201)
    text, key_id = created.pop("api_key"), created.pop("api_key_id")
    assert key_id.startswith("key_")
    assert re.fullmatch(r"sl_live_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}", text)
    assert created == {"name": "CI", "scopes": ["upload", "metadata"], "expires_at": None}
    for path in ("/api-keys", f"/api-keys/{key_id}"):
        assert text[21:] not in bare_client.get(path).text


def test_reading_a_key_returns_all_its_fields(bare_client: ApiClient) -> None:
    key = bare_client.create_key("upload", name="CI", metadata={"team": "weir"})
    shown = data(bare_client.get(f"/api-keys/{key.api_key_id}"))
    assert is_now(shown.pop("created_at"))
    assert shown == {
        "api_key_id": key.api_key_id,
        "name": "CI",
        "key_prefix": key.text[:20],
        "scopes": ["upload"],
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
def test_paging_returns_every_key_of_the_tenant_exactly_once(bare_client: ApiClient) -> None:
    bare_client.other_tenant_client().create_key("upload", name="foreign")
    made = {bare_client.create_key("upload").api_key_id for _ in range(4)}
    pages = [page(bare_client.get("/api-keys", page=number, page_size=2)) for number in (1, 2, 3)]
    listed = [item for items, _ in pages for item in items]
    assert {frozenset(item) for item in listed} == {frozenset(LIST_FIELDS)}
    assert made < {item["api_key_id"] for item in listed}
    assert len({item["api_key_id"] for item in listed}) == len(listed) == pages[0][1]["total"] == 5
    assert "foreign" not in [item["name"] for item in listed]
    assert_validation_error(bare_client.get("/api-keys", status="expired"), "status")


@pytest.mark.engine
def test_list_of_keys_is_filtered_by_status(bare_client: ApiClient) -> None:
    disabled, revoked = bare_client.create_key("upload").api_key_id, bare_client.create_key("upload").api_key_id
    bare_client.patch(f"/api-keys/{disabled}", {"status": "disabled"})
    bare_client.delete(f"/api-keys/{revoked}")
    for status, expected in (("disabled", [disabled]), ("revoked", [revoked])):
        assert [item["api_key_id"] for item in page(bare_client.get("/api-keys", status=status))[0]] == expected
    assert page(bare_client.get("/api-keys", status="active"))[1]["total"] == 1


GOOD_VALUES: list[tuple[str, Any, Any]] = [
    ("name", "x", "x"),
    ("name", "Ünïcødé 🌊", "Ünïcødé 🌊"),
    *[("scopes", [scope], [scope]) for scope in SCOPES],
    ("scopes", SCOPES, SCOPES),
    ("metadata", {"a": [1, None]}, {"a": [1, None]}),
    ("metadata", None, {}),
]


@pytest.mark.engine
@each_row("field, value, kept", GOOD_VALUES)
def test_valid_value_is_kept_on_create_and_change(bare_client: ApiClient, field: str, value: Any, kept: Any) -> None:
    key_id = data(bare_client.post("/api-keys", GOOD | {field: value}), 201)["api_key_id"]
    assert data(bare_client.get(f"/api-keys/{key_id}"))[field] == kept
    other = bare_client.create_key("download").api_key_id
    assert data(bare_client.patch(f"/api-keys/{other}", {field: value}))[field] == kept


BAD_VALUES = [
    *bad_values("name", "", None, 7, ["x"], "n" * 256, "a\u0000b"),
    *bad_values("scopes", [], None, "upload", {}, 7),
    *[("scopes", ["upload", value], "scopes.1") for value in ("read", "UPLOAD", "", None, 7)],
    *bad_values("metadata", [], "x", 7),
    *bad_values("surprise", 1),
    *bad_values("tenant_id", "ten_1"),
]


@each_row("field, value, named", BAD_VALUES)
def test_invalid_value_is_refused(shared_client: ApiClient, field: str, value: Any, named: str) -> None:
    assert_validation_error(shared_client.post("/api-keys", GOOD | {field: value}), named)
    key_id = shared_client.create_key("upload").api_key_id
    assert_validation_error(shared_client.patch(f"/api-keys/{key_id}", {field: value}), named)


def test_missing_field_and_unknown_status_are_refused(shared_client: ApiClient) -> None:
    assert_validation_error(shared_client.post("/api-keys", {"name": "CI"}), "scopes")
    assert_validation_error(shared_client.post("/api-keys", {"scopes": ["upload"]}), "name")
    path = f"/api-keys/{shared_client.create_key('upload').api_key_id}"
    for status in ("expired", "ACTIVE", "", None, 7):
        assert_validation_error(shared_client.patch(path, {"status": status}), "status")


def test_key_expires_after_the_requested_days_or_never(bare_client: ApiClient) -> None:
    for days in (1, 365):
        made = data(bare_client.post("/api-keys", GOOD | {"expires_in_days": days}), 201)
        left = parse_timestamp(made["expires_at"]) - datetime.now(UTC)
        assert abs(left - timedelta(days=days)) < timedelta(minutes=1)
    assert data(bare_client.post("/api-keys", GOOD | {"expires_in_days": None}), 201)["expires_at"] is None
    wrong_days: list[Any] = [0, -1, 366, "1", 1.5, True, []]
    for wrong in wrong_days:
        assert_validation_error(bare_client.post("/api-keys", GOOD | {"expires_in_days": wrong}), "expires_in_days")


@pytest.mark.engine
def test_change_touches_only_the_named_fields(bare_client: ApiClient) -> None:
    path = f"/api-keys/{bare_client.create_key('upload', metadata={'a': 1}).api_key_id}"
    before = data(bare_client.get(path))
    assert data(bare_client.patch(path, {})) == before
    changed = data(bare_client.patch(path, {"name": "new", "metadata": {"b": 2}}))
    assert is_now(changed["updated_at"])
    assert changed == before | {"name": "new", "metadata": {"b": 2}, "updated_at": changed["updated_at"]}


@pytest.mark.engine
def test_changed_scopes_apply_immediately_and_use_is_noted(bare_client: ApiClient) -> None:
    key = bare_client.create_key("upload")
    path = f"/api-keys/{key.api_key_id}"
    bare_client.patch(path, {"scopes": ["metadata"]})
    assert bare_client.with_credential(key).get("/files").status_code == 200
    # the worker writes uses in batches, so the test polls
    assert until(lambda: data(bare_client.get(path))["last_used_at"] is not None, 15)
    assert is_now(data(bare_client.get(path))["last_used_at"])


@pytest.mark.engine
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


@each_row("key_id", [UNKNOWN, "nonsense", "%00", "x" * 4000, "🌊"])
def test_returns_404_for_an_unknown_key(shared_client: ApiClient, key_id: str) -> None:
    assert_not_found(shared_client.get(f"/api-keys/{key_id}"))
    assert_not_found(shared_client.patch(f"/api-keys/{key_id}", {"name": "x"}))
    assert_not_found(shared_client.delete(f"/api-keys/{key_id}"))
