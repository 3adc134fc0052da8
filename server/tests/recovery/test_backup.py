"""`sluice backup` and `sluice restore`: lost data comes back, and damage is always reported."""

import hashlib
import shutil
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.api.responses import data
from tests.api.samples import noise
from tests.cli.commands import CommandResult, Sluice
from tests.deployments import Deployments
from tests.recovery.audit_command import run_audit
from tests.service import ApiClient, Deployment, Service, running_service


def run_sluice(deployment: Deployment, *words: str | Path) -> CommandResult:
    """Run `sluice` on this place."""
    settings = {"DATA_DIR": str(deployment.data_dir), "DATABASE_URL": deployment.database_url}
    return Sluice(deployment.folder, settings)(*words)


def download_digests(client: ApiClient, file_ids: Iterable[str]) -> dict[str, str]:
    """Download the files; return the SHA-256 of each."""
    links = {file_id: data(client.get(f"/files/{file_id}"))["download_url"] for file_id in file_ids}
    return {file_id: hashlib.sha256(httpx.get(link, timeout=60).content).hexdigest() for file_id, link in links.items()}


def connect_gate(service: Service, client: ApiClient) -> ApiClient:
    return ApiClient(service, client.tenant_id, client.authorization)


def elsewhere(deployment: Deployment, tmp_path: Path) -> Deployment:
    """Return the same place in an empty folder."""
    folder = tmp_path / "fresh"
    folder.mkdir()
    return replace(deployment, folder=folder, database_url=f"sqlite:///{folder / 'data' / 'sluice.db'}")


@pytest.fixture
def deployment(deployments: Deployments) -> Deployment:
    return deployments.fresh("sqlite-local")


def test_a_backup_made_under_load_is_restored_completely(deployment: Deployment, tmp_path: Path) -> None:
    saved = tmp_path / "backup"
    before: dict[str, str] = {}
    with running_service(deployment) as service:
        client = service.new_client()
        context = client.create_context()
        for number in range(5):
            content = noise(20_000, seed=number)
            before[client.store("a.zzz", content, context=context)] = hashlib.sha256(content).hexdigest()
        stop = threading.Event()

        def upload_on() -> None:
            while not stop.wait(0.01):
                client.store("b.zzz", noise(20_000, seed=99), context=context)

        uploads = threading.Thread(target=upload_on)
        uploads.start()
        first = run_sluice(deployment, "backup", saved)
        stop.set()
        uploads.join()
        second = run_sluice(deployment, "backup", saved)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert "there already" in second.out
    keys = tmp_path / "keys"
    shutil.copytree(deployment.data_dir / "keys", keys)
    shutil.rmtree(deployment.data_dir)

    restored = run_sluice(deployment, "restore", saved)
    assert restored.code == 0, restored.err
    assert "copy of them into keys/" in restored.out
    assert run_sluice(deployment, "audit").code == 0
    assert not (deployment.data_dir / "keys").exists()  # another keyring would hide that the copy is still missing
    shutil.copytree(keys, deployment.data_dir / "keys")
    with running_service(deployment) as service:
        assert download_digests(connect_gate(service, client), before) == before
        assert run_audit(service, "--contents", "--strict").code == 0
        connect_gate(service, client).store(context=context)


def test_backup_and_restore_report_damaged_objects(deployment: Deployment, tmp_path: Path) -> None:
    with running_service(deployment) as service:
        client = service.new_client()
        context = client.create_context()
        good, bad, lost = (client.store("a.zzz", noise(500, seed=seed), context=context) for seed in range(3))
        objects = {key: deployment.data_dir / "objects" / "objects" / key for key in client.object_keys()}
    for key, path in objects.items():
        if lost in key:
            path.unlink()
    ended = run_sluice(deployment, "backup", tmp_path / "backup")
    assert ended.code == 1
    assert lost in ended.err
    kept = next(path for path in (tmp_path / "backup" / "objects").rglob("*") if bad in path.name)
    kept.write_bytes(b"rot")
    ended = run_sluice(elsewhere(deployment, tmp_path), "restore", tmp_path / "backup")
    assert ended.code == 1
    assert {word for word in (good, bad, lost) if word in ended.err} == {bad, lost}


def test_restore_refuses_to_overwrite_a_database(deployment: Deployment, tmp_path: Path) -> None:
    run_sluice(deployment, "init")
    assert run_sluice(deployment, "backup", tmp_path / "backup").code == 0
    refused = run_sluice(deployment, "restore", tmp_path / "backup")
    assert (refused.code, "already" in refused.error_line) == (1, True)
    assert run_sluice(deployment, "restore", tmp_path / "nowhere").code == 2


def test_restore_refuses_a_damaged_database(deployment: Deployment, tmp_path: Path) -> None:
    run_sluice(deployment, "init")
    run_sluice(deployment, "backup", tmp_path / "backup")
    database = tmp_path / "backup" / "sluice.db"
    raw = bytearray(database.read_bytes())
    raw[5000:40_000] = bytes(35_000)
    database.write_bytes(raw)
    fresh = elsewhere(deployment, tmp_path)
    refused = run_sluice(fresh, "restore", tmp_path / "backup")
    assert (refused.code, "damaged" in refused.error_line) == (1, True)
    assert not (fresh.data_dir / "sluice.db").exists()


def test_backup_of_postgresql_is_refused_with_a_hint_at_pg_dump(deployment: Deployment, tmp_path: Path) -> None:
    on_postgres = replace(deployment, database_url="postgresql://postgres@127.0.0.1:1/x")
    refused = run_sluice(on_postgres, "backup", tmp_path / "backup")
    assert (refused.code, "pg_dump" in refused.error_line) == (2, True)
