"""Full disks and clients that disconnect: a clear status, and nothing stored, charged or left behind."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.api import forms, raw_http
from tests.api.responses import page
from tests.api.samples import noise
from tests.deployments import Deployments
from tests.recovery.audit_command import run_audit
from tests.rows import each_row
from tests.service import ApiClient, Service, running_service

MB = 1_048_576


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount a file system of that size at `folder` for the block; skip the test if mounting is not permitted."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "none", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk takes root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _refused(response: httpx.Response, *statuses: int) -> None:
    assert response.status_code in statuses, response.text
    assert int(response.headers["retry-after"]) >= 1
    assert response.json()["status"] == "ERROR"


def _check_usage(client: ApiClient, context: str, files: int, used: int) -> None:
    assert page(client.get("/files"))[1]["total"] == files
    assert client.used_bytes(context) == used


def test_a_full_store_returns_507_until_there_is_room_again(deployments: Deployments, tmp_path: Path) -> None:
    embedded = deployments.fresh("sqlite-local")
    deployment = replace(embedded, settings={**embedded.settings, "STORAGE_DIR": str(tmp_path / "disk")})
    with small_disk(tmp_path / "disk", 3), running_service(deployment) as service:
        client = service.new_client()
        context = client.create_context(upload_rate_limit={"max_uploads": 3, "window_seconds": 3600})
        client.store("a.zzz", noise(2 * MB), context=context)
        for _ in range(4):  # no attempt counts against the rate limit
            _refused(client.upload("b.zzz", noise(2 * MB), context=context), 507)
        _check_usage(client, context, 1, 2 * MB)
        client.store("c.zzz", noise(MB // 4), context=context)
        assert run_audit(service).findings == []


def test_a_full_spool_returns_507(deployments: Deployments, tmp_path: Path) -> None:
    deployment = deployments.fresh("sqlite-local")
    with small_disk(tmp_path / "disk", 3) as disk, running_service(deployment, SPOOL_DIR=str(disk)) as service:
        client = service.new_client()
        context = client.create_context()
        _refused(client.upload("a.zzz", noise(6 * MB), context=context), 507)
        _check_usage(client, context, 0, 0)
        client.store("a.zzz", noise(2 * MB), context=context)


def test_a_full_database_disk_returns_503_or_507(deployments: Deployments, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    deployment = replace(deployments.fresh("sqlite-local"), database_url=f"sqlite:///{disk}/sluice.db")
    with small_disk(disk, 32), running_service(deployment) as service:
        client = service.new_client()
        context = client.create_context()
        client.store("a.zzz", noise(1000), context=context)
        filler = disk / "filler"
        subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=4096"], check=False, capture_output=True)
        responses = [client.upload("b.zzz", noise(1000, seed=number), context=context) for number in range(300)]
        refused = [response for response in responses if response.status_code != 201]
        assert refused
        for response in refused:
            _refused(response, 503, 507)
        filler.unlink()
        client.store("c.zzz", noise(1000), context=context)
        assert page(client.get("/files"))[1]["total"] >= len(responses) - len(refused) + 2
        assert run_audit(service).findings == []


@each_row("tenths", range(10))
def test_a_client_that_disconnects_within_its_body_leaves_nothing(service: Service, tenths: int) -> None:
    client = service.new_client().with_store()
    context = client.create_context()
    body = forms.encode([forms.field("context", context), forms.file("a.zzz", noise(3 * MB))])
    with raw_http.connection(client) as plug:
        head = raw_http.request_head(client, f"Content-Type: {forms.content_type()}", f"Content-Length: {len(body)}")
        plug.sendall(head + body[: len(body) * tenths // 10])
        plug.shutdown(socket.SHUT_RDWR)
    _check_usage(client, context, 0, 0)
    assert client.object_keys() == set()
    client.store("a.zzz", noise(1000), context=context)
