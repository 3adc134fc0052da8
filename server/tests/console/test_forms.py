"""Forms that are not carried out: the page that has the form is shown again, with the reason and what was typed."""

import re
from typing import Any, Final

import pytest

from sluice.console.app import PAGES
from tests.api.responses import data
from tests.api.samples import eicar
from tests.console.users import User, signed_in
from tests.scanning.waiting import until
from tests.service import ApiClient

LONG: Final = "kept " * 201
# By the path of the form: what is sent, the status, the heading of the page, and what of the fields it shows again.
FAILED: Final[dict[str, tuple[dict[str, str], int, str, str]]] = {
    "/files/delete?context={context_key}": ({}, 422, "Files", "{context_key}"),
    "/files/restore?context={context_key}": ({}, 422, "Deleted files", "{context_key}"),
    "/files/all?action=delete&q=kept": ({"until": "2026-01-31T12:00:00Z", "typed": "x1"}, 422, "Delete all", "x1"),
    "/files/export?q=kept&state=gone": ({}, 422, "Files", "kept"),
    "/jobs/new?q=kept&min_size=large": ({"format": "csv"}, 422, "New job", "kept"),
    "/files/{file_id}/link": ({"expires_in": "9"}, 422, "note.txt", ""),
    "/files/{file_id}/rescan": ({"comment": LONG}, 422, "note.txt", LONG),
    "/files/{file_id}/hold": ({"reason": LONG}, 422, "note.txt", LONG),
    "/files/{file_id}/unhold": ({}, 303, "", ""),
    "/rejections?context={context_key}": ({"state": "gone", "group": "{group}"}, 422, "Rejections", '{group}" checked'),
    "/erasures/new": ({"uploaded_by": "kept-1", "typed": "eras"}, 422, "Erase a person", "kept-1"),
    "/jobs/{job_id}/cancel": ({}, 409, "Export", "{job_id}"),
    "/jobs/{job_id}/link": ({}, 303, "", ""),
    "/quarantine/{quarantined_id}/release": ({"sure": "yes", "comment": LONG}, 422, "tool.txt", LONG),
    "/quarantine/{quarantined_id}/refuse": ({"sure": "yes", "comment": LONG}, 422, "tool.txt", LONG),
    "/quarantine/{quarantined_id}/rescan": ({"comment": LONG}, 422, "tool.txt", LONG),
    "/quarantine/{quarantined_id}/download": ({}, 303, "", ""),
    "/contexts/new": ({"context_key": "Kept Key", "display_name": "x"}, 422, "New context", "Kept Key"),
    "/contexts/{context_key}/edit": ({"display_name": "", "max_file_size_mb": "901"}, 422, "Edit", 'value="901"'),
    "/contexts/{context_key}/checks": ({"name_1": "kept", "url_1": "ftp://x"}, 422, "External checks", "kept"),
    "/contexts/{context_key}/checks/rotate": ({"name": "none", "sure": "yes"}, 404, "There is nothing here", ""),
    "/contexts/{context_key}/examples": ({}, 422, "Examples", ""),
    "/contexts/{context_key}/examples/remove": ({"example_id": "none"}, 404, "There is nothing here", ""),
    "/contexts/{context_key}/try": ({}, 422, "{context_name}", ""),
    "/contexts/{context_key}/hold": ({"reason": LONG}, 422, "{context_name}", LONG),
    "/contexts/{context_key}/unhold": ({}, 303, "", ""),
    "/buckets/new": ({"name": "kept", "access_key_id": "short"}, 422, "Add a bucket", 'value="kept"'),
    "/buckets/{config_id}/default": ({}, 303, "", ""),
    "/buckets/{config_id}/probe": ({}, 303, "", ""),
    "/buckets/{config_id}/change": ({"name": LONG}, 409, "first", LONG.strip()),
    "/buckets/{config_id}/delete": ({"sure": "yes"}, 409, "first", ""),
    "/keys/new": ({"name": "kept", "scope.upload": "on", "expires_in_days": "999"}, 422, "New API key", 'value="kept"'),
    "/keys/{api_key_id}/rotate": ({"overlap_seconds": "999999"}, 422, "Rotate", "999999"),
    "/keys/{api_key_id}/status?status=revoked": ({"status": "active"}, 409, "API keys", "revoked"),
    "/tokens/new": ({"context": "{context_key}", "max_files": "901"}, 422, "New upload token", 'value="901"'),
    "/tokens/{token_id}/revoke": ({}, 303, "", ""),
    "/users/new": ({"name": "kept", "role": "king"}, 422, "Invite a user", 'value="kept"'),
    "/users/{user_id}/invite": ({}, 303, "", ""),
    "/users/{user_id}/change": ({"status": "gone"}, 422, "Users", "{user_id}"),
    "/users/{user_id}/sessions": ({}, 303, "", ""),
    "/users/{user_id}/remove": ({}, 303, "", ""),
    "/integrate": ({"context": "{context_key}", "sample": "x"}, 422, "Integrate", 'value="{context_key}" selected'),
    "/hashes/new": ({"digest": "kept", "list": "deny"}, 422, "Add entries", 'value="kept"'),
    "/hashes/import": ({"lines": "kept"}, 422, "Add entries", "kept</textarea>"),
    "/hashes/{digest}/remove": ({}, 303, "", ""),
    "/hashes/{digest}/quarantine": ({}, 303, "", ""),
    "/webhooks/new": ({"url": "ftp://kept.example"}, 422, "Add an endpoint", "ftp://kept.example"),
    "/webhooks/{endpoint_id}/edit": ({"url": "ftp://kept.example"}, 422, "Edit the endpoint", "ftp://kept.example"),
    "/webhooks/{endpoint_id}/test": ({}, 422, "{url}", ""),
    "/webhooks/{recovered_id}/recover": ({"since": "2026-01-31T12:01", "until": "x"}, 422, "{url}", "2026-01-31T12:01"),
    "/webhooks/{endpoint_id}/redeliver": ({"delivery_id": "whd_unknown"}, 422, "{url}", ""),
    "/webhooks/{endpoint_id}/rotate": ({}, 303, "", ""),
    "/webhooks/{endpoint_id}/delete": ({}, 303, "", ""),
}
# They lead away from the page in any case, or answer its script.
_WITHOUT: Final = {"/logout", "/times", "/account/options", "/account/passkeys"}


@pytest.fixture
def ids(client: ApiClient, s3: object, admin: User) -> dict[str, str]:
    """What the forms are about: of each kind one thing that refuses what is sent."""
    context = client.create_context(allowed_extensions=["txt"], check_modes={"malware": "quarantine"})
    client.upload("bad.exe", b"MZ", context=context)
    job = data(client.post("/files/export", {}), 201)["job_id"]
    assert until(lambda: data(client.get(f"/jobs/{job}"))["ended_at"] is not None, 60)
    key = client.create_key("upload").api_key_id
    data(client.patch(f"/api-keys/{key}", {"status": "revoked"}))
    url = "https://app.example/hooks"
    recovered, endpoint = (
        data(client.post("/webhook-endpoints", {"url": url, "events": ["*"]}), 201)["endpoint_id"] for _ in range(2)
    )
    data(client.patch(f"/webhook-endpoints/{endpoint}", {"status": "disabled"}))
    admin.post("/users/new", name="Vera", role="viewer")
    groups = re.findall(r'name="group" value="([^"]+)"', admin.get("/rejections").text)
    return {
        "context_key": context,
        "context_name": data(client.get(f"/contexts/{context}"))["display_name"],
        "file_id": client.store("note.txt", context=context),
        "quarantined_id": client.store("tool.txt", eicar(), context=context),
        "group": groups[0],
        "job_id": job,
        "config_id": data(client.get(client.buckets))[0]["config_id"],
        "api_key_id": key,
        "token_id": data(client.post("/upload-tokens", {"context": context}), 201)["token_id"],
        "user_id": re.findall(r"/console/users/(usr_\w+)/", admin.get("/users").text)[0],
        "endpoint_id": endpoint,
        "recovered_id": recovered,
        "url": url,
        "digest": "0" * 64,
    }


def test_form_that_fails_keeps_its_place(admin: User, ids: dict[str, str]) -> None:
    sent = {re.sub(r"_\w+}", "}", path.partition("?")[0]) for path in FAILED}
    known = {re.sub(r"_\w+}", "}", page.path) for page in PAGES if page.method == "POST"}
    assert {
        path.replace("{quarantined}", "{file}").replace("{recovered}", "{endpoint}") for path in sent
    } | _WITHOUT == {path.removeprefix("/console") for path in known}
    for path, (fields, status, heading, kept) in FAILED.items():
        body: Any = {name: value.format(**ids) for name, value in fields.items()}
        answer = admin.post(path.format(**ids), **body)
        if status == 303:  # nothing can be wrong with it
            continue
        shown = (path, answer.status_code, answer.text)
        assert answer.status_code == status, shown
        assert 'aria-label="Console"' in answer.text, shown
        assert 'role="alert"' in answer.text, shown
        assert re.search(f"(?s)<h1>[^/]*{re.escape(heading.format(**ids))}", answer.text), shown
        assert kept.format(**ids) in answer.text, shown


def test_problem_of_a_field_is_beside_it(admin: User) -> None:
    page = admin.post("/keys/new", name="kept", expires_in_days="999").text
    assert re.search(r'name="expires_in_days"[^>]*aria-invalid="true" aria-describedby="expires_in_days-problem ', page)
    assert '<span class="problem" id="expires_in_days-problem">expected at most 365, found 999</span>' in page


def test_address_of_a_form_leads_to_its_page(admin: User) -> None:
    answer = admin.get("/files/file_x/hold?from=7d")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/files/file_x?from=7d")
    assert admin.get("/logout").status_code == 405


def test_page_that_is_not_there_or_not_allowed_keeps_the_navigation(client: ApiClient, admin: User) -> None:
    for path in ("/files/file_none", "/jobs/job_none", "/nothing"):
        page = admin.get(path).text
        assert 'aria-label="Console"' in page, path
    with signed_in(client, "metadata") as user:
        page = user.get("/keys").text
        assert "You may not see this page" in page
        assert 'href="/console/files"' in page


def test_page_of_a_failed_form_is_not_shown_to_a_user_who_may_not_see_it(client: ApiClient) -> None:
    file_id = client.store("hidden.txt", context=client.create_context())
    with signed_in(client, "review", "download") as user:
        answer = user.post(f"/files/{file_id}/link", expires_in="9")
    assert answer.status_code == 422
    assert "expires_in: expected one of the listed times" in answer.text
    assert "hidden.txt" not in answer.text
