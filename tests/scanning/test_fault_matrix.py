"""The fault matrix, over HTTP, a row each: no file passes unscanned, none is called infected, the answer comes in time, uploads recover.

What the engine itself makes of many more answers is in tests/engines/scanner/test_clamd_faults.py.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.api.answers import rejected
from tests.api.places import Places
from tests.engines.scanner.faulty_clamd import (
    Fault,
    FaultyClamd,
    answering,
    dies_mid_scan,
    hangs,
    hangs_after_the_bytes,
    hearing_out,
    resets_at_once,
    resets_mid_stream,
    says_limit_and_resets,
)
from tests.gate import Gate, Service, running_service
from tests.length import amount
from tests.scanning.daemons import daemon_in_thread, finds_nothing
from tests.scanning.members import running_members
from tests.scanning.pictures import noise
from tests.scanning.signatures import database_of
from tests.scanning.waiting import until

DEADLINE = 4.0
SLACK = 6.0  # for the rest of an upload, on a busy machine
SIGNATURES = amount("SIGNATURES", short=60_000, whole=1_500_000)
"""Of the row that reloads them."""
HASTY = {"CLAMD_CONNECT_SECONDS": "1", "CLAMD_STALL_SECONDS": "0.5", "CLAMD_SCAN_SECONDS": str(DEADLINE)}
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def faulty() -> Iterator[FaultyClamd]:
    with daemon_in_thread(finds_nothing) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def at_faulty(places: Places, faulty: FaultyClamd) -> Iterator[Service]:
    with running_service(places.fresh("sqlite-local"), SCANNER="clamd", CLAMD=faulty.address, **HASTY) as service:
        yield service


def upload(gate: Gate, context: str, *, infected: bool = False) -> httpx.Response:
    """Upload a picture that was never uploaded before; the answer must come in time."""
    number = next(_numbers)
    began = time.monotonic()
    answer = gate.upload(f"{number}.png", noise(number, infected=infected), context=context)
    assert time.monotonic() - began < DEADLINE + SLACK
    return answer


def at_once(count: int, act: Callable[[], httpx.Response]) -> list[httpx.Response]:
    with ThreadPoolExecutor(count) as threads:
        return [answer.result() for answer in [threads.submit(act) for _ in range(count)]]


def recovers(gate: Gate, context: str) -> bool:
    return until(lambda: upload(gate, context).status_code == 201)


def nothing_happened(gate: Gate, context: str) -> None:
    assert (gate.used(context), gate.objects()) == (0, set())
    assert "virus_detected" not in {row["reason"] for row in gate.decisions()}


ROWS = [
    pytest.param(hangs, id="accepts and hangs"),
    pytest.param(hangs_after_the_bytes, id="takes the bytes and hangs"),
    pytest.param(resets_at_once, id="resets at once"),
    pytest.param(resets_mid_stream, id="resets mid-stream"),
    pytest.param(dies_mid_scan, id="dies mid-scan"),
    pytest.param(hearing_out(bytes(range(1, 256)) + b"\0"), id="garbage"),
    pytest.param(answering(b"HTTP/1.1 200 OK\r\n\r\n\0"), id="another protocol"),
    pytest.param(hearing_out(b"x" * 1_000_000), id="an answer of 1 MB"),
    pytest.param(hearing_out(b"stream: OK"), id="an OK that is cut off"),
]


@pytest.mark.parametrize("fault", ROWS)
def test_a_fault_of_the_daemon_is_503_in_time_and_uploads_recover(at_faulty: Service, faulty: FaultyClamd, fault: Fault) -> None:
    gate = at_faulty.new_gate()
    context = gate.context()
    faulty.fault = fault
    answers = at_once(4, lambda: upload(gate, context))
    assert [answer.status_code for answer in answers] == [503] * 4
    assert {int(answer.headers["retry-after"]) >= 1 for answer in answers} == {True}
    nothing_happened(gate, context)
    faulty.fault = finds_nothing
    assert recovers(gate, context)


def test_a_size_limit_is_not_fully_scanned_and_nothing_recovers_from_it_since_nothing_is_broken(
    at_faulty: Service, faulty: FaultyClamd
) -> None:
    gate = at_faulty.new_gate()
    context = gate.context()
    faulty.fault = says_limit_and_resets
    for answer in at_once(3, lambda: upload(gate, context)):
        rejected(answer, "scan_incomplete")
    nothing_happened(gate, context)
    faulty.fault = finds_nothing
    assert upload(gate, context).status_code == 201


@contextmanager
def served(places: Places, *addresses: str, **settings: str) -> Iterator[Gate]:
    with running_service(
        places.fresh("sqlite-local"), SCANNER="clamd", CLAMD=",".join(addresses), **{**HASTY, **settings}
    ) as service:
        yield service.new_gate()


def holds_for_a_virus(gate: Gate, context: str) -> None:
    rejected(upload(gate, context, infected=True), "virus_detected")


def test_one_that_refuses_connections_is_503_until_it_is_back(places: Places, tmp_path: Path) -> None:
    with running_members(tmp_path, 1) as (member,), served(places, member.address) as gate:
        context = gate.context()
        assert upload(gate, context).status_code == 201
        member.end()
        answers = at_once(4, lambda: upload(gate, context, infected=True))
        assert [answer.status_code for answer in answers] == [503] * 4
        assert len(gate.objects()) == 1
        member.start()
        assert recovers(gate, context)
        holds_for_a_virus(gate, context)


def test_one_that_is_killed_under_load_and_restarted_loses_no_scan(places: Places, tmp_path: Path) -> None:
    with running_members(tmp_path, 1) as (member,), served(places, member.address) as gate, ThreadPoolExecutor(8) as threads:
        context = gate.context()
        upload(gate, context)
        answers = [threads.submit(upload, gate, context) for _ in range(40)]
        answers[5].result()
        member.kill()
        member.start()
        codes = [answer.result().status_code for answer in answers]
        assert set(codes) <= {201, 503}
        assert recovers(gate, context)
        holds_for_a_virus(gate, context)
        scans = [row["facts"]["scanned"]["outcome"] for row in gate.decisions() if row["outcome"] == "accepted"]
        assert scans == ["clean"] * len(gate.objects())


def test_with_one_of_three_down_every_upload_passes(places: Places, tmp_path: Path) -> None:
    with running_members(tmp_path, 3) as members, served(places, *(member.address for member in members)) as gate:
        context = gate.context()
        assert upload(gate, context).status_code == 201
        members[1].kill()
        answers = at_once(12, lambda: upload(gate, context))
        assert [answer.status_code for answer in answers] == [201] * 12
        holds_for_a_virus(gate, context)
        members[1].start()
        since = len(gate.decisions())

        def is_asked_again() -> bool:
            at_once(6, lambda: upload(gate, context))
            return members[1].address in {row["facts"]["scanned"]["member"] for row in gate.decisions()[since:]}

        assert until(is_asked_again)


@pytest.mark.timeout(900)
def test_while_signatures_are_loaded_under_load_nothing_passes_unscanned(places: Places, tmp_path: Path) -> None:
    options = {"ConcurrentDatabaseReload": "no"}  # the harder case: scans stand still meanwhile
    with (
        running_members(tmp_path, 1, options) as (member,),
        served(places, member.address, CLAMD_SCAN_SECONDS="60") as gate,
        ThreadPoolExecutor(8) as threads,
    ):
        context = gate.context()
        assert gate.upload("a.png", noise(0), context=context).status_code == 201
        database_of(SIGNATURES, tmp_path / "clamd-0" / "db" / "many")
        assert member.say("RELOAD") == b"RELOADING\0"
        codes: list[tuple[bool, int]] = []

        def one(number: int) -> None:
            infected = number % 5 == 0
            answer = gate.upload("a.png", noise(number, infected=infected), context=context)
            codes.append((infected, answer.status_code))

        rounds = itertools.count(1)
        while "Database correctly reloaded" not in member.log and len(codes) < 100_000:
            list(threads.map(one, [next(rounds) for _ in range(16)]))
        assert {code for infected, code in codes if infected} <= {400, 503}
        assert {code for infected, code in codes if not infected} <= {201, 503}
        assert recovers(gate, context)
        holds_for_a_virus(gate, context)
        reasons = {row["reason"] for row in gate.decisions() if row["outcome"] == "rejected"}
        assert reasons == {"virus_detected"}
