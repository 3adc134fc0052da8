"""`sluice audit` on both setups: every kind of difference is found, and `--repair` changes only what it may."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.api.responses import data, page
from tests.api.samples import TEXT
from tests.deployments import Deployments
from tests.recovery.audit_command import run_audit
from tests.service import ApiClient, Deployment, Service, running_service

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def service(deployments: Deployments, setup_name: str) -> Iterator[Service]:
    """A service for these tests: an audit reads all that a service has stored."""
    with running_service(deployments.fresh(setup_name)) as running:
        yield running


def _key_of(client: ApiClient, file_id: str) -> str:
    (key,) = [key for key in client.object_keys() if file_id in key]
    return key


def _path(deployment: Deployment, key: str) -> Path:
    return deployment.data_dir / "objects" / "objects" / key


def _remove(client: ApiClient, key: str) -> None:
    deployment = client.service.deployment
    if deployment.gateway is None:
        _path(deployment, key).unlink()
    else:
        deployment.gateway.client.delete_object(Bucket=deployment.bucket, Key=key)


def _write(client: ApiClient, key: str, content: bytes, **marks: str) -> None:
    deployment = client.service.deployment
    if deployment.gateway is None:
        _path(deployment, key).parent.mkdir(parents=True, exist_ok=True)
        _path(deployment, key).write_bytes(content)
    else:
        deployment.gateway.client.put_object(Bucket=deployment.bucket, Key=key, Body=content, Metadata=marks)


def test_each_difference_is_reported_and_only_strays_and_totals_are_repaired(client: ApiClient) -> None:
    has_bucket = client.service.deployment.gateway is not None
    context = client.create_context()
    stored = [client.store(content=TEXT + str(number).encode(), context=context) for number in range(6)]
    client.delete(f"/files/{stored[0]}")
    found = run_audit(client.service, "--contents", "--strict")
    assert found.of(client.tenant_id) == set()
    assert found.sums["rows"] >= 5
    assert found.sums["objects"] >= 6

    missing, shorter, other = stored[1:4]
    _remove(client, _key_of(client, missing))
    _write(client, _key_of(client, shorter), TEXT[:-3])
    _write(client, _key_of(client, other), TEXT + b"c")
    stray, named_alike = (f"{client.tenant_id}/context/2026/01/file_{digit * 26}.txt" for digit in "01")
    _write(client, stray, TEXT, **{"sluice-put": "0"})
    if has_bucket:  # whose other objects belong to the tenant: these have not the mark of our puts
        _write(client, named_alike, TEXT)
        _write(client, f"{client.tenant_id}/their own/report.pdf", TEXT)
    columns = "tenant_id, list, facet_1, facet_2, change"
    client.execute_sql(f"INSERT INTO count_deltas ({columns}) VALUES (:t, 'files', 'a', 'b', 2)", t=client.tenant_id)
    adding = "UPDATE contexts SET storage_used_bytes = storage_used_bytes + {} WHERE tenant_id = :t"
    client.execute_sql(adding.format(1), t=client.tenant_id)
    different = {("missing", missing), ("changed", shorter)}
    found = run_audit(client.service)
    assert (found.code, found.of(client.tenant_id)) == (1, different | {("stray", stray)})
    assert stray in client.object_keys()

    different |= {("changed", other)}
    repaired = run_audit(client.service, "--contents", "--repair")
    assert repaired.of(client.tenant_id) == different | {("stray", stray)}
    assert [one["subject"] for one in repaired.findings if one["repaired"]] == [stray]
    keys = client.object_keys()
    assert stray not in keys
    assert (named_alike in keys) == has_bucket
    assert len(keys) == 5 + 2 * has_bucket

    strict = run_audit(client.service, "--strict")
    assert strict.code == 1
    (quota,) = strict.of(client.tenant_id) - different - {("miscounted", "files")}
    assert quota[0] == "miscounted"
    assert page(client.get("/files"))[1]["total"] == 5 + 2
    counted = run_audit(client.service, "--strict", "--repair").findings
    counted = [one for one in counted if (one["tenant_id"], one["kind"]) == (client.tenant_id, "miscounted")]
    assert {one["subject"]: one["repaired"] for one in counted} == {"files": True, quota[1]: False}
    assert page(client.get("/files"))[1]["total"] == 5
    client.execute_sql(adding.format(-1), t=client.tenant_id)
    assert run_audit(client.service, "--strict").of(client.tenant_id) == different - {("changed", other)}


def test_strict_audit_reports_an_expired_lease(deployments: Deployments) -> None:
    with running_service(deployments.fresh("sqlite-local"), WORKER_INSIDE="false") as service:
        client = service.new_client()
        client.store(context=client.create_context())
        client.execute_sql("UPDATE files SET state = 'pending', lease_until = created_at")
        assert [one["kind"] for one in run_audit(service, "--strict").findings] == ["unsettled"]


def test_an_interrupted_audit_resumes_at_its_position(deployments: Deployments) -> None:
    with running_service(deployments.fresh("sqlite-local")) as service:
        client = service.new_client()
        context = client.create_context()
        stored = [client.store(context=context) for _ in range(4)]
        bookmark = service.deployment.data_dir / "audit-position.json"
        bookmark.write_text(json.dumps({"part": "rows", "store": "", "after": stored[1], "rows": 2, "objects": 0}))
        for file_id in stored:
            _remove(client, _key_of(client, file_id))
        found = run_audit(service, "--resume")
        assert found.of(client.tenant_id) == {("missing", stored[2]), ("missing", stored[3])}
        assert found.sums["rows"] == 4
        assert not bookmark.exists()
        assert "was interrupted" in run_audit(service, "--resume").complaint


def test_audit_compares_other_buckets_when_one_is_unreachable(client: ApiClient) -> None:
    if client.service.deployment.gateway is None:
        return
    bad = client.add_bucket(name="soon gone")
    renaming = "UPDATE storage_configs SET default_bucket = 'no-such-bucket' WHERE config_id = :id"
    client.execute_sql(renaming, id=bad["config_id"])
    file_id = client.store(context=client.create_context())
    _remove(client, _key_of(client, file_id))
    found = run_audit(client.service)
    assert {one["kind"] for one in found.findings if one["store"] == bad["config_id"]} == {"unreachable"}
    assert ("missing", file_id) in found.of(client.tenant_id)
    client.execute_sql("DELETE FROM storage_configs WHERE config_id = :id", id=bad["config_id"])


def test_audit_reports_no_uploads_and_deletions_in_progress(deployments: Deployments, setup_name: str) -> None:
    """Rows and objects come and go during each audit: files are purged as soon as they are deleted."""
    with running_service(deployments.fresh(setup_name), PURGE_AFTER_DAYS="0", WORKER_SECONDS="0.1") as service:
        client = service.new_client().with_store()
        context, done = client.create_context(), threading.Event()

        def store_and_delete() -> None:
            while not done.wait(0.01):
                data(client.delete(f"/files/{client.store(context=context)}"))

        with ThreadPoolExecutor(1) as uploads:
            uploading = uploads.submit(store_and_delete)
            found = [run_audit(service).of(client.tenant_id) for _ in range(4)]
            done.set()
            uploading.result()
        assert found == [set()] * 4
