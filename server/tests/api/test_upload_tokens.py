"""Upload tokens: create, list, read, revoke, and what their holder can upload and read."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluice.access import ROUTE_SCOPES
from tests.api import tus
from tests.api.responses import (
    assert_error,
    assert_not_found,
    assert_rejected,
    assert_spent,
    assert_unauthenticated,
    assert_validation_error,
    bad_values,
    data,
    page,
    parse_timestamp,
)
from tests.api.samples import TEXT
from tests.events.receiver import wait_until
from tests.rows import each_row
from tests.service import API, ApiClient

ITEM_FIELDS = {
    *("token_id", "token_prefix", "context", "status", "expires_at", "max_files", "files_stored", "attempts"),
    *("end_user", "created_by", "created_at"),
}
FIELDS = ITEM_FIELDS | {
    *("max_file_size_bytes", "allowed_extensions", "allowed_origins", "methods", "metadata"),
    *("redirect_ok", "redirect_error", "files"),
}


def issue(client: ApiClient, context: str | None = None, **fields: Any) -> dict[str, Any]:
    key = context or client.create_context()
    created: dict[str, Any] = data(client.post("/upload-tokens", {"context": key, **fields}), 201)
    return created


def shown(client: ApiClient, token: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data(client.get(f"/upload-tokens/{token['token_id']}"))
    return found


def holder(client: ApiClient, token: dict[str, Any]) -> ApiClient:
    return client.with_credential(token["token"])


def begin_tus(sender: ApiClient) -> tus.Tus:
    """Begin a resumable upload with a token, which names the context."""
    created = tus.create(sender, len(TEXT), filename="note.txt")
    assert created.status_code == 201, created.text
    return tus.Tus(sender, created.headers["location"].partition(API)[2])


def test_text_of_a_new_token_is_shown_only_once(client: ApiClient) -> None:
    token = issue(client, max_files=3, expires_in=900)
    assert set(token) == {
        *("token_id", "token", "upload_url", "tus_url", "form_url", "expires_at"),
        *("max_files", "files_stored", "status"),
    }
    assert re.fullmatch(r"ut_live_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}", token["token"])
    assert token["token_id"].startswith("utk_")
    assert token["upload_url"] == f"{client.service.url}{API}/files/upload"
    assert (token["max_files"], token["files_stored"], token["status"]) == (3, 0, "active")
    life = parse_timestamp(token["expires_at"]) - datetime.now(UTC)
    assert timedelta(seconds=840) < life <= timedelta(seconds=900)
    for path in ("/upload-tokens", f"/upload-tokens/{token['token_id']}"):
        assert token["token"][21:] not in client.get(path).text


def test_read_and_listed_token_have_exactly_their_fields(client: ApiClient) -> None:
    context = client.create_context(allowed_extensions=["pdf", "txt"])
    fields = {
        "max_files": 2,
        "max_file_size_bytes": 5000,
        "allowed_extensions": ["pdf"],
        "allowed_origins": ["https://app.example.com", "http://localhost:3000"],
        "methods": ["form"],
        "end_user": "user-42",
        "metadata": {"claim": "C-7"},
        "redirect_ok": "https://app.example.com/ok",
        "redirect_error": "https://app.example.com/error?form=1",
    }
    first, *others = (issue(client, context, **fields) for _ in range(3))
    found = shown(client, first)
    assert set(found) == FIELDS
    assert {name: found[name] for name in fields} == fields
    assert (found["context"], found["files"], found["attempts"]) == (context, [], 0)
    items, pagination = page(client.get("/upload-tokens", page=1, page_size=2))
    assert [item["token_id"] for item in items] == [token["token_id"] for token in others[::-1]]
    assert {frozenset(item) for item in items} == {frozenset(ITEM_FIELDS)}
    assert pagination["total"] >= 3


@each_row("field, value, named", [
    *bad_values("expires_in", 59, 86_401),
    *bad_values("max_files", 0, 101),
    *bad_values("max_file_size_bytes", 0, 1_048_577),
    *bad_values("allowed_extensions", ["exe"]),
    *bad_values("allowed_origins", ["*"], ["null"], ["https://app.example.com/"], named="allowed_origins.0"),
    *bad_values("allowed_origins", ["https://app.example.com:443"], ["https://*.example.com"], named="allowed_origins.0"),
    *bad_values("methods", ["ftp"], named="methods.0"),
    *bad_values("methods", []),
    *bad_values("metadata", {"a": "x" * 4096}),
    *bad_values("redirect_error", "//example.com/"),
    *bad_values("redirect_ok", "javascript:alert(1)", "http://example.com/ok", "https://user:secret@example.com/"),
    *bad_values("redirect_ok", "https://example.com;script-src/", "https://example.com\\@elsewhere.example/"),
    *bad_values("end_user", "a\nb"),
    *bad_values("unknown", 1),
])  # fmt: skip
def test_token_outside_its_bounds_is_refused(client: ApiClient, field: str, value: Any, named: str) -> None:
    context = client.create_context(allowed_extensions=["txt"], max_file_size_mb=1)
    assert_validation_error(client.post("/upload-tokens", {"context": context, field: value}), named)


def test_token_for_an_unknown_or_inactive_context_is_refused(client: ApiClient) -> None:
    assert_not_found(client.post("/upload-tokens", {"context": "unknown"}))
    context = client.create_context()
    client.patch(f"/contexts/{context}", {"status": "inactive"})
    assert client.post("/upload-tokens", {"context": context}).status_code == 409


def test_response_to_a_token_holds_only_what_its_holder_may_know(client: ApiClient) -> None:
    context = client.create_context(upload_rate_limit={"max_uploads": 5, "window_seconds": 60})
    token = issue(client, context)
    response = holder(client, token).upload(context=context)
    stored = data(response, 201)
    assert set(stored) == {"file_id", "original_filename", "size_bytes", "content_type", "report_id"}
    assert not [name for name in response.headers if name.startswith("ratelimit")]
    found = shown(client, token)
    assert (found["status"], found["files_stored"], found["attempts"]) == ("spent", 1, 1)
    (file,) = found["files"]
    assert (file["file_id"], file["outcome"]) == (stored["file_id"], "accepted")


def test_a_token_orders_a_bounded_number_of_verdicts_on_resumable_uploads(client: ApiClient) -> None:
    context = client.create_context(upload_rate_limit={"max_uploads": 1, "window_seconds": 3600})
    token = issue(client, context, max_files=2)
    upload = begin_tus(holder(client, token))
    client.store(context=context)  # the rate is used up, so that no verdict ends the upload
    statuses = [upload.patch(TEXT, 0).status_code]
    statuses += [upload.patch(TEXT[-1:], len(TEXT) - 1).status_code for _ in range(16)]
    assert statuses == [429] * 15 + [401] * 2
    assert len([one for one in client.decisions() if one["actor_id"] == token["token_id"]]) == 15


@pytest.mark.engine
def test_a_token_has_as_many_resumable_uploads_as_files_left_and_a_share_of_the_bytes(client: ApiClient) -> None:
    sender = holder(client, issue(client, max_files=2))

    def refused(**headers: str) -> int:
        return tus.create(sender, len(TEXT), headers=headers, filename="note.txt").status_code

    first = begin_tus(sender)
    assert first.patch(TEXT[:5], 0).status_code == 204
    empty, second = begin_tus(sender), begin_tus(sender)  # the second replaces the one that has no byte
    assert empty.head().status_code == 404
    assert second.patch(TEXT[:5], 0).status_code == 204
    assert refused() == 429
    data(first.patch(TEXT[5:], 5))
    assert refused() == 429
    data(second.patch(TEXT[5:], 5))
    assert (refused(), refused(**{"Idempotency-Key": "again"})) == (401, 401)
    token = issue(client, client.create_context(max_file_size_mb=500), max_files=100)
    sizes = [tus.create(holder(client, token), 500 * 2**20, filename="a.zzz").status_code for _ in range(11)]
    assert sizes == [201] * 10 + [429]


def test_upload_of_a_token_without_a_byte_ends_within_minutes(client: ApiClient) -> None:
    token = issue(client, max_files=2)
    empty, begun = (begin_tus(holder(client, token)) for _ in range(2))
    assert begun.patch(TEXT[:5], 0).status_code == 204
    past = "UPDATE resumable_uploads SET created_at = :past, due_at = :past WHERE actor_id = :id"
    client.execute_sql(past, past=datetime.now(UTC) - timedelta(minutes=11), id=token["token_id"])
    wait_until(lambda: empty.head().status_code == 404)
    assert begun.offset == 5
    assert data(begun.patch(TEXT[5:], 5))["size_bytes"] == len(TEXT)


def test_a_spent_token_orders_no_verdict(client: ApiClient) -> None:
    token = issue(client)
    sender = holder(client, token)
    upload = begin_tus(sender)
    assert upload.patch(TEXT[:-1], 0).status_code == 204
    sender.store(context=shown(client, token)["context"])
    for _ in range(2):
        assert_spent(upload.patch(TEXT[-1:], len(TEXT) - 1))
    assert [one["outcome"] for one in client.decisions()] == ["accepted"]


def test_file_of_a_token_names_token_and_end_user_and_only_its_context(client: ApiClient) -> None:
    token = issue(client, end_user="user-42", metadata={"claim": "C-7"}, max_files=2)
    sender, sent = holder(client, token), {"claim": "C-8", "note": "n"}
    assert_validation_error(sender.upload(context=client.create_context()), "context")
    data(sender.upload(context=shown(client, token)["context"], metadata=sent), 201)
    (item,), _ = page(client.get("/files", uploaded_by=token["token_id"]))
    assert (item["uploaded_by_name"], item["metadata"]) == ("user-42", {"claim": "C-7", "note": "n"})
    data(sender.request("POST", "/files/upload", files={"file": ("note.txt", TEXT)}), 201)  # without a context


def test_rejected_file_gives_its_sender_the_short_report(client: ApiClient) -> None:
    context = client.create_context(allowed_extensions=["txt", "pdf"])
    token = issue(client, context, allowed_extensions=["pdf"])
    rejected = holder(client, token).upload("note.txt", context=context)
    assert_rejected(rejected, "extension_not_allowed")
    report = rejected.json()["report"]
    assert {"message", "report_id", "reason"} <= set(report)
    assert not {"facts", "checks", "context_key", "engines"} & set(report)
    found = shown(client, token)
    assert (found["status"], found["files_stored"], found["attempts"]) == ("active", 0, 1)
    assert [(file["file_id"], file["outcome"]) for file in found["files"]] == [(None, "rejected")]


def test_token_allows_what_it_and_its_context_both_allow(client: ApiClient) -> None:
    context = client.create_context(allowed_extensions=["txt", "pdf"])
    small = holder(client, issue(client, context, max_file_size_bytes=len(TEXT) - 1))
    assert_rejected(small.upload(context=context), "file_too_large")
    client.store(context=context)
    token = issue(client, context, allowed_extensions=["txt"])
    data(client.patch(f"/contexts/{context}", {"allowed_extensions": ["pdf"]}))
    for name in ("note.txt", "note.pdf", "note"):
        assert_rejected(holder(client, token).upload(name, context=context), "extension_not_allowed")


def test_token_that_is_spent_says_so_and_one_that_expired_is_no_credential(client: ApiClient) -> None:
    token, expired = issue(client), issue(client)
    context = shown(client, token)["context"]
    file_id = holder(client, token).store(context=context)
    assert_spent(holder(client, token).upload(context=context))
    assert shown(client, token)["attempts"] == 1
    client.delete(f"/files/{file_id}")
    assert shown(client, token)["status"] == "spent"
    past = "UPDATE upload_tokens SET expires_at = '2026-01-01 00:00:00.000000' WHERE token_id = :token_id"
    client.execute_sql(past, token_id=expired["token_id"])
    assert_unauthenticated(holder(client, expired).upload(context=shown(client, expired)["context"]))
    assert shown(client, expired)["status"] == "expired"
    token = issue(client, max_file_size_bytes=1)
    context = shown(client, token)["context"]
    for _ in range(10):
        assert_rejected(holder(client, token).upload(context=context), "file_too_large")
    assert_spent(holder(client, token).upload(context=context))
    found = shown(client, token)
    assert (found["status"], found["attempts"], found["files_stored"]) == ("spent", 10, 0)


def test_revoked_token_is_refused_at_once_and_the_audit_log_tells(client: ApiClient) -> None:
    token = issue(client)
    path, context = f"/upload-tokens/{token['token_id']}", shown(client, token)["context"]
    assert data(client.delete(path)) == {"token_id": token["token_id"], "status": "revoked"}
    assert_unauthenticated(holder(client, token).upload(context=context))
    assert shown(client, token)["status"] == "revoked"
    client.delete(path)
    entries, _ = page(client.get("/audit", page_size=100))
    actions = [entry["action"] for entry in entries if entry["target"] == token["token_id"]]
    assert actions == ["upload_token.revoked", "upload_token.created"]


def test_only_the_text_of_the_token_is_a_credential_and_of_the_upload_only(client: ApiClient) -> None:
    token, context = issue(client), client.create_context()
    text = token["token"]
    last = "a" if text[-1] != "a" else "b"
    for sent in (f"Bearer {text[:-1]}{last}", text, f"Bearer {text.replace('live', 'test')}"):
        assert_unauthenticated(client.with_authorization(sent).upload(context=context))
    routes = [route for route in ROUTE_SCOPES if route[1] != f"{API}/files/upload" and "/uploads" not in route[1]]
    for method, path in routes:
        sent_path = re.sub(r"\{[a-z_]+\}", "x", path.removeprefix(API))
        assert_unauthenticated(holder(client, token).request(method, sent_path))
    assert shown(client, token)["attempts"] == 0


def test_key_with_the_scope_upload_makes_tokens_of_its_kind(client: ApiClient) -> None:
    context = client.create_context()
    issue(client.with_credential(client.create_key("upload")), context)
    reader = client.with_credential(client.create_key("metadata"))
    refused = reader.post("/upload-tokens", {"context": context})
    assert_error(refused, 403, "Upload scope required", "Insufficient permissions")
    token = issue(client.with_credential(client.create_test_key("upload")), context)
    assert token["token"].startswith("ut_test_")
    data(holder(client, token).upload(context=context), 201)


@pytest.mark.engine
def test_64_parallel_uploads_with_a_token_store_as_many_files_as_it_allows(client: ApiClient) -> None:
    token = issue(client, max_files=3)
    context = shown(client, token)["context"]
    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda _: holder(client, token).upload(context=context).status_code, range(64)))
    assert statuses.count(201) == 3
    assert set(statuses) <= {201, 401, 429}
    found = shown(client, token)
    assert (found["files_stored"], found["status"]) == (3, "spent")
    assert [file["outcome"] for file in found["files"]] == ["accepted"] * 3
