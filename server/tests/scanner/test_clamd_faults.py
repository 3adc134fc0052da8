"""The `clamd` scanner with faulty daemons: the result is never clean, never infected, and arrives in time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sluice.kit.health import EngineState
from sluice.scanner import Clean, EngineVersion, Incomplete, ScannerUnavailable
from sluice.scanner.clamd.member import HealthPolicy
from sluice.scanner.clamd.scanner import ClamdScanner
from sluice_inspect.sandbox.sealed import Sealed
from tests.rows import each_row
from tests.scanner.conftest import Seal, scanned
from tests.scanner.faulty_clamd import (
    Fault,
    Peer,
    dies_mid_scan,
    faulty_clamd,
    hangs,
    hangs_after_bytes,
    read_stream,
    reports_limit_mid_stream,
    resets_at_once,
    resets_mid_stream,
    responds,
    responds_after_bytes,
    responds_slowly,
)
from tests.scanner.in_process_sandbox import InProcessSandbox
from tests.servers import free_port

SMALL, LARGE = b"x" * 100, b"x" * 8_000_000
SCAN_SECONDS = 1.5
SLACK_SECONDS = 4.0  # because the machine may be busy
OK = b"stream: OK\0"
finds_nothing = responds_after_bytes(OK)


def impatient_scanner(*addresses: str, check_seconds: float = 10.0, **options: Any) -> ClamdScanner:
    policy = HealthPolicy(check_interval=check_seconds, retry_interval=5.0, dead_after=1.0)
    waits = {"connect_seconds": 1.0, "stall_seconds": 0.2, "base_seconds": SCAN_SECONDS, "bytes_per_second": 1e9}
    given: dict[str, Any] = waits | {"largest_bytes": 2**20, "concurrency": 8} | options
    return ClamdScanner(addresses, InProcessSandbox(), health_policy=policy, **given)


async def assert_in_time(scanning: Awaitable[object], seconds: float = SCAN_SECONDS) -> object:
    started = time.monotonic()
    result = await scanning
    assert time.monotonic() - started < seconds + SLACK_SECONDS
    return result


async def becomes_true(holds: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Return whether `holds` becomes true in time, by background work of the scanner."""
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:  # noqa: ASYNC110  (background work sets no event)
        await asyncio.sleep(0.005)
    return holds()


SCAN_TIME = "Heuristics.Limits.Exceeded.MaxScanTime"
FAULTS = [
    pytest.param(hangs, id="hangs before the bytes"),
    pytest.param(hangs_after_bytes, id="hangs after the bytes"),
    pytest.param(resets_at_once, id="resets at once"),
    pytest.param(resets_mid_stream, id="resets mid-stream"),
    pytest.param(dies_mid_scan, id="dies mid-scan"),
    pytest.param(responds_slowly, id="one byte at a time"),
    pytest.param(responds_after_bytes(b""), id="no response"),
    pytest.param(responds_after_bytes(b"\0"), id="empty response"),
    pytest.param(responds_after_bytes(bytes(range(1, 256)) + b"\0"), id="garbage"),
    pytest.param(responds_after_bytes(b"x" * 1_000_000), id="response of 1 MB"),
    pytest.param(responds_after_bytes(b"stream: OK"), id="truncated OK"),
    pytest.param(responds_after_bytes(b"stream: OK\n"), id="OK with newline framing"),
    pytest.param(responds_after_bytes(b"stream: OK\0stream: OK\0"), id="two responses"),
    pytest.param(responds_after_bytes(b"OK\0"), id="OK without stream"),
    pytest.param(responds_after_bytes(b"other: OK\0"), id="OK of another stream"),
    pytest.param(responds_after_bytes(b"stream: FOUND\0"), id="threat without name"),
    pytest.param(responds_after_bytes(b"stream: Thr\xc3\xa9at FOUND\0"), id="invalid threat name"),
    pytest.param(responds_after_bytes(b"stream: " + b"x" * 300 + b" FOUND\0"), id="threat name too long"),
    pytest.param(responds_after_bytes(b"UNKNOWN COMMAND\0"), id="unknown command"),
    pytest.param(responds_after_bytes(b"stream: Can't allocate memory ERROR\0"), id="out of memory"),
    pytest.param(responds(b"COMMAND READ TIMED OUT\0"), id="timed out"),
]


@each_row("data", [pytest.param(SMALL, id="small"), pytest.param(LARGE, id="large")])
@each_row("fault", FAULTS)
async def test_fault_during_scan_is_unavailable(fault: Fault, data: bytes, seal: Seal) -> None:
    async with faulty_clamd(fault) as daemon:
        result = await assert_in_time(scanned(impatient_scanner(daemon.address), seal(data)))
    assert isinstance(result, ScannerUnavailable)
    assert daemon.address in result.why


@each_row("response", [OK, b"stream: Eicar FOUND\0"])
async def test_verdict_before_all_bytes_were_sent_is_unavailable(response: bytes, seal: Seal) -> None:
    async with faulty_clamd(responds(response)) as daemon:
        result = await assert_in_time(scanned(impatient_scanner(daemon.address), seal(LARGE)))
    assert isinstance(result, ScannerUnavailable)


@each_row("fault", [hangs, resets_at_once, responds(b""), responds(b"HTTP/1.1 400 Bad Request\r\n\r\n\0")])
async def test_fault_before_scan_is_unavailable_and_down(fault: Fault, seal: Seal) -> None:
    async with faulty_clamd(finds_nothing) as daemon:
        daemon.on_version = fault
        scanner = impatient_scanner(daemon.address)
        assert isinstance(await assert_in_time(scanned(scanner, seal(SMALL))), ScannerUnavailable)
        assert (await scanner.health()).state is EngineState.DOWN


async def test_refused_connection_is_unavailable_and_down(seal: Seal) -> None:
    scanner = impatient_scanner(f"tcp:127.0.0.1:{free_port()}")
    result = await assert_in_time(scanned(scanner, seal(SMALL)))
    assert isinstance(result, ScannerUnavailable)
    assert "Connection refused" in result.why
    assert (await scanner.health()).state is EngineState.DOWN
    assert (scanner.scan_limit, scanner.engine_version) == (None, None)


@each_row(
    "fault, why",
    [
        (reports_limit_mid_stream, "INSTREAM size limit exceeded"),
        (responds_after_bytes(b"stream: (null) FOUND\0"), "(null)"),
        (responds_after_bytes(f"stream: {SCAN_TIME} FOUND\0".encode()), SCAN_TIME),
        (responds_after_bytes(b"stream: Exceeded time limit ERROR\0"), "stream: Exceeded time limit"),
    ],
)
async def test_daemon_limit_is_incomplete(fault: Fault, why: str, seal: Seal) -> None:
    async with faulty_clamd(fault) as daemon:
        result = await assert_in_time(scanned(impatient_scanner(daemon.address), seal(LARGE)))
    assert isinstance(result, Incomplete)
    assert result.why == why


async def test_slow_scan_is_awaited_while_daemon_replies_to_pings(seal: Seal) -> None:
    done = asyncio.Event()

    async def scan_slowly(peer: Peer) -> None:
        await read_stream(peer)
        await done.wait()
        await peer.send(OK)

    async def finish_at_third_ping(peer: Peer) -> None:
        await peer.send(b"PONG\0")
        if daemon.commands.count("PING") == 3:
            done.set()

    async with faulty_clamd(scan_slowly) as daemon, faulty_clamd(hangs) as other:
        daemon.on_ping = finish_at_third_ping
        scanner = impatient_scanner(daemon.address, other.address, stall_seconds=0.1, base_seconds=20)
        await scanner.start()
        assert isinstance(await scanned(scanner, seal(SMALL)), Clean)


async def test_daemon_without_ping_response_is_abandoned_for_another(seal: Seal) -> None:
    async with faulty_clamd(hangs) as hung, faulty_clamd(finds_nothing) as healthy:
        hung.on_ping = hangs
        scanner = impatient_scanner(hung.address, healthy.address, base_seconds=20)
        await scanner.start()
        assert isinstance(await assert_in_time(scanned(scanner, seal(SMALL)), seconds=2), Clean)
        health = await scanner.health()
        assert health.state is EngineState.DEGRADED
        assert "shows no sign of life" in health.detail


async def test_only_daemon_is_awaited_even_without_ping_response(seal: Seal) -> None:
    loaded = asyncio.Event()

    async def load_signatures(peer: Peer) -> None:
        await loaded.wait()
        await read_stream(peer)
        await peer.send(OK)

    async with faulty_clamd(load_signatures) as daemon:
        daemon.on_ping = hangs
        scanner = impatient_scanner(daemon.address, stall_seconds=0.1, base_seconds=20)
        scan = asyncio.create_task(scanned(scanner, seal(SMALL)))
        _, waiting = await asyncio.wait({scan}, timeout=1)
        assert waiting
        loaded.set()
        assert isinstance(await scan, Clean)


async def test_daemon_without_version_response_is_slow_until_it_replies(seal: Seal) -> None:
    loaded = asyncio.Event()

    async with faulty_clamd(finds_nothing) as loading, faulty_clamd(finds_nothing) as healthy:
        scanner = impatient_scanner(loading.address, healthy.address, check_seconds=0.05)
        await scanner.start()

        async def respond_late(peer: Peer) -> None:
            await loaded.wait()
            loading.on_version = None
            await peer.send(b"%d: %s\0" % (loading.commands.count("VERSION"), loading.version))

        loading.on_version = respond_late
        assert await becomes_true(lambda: not scanner.is_responsive(0))
        assert [type(await scanned(scanner, seal(SMALL))) for _ in range(3)] == [Clean] * 3
        assert "INSTREAM" not in loading.commands
        loaded.set()
        assert await becomes_true(lambda: scanner.is_responsive(0))


async def test_failed_daemon_is_out_of_service_until_it_recovers(seal: Seal) -> None:
    async with faulty_clamd(dies_mid_scan) as failing, faulty_clamd(finds_nothing) as healthy:
        scanner = impatient_scanner(failing.address, healthy.address)
        assert isinstance(await scanned(scanner, seal(SMALL)), Clean)
        failing.fault = finds_nothing
        assert await becomes_true(lambda: scanner.is_responsive(0))
        await asyncio.gather(*(scanned(scanner, seal(LARGE)) for _ in range(4)))
        assert failing.commands.count("INSTREAM") > 1


async def test_repeatedly_failing_daemon_is_retried_less_and_less_often(seal: Seal) -> None:
    async with faulty_clamd(dies_mid_scan) as failing, faulty_clamd(finds_nothing) as healthy:
        scanner = impatient_scanner(failing.address, healthy.address)
        for _ in range(40):
            assert isinstance(await scanned(scanner, seal(SMALL)), Clean)
            await asyncio.sleep(0.02)  # gives the daemon time to come back into service
    assert failing.commands.count("INSTREAM") < 8


async def test_restarted_daemon_and_new_database_are_probed_before_they_scan(seal: Seal) -> None:
    async with faulty_clamd(finds_nothing) as daemon:
        scanner = impatient_scanner(daemon.address)
        await scanner.start()
        daemon.finds_eicar = False
        daemon.hang_up()
        assert await becomes_true(lambda: not scanner.is_responsive(0))
        result = await scanned(scanner, seal(SMALL))
        assert isinstance(result, ScannerUnavailable)
        assert "does not find the EICAR test virus" in result.why
        daemon.finds_eicar = True
        assert await becomes_true(lambda: scanner.is_responsive(0))
    async with faulty_clamd(finds_nothing) as daemon:
        scanner = impatient_scanner(daemon.address, check_seconds=0.02)
        await scanner.start()
        daemon.finds_eicar, daemon.version = False, b"ClamAV 1.4.6/27501/Tue Jan  6 09:00:00 2026"
        assert await becomes_true(lambda: not scanner.is_responsive(0))
        assert isinstance(await scanned(scanner, seal(SMALL)), ScannerUnavailable)


@each_row("transport", ["tcp", "unix"])
async def test_daemon_that_misses_eicar_is_never_used(transport: str, tmp_path: Path, seal: Seal) -> None:
    socket_path = tmp_path / "clamd.sock" if transport == "unix" else None
    async with faulty_clamd(finds_nothing, socket_path=socket_path) as daemon:
        daemon.finds_eicar = False
        scanner = impatient_scanner(daemon.address)
        assert isinstance(await scanned(scanner, seal(SMALL)), ScannerUnavailable)
        health = await scanner.health()
        assert (health.state, daemon.commands.count("INSTREAM")) == (EngineState.DOWN, 0)
        assert "EICAR" in health.detail


async def test_bytes_are_streamed_when_descriptor_is_refused_or_misses_eicar(tmp_path: Path, seal: Seal) -> None:
    async def refuse_descriptors(peer: Peer) -> None:
        if daemon.commands[-1] == "FILDES":
            await peer.send(b"fd[9]: Not a regular file ERROR\0")
            return
        streamed.append(await read_stream(peer))
        await peer.send(OK)

    streamed: list[bytes] = []
    async with faulty_clamd(refuse_descriptors, socket_path=tmp_path / "clamd.sock") as daemon:
        result = await impatient_scanner(daemon.address).scan(seal(SMALL), tenant_id="ten_1")
    assert isinstance(result, Clean)
    assert streamed == [SMALL]
    async with faulty_clamd(finds_nothing, socket_path=tmp_path / "other.sock") as daemon:
        daemon.on_descriptor = responds(b"fd[9]: OK\0")  # the response of clamd for a file that it may not read
        assert isinstance(await scanned(impatient_scanner(daemon.address), seal(SMALL)), Clean)
        assert "INSTREAM" in daemon.commands


@each_row("fault", [hangs, resets_at_once, responds(b"fd[9]: OK"), responds(b"x" * 1_000_000), responds(b"")])
async def test_fault_after_descriptor_is_unavailable(fault: Fault, tmp_path: Path, seal: Seal) -> None:
    async with faulty_clamd(fault, socket_path=tmp_path / "clamd.sock") as daemon:
        result = await assert_in_time(scanned(impatient_scanner(daemon.address), seal(LARGE)))
    assert isinstance(result, ScannerUnavailable)


async def test_streamed_bytes_arrive_complete_and_in_order(seal: Seal) -> None:
    data = bytes(range(1, 256)) * 4000 + b"end"
    received: list[bytes] = []

    async def keep_bytes(peer: Peer) -> None:
        received.append(await read_stream(peer))
        await peer.send(OK)

    async with faulty_clamd(keep_bytes) as daemon:
        scanner = impatient_scanner(daemon.address)
        for part in (data, b"", data[:65_536], data[:262_144], data[:262_145]):
            assert isinstance(await scanned(scanner, seal(part)), Clean)
    assert received == [data, b"", data[:65_536], data[:262_144], data[:262_145]]


async def test_truncated_bytes_are_never_clean(seal: Seal) -> None:
    sealed = seal(SMALL)
    async with faulty_clamd(finds_nothing) as daemon:
        truncated = Sealed(sealed.fd, 300_000, sealed.sha256)
        result = await assert_in_time(scanned(impatient_scanner(daemon.address), truncated))
    assert isinstance(result, ScannerUnavailable)


async def test_results_name_engine_current_signatures_and_daemon(seal: Seal) -> None:
    async with faulty_clamd(finds_nothing) as daemon:
        scanner = impatient_scanner(daemon.address, check_seconds=0.02)
        first = await scanned(scanner, seal(SMALL))
        daemon.version = b"ClamAV 1.4.6/27501/Tue Jan  6 09:00:00 2026"
        assert await becomes_true(lambda: scanner.engine_version == EngineVersion("clamd 1.4.6", "27501"))
        second = await scanned(scanner, seal(SMALL))
        assert (await scanner.health()).version == "ClamAV 1.4.6/27501"
    assert isinstance(first, Clean)
    assert isinstance(second, Clean)
    assert (first.engine, first.signatures, second.signatures) == ("clamd 1.4.6", "27500", "27501")
    assert first.member == daemon.address


async def test_engine_version_has_no_signatures_when_database_is_unnumbered(seal: Seal) -> None:
    async with faulty_clamd(finds_nothing) as one, faulty_clamd(finds_nothing) as other:
        one.version = other.version = b"ClamAV 1.4.6"
        scanner = impatient_scanner(one.address, other.address, check_seconds=0.02)
        await scanner.start()
        result = await scanned(scanner, seal(SMALL))
        assert isinstance(result, Clean)
        assert (result.engine, result.signatures) == ("clamd 1.4.6", "")
        assert scanner.engine_version == EngineVersion("clamd 1.4.6", "")
        assert (await scanner.health()).limits["signatures"] == "unknown"
        other.version = b"ClamAV 1.5.0"
        assert await becomes_true(lambda: scanner.engine_version is None)


async def test_old_signatures_degrade_health(seal: Seal) -> None:
    async with faulty_clamd(finds_nothing) as daemon:
        built = datetime(2026, 1, 5, 9, tzinfo=UTC)
        health = await impatient_scanner(daemon.address, clock=lambda: built + timedelta(days=8)).health()
        assert health.state is EngineState.DEGRADED
        assert "signatures are older than 7 days" in health.detail
        assert health.limits["signature_age_hours"] == 8 * 24
        young = impatient_scanner(daemon.address, clock=lambda: built + timedelta(days=6))
        assert (await young.health()).state is EngineState.UP


@each_row("reports_limits", [True, False])
async def test_largest_fully_scanned_size_of_all_daemons_is_measured(*, reports_limits: bool) -> None:
    async with faulty_clamd(finds_nothing) as daemon, faulty_clamd(finds_nothing) as larger:
        daemon.reports_limits, daemon.max_bytes = reports_limits, 3 * 2**20 + 5
        scanner = ClamdScanner([larger.address, daemon.address], InProcessSandbox(), largest_bytes=9 * 2**20)
        await scanner.start()
        await scanner.find_scan_limit(10)
        assert scanner.scan_limit == 3 * 2**20
        assert (await scanner.health()).limits["scanned_bytes"] == 3 * 2**20


async def test_concurrent_scans_do_not_exceed_slots(seal: Seal) -> None:
    under_way, most = 0, 0
    two = asyncio.Event()

    async def count_scans(peer: Peer) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == 2:
            two.set()
        await two.wait()
        await read_stream(peer)
        under_way -= 1
        await peer.send(OK)

    async with faulty_clamd(count_scans) as daemon:
        scanner = impatient_scanner(daemon.address, concurrency=2, base_seconds=20)
        sealed = seal(SMALL)
        results = await asyncio.gather(*(scanned(scanner, sealed) for _ in range(8)))
    assert {type(result) for result in results} == {Clean}
    assert most == 2


async def test_scan_without_free_slot_in_time_is_unavailable(seal: Seal) -> None:
    async with faulty_clamd(hangs) as daemon:
        scanner = impatient_scanner(daemon.address, concurrency=1, base_seconds=0.3)
        results = await asyncio.gather(*(scanned(scanner, seal(SMALL)) for _ in range(3)))
    assert [type(result) for result in results] == [ScannerUnavailable] * 3


async def test_cancelled_scan_releases_its_slot(seal: Seal) -> None:
    scanning = asyncio.Event()

    async def hang_once(peer: Peer) -> None:
        if not scanning.is_set():
            scanning.set()
            await hangs(peer)
        await read_stream(peer)
        await peer.send(OK)

    async with faulty_clamd(hang_once) as daemon:
        scanner = impatient_scanner(daemon.address, concurrency=1, base_seconds=20)
        scan = asyncio.create_task(scanned(scanner, seal(SMALL)))
        await scanning.wait()
        scan.cancel()
        with pytest.raises(asyncio.CancelledError):
            await scan
        assert isinstance(await scanned(scanner, seal(SMALL)), Clean)


async def test_scan_waits_while_socket_backlog_is_full(tmp_path: Path, seal: Seal) -> None:
    async with faulty_clamd(responds(b"fd[9]: OK\0"), socket_path=tmp_path / "clamd.sock") as daemon:
        scanner = impatient_scanner(daemon.address, concurrency=300, base_seconds=20, connect_seconds=20)
        await scanned(scanner, seal(SMALL))
        results = await asyncio.gather(*(scanned(scanner, seal(SMALL)) for _ in range(300)))
    assert {type(result) for result in results} == {Clean}


INVALID = [
    "",
    "unix:",
    "unix:relative",
    "tcp:host",
    "tcp::3310",
    *(f"tcp:host:{port}" for port in ["0", "70000", "x"]),
    "/run/c",
]


@each_row("addresses", [[], *([text] for text in INVALID)])
def test_invalid_address_is_refused(addresses: list[str]) -> None:
    with pytest.raises(ValueError, match="unix:/path or tcp:host:port" if addresses else "at least one address"):
        ClamdScanner(addresses, InProcessSandbox())
