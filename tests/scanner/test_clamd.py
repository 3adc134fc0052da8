"""The `clamd` scanner with a real clamd: verdicts, limits, encrypted files, several daemons, health."""

import asyncio
import gzip
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.kit.health import EngineState
from sluice.scanner import Clean, Incomplete, Infected, ScannerUnavailable
from sluice.scanner.clamd.scanner import ClamdScanner
from sluice_inspect.threats.scan import scan_source
from tests.inspection.threats.packed_files import EICAR, zipped
from tests.rows import each_row
from tests.scanner.conftest import Seal
from tests.scanner.in_process_sandbox import InProcessSandbox
from tests.servers import free_port, missing
from tests.servers.clamd import Clamd, running_clamd

TESTFILES = Path("/usr/share/clamav-testfiles")
FOUND_BY_HASH = (
    "clam.exe",
    "clam.zip",
    "clam.tar.gz",
    "clam.cab",
    "clam.exe.bz2",
    "clam.7z",
    "clam.chm",
    "clam.mail",
    "clam.ole.doc",
    "clam.pdf",
)
TRANSPORTS = ("unix", "tcp")


def address_of(server: Clamd, transport: str) -> str:
    return server.address if transport == "unix" else server.tcp_address


def deeply_nested() -> bytes:
    data = b"deep"
    for _ in range(40):
        data = gzip.compress(data)
    return data


def mark_encrypted(data: bytes) -> bytes:
    """Mark the first member of a zip archive as encrypted."""
    changed = bytearray(data)
    changed[6] |= 1
    changed[changed.index(b"PK\x01\x02") + 8] |= 1
    return bytes(changed)


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
@each_row("name", FOUND_BY_HASH)
async def test_clamav_test_files_are_infected(clamd: Clamd, seal: Seal, name: str, transport: str) -> None:
    if not (TESTFILES / name).is_file():
        missing(name, apt="clamav-testfiles")
    result = await ClamdScanner([address_of(clamd, transport)], InProcessSandbox()).scan(
        seal((TESTFILES / name).read_bytes()), tenant_id="ten_1"
    )
    assert isinstance(result, Infected)
    assert result.threat == "ClamAV-Test-File.UNOFFICIAL"
    assert result.engine.startswith("clamd 1.")


@each_row("transport", TRANSPORTS)
async def test_file_over_size_limit_is_incomplete(small_clamd: Clamd, seal: Seal, transport: str) -> None:
    result = await ClamdScanner([address_of(small_clamd, transport)], InProcessSandbox()).scan(
        seal(random.Random(1).randbytes(9_000_000)), tenant_id="ten_1"
    )
    assert isinstance(result, Incomplete)
    assert result.why == (
        "Heuristics.Limits.Exceeded.MaxFileSize" if transport == "unix" else "INSTREAM size limit exceeded"
    )


@each_row("transport", TRANSPORTS)
async def test_file_over_recursion_limit_is_incomplete(clamd: Clamd, seal: Seal, transport: str) -> None:
    result = await ClamdScanner([address_of(clamd, transport)], InProcessSandbox()).scan(
        seal(deeply_nested()), tenant_id="ten_1"
    )
    assert isinstance(result, Incomplete)
    assert result.why == "Heuristics.Limits.Exceeded.MaxRecursion"


async def test_encrypted_member_is_clean_by_default_and_incomplete_by_policy(clamd: Clamd, seal: Seal) -> None:
    sealed = seal(mark_encrypted(zipped({"secret": random.Random(1).randbytes(99)})))
    assert isinstance(await ClamdScanner([clamd.address], InProcessSandbox()).scan(sealed, tenant_id="ten_1"), Clean)
    result = await ClamdScanner([clamd.address], InProcessSandbox(), encrypted="incomplete").scan(
        sealed, tenant_id="ten_1"
    )
    assert isinstance(result, Incomplete)
    assert result.why == "Heuristics.Encrypted.Zip"


async def test_encrypted_member_does_not_hide_threat(clamd: Clamd, seal: Seal) -> None:
    sealed = seal(mark_encrypted(zipped({"secret": random.Random(1).randbytes(99), "b": EICAR})))
    assert isinstance(await ClamdScanner([clamd.address], InProcessSandbox()).scan(sealed, tenant_id="ten_1"), Infected)


async def test_encrypted_member_does_not_hide_exceeded_limit(clamd: Clamd, seal: Seal) -> None:
    sealed = seal(mark_encrypted(zipped({"secret": random.Random(1).randbytes(99), "b": deeply_nested()})))
    scanner = ClamdScanner([clamd.address], InProcessSandbox())
    results = [await scanner.scan(sealed, tenant_id="ten_1") for _ in range(20)]
    assert {type(result) for result in results} == {Incomplete}, results


async def test_clamd_without_limit_alerts_is_believed_up_to_its_scan_limit(
    clamd_without_alerts: Clamd, seal: Seal
) -> None:
    scanner = ClamdScanner([clamd_without_alerts.address], InProcessSandbox(), largest_bytes=64 * 2**20)
    assert isinstance(await scanner.scan(seal(bytes(2**20)), tenant_id="ten_1"), Clean)
    await scanner.find_scan_limit(60)
    assert isinstance(await scanner.scan(seal(bytes(25 * 2**20)), tenant_id="ten_1"), Clean)
    result = await scanner.scan(seal(bytes(25 * 2**20 + 1)), tenant_id="ten_1")
    assert isinstance(result, Incomplete)
    assert "AlertExceedsMax" in result.why
    assert not scanner.reports_limits
    health = await scanner.health()
    assert (health.state, health.detail) == (EngineState.UP, "")


async def test_clamd_that_scans_less_than_a_megabyte_is_unavailable(tmp_path: Path, seal: Seal) -> None:
    for name in ("MaxFileSize", "MaxScanSize"):
        with running_clamd(tmp_path / name, {name: "500K"}) as daemon:
            scanner = ClamdScanner([daemon.address], InProcessSandbox())
            result = await scanner.scan(seal(b"x"), tenant_id="ten_1")
            assert isinstance(result, ScannerUnavailable)
            assert "does not scan a file of 1 MB to its end" in result.why
            health = await scanner.health()
            assert health.state is EngineState.DOWN
            assert "see MaxFileSize" in health.detail
            await scanner.aclose()


async def test_clamd_without_archive_scanning_is_unavailable(tmp_path: Path, seal: Seal) -> None:
    with running_clamd(tmp_path, {"ScanArchive": "no"}) as daemon:
        scanner = ClamdScanner([daemon.address], InProcessSandbox())
        result = await scanner.scan(seal(b"x"), tenant_id="ten_1")
        assert isinstance(result, ScannerUnavailable)
        assert "does not find the EICAR test virus inside a zip" in result.why
        assert (await scanner.health()).state is EngineState.DOWN
        await scanner.aclose()


async def test_scan_uses_another_daemon_when_some_are_unreachable(clamd: Clamd, seal: Seal, tmp_path: Path) -> None:
    unreachable = [f"unix:{tmp_path}/none.sock", f"tcp:127.0.0.1:{free_port()}"]
    scanner = ClamdScanner([*unreachable, clamd.address], InProcessSandbox())
    assert isinstance(await scanner.scan(seal(EICAR), tenant_id="ten_1"), Infected)
    health = await scanner.health()
    assert health.state is EngineState.DEGRADED
    assert "No such file" in health.detail
    assert "refused" in health.detail


async def test_scans_survive_the_end_of_one_daemon(clamd: Clamd, seal: Seal, tmp_path: Path) -> None:
    with running_clamd(tmp_path) as other:
        scanner = ClamdScanner([other.address, clamd.address], InProcessSandbox(), concurrency=4)
        sealed = [seal(os.urandom(3_000_000)) for _ in range(8)]
        scans = [asyncio.create_task(scanner.scan(one, tenant_id="ten_1")) for one in sealed]
        await asyncio.wait(scans, return_when=asyncio.FIRST_COMPLETED)
    results = await asyncio.gather(*scans)
    assert {type(result) for result in results} == {Clean}


async def test_restarted_daemon_is_used_again(tmp_path: Path, seal: Seal) -> None:
    with running_clamd(tmp_path) as server:
        scanner = ClamdScanner([server.address], InProcessSandbox())
        assert isinstance(await scanner.scan(seal(EICAR), tenant_id="ten_1"), Infected)
    assert isinstance(await scanner.scan(seal(EICAR), tenant_id="ten_1"), ScannerUnavailable)
    with running_clamd(tmp_path):
        assert isinstance(await scanner.scan(seal(EICAR), tenant_id="ten_1"), Infected)


@each_row("transport", TRANSPORTS)
async def test_scan_limit_is_measured(small_clamd: Clamd, transport: str) -> None:
    scanner = ClamdScanner([address_of(small_clamd, transport)], InProcessSandbox(), largest_bytes=8 * 2**20)
    await scanner.start()
    await scanner.find_scan_limit(20)
    assert scanner.scan_limit == 2**20


async def test_scan_limit_is_measured_without_limit_alerts(clamd_without_alerts: Clamd) -> None:
    scanner = ClamdScanner([clamd_without_alerts.address], InProcessSandbox(), largest_bytes=100 * 2**20)
    await scanner.start()
    await scanner.find_scan_limit(20)
    assert scanner.scan_limit == 25 * 2**20


async def test_concurrent_scans_get_their_own_results(clamd: Clamd, seal: Seal) -> None:
    scanner = ClamdScanner([clamd.tcp_address, clamd.address], InProcessSandbox(), concurrency=5)
    sealed = [seal(EICAR if number % 3 == 0 else b"clean %d" % number) for number in range(60)]
    results = await asyncio.gather(*(scanner.scan(one, tenant_id="ten_1") for one in sealed))
    assert [isinstance(result, Infected) for result in results] == [number % 3 == 0 for number in range(60)]
    assert {type(result) for result in results} == {Clean, Infected}


async def test_clamd_host_is_resolved_by_name(clamd: Clamd, seal: Seal) -> None:
    scanner = ClamdScanner([f"tcp:localhost:{clamd.port}"], InProcessSandbox())
    assert isinstance(await scanner.scan(seal(EICAR), tenant_id="ten_1"), Infected)


async def test_closed_scanner_is_unavailable(clamd: Clamd, seal: Seal) -> None:
    scanner = ClamdScanner([clamd.address], InProcessSandbox())
    await scanner.aclose()
    assert await scanner.scan(seal(b"x"), tenant_id="ten_1") == ScannerUnavailable("the scanner was closed", "clamd")


async def test_close_leaves_no_descriptor_open(clamd: Clamd, seal: Seal) -> None:
    sealed = seal(EICAR)
    scan_source(sealed.fd, "")  # libraries that the builtin scan loads keep their descriptors
    before = open_descriptors()
    scanner = ClamdScanner([clamd.address, clamd.tcp_address], InProcessSandbox(), largest_bytes=2**20)
    for _ in range(5):
        await scanner.scan(sealed, tenant_id="ten_1")
    await scanner.aclose()
    async with asyncio.timeout(20):
        # the event loop closes the descriptors of connections a little later
        while open_descriptors() != before:  # noqa: ASYNC110  (a closed descriptor sets no event)
            await asyncio.sleep(0.01)
