"""PostgreSQL and a bucket are lost and restored from a dump and the bucket's versions, as in docs/operations.md."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.api.responses import data
from tests.api.samples import noise
from tests.deployments import Deployments
from tests.recovery.audit_command import run_audit
from tests.recovery.test_backup import connect_gate, download_digests
from tests.scanning.waiting import until
from tests.servers import run
from tests.servers.postgres import Postgres
from tests.service import Deployment, running_service

PURGE_IMMEDIATELY = {"PURGE_AFTER_DAYS": "0"}


def _postgres_tool(postgres: Postgres, name: str, database: str, *words: str) -> None:
    where = ["-h", "127.0.0.1", "-p", str(postgres.port), "-U", "postgres", "-d", database]
    run([str(postgres.programs / name), *where, *words])


def _versions(deployment: Deployment, kind: str) -> Iterator[dict[str, Any]]:
    assert deployment.gateway is not None
    for page in deployment.gateway.client.get_paginator("list_object_versions").paginate(Bucket=deployment.bucket):
        yield from page.get(kind, [])


def _delete_all_objects(deployment: Deployment) -> None:
    """Delete every object, which leaves versions below delete markers."""
    assert deployment.gateway is not None
    for key in deployment.gateway.keys(deployment.bucket):
        deployment.gateway.client.delete_object(Bucket=deployment.bucket, Key=key)
    assert deployment.gateway.keys(deployment.bucket) == []


def _restore_versions(deployment: Deployment) -> None:
    """Remove the delete markers, so that the versions below them are objects again."""
    assert deployment.gateway is not None
    for marker in list(_versions(deployment, "DeleteMarkers")):
        version = {"Key": marker["Key"], "VersionId": marker["VersionId"]}
        deployment.gateway.client.delete_object(Bucket=deployment.bucket, **version)


def test_dump_and_versions_restore_every_file(deployments: Deployments, postgres: Postgres, tmp_path: Path) -> None:
    deployment = deployments.fresh("postgres-s3")
    assert deployment.gateway is not None
    versioning = {"Status": "Enabled"}
    deployment.gateway.client.put_bucket_versioning(Bucket=deployment.bucket, VersioningConfiguration=versioning)
    dump, lost = tmp_path / "sluice.dump", deployment.database_url.rpartition("/")[2]
    with running_service(deployment, **PURGE_IMMEDIATELY) as service:
        client = service.new_client().with_store()
        context = client.create_context()
        stored = [client.store("a.zzz", noise(30_000, seed=number), context=context) for number in range(5)]
        kept = download_digests(client, stored)
        _postgres_tool(postgres, "pg_dump", lost, "--format=custom", f"--file={dump}")
        deleted, later = next(iter(kept)), client.store("late.zzz", noise(5_000, seed=77), context=context)
        data(client.delete(f"/files/{deleted}"))
        assert until(lambda: not any(deleted in key for key in client.object_keys()))
    postgres.psql(f'DROP DATABASE "{lost}"')
    _delete_all_objects(deployment)

    owner = postgres.createdb().replace("+asyncpg", "")
    _postgres_tool(postgres, "pg_restore", owner.rpartition("/")[2], str(dump))
    _restore_versions(deployment)
    settings = {**deployment.settings, "MIGRATION_DATABASE_URL": owner}
    restored = replace(deployment, database_url=postgres.for_service(owner), settings=settings, owner_url=owner)
    with running_service(restored, **PURGE_IMMEDIATELY) as service:
        client = connect_gate(service, client)
        strays = {kind for kind, _ in run_audit(service).of(client.tenant_id)}
        assert strays == {"stray"}  # the file that was uploaded after the dump
        assert client.get(f"/files/{later}").status_code == 404
        assert download_digests(client, kept) == kept
        run_audit(service, "--repair")
        assert run_audit(service, "--strict", "--contents").code == 0
        assert download_digests(client, kept) == kept
