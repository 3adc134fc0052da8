"""PostgreSQL and a bucket are both lost and come back from a dump and from the bucket's versions, by the steps of docs/operations.md."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.api.answers import data
from tests.api.places import Places
from tests.api.samples import noise
from tests.gate import Gate, Place, running_service
from tests.recovery.auditing import audited
from tests.recovery.test_backup import at, downloads
from tests.scanning.waiting import until
from tests.servers import run
from tests.servers.postgres import Postgres

AT_ONCE = {"PURGE_AFTER_DAYS": "0"}


def _postgres_tool(postgres: Postgres, name: str, database: str, *words: str) -> None:
    where = ["-h", "127.0.0.1", "-p", str(postgres.port), "-U", "postgres", "-d", database]
    run([str(postgres.programs / name), *where, *words])


def _versions(place: Place, kind: str) -> Iterator[dict[str, Any]]:
    assert place.gateway is not None
    for page in place.gateway.client.get_paginator("list_object_versions").paginate(Bucket=place.bucket):
        yield from page.get(kind, [])


def _lose_the_bucket(place: Place) -> None:
    """Delete every object, as a mistaken script does: what is left are versions below delete markers."""
    assert place.gateway is not None
    for key in place.gateway.keys(place.bucket):
        place.gateway.client.delete_object(Bucket=place.bucket, Key=key)
    assert place.gateway.keys(place.bucket) == []


def _bring_back(place: Place) -> None:
    """Remove the delete markers: the versions below them are the objects again."""
    assert place.gateway is not None
    for marker in list(_versions(place, "DeleteMarkers")):
        place.gateway.client.delete_object(Bucket=place.bucket, Key=marker["Key"], VersionId=marker["VersionId"])


def _stored(gate: Gate, context: str, count: int) -> list[str]:
    return [gate.store("a.zzz", noise(30_000, seed=number), context=context) for number in range(count)]


def test_a_dump_and_the_versions_of_the_bucket_bring_everything_back(places: Places, postgres: Postgres, tmp_path: Path) -> None:
    place = places.fresh("postgres-s3")
    assert place.gateway is not None
    place.gateway.client.put_bucket_versioning(Bucket=place.bucket, VersioningConfiguration={"Status": "Enabled"})
    dump, lost = tmp_path / "sluice.dump", place.database_url.rpartition("/")[2]
    with running_service(place, **AT_ONCE) as service:
        gate = service.new_gate().with_store()
        context = gate.context()
        kept = downloads(gate, _stored(gate, context, 5))
        _postgres_tool(postgres, "pg_dump", lost, "--format=custom", f"--file={dump}")
        deleted, later = next(iter(kept)), gate.store("late.zzz", noise(5_000, seed=77), context=context)
        data(gate.delete(f"/files/{deleted}"))
        assert until(lambda: not any(deleted in key for key in gate.objects()))
    postgres.psql(f'DROP DATABASE "{lost}"')
    _lose_the_bucket(place)

    owner = postgres.createdb().replace("+asyncpg", "")
    _postgres_tool(postgres, "pg_restore", owner.rpartition("/")[2], str(dump))
    _bring_back(place)
    settings = {**place.settings, "MIGRATION_DATABASE_URL": owner}
    restored = replace(place, database_url=postgres.for_service(owner), settings=settings, owner_url=owner)
    with running_service(restored, **AT_ONCE) as service:
        gate = at(service, gate)
        assert {kind for kind, _ in audited(service).of(gate.tenant_id)} == {"stray"}  # what was uploaded after the dump
        assert gate.get(f"/files/{later}").status_code == 404
        assert downloads(gate, kept) == kept
        audited(service, "--mend")
        assert audited(service, "--strict", "--contents").code == 0
        assert downloads(gate, kept) == kept
