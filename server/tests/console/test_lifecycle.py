"""Files in the console: all that match in jobs, restored, held, kept for a time, reviewed in quarantine."""

import html
import re
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from sluice.access import operator
from sluice.audit import AuditAction
from sluice.db.database import Database
from sluice.files.service import Quarantine
from tests.api.responses import data
from tests.api.responses import page as listed
from tests.api.samples import TEXT, eicar
from tests.api.test_lifecycle import grow_old, hold
from tests.console.test_pages import linked, shown_fields
from tests.console.users import User, match, signed_in
from tests.scanning.waiting import until
from tests.service import ApiClient


def actions(client: ApiClient) -> list[tuple[str, str | None]]:
    """The entries of the audit log with their reasons, newest first."""
    return [(entry["action"], entry.get("reason")) for entry in listed(client.get("/audit"))[0]]


def test_deleted_file_is_shown_and_restored_where_there_is_room(client: ApiClient, admin: User) -> None:
    file_id = client.store("note.txt", context=client.create_context())
    assert admin.post("/files/delete", file_id=file_id, sure="yes").status_code == 303
    assert "note.txt" in admin.get("/files/deleted").text
    assert "until then it can be restored" in admin.get(f"/files/{file_id}").text
    assert client.get(f"/files/{file_id}").status_code == 404
    back = admin.post("/files/restore", file_id=file_id)
    assert back.headers["location"] == f"/console/files/{file_id}?notice=restored"
    assert "Restored, with everything it had" in admin.follow(back)
    assert client.get(f"/files/{file_id}").status_code == 200
    assert "No deleted files" in admin.get("/files/deleted").text
    context = client.create_context(storage_quota_mb=1)
    big = b"\x07\x1b" + bytes(range(256)) * 2_500
    first, held = client.store("big.bin", big, context=context), client.store("2.txt", context=context)
    data(hold(client, f"/files/{held}"))
    page = admin.follow(admin.post("/files/delete", file_id=[first, held], sure="yes"))
    assert "1 of the chosen files is still there" in page
    assert re.findall(r'type="hidden" name="file_id" value="(\w+)"', page) == [first]
    other = client.store("other.bin", big + b"x", context=context)
    assert "For 1 there is no room in the quota" in admin.follow(admin.post("/files/restore", file_id=first))
    data(client.delete(f"/files/{other}"))
    assert admin.post("/files/restore", file_id=first).status_code == 303
    assert client.get(f"/files/{first}").status_code == 200


def test_file_or_context_is_held_and_its_hold_ended(client: ApiClient, admin: User) -> None:
    file_id = client.store("note.txt", context=client.create_context())
    path = f"/files/{file_id}"
    assert admin.post(f"{path}/hold", reason=" ").status_code == 422
    assert admin.post(f"{path}/hold", reason="Case <7>\nsecond line").status_code == 303
    page = admin.get(path).text
    assert "Under a legal hold since" in page
    assert "Case &lt;7&gt;\nsecond line" in page
    assert client.delete(path).status_code == 409
    assert admin.post(f"{path}/unhold").status_code == 303
    assert "Under a legal hold since" not in admin.get(path).text
    assert client.delete(path).status_code == 200
    assert actions(client)[1:3] == [("file.unheld", None), ("file.held", "Case <7>\nsecond line")]
    assert admin.post(f"{path}/hold", reason="Case 7").status_code == 303
    assert "so its object stays" in admin.get(path).text
    assert "held" in admin.get("/files/deleted").text
    context = client.create_context()
    file_id = client.store("note.txt", context=context)
    assert admin.post(f"/contexts/{context}/hold", reason="Case 7").status_code == 303
    page = admin.get(f"/contexts/{context}").text
    assert "All its files are under a legal hold" in page
    assert "<strong>Held</strong> by <bdi>Ada" in page
    assert "Under a legal hold on its context" in admin.get(f"/files/{file_id}").text
    assert client.delete(f"/files/{file_id}").status_code == 409
    assert admin.post(f"/contexts/{context}/unhold").status_code == 303
    assert client.delete(f"/files/{file_id}").status_code == 200


def test_list_marks_and_filters_files_in_quarantine_and_under_a_hold(client: ApiClient, admin: User) -> None:
    context = client.create_context(policies={"filename_pattern": {"mode": "quarantine", "pattern": "good.*"}})
    doubtful = data(client.upload("doubtful.txt", context=context), 201)["file_id"]
    held, plain = (client.store(name, context=context) for name in ("good-held.txt", "good-plain.txt"))
    data(hold(client, f"/files/{held}"))

    def shown(address: str) -> dict[str, list[str]]:
        cells = re.findall(r'(?s)<td class="name"><a href="/console/files/(\w+)">(.*?)</td>', admin.get(address).text)
        return {file_id: re.findall(r'class="badge[^"]*">([^<]+)<', cell) for file_id, cell in cells}

    assert shown("/files") == {doubtful: ["In quarantine"], held: ["Held"], plain: []}
    assert shown("/files?state=quarantined").keys() == {doubtful}
    assert shown("/files?state=available").keys() == {held, plain}


def test_retention_that_deletes_files_at_once_asks_first(client: ApiClient, admin: User) -> None:
    context = client.create_context()
    path = f"/contexts/{context}"
    grow_old(client, client.store("old.txt", TEXT + b"1", context=context), 40)
    grow_old(client, client.store("younger.txt", TEXT + b"2", context=context), 20)
    fields = shown_fields(admin.get(f"{path}/edit").text) | {"retention_days": "30", "intent": "replay"}
    tried = admin.post(f"{path}/edit", **fields)
    assert "1 file is older than that now, 1 more will be within 30 days" in tried.text
    asked = admin.post(f"{path}/edit", **fields | {"intent": "save"})
    assert "Nothing is saved yet" in asked.text
    assert "retention_days" not in data(client.get(path))
    sure = shown_fields(asked.text) | {"intent": "save"}
    again = admin.post(f"{path}/edit", **sure | {"retention_days": "10"})
    assert "2 files are older than that now" in again.text
    assert admin.post(f"{path}/edit", **sure).status_code == 303
    assert data(client.get(path))["retention_days"] == 30
    assert "30 days from the upload" in admin.get(path).text


@pytest.fixture
def doubtful(client: ApiClient) -> str:
    context = client.create_context(check_modes={"malware": "quarantine"})
    return client.store("<b>tool.txt", eicar(), context=context)


@pytest.fixture
def reviewer(client: ApiClient) -> Iterator[User]:
    with signed_in(client, "review") as user:
        yield user


def test_reviewer_sees_a_file_in_quarantine_as_numbers_and_downloads_it_as_an_archive(
    client: ApiClient, doubtful: str, reviewer: User, tmp_path: Path
) -> None:
    assert "1 of 1 files" in reviewer.get("/quarantine").text
    page = reviewer.get(f"/quarantine/{doubtful}").text
    assert "&lt;b&gt;tool.txt" in page
    assert eicar()[:16].hex(" ") in page
    assert f"/console/files/{doubtful}" not in page
    assert "/console/contexts/" not in page
    assert "/console/contexts/" not in reviewer.get(match(r"/console(/reports/rep_\w+)", page)).text
    archive = reviewer.post(f"/quarantine/{doubtful}/download")
    assert archive.headers["content-disposition"] == f'attachment; filename="{doubtful}.zip"'
    (tmp_path / "a.zip").write_bytes(archive.content)
    opened = subprocess.check_output(["7z", "x", "-so", "-pinfected", tmp_path / "a.zip"])
    assert opened == eicar()
    assert actions(client)[0][0] == "file.quarantine_downloaded"


def test_reviewer_refuses_a_file_with_a_comment(client: ApiClient, doubtful: str, reviewer: User, admin: User) -> None:
    path = f"/quarantine/{doubtful}"
    assert "Refuse this file?" in reviewer.post(f"{path}/refuse").text
    assert reviewer.post(f"{path}/refuse", sure="yes", comment="x" * 1001).status_code == 422
    done = reviewer.post(f"{path}/refuse", sure="yes", comment="macros")
    assert "Refused: the file is deleted" in reviewer.follow(done)
    assert reviewer.get(path).status_code == 404
    assert "as its reviewer decided" in admin.get(f"/files/{doubtful}").text
    admin.post("/files/restore", file_id=doubtful)
    assert reviewer.get(path).status_code == 200
    assert ("file.refused", "macros") in actions(client)


def test_held_file_is_scanned_again_and_not_refused(client: ApiClient, doubtful: str, reviewer: User) -> None:
    done = reviewer.post(f"/quarantine/{doubtful}/rescan", sure="yes", comment="new signatures")
    assert "stays here whatever is found" in reviewer.follow(done)
    assert ("file.rescan_asked", "new signatures") in actions(client)
    data(hold(client, f"/files/{doubtful}"))
    refused = reviewer.post(f"/quarantine/{doubtful}/refuse", sure="yes", comment="macros")
    assert refused.status_code == 409
    assert "File is under legal hold" in refused.text


def test_first_of_two_decisions_is_shown_to_the_second_person(client: ApiClient, doubtful: str, reviewer: User) -> None:
    async def decide(database: Database) -> str:
        quarantine = Quarantine(database, purge_after=timedelta(days=1), two_persons=True)
        by = AuditAction(operator(client.tenant_id, "anna"), "file.released")
        return await quarantine.review(by, doubtful, "release", "known sender")

    assert client.service.on_database(decide) == "awaits_second"
    assert "one person decided: release" in reviewer.get("/quarantine").text
    assert "That was command|anna" in reviewer.get(f"/quarantine/{doubtful}").text


def test_quarantine_is_filtered_and_paged(client: ApiClient, admin: User) -> None:
    policies = {"filename_pattern": {"mode": "quarantine", "pattern": "good.*"}}
    context, other = (client.create_context(policies=policies) for _ in "12")
    for number in range(52):
        client.upload(f"bad-{number:02}.txt", TEXT + str(number).encode(), context=context)
    first = admin.get(f"/quarantine?context={context}").text
    assert "50 of 52 files" in first
    assert "bad-00.txt" in first
    second = linked(admin, "next", first)
    assert "bad-51.txt" in second
    assert "bad-00.txt" not in second
    assert "No such file is in quarantine" in admin.get(f"/quarantine?context={other}").text


def finished(user: User, path: str) -> str:
    assert until(lambda: "data-refresh" not in user.get(path).text, 60)
    return user.get(path).text


def place_of(response: httpx.Response) -> str:
    assert response.status_code == 303, response.text
    return response.headers["location"].removeprefix("/console")


def begun(user: User, path: str, **typed: str) -> str:
    """Ask for a job as the page does; return the path of its page."""
    return place_of(user.post(path, **shown_fields(user.get(path).text) | typed))


def test_all_files_that_match_are_deleted_and_restored_by_jobs(client: ApiClient, admin: User) -> None:
    context, other = client.create_context(), client.create_context()
    for number in range(60):
        client.store(f"page-{number:02}.txt", TEXT + str(number).encode(), context=context)
    kept = client.store("kept.txt", context=other)
    assert f"/console/files/all?context={context}&amp;action=delete" in admin.get(f"/files?context={context}").text
    path = f"/files/all?context={context}&action=delete"
    asked = admin.get(path).text
    assert "60 files" in asked
    assert "Type 60 to confirm" in asked
    page = finished(admin, begun(admin, path, typed="60"))
    assert "60</strong> of 60 files deleted" in page
    assert context in page
    assert "No file matches" in admin.get(f"/files?context={context}").text
    assert admin.get(f"/files/{kept}").status_code == 200
    path = f"/files/all?context={context}&action=restore"
    assert "Type restore to confirm" in admin.get(path).text
    page = finished(admin, begun(admin, path, typed="restore"))
    assert "60</strong> files restored" in page
    assert "50 of 60 files" in admin.get(f"/files?context={context}").text
    assert [entry["action"] for entry in listed(client.get("/audit", action="job.created"))[0]] == ["job.created"] * 2


def test_job_deletes_nothing_until_its_number_is_typed_and_no_file_that_came_after(
    client: ApiClient, admin: User
) -> None:
    context = client.create_context()
    client.store("old.txt", context=context)
    path = f"/files/all?context={context}&action=delete"
    for typed in ("", "2", "yes", "delete"):
        response = admin.post(path, **shown_fields(admin.get(path).text) | {"typed": typed})
        assert response.status_code == 422
        assert "Nothing was changed" in response.text
    assert listed(client.get("/jobs"))[0] == []
    fields = shown_fields(admin.get(path).text)
    client.store("new.txt", TEXT + b"new", context=context)
    finished(admin, place_of(admin.post(path, **fields | {"typed": "1"})))
    assert [file["original_filename"] for file in listed(client.get("/files"))[0]] == ["new.txt"]


def test_job_needs_a_filter_and_the_moment_of_its_question_and_is_listed_when_it_has_ended(
    admin: User, client: ApiClient
) -> None:
    for path in ("/files/all?action=delete", "/files/all?context=x&action=burn", "/files/all"):
        assert admin.get(path).status_code == 422
        assert admin.post(path, typed="delete", until="2026-01-02T03:04:05+00:00").status_code == 422
    for moment in ("", "never", "2026-01-02T03:04:05", "9999-01-02T03:04:05+00:00"):
        assert admin.post("/files/all?context=x&action=delete", typed="delete", until=moment).status_code == 422
    path = place_of(admin.post("/files/export"))
    assert "Cancel the job" not in finished(admin, path)
    for query in ("", "?state=done", "?kind=export", "?state=nonsense"):
        assert path.rpartition("/")[2] in admin.get(f"/jobs{query}").text
    assert "No job matches" in admin.get("/jobs?kind=erasure").text
    assert admin.post(f"{path}/cancel").status_code == 409
    assert data(client.get(path))["status"] == "done"


def test_file_under_a_hold_is_left_and_named(client: ApiClient, admin: User) -> None:
    context = client.create_context()
    file_id = client.store("a.txt", context=context)
    admin.post(f"/files/{file_id}/hold", reason="case 7")
    page = finished(admin, begun(admin, f"/files/all?context={context}&action=delete", typed="1"))
    for text in ("1 left as they were", "A legal hold forbids it", file_id):
        assert text in page


def test_export_is_downloaded_by_a_link(client: ApiClient) -> None:
    file_id = client.store("note.txt", context=client.create_context())
    with signed_in(client, "metadata") as reader:
        assert "Export all as a job" in reader.get("/files").text
        path = place_of(reader.post("/files/export"))
        assert "1</strong> of 1 files exported" in finished(reader, path)
        url = match(r'<pre id="link"[^>]*>([^<]+)<', reader.post(f"{path}/link").text)
        assert file_id in reader.http.get(html.unescape(url)).text


def test_job_of_another_tenant_is_unknown_and_an_erasure_is_for_admins(client: ApiClient, admin: User) -> None:
    theirs = data(client.other_tenant_client().post("/files/export", {}), 201)["job_id"]
    assert admin.get(f"/jobs/{theirs}").status_code == 404
    assert admin.post(f"/jobs/{theirs}/cancel").status_code == 404
    assert theirs not in admin.get("/jobs").text
    erasure = data(client.post("/erasures", {"uploaded_by": "nobody"}), 202)["job_id"]
    with signed_in(client, "delete", "metadata") as user:
        assert user.post(f"/jobs/{erasure}/cancel").status_code == 403
