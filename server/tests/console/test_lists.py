"""The lists of files, reports and the audit log: their filters, what leads from one to the other, and their export."""

import re
from dataclasses import dataclass

import pytest

from tests.api.responses import data
from tests.api.samples import TEXT
from tests.console.test_pages import rows_of
from tests.console.users import SAME_ORIGIN, User, match, signed_in
from tests.service import ApiClient

pytestmark = pytest.mark.engine


@dataclass(frozen=True)
class Uploads:
    """What two API keys uploaded into one context: each a file, the first one a rejected and a doubtful one, too."""

    context: str
    ada: str
    bo: str
    stored: str
    doubtful: str
    others: str
    rejected: str


@pytest.fixture
def uploads(client: ApiClient) -> Uploads:
    doubtful = {"filename_pattern": {"mode": "quarantine", "pattern": "good.*"}}
    context = client.create_context(allowed_extensions=["txt"], policies=doubtful)
    ada, bo = (client.create_key("upload", "delete", name=name) for name in ("Ada & co", "Bo"))
    sender = client.with_credential(ada)
    return Uploads(
        context,
        ada.api_key_id,
        bo.api_key_id,
        stored=sender.store("good-1.txt", TEXT + b"1", context=context),
        doubtful=data(sender.upload("doubtful.txt", TEXT + b"2", context=context), 201)["file_id"],
        others=client.with_credential(bo).store("good-3.txt", TEXT + b"3", context=context),
        rejected=sender.upload("=bad.exe", b"MZ", context=context).json()["report"]["report_id"],
    )


def listed(user: User, path: str) -> set[str]:
    """The ids in the first column of a list."""
    return set(re.findall(r'<td class="name"><a href="/console/(?:files|reports)/(\w+)"', user.get(path).text))


def test_files_and_reports_are_those_of_one_uploader_a_time_an_outcome_and_a_reason(
    admin: User, uploads: Uploads
) -> None:
    ada, theirs = f"uploaded_by={uploads.ada}", {uploads.stored, uploads.doubtful}
    for query, expected in {
        f"/files?{ada}": theirs,
        f"/files?{ada}&from=1h": theirs,
        f"/files?{ada}&until=1h": set(),
        f"/files?{ada}&until=2001-01-31": set(),
        f"/files?{ada}&from=2001-01-31&until=9000-01-31T12:00": theirs,
        f"/files?{ada}&state=quarantined": {uploads.doubtful},
        "/files?reason=filename_not_allowed": {uploads.doubtful},
        f"/files?uploaded_by={uploads.bo}&reason=filename_not_allowed": set(),
        f"/reports?{ada}&outcome=rejected&from=1d": {uploads.rejected},
        f"/reports?{ada}&outcome=rejected&until=1d": set(),
        f"/reports?uploaded_by={uploads.bo}&reason=extension_not_allowed": set(),
    }.items():
        assert listed(admin, query) == expected, query
    page = admin.get(f"/files?{ada}&from=1h&q=good").text
    assert f"/console/files?uploaded_by={uploads.ada}&amp;from=1h&amp;q=good&amp;context={uploads.context}" in page
    assert "1 of 1 files in the newest 10,000" in page
    assert "3 of 3 files" in admin.get("/files?from=1h").text


def test_name_of_an_uploader_leads_to_all_that_was_uploaded_and_done(admin: User, uploads: Uploads) -> None:
    for path in (f"/files/{uploads.stored}", "/files?from=1h", f"/reports/{uploads.rejected}", "/rejections"):
        address = match(r'/console(/actor\?id=[^"]+)">(?:<bdi>)?Ada', admin.get(path).text)
        page = admin.get(address.replace("&amp;", "&")).text
        assert set(re.findall(r"/console/(?:files|reports)/(\w{30,})", page)) == {
            uploads.stored,
            uploads.doubtful,
            uploads.rejected,
        }
        assert "All 2" in page
        assert "Ada &amp; co" in page
    with signed_in(admin.client, "review") as reviewer:
        page = reviewer.get(f"/actor?id={uploads.ada}").text
        assert uploads.rejected in page
        assert uploads.stored not in page
    assert "No file is stored" in admin.get("/actor?id=nobody").text
    assert admin.get("/actor?id=x%00y").status_code == 404


def test_entry_of_the_audit_log_leads_to_its_thing_while_that_exists(
    client: ApiClient, admin: User, uploads: Uploads
) -> None:
    job = data(client.post("/files/export", {}), 201)["job_id"]
    data(client.with_credential(client.create_key("delete")).delete(f"/files/{uploads.others}"))
    page = admin.get("/audit").text
    for path in (f"jobs/{job}", f"files/{uploads.others}", f"contexts/{uploads.context}", f"actor?id={uploads.ada}"):
        assert f'href="/console/{path}">' in page, path
    assert "context.created" in {row["action"] for row in rows_of(admin.get("/audit.csv?outcome=done&from=1h").text)}
    assert admin.post(f"/files/{uploads.stored}/hold", reason="Case 7 of Weir").status_code == 303
    page = admin.get("/audit?reason=case+7&outcome=done&from=1h").text
    assert "1 of 1 entries in the newest 10,000" in page
    assert f'href="/console/files/{uploads.stored}"' in page
    assert "No entry matches" in admin.get("/audit?outcome=refused").text
    assert "No entry matches" in admin.get("/audit?until=1h").text


def test_filtered_reports_are_exported_as_no_formula(admin: User, uploads: Uploads) -> None:
    (row,) = rows_of(admin.get(f"/reports.csv?uploaded_by={uploads.ada}&outcome=rejected").text)
    assert row["report_id"] == uploads.rejected
    assert (row["original_filename"], row["uploaded_by_name"]) == ("'=bad.exe", "Ada & co")


def test_filter_that_cannot_be_read_is_explained_and_keeps_what_was_typed(admin: User) -> None:
    for path in ("/files", "/reports", "/audit", "/actor?id=nobody"):
        sign = "&" if "?" in path else "?"
        for wrong in ("from=yesterday", "until=2026-13-01", "until=9999-12-31", "from=1d&until=2d"):
            answer = admin.get(f"{path}{sign}{wrong}")
            assert answer.status_code == 422, (path, wrong)
            (sentence,) = re.findall(r"<li>((?:from|until): [^<]+)</li>", answer.text)
            assert "expected a" in sentence
            assert f'value="{wrong.partition("&")[0].partition("=")[2]}"' in answer.text
            assert 'aria-label="Console"' in answer.text
    for path in ("/files?state=gone", "/reports?outcome=gone", "/audit?outcome=gone", "/reports.csv?reason=gone"):
        assert admin.get(path).status_code == 422, path


def test_times_are_exact_on_request(admin: User, uploads: Uploads) -> None:
    path = f"/files/{uploads.stored}"
    shown = re.compile(r'<time datetime="[^"]+" title="([^"]+)">([^<]+)</time>')
    exact, ago = shown.findall(admin.get(path).text)[0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", exact)
    assert ago == "now" or ago.endswith(" ago")
    headers = SAME_ORIGIN | {"Referer": f"{admin.client.service.url}/console{path}?notice=held"}
    answer = admin.http.post("/console/times", data={"times": "absolute"}, headers=headers)
    assert answer.headers["location"] == f"/console{path}?notice=held"
    assert exact in [moment for _title, moment in shown.findall(admin.get(path).text)]
    other = SAME_ORIGIN | {"Referer": "https://evil.example//evil.example"}
    answer = admin.http.post("/console/times", data={"times": "relative"}, headers=other)
    assert answer.headers["location"] == "/console"
    assert exact in [title for title, _shown in shown.findall(admin.get(path).text)]
