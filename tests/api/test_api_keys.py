"""API keys: create, list, read, change, revoke. What a key then opens is in `test_authentication` and `test_scopes`."""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api.answers import data, invalid, is_now, moment, not_found, page, refused, unauthenticated, without_time
from tests.api.tables import bad, show
from tests.gate import Gate

SCOPES = ["upload", "download", "metadata", "delete", "admin"]
LIST_FIELDS = {"api_key_id", "name", "key_prefix", "scopes", "status", "created_at", "last_used_at"}
FIELDS = LIST_FIELDS | {"tenant_id", "expires_at", "metadata", "updated_at"}
GOOD = {"name": "CI", "scopes": ["upload"]}
UNKNOWN = "key_00000000000000000000000000"


def test_a_new_key_is_shown_once(newcomer: Gate) -> None:
    answer = newcomer.post("/api-keys", {"name": "CI", "scopes": ["upload", "metadata"]})
    assert answer.json()["message"] == "API key created"
    created = data(answer, 201)
    text, key_id = created.pop("api_key"), created.pop("api_key_id")
    assert key_id.startswith("key_")
    assert re.fullmatch(r"sl_live_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}", text)
    assert created == {"name": "CI", "scopes": ["upload", "metadata"], "expires_at": None}
    for path in ("/api-keys", f"/api-keys/{key_id}"):
        assert text[21:] not in newcomer.get(path).text


def test_a_key_is_read_in_full(newcomer: Gate) -> None:
    key = newcomer.key("upload", name="CI", metadata={"team": "weir"})
    shown = data(newcomer.get(f"/api-keys/{key.api_key_id}"))
    assert is_now(shown.pop("created_at"))
    assert shown == {
        "api_key_id": key.api_key_id,
        "name": "CI",
        "key_prefix": key.text[:20],
        "scopes": ["upload"],
        "status": "active",
        "last_used_at": None,
        "tenant_id": newcomer.tenant_id,
        "expires_at": None,
        "metadata": {"team": "weir"},
        "updated_at": None,
    }


def test_a_listed_key_holds_what_is_decided(newcomer: Gate) -> None:
    newcomer.key("upload")
    items, pagination = page(newcomer.get("/api-keys"))
    assert {frozenset(item) for item in items} == {frozenset(LIST_FIELDS)}
    assert pagination["total"] == 2


def test_pages_hold_every_key_once(newcomer: Gate) -> None:
    made = {newcomer.key("upload").api_key_id for _ in range(4)}
    pages = [page(newcomer.get("/api-keys", page=number, page_size=2))[0] for number in (1, 2, 3)]
    listed = [item["api_key_id"] for items in pages for item in items]
    assert made < set(listed)
    assert len(listed) == len(set(listed)) == 5


def test_keys_are_filtered_by_status(newcomer: Gate) -> None:
    disabled, revoked = newcomer.key("upload").api_key_id, newcomer.key("upload").api_key_id
    newcomer.patch(f"/api-keys/{disabled}", {"status": "disabled"})
    newcomer.delete(f"/api-keys/{revoked}")
    for status, expected in (("disabled", [disabled]), ("revoked", [revoked])):
        assert [item["api_key_id"] for item in page(newcomer.get("/api-keys", status=status))[0]] == expected
    assert page(newcomer.get("/api-keys", status="active"))[1]["total"] == 1


def test_keys_by_another_status_are_refused(lobby: Gate) -> None:
    invalid(lobby.get("/api-keys", status="expired"), "status")


GOOD_VALUES: list[tuple[str, Any, Any]] = [
    ("name", "x", "x"),
    ("name", "Ünïcødé 🌊", "Ünïcødé 🌊"),
    *[("scopes", [scope], [scope]) for scope in SCOPES],
    ("scopes", SCOPES, SCOPES),
    ("metadata", {"a": [1, None]}, {"a": [1, None]}),
    ("metadata", None, {}),
]


@pytest.mark.parametrize(("field", "value", "kept"), GOOD_VALUES, ids=repr)
def test_a_good_value_is_kept(newcomer: Gate, field: str, value: Any, kept: Any) -> None:
    key_id = data(newcomer.post("/api-keys", GOOD | {field: value}), 201)["api_key_id"]
    assert data(newcomer.get(f"/api-keys/{key_id}"))[field] == kept
    other = newcomer.key("download").api_key_id
    assert data(newcomer.patch(f"/api-keys/{other}", {field: value}))[field] == kept


BAD_VALUES = [
    *bad("name", "", None, 7, ["x"], "n" * 256, "a\u0000b"),
    *bad("scopes", [], None, "upload", {}, 7),
    *[("scopes", ["upload", value], "scopes.1") for value in ("read", "UPLOAD", "", None, 7)],
    *bad("metadata", [], "x", 7),
    *bad("surprise", 1),
    *bad("tenant_id", "ten_1"),
]


@pytest.mark.parametrize(("field", "value", "named"), BAD_VALUES, ids=show)
def test_a_bad_value_is_refused(lobby: Gate, field: str, value: Any, named: str) -> None:
    invalid(lobby.post("/api-keys", GOOD | {field: value}), named)
    key_id = lobby.key("upload").api_key_id
    invalid(lobby.patch(f"/api-keys/{key_id}", {field: value}), named)


@pytest.mark.parametrize("field", ["name", "scopes"])
def test_a_required_field_is_missed(lobby: Gate, field: str) -> None:
    invalid(lobby.post("/api-keys", {name: value for name, value in GOOD.items() if name != field}), field)


@pytest.mark.parametrize("days", [1, 365])
def test_a_key_may_expire(newcomer: Gate, days: int) -> None:
    expires = moment(data(newcomer.post("/api-keys", GOOD | {"expires_in_days": days}), 201)["expires_at"])
    assert abs(expires - datetime.now(UTC) - timedelta(days=days)) < timedelta(minutes=1)


def test_a_key_need_not_expire(newcomer: Gate) -> None:
    assert data(newcomer.post("/api-keys", GOOD | {"expires_in_days": None}), 201)["expires_at"] is None


@pytest.mark.parametrize("days", [0, -1, 366, "1", 1.5, True, []])
def test_an_expiry_out_of_bounds_is_refused(lobby: Gate, days: Any) -> None:
    invalid(lobby.post("/api-keys", GOOD | {"expires_in_days": days}), "expires_in_days")


@pytest.mark.parametrize("status", ["expired", "ACTIVE", "", None, 7])
def test_another_status_is_refused(lobby: Gate, status: Any) -> None:
    invalid(lobby.patch(f"/api-keys/{lobby.key('upload').api_key_id}", {"status": status}), "status")


def test_a_change_touches_only_what_it_names(newcomer: Gate) -> None:
    path = f"/api-keys/{newcomer.key('upload', metadata={'a': 1}).api_key_id}"
    before = data(newcomer.get(path))
    changed = data(newcomer.patch(path, {"name": "new"}))
    assert is_now(changed["updated_at"])
    assert changed == before | {"name": "new", "updated_at": changed["updated_at"]}


def test_an_empty_change_changes_nothing(newcomer: Gate) -> None:
    path = f"/api-keys/{newcomer.key('upload').api_key_id}"
    before = data(newcomer.get(path))
    assert data(newcomer.patch(path, {})) == before


def test_metadata_is_replaced_not_merged(newcomer: Gate) -> None:
    path = f"/api-keys/{newcomer.key('upload', metadata={'a': 1}).api_key_id}"
    assert data(newcomer.patch(path, {"metadata": {"b": 2}}))["metadata"] == {"b": 2}


def test_changed_scopes_count_at_once(newcomer: Gate) -> None:
    key = newcomer.key("upload")
    newcomer.patch(f"/api-keys/{key.api_key_id}", {"scopes": ["metadata"]})
    assert newcomer.as_(key).get("/files").status_code == 200


def test_a_key_is_revoked(newcomer: Gate) -> None:
    key = newcomer.key("upload")
    answer = newcomer.delete(f"/api-keys/{key.api_key_id}")
    assert answer.json()["message"] == "API key revoked"
    assert data(answer) == {"api_key_id": key.api_key_id, "status": "revoked"}
    unauthenticated(newcomer.as_(key).get("/contexts"))
    assert data(newcomer.get(f"/api-keys/{key.api_key_id}"))["status"] == "revoked"


def test_a_second_revocation_changes_nothing(newcomer: Gate) -> None:
    path = f"/api-keys/{newcomer.key('upload').api_key_id}"
    newcomer.delete(path)
    before = data(newcomer.get(path))
    assert data(newcomer.delete(path))["status"] == "revoked"
    assert data(newcomer.get(path)) == before


def test_a_change_may_revoke(newcomer: Gate) -> None:
    key = newcomer.key("upload")
    assert data(newcomer.patch(f"/api-keys/{key.api_key_id}", {"status": "revoked"}))["status"] == "revoked"
    unauthenticated(newcomer.as_(key).get("/contexts"))


@pytest.mark.parametrize("change", [{"status": "active"}, {"status": "disabled"}, {"status": "active", "name": "x"}])
def test_a_revoked_key_is_never_enabled_again(newcomer: Gate, change: dict[str, str]) -> None:
    key = newcomer.key("upload")
    newcomer.delete(f"/api-keys/{key.api_key_id}")
    answer = newcomer.patch(f"/api-keys/{key.api_key_id}", change)
    refused(answer, 409, "API key is revoked", "A revoked key can never be re-enabled; create a new one")
    unauthenticated(newcomer.as_(key).get("/contexts"))


@pytest.mark.asvs("7.4.2", "7.4.5")
def test_a_disabled_key_is_refused_until_it_is_enabled(newcomer: Gate) -> None:
    key = newcomer.key("upload")
    path = f"/api-keys/{key.api_key_id}"
    assert data(newcomer.patch(path, {"status": "disabled"}))["status"] == "disabled"
    unauthenticated(newcomer.as_(key).get("/contexts"))
    assert data(newcomer.patch(path, {"status": "active"}))["status"] == "active"
    assert newcomer.as_(key).get("/contexts").status_code == 200


def test_the_last_use_is_shown_soon_after(newcomer: Gate) -> None:
    key = newcomer.key("upload")
    newcomer.as_(key).get("/contexts")
    deadline, shown = time.monotonic() + 15, None
    while shown is None and time.monotonic() < deadline:
        time.sleep(0.05)  # uses are written in batches by the worker: all one can do is look again
        shown = data(newcomer.get(f"/api-keys/{key.api_key_id}"))["last_used_at"]
    assert is_now(shown)


@pytest.mark.parametrize("key_id", [UNKNOWN, "nonsense", "%00", "x" * 4000, "🌊"], ids=lambda text: text[:12])
def test_an_unknown_key_is_not_found(lobby: Gate, key_id: str) -> None:
    not_found(lobby.get(f"/api-keys/{key_id}"))
    not_found(lobby.patch(f"/api-keys/{key_id}", {"name": "x"}))
    not_found(lobby.delete(f"/api-keys/{key_id}"))


def test_another_tenants_key_answers_as_an_unknown_one(newcomer: Gate, lobby: Gate) -> None:
    key = newcomer.key("upload")
    for method, more in (("GET", {}), ("PATCH", {"json": {"name": "x"}}), ("DELETE", {})):
        foreign = lobby.ask(method, f"/api-keys/{key.api_key_id}", **more)
        assert without_time(foreign) == without_time(lobby.ask(method, f"/api-keys/{UNKNOWN}", **more))
    assert newcomer.as_(key).get("/contexts").status_code == 200


def test_a_list_shows_no_other_tenants_keys(newcomer: Gate) -> None:
    newcomer.stranger().key("upload", name="foreign")
    assert "foreign" not in [item["name"] for item in page(newcomer.get("/api-keys"))[0]]
