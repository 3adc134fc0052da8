"""`sluice work`: what is due is done without a server, a checker or a scanner."""

import signal
from pathlib import Path

import httpx

from tests.cli.commands import Sluice
from tests.gate import module
from tests.servers import daemon


def test_the_worker_purges_what_is_due_and_ends_when_told(sluice: Sluice) -> None:
    stored = deleted_file(sluice.with_settings(WORKER_INSIDE="false", PURGE_AFTER_DAYS="0"))
    # Neither a scanner nor a sandbox is to be had with these settings: a worker needs none.
    environment = sluice.with_settings(WORKER_SECONDS="0.05", SCANNER="clamd", CLAMD="unix:/nowhere").environment
    log = sluice.folder / "worker"
    with daemon(module("work"), log, ready=lambda: not stored.exists(), environment=environment) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert '"event": "stopped"' in log.read_text()


def deleted_file(sluice: Sluice) -> Path:
    """Upload a file to a server that runs no worker, delete it, and answer where its object still is."""
    key = sluice("init", "--json").json["api_key"]
    with sluice.running() as server, httpx.Client(base_url=server.url, headers={"Authorization": key}, timeout=30) as client:
        client.post("/api/v1/contexts", json={"context_key": "c", "display_name": "C"})
        uploaded = client.post("/api/v1/files/upload", data={"context": "c"}, files={"file": ("a.txt", b"some words")})
        assert client.delete(f"/api/v1/files/{uploaded.json()['data']['file_id']}").status_code == 200
    (stored,) = [path for path in (sluice.data_dir / "objects" / "objects").rglob("*") if path.is_file()]
    return stored


def test_a_worker_without_a_database_says_so(sluice: Sluice) -> None:
    ended = sluice.with_settings(DATABASE_URL="postgresql://postgres@127.0.0.1:1/sluice")("work")
    assert ended.code == 3
    assert ended.err.splitlines()[-1].startswith("sluice: The database is away: ")
