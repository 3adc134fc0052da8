"""The lists of files, reports and the audit log: their filters, what leads from one to the other, and their export."""

import re
from dataclasses import dataclass

import pytest

from tests.api.responses import data
from tests.api.samples import TEXT
from tests.api.test_lifecycle import hold
from tests.console.test_lifecycle import finished
from tests.console.test_pages import linked, rows_of, shown_fields
from tests.console.users import SAME_ORIGIN, User, match, signed_in
from tests.service import ApiClient


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


@pytest.mark.engine
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
    assert "1 of 1 groups, 1 rejections" in admin.get(f"/rejections?{ada}&reason=extension_not_allowed").text
    assert "Nothing matches" in admin.get(f"/rejections?uploaded_by={uploads.bo}").text
    page = admin.get(f"/files?{ada}&from=1h&q=good").text
    assert f"/console/files?uploaded_by={uploads.ada}&amp;from=1h&amp;q=good&amp;context={uploads.context}" in page
    assert "1 of 1 files in the newest 10,000" in page
    assert "3 of 3 files" in admin.get("/files?from=1h").text


@pytest.mark.engine
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


@pytest.mark.engine
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


def test_erasure_says_what_it_will_do_and_is_followed_to_its_receipt(
    client: ApiClient, admin: User, uploads: Uploads
) -> None:
    data(hold(client, f"/files/{uploads.stored}"))
    page = admin.get(f"/actor?id={uploads.ada}").text
    assert "Erase this person" not in page, "a key is no person"
    address = f"/erasures/new?uploaded_by={uploads.ada}"
    page = admin.get(address).text
    for name, number in {"Stored files": 2, "Held files that stay": 1, "Reports to blank": 3}.items():
        assert f"<dt>{name}</dt><dd>{number}</dd>" in page, name
    assert "expected exactly one of uploaded_by" in admin.get(f"{address}&end_user=Bo").text
    assert "expected lines such as claim=C-7" in admin.get("/erasures/new?metadata=claim").text
    assert data(client.get(f"/files/{uploads.doubtful}/metadata"))["original_filename"] == "doubtful.txt"
    begun = admin.post("/erasures/new", uploaded_by=uploads.ada, typed="erase")
    job = begun.headers["location"].removeprefix("/console")
    page = finished(admin, job)
    for text in ("1</strong> file erased, 1 left as they were", f'/console{job}/receipt?page=1"'):
        assert text in page
    receipt = admin.get(f"{job}/receipt?page=1")
    assert receipt.headers["content-disposition"] == f'attachment; filename="{job.rpartition("/")[2]}.jws"'
    assert receipt.text.count(".") == 2
    for wrong in ("0", "2", "x"):
        assert admin.get(f"{job}/receipt?page={wrong}").status_code == 404


@pytest.mark.engine
def test_erasure_of_an_end_user_or_of_metadata_counts_its_files(client: ApiClient, admin: User) -> None:
    context = client.create_context()
    token = data(client.post("/upload-tokens", {"context": context, "end_user": "user 42"}), 201)
    data(client.with_credential(token["token"]).upload("a.txt", context=context), 201)
    client.store("b.txt", TEXT + b"1", context=context, metadata={"claim": "C-7", "year": 2026})
    client.store("c.txt", TEXT + b"2", context=context, metadata={"claim": "C-7"})
    page = admin.get("/erasures/new?end_user=user+42").text
    for name, number in {"Stored files": "at least 1", "Reports to blank": "1", "Upload tokens to revoke": "1"}.items():
        assert f"<dt>{name}</dt><dd>{number}</dd>" in page, name
    assert "<dt>Stored files</dt><dd>at least 2</dd>" in admin.get("/erasures/new?metadata=claim%3DC-7").text
    assert (
        "<dt>Stored files</dt><dd>at least 1</dd>" in admin.get("/erasures/new?metadata=claim%3DC-7%0Ayear%3D2026").text
    )
    assert "Erase this person" in admin.get(f"/actor?id={token['token_id']}").text


@pytest.mark.engine
def test_job_is_begun_on_files_of_a_size_type_time_and_metadata_that_were_counted(
    client: ApiClient, admin: User
) -> None:
    context = client.create_context()
    large = client.store("large.txt", TEXT * 100, context=context, metadata={"claim": "C-7"})
    client.store("small.txt", TEXT, context=context, metadata={"claim": "C-7"})
    client.store("other.txt", TEXT * 101, context=context)
    chosen = "type=text/plain&min_size=1.5+KB&from=1d&until=1m&metadata=claim%3DC-7"
    assert "0 files" in admin.get(f"/jobs/new?{chosen}").text
    chosen = chosen.replace("until=1m", "until=2099-01-31")
    page = admin.get(f"/jobs/new?{chosen}").text
    assert re.search(r'role="status">1 file<', page)
    assert "large.txt" in page
    assert "other.txt" not in page
    link = match(r'href="/console(/files/all[^"]+action=delete)"', page).replace("&amp;", "&")
    asked = admin.get(link).text
    assert "Type 1 to confirm" in asked
    begun = admin.post(link, **shown_fields(asked) | {"typed": "1"})
    assert "1</strong> of 1 file" in finished(admin, begun.headers["location"].removeprefix("/console"))
    assert client.get(f"/files/{large}").status_code == 404
    assert "2 of 2 files" in admin.get("/files").text
    for wrong in ("min_size=large", "metadata=claim", "from=now", "type=" + "x" * 256):
        answer = admin.get(f"/jobs/new?context={context}&{wrong}")
        assert answer.status_code == 422, wrong
        assert len(re.findall(r"<li>(?:min_size|metadata|from|content_type): expected", answer.text)) == 1, wrong
        assert f'value="{context}" selected' in answer.text
    exported = admin.post(f"/jobs/new?context={context}", format="ndjson")
    job = exported.headers["location"].rpartition("/")[2]
    assert data(client.get(f"/jobs/{job}"))["params"]["format"] == "ndjson"


def test_deleted_files_are_listed_by_their_deletion_with_their_number(client: ApiClient, admin: User) -> None:
    context, other = client.create_context(), client.create_context()
    stored = [client.store(f"{number}.txt", TEXT + str(number).encode(), context=context) for number in range(52)]
    data(client.delete(f"/files/{client.store('other.txt', context=other)}"))
    for file_id in [*stored[1:], stored[0]]:
        data(client.delete(f"/files/{file_id}"))
    path = f"/files/deleted?context={context}"
    page = admin.get(path).text
    shown = re.findall(r'<td class="name"><a href="/console/files/(\w+)"', page)
    assert "50 of 52 deleted files" in page
    assert shown[0] == stored[0], "the oldest upload was deleted last"
    older = linked(admin, "next", page)
    shown += re.findall(r'<td class="name"><a href="/console/files/(\w+)"', older)
    assert sorted(shown) == sorted(stored)
    assert "50 of 52" in linked(admin, "prev", older)
    assert "52 of 52" not in page
    assert "50 of 53 deleted files" in admin.get("/files/deleted").text
    assert "No deleted file" in admin.get(f"{path}&before=nonsense").text
