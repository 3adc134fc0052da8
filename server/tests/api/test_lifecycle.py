"""The life of a file after its upload: restored, held, kept for a time, reviewed in quarantine."""

import hashlib
import itertools
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluice.access import operator
from sluice.audit import AuditAction
from sluice.db.database import Database
from sluice.errors import SecondReviewerNeeded
from sluice.files.service import Quarantine
from sluice.kit.ids import first_id
from tests.api.responses import assert_error, assert_not_found, assert_validation_error, data, page, parse_timestamp
from tests.api.samples import TEXT
from tests.api.test_events import feed
from tests.cli.commands import CommandResult, Sluice
from tests.required import require
from tests.rows import each_row
from tests.scanning.waiting import until
from tests.servers import run
from tests.service import ApiClient

HELD = ("File is under legal hold", "A legal hold on this file or its context forbids to delete it; end the hold first")
BIG = b"\x07\x1b" + bytes(range(256)) * 2_500  # of these, one fits into a quota of one megabyte
PATIENCE = 60.0
Doubtful = tuple[ApiClient, str, str]
_numbers = itertools.count()


def hold(client: ApiClient, path: str, reason: str = "Case 7") -> httpx.Response:
    return client.request("PUT", f"{path}/hold", json={"reason": reason})


def actions(client: ApiClient, target: str) -> list[tuple[str, str, str | None]]:
    """Return what was done to a thing, oldest first: the action, how the actor came in, and why."""
    entries = page(client.get("/audit", page_size=100))[0]
    done = [(one["action"], one["via"], one.get("reason")) for one in entries if one["target"] == target]
    return list(reversed(done))


def event_types(client: ApiClient, file_id: str) -> list[str]:
    return [event["type"] for event in feed(client, limit=500) if event["data"].get("file_id") == file_id]


def is_there(client: ApiClient, file_id: str) -> bool:
    return client.get(f"/files/{file_id}/metadata").status_code == 200


def content_of(client: ApiClient, file_id: str) -> bytes:
    return httpx.get(data(client.get(f"/files/{file_id}"))["download_url"]).content


def grow_old(client: ApiClient, file_id: str, days: int) -> str:
    """Change the upload of a file to this many days ago; return its id, which contains that time too."""
    at = datetime.now(UTC) - timedelta(days=days)
    older = f"{first_id('file', at)[:-6]}{next(_numbers):06}"
    client.execute_sql(
        "UPDATE files SET file_id = :older, created_at = :at WHERE file_id = :id", older=older, at=at, id=file_id
    )
    return older


@pytest.mark.engine
@each_row("mode", ["live", "test"])
def test_a_restored_file_is_what_it_was(client: ApiClient, mode: str) -> None:
    client = client.other_tenant_client().with_store()
    context = client.create_context()
    key = client.create_key("upload") if mode == "live" else client.create_test_key("upload")
    file_id = client.with_credential(key).store(context=context)
    before, used = data(client.get(f"/files/{file_id}/metadata")), client.used_bytes(context)
    if mode == "test":
        assert parse_timestamp(before["expires_at"]) < datetime.now(UTC) + timedelta(days=2)
    data(client.post(f"/files/{file_id}/restore"))  # of a stored file: this changes nothing
    assert client.used_bytes(context) == used
    assert actions(client, file_id) == []
    client.delete(f"/files/{file_id}")
    assert client.used_bytes(context) == 0
    deleter = client.with_credential(client.create_key("delete"))
    assert data(deleter.post(f"/files/{file_id}/restore")) == {"file_id": file_id, "restored": True}
    assert data(client.get(f"/files/{file_id}/metadata")) == before
    assert client.used_bytes(context) == used
    assert [item["file_id"] for item in page(client.get("/files"))[0]] == [file_id]
    assert content_of(client, file_id) == TEXT
    assert event_types(client, file_id) == ["file.stored", "file.deleted", "file.restored"]
    assert [one[0] for one in actions(client, file_id)] == ["file.deleted", "file.restored", "file.linked"]


@pytest.mark.engine
def test_a_file_is_restored_only_into_free_room_which_restores_at_the_same_time_claim_once(client: ApiClient) -> None:
    context = client.create_context(storage_quota_mb=1)
    first = client.store("a.zzz", BIG, context=context)
    client.delete(f"/files/{first}")
    second = client.store("b.zzz", BIG, context=context)
    refused, words = (
        client.post(f"/files/{first}/restore"),
        "File not restored: the storage quota of its context is used up",
    )
    assert_error(refused, 400, words, "storage_quota_exceeded")
    assert refused.headers["sluice-error-code"] == "storage_quota_exceeded"
    assert not is_there(client, first)
    assert client.used_bytes(context) == len(BIG)
    client.delete(f"/files/{second}")
    data(client.post(f"/files/{first}/restore"))
    assert client.used_bytes(context) == len(BIG)
    context = client.create_context(storage_quota_mb=1)
    files = [client.store("a.zzz", BIG, context=context)]
    for name in ("b.zzz", "c.zzz"):
        client.delete(f"/files/{files[-1]}")
        files.append(client.store(name, BIG, context=context))
    client.delete(f"/files/{files[-1]}")
    with ThreadPoolExecutor(9) as threads:
        responses = list(threads.map(lambda file_id: client.post(f"/files/{file_id}/restore"), files * 3))
    assert {response.status_code for response in responses} == {200, 400}
    assert [is_there(client, file_id) for file_id in files].count(True) == 1
    assert client.used_bytes(context) == len(BIG)


def purge_now(client: ApiClient, *file_ids: str) -> None:
    for minutes, file_id in enumerate(reversed(file_ids), 1):
        at = datetime.now(UTC) - timedelta(minutes=minutes)
        client.execute_sql("UPDATE files SET due_at = :at WHERE file_id = :id", at=at, id=file_id)


def test_a_held_file_cannot_be_deleted_until_its_hold_ends(client: ApiClient) -> None:
    context = client.create_context()
    file_id = client.store(context=context)
    used = client.used_bytes(context)
    path = f"/files/{file_id}"
    assert data(hold(client, path)) == {"file_id": file_id, "held": True}
    refused = client.delete(path)
    assert_error(refused, 409, *HELD)
    assert refused.headers["sluice-error-code"] == "file_held"
    shown = data(client.get(f"{path}/metadata"))["hold"]
    assert (shown["on"], shown["reason"]) == ("file", "Case 7")
    assert client.used_bytes(context) == used
    data(hold(client, path, "Case 8"))
    assert data(client.get(f"{path}/metadata"))["hold"]["reason"] == "Case 8"
    assert data(client.delete(f"{path}/hold")) == {"file_id": file_id, "held": False}
    data(client.delete(f"{path}/hold"))  # there is none any more: nothing changes
    assert "hold" not in data(client.get(f"{path}/metadata"))
    data(client.delete(path))
    done = [(action, reason) for action, via, reason in actions(client, file_id) if via == "api_key"]
    assert done == [("file.held", "Case 7"), ("file.held", "Case 8"), ("file.unheld", None), ("file.deleted", None)]


def test_a_held_context_keeps_all_its_files_and_a_hold_needs_a_reason(
    client: ApiClient, shared_client: ApiClient
) -> None:
    context, other = client.create_context(), client.create_context()
    before, free = client.store(context=context), client.store(context=other)
    assert data(hold(client, f"/contexts/{context}", "Case 9")) == {"context_key": context, "held": True}
    later = client.store(context=context)
    for file_id in (before, later):
        assert_error(client.delete(f"/files/{file_id}"), 409, *HELD)
        assert data(client.get(f"/files/{file_id}/metadata"))["hold"]["on"] == "context"
    data(client.delete(f"/files/{free}"))
    assert data(client.get(f"/contexts/{context}"))["hold"]["reason"] == "Case 9"
    data(hold(client, f"/files/{later}"))
    data(client.delete(f"/contexts/{context}/hold"))
    data(client.delete(f"/files/{before}"))
    assert_error(client.delete(f"/files/{later}"), 409, *HELD)
    assert "hold" not in data(client.get(f"/contexts/{context}"))
    assert actions(client, context)[-2:] == [("context.held", "api_key", "Case 9"), ("context.unheld", "api_key", None)]
    for body in ({}, {"reason": ""}, {"reason": " \n "}, {"reason": "x" * 1001}):
        assert_validation_error(shared_client.request("PUT", "/files/file_unknown/hold", json=body), "reason")
    assert_not_found(hold(shared_client, "/files/file_unknown"))
    assert_not_found(hold(shared_client, "/contexts/unknown"))


@pytest.mark.engine
def test_a_purged_file_cannot_be_restored_and_no_held_one_is_purged(client: ApiClient) -> None:
    context, held_context = client.create_context(), client.create_context()
    held, free = client.store(context=context), client.store(context=context)
    of_context = client.store(context=held_context)
    for file_id in (held, free, of_context):
        data(client.delete(f"/files/{file_id}"))
    data(hold(client, f"/files/{held}"))
    data(hold(client, f"/contexts/{held_context}"))
    purge_now(client, held, of_context, free)  # the held ones are due first
    assert until(lambda: event_types(client, free)[-1] == "file.purged", PATIENCE)
    assert_not_found(client.post(f"/files/{free}/restore"))
    assert_not_found(hold(client, f"/files/{free}"))
    assert actions(client, free)[-1] == ("file.purged", "worker", None)
    for file_id in (held, of_context):
        data(client.post(f"/files/{file_id}/restore"))
        assert content_of(client, file_id) == TEXT


@pytest.mark.engine
def test_files_are_deleted_when_their_days_are_over(client: ApiClient) -> None:
    context, other = client.create_context(), client.create_context()
    old, held = (grow_old(client, client.store(context=context), 31) for _ in range(2))
    young = grow_old(client, client.store(context=context), 29)
    elsewhere = grow_old(client, client.store(context=other), 31)
    data(hold(client, f"/files/{held}"))
    size = client.used_bytes(context) // 3
    shown = data(client.patch(f"/contexts/{context}", {"retention_days": 30}))
    assert (shown["retention_days"], shown["retention_starts"]) == (30, "stored")
    assert until(lambda: not is_there(client, old), PATIENCE)
    assert [is_there(client, file_id) for file_id in (held, young, elsewhere)] == [True, True, True]
    expires_at = parse_timestamp(data(client.get(f"/files/{young}/metadata"))["expires_at"])
    assert timedelta(hours=23) < expires_at - datetime.now(UTC) < timedelta(hours=25)
    assert "expires_at" not in data(client.get(f"/files/{held}/metadata"))
    assert "expires_at" not in data(client.get(f"/files/{elsewhere}/metadata"))
    assert client.used_bytes(context) == 2 * size
    assert event_types(client, old) == ["file.deleted"]  # its earlier ones name another id
    assert actions(client, old) == [("file.expired", "worker", None)]


@pytest.mark.engine
def test_days_may_count_from_the_last_download_or_not_while_the_context_is_held(client: ApiClient) -> None:
    context, held = client.create_context(retention_starts="last_downloaded"), client.create_context()
    unused, used, old = (grow_old(client, client.store(context=key), 31) for key in (context, context, held))
    data(client.get(f"/files/{used}"))
    data(hold(client, f"/contexts/{held}"))
    for key in (held, context):
        data(client.patch(f"/contexts/{key}", {"retention_days": 30}))
    assert until(lambda: not is_there(client, unused), PATIENCE)
    expires_at = parse_timestamp(data(client.get(f"/files/{used}/metadata"))["expires_at"])
    assert timedelta(days=29) < expires_at - datetime.now(UTC) < timedelta(days=31)
    assert is_there(client, old)
    data(client.delete(f"/contexts/{held}/hold"))
    assert until(lambda: not is_there(client, old), PATIENCE)


def test_without_retention_the_views_show_none_and_a_wrong_one_is_refused(client: ApiClient) -> None:
    path = f"/contexts/{client.create_context()}"
    assert {"retention_days", "retention_starts", "hold"}.isdisjoint(data(client.get(path)))
    data(client.patch(path, {"retention_days": 30}))
    assert "retention_days" not in data(client.patch(path, {"retention_days": None}))
    for field, value in (("retention_days", 0), ("retention_days", 36_501), ("retention_starts", "now")):
        body = {"context_key": "wrong", "display_name": "x", field: value}
        assert_validation_error(client.post("/contexts", body), field)


@pytest.fixture
def doubtful(client: ApiClient) -> Doubtful:
    """A tenant, the context of a file in quarantine, and the file, as its reviewer sees them."""
    context = client.create_context(policies={"filename_pattern": {"mode": "quarantine", "pattern": "good.*"}})
    response = data(client.upload("doubtful.txt", TEXT, context=context), 201)
    assert response["outcome"] == "quarantined"
    return client, context, response["file_id"]


def test_a_reviewer_sees_the_quarantine_and_releases_a_file(doubtful: Doubtful) -> None:
    client, context, file_id = doubtful
    client.store("good.txt", context=context)
    reviewer = client.with_credential(client.create_key("review"))
    (shown,) = data(reviewer.get("/quarantine"))
    assert (shown["file_id"], shown["context_key"], shown["original_filename"]) == (file_id, context, "doubtful.txt")
    assert (shown["threat"], shown["first_review"], shown["rescan_asked"]) == (None, None, False)
    report = data(client.get(f"/reports/{shown['report_id']}"))
    assert report["reason"] == shown["reason"] == "filename_not_allowed"
    assert shown["detail"] == next(check["detail"] for check in report["checks"] if check["outcome"] == "fail")
    assert data(reviewer.get("/quarantine", context="another")) == []
    assert data(reviewer.get("/quarantine", after=file_id)) == []
    assert_not_found(client.get(f"/files/{file_id}"))
    response = data(reviewer.post(f"/quarantine/{file_id}/release", {"comment": "known sender"}))
    assert response == {"file_id": file_id, "outcome": "released"}
    assert content_of(client, file_id) == TEXT
    assert data(reviewer.get("/quarantine")) == []
    assert_not_found(reviewer.post(f"/quarantine/{file_id}/release", {"comment": "again"}))
    assert event_types(client, file_id) == ["file.quarantined", "file.released"]
    assert actions(client, file_id)[0] == ("file.released", "api_key", "known sender")


@pytest.mark.engine
def test_a_file_in_quarantine_is_downloaded_as_an_archive_with_a_password_by_reviewers_only(
    doubtful: Doubtful, tmp_path: Path
) -> None:
    client, _context, file_id = doubtful
    require("7-Zip", "7z", apt="p7zip-full")
    key, path = client.create_key("review"), f"/quarantine/{file_id}/download"
    assert client.with_credential(client.create_key("download", "metadata")).get(path).status_code == 403
    response = client.with_credential(key).get(path)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/zip")
    assert response.headers["content-disposition"] == f'attachment; filename="{file_id}.zip"'
    (tmp_path / "a.zip").write_bytes(response.content)
    run(["7z", "x", "-pinfected", f"-o{tmp_path / 'out'}", str(tmp_path / "a.zip")])
    (opened,) = (tmp_path / "out").iterdir()
    shown = data(client.get("/quarantine"))[0]
    assert opened.name == shown["original_filename"]
    assert hashlib.sha256(opened.read_bytes()).hexdigest() == shown["sha256"]
    assert event_types(client, file_id) == ["file.quarantined", "file.quarantine_downloaded"]
    audited = page(client.get("/audit", action="file.quarantine_downloaded"))[0]
    done = [(each["target"], each["actor_id"]) for each in audited if each["error"] is None]
    assert done == [(file_id, key.api_key_id)]
    data(client.post(f"/quarantine/{file_id}/release", {"comment": "harmless"}))
    assert_not_found(client.get(path))


def test_a_refused_file_is_deleted_and_restored_into_quarantine(doubtful: Doubtful) -> None:
    client, context, file_id = doubtful
    data(hold(client, f"/files/{file_id}"))
    assert_error(client.post(f"/quarantine/{file_id}/refuse", {"comment": "macros"}), 409, *HELD)
    data(client.delete(f"/files/{file_id}/hold"))
    response = data(client.post(f"/quarantine/{file_id}/refuse", {"comment": "macros"}))
    assert response == {"file_id": file_id, "outcome": "refused"}
    assert not is_there(client, file_id)
    assert client.used_bytes(context) == 0
    assert event_types(client, file_id) == ["file.quarantined", "file.refused"]
    data(client.post(f"/files/{file_id}/restore"))
    assert [one["file_id"] for one in data(client.get("/quarantine"))] == [file_id]
    assert_not_found(client.get(f"/files/{file_id}"))


def test_a_reviewer_asks_for_a_scan_and_the_file_stays(doubtful: Doubtful) -> None:
    client, _, file_id = doubtful
    for word in ("release", "refuse", "rescan"):
        assert_validation_error(client.post(f"/quarantine/{file_id}/{word}", {}), "comment")
        assert_not_found(client.post(f"/quarantine/file_unknown/{word}", {"comment": "x"}))
    assert_validation_error(client.get("/quarantine", page=2), "page")
    first = data(client.get("/quarantine"))[0]["scanned_at"]
    response = data(client.post(f"/quarantine/{file_id}/rescan", {"comment": "new signatures"}))
    assert response == {"file_id": file_id, "rescan_asked": True}

    def is_scanned() -> bool:
        (one,) = data(client.get("/quarantine"))
        return bool(one["scanned_at"] != first and not one["rescan_asked"])

    assert until(is_scanned, PATIENCE)
    (scan,) = [row for row in client.decisions() if row["mode"] == "rescan"]
    assert (scan["file_id"], scan["outcome"]) == (file_id, "kept")


def test_two_persons_decide_where_that_is_asked_for(doubtful: Doubtful) -> None:
    client, _, file_id = doubtful

    def decide(user: str, decision: Any) -> str:
        action = AuditAction(operator(client.tenant_id, user), f"file.{decision}d")

        async def act(database: Database) -> str:
            quarantine = Quarantine(database, purge_after=timedelta(days=1), two_persons=True)
            return await quarantine.review(action, file_id, decision, f"{user} looked")

        return client.service.on_database(act)

    assert decide("anna", "refuse") == "awaits_second"
    assert decide("anna", "release") == "awaits_second"  # in place of the first
    with pytest.raises(SecondReviewerNeeded):
        decide("anna", "release")
    (shown,) = data(client.get("/quarantine"))
    assert (shown["first_review"]["decision"], shown["first_review"]["reviewed_by"]) == ("release", "command|anna")
    assert_not_found(client.get(f"/files/{file_id}"))
    assert decide("berta", "release") == "released"
    assert content_of(client, file_id) == TEXT
    assert [(action, reason) for action, _, reason in actions(client, file_id)[:3]] == [
        ("file.refusal_asked", "anna looked"),
        ("file.release_asked", "anna looked"),
        ("file.released", "berta looked"),
    ]


def command(client: ApiClient, *words: str) -> CommandResult:
    deployment = client.service.deployment
    settings = {"DATA_DIR": str(deployment.data_dir), "DATABASE_URL": deployment.database_url}
    if words[0] == "files":
        words = (*words, "--url", client.service.url, "--api-key", str(client.authorization).removeprefix("Bearer "))
    elif words[0] == "quarantine":
        words = (*words, "--local")
    return Sluice(deployment.folder, settings)(*words)


def test_commands_restore_and_hold_files(client: ApiClient) -> None:
    context = client.create_context()
    file_id = client.store(context=context)
    for what in ((file_id,), ("--context", context)):
        held = command(client, "files", "hold", *what, "--reason", "Case 7")
        assert held.code == 0
        if what == (file_id,):
            assert held.err == f"The file {file_id} is held.\n"
        assert_error(client.delete(f"/files/{file_id}"), 409, *HELD)
        assert command(client, "files", "unhold", *what).code == 0
    data(client.delete(f"/files/{file_id}"))
    assert command(client, "files", "restore", file_id).err == f"The file {file_id} is restored.\n"
    assert is_there(client, file_id)
    assert command(client, "files", "unhold").code == 2


def test_commands_refuse_and_rescan_files_in_quarantine(doubtful: Doubtful) -> None:
    client, _, file_id = doubtful
    assert command(client, "quarantine", "rescan", file_id, "--comment", "again").code == 0
    data(hold(client, f"/files/{file_id}"))
    refused = command(client, "quarantine", "refuse", file_id, "--comment", "macros", "--yes")
    assert (refused.code, refused.error_line) == (1, f"{HELD[0]}: {HELD[1]}.")
    data(client.delete(f"/files/{file_id}/hold"))
    assert command(client, "quarantine", "refuse", file_id, "--comment", "macros", "--yes").code == 0
    assert event_types(client, file_id)[-1] == "file.refused"
    assert "No file" in command(client, "quarantine", "release", file_id, "--comment", "x").error_line
