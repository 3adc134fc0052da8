"""Hash lists: entries that deny a file or spare it the malware scan, their import, and the files that were stored."""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.responses import assert_error, assert_not_found, assert_rejected, assert_validation_error, data, page
from tests.api.samples import TEXT, eicar, noise, zip_of
from tests.cli.forked import run_forked
from tests.rows import each_row
from tests.scanning.waiting import until
from tests.service import ApiClient, Service


def digest_of(content: bytes, algorithm: str = "sha256") -> str:
    return hashlib.new(algorithm, content).hexdigest()


def add(client: ApiClient, digest: str, **more: Any) -> dict[str, Any]:
    found: list[dict[str, Any]] = data(client.post("/hash-lists", {"entries": [{"digest": digest, **more}]}), 201)[
        "entries"
    ]
    return found[0]


def import_csv(client: ApiClient, *lines: str, **query: Any) -> httpx.Response:
    body, headers = "\n".join(lines).encode(), {"Content-Type": "text/csv"}
    return client.request("POST", "/hash-lists/import", content=body, headers=headers, params=query)


def checks_of(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in report["checks"]}


def test_denied_file_is_rejected_and_its_report_names_the_entry_to_the_tenant_alone(
    client: ApiClient, context: str
) -> None:
    sender = client.with_credential(client.create_key("upload"))
    content = noise(2000)
    client.store("a.zzz", content, context=context)
    added = add(client, digest_of(content).upper(), reason="INC-42")
    assert (added["stored_files"], added["added_by"][:4]) == (1, "key_")
    refused = sender.upload("b.zzz", content, context=context)
    assert_rejected(refused, "denied_file")
    assert "INC-42" not in refused.text
    assert digest_of(content) not in refused.text
    report = data(client.get(f"/reports/{refused.json()['report']['report_id']}"))
    check = checks_of(report)["hash_list"]
    assert (check["outcome"], check["found"]) == ("fail", digest_of(content))
    assert "INC-42" in check["detail"]
    (entry,) = report["hash_lists"]
    assert (entry["reason"], entry["added_by"], entry["owner"]) == ("INC-42", added["added_by"], "tenant")
    tried = client.request("POST", "/files/validate", files={"file": ("c.zzz", content)}, data={"context": context})
    assert data(tried)["report"]["reason"] == "denied_file"
    first = data(client.get(f"/reports/{page(client.get('/reports'))[0][-1]['report_id']}"))
    assert "hash_list" not in checks_of(first)  # there were no lists
    data(client.delete(f"/hash-lists/{digest_of(content)}"))
    client.store("b.zzz", content, context=context)
    assert_not_found(client.delete(f"/hash-lists/{digest_of(content)}"))


def test_file_is_denied_by_each_kind_of_digest_until_the_entry_expires(client: ApiClient, context: str) -> None:
    for number, algorithm in enumerate(("md5", "sha1", "sha256")):
        content = noise(300_000 + number)
        soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        add(client, digest_of(content, algorithm), expires_at=soon)
        assert_rejected(client.upload("a.zzz", content, context=context), "denied_file")
        past = datetime.now(UTC) - timedelta(seconds=1)
        client.execute_sql(
            "UPDATE hash_entries SET expires_at = :past WHERE tenant_id = :tenant", past=past, tenant=client.tenant_id
        )
        client.store("a.zzz", content, context=context)

    def is_empty() -> bool:
        return not page(client.get("/hash-lists"))[1]["total"]

    assert until(is_empty, 30)  # the worker deletes them, and counts them no longer


def test_allowed_file_is_not_scanned_but_checked(client: ApiClient, context: str) -> None:
    assert_rejected(client.upload("e.txt", eicar(), context=context), "virus_detected")
    add(client, digest_of(eicar()), list="allow", reason="test file")
    stored = data(client.upload("e.txt", eicar(), context=context), 201)
    report = data(client.get(f"/reports/{stored['report_id']}"))
    assert checks_of(report)["malware"]["outcome"] == "pass"
    assert report["hash_lists"][0]["list"] == "allow"
    assert "scanner" not in report["engines"]
    broken = b"%PDF-1.4\n1 0 obj\n"
    add(client, digest_of(broken), list="allow")
    assert_rejected(client.upload("a.pdf", broken, context=context), "corrupt_file")
    add(client, digest_of(eicar(), "md5"))
    assert_rejected(client.upload("e.txt", eicar(), context=context), "denied_file")  # deny wins
    weak = client.post("/hash-lists", {"entries": [{"digest": digest_of(TEXT, "sha1"), "list": "allow"}]})
    assert_error(weak, 422, "Validation error", "entries[0]: a SHA-256: allow entries need a SHA-256")


def test_archive_with_a_denied_file_is_rejected_and_the_report_names_the_member(
    client: ApiClient, context: str
) -> None:
    add(client, digest_of(TEXT * 9, "md5"), reason="INC-9")
    add(client, digest_of(TEXT * 8), list="allow")
    inner = zip_of(("deep/evil.txt", TEXT * 9), ("b.txt", TEXT))
    archive = zip_of(("a.txt", TEXT * 8), ("inner.zip", inner))
    refused = client.upload("a.zip", archive, context=context)
    assert_rejected(refused, "denied_file")
    report = refused.json()["report"]
    assert (report["hash_lists"][0]["member"], report["members_compared"]) == ("deep/evil.txt", 4)
    assert "deep/evil.txt" in checks_of(report)["hash_list"]["detail"]
    stored = data(client.upload("b.zip", zip_of(("a.txt", TEXT * 8), ("b.txt", TEXT)), context=context), 201)
    report = data(client.get(f"/reports/{stored['report_id']}"))
    assert (report["hash_lists"], report["members_compared"]) == ([], 2)
    assert "members_missed" not in report


def test_first_entry_of_a_tenant_holds_at_once_in_a_process_that_remembers_there_is_none(
    client: ApiClient, context: str, caching_process: Service
) -> None:
    uploader = ApiClient(caching_process, client.tenant_id, client.authorization)
    uploader.store("a.zzz", noise(1000), context=context)
    add(client, digest_of(noise(1001), "sha1"))
    assert_rejected(uploader.upload("a.zzz", noise(1001), context=context), "denied_file")


def test_stored_files_that_are_denied_since_are_quarantined_by_a_job(client: ApiClient, context: str) -> None:
    content = noise(1234)
    stored = [client.store(f"{number}.zzz", content, context=context) for number in range(3)]
    other = client.store("other.zzz", noise(1235), context=context)
    assert_not_found(client.post(f"/hash-lists/{digest_of(content)}/quarantine"))
    path = add(client, digest_of(content), reason="INC-7")["quarantine_path"]
    job = data(client.post(path.removeprefix("/api/v1")), 201)
    assert (job["kind"], job["total"]) == ("bulk_quarantine", 3)
    assert until(lambda: data(client.get(f"/jobs/{job['job_id']}"))["status"] == "done", 60)
    assert {one["file_id"] for one in data(client.get("/quarantine"))} == set(stored)
    assert data(client.get(f"/files/{other}"))["download_url"]
    assert add(client, digest_of(content))["stored_files"] == 0


@pytest.mark.engine
def test_import_applies_whole_batches_and_names_the_line_that_is_wrong(client: ApiClient) -> None:
    digests = [digest_of(str(number).encode()) for number in range(1500)]
    done = data(import_csv(client, "digest,list,reason,expires_at", *digests[:1200], ""))
    assert (done["lines"], done["added"], done["changed"]) == (1201, 1200, 0)
    stopped = import_csv(client, *digests[:1499], f"{digests[1499]},block", list="allow")
    assert stopped.status_code == 422
    assert stopped.json()["errors"] == [
        "line 1500: expected deny or allow, found 'block'",
        "Lines 1 to 1000 were applied: 0 entries added, 1000 changed",
    ]
    assert page(client.get("/hash-lists"))[1]["total"] == 1200
    assert page(client.get("/hash-lists", list="allow"))[1]["total"] == 1000
    quoted = import_csv(client, f'md5:{digest_of(b"x", "md5")},,"one, two",2099-01-01')
    assert data(quoted)["added"] == 1
    (entry,) = page(client.get("/hash-lists", algorithm="md5"))[0]
    assert (entry["reason"], entry["list"], entry["expires_at"][:10]) == ("one, two", "deny", "2099-01-01")
    assert page(client.get("/hash-lists", digest=digests[1]))[0][0]["list"] == "allow"
    (newest,) = [one for one in page(client.get("/audit"))[0] if one["target"] == done["import_id"]]
    assert newest["action"] == "hash_list.imported"


BROKEN_LINES = [
    ("readme.txt", "line 1: expected a SHA-256, SHA-1 or MD5 in hexadecimal digits, found 'readme.txt'"),
    (f"{'a' * 64},deny,why,soon", "line 1: expected a moment such as 2026-01-31T12:00:00Z, found 'soon'"),
    (f"{'a' * 64},a,b,c,d", "line 1: expected at most 4 columns: digest, list, reason, expires_at"),
    (f"{'a' * 32},allow", "line 1: expected a SHA-256: allow entries need a SHA-256"),
    ("a" * 9000, "line 1: expected a line of at most 4096 bytes"),
    ('"', "line 1: expected a line of CSV"),
]


@each_row(("line", "problem"), BROKEN_LINES)
def test_broken_line_applies_nothing(client: ApiClient, line: str, problem: str) -> None:
    stopped = import_csv(client, line)
    assert stopped.status_code == 422
    assert stopped.json()["errors"][0].startswith(problem)
    assert stopped.json()["errors"][1] == "Nothing of the file was applied"


def test_entries_need_a_digest_and_belong_to_their_tenant(client: ApiClient) -> None:
    assert_validation_error(client.post("/hash-lists", {"entries": [{"digest": "abc"}]}), "entries.0.digest")
    add(client, digest_of(TEXT))
    other = client.other_tenant_client()
    assert page(other.get("/hash-lists"))[0] == []
    assert_not_found(other.delete(f"/hash-lists/{digest_of(TEXT)}"))
    other.store("a.txt", TEXT, context=other.create_context())


def test_entries_of_the_installation_hold_for_every_tenant_and_name_no_operator(
    client: ApiClient, context: str, tmp_path: Path
) -> None:
    service, out, err = client.service, tmp_path / "out", tmp_path / "err"
    content = noise(4321)

    def run(*words: str) -> str:
        arguments = ["hashes", *words, "--installation", "--json"]
        assert run_forked(arguments, service.environment, tmp_path, out, err) == 0, err.read_text()
        return out.read_text()

    (tmp_path / "feed.csv").write_text(f"{digest_of(content)},deny,feed\n{digest_of(TEXT, 'md5')}\n")
    run("import", str(tmp_path / "feed.csv"))
    try:
        refused = client.upload("a.zzz", content, context=context)
        assert_rejected(refused, "denied_file")
        (entry,) = data(client.get(f"/reports/{refused.headers['sluice-report-id']}"))["hash_lists"]
        assert (entry["owner"], entry["reason"], "added_by" in entry) == ("installation", "feed", False)
        assert page(client.get("/hash-lists"))[0] == []
        assert_not_found(client.delete(f"/hash-lists/{digest_of(content)}"))
        assert digest_of(content) in run("list")
    finally:
        run("remove", digest_of(content))
        run("remove", digest_of(TEXT, "md5"))

    def is_without_lists() -> bool:
        stored = data(client.upload("a.zzz", content, context=context), 201)
        return "hash_list" not in checks_of(data(client.get(f"/reports/{stored['report_id']}")))

    assert until(is_without_lists)  # what is cached of the context is read again within a second
