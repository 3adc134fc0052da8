"""`sluice serve`: the first start welcomes, later ones keep, and an end drains."""

import re
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.cli.commands import Running, Sluice, sluice_in
from tests.servers import free_port, require

pytestmark = pytest.mark.xdist_group("serve")


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server on its first start."""
    with sluice_in(tmp_path_factory.mktemp("newcomer")).started() as server:
        yield server


def curl_lines(server: Running) -> list[str]:
    return [line for line in server.shown.splitlines() if line.startswith("curl ")]


def paste(line: str, folder: Path) -> str:
    """Run a line as a newcomer's shell does, in whatever folder it is."""
    require("curl", "curl", apt="curl")
    done = subprocess.run(["/bin/sh", "-ec", line], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_start_shows_three_lines_that_create_upload_and_download(newcomer: Running, tmp_path: Path) -> None:
    create, upload, download = curl_lines(newcomer)
    assert '"message":"Context created"' in paste(create, tmp_path)
    assert '"message":"File uploaded"' in paste(upload, tmp_path)
    assert paste(download, tmp_path) == "Hello, Sluice!"


def test_the_first_start_shows_tenant_and_key_once(newcomer: Running) -> None:
    assert len(re.findall(r"^  tenant   ten_\w+ \(default, plan unlimited\)$", newcomer.shown, re.MULTILINE)) == 1
    assert len(re.findall(r"^  api key  sl_live_\w{62}$", newcomer.shown, re.MULTILINE)) == 1


def test_the_address_of_the_docs_answers(newcomer: Running) -> None:
    (address,) = re.findall(r"^  API docs  (\S+)$", newcomer.shown, re.MULTILINE)
    assert address == f"{newcomer.url}/docs"
    assert httpx.get(address).status_code == 200


@pytest.mark.asvs("13.3.1", "6.3.2")
def test_production_makes_no_tenant_by_itself(sluice: Sluice) -> None:
    sluice("init", "--json")
    with sqlite3.connect(sluice.data_dir / "sluice.db") as database:
        database.execute("DELETE FROM api_keys")
        database.execute("DELETE FROM tenants")
    database.close()
    with sluice.with_settings(PRODUCTION="true").running() as server:
        assert "Welcome" not in server.shown
    assert sluice("tenants", "list", "--json").rows == []


def test_production_does_not_start_on_key_files_that_nobody_keeps(sluice: Sluice) -> None:
    ended = sluice.with_settings(PRODUCTION="true", PORT=str(free_port()))("serve")
    assert ended.code == 3
    assert ended.err.splitlines()[-1].startswith(f"sluice: The secret file {sluice.data_dir}/keys/")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_end_lets_an_upload_under_way_finish_and_the_next_start_keeps_it(number: signal.Signals, sluice: Sluice) -> None:
    with sluice.started() as server:
        (key,) = re.findall(r"^  api key  (\S+)$", server.shown, re.MULTILINE)
        headers = {"Authorization": key}
        httpx.post(
            f"{server.url}/api/v1/contexts", json={"context_key": "slow", "display_name": "Slow"}, headers=headers, timeout=30
        )
        with half_sent_upload(server, key) as connection:
            server.process.send_signal(number)
            wait_until_nobody_listens(server)
            connection.sendall(_END)
            assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")
        assert server.process.wait(30) == 0
        assert '"draining"' in server.shown
        assert "Traceback" not in server.shown
    with sluice.running() as server:
        kept = httpx.get(f"{server.url}/api/v1/files?context=slow", headers=headers, timeout=30).json()["data"]
        assert [file["original_filename"] for file in kept] == ["a.txt"]
        assert "Welcome" not in server.shown
        assert "sl_live_" not in server.shown
    assert len(sluice("tenants", "list", "--json").rows) == 1


_END = b'more\r\n--b\r\nContent-Disposition: form-data; name="context"\r\n\r\nslow\r\n--b--\r\n'


def half_sent_upload(server: Running, key: str) -> socket.socket:
    """Send all but the end of an upload, to which the server has answered that it has begun to read."""
    begin = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nsome and '
    length = len(begin) + len(_END)
    head = f"POST /api/v1/files/upload HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\nContent-Length: {length}\r\n"
    head += "Content-Type: multipart/form-data; boundary=b\r\nExpect: 100-continue\r\n\r\n"
    host, _, port = server.url.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.sendall(head.encode())
    assert connection.recv(1024).startswith(b"HTTP/1.1 100 ")
    connection.sendall(begin)
    return connection


def wait_until_nobody_listens(server: Running) -> None:
    """New connections are refused from the moment at which draining begins."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    try:
        while True:
            with socket.create_connection((host, int(port)), timeout=30) as connection:
                connection.recv(1)
    except OSError:
        return


def test_a_taken_address_is_said_before_anything_is_made(sluice: Sluice) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = sluice.with_settings(PORT=str(port))("serve")
    assert ended.code == 3
    assert ended.complaint.startswith(f"Sluice cannot listen on 127.0.0.1:{port}: Address already in use.")
    assert not sluice.data_dir.exists()


def test_an_address_that_is_not_here_is_said(sluice: Sluice) -> None:
    ended = sluice.with_settings(HOST="192.0.2.1")("serve")
    assert ended.code == 3
    assert ended.complaint.startswith("Sluice cannot listen on 192.0.2.1:8000: ")


def test_an_engine_that_refuses_ends_the_start_with_its_sentence(sluice: Sluice) -> None:
    ended = sluice.with_settings(PORT=str(free_port()), SCANNER="clamd", CLAMD="nowhere")("serve")
    assert ended.code == 3
    assert ended.err.splitlines()[-1].startswith("sluice: SLUICE_CLAMD: ")
    assert "sl_live_" not in ended.out


SECRET = "canary-of-the-zygote"


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.asvs("13.3.2", "15.2.5")
def test_what_begins_before_the_server_gets_none_of_its_secrets_and_none_of_its_descriptors(
    tmp_path: Path,
) -> None:
    """The zygote is begun as early as can be, and every checker is a fork of it."""
    sluice = sluice_in(tmp_path)
    told = sluice.with_settings(METRICS_TOKEN=SECRET, DATABASE_URL=f"sqlite:///{sluice.folder}/{SECRET}.db", SANDBOX_WORKERS="2")
    with told.started() as server:
        (zygote,) = _children(server.process.pid)
        family = [zygote, *_children(zygote)]
        assert len(family) > 1
        sockets = [line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        listening = {f"socket:[{inode}]" for inode in sockets}
        for pid in family:
            own = Path("/proc") / str(pid)
            assert SECRET.encode() not in (own / "environ").read_bytes()
            assert SECRET.encode() not in (own / "cmdline").read_bytes()
            assert b"SLUICE_" not in (own / "environ").read_bytes()
            held = {str(fd.readlink()) for fd in (own / "fd").iterdir()}
            assert {name.partition(":")[0] for name in held} <= {"socket", "/memfd", "/dev/null", "/dev/urandom"}, held
            assert not held & listening
            assert SECRET.encode() not in (own / "maps").read_bytes()


@pytest.mark.asvs("6.3.2")
def test_servers_that_start_first_at_once_make_one_tenant_and_show_one_key(tmp_path: Path) -> None:
    shared = str(tmp_path / "data")
    with ThreadPoolExecutor(3) as pool, ExitStack() as running:
        installed = [sluice_in(tmp_path / str(number), DATA_DIR=shared) for number in range(3)]
        servers = list(pool.map(lambda one: running.enter_context(one.running()), installed))
        keys = [key for server in servers for key in set(re.findall(r"sl_live_\w+", server.shown))]
        assert len(keys) == 1
        for server in servers:
            answer = httpx.get(f"{server.url}/api/v1/contexts", headers={"Authorization": keys[0]})
            assert answer.status_code == 200
        with sqlite3.connect(tmp_path / "data" / "sluice.db") as database:
            assert database.execute("SELECT count(*) FROM tenants").fetchone() == (1,)
            assert database.execute("SELECT count(*) FROM api_keys").fetchone() == (1,)
