"""A bucket whose endpoint the operator took off the list: nothing is sent to it, and everything else goes on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from tests.api.responses import assert_error, assert_validation_error, data
from tests.cli.commands import Sluice
from tests.deployments import Deployments
from tests.scanning.waiting import until
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
def test_upload_to_an_unlisted_endpoint_is_unavailable(restarted: Restarted) -> None:
    for _ in range(5):  # also behind a circuit breaker
        response = restarted.client.upload(context=restarted.unlisted)
        assert_error(response, 503, "Service temporarily unavailable", UNAVAILABLE)
    assert restarted.client.upload(context=restarted.listed).status_code == 201


@pytest.mark.asvs("13.2.4")
def test_link_to_an_unlisted_endpoint_is_unavailable(restarted: Restarted) -> None:
    response = restarted.client.get(f"/files/{restarted.unlisted_file}")
    assert_error(response, 503, "Service temporarily unavailable", UNAVAILABLE)
    assert "download_url" in data(restarted.client.get(f"/files/{restarted.listed_file}"))


def test_new_credentials_for_an_unlisted_endpoint_are_refused_with_the_reason(restarted: Restarted) -> None:
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
