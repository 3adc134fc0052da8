"""`sluice serve --processes N`: one server of several processes, its limits, its metrics, and the end of any of them."""

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from operator import eq
from pathlib import Path

import httpx
import pytest

from sluice.cli.processes import of_one_process, process_count
from sluice.settings import Settings
from sluice_client.cli.output import CommandRefused
from tests.api.samples import TEXT
from tests.cli.commands import Sluice
from tests.cli.test_serve import _UPLOAD_END, start_upload, wait_until_refused
from tests.deployments import Deployments
from tests.observe.metrics_page import read_metrics, until
from tests.rows import each_row
from tests.service import ApiClient, Service, running_service, unchecked_service

POSTGRES = "postgresql://nobody@127.0.0.1/none"
SHARED = ("connections", "connections_per_address", "uploads_per_tenant", "failed_logins", "spool_mb")


def settings_of(monkeypatch: pytest.MonkeyPatch, **settings: str) -> Settings:
    for name, value in settings.items():
        monkeypatch.setenv(f"SLUICE_{name}", value)
    return Settings()


@each_row(
    "settings, cores, processes",
    [
        ({"DATABASE_URL": POSTGRES, "SPOOL_MB": "65536"}, *each)
        for each in [(1, 1), (2, 2), (3, 2), (4, 2), (6, 3), (16, 8), (64, 8)]
    ]
    + [
        ({"DATABASE_URL": POSTGRES}, 16, 4),  # each process has a spool that holds the largest file
        ({}, 16, 1),  # SQLite
        ({"DATABASE_URL": POSTGRES, "FAILPOINT": "stored"}, 16, 1),
    ],
)
def test_the_default_is_two_processes_or_half_of_the_cores_as_far_as_the_settings_allow(
    settings: dict[str, str], cores: int, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(cores)))
    assert process_count(settings_of(monkeypatch, **settings)) == processes


@each_row("name", [name.upper() for name in SHARED])
def test_too_many_processes_for_a_limit_are_refused_by_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(monkeypatch, PROCESSES="3", **{name: "6000" if name == "SPOOL_MB" else "2"})
    with pytest.raises(CommandRefused, match=f"SLUICE_PROCESSES=3 needs SLUICE_{name} of at least"):
        process_count(settings)


def test_processes_share_what_each_counts_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(monkeypatch, CONNECTIONS_PER_ADDRESS="100")
    shares = [of_one_process(settings, number, 3) for number in range(3)]
    for name in (*SHARED, "database_pool_size", "clamd_concurrency"):
        limit = getattr(settings, name)
        assert limit * 0.6 <= sum(getattr(share, name) for share in shares) <= limit, name
    assert [share.worker_inside for share in shares] == [True, False, False]
    assert {share.limiter for share in shares} == {"database"}
    assert of_one_process(settings_of(monkeypatch, LIMITER="redis"), 0, 2).limiter == "redis"


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_zygote(pid: int) -> bool:
    try:
        return "sluice_inspect.child.zygote" in Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return False


def zygotes(service: Service) -> list[int]:
    return [pid for pid in children_of(service.process.pid) if is_zygote(pid)]


def children(service: Service) -> list[int]:
    """Return the processes of the server: the children of the supervisor but for the zygote."""
    return [pid for pid in children_of(service.process.pid) if not is_zygote(pid)]


def is_successor(zygote: int, found: list[int]) -> bool:
    return bool(found) and zygote not in found


def is_replaced(victim: int, pids: list[int]) -> bool:
    return victim not in pids and len(pids) == 2


@pytest.fixture(scope="module")
def two_processes(deployments: Deployments) -> Iterator[Service]:
    deployment = replace(deployments.fresh("postgres-local"), own_zygote=True)
    with running_service(deployment, PROCESSES="2") as service:
        until(lambda: read_metrics(service.url)("sluice_processes", state="answering"), lambda found: found == 2)
        # The formats have been tested by one process for both, which must not be stopped meanwhile.
        client = service.new_client()
        client.store(context=client.create_context())
        yield service


def client_of(service: Service) -> ApiClient:
    """Return a client that opens a connection for each request, so that any process may respond."""
    http = httpx.Client(base_url=service.url, timeout=60, limits=httpx.Limits(max_keepalive_connections=0))
    return replace(service, http=http).new_client()


@contextmanager
def served_by(pid: int, service: Service) -> Iterator[None]:
    """Let no other process than `pid` run."""
    others = [child for child in children(service) if child != pid]
    for other in others:
        os.kill(other, signal.SIGSTOP)
    try:
        yield
    finally:
        for other in others:
            os.kill(other, signal.SIGCONT)


def test_the_supervisor_has_one_thread_and_no_connection(two_processes: Service) -> None:
    folder = Path(f"/proc/{two_processes.process.pid}")
    assert len(list((folder / "task").iterdir())) == 1
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    established = {f"socket:[{fields[9]}]" for fields in sockets if fields[3] == "01"}
    assert not {str(fd.readlink()) for fd in (folder / "fd").iterdir()} & established


def test_a_rate_limit_is_exact_over_all_processes(two_processes: Service) -> None:
    client = client_of(two_processes)
    context = client.create_context(upload_rate_limit={"max_uploads": 5, "window_seconds": 3600})
    statuses = []
    for pid in children(two_processes):
        with served_by(pid, two_processes):
            statuses += [client.upload("a.txt", TEXT, context=context).status_code for _ in range(4)]
    assert statuses == [201, 201, 201, 201, 201, 429, 429, 429]


def test_processes_share_one_zygote_and_its_successor(two_processes: Service) -> None:
    client = client_of(two_processes)
    context = client.create_context()
    for _ in range(2):
        (zygote,) = zygotes(two_processes)
        for pid in children(two_processes):
            with served_by(pid, two_processes):
                assert client.upload("a.txt", TEXT, context=context).status_code == 201
            assert not children_of(pid)
        os.kill(zygote, signal.SIGKILL)
        until(lambda: zygotes(two_processes), partial(is_successor, zygote))


def test_metrics_are_added_up_and_never_fall_when_a_process_dies(two_processes: Service) -> None:
    client = client_of(two_processes)
    context = client.create_context()

    def stored() -> float:
        return read_metrics(two_processes.url)("sluice_uploads_total", mode="store", outcome="stored", reason="")

    before = stored()
    for pid in children(two_processes):
        with served_by(pid, two_processes):
            client.store(context=context)
    assert stored() == before + 2
    for victim in children(two_processes):
        os.kill(victim, signal.SIGKILL)
        until(partial(children, two_processes), partial(is_replaced, victim))
        until(lambda: read_metrics(two_processes.url)("sluice_processes", state="missing"), partial(eq, 0))
    assert stored() == before + 2
    page = read_metrics(two_processes.url)
    assert page("sluice_info", version="0.1.0") == 1
    states = ("up", "degraded", "down")
    assert sum(page("sluice_engine_state", kind="database", engine="postgresql", state=one) for one in states) == 1


def test_no_acknowledged_upload_is_lost_when_a_process_is_killed(two_processes: Service) -> None:
    client, acknowledged = client_of(two_processes), list[str]()
    context = client.create_context()

    def upload(number: int) -> None:
        # A request that the killed process had fails; only a 201 is a promise.
        with suppress(httpx.TransportError):
            response = client.upload(f"{number}.txt", TEXT + str(number).encode(), context=context)
            assert response.status_code == 201, response.text
            acknowledged.append(response.json()["data"]["file_id"])

    with ThreadPoolExecutor(4) as pool:
        began = [pool.submit(upload, number) for number in range(120)]
        until(lambda: len(acknowledged), lambda count: count > 20)
        victim = children(two_processes)[0]
        os.kill(victim, signal.SIGKILL)
        for each in began:
            each.result()
    until(partial(children, two_processes), partial(is_replaced, victim))
    assert len(acknowledged) >= 110
    assert {client.get(f"/files/{file_id}/metadata").status_code for file_id in acknowledged} == {200}
    restarted = rf'"process_id": {victim}, "why": "signal 9", "again_in_seconds": [0-9.]+'
    assert re.search(restarted, two_processes.log.read_text())


def test_sighup_replaces_the_processes_one_by_one_while_others_serve(two_processes: Service) -> None:
    client, before = client_of(two_processes), set(children(two_processes))
    two_processes.process.send_signal(signal.SIGHUP)
    seen, deadline = before, time.monotonic() + 60
    while seen & before or len(seen) < 2:
        assert client.get("/contexts").status_code == 200
        assert time.monotonic() < deadline
        seen = set(children(two_processes))
        assert seen
        time.sleep(0.02)  # other processes, so this polls


def test_an_upload_in_progress_ends_well_when_all_processes_drain(sluice: Sluice) -> None:
    with sluice.with_settings(PROCESSES="2").running(own_zygote=True) as server:
        key = server.first_key
        assert "\n  processes 2\n" in server.output
        body = {"context_key": "slow", "display_name": "Slow"}
        httpx.post(f"{server.url}/api/v1/contexts", json=body, headers={"Authorization": key}, timeout=30)
        with start_upload(server, key) as connection:
            server.process.send_signal(signal.SIGTERM)
            wait_until_refused(server)
            connection.sendall(_UPLOAD_END)
            assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")
        assert server.process.wait(30) == 0
        assert "Traceback" not in server.output
        assert server.output.count("  api key  ") == 1
        assert "sl_live_" not in server.output


def test_processes_of_a_supervisor_that_is_killed_leave_the_port(deployments: Deployments) -> None:
    deployment = replace(deployments.fresh("sqlite-local"), own_zygote=True)
    with unchecked_service(deployment, PROCESSES="2") as service:
        service.process.kill()
        service.process.wait(30)
        until(lambda: refuses(service.port), lambda refused: refused)


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
    except OSError:
        return True
    return False


def test_a_start_that_is_refused_is_explained_once(sluice: Sluice) -> None:
    result = sluice.with_settings(PROCESSES="2", PORT="0", SCANNER="clamd", CLAMD="nowhere")("serve")
    assert (result.code, result.err.count("sluice: SLUICE_CLAMD: ")) == (1, 1)


def test_processes_that_cannot_share_a_limit_are_refused_at_the_start(sluice: Sluice) -> None:
    result = sluice.with_settings(UPLOADS_PER_TENANT="1")("serve", "--processes", "2")
    assert result.code == 2
    assert result.error_line == (
        "SLUICE_PROCESSES=2 needs SLUICE_UPLOADS_PER_TENANT of at least 2, and it is 1: each process has its share of it."
    )
