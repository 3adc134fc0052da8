"""Jobs in the console: on all files that match, followed, cancelled, downloaded."""

import html

import httpx

from tests.api.responses import data
from tests.api.responses import page as listed
from tests.api.samples import TEXT
from tests.console.test_pages import shown_fields
from tests.console.users import User, match, signed_in
from tests.scanning.waiting import until
from tests.service import ApiClient


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
    assert "Type 60 to go on" in asked
    page = finished(admin, begun(admin, path, typed="60"))
    assert "60</strong> of 60 files deleted" in page
    assert context in page
    assert "No file matches" in admin.get(f"/files?context={context}").text
    assert admin.get(f"/files/{kept}").status_code == 200
    path = f"/files/all?context={context}&action=restore"
    assert "Type restore to go on" in admin.get(path).text
    page = finished(admin, begun(admin, path, typed="restore"))
    assert "60</strong> files restored" in page
    assert "50 of 60 files" in admin.get(f"/files?context={context}").text
    assert [entry["action"] for entry in listed(client.get("/audit", action="job.created"))[0]] == ["job.created"] * 2


def test_job_deletes_no_file_that_came_after_the_question(client: ApiClient, admin: User) -> None:
    context = client.create_context()
    client.store("old.txt", context=context)
    path = f"/files/all?context={context}&action=delete"
    fields = shown_fields(admin.get(path).text)
    client.store("new.txt", TEXT + b"new", context=context)
    finished(admin, place_of(admin.post(path, **fields | {"typed": "1"})))
    assert [file["original_filename"] for file in listed(client.get("/files"))[0]] == ["new.txt"]


def test_nothing_is_deleted_until_the_number_is_typed(client: ApiClient, admin: User) -> None:
    context = client.create_context()
    client.store("a.txt", context=context)
    path = f"/files/all?context={context}&action=delete"
    for typed in ("", "2", "yes", "delete"):
        response = admin.post(path, **shown_fields(admin.get(path).text) | {"typed": typed})
        assert response.status_code == 422
        assert "Nothing was changed" in response.text
    assert listed(client.get("/jobs"))[0] == []


def test_job_needs_a_filter_and_the_moment_of_its_question(admin: User) -> None:
    for path in ("/files/all?action=delete", "/files/all?context=x&action=burn", "/files/all"):
        assert admin.get(path).status_code == 422
        assert admin.post(path, typed="delete", until="2026-01-02T03:04:05+00:00").status_code == 422
    for moment in ("", "never", "2026-01-02T03:04:05", "9999-01-02T03:04:05+00:00"):
        assert admin.post("/files/all?context=x&action=delete", typed="delete", until=moment).status_code == 422


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


def test_ended_job_is_listed_by_state_and_kind_and_not_cancelled(client: ApiClient, admin: User) -> None:
    path = place_of(admin.post("/files/export"))
    assert "Cancel the job" not in finished(admin, path)
    for query in ("", "?state=done", "?kind=export", "?state=nonsense"):
        assert path.rpartition("/")[2] in admin.get(f"/jobs{query}").text
    assert "No job matches" in admin.get("/jobs?kind=erasure").text
    assert admin.post(f"{path}/cancel").status_code == 409
    assert data(client.get(path))["status"] == "done"


def test_job_of_another_tenant_is_unknown_and_an_erasure_is_for_admins(client: ApiClient, admin: User) -> None:
    theirs = data(client.other_tenant_client().post("/files/export", {}), 201)["job_id"]
    assert admin.get(f"/jobs/{theirs}").status_code == 404
    assert admin.post(f"/jobs/{theirs}/cancel").status_code == 404
    assert theirs not in admin.get("/jobs").text
    erasure = data(client.post("/erasures", {"uploaded_by": "nobody"}), 202)["job_id"]
    with signed_in(client, "delete", "metadata") as user:
        assert user.post(f"/jobs/{erasure}/cancel").status_code == 403
