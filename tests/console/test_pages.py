"""The pages of the console: who sees which, what they show of whom, and what their forms do."""

import csv
import html.parser
import io
import re
from collections.abc import Iterator

import pytest

from sluice.access import Scope
from sluice.console.app import PAGES
from tests.api.responses import data
from tests.api.responses import page as listed
from tests.api.samples import TEXT, eicar, picture
from tests.console.users import SAME_ORIGIN, User, new_browser, signed_in
from tests.rows import each_row
from tests.service import ApiClient

UPLOAD, DOWNLOAD, METADATA, DELETE, REVIEW, ADMIN = (scope.value for scope in Scope)
REPORTS = "metadata or review"

# written out here, and not read from the code: an error in the code's table must be detected
TABLE = [
    ("GET", "", None),
    ("POST", "/logout", None),
    ("GET", "/overview", METADATA),
    ("GET", "/files", METADATA),
    ("GET", "/files.csv", METADATA),
    ("POST", "/files/delete", DELETE),
    ("GET", "/files/deleted", METADATA),
    ("POST", "/files/restore", DELETE),
    ("GET", "/files/all", DELETE),
    ("POST", "/files/all", DELETE),
    ("POST", "/files/export", METADATA),
    ("GET", "/files/file_unknown", METADATA),
    ("GET", "/files/file_unknown/receipt", METADATA),
    ("POST", "/files/file_unknown/link", DOWNLOAD),
    ("POST", "/files/file_unknown/hold", ADMIN),
    ("POST", "/files/file_unknown/unhold", ADMIN),
    ("GET", "/rejections", REPORTS),
    ("POST", "/rejections", REVIEW),
    ("GET", "/reports", REPORTS),
    ("GET", "/reports/rep_unknown", REPORTS),
    ("GET", "/jobs", METADATA),
    ("GET", "/jobs/job_unknown", METADATA),
    ("POST", "/jobs/job_unknown/cancel", DELETE),
    ("POST", "/jobs/job_unknown/link", METADATA),
    ("GET", "/quarantine", REVIEW),
    ("GET", "/quarantine/file_unknown", REVIEW),
    ("POST", "/quarantine/file_unknown/release", REVIEW),
    ("POST", "/quarantine/file_unknown/refuse", REVIEW),
    ("POST", "/quarantine/file_unknown/rescan", REVIEW),
    ("POST", "/quarantine/file_unknown/download", REVIEW),
    ("GET", "/contexts", METADATA),
    ("GET", "/contexts/new", ADMIN),
    ("POST", "/contexts/new", ADMIN),
    ("GET", "/contexts/unknown", METADATA),
    ("GET", "/contexts/unknown/edit", ADMIN),
    ("POST", "/contexts/unknown/edit", ADMIN),
    ("POST", "/contexts/unknown/try", UPLOAD),
    ("POST", "/contexts/unknown/hold", ADMIN),
    ("POST", "/contexts/unknown/unhold", ADMIN),
    ("GET", "/buckets", ADMIN),
    ("GET", "/buckets/new", ADMIN),
    ("POST", "/buckets/new", ADMIN),
    ("GET", "/buckets/bkt_unknown", ADMIN),
    ("POST", "/buckets/bkt_unknown/default", ADMIN),
    ("POST", "/buckets/bkt_unknown/change", ADMIN),
    ("POST", "/buckets/bkt_unknown/delete", ADMIN),
    ("GET", "/keys", ADMIN),
    ("GET", "/keys/new", ADMIN),
    ("POST", "/keys/new", ADMIN),
    ("GET", "/keys/key_unknown/rotate", ADMIN),
    ("POST", "/keys/key_unknown/rotate", ADMIN),
    ("POST", "/keys/key_unknown/status", ADMIN),
    ("GET", "/tokens", ADMIN),
    ("GET", "/tokens/new", ADMIN),
    ("POST", "/tokens/new", ADMIN),
    ("POST", "/tokens/utk_unknown/revoke", ADMIN),
    ("GET", "/integrate", METADATA),
    ("GET", "/webhooks", ADMIN),
    ("GET", "/webhooks/new", ADMIN),
    ("POST", "/webhooks/new", ADMIN),
    ("GET", "/webhooks/whk_unknown", ADMIN),
    ("GET", "/webhooks/whk_unknown/edit", ADMIN),
    ("POST", "/webhooks/whk_unknown/edit", ADMIN),
    ("POST", "/webhooks/whk_unknown/rotate", ADMIN),
    ("POST", "/webhooks/whk_unknown/test", ADMIN),
    ("POST", "/webhooks/whk_unknown/recover", ADMIN),
    ("POST", "/webhooks/whk_unknown/redeliver", ADMIN),
    ("POST", "/webhooks/whk_unknown/delete", ADMIN),
    ("GET", "/audit", ADMIN),
    ("GET", "/audit.csv", ADMIN),
]


@pytest.fixture
def admin(client: ApiClient) -> Iterator[User]:
    with signed_in(client) as user:
        yield user


def test_table_of_this_test_covers_every_page() -> None:
    assert len(TABLE) == len(PAGES)


@pytest.mark.asvs("8.2.1", "8.3.1")
def test_page_needs_its_scope(client: ApiClient) -> None:
    for held in (METADATA, REVIEW, ADMIN):
        with signed_in(client, held) as user:
            for method, path, needed in TABLE:
                if path == "/logout":
                    continue
                response = user.http.request(method, f"/console{path}", headers=SAME_ORIGIN)
                assert response.status_code != 500, path
                refused = needed is not None and held not in needed.split(" or ") and held != ADMIN
                assert (response.status_code == 403) is refused, (path, held, response.status_code)
                assert ("You may not see this page" in response.text) is refused, (path, held)


def test_navigation_shows_what_the_user_may_see(client: ApiClient) -> None:
    with signed_in(client, METADATA) as user:
        shown = set(re.findall(r'<li><a href="/console/([a-z]+)"', user.get("/overview").text))
    assert shown == {"overview", "files", "jobs", "rejections", "contexts", "integrate"}
    with signed_in(client, REVIEW) as user:
        assert user.get("").headers["location"] == "/console/quarantine"
        shown = set(re.findall(r'<li><a href="/console/([a-z]+)"', user.get("/quarantine").text))
    assert shown == {"rejections", "quarantine"}


def test_nobody_sees_a_page_without_signing_in(client: ApiClient) -> None:
    with new_browser(client.service) as http:
        for method, path, _needed in TABLE:
            response = http.request(method, f"/console{path}", headers=SAME_ORIGIN)
            assert response.status_code in {303, 401}, path
            assert client.tenant_id not in response.text


def test_refused_form_is_in_the_audit_log(client: ApiClient) -> None:
    with signed_in(client, METADATA) as user:
        assert user.post("/contexts/new", context_key="x").status_code == 403
    refused = [entry for entry in listed(client.get("/audit"))[0] if entry["outcome"] == "refused"]
    assert [(entry["action"], entry["error"]) for entry in refused] == [("context.created", "scope_missing")]


@pytest.mark.asvs("8.2.2")
def test_things_of_another_tenant_are_unknown(client: ApiClient, admin: User) -> None:
    theirs = client.other_tenant_client().with_store()
    context = theirs.create_context(context_key="hidden_context", display_name="Hidden context")
    stored = data(theirs.upload("hidden_note.txt", context=context), 201)
    key = theirs.create_key("admin", name="hidden_key")
    token = data(theirs.post("/upload-tokens", {"context": context}), 201)["token_id"]
    ids = {
        "file_id": stored["file_id"],
        "report_id": stored["report_id"],
        "context_key": context,
        "config_id": "bkt_unknown",
        "api_key_id": key.api_key_id,
        "token_id": token,
        "endpoint_id": "whk_unknown",
        "job_id": data(theirs.post("/files/export", {}), 201)["job_id"],
    }
    tried, hidden = 0, re.compile(r"hidden[_ ](context|note|key)", re.IGNORECASE)
    for each in PAGES:
        if "{" not in each.path:
            continue
        path = re.sub(r"{(\w+)}", lambda found: ids[found[1]], each.path)
        fields = {"sure": "yes", "status": "revoked", "expires_in": "300"}
        response = admin.http.request(
            each.method, path, headers=SAME_ORIGIN, data=fields if each.method == "POST" and each.reads_form else None
        )
        assert response.status_code in {404, 415, 422}, (path, response.status_code)
        assert not hidden.search(response.text.replace(path, "")), path
        tried += 1
    assert tried >= 14
    deleted = admin.post("/files/delete", file_id=stored["file_id"], sure="yes")
    assert deleted.status_code == 303
    assert data(theirs.get(f"/files/{stored['file_id']}/metadata"))["original_filename"] == "hidden_note.txt"
    assert data(theirs.get(f"/api-keys/{key.api_key_id}"))["status"] == "active"
    for path in ("/overview", "/files", "/reports", "/contexts", "/keys", "/tokens", "/audit", "/quarantine"):
        assert not hidden.search(admin.get(path).text), path


@each_row("path", ["/files/x%00y", "/contexts/x%00y", "/nothing", "/files/file_none", "/static/no.css"])
def test_unknown_page_says_so_without_details(admin: User, path: str) -> None:
    response = admin.get(path)
    assert response.status_code == 404
    assert "There is nothing here" in response.text
    assert "Traceback" not in response.text


def test_empty_pages_say_what_to_do(bare_client: ApiClient) -> None:
    with signed_in(bare_client) as user:
        assert "No files yet" in user.get("/files").text
        assert "No uploads yet" in user.get("/overview").text
        assert "Nothing was rejected" in user.get("/rejections").text
        assert "No contexts yet" in user.get("/contexts").text
        assert "There is no active context" in user.get("/integrate").text
        assert "Nothing is in quarantine" in user.get("/quarantine").text


def test_files_are_filtered_and_paged(client: ApiClient, admin: User) -> None:
    context, other = client.create_context(), client.create_context()
    for number in range(55):
        client.store(f"page-{number:02}.txt", TEXT + str(number).encode(), context=context)
    file_id = client.store("lonely.txt", context=other)
    first = admin.get(f"/files?context={context}").text
    assert "50 of 55 files" in first
    assert "page-54.txt" in first
    assert "page-04.txt" not in first
    older = re.search(r'rel="next" href="([^"]+)"', first)
    assert older is not None
    second = admin.get(older[1].removeprefix("/console").replace("&amp;", "&")).text
    assert "page-04.txt" in second
    assert "5 of 55 files" in second
    newer = re.search(r'rel="prev" href="([^"]+)"', second)
    assert newer is not None
    assert "page-54.txt" in admin.get(newer[1].removeprefix("/console").replace("&amp;", "&")).text
    found = admin.get("/files?q=LONELY").text
    assert "lonely.txt" in found
    assert "page-00.txt" not in found
    assert admin.get(f"/files?q={file_id}").headers["location"] == f"/console/files/{file_id}"
    checksum = data(client.get(f"/files/{file_id}/metadata"))["checksum"]
    assert "lonely.txt" in admin.get(f"/files?q={checksum}").text
    assert "No file matches" in admin.get("/files?q=%25").text


def test_name_of_a_stranger_is_shown_as_text(client: ApiClient, admin: User) -> None:
    context = client.create_context()
    file_id = client.store("<img src=x onerror=alert(1)>\u202egpj.txt", context=context)
    for shown in (admin.get("/files").text, admin.get(f"/files/{file_id}").text):
        assert "<img" not in shown
        assert "&lt;img src=x onerror=alert(1)&gt;" in shown
        assert "<bdi>" in shown
        assert "U+202E" in shown


@each_row("name", ["=cmd|calc.txt", "\uff1dcmd|calc.txt", "\u200b=cmd|calc.txt", "\u00a0\uff20cmd.txt"])
def test_export_is_no_formula(client: ApiClient, admin: User, name: str) -> None:
    client.store(name, context=client.create_context())
    response = admin.get("/files.csv")
    assert response.headers["content-disposition"].startswith("attachment")
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert rows[0]["original_filename"].startswith("'")
    assert rows[0]["original_filename"].endswith("calc.txt" if "calc" in name else "cmd.txt")


def test_file_is_linked_and_deleted(client: ApiClient, admin: User) -> None:
    file_id = client.store("note.txt", context=client.create_context())
    page = admin.get(f"/files/{file_id}").text
    assert "note.txt" in page
    linked = admin.post(f"/files/{file_id}/link", expires_in="900")
    assert "works for 15 minutes" in linked.text
    assert admin.post(f"/files/{file_id}/link", expires_in="999999").status_code == 422
    asked = admin.post("/files/delete", file_id=file_id)
    assert "Delete 1 file?" in asked.text
    assert admin.get(f"/files/{file_id}").status_code == 200
    assert admin.post("/files/delete", file_id=file_id, sure="yes").status_code == 303
    assert admin.get(f"/files/{file_id}").status_code == 404
    actions = [entry["action"] for entry in listed(client.get("/audit"))[0]]
    assert {"file.linked", "file.deleted"} <= set(actions)


def test_receipt_of_a_file_is_downloaded(client: ApiClient, admin: User) -> None:
    file_id = client.store("note.txt", context=client.create_context())
    assert f'href="/console/files/{file_id}/receipt"' in admin.get(f"/files/{file_id}").text
    response = admin.get(f"/files/{file_id}/receipt")
    assert response.headers["content-disposition"] == f'attachment; filename="{file_id}.jws"'
    assert len(response.text.split(".")) == 3
    assert response.text.split(".")[0] == data(client.get(f"/files/{file_id}/receipt"))["receipt"].split(".")[0]


def test_rejections_are_grouped_with_what_was_expected(client: ApiClient, admin: User) -> None:
    context = client.create_context(allowed_extensions=["pdf"])
    for number in range(3):
        client.upload(f"setup{number}.exe", b"MZ" + bytes(100), context=context)
    groups = admin.get("/rejections").text
    assert "Extension not allowed" in groups
    assert "1 of 1 groups, 3 rejections" in groups
    reports = admin.get(f"/reports?context={context}&reason=extension_not_allowed").text
    assert "3 of 3 reports" in reports
    report_id = re.search(r"/console/reports/(rep_\w+)", reports)
    assert report_id is not None
    report = admin.get(f"/reports/{report_id[1]}").text
    assert "Tell the sender" in report
    assert "Expected" in report
    assert report_id[1] in report


def test_context_is_made_changed_and_tried(client: ApiClient, admin: User) -> None:
    fields = {"context_key": "letters", "display_name": "Letters", "max_file_size_mb": "10"}
    modes = {"check_integrity": "enforce", "check_blank": "enforce", "check_malware": "enforce"}
    wrong = admin.post("/contexts/new", **fields | modes | {"max_file_size_mb": "9999"})
    assert wrong.status_code == 422
    assert "max_file_size_mb: expected at most 500, found 9999" in wrong.text
    assert admin.post("/contexts/new", **fields, **modes, allowed_extensions="pdf, txt").status_code == 303
    client.store("one.txt", context="letters")
    change = fields | modes | {"allowed_extensions": "pdf", "status": "active", "filename_pattern.mode": "report"}
    change["filename_pattern.pattern"] = "[a-z]+.pdf"
    replayed = admin.post("/contexts/letters/edit", **change, intent="replay")
    assert "1 uploads judged again" in replayed.text
    assert "Extension not allowed" in replayed.text
    assert data(client.get("/contexts/letters"))["allowed_extensions"] == ["pdf", "txt"]
    assert admin.post("/contexts/letters/edit", **change, intent="save").status_code == 303
    context = data(client.get("/contexts/letters"))
    assert context["allowed_extensions"] == ["pdf"]
    assert context["policies"] == {"filename_pattern": {"mode": "report", "pattern": "[a-z]+.pdf"}}
    tried = admin.http.post(
        "/console/contexts/letters/try",
        data={"context": "letters"},
        files={"file": ("two.txt", TEXT)},
        headers=SAME_ORIGIN,
    )
    assert "two.txt</bdi> would be rejected" in tried.text
    assert "1 of 1 files" in admin.get("/files").text
    assert "<strong>Changed</strong> by <bdi>Ada" in admin.get("/contexts/letters").text


def test_every_rule_survives_the_editor(client: ApiClient, admin: User) -> None:
    policies = {
        "content_types": {"mode": "enforce", "allow": ["application/pdf", "image/*"]},
        "encrypted": {"mode": "quarantine"},
        "active_content": {"mode": "report", "kinds": ["macros", "scripts"]},
        "programs_in_archives": {"mode": "off"},
        "image": {"mode": "enforce", "min_width": 10, "allow_animation": False},
        "document": {"mode": "enforce", "max_pages": 5},
        "media": {"mode": "enforce", "max_duration_seconds": 60, "codecs": ["aac", "h264"]},
        "archive": {"mode": "enforce", "max_members": 9, "max_depth": 0},
        "min_size_bytes": {"mode": "enforce", "bytes": 3},
        "filename_pattern": {"mode": "enforce", "pattern": ".*"},
        "duplicates": {"mode": "report"},
    }
    key = client.create_context(
        policies=policies,
        check_modes={"malware": "quarantine", "blank": "report"},
        reject_corrupt_files=False,
        upload_rate_limit={"max_uploads": 7, "window_seconds": 60},
        storage_quota_mb=12,
        description="Line one\nline two",
        allowed_extensions=["pdf"],
    )
    before = data(client.get(f"/contexts/{key}"))
    page = admin.get(f"/contexts/{key}/edit").text
    assert admin.post(f"/contexts/{key}/edit", **shown_fields(page), intent="save").status_code == 303
    assert data(client.get(f"/contexts/{key}")) == before


def shown_fields(page: str) -> dict[str, str]:
    """Return the fields of the last form of a page, as a browser would send them."""

    class Fields(html.parser.HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.found: dict[str, str] = {}
            self.select = self.area = ""

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            given = dict(attrs)
            name, value = given.get("name") or "", given.get("value")
            if tag == "input" and name and (given.get("type") != "checkbox" or "checked" in given):
                self.found[name] = "on" if value is None else value
            elif tag == "select":
                self.select = name
            elif tag == "option" and (self.select not in self.found or "selected" in given):
                self.found[self.select] = value or ""
            elif tag == "textarea":
                self.area = name
                self.found[name] = ""

        def handle_endtag(self, tag: str) -> None:
            if tag == "textarea":
                self.area = ""

        def handle_data(self, text: str) -> None:
            if self.area:
                self.found[self.area] += text

    parser = Fields()
    parser.feed(page)
    return parser.found


def test_key_is_shown_once_and_revoked_after_a_question(client: ApiClient, admin: User) -> None:
    wrong = admin.post("/keys/new", name="")
    assert wrong.status_code == 422
    made = admin.post("/keys/new", **{"name": "<b>Intake</b>", "scope.metadata": "on", "expires_in_days": "9"})
    text = re.search(r"sl_live_\w+", made.text)
    assert text is not None
    assert client.with_credential(text[0]).get("/files").status_code == 200
    shown = admin.get("/keys").text
    assert text[0] not in shown
    assert "&lt;b&gt;Intake&lt;/b&gt;" in shown
    key_id = next(key["api_key_id"] for key in listed(client.get("/api-keys"))[0] if "Intake" in key["name"])
    assert admin.post(f"/keys/{key_id}/status", status="disabled").status_code == 303
    assert client.with_credential(text[0]).get("/files").status_code == 401
    assert "Revoke" in admin.post(f"/keys/{key_id}/status", status="revoked").text
    assert data(client.get(f"/api-keys/{key_id}"))["status"] == "disabled"
    assert admin.post(f"/keys/{key_id}/status", status="revoked", sure="yes").status_code == 303
    assert data(client.get(f"/api-keys/{key_id}"))["status"] == "revoked"


def test_key_with_limits_is_made_and_rotated(client: ApiClient, admin: User) -> None:
    context = client.create_context()
    fields = {"name": "Limited", "scope.upload": "on", "allowed_networks": "192.0.2.0/24, 2001:db8::/32"}
    wrong = admin.post("/keys/new", **fields, contexts="unknown_one", rate_per_minute="9")
    assert wrong.status_code == 422
    assert "contexts: expected keys of contexts, found unknown_one" in wrong.text
    made = admin.post("/keys/new", **fields, contexts=context, rate_per_minute="9")
    assert made.status_code == 200
    assert "192.0.2.0/24, 2001:db8::/32" in admin.get("/keys").text
    (key,) = [key for key in listed(client.get("/api-keys"))[0] if key["name"] == "Limited"]
    path = f"/keys/{key['api_key_id']}"
    shown = data(client.get(f"/api-{path[1:]}"))
    assert (shown["contexts"], shown["rate_per_minute"]) == ([context], 9)
    assert "Rotate Limited" in admin.get(f"{path}/rotate").text
    assert admin.post(f"{path}/rotate", overlap_seconds="604801").status_code == 422
    rotated = admin.post(f"{path}/rotate", overlap_seconds="60")
    after = data(client.get(f"/api-{path[1:]}"))
    assert f"{after['key_prefix']}_" in rotated.text
    assert after["key_prefix"] != key["key_prefix"]


def test_upload_token_is_shown_once_and_revoked(client: ApiClient, admin: User) -> None:
    context = client.create_context()
    wrong = admin.post("/tokens/new", context=context, max_files="1", expires_in="900", allowed_origins="nonsense")
    assert wrong.status_code == 422
    made = admin.post("/tokens/new", context=context, max_files="1", expires_in="900", end_user="Bo")
    text = re.search(r"ut_live_\w+", made.text)
    assert text is not None
    assert client.with_credential(text[0]).upload(context=context).status_code == 201
    shown = admin.get("/tokens").text
    assert "1 of 1" in shown
    assert text[0] not in shown
    token_id = listed(client.get("/upload-tokens"))[0][0]["token_id"]
    assert admin.post(f"/tokens/{token_id}/revoke").status_code == 303
    assert listed(client.get("/upload-tokens"))[0][0]["status"] == "revoked"


def test_file_in_quarantine_is_released_after_a_question(client: ApiClient, admin: User) -> None:
    context = client.create_context(check_modes={"malware": "quarantine"})
    file_id = client.store("tool.txt", eicar(), context=context)
    assert "tool.txt" in admin.get("/quarantine").text
    assert client.get(f"/files/{file_id}").status_code == 404
    assert "Release this file?" in admin.post(f"/quarantine/{file_id}/release").text
    assert client.get(f"/files/{file_id}").status_code == 404
    assert admin.post(f"/quarantine/{file_id}/release", sure="yes").status_code == 422
    assert admin.post(f"/quarantine/{file_id}/release", sure="yes", comment="a false alarm").status_code == 303
    assert client.get(f"/files/{file_id}").status_code == 200
    (entry,) = listed(client.get("/audit", action="file.released"))[0]
    assert (entry["via"], entry["reason"]) == ("console", "a false alarm")


def test_overview_counts_what_became_of_uploads(client: ApiClient, admin: User) -> None:
    context = client.create_context(allowed_extensions=["png"], storage_quota_mb=1)
    client.store("a.png", picture(), context=context)
    client.upload("b.exe", b"MZ", context=context)
    page = admin.get("/overview").text
    assert "2 uploads, 1 rejected" in page
    assert "Extension not allowed" in page
    assert "of 1.0 MB" in page
    quarantine = client.create_context(check_modes={"malware": "quarantine"})
    client.store("tool.txt", eicar(), context=quarantine)
    page = admin.get("/overview").text
    assert "3 uploads, 1 rejected" in page
    assert "<dt>Uploads</dt><dd>3</dd>" in page
    assert "<dt>Quarantined</dt><dd>1</dd>" in page
    assert admin.get("/overview?days=nonsense").status_code == 200


def test_audit_log_is_filtered_and_exported(client: ApiClient, admin: User) -> None:
    client.create_context()
    page = admin.get("/audit?action=context.created").text
    assert "1 of 1 entries" in page
    rows = list(csv.DictReader(io.StringIO(admin.get("/audit.csv?action=context.created").text)))
    assert [row["action"] for row in rows] == ["context.created"]
    assert "No entry matches" in admin.get("/audit?actor=nobody").text


def test_code_has_the_address_of_the_service(client: ApiClient, admin: User) -> None:
    context = client.create_context()
    page = admin.get(f"/integrate?context={context}").text
    assert f"{client.service.url}/api/v1/files/upload" in page
    for shown in ("/static/sluice-upload.js", "/u/ut_live_…", "/api/v1/uploads&#34;"):
        assert f"{client.service.url}{shown}" in page
    assert context in page
    assert admin.get("/integrate?context=unknown").status_code == 404
