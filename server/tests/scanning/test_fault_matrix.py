"""The fault matrix over HTTP: no file passes unscanned or counts as infected, responses are in time, uploads recover.

More faults of clamd are tested in server/tests/scanner/test_clamd_faults.py.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.api.responses import assert_rejected
from tests.deployments import Deployments
from tests.run_length import amount
from tests.scanner.faulty_clamd import (
    Fault,
    FaultyClamd,
    dies_mid_scan,
    hangs,
    hangs_after_bytes,
    reports_limit_mid_stream,
    resets_at_once,
    resets_mid_stream,
    responds,
    responds_after_bytes,
)
from tests.scanning.faulty_daemon import daemon_in_thread, finds_nothing
from tests.scanning.members import running_members
from tests.scanning.pictures import noise_png
from tests.scanning.signatures import database_of
from tests.scanning.waiting import until
from tests.service import ApiClient, Service, running_service

DEADLINE = 4.0
SLACK = 6.0  # for the rest of an upload, because the machine may be busy
SIGNATURES = amount("SIGNATURES", short=60_000, full=1_500_000)
"""How many signatures the reload test loads."""
SHORT_TIMEOUTS = {"CLAMD_CONNECT_SECONDS": "1", "CLAMD_STALL_SECONDS": "0.5", "CLAMD_SCAN_SECONDS": str(DEADLINE)}
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def faulty() -> Iterator[FaultyClamd]:
    with daemon_in_thread(finds_nothing) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def faulty_service(deployments: Deployments, faulty: FaultyClamd) -> Iterator[Service]:
    deployment = deployments.fresh("sqlite-local")
    with running_service(deployment, SCANNER="clamd", CLAMD=faulty.address, **SHORT_TIMEOUTS) as service:
        yield service


def upload(client: ApiClient, context: str, *, infected: bool = False) -> httpx.Response:
    """Upload a new picture and check that the response arrives in time."""
    number = next(_numbers)
    began = time.monotonic()
    response = client.upload(f"{number}.png", noise_png(number, infected=infected), context=context)
    assert time.monotonic() - began < DEADLINE + SLACK
    return response


def run_concurrently(count: int, act: Callable[[], httpx.Response]) -> list[httpx.Response]:
    with ThreadPoolExecutor(count) as threads:
        return [response.result() for response in [threads.submit(act) for _ in range(count)]]


def recovers(client: ApiClient, context: str) -> bool:
    return until(lambda: upload(client, context).status_code == 201)


def assert_nothing_stored(client: ApiClient, context: str) -> None:
    assert (client.used_bytes(context), client.object_keys()) == (0, set())
    assert "virus_detected" not in {row["reason"] for row in client.decisions()}


FAULTS = [
    pytest.param(hangs, id="hangs after accept"),
    pytest.param(hangs_after_bytes, id="hangs after bytes"),
    pytest.param(resets_at_once, id="resets at once"),
    pytest.param(resets_mid_stream, id="resets mid-stream"),
    pytest.param(dies_mid_scan, id="dies mid-scan"),
    pytest.param(responds_after_bytes(bytes(range(1, 256)) + b"\0"), id="garbage"),
    pytest.param(responds(b"HTTP/1.1 200 OK\r\n\r\n\0"), id="another protocol"),
    pytest.param(responds_after_bytes(b"x" * 1_000_000), id="response of 1 MB"),
    pytest.param(responds_after_bytes(b"stream: OK"), id="truncated OK"),
]


@pytest.mark.parametrize("fault", FAULTS)
def test_daemon_fault_is_503_and_uploads_recover(faulty_service: Service, faulty: FaultyClamd, fault: Fault) -> None:
    client = faulty_service.new_client()
    context = client.create_context()
    faulty.fault = fault
    responses = run_concurrently(4, lambda: upload(client, context))
    assert [response.status_code for response in responses] == [503] * 4
    assert {int(response.headers["retry-after"]) >= 1 for response in responses} == {True}
    assert_nothing_stored(client, context)
    faulty.fault = finds_nothing
    assert recovers(client, context)


def test_size_limit_is_scan_incomplete_and_not_an_outage(faulty_service: Service, faulty: FaultyClamd) -> None:
    client = faulty_service.new_client()
    context = client.create_context()
    faulty.fault = reports_limit_mid_stream
    for response in run_concurrently(3, lambda: upload(client, context)):
        assert_rejected(response, "scan_incomplete")
    assert_nothing_stored(client, context)
    faulty.fault = finds_nothing
    assert upload(client, context).status_code == 201


@contextmanager
def running_gate(deployments: Deployments, *addresses: str, **settings: str) -> Iterator[ApiClient]:
    own = {"SCANNER": "clamd", "CLAMD": ",".join(addresses)}
    with running_service(deployments.fresh("sqlite-local"), **(SHORT_TIMEOUTS | settings | own)) as service:
        yield service.new_client()


def assert_virus_is_rejected(client: ApiClient, context: str) -> None:
    assert_rejected(upload(client, context, infected=True), "virus_detected")


def test_stopped_clamd_is_503_until_it_is_restarted(deployments: Deployments, tmp_path: Path) -> None:
    with running_members(tmp_path, 1) as (member,), running_gate(deployments, member.address) as client:
        context = client.create_context()
        assert upload(client, context).status_code == 201
        member.stop()
        responses = run_concurrently(4, lambda: upload(client, context, infected=True))
        assert [response.status_code for response in responses] == [503] * 4
        assert len(client.object_keys()) == 1
        member.start()
        assert recovers(client, context)
        assert_virus_is_rejected(client, context)


def test_clamd_killed_under_load_lets_no_file_pass_unscanned(deployments: Deployments, tmp_path: Path) -> None:
    with (
        running_members(tmp_path, 1) as (member,),
        running_gate(deployments, member.address) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        context = client.create_context()
        upload(client, context)
        responses = [threads.submit(upload, client, context) for _ in range(40)]
        responses[5].result()
        member.kill()
        member.start()
        codes = [response.result().status_code for response in responses]
        assert set(codes) <= {201, 503}
        assert recovers(client, context)
        assert_virus_is_rejected(client, context)
        scans = [row["facts"]["scanned"]["outcome"] for row in client.decisions() if row["outcome"] == "accepted"]
        assert scans == ["clean"] * len(client.object_keys())


def test_uploads_succeed_with_one_of_three_clamds_down(deployments: Deployments, tmp_path: Path) -> None:
    with (
        running_members(tmp_path, 3) as members,
        running_gate(deployments, *(member.address for member in members)) as client,
    ):
        context = client.create_context()
        assert upload(client, context).status_code == 201
        members[1].kill()
        responses = run_concurrently(12, lambda: upload(client, context))
        assert [response.status_code for response in responses] == [201] * 12
        assert_virus_is_rejected(client, context)
        members[1].start()
        since = len(client.decisions())

        def is_used_again() -> bool:
            run_concurrently(6, lambda: upload(client, context))
            return members[1].address in {row["facts"]["scanned"]["member"] for row in client.decisions()[since:]}

        assert until(is_used_again)


@pytest.mark.timeout(900)
def test_no_file_passes_unscanned_during_signature_reload(deployments: Deployments, tmp_path: Path) -> None:
    # The harder case: clamd does not scan during the reload, which waits until idle threads have ended.
    options = {"ConcurrentDatabaseReload": "no", "IdleTimeout": "3"}
    with (
        running_members(tmp_path, 1, options) as (member,),
        running_gate(deployments, member.address, CLAMD_SCAN_SECONDS="60") as client,
        ThreadPoolExecutor(8) as threads,
    ):
        context = client.create_context()
        assert client.upload("a.png", noise_png(0), context=context).status_code == 201
        database_of(SIGNATURES, tmp_path / "clamd-0" / "db" / "many")
        assert member.send("RELOAD") == b"RELOADING\0"
        codes: list[tuple[bool, int]] = []

        def upload_numbered(number: int) -> None:
            infected = number % 5 == 0
            response = client.upload("a.png", noise_png(number, infected=infected), context=context)
            codes.append((infected, response.status_code))

        rounds = itertools.count(1)
        while "Database correctly reloaded" not in member.log and len(codes) < 100_000:
            list(threads.map(upload_numbered, [next(rounds) for _ in range(16)]))
        assert {code for infected, code in codes if infected} <= {400, 503}
        assert {code for infected, code in codes if not infected} <= {201, 503}
        assert recovers(client, context)
        assert_virus_is_rejected(client, context)
        reasons = {row["reason"] for row in client.decisions() if row["outcome"] == "rejected"}
        assert reasons == {"virus_detected"}
