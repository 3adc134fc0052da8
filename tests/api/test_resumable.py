"""Resumable uploads by tus 1.0.0, each rule over raw HTTP."""

import base64
import hashlib
import json
from urllib.parse import urlsplit

import pytest

from tests.api import tus
from tests.api.responses import assert_error, assert_not_found, assert_rejected, assert_validation_error, data
from tests.api.samples import TEXT, eicar
from tests.api.test_upload_tokens import holder, issue, shown
from tests.rows import each_row
from tests.service import API, ApiClient

pytestmark = pytest.mark.engine

HALF = len(TEXT) // 2
INFECTED = eicar()


@pytest.fixture
def context(client: ApiClient) -> str:
    return client.create_context()


# --- Discovery, creation


def test_options_tells_what_the_server_can_do(shared_client: ApiClient) -> None:
    found = shared_client.with_credential(None).request("OPTIONS", "/uploads")
    assert found.status_code == 204
    assert found.headers["tus-version"] == "1.0.0"
    assert found.headers["tus-max-size"] == str(500 * 1_048_576)
    assert set(found.headers["tus-extension"].split(",")) == {
        *("creation", "creation-with-upload", "expiration", "checksum", "termination")
    }
    assert found.headers["tus-checksum-algorithm"] == "sha1,sha256"
    assert found.headers["upload-limit"] == f"max-size={500 * 1_048_576}, max-age=86400"


def test_new_upload_is_at_offset_zero(client: ApiClient, context: str) -> None:
    created = tus.create(client, len(TEXT), context=context, filename="note.txt")
    assert created.status_code == 201
    assert created.headers["location"].startswith(f"{client.service.url}{API}/uploads/upl_")
    assert created.headers["tus-resumable"] == "1.0.0"
    assert created.headers["upload-offset"] == "0"
    assert created.headers["upload-expires"].endswith(" GMT")
    upload = tus.Tus(client, urlsplit(created.headers["location"]).path.removeprefix(API))
    found = upload.head()
    assert (found.status_code, found.headers["upload-offset"]) == (200, "0")
    assert found.headers["upload-length"] == str(len(TEXT))
    assert found.headers["upload-metadata"] == tus.metadata(context=context, filename="note.txt")
    assert found.headers["cache-control"] == "no-store"


def test_location_is_that_of_the_public_url_whatever_host_is_named(client: ApiClient, context: str) -> None:
    created = tus.create(client, 5, context=context, filename="note.txt", headers={"Host": "evil.example"})
    assert created.headers["location"].startswith(client.service.url)


def test_file_in_several_requests_is_stored_as_one(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context, more={"metadata": json.dumps({"claim": "C-7"})})
    first = upload.patch(TEXT[:HALF], 0)
    assert (first.status_code, first.headers["upload-offset"]) == (204, str(HALF))
    assert upload.offset == HALF
    last = upload.patch(TEXT[HALF:], HALF)
    stored = data(last, 200)
    assert stored["original_filename"] == "note.txt"
    assert stored["size_bytes"] == len(TEXT)
    assert stored["metadata"] == {"claim": "C-7"}
    assert last.headers["sluice-file-id"] == stored["file_id"]
    assert last.headers["upload-offset"] == str(len(TEXT))
    found = upload.head()
    assert found.headers["upload-offset"] == str(len(TEXT))
    assert found.headers["sluice-file-id"] == stored["file_id"]
    kept = data(client.get(f"/files/{stored['file_id']}/metadata"))
    assert kept["checksum"] == f"sha256:{hashlib.sha256(TEXT).hexdigest()}"
    assert [decision["outcome"] for decision in client.decisions()] == ["accepted"]


def test_whole_file_in_the_creation_is_answered_as_stored(client: ApiClient, context: str) -> None:
    created = tus.create(client, len(TEXT), content=TEXT, context=context, filename="note.txt")
    stored = data(created, 201)
    assert created.headers["sluice-file-id"] == stored["file_id"]
    assert created.headers["upload-offset"] == str(len(TEXT))
    assert created.headers["location"]


def test_first_bytes_in_the_creation_are_kept(client: ApiClient, context: str) -> None:
    created = tus.create(client, len(TEXT), content=TEXT[:HALF], context=context, filename="note.txt")
    assert (created.status_code, created.headers["upload-offset"]) == (201, str(HALF))
    upload = tus.Tus(client, urlsplit(created.headers["location"]).path.removeprefix(API))
    assert data(upload.patch(TEXT[HALF:], HALF))["size_bytes"] == len(TEXT)


def test_whole_rejected_file_in_the_creation_has_no_location(client: ApiClient, context: str) -> None:
    created = tus.create(client, len(INFECTED), content=INFECTED, context=context, filename="note.txt")
    assert_rejected(created, "virus_detected")
    assert "location" not in created.headers


def test_empty_file_gets_its_verdict_with_the_creation(client: ApiClient) -> None:
    context = client.create_context(reject_blank_files=True)
    created = tus.create(client, 0, context=context, filename="note.txt")
    by_form = client.upload("note.txt", b"", context=context)
    assert (created.status_code, created.json()["errors"]) == (by_form.status_code, by_form.json()["errors"])
    assert "location" not in created.headers


# --- Rule 1: refusals before the first byte


def test_extension_is_refused_before_the_first_byte(client: ApiClient) -> None:
    context = client.create_context(allowed_extensions=["pdf"])
    created = tus.create(client, 5, context=context, filename="note.txt")
    assert_rejected(created, "extension_not_allowed")
    assert created.json()["report"]["report_id"] == created.headers["sluice-report-id"]
    assert "location" not in created.headers
    assert [decision["reason"] for decision in client.decisions()] == ["extension_not_allowed"]


def test_declared_length_is_refused_before_the_first_byte(client: ApiClient) -> None:
    context = client.create_context(max_file_size_mb=1)
    assert_rejected(tus.create(client, 1_048_577, context=context, filename="note.txt"), "file_too_large")


def test_length_beyond_any_context_is_too_large(client: ApiClient, context: str) -> None:
    created = tus.create(client, 500 * 1_048_576 + 1, context=context, filename="note.txt")
    assert created.status_code == 413


def test_quota_is_refused_before_the_first_byte(client: ApiClient) -> None:
    context = client.create_context(storage_quota_mb=1)
    assert_rejected(tus.create(client, 1_048_577, context=context, filename="note.txt"), "storage_quota_exceeded")


def test_unknown_context_is_not_found(client: ApiClient) -> None:
    assert_not_found(tus.create(client, 5, context="unknown", filename="note.txt"))


def test_inactive_context_is_refused(client: ApiClient, context: str) -> None:
    client.patch(f"/contexts/{context}", {"status": "inactive"})
    assert tus.create(client, 5, context=context, filename="note.txt").status_code == 409


def test_creation_needs_the_scope_upload(client: ApiClient, context: str) -> None:
    reader = client.with_credential(client.create_key("download"))
    assert tus.create(reader, 5, context=context, filename="note.txt").status_code == 403


def test_what_is_missing_in_the_metadata_is_named(client: ApiClient) -> None:
    created = tus.create(client, 5, colour="red")
    assert_validation_error(created, "Upload-Metadata", "Upload-Metadata")


@each_row("sent", ["context !!!", "context YQ==,context YQ==", "filename /w=="])
def test_metadata_that_is_no_base64_of_utf8_is_invalid(client: ApiClient, sent: str) -> None:
    created = tus.create(client, 5, headers={"Upload-Metadata": sent})
    assert_validation_error(created, "Upload-Metadata")


@each_row("sent", ["", "-1", "1.5", "0x10", "1" * 19])
def test_length_that_is_no_number_is_invalid(client: ApiClient, context: str, sent: str) -> None:
    assert_validation_error(tus.create(client, sent, context=context, filename="note.txt"), "Upload-Length")


def test_broken_metadata_of_the_file_is_refused_before_the_first_byte(client: ApiClient, context: str) -> None:
    created = tus.create(client, 5, context=context, filename="note.txt", metadata="[1]")
    assert_validation_error(created, "metadata")


@each_row("sent", [{}, {"Tus-Resumable": "0.2.2"}])
def test_other_version_is_a_failed_precondition(client: ApiClient, context: str, sent: dict[str, str]) -> None:
    headers = {"Upload-Length": "5", "Upload-Metadata": tus.metadata(context=context, filename="a.txt")} | sent
    found = client.request("POST", "/uploads", headers=headers)
    assert (found.status_code, found.headers["tus-version"]) == (412, "1.0.0")


# --- Rules 2, 3, 7: appending


def test_wrong_offset_is_a_conflict_that_names_the_right_one(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    upload.patch(TEXT[:HALF], 0)
    found = upload.patch(TEXT, 0)
    assert (found.status_code, found.headers["upload-offset"]) == (409, str(HALF))
    assert upload.offset == HALF


def test_wrong_media_type_is_unsupported(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    assert upload.patch(TEXT, 0, Content_Type="text/plain").status_code == 415


def test_more_than_the_length_is_too_large(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    assert upload.patch(TEXT + b"x", 0).status_code == 413
    assert upload.offset == 0


def test_more_than_the_length_without_a_declared_length_is_too_large(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    assert upload.patch(iter([TEXT, b"x"]), 0).status_code == 413


def test_body_without_a_declared_length_is_appended(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    assert upload.patch(iter([TEXT[:5], TEXT[5:HALF]]), 0).status_code == 204
    assert data(upload.patch(iter([TEXT[HALF:]]), HALF))["size_bytes"] == len(TEXT)


def test_method_may_stand_in_a_header_of_a_post(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    sent = {"X-HTTP-Method-Override": "PATCH", "Content-Type": tus.BYTES, "Upload-Offset": "0"}
    assert upload.request("POST", headers=sent, content=TEXT[:HALF]).status_code == 204
    assert upload.request("POST", headers={"X-HTTP-Method-Override": "DELETE"}).status_code == 204
    assert_not_found(upload.request("GET"))


def test_other_method_is_not_allowed(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    found = upload.request("PUT")
    assert found.status_code == 405
    assert found.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH"


@each_row("algorithm", ["sha1", "sha256"])
def test_right_checksum_is_accepted(client: ApiClient, context: str, algorithm: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    digest = base64.b64encode(hashlib.new(algorithm, TEXT[:HALF]).digest()).decode()
    assert upload.patch(TEXT[:HALF], 0, Upload_Checksum=f"{algorithm} {digest}").status_code == 204
    assert upload.offset == HALF


def test_chunk_with_a_wrong_checksum_is_discarded(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    wrong = base64.b64encode(hashlib.sha1(b"other").digest()).decode()
    found = upload.patch(TEXT, 0, Upload_Checksum=f"sha1 {wrong}")
    assert found.status_code == 460
    assert upload.offset == 0
    assert data(upload.patch(TEXT, 0))["size_bytes"] == len(TEXT)


@each_row("sent", ["md5 YQ==", "sha1 !", "sha1"])
def test_checksum_that_cannot_be_compared_is_malformed(client: ApiClient, context: str, sent: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    assert upload.patch(TEXT, 0, Upload_Checksum=sent).status_code in {400, 460}
    assert upload.offset == 0


# --- Rules 4 to 6: the verdict


def test_verdict_on_a_stored_file_is_repeated(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    first = upload.patch(TEXT, 0)
    for again in (upload.patch(b"", len(TEXT)), upload.patch(TEXT[-1:], len(TEXT) - 1)):
        assert data(again) == data(first)
        assert again.headers["sluice-file-id"] == first.headers["sluice-file-id"]
        assert again.headers["sluice-report-id"] == first.headers["sluice-report-id"]
        assert again.headers["upload-offset"] == str(len(TEXT))
    assert len(client.decisions()) == 1


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


def test_rejection_is_forgotten_when_the_rules_of_the_context_change(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(INFECTED), context=context)
    upload.patch(INFECTED, 0)
    data(client.patch(f"/contexts/{context}", {"max_file_size_mb": 7}))
    assert upload.head().status_code == 404
    assert_not_found(upload.patch(INFECTED[-1:], len(INFECTED) - 1))


def test_upload_of_a_deleted_file_is_not_found(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    stored = data(upload.patch(TEXT, 0))
    data(client.delete(f"/files/{stored['file_id']}"))
    assert upload.head().status_code == 404


def test_state_of_an_upload_is_shown(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    upload.patch(TEXT[:HALF], 0)
    before = data(upload.request("GET"))
    assert (before["state"], before["offset"], before["length"]) == ("open", HALF, len(TEXT))
    assert (before["file_id"], before["report_id"]) == (None, None)
    stored = data(upload.patch(TEXT[HALF:], HALF))
    after = data(upload.request("GET"))
    assert (after["state"], after["offset"], after["file_id"]) == ("stored", len(TEXT), stored["file_id"])


# --- Termination


def test_cancelled_upload_is_not_found(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    upload.patch(TEXT[:HALF], 0)
    assert upload.request("DELETE").status_code == 204
    assert upload.head().status_code == 404
    assert_not_found(upload.patch(TEXT[HALF:], HALF))


def test_finished_upload_cannot_be_cancelled(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    upload.patch(TEXT, 0)
    assert_error(
        upload.request("DELETE"),
        409,
        "Upload is finished",
        "All bytes have come and are judged; a stored file can be deleted",
    )


# --- Rules 9, 10: credentials


def test_upload_of_another_credential_is_not_found(client: ApiClient, context: str) -> None:
    upload = tus.begin(client, len(TEXT), context=context)
    for other in (
        client.with_credential(client.create_key("admin")),
        client.with_credential(client.token(scope="admin")),
        client.other_tenant_client(),
        holder(client, issue(client, context)),
    ):
        theirs = upload.as_client(other)
        assert theirs.head().status_code == 404
        assert_not_found(theirs.patch(TEXT, 0))
        assert_not_found(theirs.request("GET"))
        assert_not_found(theirs.request("DELETE"))


def test_user_goes_on_with_another_token_of_the_same_subject(client: ApiClient, context: str) -> None:
    user = client.with_credential(client.token(scope="upload", sub="user-1"))
    upload = tus.begin(user, len(TEXT), context=context)
    later = upload.as_client(client.with_credential(client.token(scope="upload", sub="user-1")))
    assert data(later.patch(TEXT, 0))["size_bytes"] == len(TEXT)
    stranger = upload.as_client(client.with_credential(client.token(scope="upload", sub="user-2")))
    assert stranger.head().status_code == 404


def test_holder_of_a_token_uploads_without_naming_the_context(client: ApiClient, context: str) -> None:
    token = issue(client, context, metadata={"claim": "C-7"}, end_user="user-42")
    assert token["tus_url"] == f"{client.service.url}{API}/uploads"
    sender = holder(client, token)
    created = tus.create(sender, len(TEXT), filename="note.txt", metadata=json.dumps({"claim": "other"}))
    upload = tus.Tus(sender, urlsplit(created.headers["location"]).path.removeprefix(API))
    stored = data(upload.patch(TEXT, 0))
    assert set(stored) == {"file_id", "original_filename", "content_type", "size_bytes", "report_id"}
    assert data(client.get(f"/files/{stored['file_id']}/metadata"))["metadata"] == {"claim": "C-7"}
    counted = shown(client, token)
    assert (counted["status"], counted["files_stored"], counted["attempts"]) == ("spent", 1, 1)


def test_token_for_forms_only_begins_no_resumable_upload(client: ApiClient, context: str) -> None:
    forms_only = holder(client, issue(client, context, methods=["form"]))
    assert tus.create(forms_only, 5, filename="note.txt").status_code == 401
    tus_only = holder(client, issue(client, context, methods=["tus"]))
    assert tus_only.upload(context=context).status_code == 401
    assert tus.create(tus_only, 5, filename="note.txt").status_code == 201


def test_token_that_expired_stays_good_for_its_own_uploads(client: ApiClient, context: str) -> None:
    token = issue(client, context, max_files=2)
    sender = holder(client, token)
    upload = tus.begin(sender, len(TEXT), context=context)
    past = "UPDATE upload_tokens SET expires_at = '2026-01-01 00:00:00' WHERE token_id = :token_id"
    client.execute_sql(past, token_id=token["token_id"])
    assert tus.create(sender, 5, filename="note.txt").status_code == 401
    assert upload.offset == 0
    assert data(upload.patch(TEXT, 0))["size_bytes"] == len(TEXT)


def test_token_that_was_revoked_is_good_for_nothing(client: ApiClient, context: str) -> None:
    token = issue(client, context)
    upload = tus.begin(holder(client, token), len(TEXT), context=context)
    client.delete(f"/upload-tokens/{token['token_id']}")
    assert upload.head().status_code == 401
    assert upload.patch(TEXT, 0).status_code == 401
