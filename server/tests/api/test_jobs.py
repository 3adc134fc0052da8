"""Jobs: many files deleted, restored or exported by one request, with progress, a limit, and an end by request."""

import csv
import io
import json
from datetime import timedelta
from typing import Any

import httpx
import pytest

from sluice.db.database import Database
from sluice.files import FileFilter
from sluice.files.service import Files
from sluice.jobs.service import Jobs
from sluice.kit.clock import utc_now
from sluice.kit.spreadsheet import csv_line
from tests.api.responses import assert_error, assert_not_found, assert_validation_error, data, page
from tests.operator_action import operator_action
from tests.rows import each_row
from tests.scanning.waiting import until
from tests.service import ApiClient, Key


def _stored(client: ApiClient, context: str, number: int) -> list[str]:
    pairs = [(f"{index}.txt", {"claim": f"C-{index % 2}"}) for index in range(number)]
    return [client.store(name, context=context, metadata=metadata) for name, metadata in pairs]


def _left(client: ApiClient, context: str) -> list[str]:
    return sorted(item["original_filename"] for item in page(client.get("/files", context=context))[0])


def _ended(client: ApiClient, job: dict[str, Any]) -> dict[str, Any]:
    def has_ended() -> bool:
        return data(client.get(f"/jobs/{job['job_id']}"))["ended_at"] is not None

    assert until(has_ended, 60)
    found: dict[str, Any] = data(client.get(f"/jobs/{job['job_id']}"))
    return found


def _begin(client: ApiClient, action: str = "bulk-delete", **body: Any) -> dict[str, Any]:
    found: dict[str, Any] = data(client.post(f"/files/{action}", body), 201)
    return found


def _refused(job: dict[str, Any]) -> dict[str, str]:
    return {one["file_id"]: one["reason"] for one in job["refused"]}


def _assert_recorded(client: ApiClient, key: Key, done: str, job: dict[str, Any], *file_ids: str) -> None:
    """Assert that the audit log and the events record what a key's job did to these files."""
    audited = page(client.get("/audit", actor=key.api_key_id))[0]
    entries = {("job.created", job["job_id"]), *((done, file_id) for file_id in file_ids)}
    assert {(entry["action"], entry["target"]) for entry in audited} == entries
    assert len(audited) == len(entries)
    events = data(client.get("/events", type=done, limit=500))
    assert set(file_ids) <= {event["data"]["file_id"] for event in events}


def _exported(client: ApiClient, **body: Any) -> httpx.Response:
    """Export, and download what was written without a credential."""
    job = _ended(client, _begin(client, "export", **body))
    link = data(client.get(f"/jobs/{job['job_id']}/download"))
    response = client.service.http.get(link["download_url"])
    assert (response.status_code, len(response.content)) == (200, link["size_bytes"])
    export = {name: link[name] for name in ("format", "size_bytes")} | {"expires_at": job["export"]["expires_at"]}
    assert job["export"] == export
    return response


def test_files_are_deleted_by_their_ids_but_none_that_is_unknown_or_held(tenant: ApiClient) -> None:
    context, held_context = tenant.create_context(), tenant.create_context()
    stored = _stored(tenant, context, 30)  # more than one step deletes
    kept, size = tenant.store("kept.txt", context=held_context), tenant.used_bytes(context) // 30
    for path in (f"/files/{stored[0]}", f"/contexts/{held_context}"):
        data(tenant.request("PUT", f"{path}/hold", json={"reason": "Case 7"}))
    job = _begin(tenant, file_ids=[*stored[:28], "file_unknown", stored[0], kept])
    assert (job["kind"], job["total"], job["done"], job["ended_at"]) == ("bulk_delete", 30, 0, None)
    ended = _ended(tenant, job)
    assert (ended["status"], ended["done"], ended["skipped"], ended["error"]) == ("done", 27, 3, None)
    assert (_left(tenant, context), _left(tenant, held_context)) == (["0.txt", "28.txt", "29.txt"], ["kept.txt"])
    assert _refused(ended) == {stored[0]: "held", kept: "held", "file_unknown": "not_found"}
    assert tenant.used_bytes(context) == 3 * size


@pytest.mark.engine
def test_files_are_deleted_and_restored_by_a_filter_with_quota_events_and_audit_entries(tenant: ApiClient) -> None:
    context = tenant.create_context()
    stored = _stored(tenant, context, 4)
    used = tenant.used_bytes(context)
    deleter, restorer = tenant.create_key("delete"), tenant.create_key("delete")
    wanted = {"context": context, "metadata": {"claim": "C-1"}}
    job = _begin(tenant.with_credential(deleter), filter=wanted, max_files=100)
    assert job["total"] == 2
    assert _ended(tenant, job)["done"] == 2
    assert (_left(tenant, context), tenant.used_bytes(context)) == (["0.txt", "2.txt"], used // 2)
    _assert_recorded(tenant, deleter, "file.deleted", job, stored[1], stored[3])
    _ended(tenant, _begin(tenant, filter={"context": context}, max_files=10))
    assert tenant.used_bytes(context) == 0
    wanted |= {"filename": ".TXT"}
    job = _begin(tenant.with_credential(restorer), "bulk-restore", filter=wanted, max_files=100)
    assert (job["kind"], job["total"]) == ("bulk_restore", None)
    ended = _ended(tenant, job)
    assert (ended["status"], ended["done"], ended["skipped"]) == ("done", 2, 0)
    assert (_left(tenant, context), tenant.used_bytes(context)) == (["1.txt", "3.txt"], used // 2)
    _assert_recorded(tenant, restorer, "file.restored", job, stored[1], stored[3])


def test_files_are_restored_by_their_ids_and_each_that_is_not_is_named_with_the_reason(tenant: ApiClient) -> None:
    context = tenant.create_context()
    stored = _stored(tenant, context, 3)
    data(tenant.delete(f"/files/{stored[0]}"))
    ended = _ended(tenant, _begin(tenant, "bulk-restore", file_ids=[*stored[:2], "file_unknown"]))
    assert (ended["status"], ended["done"], ended["skipped"]) == ("done", 1, 2)
    assert _refused(ended) == {stored[1]: "not_deleted", "file_unknown": "not_found"}
    assert len(_left(tenant, context)) == 3
    # as many as the quota has room for
    context = tenant.create_context(storage_quota_mb=1)
    large = [tenant.store(f"{number}.txt", b"large " * 80_000, context=context) for number in range(2)]
    _ended(tenant, _begin(tenant, file_ids=large))
    kept = tenant.store("kept.txt", b"large " * 80_000, context=context)
    ended = _ended(tenant, _begin(tenant, "bulk-restore", file_ids=large))
    assert (ended["status"], ended["done"], ended["skipped"]) == ("done", 1, 1)
    assert list(_refused(ended).values()) == ["storage_quota_exceeded"]
    assert len(_left(tenant, context)) == 2
    data(tenant.delete(f"/files/{kept}"))
    assert _ended(tenant, _begin(tenant, "bulk-restore", file_ids=large))["done"] == 1
    assert tenant.used_bytes(context) == 2 * 480_000


FORMULA_SIGNS = ("=", "+", "-", "@", "\uff1d")
CELLS = (
    "a;=2+3;b.txt",
    "a;;@x",
    'a;"=2+3"',
    "a; \u3000=2",
    "a\t+1",
    "a\n-1",
    "a\r=1",
    "x,;\uff1d1",
    ";",
    "=1;=2",
    '"=1',
)


@pytest.mark.engine
def test_an_export_writes_a_line_of_json_for_each_file_or_csv_without_formulas(tenant: ApiClient) -> None:
    context = tenant.create_context()
    stored = _stored(tenant, context, 3)
    response = _exported(tenant, filter={"context": context, "metadata": {"claim": "C-0"}})
    assert response.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    assert "attachment" in response.headers["content-disposition"]
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert [line["file_id"] for line in lines] == [stored[0], stored[2]]
    shown = data(tenant.get(f"/files/{stored[0]}/metadata"))
    names = ("original_filename", "content_type", "size_bytes", "checksum", "context_key", "metadata", "download_count")
    assert {name: lines[0][name] for name in names} == {name: shown[name] for name in names}
    assert lines[0]["status"] == "stored"
    context = tenant.create_context()
    tenant.store("=1+2.txt", context=context, metadata={"claim": '=cmd|"x"'})
    tenant.store("\u200b\uff1d1+2.txt", context=context)
    rows = list(csv.DictReader(_exported(tenant, filter={"context": context}, format="csv").text.splitlines()))
    assert [row["original_filename"] for row in rows] == ["'=1+2.txt", "'\u200b\uff1d1+2.txt"]
    assert json.loads(rows[0]["metadata"]) == {"claim": '=cmd|"x"'}
    for line in csv_line(["a", *CELLS, json.dumps({"n": ";=cmd|'/c calc'!A0"})]), *map(csv_line, zip(CELLS)):
        for separator in ",;\t":
            cells = [cell for row in csv.reader(io.StringIO(line, newline=""), delimiter=separator) for cell in row]
            assert [cell for cell in cells if cell.strip(' "\u3000').startswith(FORMULA_SIGNS)] == []
    assert csv_line(["a;b;-c", "e-mail; x=1"]) == "a;b;'-c,e-mail; x=1\r\n"
    empty = _exported(tenant, filter={"context": "none_such"}, format="csv")
    assert empty.text.splitlines()[0].startswith("file_id,status,")
    assert _exported(tenant, filter={"context": "none_such"}).content == b""


def test_an_export_lists_what_was_stored_while_the_clock_was_ahead(tenant: ApiClient) -> None:
    sent = tenant.store("a.txt", context=tenant.create_context())
    nothing: Any = None

    async def create_late(database: Database) -> str:
        files = Files(database, nothing, nothing, nothing, purge_after=timedelta(0), two_persons=False)
        jobs = Jobs(database, files, nothing, nothing, clock=lambda: utc_now() - timedelta(hours=1))
        return (await jobs.export(operator_action(tenant.tenant_id), FileFilter(), "ndjson")).job_id

    job = _ended(tenant, {"job_id": tenant.service.on_database(create_late)})
    link = data(tenant.get(f"/jobs/{job['job_id']}/download"))["download_url"]
    assert sent in [json.loads(line)["file_id"] for line in tenant.service.http.get(link).text.splitlines()]


def test_an_export_cannot_be_downloaded_before_its_end_and_after_it_expired(client: ApiClient) -> None:
    context = client.create_context()
    client.store(context=context)
    deletion = _ended(client, _begin(client, file_ids=["file_unknown"]))
    assert_not_found(client.get(f"/jobs/{deletion['job_id']}/download"))
    job = _ended(client, _begin(client, "export"))
    path = f"/jobs/{job['job_id']}/download"
    link = data(client.get(path, expires_in=3600))["download_url"]
    assert client.service.http.head(link).headers["content-length"] == str(job["export"]["size_bytes"])
    assert client.service.http.get(f"{link[:-1]}-").status_code == 403
    over = "UPDATE jobs SET due_at = '2020-01-01 00:00:00.000000' WHERE tenant_id = :tenant_id"
    client.execute_sql(over, tenant_id=client.tenant_id)
    assert until(lambda: data(client.get(f"/jobs/{job['job_id']}"))["export"] is None, 60)
    assert_not_found(client.get(path))
    assert client.service.http.get(link).status_code == 404


def test_a_job_deletes_at_most_so_many_files_and_none_that_came_later(tenant: ApiClient) -> None:
    context = tenant.create_context()
    _stored(tenant, context, 3)
    job = _begin(tenant, filter={"context": context}, max_files=2)
    assert job["total"] == 2
    assert _ended(tenant, job)["done"] == 2
    assert len(_left(tenant, context)) == 1
    context = tenant.create_context()
    job = _begin(tenant, filter={"context": context}, max_files=2)
    tenant.store(context=context)
    assert _ended(tenant, job)["done"] == 0
    assert len(_left(tenant, context)) == 1


def test_a_cancelled_job_does_no_more(tenant: ApiClient) -> None:
    context = tenant.create_context()
    tenant.store(context=context)
    others = "UPDATE jobs SET due_at = NULL, state = 'done' WHERE tenant_id = :tenant_id"
    tenant.execute_sql(others, tenant_id=tenant.tenant_id)
    job = _begin(tenant, filter={"context": context, "filename": "no such name"}, max_files=2)
    ended = tenant.post(f"/jobs/{job['job_id']}/cancel")
    if ended.status_code != 409:  # the worker was not faster
        assert data(ended) == {"job_id": job["job_id"], "status": "cancelled", "done": 0}
    assert_error(tenant.post(f"/jobs/{job['job_id']}/cancel"), 409, "Job has ended", "What it did stays done")
    assert_not_found(tenant.post("/jobs/job_unknown/cancel"))


@pytest.mark.engine
def test_jobs_are_listed_newest_first_and_filtered_and_at_most_20_at_once(client: ApiClient) -> None:
    jobs = [_begin(client, file_ids=[f"file_{number}"]) for number in range(2)]
    for job in jobs:
        _ended(client, job)
    items, pagination = page(client.get("/jobs", page_size=1))
    assert ([item["job_id"] for item in items], pagination["total"]) == ([jobs[1]["job_id"]], 2)
    assert len(page(client.get("/jobs", status="done", kind="bulk_delete"))[0]) == 2
    assert page(client.get("/jobs", status="failed"))[0] == []
    assert_validation_error(client.get("/jobs", colour="red"), "colour")
    assert_validation_error(client.get("/jobs", status="over"), "status")
    names = "tenant_id, kind, state, params, done, skipped, position, generation, failures, actor_id, actor_name, via"
    row = f"'{client.tenant_id}', 'bulk_delete', 'waiting', '{{}}', 0, 0, '', 0, 0, 'a', 'a', 'jwt'"
    far = "'2100-01-01 00:00:00.000000', '2100-01-01 00:00:00.000000'"
    rows = ", ".join(f"('job_{number}', {row}, {far})" for number in range(20))
    client.execute_sql(f"INSERT INTO jobs (job_id, {names}, created_at, due_at) VALUES {rows}")
    refused = client.post("/files/bulk-delete", {"file_ids": ["file_1"]})
    assert_error(refused, 409, "Too many jobs", "Wait until one of the 20 jobs ends, or cancel one")
    data(client.post("/jobs/job_7/cancel"))
    _begin(client, file_ids=["file_1"])


@each_row("body, field", [
    *(({}, "body"), ({"file_ids": []}, "file_ids"), ({"file_ids": ["a"] * 1001}, "file_ids")),
    *(({"file_ids": ["a"], "filter": {"context": "a"}}, "body"), ({"filter": {"context": "a"}}, "body")),
    *(({"filter": {}, "max_files": 1}, "body"), ({"filter": {"context": "a"}, "max_files": 0}, "max_files")),
    *(
        ({"filter": {name: value}, "max_files": 1}, f"filter.{name}")
        for name, value in (("colour", "a"), ("sha256", "a"), ("created_before", 1))
    ),
])  # fmt: skip
def test_a_request_must_say_which_files(shared_client: ApiClient, body: dict[str, Any], field: str) -> None:
    assert_validation_error(shared_client.post("/files/bulk-delete", body), field)
