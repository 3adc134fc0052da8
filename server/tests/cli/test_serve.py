"""`sluice serve`: first start, later starts, shutdown with draining, and isolation of the zygote."""

import contextlib
import os
import re
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest

from sluice.wiring.refusal import StartRefused
from sluice.wiring.start import make_folder
from tests.cli.commands import Running, Sluice, sluice_in
from tests.observe.metrics_page import until
from tests.required import require
from tests.rows import each_row
from tests.servers import free_port
from tests.service import cli_command


@pytest.fixture(scope="module")
def first_start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server in a new folder, on its first start."""
    with sluice_in(tmp_path_factory.mktemp("first_start")).running() as server:
        yield server


def test_first_start_prints_tenant_key_docs_and_curl_commands_that_work(first_start: Running, tmp_path: Path) -> None:
    def printed(pattern: str) -> list[str]:
        return re.findall(pattern, first_start.output, re.MULTILINE)

    require("curl", "curl", apt="curl")
    replies = [
        subprocess.run(["/bin/sh", "-ec", line], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
        for line in printed("^curl .*$")
    ]
    created, uploaded, downloaded = [reply.stdout for reply in replies]
    assert '"message":"Context created"' in created
    assert '"message":"File uploaded"' in uploaded
    assert downloaded == "Hello, Sluice!"
    assert len(printed(r"^  tenant   ten_\w+ \(default, plan unlimited\)$")) == 1
    assert "sl_live_" not in first_start.output
    (kept,) = map(Path, printed(r"^  api key  in (\S+), which only this user can read$"))
    assert kept.stat().st_mode & 0o777 == 0o600
    assert printed(r"^  console   (\S+) ") == [f"{first_start.url}/console"]
    assert printed(r"^  API docs  (\S+)$") == [f"{first_start.url}/docs"]
    assert httpx.get(f"{first_start.url}/docs").status_code == 200


def test_first_start_on_a_terminal_shows_the_key_and_a_link_that_signs_in(sluice: Sluice) -> None:
    port = free_port()
    environment = sluice.with_settings(PORT=str(port)).environment
    leader, follower = os.openpty()
    with subprocess.Popen(cli_command("serve"), stdout=follower, stderr=follower, env=environment) as process:
        os.close(follower)
        shown = b""
        while b"Ctrl-C drains" not in shown:
            shown += os.read(leader, 4096)
        (link,) = re.findall(rb"  console   (\S+/console/login/\S+) \(works once", shown)
        assert "Sign in" in httpx.get(link.decode()).text
        process.terminate()
        assert process.wait(30) == 0
    os.close(leader)
    assert len(re.findall(rb"  api key  sl_live_\w{62}\r", shown)) == 1
    assert shown.count(b"Bearer sl_live_") == 4
    assert not (sluice.data_dir / "keys" / "first-key").exists()


@pytest.mark.asvs("13.3.1", "6.3.2")
def test_production_start_creates_no_tenant(sluice: Sluice) -> None:
    sluice("init", "--json")
    with closing(sqlite3.connect(sluice.data_dir / "sluice.db")) as database, database:
        database.execute("DELETE FROM api_keys")
        database.execute("DELETE FROM tenants")
    database.close()
    with sluice.with_settings(PRODUCTION="true", PUBLIC_URL="https://files.example").running() as server:
        assert "Welcome" not in server.output
    assert sluice("tenants", "list", "--json").rows == []


def test_production_start_refuses_missing_key_files(sluice: Sluice) -> None:
    result = sluice.with_settings(PRODUCTION="true", PUBLIC_URL="https://files.example", PORT=str(free_port()))("serve")
    assert result.code == 1
    assert result.err.splitlines()[-1].startswith(f"sluice: The secret file {sluice.data_dir}/keys/")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_shutdown_finishes_an_active_upload_and_the_next_start_lists_it(number: signal.Signals, sluice: Sluice) -> None:
    with sluice.running() as server:
        until(lambda: server.output, lambda text: "\n  api key  " in text)  # when the port is open
        key = server.first_key
        headers = {"Authorization": key}
        httpx.post(
            f"{server.url}/api/v1/contexts",
            json={"context_key": "slow", "display_name": "Slow"},
            headers=headers,
            timeout=30,
        )
        address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        with socket.create_connection(address, timeout=30) as accepted, start_upload(server, key) as connection:
            server.process.send_signal(number)
            wait_until_refused(server)
            accepted.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert accepted.recv(65536).startswith(b"HTTP/1.1 200 "), "it was accepted before the signal"
            connection.sendall(_UPLOAD_END)
            assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")
        assert server.process.wait(30) == 0
        assert '"draining"' in server.output
        assert "Traceback" not in server.output
    with sluice.running() as server:
        files = httpx.get(f"{server.url}/api/v1/files?context=slow", headers=headers, timeout=30).json()["data"]
        assert [file["original_filename"] for file in files] == ["a.txt"]
        assert "Welcome" not in server.output
        assert "sl_live_" not in server.output
    assert len(sluice("tenants", "list", "--json").rows) == 1


_UPLOAD_END = b'more\r\n--b\r\nContent-Disposition: form-data; name="context"\r\n\r\nslow\r\n--b--\r\n'


def start_upload(server: Running, key: str) -> socket.socket:
    """Send an upload except for its end, after the server replied 100 Continue."""
    body_start = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nsome and '
    length = len(body_start) + len(_UPLOAD_END)
    head = f"POST /api/v1/files/upload HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\nContent-Length: {length}\r\n"
    head += "Content-Type: multipart/form-data; boundary=b\r\nExpect: 100-continue\r\n\r\n"
    host, _, port = server.url.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.sendall(head.encode())
    assert connection.recv(1024).startswith(b"HTTP/1.1 100 ")
    connection.sendall(body_start)
    return connection


def wait_until_refused(server: Running) -> None:
    """Connect until the server refuses connections, which it does while it drains."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    with contextlib.suppress(OSError):
        while True:
            socket.create_connection((host, int(port)), timeout=30).close()


def test_serve_reports_a_port_in_use_before_creating_data(sluice: Sluice) -> None:
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        port = occupied.getsockname()[1]
        result = sluice.with_settings(PORT=str(port))("serve")
    assert result.code == 1
    assert result.error_line.startswith(f"Sluice cannot listen on 127.0.0.1:{port}: Address already in use.")
    assert not sluice.data_dir.exists()


@each_row(
    "settings, sentence",
    [
        ({"HOST": "192.0.2.1"}, "Sluice cannot listen on 192.0.2.1:8000: "),
        ({"PORT": "0", "SCANNER": "clamd", "CLAMD": "nowhere"}, "SLUICE_CLAMD: "),
    ],
)
def test_serve_says_why_it_does_not_start(settings: dict[str, str], sentence: str, sluice: Sluice) -> None:
    result = sluice.with_settings(**settings)("serve")
    assert result.code == 1
    assert result.err.splitlines()[-1].startswith(f"sluice: {sentence}")
    assert "sl_live_" not in result.out


def test_folder_for_uploads_that_cannot_be_written_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may run as root, who may write everywhere
    with pytest.raises(StartRefused, match=f"^The folder {tmp_path} cannot be written to by user "):
        make_folder(tmp_path)


SECRET = "canary-of-the-zygote"


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.asvs("13.3.2", "15.2.5")
def test_zygote_and_its_forks_inherit_no_secrets_or_descriptors_of_the_server(tmp_path: Path) -> None:
    """The zygote starts before the server, and every checker is a fork of it."""
    sluice = sluice_in(tmp_path)
    configured = sluice.with_settings(
        METRICS_TOKEN=SECRET, DATABASE_URL=f"sqlite:///{sluice.folder}/{SECRET}.db", SANDBOX_WORKERS="2"
    )
    with configured.running(own_zygote=True) as server:
        (zygote,) = _children(server.process.pid)
        until(lambda: _children(zygote), bool)  # it loads the parsers after the start
        sockets = [line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        listening = {f"socket:[{inode}]" for inode in sockets}

        def inherited(pid: int) -> set[str] | None:
            """Return what a process has of the server; None if the process ends meanwhile, as a checker does."""
            proc = Path("/proc") / str(pid)
            try:
                readable = {name: (proc / name).read_bytes() for name in ("environ", "cmdline", "maps")}
                descriptors = {str(fd.readlink()) for fd in (proc / "fd").iterdir()}
            except (FileNotFoundError, ProcessLookupError):
                return None
            if not readable["maps"]:
                return None
            secrets = {name for name, content in readable.items() if SECRET.encode() in content}
            settings = {"environ"} if b"SLUICE_" in readable["environ"] else set()
            own = {"socket", "/memfd", "/dev/null", "/dev/urandom"}
            return (
                secrets
                | settings
                | descriptors & listening
                | {d for d in descriptors if d.partition(":")[0] not in own}
            )

        # a process opens and closes files of its own while it imports: what is inherited stays
        until(lambda: inherited(zygote), lambda found: found == set())
        until(
            lambda: [inherited(child) for child in _children(zygote)], lambda found: set() in found and not any(found)
        )


@pytest.mark.asvs("6.3.2")
def test_concurrent_first_starts_create_one_tenant_and_print_one_key(tmp_path: Path) -> None:
    shared = str(tmp_path / "data")
    with ThreadPoolExecutor(3) as pool, ExitStack() as running:
        sluices = [sluice_in(tmp_path / str(number), DATA_DIR=shared) for number in range(3)]
        servers = list(pool.map(lambda sluice: running.enter_context(sluice.running()), sluices))
        (first,) = [server for server in servers if "Welcome" in server.output]
        for server in servers:
            response = httpx.get(f"{server.url}/api/v1/contexts", headers={"Authorization": first.first_key})
            assert response.status_code == 200
        with closing(sqlite3.connect(tmp_path / "data" / "sluice.db")) as database, database:
            assert database.execute("SELECT count(*) FROM tenants").fetchone() == (1,)
            assert database.execute("SELECT count(*) FROM api_keys").fetchone() == (1,)
