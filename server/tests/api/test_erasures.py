"""Erasures: after one, no table, object, log or backup names the person, and the receipt says what was done.

Receipts are signed statements, which anybody can verify with the public keys; those of files are here too.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import metadata
from sluice.erasures.service import Erasures
from sluice.erasures.subject import ErasureSubject
from sluice.jobs.service import Jobs
from sluice.kit.clock import utc_now
from sluice.receipts.signing import InvalidReceipt, verify_receipt
from tests.api import tus
from tests.api.responses import assert_error, assert_not_found, assert_validation_error, data, page
from tests.api.samples import TEXT
from tests.cli.commands import Sluice
from tests.deployments import Deployments
from tests.operator_action import operator_action
from tests.scanning.waiting import until
from tests.service import ApiClient, running_service

NAME = "quillfeather"
FULL_NAME = "Wilhelmina Quillfeather"
SEARCHED = "thimblewort"
LETTER = b"Dear sirs, this is a letter of Wilhelmina Quillfeather.\n"


def erase(client: ApiClient, **subject: Any) -> dict[str, Any]:
    job = data(client.post("/erasures", subject), 202)
    path = f"/erasures/{job['job_id']}"
    assert until(lambda: data(client.get(path))["ended_at"] is not None, 90)
    found: dict[str, Any] = data(client.get(path))
    assert (found["status"], found["error"]) == ("done", None)
    return found


def stated(client: ApiClient, erasure: dict[str, Any]) -> dict[str, Any]:
    """Return what the receipt of an erasure states, once its signature is verified."""
    response = data(client.get(f"/erasures/{erasure['job_id']}/receipt"))
    keys = httpx.get(f"{client.service.url}/.well-known/sluice-receipts.json").json()
    return verify_receipt(response["receipt"], keys)


def rows_that_name(client: ApiClient, word: str) -> list[str]:
    async def search(database: Database) -> list[str]:
        found = []
        async with database.reading(ALL_TENANTS) as connection:
            for table in metadata.sorted_tables:
                for row in (await connection.execute(select(table))).mappings().all():
                    found += [
                        f"{table.name}.{column}: {value}"
                        for column, value in row.items()
                        if word in json.dumps(value, default=str, ensure_ascii=False).casefold()
                    ]
        return found

    return client.service.on_database(search)


def files_that_name(folder: Path, word: str) -> Iterator[str]:
    for path in folder.rglob("*"):
        if word in path.name.casefold() or (path.is_file() and word.encode() in path.read_bytes().lower()):
            yield str(path)


def leave_traces(client: ApiClient) -> tuple[str, list[str]]:
    """Let a person do all that leaves its name; return its id as an uploader, and the ids of its stored files."""
    person = client.with_credential(client.token(sub=f"user-{NAME}", name=FULL_NAME, scope="admin"))
    context = client.create_context(allowed_extensions=["txt"])
    held = client.create_context()
    stored = [person.store(f"{NAME} {number}.txt", LETTER, context=context) for number in range(25)]
    stored += [person.store(f"{NAME}.txt", LETTER, context=context, metadata={"claimant": FULL_NAME})]
    data(person.delete(f"/files/{stored[0]}"))
    assert person.upload(f"{NAME}.exe", LETTER, context=context).status_code == 400
    assert person.upload(f"passport.{NAME}", LETTER, context=context).status_code == 400
    data(person.request("PUT", f"/contexts/{held}/hold", json={"reason": f"Asked by {FULL_NAME}"}))
    data(person.request("DELETE", f"/contexts/{held}/hold"))
    data(person.request("PUT", f"/contexts/{held}/hold", json={"reason": "Case 8"}))
    key = {"Idempotency-Key": f"key-of-{NAME}"}
    data(person.request("POST", "/files/validate", **_form(context)), 200)
    data(person.request("POST", "/files/upload", **_form(context, key)), 201)
    tus.begin(person, 500, filename=f"{NAME}.txt", context=context)
    data(person.post("/upload-tokens", {"context": context, "end_user": "somebody"}), 201)
    uploader = page(client.get("/files", filename=NAME))[0][0]["uploaded_by"]
    wanted = {"uploaded_by": uploader, "status": "quarantined"}
    data(client.post("/files/bulk-delete", {"filter": wanted, "max_files": 1}), 201)
    data(client.request("PUT", f"/contexts/{client.create_context()}/hold", json={"reason": f"Of {FULL_NAME}"}))
    doubtful = client.create_context(policies={"filename_pattern": {"mode": "quarantine", "pattern": "good.*"}})
    of_another = data(client.upload("other.txt", LETTER[:9], context=doubtful), 201)["file_id"]
    data(client.request("PUT", f"/files/{of_another}/hold", json={"reason": f"Of {FULL_NAME}"}))
    assert person.get(f"/quarantine/{of_another}/download").status_code == 200
    wanted = {"filename": SEARCHED, "metadata": {"claim": SEARCHED}}
    data(person.post("/files/export", {"format": "csv", "filter": wanted}), 201)
    return uploader, stored


def _form(context: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "files": {"file": (f"second {NAME}.txt", LETTER)},
        "data": {"context": context, "metadata": json.dumps({"claimant": NAME})},
        "headers": headers or {},
    }


@pytest.mark.parametrize("setup", ["sqlite-local", "postgres-s3"])
def test_after_an_erasure_nothing_names_the_person(deployments: Deployments, setup: str) -> None:
    deployment = deployments.fresh(setup)
    with running_service(deployment, WORKER_SECONDS="0.2") as service:
        client = service.new_client().with_store()
        context = client.create_context()
        kept = client.store("of another.txt", context=context)
        uploader, stored = leave_traces(client)
        assert rows_that_name(client, NAME)
        assert rows_that_name(client, SEARCHED)
        asking = client.with_credential(client.token(sub=f"user-{NAME}", name=FULL_NAME, scope="admin"))
        before = {key for key in client.object_keys() if any(file_id in key for file_id in stored)}
        assert len(before) == len(stored)
        erasure = erase(asking, uploaded_by=uploader)
        if setup == "sqlite-local":  # nor do the database's file and its log while the service runs
            assert list(files_that_name(deployment.data_dir, NAME)) == []
        assert until(lambda: rows_that_name(client, NAME) == [], 30), rows_that_name(client, NAME)
        assert rows_that_name(client, SEARCHED) == []
        assert not before & client.object_keys()
        assert page(client.get("/files"))[1]["total"] == 2
        assert data(client.get(f"/files/{kept}/metadata"))["original_filename"] == "of another.txt"
        found = stated(client, erasure)
        assert found["kind"] == "erasure"
        assert {file["file_id"] for file in found["files"]} >= set(stored)
        assert {file["outcome"] for file in found["files"]} == {"erased"}
        assert found["files_erased"] == len(found["files"]) == erasure["files_erased"] == len(stored) + 1
        assert {"reports", "events", "audit_entries", "resumable_uploads", "jobs", "holds"} <= set(found["blanked"])
        salt, digest = found["subject"]["salt"], found["subject"]["hmac_sha256"]
        assert ErasureSubject(uploaded_by=uploader).digest(bytes.fromhex(salt)) == digest
        # what the lists count is still what they hold
        assert page(client.get("/audit", actor="erased"))[1]["total"] > 0
        done = {entry["action"] for entry in page(client.get("/audit", page_size=100))[0]}
        assert {"erasure.created", "erasure.completed", "file.erased", "file.purged"} <= done
        (completed,) = data(client.get("/events", type="erasure.completed"))
        assert completed["data"]["files_erased"] == erasure["files_erased"]
        if setup == "sqlite-local":
            settings = {"DATA_DIR": str(deployment.data_dir), "DATABASE_URL": deployment.database_url}
            saved = deployment.folder / "saved"
            assert Sluice(deployment.folder, settings)("backup", saved).code == 0
            assert list(files_that_name(saved, NAME)) == []
    # Everything that the service has left on the disk: its database, files, spool and log.
    assert list(files_that_name(deployment.folder, NAME)) == []
    if setup == "sqlite-local":
        with closing(sqlite3.connect(deployment.data_dir / "sluice.db")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_an_end_user_is_erased_with_tokens_and_files_of_others_stay(tenant: ApiClient) -> None:
    context = tenant.create_context()
    tokens = [
        data(tenant.post("/upload-tokens", {"context": context, "end_user": end_user, "page_sentence": end_user}), 201)
        for end_user in ("brindlewick", "somebody else")
    ]
    files = [tenant.with_credential(token["token"]).store("a.txt", context=context) for token in tokens]
    erasure = erase(tenant, end_user="brindlewick")
    assert (erasure["files_erased"], erasure["files_held"]) == (1, 0)
    assert_not_found(tenant.get(f"/files/{files[0]}/metadata"))
    data(tenant.get(f"/files/{files[1]}/metadata"))
    assert rows_that_name(tenant, "brindlewick") == []
    assert data(tenant.get(f"/upload-tokens/{tokens[0]['token_id']}"))["status"] == "revoked"
    assert data(tenant.get(f"/upload-tokens/{tokens[1]['token_id']}"))["end_user"] == "somebody else"


@pytest.mark.engine
def test_files_are_erased_by_their_metadata_with_quota_and_counts(tenant: ApiClient) -> None:
    context = tenant.create_context()
    other = tenant.store("b.txt", context=context, metadata={"claimant": "Marrowby", "claim": 8})
    left = tenant.used_bytes(context)
    theirs = tenant.store("a.txt", context=context, metadata={"claimant": "Marrowby", "claim": 7, "more": [1]})
    erasure = erase(tenant, metadata={"claimant": "Marrowby", "claim": "7"})
    assert [file["file_id"] for file in stated(tenant, erasure)["files"]] == [theirs]
    assert data(tenant.get(f"/files/{other}/metadata"))["metadata"] == {"claimant": "Marrowby", "claim": 8}
    report = page(tenant.get("/reports", context=context))[0]
    assert sorted(item["file"]["original_filename"] for item in report) == ["b.txt", "erased"]
    assert tenant.used_bytes(context) == left
    assert page(tenant.get("/files", context=context))[1]["total"] == 1


def test_a_legal_hold_keeps_files_with_their_names_and_the_receipt_says_so(tenant: ApiClient) -> None:
    context, held_context = tenant.create_context(), tenant.create_context()
    pairs = {"claimant": "Thistleby"}
    held = [tenant.store(f"{place}.txt", context=place, metadata=pairs) for place in (context, held_context)]
    erased = tenant.store("gone.txt", context=context, metadata=pairs)
    for path in (f"/files/{held[0]}", f"/contexts/{held_context}"):
        data(tenant.request("PUT", f"{path}/hold", json={"reason": "Case 9"}))
    erasure = erase(tenant, metadata=pairs)
    assert (erasure["files_erased"], erasure["files_held"]) == (1, 2)
    listed = {file["file_id"]: file["outcome"] for file in stated(tenant, erasure)["files"]}
    assert listed == {erased: "erased", held[0]: "held", held[1]: "held"}
    for file_id, place in zip(held, (context, held_context), strict=True):
        assert data(tenant.get(f"/files/{file_id}/metadata"))["original_filename"] == f"{place}.txt"
    # once the holds have ended, a second erasure erases the rest
    for path in (f"/files/{held[0]}", f"/contexts/{held_context}"):
        data(tenant.request("DELETE", f"{path}/hold"))
    assert erase(tenant, metadata=pairs)["files_erased"] == 2


def test_a_person_without_files_is_erased_too_and_there_is_no_receipt_before_the_end(tenant: ApiClient) -> None:
    erasure = erase(tenant, end_user="nobody-knows")
    found = stated(tenant, erasure)
    assert (found["files"], found["pages"], found["files_erased"]) == ([], 1, 0)
    assert_not_found(tenant.get(f"/erasures/{erasure['job_id']}/receipt", page=2))
    none_or_two = [({}, "body"), ({"uploaded_by": "a", "end_user": "b"}, "body")]
    for body, field in (*none_or_two, ({"metadata": {}}, "metadata"), ({"end_user": ""}, "end_user")):
        assert_validation_error(tenant.post("/erasures", body), field)
    job = data(tenant.post("/files/bulk-delete", {"file_ids": ["file_unknown"]}), 201)
    assert_not_found(tenant.get(f"/erasures/{job['job_id']}"))
    assert_not_found(tenant.get(f"/erasures/{job['job_id']}/receipt"))
    job = data(tenant.post("/erasures", {"end_user": "later"}), 202)
    running = "UPDATE jobs SET state = 'running', due_at = '2100-01-01 00:00:00.000000' WHERE job_id = :job_id"
    tenant.execute_sql(running, job_id=job["job_id"])
    refused = tenant.get(f"/erasures/{job['job_id']}/receipt")
    assert_error(refused, 409, "Erasure is under way", "Ask again when its status is done")


def exported(client: ApiClient) -> str:
    job_id = str(data(client.post("/files/export", {"format": "csv"}), 201)["job_id"])
    assert until(lambda: data(client.get(f"/jobs/{job_id}"))["status"] == "done", 60)
    return job_id


@pytest.mark.engine
def test_exports_that_may_name_the_person_are_gone(client: ApiClient) -> None:
    person = client.with_credential(client.token(sub=f"user-{NAME}", name=FULL_NAME, scope="upload"))
    file_id = person.store(f"{NAME}.txt", LETTER, context=client.create_context())
    other = client.other_tenant_client()
    own, foreign = exported(client), exported(other)
    link = data(client.get(f"/jobs/{own}/download"))["download_url"]
    assert NAME in httpx.get(link).text
    uploader = page(client.get("/files"))[0][0]["uploaded_by"]
    erase(client, uploaded_by=uploader)
    assert httpx.get(link).status_code == 404
    assert_not_found(client.get(f"/jobs/{own}/download"))
    assert data(client.get(f"/jobs/{own}"))["status"] == "done"
    assert httpx.get(data(other.get(f"/jobs/{foreign}/download"))["download_url"]).status_code == 200
    later = data(client.get(f"/jobs/{exported(client)}/download"))["download_url"]
    assert file_id not in httpx.get(later).text


def test_bytes_of_open_uploads_are_gone_with_the_person(client: ApiClient) -> None:
    context = client.create_context()
    token = data(client.post("/upload-tokens", {"context": context, "end_user": NAME}), 201)["token"]
    theirs, foreign = (tus.begin(one, 500, context=context) for one in (client.with_credential(token), client))
    for upload in (theirs, foreign):
        assert upload.patch(LETTER, 0).status_code == 204
    erase(client, end_user=NAME)
    gone, left = (one.path.rpartition("/")[2] for one in (theirs, foreign))
    assert (rows_that_name(client, gone), bool(rows_that_name(client, left))) == ([], True)
    kept = {path.name.partition("-")[0] for path in client.service.deployment.data_dir.glob("objects/*/_incoming/*")}
    assert gone not in kept  # other uploads are those of other tests
    assert foreign.offset == len(LETTER)


def test_export_under_way_is_cancelled_by_an_erasure(client: ApiClient) -> None:
    job_id = exported(client)
    running = "UPDATE jobs SET state = 'running', due_at = :later, ended_at = NULL WHERE job_id = :job_id"
    client.execute_sql(running, later=datetime(2100, 1, 1, tzinfo=UTC), job_id=job_id)
    erasure = data(client.post("/erasures", {"end_user": "nobody-42"}), 202)["job_id"]
    assert until(lambda: data(client.get(f"/jobs/{job_id}"))["status"] == "cancelled", 60)
    # Its objects are deleted some minutes later, since a step may write one yet: here that time is over.
    past = datetime(2026, 1, 1, tzinfo=UTC)
    client.execute_sql("UPDATE jobs SET due_at = :past WHERE job_id = :job_id", past=past, job_id=job_id)
    assert until(lambda: data(client.get(f"/erasures/{erasure}"))["status"] == "done", 60)
    assert_not_found(client.get(f"/jobs/{job_id}/download"))


PATH = "/.well-known/sluice-receipts.json"


def _public_keys(client: ApiClient) -> dict[str, Any]:
    response = httpx.get(client.service.url + PATH)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    found: dict[str, Any] = response.json()
    (key,) = found["keys"]
    assert (set(key), key["kty"], key["crv"]) == ({"kty", "crv", "alg", "use", "kid", "x"}, "OKP", "Ed25519")
    return found


def test_a_receipt_states_what_was_judged_and_no_person_and_only_the_unchanged_one_verifies(tenant: ApiClient) -> None:
    context = tenant.create_context()
    file_id = tenant.store("note.txt", context=context)
    response = data(tenant.get(f"/files/{file_id}/receipt"))
    assert response["keys_path"] == PATH
    stated = verify_receipt(response["receipt"], _public_keys(tenant))
    assert (stated["kind"], stated["tenant_id"], stated["file_id"]) == ("file", tenant.tenant_id, file_id)
    assert (stated["sha256"], stated["size_bytes"]) == (hashlib.sha256(TEXT).hexdigest(), len(TEXT))
    assert (stated["content_type"], stated["verdict"], stated["reason"]) == ("text/plain", "accepted", None)
    report = data(tenant.get(f"/reports/{stated['report_id']}"))
    assert stated["rules_version"] == report["rules_version"]
    assert stated["engines"]["sluice"] == report["engines"]["sluice"]
    assert report["engines"]["scanner"].startswith(stated["engines"]["scanner"])
    assert stated["decided_at"][:19] == report["created_at"][:19]
    file_id = tenant.store("anna-schmidt.txt", context=context, metadata={"claimant": "Anna Schmidt"})
    receipt = data(tenant.get(f"/files/{file_id}/receipt"))["receipt"]
    words = str(verify_receipt(receipt, _public_keys(tenant))).lower()
    assert "anna" not in words
    assert "key_" not in words
    data(tenant.delete(f"/files/{file_id}"))
    assert_not_found(tenant.get(f"/files/{file_id}/receipt"))
    keys = _public_keys(tenant)
    receipt = data(tenant.get(f"/files/{tenant.store(context=tenant.create_context())}/receipt"))["receipt"]
    head, body, signature = receipt.split(".")
    other = "A" if body[20] != "A" else "B"
    for changed in (f"{head}.{body[:20]}{other}{body[21:]}.{signature}", f"{head}.{body}.", "no receipt", ""):
        with pytest.raises(InvalidReceipt):
            verify_receipt(changed, keys)
    with pytest.raises(InvalidReceipt, match="not among the known"):
        verify_receipt(receipt, {"keys": []})


def test_an_erasure_finds_what_was_sent_while_the_clock_was_ahead(tenant: ApiClient) -> None:
    context, pairs = tenant.create_context(), {"claimant": "Larkspur"}
    sent = tenant.store("a.txt", context=context, metadata=pairs)
    nothing: Any = None

    async def create_late(database: Database) -> str:
        jobs = Jobs(database, nothing, nothing, nothing, clock=lambda: utc_now() - timedelta(hours=1))
        subject = ErasureSubject(metadata=tuple(pairs.items()))
        return (await Erasures(database, jobs, nothing).create(operator_action(tenant.tenant_id), subject)).job_id

    path = f"/erasures/{tenant.service.on_database(create_late)}"
    assert until(lambda: data(tenant.get(path))["ended_at"] is not None, 90)
    found = data(tenant.get(path))
    assert (found["status"], found["files_erased"]) == ("done", 1)
    assert_not_found(tenant.get(f"/files/{sent}/metadata"))
    assert rows_that_name(tenant, "larkspur") == []
