"""The test servers themselves: they start, respond, and are stopped afterwards, also after a failure."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.required import require
from tests.servers import daemon, end, free_port, listens
from tests.servers.postgres import running_postgres
from tests.servers.radosgw import running_radosgw


async def test_created_databases_are_empty(tmp_path: Path) -> None:
    with running_postgres(tmp_path) as server:
        first, second = server.createdb(), server.createdb()
        connection = await asyncpg.connect(first.replace("+asyncpg", ""))
        await connection.execute("CREATE TABLE only_here (n int)")
        await connection.close()
        assert server.psql("SELECT to_regclass('only_here') IS NULL", database=second.rpartition("/")[2]).strip() == "t"
    assert not listens(server.port)


async def test_createdb_copies_its_template(tmp_path: Path) -> None:
    with running_postgres(tmp_path) as server:
        template = server.createdb().rpartition("/")[2]
        server.psql("CREATE TABLE copied (n int)", database=template)
        copy = server.createdb(template=template).rpartition("/")[2]
        assert server.psql("SELECT count(*) FROM copied", database=copy).strip() == "0"


def test_radosgw_stores_an_object_and_stops_with_the_block(tmp_path: Path) -> None:
    with running_radosgw(tmp_path) as gateway:
        bucket = gateway.fresh_bucket()
        gateway.client.put_object(Bucket=bucket, Key="a", Body=b"x")
        assert gateway.keys(bucket) == ["a"]
    assert not listens(int(gateway.endpoint.rpartition(":")[2]))


def test_reports_the_log_of_a_server_that_dies_at_start(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo no room; exit 3"]
    with (
        pytest.raises(RuntimeError, match=r"ended with 3: no room"),
        daemon(command, tmp_path / "log", ready=lambda: False),
    ):
        pass


def test_stops_a_server_whose_ready_check_raises(tmp_path: Path) -> None:
    def fails() -> bool:
        raise LookupError

    command = [
        sys.executable,
        "-c",
        f"import os, time; open('{tmp_path}/pid', 'w').write(str(os.getpid())); time.sleep(600)",
    ]

    def fails_when_started() -> bool:
        return (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "" and fails()

    with pytest.raises(LookupError), daemon(command, tmp_path / "log", ready=fails_when_started):
        pass
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_server_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    port = free_port()
    program = f"""
import sys
from pathlib import Path
from tests.servers import daemon, listens
command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "{port}"]
with daemon(command, Path({str(tmp_path / "log")!r}), ready=lambda: listens({port})) as server:
    print(server.pid, flush=True)
    sys.stdin.read()
"""
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
    ) as parent:
        assert parent.stdout is not None
        server = os.pidfd_open(int(parent.stdout.readline()))
        end(parent, signal.SIGKILL)
    try:
        assert _ends(server)
    finally:
        os.close(server)


def _ends(pidfd: int) -> bool:
    """Return whether the process behind `pidfd` ends within ten seconds; its descriptor then becomes readable."""
    return bool(select.select([pidfd], [], [], 10)[0])


def test_missing_program_skips_and_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="Nowhere is not installed: apt-get install nowhere"):
        require("Nowhere", "no-such-program", apt="nowhere")


def test_missing_program_fails_under_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="Nowhere is not installed"):
        require("Nowhere", "no-such-program", apt="nowhere")
