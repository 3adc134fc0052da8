"""PostgreSQL, S3 and Redis behind a proxy that loses things, while clients upload: nothing acknowledged is lost, clients are told to come back
in bounded time, and the same processes go on when the fault is over.

A short fault of each here; `make faults` has every fault for 20 seconds each.
"""

import itertools
import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.gate import Gate, Place, running_service
from tests.load import hold, uploading
from tests.recovery.auditing import audited
from tests.scanning.waiting import until
from tests.servers.faults import Fault, FaultProxy, fault_proxy
from tests.servers.postgres import Postgres
from tests.servers.radosgw import RadosGateway
from tests.servers.redis import RedisServer
from tests.servers.threads import in_a_thread

SECONDS = float(os.environ.get("SLUICE_TEST_FAULT_SECONDS", "0"))
"""How long each fault lasts; 0 is the short form."""
NEIGHBOURS = ("postgres", "s3", "redis")
SHORT = [("postgres", Fault.DOWN), ("s3", Fault.BLACK_HOLE), ("redis", Fault.DOWN)]
FAULTS = [fault for fault in Fault if fault not in {Fault.NONE, Fault.NO_END}]
CASES = list(itertools.product(NEIGHBOURS, FAULTS)) if SECONDS else SHORT
PATIENCE = {
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
BOUND = 30.0
"""No answer may take longer, with these settings and on a machine that is busy with other tests."""


@dataclass(frozen=True)
class Behind:
    """A tenant of a service that reaches its neighbours through proxies."""

    gate: Gate
    context: str
    proxies: Mapping[str, FaultProxy]


@pytest.fixture(scope="module")
def behind(
    postgres: Postgres, gateway: RadosGateway, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Behind]:
    ends = [f"http://127.0.0.1:{postgres.port}", gateway.endpoint, f"http://127.0.0.1:{redis_server.port}"]
    with (
        in_a_thread(fault_proxy(ends[0])) as first,
        in_a_thread(fault_proxy(ends[1])) as second,
        in_a_thread(fault_proxy(ends[2])) as third,
    ):
        proxies = dict(zip(NEIGHBOURS, (first, second, third), strict=True))
        settings = {
            "SCANNER": "builtin",
            "LIMITER": "redis",
            "REDIS_URL": f"redis://127.0.0.1:{third.port}/0",
            "BUCKET_ENDPOINT_HOSTS": second.endpoint.removeprefix("http://"),
        }
        url = postgres.createdb().replace("+asyncpg", "").replace(f":{postgres.port}/", f":{first.port}/")
        folder: Path = tmp_path_factory.mktemp("faults")
        bucket = gateway.create_bucket(f"test-{secrets.token_hex(8)}")
        place = Place("faults", folder, url, settings, replace(gateway, endpoint=second.endpoint), bucket)
        with running_service(place, **PATIENCE) as service:
            gate = service.new_gate().with_store()
            context = gate.context(upload_rate_limit={"max_uploads": 10_000, "window_seconds": 1})
            yield Behind(gate, context, proxies)


@pytest.mark.timeout(180 + 20 * SECONDS)
@pytest.mark.parametrize(("neighbour", "fault"), CASES, ids=lambda value: getattr(value, "name", value))
def test_nothing_acknowledged_is_lost_and_all_goes_on_by_itself(
    behind: Behind, neighbour: str, fault: Fault, capsys: pytest.CaptureFixture[str]
) -> None:
    gate, proxy = behind.gate, behind.proxies[neighbour]
    with uploading(gate, behind.context) as load:
        proxy.fault = fault
        try:
            if SECONDS:
                threading.Event().wait(SECONDS)  # the fault lasts so long: nobody is waited for
            else:
                assert until(lambda: load.statuses[503] > 0, BOUND)
        finally:
            proxy.fault = Fault.NONE
        mended = time.monotonic()
        assert until(lambda: load.is_served_again(mended), BOUND)
        again = time.monotonic() - mended
    assert load.odd == []
    assert load.broken == 0
    assert load.longest < BOUND
    if fault is not Fault.SLOW:
        assert load.statuses[503] > 0
    hold(gate, load)
    if SECONDS:
        told = ", ".join(f"{count} x {status}" for status, count in sorted(load.statuses.items()))
        with capsys.disabled():
            print(f"\n{neighbour} {fault.name}: {told}; longest answer {load.longest:.1f} s, again after {again:.1f} s")  # noqa: T201


def test_afterwards_rows_and_objects_are_one_to_one(behind: Behind) -> None:
    """Leases of what was cut off run out, and the worker clears up."""
    assert until(lambda: audited(behind.gate.service, "--strict").code == 0, 90)
