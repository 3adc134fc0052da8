"""What is left after a server is killed during uploads (kill -9), and after the worker has cleaned up."""

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api import forms, raw_http
from tests.api.responses import data, page
from tests.api.samples import noise
from tests.deployments import Deployments
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
    acknowledged: list[str] = []
    with unchecked_service(deployment, **LEASE) as service:
        client = service.new_client().with_store()
        context = client.create_context()
        client.store("warm.zzz", noise(SIZE), context=context)
        enough = threading.Event()

        def upload_on() -> None:
            try:
                while True:
                    response = client.upload("a.zzz", noise(SIZE), context=context)
                    acknowledged.append(data(response, 201)["file_id"])
                    if len(acknowledged) >= 20:
                        enough.set()
            except httpx.TransportError:
                return  # the server was killed, as intended

        threads = [threading.Thread(target=upload_on) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert enough.wait(60)
        service.process.kill()
        for thread in threads:
            thread.join()
    with running_service(deployment, **LEASE) as service:
        _assert_only_acknowledged_files(_client_at(service, client), context, acknowledged)


def _assert_only_acknowledged_files(client: ApiClient, context: str, acknowledged: list[str]) -> None:
    """Assert that acknowledged files are complete, and that others were stored before their response was cut off."""
    files = _all_files(client)
    assert set(acknowledged) <= {item["file_id"] for item in files}
    for file_id in acknowledged:
        link = data(client.get(f"/files/{file_id}"))["download_url"]
        assert httpx.get(link, timeout=30).content == noise(SIZE)
    assert until(lambda: len(client.object_keys()) == len(files), 20)
    assert until(lambda: client.used_bytes(context) == sum(item["size_bytes"] for item in files), 20)
    assert _spooled_files(client.service.deployment) == []


def _all_files(client: ApiClient) -> list[dict[str, Any]]:
    items, pagination = page(client.get("/files", page_size=100))
    for number in range(2, pagination["total_pages"] + 1):
        items += page(client.get("/files", page=number, page_size=100))[0]
    return items
