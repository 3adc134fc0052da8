"""`sluice backup` and `restore`, rehearsed: what a disaster takes comes back, and nothing is called restored that is not what it was."""

import hashlib
import shutil
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.api.answers import data
from tests.api.places import Places
from tests.api.samples import noise
from tests.cli.commands import Ended, Sluice
from tests.gate import Gate, Place, Service, running_service
from tests.recovery.auditing import audited


def command(place: Place, *words: str | Path) -> Ended:
    """Run `sluice` on a place."""
    settings = {"DATA_DIR": str(place.data_dir), "DATABASE_URL": place.database_url}
    return Sluice(place.folder, settings)(*words)


def downloads(gate: Gate, file_ids: Iterable[str]) -> dict[str, str]:
    """Answer the SHA-256 of files, as they download."""
    links = {file_id: data(gate.get(f"/files/{file_id}"))["download_url"] for file_id in file_ids}
    return {file_id: hashlib.sha256(httpx.get(link, timeout=60).content).hexdigest() for file_id, link in links.items()}


def at(service: Service, gate: Gate) -> Gate:
    return Gate(service, gate.tenant_id, gate.authorization)


@pytest.fixture
def place(places: Places) -> Place:
    return places.fresh("sqlite-local")


def test_what_was_backed_up_under_load_comes_back_after_a_disaster(place: Place, tmp_path: Path) -> None:
    saved = tmp_path / "backup"
    before: dict[str, str] = {}
    with running_service(place) as service:
        gate = service.new_gate()
        context = gate.context()
        for number in range(5):
            content = noise(20_000, seed=number)
            before[gate.store("a.zzz", content, context=context)] = hashlib.sha256(content).hexdigest()
        stop = threading.Event()

        def upload_on() -> None:
            while not stop.is_set():
                gate.store("b.zzz", noise(20_000, seed=99), context=context)

        uploads = threading.Thread(target=upload_on)
        uploads.start()
        first = command(place, "backup", saved)
        stop.set()
        uploads.join()
        second = command(place, "backup", saved)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert "there already" in second.out
    keys = tmp_path / "keys"
    shutil.copytree(place.data_dir / "keys", keys)
    shutil.rmtree(place.data_dir)

    restored = command(place, "restore", saved)
    assert restored.code == 0, restored.err
    assert "copy of them into keys/" in restored.out
    shutil.copytree(keys, place.data_dir / "keys")
    with running_service(place) as service:
        assert downloads(at(service, gate), before) == before
        assert audited(service, "--contents", "--strict").code == 0
        at(service, gate).store(context=context)


def test_a_damaged_object_is_told_by_backup_and_by_restore(place: Place, tmp_path: Path) -> None:
    with running_service(place) as service:
        gate = service.new_gate()
        context = gate.context()
        good, bad, lost = (gate.store("a.zzz", noise(500, seed=seed), context=context) for seed in range(3))
        objects = {key: place.data_dir / "objects" / "objects" / key for key in gate.objects()}
    for key, path in objects.items():
        if lost in key:
            path.unlink()
    ended = command(place, "backup", tmp_path / "backup")
    assert ended.code == 1
    assert lost in ended.err
    kept = next(path for path in (tmp_path / "backup" / "objects").rglob("*") if bad in path.name)
    kept.write_bytes(b"rot")
    fresh = replace(place, folder=tmp_path / "fresh", database_url=f"sqlite:///{tmp_path / 'fresh' / 'data' / 'sluice.db'}")
    fresh.folder.mkdir()
    ended = command(fresh, "restore", tmp_path / "backup")
    assert ended.code == 1
    assert {word for word in (good, bad, lost) if word in ended.err} == {bad, lost}


def test_a_restore_never_goes_over_a_database(place: Place, tmp_path: Path) -> None:
    command(place, "init")
    assert command(place, "backup", tmp_path / "backup").code == 0
    refused = command(place, "restore", tmp_path / "backup")
    assert (refused.code, "already" in refused.complaint) == (1, True)
    assert command(place, "restore", tmp_path / "nowhere").code == 2


def test_a_damaged_backup_of_the_database_is_refused(place: Place, tmp_path: Path) -> None:
    command(place, "init")
    command(place, "backup", tmp_path / "backup")
    database = tmp_path / "backup" / "sluice.db"
    raw = bytearray(database.read_bytes())
    raw[5000:40_000] = bytes(35_000)
    database.write_bytes(raw)
    fresh = replace(place, folder=tmp_path / "fresh", database_url=f"sqlite:///{tmp_path / 'fresh' / 'data' / 'sluice.db'}")
    fresh.folder.mkdir()
    refused = command(fresh, "restore", tmp_path / "backup")
    assert (refused.code, "damaged" in refused.complaint) == (3, True)
    assert not (fresh.data_dir / "sluice.db").exists()


def test_other_databases_and_stores_have_their_own_ways(place: Place, tmp_path: Path) -> None:
    elsewhere = replace(place, database_url="postgresql://postgres@127.0.0.1:1/x")
    refused = command(elsewhere, "backup", tmp_path / "backup")
    assert (refused.code, "pg_dump" in refused.complaint) == (2, True)
