"""A bucket at an endpoint in plain http that has a name, as in many private networks: all of a file's life goes by way of the judged address."""

import socket
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from tests.api.answers import data, invalid
from tests.api.places import Places
from tests.api.samples import noise
from tests.gate import Gate, running_service
from tests.servers import free_port
from tests.servers.faults import FaultProxy, fault_proxy
from tests.servers.radosgw import RadosGateway
from tests.servers.threads import in_a_thread

NAME = socket.gethostname()
SIZE = 9_000_000


@pytest.fixture(scope="module")
def address() -> str:
    return str(socket.getaddrinfo(NAME, None, socket.AF_INET)[0][4][0])


@pytest.fixture(scope="module")
def named(gateway: RadosGateway, address: str) -> Iterator[FaultProxy]:
    """The gateway at the address that this machine's own name leads to."""
    with in_a_thread(fault_proxy(gateway.endpoint, address)) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def tenant(places: Places, named: FaultProxy, address: str) -> Iterator[Gate]:
    place = places.fresh("postgres-s3")
    place = replace(place, settings={**place.settings, "BUCKET_ENDPOINT_HOSTS": f"{NAME},nowhere.invalid,{address}/32"})
    with running_service(place, S3_RETRIES="0") as service:
        gate = service.new_gate()
        gate.bucket(endpoint_url=f"http://{NAME}:{named.port}")
        yield gate


@pytest.mark.asvs("1.3.6")
def test_a_file_lives_in_a_bucket_behind_a_name(tenant: Gate, named: FaultProxy) -> None:
    context = tenant.context(reject_corrupt_files=False, scan_for_viruses=False)
    seen = named.connections
    file_id = tenant.store("a.zzz", noise(SIZE), context=context)
    assert named.connections > seen
    assert len(tenant.objects()) == 1
    link = data(tenant.get(f"/files/{file_id}"))["download_url"]
    assert link.startswith(f"http://{NAME}:{named.port}/")
    assert httpx.get(link, timeout=30).content == noise(SIZE)
    data(tenant.delete(f"/files/{file_id}"))


def test_a_name_that_leads_nowhere_is_told_as_such(tenant: Gate) -> None:
    body = tenant.bucket_body(endpoint_url=f"http://nowhere.invalid:{free_port()}")
    answer = tenant.post(tenant.buckets, body)
    invalid(answer, "default_bucket")
    assert "The store cannot be reached." in answer.text
