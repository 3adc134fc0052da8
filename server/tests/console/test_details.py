"""The pages of one thing: the history of a file, a key and its uploads, a bucket and its probe, scans, test uploads."""

import hashlib
import re

import pytest

from tests.api.responses import data
from tests.api.samples import TEXT, eicar
from tests.api.test_examples import LETTER, invoice
from tests.api.test_sanitising import photo
from tests.console.users import SAME_ORIGIN, User, match, signed_in
from tests.scanning.waiting import until
from tests.servers.radosgw import RadosGateway
from tests.service import ApiClient


def history(page: str) -> list[str]:
    """The entries of the history of a file as texts without their times."""
    entries = re.findall(r"(?s)<li><span class=\"soft\">.*?</span><div>(.*?)</div></li>", page)
    return [" ".join(re.sub(r"<[^>]*>", " ", entry).split()) for entry in entries]


@pytest.mark.engine
def test_history_of_a_file_is_its_upload_and_what_was_done_to_it(client: ApiClient, admin: User) -> None:
    key = client.create_key("upload", name="Ada & co")
    context = client.create_context()
    file_id = client.with_credential(key).store("note.txt", context=context)
    path = f"/files/{file_id}"
    uploaded = ["Stored", "Judged Accepted", "Uploaded by Ada &amp; co"]
    assert history(admin.get(path).text) == uploaded
    assert admin.post(f"{path}/hold", reason="Case <7>").status_code == 303
    with signed_in(client, "metadata") as user:
        page = user.get(path).text
        assert [entry.partition(" by ")[0] for entry in history(page)] == [
            "Held",
            "Stored",
            "Judged Accepted",
            "Uploaded",
        ]
        assert "/console/audit" not in page
    assert admin.post(f"{path}/unhold").status_code == 303
    assert admin.post("/files/delete", file_id=file_id, sure="yes").status_code == 303
    page = admin.get(path).text
    assert history(page) == ["Deleted by Ada", "Unheld by Ada", "Held by Ada Case &lt;7&gt;", *uploaded]
    assert f'href="/console/audit?target={file_id}"' in page
    assert f'href="/console/actor?id={key.api_key_id}"' in page
    assert "3 of 3 entries" in admin.get(f"/audit?target={file_id}").text
    assert "No entry matches" in admin.get("/audit?target=file_none").text
    with signed_in(client, "metadata") as user:
        assert history(user.get(path).text) == ["Deleted", *uploaded]


def test_history_of_a_file_in_quarantine_is_for_reviewers_too(client: ApiClient, admin: User) -> None:
    context = client.create_context(check_modes={"malware": "quarantine"})
    file_id = data(client.upload("tool.txt", eicar(), context=context), 201)["file_id"]
    uploaded = ["Stored, in quarantine", "Judged Quarantined: virus detected"]
    with signed_in(client, "review") as user:
        assert history(user.get(f"/quarantine/{file_id}").text)[:2] == uploaded
    assert admin.post(f"/quarantine/{file_id}/download").status_code == 200
    entries = history(admin.get(f"/quarantine/{file_id}").text)
    assert entries[:3] == ["Quarantine downloaded by Ada", *uploaded]
    assert history(admin.get(f"/files/{file_id}").text) == entries


def test_what_was_taken_out_is_said_in_words_and_its_original_cannot_be_released(
    client: ApiClient, admin: User
) -> None:
    context = client.create_context(sanitise={"remove": ["metadata"], "original": "quarantine"})
    assert (
        "what was sent is kept in quarantine · signed documents are rejected" in admin.get(f"/contexts/{context}").text
    )
    uploaded = client.upload("a.jpg", photo(), context=context)
    file_id, report_id = data(uploaded, 201)["file_id"], uploaded.headers["sluice-report-id"]
    (original,) = data(client.get("/quarantine"))
    for path in (f"/files/{file_id}", f"/reports/{report_id}"):
        page = admin.get(path).text
        assert all(
            text in page for text in ("Taken out before it was stored", "<li>Where a picture or recording was made")
        )
        assert f"/console/quarantine/{original['file_id']}" in page
    page = admin.get(f"/quarantine/{original['file_id']}").text
    assert ("It is never released" in page, f"/console/files/{file_id}" in page, "Release it" in page) == (
        True,
        True,
        False,
    )
    assert "Release…" not in admin.get("/quarantine").text
    asked = admin.post(f"/quarantine/{original['file_id']}/release", comment="needed", sure="yes")
    assert "The context stores files without what was taken out of this one" in asked.text


def test_what_was_found_in_a_text_is_shown_with_the_rules_that_asked(client: ApiClient, admin: User) -> None:
    named = {"name": "Invoice <number>", "any": ["invoice no"]}
    context = client.create_context(policies={"text": {"mode": "quarantine", "must_contain": [named], "min_words": 9}})
    report_id = client.upload("a.txt", b"invoice no 7", context=context).headers["sluice-report-id"]
    page = admin.get(f"/reports/{report_id}").text
    shown = ("Its text", "<dt>Found</dt><dd>Invoice &lt;number&gt;</dd>", "found 3 words, expected at least 9")
    assert [text in page for text in shown] == [True] * 3
    assert "Invoice &lt;number&gt;" in admin.get(f"/contexts/{context}").text


def test_examples_are_added_shown_and_removed_on_a_page_of_their_context(client: ApiClient, admin: User) -> None:
    context = client.create_context(policies={"document_kind": {"mode": "enforce"}})
    assert "files are compared with nothing" in admin.get(f"/contexts/{context}").text
    path = f"/contexts/{context}/examples"
    for number in range(4):
        sent = {"file": (f"invoice {number}.txt", invoice(number))}
        added = admin.http.post(f"/console{path}", files=sent, headers=SAME_ORIGIN)
        assert added.status_code == 303
    refused = admin.http.post(f"/console{path}", files={"file": ("few.txt", b"three words only")}, headers=SAME_ORIGIN)
    assert (refused.status_code, "expected at least 10 different words" in refused.text) == (422, True)
    page = admin.get(path).text
    assert all(
        text in page for text in ("4 of at most 30", "Files are compared with them", '<span class="tag">invoice<')
    )
    example = data(client.get(path))["examples"][0]["example_id"]
    assert admin.post(f"{path}/remove", example_id=example).status_code == 303
    page = admin.get(f"/contexts/{context}").text
    assert "3 documents, which files are compared with" in page
    assert "<dt>Number of examples</dt><dd><del>4</del><ins>3</ins>" in page
    report_id = client.upload("letter.txt", LETTER, context=context).headers["sluice-report-id"]
    page = admin.get(f"/reports/{report_id}").text
    assert "Compared with the examples" in page
    assert "grandmother" not in page


def test_report_of_a_denied_file_names_the_entry_who_added_it_and_why(client: ApiClient, admin: User) -> None:
    context, digest = client.create_context(), hashlib.sha256(TEXT).hexdigest()
    client.store("first.txt", TEXT, context=context)
    shown = admin.post("/hashes/new", digest=digest.upper(), list="deny", reason="INC-42")
    page = admin.get(shown.headers["location"].removeprefix("/console")).text
    assert "1 stored file has it" in page
    report_id = client.upload("second.txt", TEXT, context=context).headers["sluice-report-id"]
    page = admin.get(f"/reports/{report_id}").text
    assert all(text in page for text in ("Deny, of the tenant", "INC-42", "Ada", f"/console/hashes?digest={digest}"))
    assert admin.post("/hashes/import", lines=f"{digest[:40]}\n{digest[:32]},deny,why").status_code == 303
    assert "3 of 3 entries" in admin.get("/hashes").text
    assert "1 of 1 entries" in admin.get("/hashes?algorithm=md5").text
    assert admin.post(f"/hashes/{digest}/remove").status_code == 303
    assert "2 of 2 entries" in admin.get("/hashes").text


@pytest.mark.engine
def test_page_of_a_key_has_its_limits_and_last_uploads(client: ApiClient, admin: User) -> None:
    context = client.create_context(allowed_extensions=["txt"])
    body = {"name": "Ada & co", "scopes": ["upload"], "contexts": [context], "rate_per_minute": 77}
    made = data(client.post("/api-keys", body), 201)
    sender = client.with_credential(made["api_key"])
    stored = data(sender.upload("note.txt", context=context), 201)["report_id"]
    refused = sender.upload("tool.exe", b"MZ", context=context)
    client.store("other.txt", context=context)
    path = f"/keys/{made['api_key_id']}"
    assert f'<a href="/console{path}"><bdi>Ada &amp; co' in admin.get("/keys").text
    page = admin.get(path).text
    rows = re.findall(r'(?s)<tr><td class="name"><a href="/console/reports/(\w+)".*?<td class="number">(\d\w\w)<', page)
    assert rows == [(refused.json()["report"]["report_id"], str(refused.status_code)), (stored, "201")]
    assert "2 uploads with it in the newest 10,000 of all" in page
    assert "Extension not allowed" in page
    assert "77 a minute" in page
    assert f"/console/contexts/{context}" in page
    assert admin.get("/keys/key_none").status_code == 404


def test_bucket_is_probed_step_by_step(client: ApiClient, s3: RadosGateway, admin: User) -> None:
    place = s3.fresh_bucket()
    path = f"/buckets/{client.add_bucket(name='second', default_bucket=place)['config_id']}"

    def steps(page: str) -> list[str]:
        return re.findall(r'<li><span>\s*<span class="(?:badge|tag)[^"]*">([^<]+)</span>', page)

    added = steps(admin.get(path).text)
    assert added == ["Pass"] * 7, "it was probed when it was added"
    s3.client.delete_bucket(Bucket=place)
    page = admin.follow(admin.post(f"{path}/probe"))
    assert "does not work" in page
    assert steps(page) == ["Pass", "Pass", "Fail", *["not made"] * 4]
    assert "There is no bucket of this name." in page
    assert '<span class="tag">404 NoSuchBucket</span>' in page
    row = match(f'(?s)<tr><td class="name"><a href="/console{path}.*?</tr>', admin.get("/buckets").text)
    assert "Fail" in row
    assert "There is no bucket of this name." in row
    s3.client.create_bucket(Bucket=place)
    assert "was tried out and works" in admin.follow(admin.post(f"{path}/probe"))
    assert s3.keys(place) == []
    assert f'{path}"' in admin.get("/audit?action=bucket.probed").text


def test_stored_file_is_scanned_again_and_shows_what_came_out(client: ApiClient, admin: User) -> None:
    path = f"/files/{client.store('note.txt', context=client.create_context())}"
    assert "Nothing was found" not in admin.get(path).text
    with signed_in(client, "metadata") as user:
        assert "Scan it again" not in user.get(path).text
    with signed_in(client, "metadata", "review") as user:
        assert "It is scanned next by the worker" in user.follow(user.post(f"{path}/rescan", comment="New signatures"))
    assert until(lambda: "<dt>Result</dt><dd>Nothing was found</dd>" in admin.get(path).text)
    page = admin.get(path).text
    assert "is scanned again soon" not in page
    assert history(page)[:2] == ["Scanned again Nothing was found", "Rescan asked by Ada New signatures"]


def test_test_upload_is_stored_for_a_day_or_rejected(client: ApiClient, admin: User) -> None:
    context = client.create_context(allowed_extensions=["docx", "csv"])
    path = f"/integrate?context={context}&way=Python"
    page = admin.follow(admin.post(path, context=context, sample="pass"))
    file_id = match(r'href="/console/files/(\w+)">File', page)
    assert "test-upload.csv" in page
    assert "It is deleted after a day" in page
    stored = data(client.get(f"/files/{file_id}/metadata"))
    assert stored["metadata"] == {"test_upload": True}
    assert re.search("<dt>Kept until</dt><dd><time[^>]*>in 23 h", admin.get(f"/files/{file_id}").text)
    failed = admin.follow(admin.post(path, context=context, sample="fail"))
    assert '<span class="tag">blank_document</span>' in failed
    assert match(r'href="/console/reports/(\w+)">Report', failed)
    lenient = client.create_context(allowed_extensions=["docx"], reject_blank_files=False)
    assert "no sample with an extension that is allowed" in admin.get(f"/integrate?context={lenient}").text
    failed = admin.follow(admin.post("/integrate", context=lenient, sample="fail"))
    assert '<span class="tag">extension_not_allowed</span>' in failed
    any_file = client.create_context(reject_blank_files=False, reject_corrupt_files=False)
    assert "reject no sample" in admin.get(f"/integrate?context={any_file}").text
    damaged = client.create_context(reject_blank_files=False)
    assert "corrupt_file" in admin.follow(admin.post("/integrate", context=damaged, sample="fail"))
    with signed_in(client, "metadata") as user:
        assert "Test upload" not in user.get(path).text
