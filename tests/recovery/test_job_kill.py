"""kill -9 in the middle of a job: what a step did and how far the job is are committed together, and it goes on."""

import pytest

from tests.api.responses import data, page
from tests.deployments import Deployments
from tests.scanning.waiting import until
from tests.service import ApiClient, running_service, unchecked_service

FILES = 30  # more than one step deletes


@pytest.mark.parametrize("setup", ["sqlite-local", "postgres-local"])
def test_a_job_whose_worker_is_killed_goes_on_and_deletes_each_file_once(deployments: Deployments, setup: str) -> None:
    deployment = deployments.fresh(setup)
    with running_service(deployment) as service:
        client = service.new_client()
        context = client.create_context()
        stored = {client.store(f"{number}.txt", context=context) for number in range(FILES)}
    job_id = ""
    for point in ("job.open", "job.step"):
        with unchecked_service(deployment, FAILPOINT=point) as service:
            dying = ApiClient(service, client.tenant_id, client.authorization)
            if not job_id:
                body = {"filter": {"context": context}, "max_files": FILES}
                job_id = data(dying.post("/files/bulk-delete", body), 201)["job_id"]
            assert service.process.wait(60) == -9
        client.execute_sql("UPDATE jobs SET due_at = '2020-01-01 00:00:00.000000' WHERE due_at IS NOT NULL")
    with running_service(deployment) as service:
        restarted = ApiClient(service, client.tenant_id, client.authorization)
        path = f"/jobs/{job_id}"
        assert 0 < data(restarted.get(path))["done"] <= FILES
        assert until(lambda: data(restarted.get(path))["status"] == "done", 60)
        assert data(restarted.get(path))["done"] == FILES
        assert page(restarted.get("/files", context=context))[1]["total"] == 0
        assert restarted.used_bytes(context) == 0
        audited = page(restarted.get("/audit", action="file.deleted", page_size=100))[0]
        told = data(restarted.get("/events", type="file.deleted", limit=500))
        assert sorted(entry["target"] for entry in audited) == sorted(stored)
        assert sorted(event["data"]["file_id"] for event in told) == sorted(stored)
