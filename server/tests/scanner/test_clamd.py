"""The `clamd` scanner with a real clamd: verdicts, limits, encrypted files, several daemons, health."""

import asyncio
import gzip
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.kit.health import EngineState
from sluice.scanner import Clean, Incomplete, Infected, ScannerUnavailable
from sluice.scanner.clamd.scanner import ClamdScanner
from sluice_inspect.threats.scan import scan_source
from tests.inspection.threats.packed_files import EICAR, mark_encrypted, zipped
from tests.required import missing
from tests.rows import each_row, every_row
from tests.scanner.conftest import Seal, scanned
from tests.scanner.in_process_sandbox import InProcessSandbox
from tests.servers import free_port
from tests.servers.clamd import Clamd, running_clamd

TESTFILES = Path("/usr/share/clamav-testfiles")
KINDS = ("exe", "zip", "tar.gz", "cab", "exe.bz2", "7z", "chm", "mail", "ole.doc", "pdf")
TRANSPORTS = ("unix", "tcp")


def address_of(server: Clamd, transport: str) -> str:
    return server.address if transport == "unix" else server.tcp_address


def scanner_of(*addresses: str, **options: Any) -> ClamdScanner:
    return ClamdScanner(addresses, InProcessSandbox(), **options)


def deeply_nested() -> bytes:
    data = b"deep"
    for _ in range(40):
        data = gzip.compress(data)
    return data


def open_descriptors() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


@pytest.fixture(scope="module")
def small_clamd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clamd]:
    """A clamd that scans files of at most 1 MiB and reports exceeded limits."""
    with running_clamd(tmp_path_factory.mktemp("small"), {"StreamMaxLength": "1M", "MaxFileSize": "1M"}) as server:
        yield server


@pytest.fixture(scope="module")
def clamd_without_alerts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clamd]:
    """A clamd as distributions configure it: it reports OK when a limit is exceeded."""
    with running_clamd(tmp_path_factory.mktemp("no-alerts"), {"MaxFileSize": "25M", "AlertExceedsMax": "no"}) as server:
        yield server


@each_row("transport", TRANSPORTS)
async def test_clamav_test_files_are_infected(clamd: Clamd, seal: Seal, transport: str) -> None:
    scanner = scanner_of(address_of(clamd, transport))
    with every_row() as row:
        for name in [f"clam.{kind}" for kind in KINDS]:
            if not (TESTFILES / name).is_file():
                missing(name, apt="clamav-testfiles")
            with row(name):
                result = await scanned(scanner, seal((TESTFILES / name).read_bytes()))
                assert isinstance(result, Infected)
                assert result.threat == "ClamAV-Test-File.UNOFFICIAL"
                assert result.engine.startswith("clamd 1.")


@each_row("transport", TRANSPORTS)
async def test_file_over_a_limit_is_incomplete(small_clamd: Clamd, seal: Seal, transport: str) -> None:
    scanner = scanner_of(address_of(small_clamd, transport))
    too_large = await scanned(scanner, seal(random.Random(1).randbytes(9_000_000)))
    assert isinstance(too_large, Incomplete)
    by_descriptor, streamed = "Heuristics.Limits.Exceeded.MaxFileSize", "INSTREAM size limit exceeded"
    assert too_large.why == (by_descriptor if transport == "unix" else streamed)
    too_deep = await scanned(scanner, seal(deeply_nested()))
    assert isinstance(too_deep, Incomplete)
    assert too_deep.why == "Heuristics.Limits.Exceeded.MaxRecursion"


async def test_encrypted_member_is_clean_by_default_and_incomplete_by_policy(clamd: Clamd, seal: Seal) -> None:
    sealed = seal(mark_encrypted(zipped({"secret": random.Random(1).randbytes(99)})))
    assert isinstance(await scanned(scanner_of(clamd.address), sealed), Clean)
    result = await scanned(scanner_of(clamd.address, encrypted="incomplete"), sealed)
    assert isinstance(result, Incomplete)
    assert result.why == "Heuristics.Encrypted.Zip"


async def test_encrypted_member_hides_no_threat_and_no_exceeded_limit(clamd: Clamd, seal: Seal) -> None:
    scanner, secret = scanner_of(clamd.address), random.Random(1).randbytes(99)
    assert isinstance(await scanned(scanner, seal(mark_encrypted(zipped({"secret": secret, "b": EICAR})))), Infected)
    sealed = seal(mark_encrypted(zipped({"secret": secret, "b": deeply_nested()})))
    results = [await scanned(scanner, sealed) for _ in range(20)]
    assert {type(result) for result in results} == {Incomplete}, results


async def test_clamd_without_alerts_is_believed_up_to_its_scan_limit(clamd_without_alerts: Clamd, seal: Seal) -> None:
    scanner = scanner_of(clamd_without_alerts.address, largest_bytes=100 * 2**20)
    assert isinstance(await scanned(scanner, seal(bytes(2**20))), Clean)
    await scanner.find_scan_limit(60)
    assert scanner.scan_limit == 25 * 2**20
    assert isinstance(await scanned(scanner, seal(bytes(25 * 2**20))), Clean)
    result = await scanned(scanner, seal(bytes(25 * 2**20 + 1)))
    assert isinstance(result, Incomplete)
    assert "AlertExceedsMax" in result.why
    assert not scanner.reports_limits
    health = await scanner.health()
    assert (health.state, health.detail) == (EngineState.UP, "")


@each_row(
    "name, value, why, detail",
    [
        ("MaxFileSize", "500K", "does not scan a file of 1 MB to its end", "see MaxFileSize"),
        ("MaxScanSize", "500K", "does not scan a file of 1 MB to its end", "see MaxFileSize"),
        ("ScanArchive", "no", "does not find the EICAR test virus inside a zip", ""),
    ],
)
async def test_clamd_that_does_not_scan_everything_is_unavailable(
    tmp_path: Path, seal: Seal, *, name: str, value: str, why: str, detail: str
) -> None:
    with running_clamd(tmp_path, {name: value}) as daemon:
        scanner = scanner_of(daemon.address)
        result = await scanned(scanner, seal(b"x"))
        assert isinstance(result, ScannerUnavailable)
        assert why in result.why
        health = await scanner.health()
        assert health.state is EngineState.DOWN
        assert detail in health.detail
        await scanner.aclose()


async def test_scan_uses_another_daemon_when_some_are_unreachable(clamd: Clamd, seal: Seal, tmp_path: Path) -> None:
    unreachable = [f"unix:{tmp_path}/none.sock", f"tcp:127.0.0.1:{free_port()}"]
    scanner = scanner_of(*unreachable, clamd.address)
    assert isinstance(await scanned(scanner, seal(EICAR)), Infected)
    health = await scanner.health()
    assert health.state is EngineState.DEGRADED
    assert [word in health.detail for word in ("No such file", "refused")] == [True, True]


async def test_scans_survive_the_end_of_one_daemon(clamd: Clamd, seal: Seal, tmp_path: Path) -> None:
    with running_clamd(tmp_path) as other:
        scanner = scanner_of(other.address, clamd.address, concurrency=4)
        sealed = [seal(os.urandom(3_000_000)) for _ in range(8)]
        scans = [asyncio.create_task(scanned(scanner, one)) for one in sealed]
        await asyncio.wait(scans, return_when=asyncio.FIRST_COMPLETED)
    results = await asyncio.gather(*scans)
    assert {type(result) for result in results} == {Clean}


async def test_restarted_daemon_is_used_again(tmp_path: Path, seal: Seal) -> None:
    with running_clamd(tmp_path) as server:
        scanner = scanner_of(server.address)
        assert isinstance(await scanned(scanner, seal(EICAR)), Infected)
    assert isinstance(await scanned(scanner, seal(EICAR)), ScannerUnavailable)
    with running_clamd(tmp_path):
        assert isinstance(await scanned(scanner, seal(EICAR)), Infected)


@each_row("transport", TRANSPORTS)
async def test_scan_limit_is_measured(small_clamd: Clamd, transport: str) -> None:
    scanner = scanner_of(address_of(small_clamd, transport), largest_bytes=8 * 2**20)
    await scanner.start()
    await scanner.find_scan_limit(20)
    assert scanner.scan_limit == 2**20


async def test_scan_limit_from_before_a_restart_holds_until_it_is_found_again(tmp_path: Path, seal: Seal) -> None:
    with running_clamd(tmp_path, dict.fromkeys(("StreamMaxLength", "MaxFileSize"), "40M")) as server:
        scanner = scanner_of(server.address)
        await scanner.start()
        await scanner.find_scan_limit(20)
    assert isinstance(await scanned(scanner, seal(EICAR)), ScannerUnavailable)
    assert scanner.scan_limit == 40 * 2**20
    with running_clamd(tmp_path, dict.fromkeys(("StreamMaxLength", "MaxFileSize"), "38M")):
        assert isinstance(await scanned(scanner, seal(EICAR)), Infected)
        assert scanner.scan_limit == 40 * 2**20
        await scanner.find_scan_limit(20)
        assert scanner.scan_limit == 38 * 2**20
        await scanner.aclose()


async def test_more_than_32_mb_are_probed_only_when_needed(tmp_path: Path) -> None:
    with running_clamd(tmp_path, {"StreamMaxLength": "40M", "MaxFileSize": "40M"}) as server:
        scanner = scanner_of(server.address)
        await scanner.start()
        await scanner.find_scan_limit(20, 32 * 2**20)
        assert (await scanner.health()).limits["scanned_bytes"] == f"at least {32 * 2**20}"
        await scanner.find_scan_limit(20, 33 * 2**20)
        assert (await scanner.health()).limits["scanned_bytes"] == scanner.scan_limit == 40 * 2**20
        await scanner.aclose()


async def test_concurrent_scans_get_their_own_results(clamd: Clamd, seal: Seal) -> None:
    scanner = scanner_of(clamd.tcp_address, clamd.address, concurrency=5)
    sealed = [seal(EICAR if number % 3 == 0 else b"clean %d" % number) for number in range(60)]
    results = await asyncio.gather(*(scanned(scanner, one) for one in sealed))
    assert [isinstance(result, Infected) for result in results] == [number % 3 == 0 for number in range(60)]
    assert {type(result) for result in results} == {Clean, Infected}


async def test_clamd_host_is_resolved_by_name(clamd: Clamd, seal: Seal) -> None:
    assert isinstance(await scanned(scanner_of(f"tcp:localhost:{clamd.port}"), seal(EICAR)), Infected)


async def test_closed_scanner_is_unavailable_and_leaves_no_descriptor_open(clamd: Clamd, seal: Seal) -> None:
    sealed = seal(EICAR)
    scan_source(sealed.fd, "")  # libraries that the builtin scan loads keep their descriptors
    before = open_descriptors()
    scanner = scanner_of(clamd.address, clamd.tcp_address, largest_bytes=2**20)
    for _ in range(5):
        await scanned(scanner, sealed)
    await scanner.aclose()
    assert await scanned(scanner, sealed) == ScannerUnavailable("the scanner was closed", "clamd")
    async with asyncio.timeout(20):
        # the event loop closes the descriptors of connections a little later
        while open_descriptors() != before:  # noqa: ASYNC110  (a closed descriptor sets no event)
            await asyncio.sleep(0.01)
