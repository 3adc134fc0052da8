"""Resumable uploads by tus 1.0.0, each rule over raw HTTP."""

import base64
import hashlib
import json
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.api import tus
from tests.api.responses import assert_error, assert_not_found, assert_rejected, assert_validation_error, data
from tests.api.samples import TEXT
from tests.api.test_upload_tokens import holder, issue, shown
from tests.api.tus import HALF, INFECTED
from tests.service import API, ApiClient


def begun(created: httpx.Response, client: ApiClient) -> tus.Tus:
    return tus.Tus(client, urlsplit(created.headers["location"]).path.removeprefix(API))


def test_options_tells_what_the_server_can_do(shared_client: ApiClient) -> None:
    found = shared_client.with_credential(None).request("OPTIONS", "/uploads")
    assert (found.status_code, found.headers["tus-version"]) == (204, "1.0.0")
    assert found.headers["tus-max-size"] == str(500 * 1_048_576)
    extensions = {"creation", "creation-with-upload", "expiration", "checksum", "termination"}
    assert set(found.headers["tus-extension"].split(",")) == extensions
    assert found.headers["tus-checksum-algorithm"] == "sha1,sha256"
    assert found.headers["upload-limit"] == f"max-size={500 * 1_048_576}, max-age=86400"


def test_new_upload_is_at_offset_zero_of_the_public_url(client: ApiClient, context: str) -> None:
    for host in (urlsplit(client.service.url).netloc, "evil.example"):
        created = tus.create(client, len(TEXT), context=context, filename="note.txt", headers={"Host": host})
        assert created.status_code == 201
        assert created.headers["location"].startswith(f"{client.service.url}{API}/uploads/upl_")
        assert (created.headers["tus-resumable"], created.headers["upload-offset"]) == ("1.0.0", "0")
        assert created.headers["upload-expires"].endswith(" GMT")
        found = begun(created, client).head()
        assert (found.status_code, found.headers["upload-offset"]) == (200, "0")
        assert found.headers["upload-length"] == str(len(TEXT))
        assert found.headers["upload-metadata"] == tus.metadata(context=context, filename="note.txt")
        assert found.headers["cache-control"] == "no-store"


@pytest.mark.engine
def test_file_in_several_requests_is_stored_as_one(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context, more={"metadata": json.dumps({"claim": "C-7"})})
    first = upload.patch(TEXT[:HALF], 0)
    assert (first.status_code, first.headers["upload-offset"]) == (204, str(HALF))
    assert upload.offset == HALF
    before = data(upload.request("GET"))
    assert (before["state"], before["offset"], before["length"]) == ("open", HALF, len(TEXT))
    assert (before["file_id"], before["report_id"]) == (None, None)
    last = upload.patch(TEXT[HALF:], HALF)
    stored = data(last, 200)
    assert (stored["original_filename"], stored["size_bytes"]) == ("note.txt", len(TEXT))
    assert stored["metadata"] == {"claim": "C-7"}
    for found in (last, upload.head()):
        assert (found.headers["sluice-file-id"], found.headers["upload-offset"]) == (stored["file_id"], str(len(TEXT)))
    after = data(upload.request("GET"))
    assert (after["state"], after["offset"], after["file_id"]) == ("stored", len(TEXT), stored["file_id"])
    kept = data(client.get(f"/files/{stored['file_id']}/metadata"))
    assert kept["checksum"] == f"sha256:{hashlib.sha256(TEXT).hexdigest()}"
    assert [decision["outcome"] for decision in client.decisions()] == ["accepted"]


def test_bytes_in_the_creation_are_kept_and_judged_once_all_have_come(client: ApiClient) -> None:
    context = client.create_context(reject_blank_files=True)

    def create(length: int, content: bytes | None) -> httpx.Response:
        return tus.create(client, length, content=content, context=context, filename="note.txt")

    whole = create(len(TEXT), TEXT)
    assert whole.headers["sluice-file-id"] == data(whole, 201)["file_id"]
    assert whole.headers["upload-offset"] == str(len(TEXT))
    assert whole.headers["location"]
    half = create(len(TEXT), TEXT[:HALF])
    assert (half.status_code, half.headers["upload-offset"]) == (201, str(HALF))
    assert data(begun(half, client).patch(TEXT[HALF:], HALF))["size_bytes"] == len(TEXT)
    infected = create(len(INFECTED), INFECTED)
    assert_rejected(infected, "virus_detected")
    empty, by_form = create(0, None), client.upload("note.txt", b"", context=context)
    assert (empty.status_code, empty.json()["errors"]) == (by_form.status_code, by_form.json()["errors"])
    assert "location" not in {*infected.headers, *empty.headers}


# --- Rule 1: refusals before the first byte


def test_rules_scopes_and_inactive_contexts_refuse_before_the_first_byte(client: ApiClient, context: str) -> None:
    strict = client.create_context(allowed_extensions=["pdf"])
    created = tus.create(client, 5, context=strict, filename="note.txt")
    assert_rejected(created, "extension_not_allowed")
    assert created.json()["report"]["report_id"] == created.headers["sluice-report-id"]
    assert "location" not in created.headers
    assert [decision["reason"] for decision in client.decisions()] == ["extension_not_allowed"]
    for rule, reason in (("max_file_size_mb", "file_too_large"), ("storage_quota_mb", "storage_quota_exceeded")):
        strict = client.create_context(**{rule: 1})
        assert_rejected(tus.create(client, 1_048_577, context=strict, filename="note.txt"), reason)
    too_large = tus.create(client, 500 * 1_048_576 + 1, context=context, filename="note.txt")
    assert too_large.status_code == 413
    assert_not_found(tus.create(client, 5, context="unknown", filename="note.txt"))
    reader = client.with_credential(client.create_key("download"))
    assert tus.create(reader, 5, context=context, filename="note.txt").status_code == 403
    client.patch(f"/contexts/{context}", {"status": "inactive"})
    assert tus.create(client, 5, context=context, filename="note.txt").status_code == 409


def test_what_is_wrong_with_a_creation_is_named(client: ApiClient, context: str) -> None:
    assert_validation_error(tus.create(client, 5, colour="red"), "Upload-Metadata", "Upload-Metadata")
    named: dict[str, Any] = {"context": context, "filename": "note.txt"}
    assert_validation_error(tus.create(client, 5, **named, metadata="[1]"), "metadata")
    for sent in ("context !!!", "context YQ==,context YQ==", "filename /w=="):
        created = tus.create(client, 5, headers={"Upload-Metadata": sent})
        assert_validation_error(created, "Upload-Metadata")
    parts = tus.create(client, 5, **named, headers={"Upload-Concat": "partial"})
    assert_validation_error(parts, "Upload-Concat")
    for length in ("", "-1", "1.5", "0x10", "1" * 19):
        assert_validation_error(tus.create(client, length, **named), "Upload-Length")
    versions: list[dict[str, str]] = [{}, {"Tus-Resumable": "0.2.2"}]
    for version in versions:
        headers = {"Upload-Length": "5", "Upload-Metadata": tus.metadata(**named)} | version
        found = client.request("POST", "/uploads", headers=headers)
        assert (found.status_code, found.headers["tus-version"]) == (412, "1.0.0")


# --- Rules 2, 3, 7: appending


def test_body_of_any_length_is_appended_but_none_with_a_wrong_offset_type_or_size(
    client: ApiClient, context: str
) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    assert upload.patch(iter([TEXT[:5], TEXT[5:HALF]]), 0).status_code == 204
    assert data(upload.patch(iter([TEXT[HALF:]]), HALF))["size_bytes"] == len(TEXT)
    upload, stream = (tus.begin(client, len(TEXT), context=context) for _ in range(2))
    assert upload.patch(TEXT, 0, Content_Type="text/plain").status_code == 415
    assert upload.patch(TEXT + b"x", 0).status_code == 413
    assert upload.offset == 0
    upload.patch(TEXT[:HALF], 0)
    found = upload.patch(TEXT, 0)
    assert (found.status_code, found.headers["upload-offset"]) == (409, str(HALF))
    assert upload.offset == HALF
    assert stream.patch(iter([TEXT, b"x"]), 0).status_code == 413


def test_chunk_is_kept_only_with_the_right_checksum(client: ApiClient, context: str) -> None:
    for algorithm in ("sha1", "sha256"):
        upload = tus.begin(client, len(TEXT), context=context)
        right, wrong = (
            base64.b64encode(hashlib.new(algorithm, content).digest()).decode() for content in (TEXT[:HALF], b"other")
        )
        assert upload.patch(TEXT[:HALF], 0, Upload_Checksum=f"{algorithm} {wrong}").status_code == 460
        for malformed in ("md5 YQ==", "sha1 !", "sha1"):
            assert upload.patch(TEXT, 0, Upload_Checksum=malformed).status_code in {400, 460}
            assert upload.offset == 0
        assert upload.patch(TEXT[:HALF], 0, Upload_Checksum=f"{algorithm} {right}").status_code == 204
        assert upload.offset == HALF
        assert data(upload.patch(TEXT[HALF:], HALF))["size_bytes"] == len(TEXT)


# --- Rules 4 to 6: the verdict


@pytest.mark.engine
def test_verdict_on_a_stored_file_is_repeated_until_it_is_deleted(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    first = upload.patch(TEXT, 0)
    for again in (upload.patch(b"", len(TEXT)), upload.patch(TEXT[-1:], len(TEXT) - 1)):
        assert data(again) == data(first)
        for name in ("sluice-file-id", "sluice-report-id"):
            assert again.headers[name] == first.headers[name]
        assert again.headers["upload-offset"] == str(len(TEXT))
    assert len(client.decisions()) == 1
    finished = ("Upload is finished", "All bytes have come and are judged; a stored file can be deleted")
    assert_error(upload.request("DELETE"), 409, *finished)
    data(client.delete(f"/files/{data(first)['file_id']}"))
    assert upload.head().status_code == 404


def test_last_byte_of_a_rejected_file_is_never_acknowledged(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(INFECTED), context=context)
    first = upload.patch(INFECTED, 0)
    assert_rejected(first, "virus_detected")
    assert upload.offset == len(INFECTED) - 1
    again = upload.patch(INFECTED[-1:], len(INFECTED) - 1)
    assert_rejected(again, "virus_detected")
    assert again.json()["report"] == first.json()["report"]
    assert len(client.decisions()) == 1
    assert data(upload.request("GET"))["state"] == "rejected"
    data(client.patch(f"/contexts/{context}", {"max_file_size_mb": 7}))  # other rules: the verdict is forgotten
    assert upload.head().status_code == 404
    assert_not_found(upload.patch(INFECTED[-1:], len(INFECTED) - 1))


@pytest.mark.engine
def test_cancelled_upload_is_not_found_and_the_method_may_stand_in_a_header(client: ApiClient, context: str) -> None:
    upload, other = (tus.begin(client, len(TEXT), context=context) for _ in range(2))
    wrong = upload.request("PUT")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "DELETE, GET, HEAD, OPTIONS, PATCH")
    sent = {"X-HTTP-Method-Override": "PATCH", "Content-Type": tus.BYTES, "Upload-Offset": "0"}
    assert upload.request("POST", headers=sent, content=TEXT[:HALF]).status_code == 204
    assert upload.request("POST", headers={"X-HTTP-Method-Override": "DELETE"}).status_code == 204
    assert other.patch(TEXT[:HALF], 0).status_code == 204
    assert other.request("DELETE").status_code == 204
    for cancelled in (upload, other):
        assert cancelled.head().status_code == 404
        assert_not_found(cancelled.request("GET"))
        assert_not_found(cancelled.patch(TEXT[HALF:], HALF))


# --- Rules 9, 10: credentials


def test_upload_of_another_credential_is_not_found(client: ApiClient, context: str) -> None:
    by_key = tus.begin(client, len(TEXT), context=context)
    user, again, stranger = (
        client.with_credential(client.token(scope="upload", sub=sub)) for sub in ("user-1", "user-1", "user-2")
    )
    by_user = tus.begin(user, len(TEXT), context=context)
    strangers = [
        client.with_credential(client.create_key("admin")),
        client.with_credential(client.token(scope="admin")),
    ]
    strangers += [client.other_tenant_client(), holder(client, issue(client, context))]
    for theirs in (by_user.as_client(stranger), *(by_key.as_client(other) for other in strangers)):
        assert theirs.head().status_code == 404
        assert_not_found(theirs.patch(TEXT, 0))
        assert_not_found(theirs.request("GET"))
        assert_not_found(theirs.request("DELETE"))
    assert data(by_user.as_client(again).patch(TEXT, 0))["size_bytes"] == len(TEXT)


def test_holder_of_a_token_for_it_uploads_without_naming_the_context(client: ApiClient, context: str) -> None:
    token = issue(client, context, metadata={"claim": "C-7"}, end_user="user-42")
    assert token["tus_url"] == f"{client.service.url}{API}/uploads"
    sender = holder(client, token)
    created = tus.create(sender, len(TEXT), filename="note.txt", metadata=json.dumps({"claim": "other"}))
    stored = data(begun(created, sender).patch(TEXT, 0))
    assert set(stored) == {"file_id", "original_filename", "content_type", "size_bytes", "report_id"}
    assert data(client.get(f"/files/{stored['file_id']}/metadata"))["metadata"] == {"claim": "C-7"}
    counted = shown(client, token)
    assert (counted["status"], counted["files_stored"], counted["attempts"]) == ("spent", 1, 1)
    forms_only, tus_only = (holder(client, issue(client, context, methods=[method])) for method in ("form", "tus"))
    assert tus.create(forms_only, 5, filename="note.txt").status_code == 401
    assert tus_only.upload(context=context).status_code == 401
    assert tus.create(tus_only, 5, filename="note.txt").status_code == 201


def test_token_stays_good_for_its_own_uploads_when_it_expired_but_not_when_it_was_revoked(
    client: ApiClient, context: str
) -> None:
    expired, revoked = issue(client, context, max_files=2), issue(client, context)
    upload, lost = (tus.begin(holder(client, token), len(TEXT), context=context) for token in (expired, revoked))
    past = "UPDATE upload_tokens SET expires_at = '2026-01-01 00:00:00' WHERE token_id = :token_id"
    client.execute_sql(past, token_id=expired["token_id"])
    client.delete(f"/upload-tokens/{revoked['token_id']}")
    assert tus.create(holder(client, expired), 5, filename="note.txt").status_code == 401
    assert upload.offset == 0
    assert data(upload.patch(TEXT, 0))["size_bytes"] == len(TEXT)
    assert lost.head().status_code == 401
    assert lost.patch(TEXT, 0).status_code == 401
