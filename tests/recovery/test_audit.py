"""`sluice audit` on both setups: every kind of difference is found, and `--mend` changes only what it may."""

import json
import time
from collections.abc import Iterator
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


def _stray_key(client: ApiClient) -> str:
    return f"{client.tenant_id}/context/2026/01/file_{'0' * 26}.txt"


def test_audit_finds_nothing_wrong_with_stored_files(client: ApiClient) -> None:
    context = client.create_context()
    stored = [client.store(content=TEXT + str(number).encode(), context=context) for number in range(5)]
    client.delete(f"/files/{stored[0]}")
    found = run_audit(client.service, "--contents", "--strict")
    assert found.of(client.tenant_id) == set()
    assert found.sums["rows"] >= 4
    assert found.sums["objects"] >= 5


def test_audit_reports_a_file_without_its_object_as_missing(client: ApiClient) -> None:
    file_id = client.store(context=client.create_context())
    _remove(client, _key_of(client, file_id))
    found = run_audit(client.service)
    assert found.code == 1
    assert found.of(client.tenant_id) == {("missing", file_id)}


def test_audit_reports_an_object_of_another_size_or_content_as_changed(client: ApiClient) -> None:
    context = client.create_context()
    shorter, other = (client.store(content=TEXT + letter, context=context) for letter in (b"a", b"b"))
    _write(client, _key_of(client, shorter), TEXT[:-3])
    _write(client, _key_of(client, other), TEXT + b"c")
    assert run_audit(client.service).of(client.tenant_id) == {("changed", shorter)}
    assert run_audit(client.service, "--contents").of(client.tenant_id) == {("changed", shorter), ("changed", other)}


def test_audit_reports_an_object_without_a_file_and_deletes_it_only_with_mend(client: ApiClient) -> None:
    client.store(context=client.create_context())
    key = _stray_key(client)
    _write(client, key, TEXT, **{"sluice-put": "0"})
    assert {("stray", key)} <= run_audit(client.service).of(client.tenant_id)
    assert key in client.object_keys()
    mended = run_audit(client.service, "--mend")
    assert [one for one in mended.findings if one["subject"] == key and one["mended"]]
    assert len(client.object_keys()) == 1
    assert run_audit(client.service).of(client.tenant_id) == set()


def test_audit_ignores_foreign_objects_in_a_bucket(client: ApiClient) -> None:
    if client.service.deployment.gateway is None:
        return
    client.store(context=client.create_context())
    _write(client, f"{client.tenant_id}/their own/report.pdf", TEXT)
    _write(client, _stray_key(client), TEXT)  # named like an object of Sluice, but without the mark of its puts
    assert run_audit(client.service, "--mend").of(client.tenant_id) == set()
    assert len(client.object_keys()) == 3


def test_strict_audit_reports_wrong_used_bytes(client: ApiClient) -> None:
    context = client.create_context()
    client.store(context=context)
    adding = "UPDATE contexts SET storage_used_bytes = storage_used_bytes + {} WHERE tenant_id = :t"
    client.execute_sql(adding.format(1), t=client.tenant_id)
    assert run_audit(client.service).of(client.tenant_id) == set()
    strict = run_audit(client.service, "--strict")
    assert strict.code == 1
    assert [kind for kind, _ in strict.of(client.tenant_id)] == ["miscounted"]
    client.execute_sql(adding.format(-1), t=client.tenant_id)


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
    with running_service(deployments.fresh(setup_name), PURGE_AFTER_DAYS="0") as service:
        client = service.new_client().with_store()
        context, deadline = client.create_context(), time.monotonic() + 3
        while time.monotonic() < deadline:
            for file_id in [client.store(context=context) for _ in range(3)]:
                data(client.delete(f"/files/{file_id}"))
            assert run_audit(service).of(client.tenant_id) == set()


def test_strict_audit_reports_a_wrong_total_and_recounts_it_with_mend(client: ApiClient) -> None:
    client.store(context=client.create_context())
    columns = "tenant_id, list, facet_1, facet_2, change"
    client.execute_sql(f"INSERT INTO count_deltas ({columns}) VALUES (:t, 'files', 'a', 'b', 2)", t=client.tenant_id)
    assert page(client.get("/files"))[1]["total"] == 3
    assert run_audit(client.service, "--strict").of(client.tenant_id) == {("miscounted", "files")}
    mended = run_audit(client.service, "--strict", "--mend").findings
    assert [one["mended"] for one in mended if one["tenant_id"] == client.tenant_id] == [True]
    assert run_audit(client.service, "--strict").of(client.tenant_id) == set()
    assert page(client.get("/files"))[1]["total"] == 1
