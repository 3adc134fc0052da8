"""kill -9 in the middle of a job: what a step did and how far the job is are committed together, and it continues.

The short form uses one database for each kind of job, the long form both.
"""

import json
from collections.abc import Sequence

import httpx
import pytest

from tests.api.responses import data, page
from tests.api.test_erasures import rows_that_name, stated
from tests.deployments import Deployments
from tests.recovery.sweep.sweep import forked_service
from tests.run_length import LONG_RUN
from tests.scanning.waiting import until
from tests.service import ApiClient, Deployment, running_service

FILES = 30  # more than one step deletes
BOTH = ("sqlite-local", "postgres-local")


def due_again(client: ApiClient, *tables: str) -> None:
    """Make what waits for a time due at once."""
    for table in tables:
        client.execute_sql(f"UPDATE {table} SET due_at = '2020-01-01 00:00:00.000000' WHERE due_at IS NOT NULL")


def killed_at(
    deployment: Deployment, client: ApiClient, path: str, body: object, *points: str, tables: Sequence[str] = ("jobs",)
) -> str:
    """Begin a job by a request, kill the server at each failpoint, and return the id of the job."""
    job_id = ""
    for point in points:
        with forked_service(deployment, FAILPOINT=point) as (service, process):  # its worker may end it at once
            if not job_id:
                dying = ApiClient(service, client.tenant_id, client.authorization)
                job_id = data(dying.post(path, body), 202 if path == "/erasures" else 201)["job_id"]
            assert process.wait(60) == -9, point
        due_again(client, *tables)
    return job_id


@pytest.mark.parametrize("setup", BOTH if LONG_RUN else ("postgres-local",))
def test_a_job_whose_worker_is_killed_continues_and_deletes_each_file_once(
    deployments: Deployments, setup: str
) -> None:
    deployment = deployments.fresh(setup)
    with running_service(deployment) as service:
        client = service.new_client()
        context = client.create_context()
        stored = {client.store(f"{number}.txt", context=context) for number in range(FILES)}
    body = {"filter": {"context": context}, "max_files": FILES}
    job_id = killed_at(deployment, client, "/files/bulk-delete", body, "job.open", "job.step")
    with running_service(deployment) as service:
        restarted = ApiClient(service, client.tenant_id, client.authorization)
        path = f"/jobs/{job_id}"
        assert 0 < data(restarted.get(path))["done"] <= FILES
        assert until(lambda: data(restarted.get(path))["status"] == "done", 60)
        assert data(restarted.get(path))["done"] == FILES
        assert page(restarted.get("/files", context=context))[1]["total"] == 0
        assert restarted.used_bytes(context) == 0
        audited = page(restarted.get("/audit", action="file.deleted", page_size=100))[0]
        deletions = data(restarted.get("/events", type="file.deleted", limit=500))
        assert sorted(entry["target"] for entry in audited) == sorted(stored)
        assert sorted(event["data"]["file_id"] for event in deletions) == sorted(stored)


@pytest.mark.parametrize("setup", BOTH if LONG_RUN else ("sqlite-local",))
def test_an_erasure_whose_worker_is_killed_lists_each_file_once(deployments: Deployments, setup: str) -> None:
    deployment = deployments.fresh(setup)
    with running_service(deployment) as service:
        client = service.new_client()
        context = client.create_context()
        person = {"claimant": "Quillfeather"}
        stored = {client.store("quillfeather.txt", context=context, metadata=person) for _ in range(FILES)}
        held = client.store("quillfeather.txt", context=context, metadata=person)
        data(client.request("PUT", f"/files/{held}/hold", json={"reason": "Case 7"}))
    points = ("job.open", "event.written", "job.step", "purge.claimed", "purge.done", "erasure.open")
    job_id = killed_at(deployment, client, "/erasures", {"metadata": person}, *points, tables=("jobs", "files"))
    with running_service(deployment) as service:
        restarted = ApiClient(service, client.tenant_id, client.authorization)
        path = f"/erasures/{job_id}"
        assert until(lambda: data(restarted.get(path))["status"] == "done", 60)
        found = stated(restarted, data(restarted.get(path)))
        listed = {file["file_id"]: file["outcome"] for file in found["files"]}
        assert len(found["files"]) == len(listed) == FILES + 1
        assert listed == dict.fromkeys(stored, "erased") | {held: "held"}
        deletions = data(restarted.get("/events", type="file.deleted", limit=500))
        assert sorted(event["data"]["file_id"] for event in deletions) == sorted(stored)
        assert len(data(restarted.get("/events", type="erasure.completed"))) == 1
        kept = data(restarted.get(f"/files/{held}/metadata"))
        assert (kept["original_filename"], kept["metadata"]) == ("quillfeather.txt", person)
        assert restarted.used_bytes(context) == kept["size_bytes"]
        named = {row.partition(".")[0] for row in rows_that_name(restarted, "quillfeather")}
        assert named <= {"files", "file_metadata", "decisions"}


@pytest.mark.parametrize("setup", BOTH if LONG_RUN else ("sqlite-local",))
def test_an_export_whose_worker_is_killed_has_each_file_once(deployments: Deployments, setup: str) -> None:
    deployment = deployments.fresh(setup)
    with running_service(deployment) as service:
        client = service.new_client()
        context = client.create_context()
        stored = {client.store(f"{number}.txt", context=context) for number in range(3)}
    job_id = killed_at(deployment, client, "/files/export", {}, "export.written", "job.open")
    with running_service(deployment) as service:
        restarted = ApiClient(service, client.tenant_id, client.authorization)
        assert until(lambda: data(restarted.get(f"/jobs/{job_id}"))["status"] == "done", 60)
        link = data(restarted.get(f"/jobs/{job_id}/download"))["download_url"]
        exported = [json.loads(line)["file_id"] for line in httpx.get(link).text.splitlines()]
        assert sorted(exported) == sorted(stored)
        folder = deployment.data_dir / "objects" / "objects" / "_exports"
        assert len(list(folder.iterdir())) == 3
        due_again(client, "jobs")
        assert until(lambda: not list(folder.iterdir()), 60)
