"""What is left after a server is killed during uploads (kill -9), and what an upload gets when its child process dies."""

import bz2
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.api import forms, raw_http
from tests.api.responses import assert_rejected, page
from tests.api.samples import noise
from tests.deployments import Deployments
from tests.load import assert_downloadable, uploading_clients
from tests.scanning.waiting import until
from tests.service import ApiClient, Deployment, Service, running_service, unchecked_service

LEASE = {"UPLOAD_LEASE_SECONDS": "1"}
SIZE = 400_000


@pytest.fixture
def deployment(deployments: Deployments, setup_name: str) -> Deployment:
    return deployments.fresh(setup_name)


def _client_at(service: Service, client: ApiClient) -> ApiClient:
    return ApiClient(service, client.tenant_id, client.authorization)


def _spooled_files(deployment: Deployment) -> list[Path]:
    return [path for path in (deployment.data_dir / "spool").rglob("*") if path.is_file()]


def test_server_killed_during_a_body_leaves_nothing(deployment: Deployment) -> None:
    with unchecked_service(deployment, **LEASE) as service:
        client = service.new_client().with_store()
        context = client.create_context()
        with raw_http.connection(client) as sock:
            lines = (f"Content-Type: {forms.content_type()}", f"Content-Length: {10 * SIZE}")
            start = forms.head(forms.file("a.zzz", b"")) + noise(5 * SIZE)
            sock.sendall(raw_http.request_head(client, *lines) + start)
            service.process.kill()
            service.process.wait(10)
    with running_service(deployment, **LEASE) as service:
        client = _client_at(service, client)
        assert page(client.get("/files"))[0] == []
        assert (client.used_bytes(context), client.object_keys(), _spooled_files(deployment)) == (0, set(), [])


@pytest.mark.asvs("2.3.3")
def test_killed_server_keeps_every_acknowledged_file(deployment: Deployment) -> None:
    """Acknowledged files are complete; others may have been stored before their response was cut off."""
    with unchecked_service(deployment, **LEASE) as service:
        client = service.new_client().with_store()
        context = client.create_context()
        client.store("warm.zzz", noise(SIZE), context=context)
        with uploading_clients(client, context, size=SIZE) as load:
            assert until(lambda: len(load.stored) >= 10, 60)
            service.process.kill()
    assert load.unexpected == []
    with running_service(deployment, **LEASE) as service:
        client = _client_at(service, client)
        files = _all_files(client)
        assert load.stored.keys() <= {item["file_id"] for item in files}
        assert_downloadable(client, load)
        assert until(lambda: len(client.object_keys()) == len(files), 20)
        assert until(lambda: client.used_bytes(context) == sum(item["size_bytes"] for item in files), 20)
        assert _spooled_files(deployment) == []


def _all_files(client: ApiClient) -> list[dict[str, Any]]:
    items, pagination = page(client.get("/files", page_size=100))
    for number in range(2, pagination["total_pages"] + 1):
        items += page(client.get("/files", page=number, page_size=100))[0]
    return items


_BUSY_TICKS = 60  # more processor time than starting a child process takes


@cache
def _stream_of_noise() -> bytes:
    """Return what is unpacked in no time; thirty of it, one after the other, take seconds."""
    return bz2.compress(random.Random(1).randbytes(2**20))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            found += map(int, (task / "children").read_text().split())
    return found


def _cpu_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(fields[11]) + int(fields[12])


def _busy_child_process(service: Service) -> int:
    """Return the child process that is working; the zygote is the server's child, and the workers are the zygote's."""
    deadline = time.monotonic() + 60

    def workers() -> list[int]:
        return [pid for zygote in _children(service.process.pid) for pid in _children(zygote)]

    idle = {pid: _cpu_ticks(pid) for pid in workers()}
    while time.monotonic() < deadline:
        for pid in workers():
            if _cpu_ticks(pid) - idle.get(pid, 0) >= _BUSY_TICKS:
                return pid
        time.sleep(0.02)  # no event reports that a process has worked, so the test polls
    raise AssertionError("no checker worked")


def test_file_is_unprocessable_when_its_child_process_crashes(deployments: Deployments) -> None:
    with (
        running_service(replace(deployments.fresh("sqlite-local"), own_zygote=True)) as service,
        ThreadPoolExecutor(1) as executor,
    ):
        client = service.new_client()
        context = client.create_context(scan_for_viruses=False, max_file_size_mb=100)
        response = executor.submit(client.upload, "slow.bz2", _stream_of_noise() * 30, context=context)
        os.kill(_busy_child_process(service), signal.SIGBUS)
        assert_rejected(response.result(60), "unprocessable_file")
        assert client.used_bytes(context) == 0
        client.store("quick.bz2", _stream_of_noise(), context=context)
