"""A bucket at a named endpoint in plain HTTP, as in private networks: every request goes to the checked address."""

import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.api.responses import assert_validation_error, data
from tests.api.samples import noise
from tests.deployments import Deployments
from tests.servers import free_port
from tests.servers.faults import FaultProxy, fault_proxy
from tests.servers.radosgw import RadosGateway
from tests.servers.threads import in_a_thread
from tests.service import ApiClient, running_service

NAME = socket.gethostname()
SIZE = 9_000_000


@pytest.fixture(scope="module")
def address() -> str:
    return str(socket.getaddrinfo(NAME, None, socket.AF_INET)[0][4][0])


@pytest.fixture(scope="module")
def named_gateway(gateway: RadosGateway, address: str) -> Iterator[FaultProxy]:
    """The gateway at the address that this machine's own host name resolves to."""
    with in_a_thread(fault_proxy(gateway.endpoint, address)) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def client(deployments: Deployments, named_gateway: FaultProxy, address: str) -> Iterator[ApiClient]:
    hosts = f"{NAME},nowhere.invalid,{address}/32"
    deployment = deployments.fresh("postgres-s3")
    with running_service(deployment, S3_RETRIES="0", BUCKET_ENDPOINT_HOSTS=hosts) as service:
        client = service.new_client()
        client.add_bucket(endpoint_url=f"http://{NAME}:{named_gateway.port}")
        yield client


@pytest.mark.asvs("1.3.6")
def test_file_is_stored_and_downloaded_through_a_named_endpoint(client: ApiClient, named_gateway: FaultProxy) -> None:
    context = client.create_context(reject_corrupt_files=False, scan_for_viruses=False)
    seen = named_gateway.connections
    file_id = client.store("a.zzz", noise(SIZE), context=context)
    assert named_gateway.connections > seen
    assert len(client.object_keys()) == 1
    link = data(client.get(f"/files/{file_id}"))["download_url"]
    assert link.startswith(f"http://{NAME}:{named_gateway.port}/")
    assert httpx.get(link, timeout=30).content == noise(SIZE)
    data(client.delete(f"/files/{file_id}"))


def test_unresolvable_endpoint_is_reported_as_unreachable(client: ApiClient) -> None:
    response = client.post(client.buckets, client.bucket_body(endpoint_url=f"http://nowhere.invalid:{free_port()}"))
    assert_validation_error(response, "default_bucket")
    assert "The store cannot be reached." in response.text
