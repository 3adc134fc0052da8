"""The engine `clamd` before daemons that misbehave: never clean, never infected, and an answer in time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sluice.engines.scanner import Clean, Edition, Incomplete, Unavailable
from sluice.engines.scanner.clamd import ClamdScanner
from sluice.engines.scanner.clamd_member import Care
from sluice.kit.health import EngineState
from sluice.kit.sealed import Sealed
from tests.engines.scanner.conftest import Seal
from tests.engines.scanner.faulty_clamd import (
    Fault,
    Peer,
    answering,
    dies_mid_scan,
    faulty_clamd,
    hangs,
    hangs_after_the_bytes,
    hearing_out,
    resets_at_once,
    resets_mid_stream,
    says_limit_and_resets,
    take_all,
    trickles,
)
from tests.engines.scanner.twin import InProcessSandbox
from tests.servers import free_port

SMALL, LARGE = b"x" * 100, b"x" * 8_000_000
WHOLE_SECONDS = 1.5
SLACK_SECONDS = 4.0  # for a busy machine
OK = b"stream: OK\0"


def hasty(
    *addresses: str,
    stall_seconds: float = 0.2,
    base_seconds: float = WHOLE_SECONDS,
    look_seconds: float = 10.0,
    rest_seconds: float = 5.0,
    concurrency: int = 8,
    connect_seconds: float = 1.0,
) -> ClamdScanner:
    return ClamdScanner(
        addresses,
        InProcessSandbox(),
        connect_seconds=connect_seconds,
        stall_seconds=stall_seconds,
        base_seconds=base_seconds,
        bytes_per_second=1e9,
        concurrency=concurrency,
        care=Care(look=look_seconds, rest=rest_seconds, give_up=1.0),
        largest_bytes=2**20,
    )


async def in_time(scanning: Awaitable[object], seconds: float = WHOLE_SECONDS) -> object:
    started = time.monotonic()
    result = await scanning
    assert time.monotonic() - started < seconds + SLACK_SECONDS
    return result


async def until(holds: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Wait for something that happens in the background of the scanner."""
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:  # noqa: ASYNC110  (what is waited for sets no event)
        await asyncio.sleep(0.005)
    return holds()


FAULTS = [
    pytest.param(hangs, id="hangs before the bytes"),
    pytest.param(hangs_after_the_bytes, id="hangs after the bytes"),
    pytest.param(resets_at_once, id="resets at once"),
    pytest.param(resets_mid_stream, id="resets mid-stream"),
    pytest.param(dies_mid_scan, id="dies mid-scan"),
    pytest.param(trickles, id="answers a letter at a time"),
    pytest.param(hearing_out(b""), id="nothing"),
    pytest.param(hearing_out(b"\0"), id="an empty answer"),
    pytest.param(hearing_out(bytes(range(1, 256)) + b"\0"), id="garbage"),
    pytest.param(hearing_out(b"x" * 1_000_000), id="a megabyte"),
    pytest.param(hearing_out(b"stream: OK"), id="a cut OK"),
    pytest.param(hearing_out(b"stream: OK\n"), id="OK in the other framing"),
    pytest.param(hearing_out(b"stream: OK\0stream: OK\0"), id="two answers"),
    pytest.param(hearing_out(b"OK\0"), id="OK of nothing"),
    pytest.param(hearing_out(b"other: OK\0"), id="OK of something else"),
    pytest.param(hearing_out(b"stream: FOUND\0"), id="a threat without a name"),
    pytest.param(hearing_out(b"stream: Thr\xc3\xa9at FOUND\0"), id="a name that is none"),
    pytest.param(hearing_out(b"stream: " + b"x" * 300 + b" FOUND\0"), id="a name without end"),
    pytest.param(hearing_out(b"UNKNOWN COMMAND\0"), id="an unknown command"),
    pytest.param(hearing_out(b"stream: Can't allocate memory ERROR\0"), id="out of memory"),
    pytest.param(answering(b"COMMAND READ TIMED OUT\0"), id="timed out"),
]


@pytest.mark.parametrize("data", [pytest.param(SMALL, id="small"), pytest.param(LARGE, id="large")])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_during_the_scan_is_unavailable(fault: Fault, data: bytes, seal: Seal) -> None:
    async with faulty_clamd(fault) as daemon:
        result = await in_time(hasty(daemon.address).scan(seal(data), tenant_id="ten_1"))
    assert isinstance(result, Unavailable)
    assert daemon.address in result.why


@pytest.mark.parametrize("answer", [OK, b"stream: Eicar FOUND\0"])
async def test_a_verdict_on_bytes_that_were_not_all_sent_is_not_believed(answer: bytes, seal: Seal) -> None:
    async with faulty_clamd(answering(answer)) as daemon:
        result = await in_time(hasty(daemon.address).scan(seal(LARGE), tenant_id="ten_1"))
    assert isinstance(result, Unavailable)


@pytest.mark.parametrize("fault", [hangs, resets_at_once, answering(b""), answering(b"HTTP/1.1 400 Bad Request\r\n\r\n\0")])
async def test_a_fault_before_the_scan_is_unavailable_and_down(fault: Fault, seal: Seal) -> None:
    async with faulty_clamd(hearing_out(OK)) as daemon:
        daemon.at_version = fault
        scanner = hasty(daemon.address)
        assert isinstance(await in_time(scanner.scan(seal(SMALL), tenant_id="ten_1")), Unavailable)
        assert (await scanner.health()).state is EngineState.DOWN


async def test_a_refused_connection_is_unavailable_and_down(seal: Seal) -> None:
    scanner = hasty(f"tcp:127.0.0.1:{free_port()}")
    result = await in_time(scanner.scan(seal(SMALL), tenant_id="ten_1"))
    assert isinstance(result, Unavailable)
    assert "Connection refused" in result.why
    assert (await scanner.health()).state is EngineState.DOWN


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (says_limit_and_resets, "INSTREAM size limit exceeded"),
        (hearing_out(b"stream: (null) FOUND\0"), "(null)"),
        (hearing_out(b"stream: Heuristics.Limits.Exceeded.MaxScanTime FOUND\0"), "Heuristics.Limits.Exceeded.MaxScanTime"),
        (hearing_out(b"stream: Exceeded time limit ERROR\0"), "stream: Exceeded time limit"),
    ],
)
async def test_a_limit_of_the_daemon_is_incomplete(fault: Fault, why: str, seal: Seal) -> None:
    async with faulty_clamd(fault) as daemon:
        result = await in_time(hasty(daemon.address).scan(seal(LARGE), tenant_id="ten_1"))
    assert isinstance(result, Incomplete)
    assert result.why == why


async def test_a_daemon_that_thinks_for_long_is_waited_for_while_it_lives(seal: Seal) -> None:
    done = asyncio.Event()

    async def thinks(peer: Peer) -> None:
        await take_all(peer)
        await done.wait()
        await peer.say(OK)

    async def is_done_at_the_third_ping(peer: Peer) -> None:
        await peer.say(b"PONG\0")
        if daemon.commands.count("PING") == 3:
            done.set()

    async with faulty_clamd(thinks) as daemon, faulty_clamd(hangs) as other:
        daemon.at_ping = is_done_at_the_third_ping
        scanner = hasty(daemon.address, other.address, stall_seconds=0.1, base_seconds=20)
        await scanner.start()
        assert isinstance(await scanner.scan(seal(SMALL), tenant_id="ten_1"), Clean)


async def test_a_daemon_that_shows_no_life_is_left_for_another_before_the_deadline(seal: Seal) -> None:
    async with faulty_clamd(hangs) as hung, faulty_clamd(hearing_out(OK)) as well:
        hung.at_ping = hangs
        scanner = hasty(hung.address, well.address, base_seconds=20)
        await scanner.start()
        assert isinstance(await in_time(scanner.scan(seal(SMALL), tenant_id="ten_1"), seconds=2), Clean)
        health = await scanner.health()
        assert health.state is EngineState.DEGRADED
        assert "shows no sign of life" in health.detail


async def test_the_only_daemon_is_waited_for_although_it_shows_no_life_as_while_it_loads_signatures(seal: Seal) -> None:
    loaded = asyncio.Event()

    async def loads(peer: Peer) -> None:
        await loaded.wait()
        await take_all(peer)
        await peer.say(OK)

    async with faulty_clamd(loads) as daemon:
        daemon.at_ping = hangs
        scanner = hasty(daemon.address, stall_seconds=0.1, base_seconds=20)
        scan = asyncio.create_task(scanner.scan(seal(SMALL), tenant_id="ten_1"))
        _, waiting = await asyncio.wait({scan}, timeout=1)
        assert waiting
        loaded.set()
        assert isinstance(await scan, Clean)


async def test_a_daemon_that_does_not_answer_version_is_slow_and_comes_back(seal: Seal) -> None:
    loaded = asyncio.Event()

    async with faulty_clamd(hearing_out(OK)) as loading, faulty_clamd(hearing_out(OK)) as well:
        scanner = hasty(loading.address, well.address, look_seconds=0.05)
        await scanner.start()

        async def answers_late(peer: Peer) -> None:
            await loaded.wait()
            loading.at_version = None
            await peer.say(b"%d: %s\0" % (loading.commands.count("VERSION"), loading.version))

        loading.at_version = answers_late
        assert await until(lambda: not scanner.is_quick(0))
        assert [type(await scanner.scan(seal(SMALL), tenant_id="ten_1")) for _ in range(3)] == [Clean] * 3
        assert "INSTREAM" not in loading.commands
        loaded.set()
        assert await until(lambda: scanner.is_quick(0))


async def test_a_daemon_that_failed_is_out_of_service_until_it_is_well_again(seal: Seal) -> None:
    async with faulty_clamd(dies_mid_scan) as failing, faulty_clamd(hearing_out(OK)) as well:
        scanner = hasty(failing.address, well.address)
        assert isinstance(await scanner.scan(seal(SMALL), tenant_id="ten_1"), Clean)
        failing.fault = hearing_out(OK)
        assert await until(lambda: scanner.is_quick(0))
        await asyncio.gather(*(scanner.scan(seal(LARGE), tenant_id="ten_1") for _ in range(4)))
        assert failing.commands.count("INSTREAM") > 1


async def test_a_daemon_that_keeps_failing_is_left_alone_for_longer_and_longer(seal: Seal) -> None:
    async with faulty_clamd(dies_mid_scan) as failing, faulty_clamd(hearing_out(OK)) as well:
        scanner = hasty(failing.address, well.address)
        for _ in range(40):
            assert isinstance(await scanner.scan(seal(SMALL), tenant_id="ten_1"), Clean)
            await asyncio.sleep(0.02)  # time in which it may come back; none of it is waited for
    assert failing.commands.count("INSTREAM") < 8


async def test_a_daemon_that_was_restarted_is_probed_before_it_scans_again(seal: Seal) -> None:
    async with faulty_clamd(hearing_out(OK)) as daemon:
        scanner = hasty(daemon.address)
        await scanner.start()
        daemon.finds_test_virus = False
        daemon.hang_up()
        assert await until(lambda: not scanner.is_quick(0))
        result = await scanner.scan(seal(SMALL), tenant_id="ten_1")
        assert isinstance(result, Unavailable)
        assert "does not find the EICAR test virus" in result.why
        daemon.finds_test_virus = True
        assert await until(lambda: scanner.is_quick(0))


@pytest.mark.parametrize("way", ["tcp", "unix"])
async def test_a_daemon_that_does_not_find_the_test_virus_is_never_asked(way: str, tmp_path: Path, seal: Seal) -> None:
    async with faulty_clamd(hearing_out(OK), socket_path=tmp_path / "clamd.sock" if way == "unix" else None) as daemon:
        daemon.finds_test_virus = False
        scanner = hasty(daemon.address)
        assert isinstance(await scanner.scan(seal(SMALL), tenant_id="ten_1"), Unavailable)
        health = await scanner.health()
        assert (health.state, daemon.commands.count("INSTREAM")) == (EngineState.DOWN, 0)
        assert "EICAR" in health.detail


async def test_a_descriptor_that_cannot_be_read_is_followed_by_the_bytes(tmp_path: Path, seal: Seal) -> None:
    async def refuses_descriptors(peer: Peer) -> None:
        if daemon.commands[-1] == "FILDES":
            await peer.say(b"fd[9]: Not a regular file ERROR\0")
            return
        streamed.append(await take_all(peer))
        await peer.say(OK)

    streamed: list[bytes] = []
    async with faulty_clamd(refuses_descriptors, socket_path=tmp_path / "clamd.sock") as daemon:
        result = await hasty(daemon.address).scan(seal(SMALL), tenant_id="ten_1")
    assert isinstance(result, Clean)
    assert streamed == [SMALL]


async def test_a_daemon_that_finds_nothing_behind_descriptors_is_sent_the_bytes(tmp_path: Path, seal: Seal) -> None:
    async with faulty_clamd(hearing_out(OK), socket_path=tmp_path / "clamd.sock") as daemon:
        daemon.at_descriptor = answering(b"fd[9]: OK\0")  # what clamd says of a file that it may not read
        scanner = hasty(daemon.address)
        assert isinstance(await scanner.scan(seal(SMALL), tenant_id="ten_1"), Clean)
        assert "INSTREAM" in daemon.commands


@pytest.mark.parametrize("fault", [hangs, resets_at_once, answering(b"fd[9]: OK"), answering(b"x" * 1_000_000), answering(b"")])
async def test_a_fault_after_a_descriptor_is_unavailable(fault: Fault, tmp_path: Path, seal: Seal) -> None:
    async with faulty_clamd(fault, socket_path=tmp_path / "clamd.sock") as daemon:
        result = await in_time(hasty(daemon.address).scan(seal(LARGE), tenant_id="ten_1"))
    assert isinstance(result, Unavailable)


async def test_bytes_arrive_whole_and_in_order(seal: Seal) -> None:
    data = bytes(range(1, 256)) * 4000 + b"end"
    received: list[bytes] = []

    async def keeps(peer: Peer) -> None:
        received.append(await take_all(peer))
        await peer.say(OK)

    async with faulty_clamd(keeps) as daemon:
        scanner = hasty(daemon.address)
        for part in (data, b"", data[:65_536], data[:262_144], data[:262_145]):
            assert isinstance(await scanner.scan(seal(part), tenant_id="ten_1"), Clean)
    assert received == [data, b"", data[:65_536], data[:262_144], data[:262_145]]


async def test_bytes_that_end_early_are_never_clean(seal: Seal) -> None:
    whole = seal(SMALL)
    async with faulty_clamd(hearing_out(OK)) as daemon:
        result = await in_time(hasty(daemon.address).scan(Sealed(whole.fd, 300_000, whole.sha256), tenant_id="ten_1"))
    assert isinstance(result, Unavailable)


async def test_results_carry_engine_signatures_and_address_and_follow_a_new_database(seal: Seal) -> None:
    async with faulty_clamd(hearing_out(OK)) as daemon:
        scanner = hasty(daemon.address, look_seconds=0.02)
        first = await scanner.scan(seal(SMALL), tenant_id="ten_1")
        daemon.version = b"ClamAV 1.4.6/27501/Tue Jan  6 09:00:00 2026"
        assert await until(lambda: scanner.edition == Edition("clamd 1.4.6", "27501"))
        second = await scanner.scan(seal(SMALL), tenant_id="ten_1")
        assert (await scanner.health()).version == "ClamAV 1.4.6/27501"
    assert isinstance(first, Clean)
    assert isinstance(second, Clean)
    assert (first.engine, first.signatures, second.signatures) == ("clamd 1.4.6", "27500", "27501")
    assert first.member == daemon.address


async def test_signatures_without_a_number_leave_the_engine_and_our_rules_as_the_edition(seal: Seal) -> None:
    async with faulty_clamd(hearing_out(OK)) as one, faulty_clamd(hearing_out(OK)) as other:
        one.version = other.version = b"ClamAV 1.4.6"
        scanner = hasty(one.address, other.address, look_seconds=0.02)
        await scanner.start()
        result = await scanner.scan(seal(SMALL), tenant_id="ten_1")
        assert isinstance(result, Clean)
        assert scanner.edition == Edition(result.engine, result.signatures) == Edition("clamd 1.4.6", "")
        assert (await scanner.health()).limits["signatures"] == "unknown"
        other.version = b"ClamAV 1.5.0"
        assert await until(lambda: scanner.edition is None)


async def test_a_new_database_is_probed_before_it_is_trusted(seal: Seal) -> None:
    async with faulty_clamd(hearing_out(OK)) as daemon:
        scanner = hasty(daemon.address, look_seconds=0.02)
        await scanner.start()
        daemon.finds_test_virus, daemon.version = False, b"ClamAV 1.4.6/27501/Tue Jan  6 09:00:00 2026"
        assert await until(lambda: not scanner.is_quick(0))
        assert isinstance(await scanner.scan(seal(SMALL), tenant_id="ten_1"), Unavailable)


async def test_old_signatures_are_told(seal: Seal) -> None:
    async with faulty_clamd(hearing_out(OK)) as daemon:
        built = datetime(2026, 1, 5, 9, tzinfo=UTC)
        scanner = ClamdScanner([daemon.address], InProcessSandbox(), largest_bytes=2**20, clock=lambda: built + timedelta(days=8))
        health = await scanner.health()
        assert health.state is EngineState.DEGRADED
        assert "signatures are older than 7 days" in health.detail
        assert health.limits["signature_age_hours"] == 8 * 24
        young = ClamdScanner([daemon.address], InProcessSandbox(), largest_bytes=2**20, clock=lambda: built + timedelta(days=6))
        assert (await young.health()).state is EngineState.UP


@pytest.mark.parametrize("names_limits", [True, False])
async def test_the_largest_file_that_is_scanned_to_its_end_is_found_out(names_limits: bool) -> None:  # noqa: FBT001  (a parameter of the test)
    async with faulty_clamd(hearing_out(OK)) as daemon:
        daemon.names_limits, daemon.largest = names_limits, 3 * 2**20 + 5
        scanner = ClamdScanner([daemon.address], InProcessSandbox(), largest_bytes=9 * 2**20)
        await scanner.start()
        await scanner.find_reach(10)
        assert scanner.reach == 3 * 2**20
        assert (await scanner.health()).limits["scanned_bytes"] == 3 * 2**20


async def test_the_smallest_reach_of_all_daemons_counts() -> None:
    async with faulty_clamd(hearing_out(OK)) as large, faulty_clamd(hearing_out(OK)) as small:
        small.largest = 2 * 2**20
        scanner = ClamdScanner([large.address, small.address], InProcessSandbox(), largest_bytes=4 * 2**20)
        await scanner.start()
        await scanner.find_reach(10)
        assert scanner.reach == 2 * 2**20


async def test_the_reach_is_unknown_while_no_daemon_is_in_service() -> None:
    scanner = hasty(f"tcp:127.0.0.1:{free_port()}")
    await scanner.start()
    assert (scanner.reach, scanner.edition) == (None, None)


async def test_no_more_scans_are_under_way_than_places(seal: Seal) -> None:
    under_way, most = 0, 0
    two = asyncio.Event()

    async def counts(peer: Peer) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == 2:
            two.set()
        await two.wait()
        await take_all(peer)
        under_way -= 1
        await peer.say(OK)

    async with faulty_clamd(counts) as daemon:
        scanner = hasty(daemon.address, concurrency=2, base_seconds=20)
        sealed = seal(SMALL)
        results = await asyncio.gather(*(scanner.scan(sealed, tenant_id="ten_1") for _ in range(8)))
    assert {type(result) for result in results} == {Clean}
    assert most == 2


async def test_no_free_place_in_time_is_unavailable(seal: Seal) -> None:
    async with faulty_clamd(hangs) as daemon:
        scanner = hasty(daemon.address, concurrency=1, base_seconds=0.3)
        results = await asyncio.gather(*(scanner.scan(seal(SMALL), tenant_id="ten_1") for _ in range(3)))
    assert [type(result) for result in results] == [Unavailable] * 3


async def test_a_cancelled_scan_gives_its_place_back(seal: Seal) -> None:
    scanning = asyncio.Event()

    async def hangs_once(peer: Peer) -> None:
        if not scanning.is_set():
            scanning.set()
            await hangs(peer)
        await take_all(peer)
        await peer.say(OK)

    async with faulty_clamd(hangs_once) as daemon:
        scanner = hasty(daemon.address, concurrency=1, base_seconds=20)
        scan = asyncio.create_task(scanner.scan(seal(SMALL), tenant_id="ten_1"))
        await scanning.wait()
        scan.cancel()
        with pytest.raises(asyncio.CancelledError):
            await scan
        assert isinstance(await scanner.scan(seal(SMALL), tenant_id="ten_1"), Clean)


async def test_a_full_backlog_is_waited_for(tmp_path: Path, seal: Seal) -> None:
    async with faulty_clamd(answering(b"fd[9]: OK\0"), socket_path=tmp_path / "clamd.sock") as daemon:
        scanner = hasty(daemon.address, concurrency=300, base_seconds=20, connect_seconds=20)
        await scanner.scan(seal(SMALL), tenant_id="ten_1")
        results = await asyncio.gather(*(scanner.scan(seal(SMALL), tenant_id="ten_1") for _ in range(300)))
    assert {type(result) for result in results} == {Clean}


@pytest.mark.parametrize(
    "text", ["", "unix:", "unix:relative", "tcp:host", "tcp::3310", "tcp:host:0", "tcp:host:70000", "tcp:host:x", "/run/clamd"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unix:/path or tcp:host:port"):
        ClamdScanner([text], InProcessSandbox())


def test_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one address"):
        ClamdScanner([], InProcessSandbox())
