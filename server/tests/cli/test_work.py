"""`sluice work`: run due jobs without a server, a sandbox or a scanner."""

import signal
from pathlib import Path

import httpx

from tests.cli.commands import Sluice
from tests.service import forked_process


def test_worker_purges_expired_files_and_exits_on_sigterm(sluice: Sluice) -> None:
    stored = deleted_file(sluice.with_settings(WORKER_INSIDE="false", PURGE_AFTER_DAYS="0"))
    # The scanner of these settings is unreachable: a worker needs neither a scanner nor a sandbox.
    environment = sluice.with_settings(WORKER_SECONDS="0.05", SCANNER="clamd", CLAMD="unix:/nowhere").environment
    log = sluice.folder / "worker"
    with forked_process("work", log, ready=lambda: not stored.exists(), environment=environment) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert '"event": "stopped"' in log.read_text()


def deleted_file(sluice: Sluice) -> Path:
    """Upload a file to a server without a worker, delete it, and return the path of the object that remains."""
    key = sluice("init", "--json").json["api_key"]
    headers = {"Authorization": key}
    with sluice.running() as server, httpx.Client(base_url=server.url, headers=headers, timeout=30) as client:
        client.post("/api/v1/contexts", json={"context_key": "c", "display_name": "C"})
        uploaded = client.post("/api/v1/files/upload", data={"context": "c"}, files={"file": ("a.txt", b"some words")})
        assert client.delete(f"/api/v1/files/{uploaded.json()['data']['file_id']}").status_code == 200
    (stored,) = [path for path in (sluice.data_dir / "objects" / "objects").rglob("*") if path.is_file()]
    return stored


def test_worker_reports_an_unreachable_database(sluice: Sluice) -> None:
    result = sluice.with_settings(DATABASE_URL="postgresql://postgres@127.0.0.1:1/sluice")("work")
    assert result.code == 6
    assert result.err.splitlines()[-1].startswith("sluice: The database is unavailable: ")
