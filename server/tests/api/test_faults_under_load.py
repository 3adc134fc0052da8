"""PostgreSQL, S3 and Redis behind a faulty proxy, while clients upload.

No acknowledged file is lost, clients get a 503 in bounded time, and the same processes continue after the fault.
The short run has one fault of each; `make faults` has every fault for 20 seconds each.
"""

import itertools
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.load import assert_downloadable, uploading_clients
from tests.recovery.audit_command import run_audit
from tests.scanning.waiting import until
from tests.servers.azurite import Azurite
from tests.servers.fake_gcs import FakeGcs
from tests.servers.faults import Fault, FaultProxy, fault_proxy
from tests.servers.postgres import Postgres
from tests.servers.radosgw import RadosGateway
from tests.servers.redis import RedisServer
from tests.servers.threads import in_a_thread
from tests.service import ApiClient, Deployment, running_service

SECONDS = float(os.environ.get("SLUICE_TEST_FAULT_SECONDS", "0"))
"""Duration of each fault; 0 is the short run."""
STORE = os.environ.get("SLUICE_TEST_STORE", "s3")
"""`s3`: a bucket of the tenant in S3. `azurite`, `gcs`: a container of Azure or a bucket of Google for the platform."""
BACKENDS = ("postgres", STORE, "redis")
SHORT = [("postgres", Fault.DOWN), (STORE, Fault.BLACK_HOLE), ("redis", Fault.DOWN)]
FAULTS = [fault for fault in Fault if fault not in {Fault.NONE, Fault.NO_END}]
CASES = list(itertools.product(BACKENDS, FAULTS)) if SECONDS else SHORT
SHORT_TIMEOUTS = {
    "DATABASE_WAIT_SECONDS": "2",
    "DATABASE_CONNECT_SECONDS": "2",
    "DATABASE_STATEMENT_SECONDS": "3",
    "DATABASE_LOCK_SECONDS": "2",
    "S3_CONNECT_SECONDS": "2",
    "S3_REQUEST_SECONDS": "3",
    "S3_RETRIES": "1",
    "S3_REST_SECONDS": "2",
    "REDIS_SECONDS": "0.5",
    "UPLOAD_LEASE_SECONDS": "20",
    "PURGE_AFTER_DAYS": "0",
    "UPLOADS_PER_TENANT": "16",
}
MAX_SECONDS = 30.0
"""Maximum response time with these settings, on a machine that is busy with other tests."""


@dataclass(frozen=True)
class ProxiedService:
    """An API client of a service that reaches its backends through proxies."""

    client: ApiClient
    context: str
    proxies: Mapping[str, FaultProxy]


@pytest.fixture(scope="module")
def proxied(
    postgres: Postgres,
    redis_server: RedisServer,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ProxiedService]:
    store: RadosGateway | Azurite | FakeGcs = request.getfixturevalue("gateway" if STORE == "s3" else STORE)
    ends = [f"http://127.0.0.1:{postgres.port}", store.endpoint, f"http://127.0.0.1:{redis_server.port}"]
    with (
        in_a_thread(fault_proxy(ends[0])) as first,
        in_a_thread(fault_proxy(ends[1])) as second,
        in_a_thread(fault_proxy(ends[2])) as third,
    ):
        proxies = dict(zip(BACKENDS, (first, second, third), strict=True))
        settings = {
            "SCANNER": "builtin",
            "LIMITER": "redis",
            "REDIS_URL": f"redis://127.0.0.1:{third.port}/0",
            "BUCKET_ENDPOINT_HOSTS": second.endpoint.removeprefix("http://"),
        }
        url = postgres.createdb().replace("+asyncpg", "").replace(f":{postgres.port}/", f":{first.port}/")
        folder: Path = tmp_path_factory.mktemp("faults")
        if isinstance(store, RadosGateway):
            at = replace(store, endpoint=second.endpoint)
            deployment = Deployment("faults", folder, url, settings, at, store.fresh_bucket())
        else:
            own = store.platform_settings() | {"STORAGE_ENDPOINT": second.endpoint}
            deployment = Deployment("faults", folder, url, settings | own)
        with running_service(deployment, **SHORT_TIMEOUTS) as service:
            client = service.new_client().with_store()
            context = client.create_context(upload_rate_limit={"max_uploads": 10_000, "window_seconds": 1})
            yield ProxiedService(client, context, proxies)


@pytest.mark.timeout(180 + 20 * SECONDS)
@pytest.mark.parametrize(("backend", "fault"), CASES, ids=lambda value: getattr(value, "name", value))
def test_no_acknowledged_file_is_lost_and_service_recovers(
    proxied: ProxiedService, backend: str, fault: Fault, capsys: pytest.CaptureFixture[str]
) -> None:
    client, proxy = proxied.client, proxied.proxies[backend]
    with uploading_clients(client, proxied.context) as load:
        proxy.fault = fault
        try:
            if SECONDS:
                threading.Event().wait(SECONDS)  # the fault lasts this long: there is no event to wait for
            else:
                assert until(lambda: load.statuses[503] > 0, MAX_SECONDS)
        finally:
            proxy.fault = Fault.NONE
        fault_ended = time.monotonic()
        assert until(lambda: load.has_stored_since(fault_ended), MAX_SECONDS)
        seconds_to_recover = time.monotonic() - fault_ended
    assert (load.unexpected, load.broken_connections) == ([], 0)
    assert load.longest_wait < MAX_SECONDS
    if fault is not Fault.SLOW:
        assert load.statuses[503] > 0
    assert_downloadable(client, load)
    if SECONDS:
        counts = ", ".join(f"{count} x {status}" for status, count in sorted(load.statuses.items()))
        with capsys.disabled():
            waits = f"longest wait {load.longest_wait:.1f} s, recovered after {seconds_to_recover:.1f} s"
            print(f"\n{backend} {fault.name}: {counts}; {waits}")  # noqa: T201


def test_rows_and_objects_match_after_the_faults(proxied: ProxiedService) -> None:
    """Leases of interrupted uploads expire, and the worker cleans up."""
    assert until(lambda: run_audit(proxied.client.service, "--strict").code == 0, 90)
