"""Rotation of API keys: a new text, and the present one for as long as both overlap."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api import tus
from tests.api.responses import (
    assert_error,
    assert_not_found,
    assert_unauthenticated,
    assert_validation_error,
    data,
    page,
    parse_timestamp,
)
from tests.api.samples import TEXT
from tests.api.tables import bad_values
from tests.rows import each_row
from tests.service import ApiClient, Key

UNKNOWN = "key_00000000000000000000000000"


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


@pytest.mark.engine
@each_row("status", ["disabled", "revoked"])
def test_only_two_texts_are_good_and_disabling_their_key_ends_both(bare_client: ApiClient, status: str) -> None:
    key = bare_client.create_key("metadata")
    texts = [rotate(bare_client, key)["api_key"], rotate(bare_client, key)["api_key"]]
    mixed = [texts[0][:20] + texts[1][20:], texts[1][:20] + texts[0][20:]]
    for text in texts:
        assert bare_client.with_credential(text).get("/contexts").status_code == 200
    for text in (key.text, *mixed):
        assert_unauthenticated(bare_client.with_credential(text).get("/contexts"))
    data(bare_client.patch(f"/api-keys/{key.api_key_id}", {"status": status}))
    for text in texts:
        assert_unauthenticated(bare_client.with_credential(text).get("/contexts"))


def test_rotation_keeps_scopes_limits_and_kind(client: ApiClient) -> None:
    context = client.create_context()
    limits: dict[str, Any] = {"contexts": [context], "allowed_networks": ["127.0.0.0/8"], "rate_per_minute": 50}
    key = client.create_key("upload", mode="test", metadata={"team": "weir"}, **limits)
    path = f"/api-keys/{key.api_key_id}"
    before = data(client.get(path))
    rotated = rotate(client, key)
    assert rotated["api_key"].startswith("sl_test_")
    after = data(client.get(path))
    changed = {name: after[name] for name in ("key_prefix", "updated_at", "previous_expires_at")}
    assert after == before | changed


@pytest.mark.engine
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


@each_row("field, value, named", [
    *bad_values("overlap_seconds", -1, 604_801, "60", None, 1.5, True),
    *bad_values("expires_in_days", 0, 366, "7"),
    *bad_values("surprise", 1),
])  # fmt: skip
def test_invalid_rotation_is_refused(shared_client: ApiClient, field: str, value: Any, named: str) -> None:
    key = shared_client.create_key("metadata")
    assert_validation_error(shared_client.post(f"/api-keys/{key.api_key_id}/rotate", {field: value}), named)
    assert shared_client.with_credential(key).get("/contexts").status_code == 200


def test_revoked_unknown_and_foreign_keys_are_not_rotated(bare_client: ApiClient) -> None:
    key, foreign = bare_client.create_key("metadata"), bare_client.other_tenant_client().create_key("metadata")
    bare_client.delete(f"/api-keys/{key.api_key_id}")
    revoked = bare_client.post(f"/api-keys/{key.api_key_id}/rotate", {})
    assert_error(revoked, 409, "API key is revoked", "A revoked key can never be re-enabled; create a new one")
    for key_id in (UNKNOWN, foreign.api_key_id):
        assert_not_found(bare_client.post(f"/api-keys/{key_id}/rotate", {}))


def test_new_text_is_shown_only_once(bare_client: ApiClient) -> None:
    key = bare_client.create_key("metadata")
    rotated = rotate(bare_client, key)
    assert set(rotated) == {"api_key_id", "api_key", "key_prefix", "expires_at", "previous_expires_at"}
    assert rotated["api_key_id"] == key.api_key_id
    assert rotated["api_key"].startswith(f"{rotated['key_prefix']}_")
    assert rotated["api_key"] != key.text
    overlap = parse_timestamp(rotated["previous_expires_at"]) - datetime.now(UTC)
    assert timedelta(hours=23, minutes=59) < overlap <= timedelta(days=1)
    (entry,), _ = page(bare_client.get("/audit", action="api_key.rotated"))
    assert (entry["target"], entry["outcome"]) == (key.api_key_id, "done")
    for path in ("/api-keys", f"/api-keys/{key.api_key_id}", "/audit"):
        assert rotated["api_key"][21:] not in bare_client.get(path).text
    assert data(bare_client.get(f"/api-keys/{key.api_key_id}"))["key_prefix"] == rotated["key_prefix"]
