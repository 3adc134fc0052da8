"""The pages of the console: who sees which, what they show of whom, and what their forms do."""

import base64
import csv
import hashlib
import html
import html.parser
import io
import re
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from sluice.access import Scope
from sluice.console import templating
from sluice.console.app import PAGES
from sluice.console.pages.contexts import POLICY_GROUPS
from sluice.console.pages.integrate import WAYS
from sluice.contexts.policies import ActiveContentKind, Policies, Policy
from sluice.messages import LOCALES
from tests.api.responses import data
from tests.api.responses import page as listed
from tests.api.samples import TEXT, eicar, picture
from tests.console.users import SAME_ORIGIN, User, match, new_browser, signed_in
from tests.service import ApiClient

UPLOAD, DOWNLOAD, METADATA, DELETE, REVIEW, ADMIN = (scope.value for scope in Scope)
REPORTS = "metadata or review"

# written out here, and not read from the code: an error in the code's table must be detected
ROUTES: Final[dict[str, dict[str, str | None]]] = {
    "": {"GET": None},
    "/logout": {"POST": None},
    "/times": {"POST": None},
    "/actor": {"GET": REPORTS},
    "/find": {"GET": REPORTS},
    "/overview": {"GET": METADATA},
    "/files": {"GET": METADATA},
    "/files.csv": {"GET": METADATA},
    "/files/delete": {"POST": DELETE},
    "/files/deleted": {"GET": METADATA},
    "/files/restore": {"POST": DELETE},
    "/files/all": {"GET": DELETE, "POST": DELETE},
    "/files/export": {"POST": METADATA},
    "/files/file_unknown": {"GET": METADATA},
    "/files/file_unknown/rescan": {"POST": REVIEW},
    "/files/file_unknown/receipt": {"GET": METADATA},
    "/files/file_unknown/preview": {"GET": DOWNLOAD},
    "/files/file_unknown/link": {"POST": DOWNLOAD},
    "/files/file_unknown/hold": {"POST": ADMIN},
    "/files/file_unknown/unhold": {"POST": ADMIN},
    "/rejections": {"GET": REPORTS, "POST": REVIEW},
    "/reports": {"GET": REPORTS},
    "/reports.csv": {"GET": REPORTS},
    "/reports/rep_unknown": {"GET": REPORTS},
    "/jobs": {"GET": METADATA},
    "/jobs/new": {"GET": METADATA, "POST": METADATA},
    "/erasures/new": {"GET": ADMIN, "POST": ADMIN},
    "/jobs/job_unknown": {"GET": METADATA},
    "/jobs/job_unknown/receipt": {"GET": ADMIN},
    "/jobs/job_unknown/cancel": {"POST": DELETE},
    "/jobs/job_unknown/link": {"POST": METADATA},
    "/quarantine": {"GET": REVIEW},
    "/quarantine/file_unknown": {"GET": REVIEW},
    "/quarantine/file_unknown/preview": {"GET": REVIEW},
    "/quarantine/file_unknown/release": {"POST": REVIEW},
    "/quarantine/file_unknown/refuse": {"POST": REVIEW},
    "/quarantine/file_unknown/rescan": {"POST": REVIEW},
    "/quarantine/file_unknown/download": {"POST": REVIEW},
    "/contexts": {"GET": METADATA},
    "/contexts/new": {"GET": ADMIN, "POST": ADMIN},
    "/contexts/unknown": {"GET": METADATA},
    "/contexts/unknown/edit": {"GET": ADMIN, "POST": ADMIN},
    "/contexts/unknown/try": {"POST": UPLOAD},
    "/contexts/unknown/examples": {"GET": METADATA, "POST": ADMIN},
    "/contexts/unknown/examples/remove": {"POST": ADMIN},
    "/contexts/unknown/checks": {"GET": ADMIN, "POST": ADMIN},
    "/contexts/unknown/checks/rotate": {"POST": ADMIN},
    "/contexts/unknown/hold": {"POST": ADMIN},
    "/contexts/unknown/unhold": {"POST": ADMIN},
    "/buckets": {"GET": ADMIN},
    "/buckets/new": {"GET": ADMIN, "POST": ADMIN},
    "/buckets/bkt_unknown": {"GET": ADMIN},
    "/buckets/bkt_unknown/default": {"POST": ADMIN},
    "/buckets/bkt_unknown/probe": {"POST": ADMIN},
    "/buckets/bkt_unknown/change": {"POST": ADMIN},
    "/buckets/bkt_unknown/delete": {"POST": ADMIN},
    "/keys": {"GET": ADMIN},
    "/keys/new": {"GET": ADMIN, "POST": ADMIN},
    "/keys/key_unknown": {"GET": ADMIN},
    "/keys/key_unknown/rotate": {"GET": ADMIN, "POST": ADMIN},
    "/keys/key_unknown/status": {"POST": ADMIN},
    "/tokens": {"GET": ADMIN},
    "/tokens/new": {"GET": ADMIN, "POST": ADMIN},
    "/tokens/utk_unknown/revoke": {"POST": ADMIN},
    "/users": {"GET": ADMIN},
    "/users/new": {"GET": ADMIN, "POST": ADMIN},
    "/users/usr_unknown/invite": {"POST": ADMIN},
    "/users/usr_unknown/change": {"POST": ADMIN},
    "/users/usr_unknown/sessions": {"POST": ADMIN},
    "/users/usr_unknown/remove": {"POST": ADMIN},
    "/account": {"GET": None},
    "/account/options": {"POST": None},
    "/account/passkeys": {"POST": None},
    "/integrate": {"GET": METADATA, "POST": UPLOAD},
    "/hashes": {"GET": METADATA},
    "/hashes/new": {"GET": ADMIN, "POST": ADMIN},
    "/hashes/import": {"POST": ADMIN},
    "/hashes/unknown/remove": {"POST": ADMIN},
    "/hashes/unknown/quarantine": {"POST": ADMIN},
    "/webhooks": {"GET": ADMIN},
    "/webhooks/new": {"GET": ADMIN, "POST": ADMIN},
    "/webhooks/whk_unknown": {"GET": ADMIN},
    "/webhooks/whk_unknown/edit": {"GET": ADMIN, "POST": ADMIN},
    "/webhooks/whk_unknown/rotate": {"POST": ADMIN},
    "/webhooks/whk_unknown/test": {"POST": ADMIN},
    "/webhooks/whk_unknown/recover": {"POST": ADMIN},
    "/webhooks/whk_unknown/redeliver": {"POST": ADMIN},
    "/webhooks/whk_unknown/delete": {"POST": ADMIN},
    "/audit": {"GET": ADMIN},
    "/audit.csv": {"GET": ADMIN},
}
TABLE: Final = [(method, path, scope) for path, methods in ROUTES.items() for method, scope in methods.items()]


@pytest.mark.asvs("8.2.1", "8.3.1")
def test_page_needs_its_scope(client: ApiClient) -> None:
    assert len(TABLE) == len(PAGES)
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
    with new_browser(client.service) as http:
        for method, path, _needed in TABLE:
            response = http.request(method, f"/console{path}", headers=SAME_ORIGIN)
            assert response.status_code in {303, 401}, path
            assert client.tenant_id not in response.text


def test_navigation_shows_what_the_user_may_see_and_a_refused_form_is_audited(client: ApiClient) -> None:
    entries = re.compile(r'<li><a href="/console/([a-z]+)"')
    with signed_in(client, METADATA) as user:
        shown = set(entries.findall(user.get("/overview").text))
        assert user.post("/contexts/new", context_key="x").status_code == 403
    assert shown == {"overview", "files", "jobs", "rejections", "contexts", "hashes", "integrate"}
    refused = [entry for entry in listed(client.get("/audit"))[0] if entry["outcome"] == "refused"]
    assert [(entry["action"], entry["error"]) for entry in refused] == [("context.created", "scope_missing")]
    with signed_in(client, REVIEW) as user:
        assert user.get("").headers["location"] == "/console/quarantine"
        assert set(entries.findall(user.get("/quarantine").text)) == {"rejections", "quarantine"}


def hidden_user(client: ApiClient) -> str:
    with signed_in(client) as admin:
        return match(r"/join/[^.]+\.(usr_\w+)\.", admin.post("/users/new", name="hidden_user", role="admin").text)


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
        "user_id": hidden_user(theirs),
        "digest": "0" * 64,
    }
    tried, hidden = 0, re.compile(r"hidden[_ ](context|note|key|user)", re.IGNORECASE)
    for each in PAGES:
        if "{" not in each.path:
            continue
        path = re.sub(r"{(\w+)}", lambda found: ids[found[1]], each.path)
        fields = {"sure": "yes", "status": "revoked", "expires_in": "300"}
        sent = fields if each.method == "POST" and each.reads_form else None
        response = admin.http.request(each.method, path, headers=SAME_ORIGIN, data=sent)
        assert response.status_code in {404, 415, 422}, (path, response.status_code)
        assert not hidden.search(response.text.replace(path, "")), path
        tried += 1
    assert tried >= 14
    deleted = admin.post("/files/delete", file_id=stored["file_id"], sure="yes")
    assert deleted.status_code == 303
    assert data(theirs.get(f"/files/{stored['file_id']}/metadata"))["original_filename"] == "hidden_note.txt"
    assert data(theirs.get(f"/api-keys/{key.api_key_id}"))["status"] == "active"
    for path in ("/overview", "/files", "/reports", "/contexts", "/keys", "/tokens", "/audit", "/quarantine", "/users"):
        assert not hidden.search(admin.get(path).text), path


def test_empty_pages_say_what_to_do_and_unknown_ones_so_without_details(admin: User) -> None:
    for path, text in {
        "/files": "No files yet",
        "/overview": "No uploads yet",
        "/rejections": "Nothing was rejected",
        "/contexts": "No contexts yet",
        "/integrate": "There is no active context",
        "/quarantine": "Nothing is in quarantine",
        "/jobs": "No jobs yet",
    }.items():
        assert text in admin.get(path).text, path
    for path in ("/files/x%00y", "/contexts/x%00y", "/nothing", "/files/file_none", "/static/no.css"):
        response = admin.get(path)
        assert response.status_code == 404
        assert "There is nothing here" in response.text
        assert "Traceback" not in response.text


def test_files_are_filtered_and_paged(client: ApiClient, admin: User) -> None:
    context, other = client.create_context(), client.create_context()
    for number in range(55):
        client.store(f"page-{number:02}.txt", TEXT + str(number).encode(), context=context)
    file_id = client.store("lonely.txt", context=other)
    first = admin.get(f"/files?context={context}").text
    assert "50 of 55 files" in first
    assert "page-54.txt" in first
    assert "page-04.txt" not in first
    second = linked(admin, "next", first)
    assert "page-04.txt" in second
    assert "5 of 55 files" in second
    assert "page-54.txt" in linked(admin, "prev", second)
    found = admin.get("/files?q=LONELY").text
    assert "lonely.txt" in found
    assert "page-00.txt" not in found
    assert admin.get(f"/files?q={file_id}").headers["location"] == f"/console/files/{file_id}"
    checksum = data(client.get(f"/files/{file_id}/metadata"))["checksum"]
    assert "lonely.txt" in admin.get(f"/files?q={checksum}").text
    assert "No file matches" in admin.get("/files?q=%25").text


def linked(user: User, relation: str, page: str) -> str:
    path = match(rf'rel="{relation}" href="/console([^"]+)"', page)
    return user.get(path.replace("&amp;", "&")).text


def test_search_leads_to_what_is_named_or_shows_all_that_match(client: ApiClient, admin: User) -> None:
    context = client.create_context(context_key="letters", allowed_extensions=["txt"])
    key = client.create_key("upload", "metadata")
    sender = client.with_credential(key)
    stored = data(sender.upload("spring tide.txt", context=context), 201)
    sha256 = hashlib.sha256(TEXT).hexdigest()
    refused = sender.upload("spring tide.exe", context=context).json()["report"]["report_id"]
    for asked, path in {
        stored["file_id"]: f"/files/{stored['file_id']}",
        f"Report {refused}: the file was rejected.": f"/reports/{refused}",
        f"sha256:{sha256.upper()}": f"/files?q={sha256}",
        " letters ": "/contexts/letters",
    }.items():
        response = admin.http.get("/console/find", params={"q": asked}, headers=SAME_ORIGIN)
        assert (response.status_code, response.headers["location"]) == (303, f"/console{path}")
    by_name = admin.get("/find?q=Spring").text
    assert f"/console/files/{stored['file_id']}" in by_name
    assert f"/console/reports/{refused}" in by_name
    by_uploader = admin.get(f"/find?q={key.api_key_id}").text
    assert "Files of this uploader" in by_uploader
    assert f"/console/reports/{refused}" in by_uploader
    assert "Nothing matches" in admin.get("/find?q=autumn").text
    with signed_in(client, REVIEW) as reviewer:
        response = reviewer.get(f"/find?q={stored['file_id']}")
        assert response.headers["location"] == f"/console/quarantine/{stored['file_id']}"
        assert "Files of this name" not in reviewer.get("/find?q=spring").text


def test_name_of_a_stranger_is_shown_as_text_and_exported_as_no_formula(client: ApiClient, admin: User) -> None:
    context = client.create_context()
    names = ("=cmd|calc.txt", "\uff1dcmd|calc.txt", "\u200b=cmd|calc.txt", "\u00a0\uff20cmd.txt")
    for name in names:
        client.store(name, context=context)
    response = admin.get("/files.csv")
    assert response.headers["content-disposition"].startswith("attachment")
    shown = [row["original_filename"] for row in reversed(rows_of(response.text))]
    assert len(shown) == len(names)
    for name, cell in zip(names, shown, strict=True):
        assert cell.startswith("'")
        assert cell.endswith("calc.txt" if "calc" in name else "cmd.txt")
    file_id = client.store("<img src=x onerror=alert(1)>\u202egpj.txt", context=context)
    for page in (admin.get("/files").text, admin.get(f"/files/{file_id}").text):
        assert "<img src" not in page
        for text in ("&lt;img src=x onerror=alert(1)&gt;", "<bdi>", "U+202E"):
            assert text in page
        assert "\u202e" not in page  # nor in titles and labels
    assert "<title>&lt;img src=x onerror=alert(1)&gt;U+202Egpj.txt" in page


def test_every_value_in_a_label_or_title_passes_a_filter() -> None:
    folder = Path(templating.__file__).parent / "templates"
    labels = re.compile(r'\b(?:aria-label|title|alt|placeholder)="((?:[^"{]|\{\{.*?\}\}|\{%.*?%\})*)"')
    found = [label for path in folder.rglob("*.html") for label in labels.findall(path.read_text())]
    values = [value for label in found for value in re.findall(r"\{\{ (.*?) \}\}", label)]
    assert len(values) > 10
    assert [value for value in values if not re.search(r"\|(plain|words|day|count)$", value)] == []


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_file_is_linked_and_deleted(client: ApiClient, admin: User) -> None:
    file_id = client.store("note.txt", context=client.create_context())
    path = f"/files/{file_id}"
    page = admin.get(path).text
    assert "note.txt" in page
    assert f'href="/console{path}/receipt"' in page
    receipt = admin.get(f"{path}/receipt")
    assert receipt.headers["content-disposition"] == f'attachment; filename="{file_id}.jws"'
    assert len(receipt.text.split(".")) == 3
    assert receipt.text.split(".")[0] == data(client.get(f"{path}/receipt"))["receipt"].split(".")[0]
    assert "works for 15 minutes" in admin.post(f"{path}/link", expires_in="900").text
    assert admin.post(f"{path}/link", expires_in="999999").status_code == 422
    assert "Delete 1 file?" in admin.post("/files/delete", file_id=file_id).text
    assert admin.get(path).status_code == 200
    assert admin.post("/files/delete", file_id=file_id, sure="yes").status_code == 303
    assert admin.get(path).status_code == 404
    actions = [entry["action"] for entry in listed(client.get("/audit"))[0]]
    assert {"file.linked", "file.deleted"} <= set(actions)


def test_rejections_are_grouped_with_what_was_expected(client: ApiClient, admin: User) -> None:
    context = client.create_context(allowed_extensions=["pdf"])
    for number in range(3):
        client.upload(f"setup{number}.exe", b"MZ" + bytes(100), context=context)
    groups = admin.get("/rejections").text
    assert "Extension not allowed" in groups
    assert "1 of 1 groups, 3 rejections" in groups
    reports = admin.get(f"/reports?context={context}&reason=extension_not_allowed").text
    assert "3 of 3 reports" in reports
    report_id = match(r"/console/reports/(rep_\w+)", reports)
    report = admin.get(f"/reports/{report_id}").text
    for text in ("Tell the sender", "Expected", report_id):
        assert text in report
    for locale in LOCALES:
        page = admin.get(f"/reports/{report_id}?language={locale}").text
        asked = client.request("GET", f"/reports/{report_id}", headers={"Accept-Language": locale})
        sentence = data(asked)["message"]
        assert html.unescape(match(f'(?s)<pre id="sentence" tabindex="0" lang="{locale}">(.*?)\n\n', page)) == sentence


def test_context_is_made_changed_and_tried(client: ApiClient, admin: User) -> None:
    fields = {"context_key": "letters", "display_name": "Letters", "max_file_size_mb": "10"}
    modes = {"check_integrity": "enforce", "check_blank": "enforce", "check_malware": "enforce"}
    wrong = admin.post("/contexts/new", **fields | modes | {"max_file_size_mb": "9999"})
    assert wrong.status_code == 422
    assert "max_file_size_mb: expected at most 500, found 9999" in wrong.text
    wrong = admin.post("/contexts/new", **fields, **modes, storage_quota_mb="much")
    assert "Quota: expected a size such as 20 GB" in wrong.text
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
    sent: dict[str, Any] = {"data": {"context": "letters"}, "files": {"file": ("two.txt", TEXT)}}
    tried = admin.http.post("/console/contexts/letters/try", **sent, headers=SAME_ORIGIN)
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
        "text": {
            "mode": "enforce",
            "must_contain": [
                {"name": "Invoice number", "any": ["invoice no", "km/h", "a, b"], "pattern": "RE-[0-9]{4}|a/b/"},
                {"name": "Date", "pattern": "/"},
            ],
            "any_is_enough": True,
            "must_not_contain": [{"name": "Draft <1>", "any": ["draft"]}],
            "languages": ["de", "en"],
            "min_words": 3,
            "max_age_days": 90,
            "needs_date": True,
            "date_labels": ["issued", "as of"],
            "identifiers": ["iban", "payment_card"],
        },
        "min_size_bytes": {"mode": "enforce", "bytes": 3},
        "filename_pattern": {"mode": "enforce", "pattern": ".*"},
        "duplicates": {"mode": "report"},
    }
    key = client.create_context(
        policies=policies,
        check_modes={"malware": "quarantine", "blank": "report"},
        reject_corrupt_files=False,
        upload_rate_limit={"max_uploads": 7, "window_seconds": 60},
        storage_quota_mb=2048,
        description="Line one\nline two",
        allowed_extensions=["pdf"],
        retention_days=9,
        retention_starts="last_downloaded",
        page_name="Muster Insurance",
        page_sentence="Muster Insurance asks for your documents.",
        page_color="#1f6feb",
        page_logo=base64.b64encode(picture()).decode(),
        sanitise={"remove": ["active_content", "metadata"], "original": "quarantine", "signed": "change"},
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


def test_key_is_shown_once_limited_rotated_and_revoked_after_a_question(client: ApiClient, admin: User) -> None:
    assert admin.post("/keys/new", name="").status_code == 422
    made = admin.post("/keys/new", **{"name": "<b>Intake</b>", "scope.metadata": "on", "expires_in_days": "9"})
    caller = client.with_credential(match(r"sl_live_\w+", made.text))
    assert caller.get("/files").status_code == 200
    shown = admin.get("/keys").text
    assert str(caller.authorization).removeprefix("Bearer ") not in shown
    assert "&lt;b&gt;Intake&lt;/b&gt;" in shown
    key_id = next(key["api_key_id"] for key in listed(client.get("/api-keys"))[0] if "Intake" in key["name"])
    assert admin.post(f"/keys/{key_id}/status", status="disabled").status_code == 303
    assert caller.get("/files").status_code == 401
    assert "Revoke" in admin.post(f"/keys/{key_id}/status", status="revoked").text
    assert data(client.get(f"/api-keys/{key_id}"))["status"] == "disabled"
    assert admin.post(f"/keys/{key_id}/status", status="revoked", sure="yes").status_code == 303
    assert data(client.get(f"/api-keys/{key_id}"))["status"] == "revoked"
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
    limits = data(client.get(f"/api-{path[1:]}"))
    assert (limits["contexts"], limits["rate_per_minute"]) == ([context], 9)
    assert "Rotate Limited" in admin.get(f"{path}/rotate").text
    assert admin.post(f"{path}/rotate", overlap_seconds="604801").status_code == 422
    rotated = admin.post(f"{path}/rotate", overlap_seconds="1 min")
    after = data(client.get(f"/api-{path[1:]}"))
    assert f"{after['key_prefix']}_" in rotated.text
    assert after["key_prefix"] != key["key_prefix"]


def test_upload_token_is_shown_once_and_revoked(client: ApiClient, admin: User) -> None:
    context = client.create_context()
    wrong = admin.post("/tokens/new", context=context, max_files="1", expires_in="900", allowed_origins="nonsense")
    assert wrong.status_code == 422
    made = admin.post("/tokens/new", context=context, max_files="1", expires_in="900", end_user="Bo")
    text = match(r"ut_live_\w+", made.text)
    assert client.with_credential(text).upload(context=context).status_code == 201
    shown = admin.get("/tokens").text
    assert "1 of 1" in shown
    assert text not in shown
    token_id = listed(client.get("/upload-tokens"))[0][0]["token_id"]
    assert admin.post(f"/tokens/{token_id}/revoke").status_code == 303
    assert listed(client.get("/upload-tokens"))[0][0]["status"] == "revoked"


def test_file_in_quarantine_is_released_after_a_question(client: ApiClient, admin: User) -> None:
    context = client.create_context(check_modes={"malware": "quarantine"})
    file_id = client.store("tool.txt", eicar(), context=context)
    path = f"/quarantine/{file_id}/release"
    assert "tool.txt" in admin.get("/quarantine").text
    assert client.get(f"/files/{file_id}").status_code == 404
    assert "Release this file?" in admin.post(path).text
    assert client.get(f"/files/{file_id}").status_code == 404
    assert admin.post(path, sure="yes").status_code == 422
    assert admin.post(path, sure="yes", comment="a false alarm").status_code == 303
    assert client.get(f"/files/{file_id}").status_code == 200
    (entry,) = listed(client.get("/audit", action="file.released"))[0]
    assert (entry["via"], entry["reason"]) == ("console", "a false alarm")


def test_overview_counts_what_became_of_uploads(client: ApiClient, admin: User) -> None:
    context = client.create_context(allowed_extensions=["png"], storage_quota_mb=1)
    client.store("a.png", picture(), context=context)
    client.upload("b.exe", b"MZ", context=context)
    page = admin.get("/overview").text
    for text in ("2 uploads, 1 rejected", "Extension not allowed", "of 1.0 MB"):
        assert text in page
    quarantine = client.create_context(check_modes={"malware": "quarantine"})
    client.store("tool.txt", eicar(), context=quarantine)
    page = admin.get("/overview").text
    for text in ("3 uploads, 1 rejected", "<dt>Uploads</dt><dd>3</dd>", "<dt>Quarantined</dt><dd>1</dd>"):
        assert text in page
    assert "A file waits in quarantine for a decision" in page
    assert match(r'href="/console/quarantine"[^>]*>.*?class="waiting"[^>]*>.*?(\d+)', page) == "1"
    assert admin.get("/overview?days=nonsense").status_code == 200


def test_audit_log_is_filtered_and_exported(client: ApiClient, admin: User) -> None:
    client.create_context()
    assert "1 of 1 entries" in admin.get("/audit?action=context.created").text
    rows = rows_of(admin.get("/audit.csv?action=context.created").text)
    assert [row["action"] for row in rows] == ["context.created"]
    assert "No entry matches" in admin.get("/audit?actor=nobody").text


def test_code_has_the_address_of_the_service(client: ApiClient, admin: User) -> None:
    context = client.create_context()
    pages = [admin.get(f"/integrate?context={context}&way={way}").text for way in WAYS]
    assert all(context in page for page in pages)
    page = "".join(pages)
    assert not re.search(r"\{(url|context)\}", page)
    for path in ("/api/v1/files/upload", "/static/sluice-upload.js", "/u/ut_live_…", "/api/v1/uploads&#34;"):
        assert f"{client.service.url}{path}" in page
    assert admin.get("/integrate?context=unknown").status_code == 404


FORMS = {form.name: form for group in POLICY_GROUPS.values() for form in group}


def test_the_editor_has_every_field_of_every_policy_and_every_kind_of_active_content() -> None:
    """It replaces all policies of a context, so it must know each of them."""
    wanted = set()
    for name, field in Policies.model_fields.items():
        (model,) = (each for each in get_args(field.annotation) if each is not type(None))
        assert issubclass(model, Policy)
        wanted |= {(name, each) for each in model.model_fields if each != "mode"}
    assert FORMS.keys() == Policies.model_fields.keys()
    assert {(name, field.name) for name, form in FORMS.items() for field in form.fields} == wanted
    (kinds,) = FORMS["active_content"].fields
    assert set(kinds.choices) == set(get_args(ActiveContentKind))
