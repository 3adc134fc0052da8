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
from tests.rows import each_row
from tests.service import ApiClient, Key

pytestmark = pytest.mark.engine

UNKNOWN = "key_00000000000000000000000000"


def rotate(client: ApiClient, key: Key, **body: Any) -> dict[str, Any]:
    rotated: dict[str, Any] = data(client.post(f"/api-keys/{key.api_key_id}/rotate", body))
    return rotated


def end_overlap(client: ApiClient, key: Key) -> None:
    """Let the overlap end."""
    moment: Any = datetime.now(UTC) - timedelta(seconds=1)
    if client.service.deployment.database_url.startswith("sqlite"):
        moment = moment.replace(tzinfo=None).isoformat(" ")
    sql = "UPDATE api_keys SET previous_expires_at = :then WHERE api_key_id = :key"
    client.execute_sql(sql, then=moment, key=key.api_key_id)


def test_new_text_is_shown_only_once(bare_client: ApiClient) -> None:
    key = bare_client.create_key("metadata")
    rotated = rotate(bare_client, key)
    assert set(rotated) == {"api_key_id", "api_key", "key_prefix", "expires_at", "previous_expires_at"}
    assert rotated["api_key_id"] == key.api_key_id
    assert rotated["api_key"].startswith(f"{rotated['key_prefix']}_")
    assert rotated["api_key"] != key.text
    overlap = parse_timestamp(rotated["previous_expires_at"]) - datetime.now(UTC)
    assert timedelta(hours=23, minutes=59) < overlap <= timedelta(days=1)
    for path in ("/api-keys", f"/api-keys/{key.api_key_id}"):
        assert rotated["api_key"][21:] not in bare_client.get(path).text
    assert data(bare_client.get(f"/api-keys/{key.api_key_id}"))["key_prefix"] == rotated["key_prefix"]


def test_both_texts_are_good_until_the_overlap_ends(client: ApiClient) -> None:
    context = client.create_context()
    key = client.create_key("upload", "metadata")
    rotated = rotate(client, key, overlap_seconds=604_800)
    before, after = client.with_credential(key), client.with_credential(rotated["api_key"])
    for caller in (before, after, before):
        caller.store(context=context)
        assert page(caller.get("/files", uploaded_by=key.api_key_id))[1]["total"] > 0
    end_overlap(client, key)
    assert_unauthenticated(before.get("/contexts"))
    after.store(context=context)


def test_text_before_a_rotation_without_overlap_ends_at_once(client: ApiClient) -> None:
    context = client.create_context()
    key = client.create_key("upload")
    client.with_credential(key).store(context=context)
    rotated = rotate(client, key, overlap_seconds=0)
    assert rotated["previous_expires_at"] is None
    assert_unauthenticated(client.with_credential(key).upload(context=context))
    client.with_credential(rotated["api_key"]).store(context=context)


def test_second_rotation_ends_the_text_before_the_first(bare_client: ApiClient) -> None:
    key = bare_client.create_key("metadata")
    first, second = rotate(bare_client, key), rotate(bare_client, key)
    assert_unauthenticated(bare_client.with_credential(key).get("/contexts"))
    for rotated in (first, second):
        assert bare_client.with_credential(rotated["api_key"]).get("/contexts").status_code == 200


def test_texts_do_not_mix(bare_client: ApiClient) -> None:
    key = bare_client.create_key("metadata")
    text = rotate(bare_client, key)["api_key"]
    for mixed in (key.text[:20] + text[20:], text[:20] + key.text[20:]):
        assert_unauthenticated(bare_client.with_credential(mixed).get("/contexts"))


@each_row("status", ["disabled", "revoked"])
def test_disabling_a_key_ends_both_texts(bare_client: ApiClient, status: str) -> None:
    key = bare_client.create_key("metadata")
    text = rotate(bare_client, key)["api_key"]
    data(bare_client.patch(f"/api-keys/{key.api_key_id}", {"status": status}))
    for each in (key.text, text):
        assert_unauthenticated(bare_client.with_credential(each).get("/contexts"))


def test_resumable_upload_goes_on_with_the_new_text(client: ApiClient) -> None:
    key = client.create_key("upload")
    upload = tus.begin(client.with_credential(key), len(TEXT), context=client.create_context())
    assert upload.patch(TEXT[:5], 0).status_code == 204
    rotated = rotate(client, key, overlap_seconds=0)
    assert upload.as_client(client.with_credential(rotated["api_key"])).patch(TEXT[5:], 5).status_code == 200


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


def test_rotation_gives_an_expiring_key_new_time(bare_client: ApiClient) -> None:
    key = bare_client.create_key("metadata", expires_in_days=1)
    rotated = rotate(bare_client, key, overlap_seconds=604_800, expires_in_days=90)
    life = parse_timestamp(rotated["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=89, hours=23) < life <= timedelta(days=90)
    overlap = parse_timestamp(rotated["previous_expires_at"]) - datetime.now(UTC)
    assert overlap <= timedelta(days=1)  # as the text before had it


def test_expired_key_is_rotated_only_with_new_time(bare_client: ApiClient) -> None:
    key = bare_client.create_key("metadata", expires_in_days=1)
    past = (
        "2026-01-01 00:00:00" if "sqlite" in bare_client.service.deployment.name else datetime(2026, 1, 1, tzinfo=UTC)
    )
    bare_client.execute_sql(
        "UPDATE api_keys SET expires_at = :past WHERE api_key_id = :key", past=past, key=key.api_key_id
    )
    response = bare_client.post(f"/api-keys/{key.api_key_id}/rotate", {})
    problem = "expires_in_days: expected a number of days, since the key has expired, found nothing"
    assert_error(response, 422, "Validation error", problem)
    text = rotate(bare_client, key, expires_in_days=7)["api_key"]
    assert bare_client.with_credential(text).get("/contexts").status_code == 200
    assert_unauthenticated(bare_client.with_credential(key).get("/contexts"))


@each_row(
    "field, value",
    [("overlap_seconds", value) for value in (-1, 604_801, "60", None, 1.5, True)]
    + [("expires_in_days", value) for value in (0, 366, "7")]
    + [("surprise", 1)],
)
def test_invalid_rotation_is_refused(shared_client: ApiClient, field: str, value: Any) -> None:
    key = shared_client.create_key("metadata")
    assert_validation_error(shared_client.post(f"/api-keys/{key.api_key_id}/rotate", {field: value}), field)
    assert shared_client.with_credential(key).get("/contexts").status_code == 200


def test_revoked_unknown_and_foreign_keys_are_not_rotated(bare_client: ApiClient) -> None:
    key, foreign = bare_client.create_key("metadata"), bare_client.other_tenant_client().create_key("metadata")
    bare_client.delete(f"/api-keys/{key.api_key_id}")
    revoked = bare_client.post(f"/api-keys/{key.api_key_id}/rotate", {})
    assert_error(revoked, 409, "API key is revoked", "A revoked key can never be re-enabled; create a new one")
    for key_id in (UNKNOWN, foreign.api_key_id):
        assert_not_found(bare_client.post(f"/api-keys/{key_id}/rotate", {}))


def test_rotation_is_in_the_audit_log_without_its_text(bare_client: ApiClient) -> None:
    key = bare_client.create_key("metadata")
    rotated = rotate(bare_client, key)
    listed = bare_client.get("/audit", action="api_key.rotated")
    (entry,), _ = page(listed)
    assert (entry["target"], entry["outcome"]) == (key.api_key_id, "done")
    assert rotated["api_key"][21:] not in listed.text
