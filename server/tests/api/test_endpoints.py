"""Endpoints of buckets that the operator took off the list, and named ones in plain HTTP, as in private networks.

Nothing is sent to an unlisted one, and everything else continues; every request to a name goes to the checked address.
"""

import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace

import httpx
import pytest

from tests.api.responses import assert_error, assert_validation_error, data
from tests.api.samples import noise
from tests.cli.commands import Sluice
from tests.deployments import Deployments
from tests.scanning.waiting import until
from tests.servers import free_port
from tests.servers.faults import FaultProxy, fault_proxy
from tests.servers.radosgw import RadosGateway
from tests.servers.threads import in_a_thread
from tests.service import ApiClient, running_service

UNAVAILABLE = (
    "The storage (the operator does not allow the bucket's endpoint) is unavailable; nothing was stored, try again "
    "later"
)


@dataclass(frozen=True)
class Restarted:
    """A service that was started again with a shorter list: `unlisted` is a context with two files whose bucket is off.

    One of the files may be deleted.
    """

    client: ApiClient
    listed: str
    unlisted: str
    listed_file: str
    unlisted_file: str
    deletable_file: str
    unlisted_bucket: str
    proxy: FaultProxy
    seen: int


@pytest.fixture(scope="module")
def restarted(deployments: Deployments, gateway: RadosGateway) -> Iterator[Restarted]:
    deployment = deployments.fresh("postgres-s3")
    kept = deployment.settings["BUCKET_ENDPOINT_HOSTS"]
    with in_a_thread(fault_proxy(gateway.endpoint)) as proxy:
        both = {**deployment.settings, "BUCKET_ENDPOINT_HOSTS": f"{kept},localhost:{proxy.port}"}
        with running_service(replace(deployment, settings=both)) as service:
            first = service.new_client()
            first.add_bucket(name="kept")
            bucket = first.add_bucket(name="dropped", endpoint_url=f"http://localhost:{proxy.port}")["config_id"]
            listed, unlisted = first.create_context(), first.create_context(storage_config_id=bucket)
            listed_file = first.store(context=listed)
            unlisted_file, deletable_file = (first.store(context=unlisted) for _ in range(2))
            assert proxy.connections > 0
        seen = proxy.connections
        with running_service(deployment, PURGE_AFTER_DAYS="0", WORKER_SECONDS="0.05") as service:
            client = ApiClient(service, first.tenant_id, first.authorization)
            yield Restarted(client, listed, unlisted, listed_file, unlisted_file, deletable_file, bucket, proxy, seen)
        assert proxy.connections == seen, "the unlisted endpoint was called"


@pytest.mark.asvs("13.2.4")
def test_uploads_links_and_credentials_of_an_unlisted_endpoint_are_refused_with_the_reason(
    restarted: Restarted,
) -> None:
    for _ in range(5):  # also behind a circuit breaker
        response = restarted.client.upload(context=restarted.unlisted)
        assert_error(response, 503, "Service temporarily unavailable", UNAVAILABLE)
    assert restarted.client.upload(context=restarted.listed).status_code == 201
    response = restarted.client.get(f"/files/{restarted.unlisted_file}")
    assert_error(response, 503, "Service temporarily unavailable", UNAVAILABLE)
    assert "download_url" in data(restarted.client.get(f"/files/{restarted.listed_file}"))
    client = restarted.client
    changes = {"access_key_id": "A" * 20, "secret_access_key": "s"}
    response = client.patch(f"{client.buckets}/{restarted.unlisted_bucket}", changes)
    assert_validation_error(response, "default_bucket")
    assert "not among those that the operator allows" in response.text


def test_worker_purges_other_buckets_and_says_why_one_is_put_off(restarted: Restarted) -> None:
    client = restarted.client
    other = client.store("b.txt", context=restarted.listed)
    data(client.delete(f"/files/{restarted.deletable_file}"))
    data(client.delete(f"/files/{other}"))
    assert until(lambda: not any(other in key for key in client.object_keys()), 30)
    assert any(restarted.deletable_file in key for key in client.object_keys())
    log = client.service.log.read_text()
    assert "purge_put_off" in log
    assert "not among those that the operator allows" in log


def test_commands_name_the_bucket_at_an_unlisted_endpoint(restarted: Restarted) -> None:
    service = restarted.client.service
    names = [name for name in service.environment if name.startswith("SLUICE_")]
    settings = {name.removeprefix("SLUICE_"): service.environment[name] for name in names}
    command = Sluice(service.deployment.folder, settings)
    storage = next(engine for engine in command("doctor", "--json").json["engines"] if engine["kind"] == "storage")
    assert storage["state"] == "degraded"
    assert storage["detail"].endswith(f"SLUICE_BUCKET_ENDPOINT_HOSTS does not allow: {restarted.unlisted_bucket}")
    audited = command("audit", "--json").out
    assert "unreachable" in audited
    assert "not among those that the operator allows" in audited


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
